"""The exact loss of two noisy laws (M6)."""
