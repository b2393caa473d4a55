"""Bounds on the loss of a noisy answer, and the least noise that keeps a guarantee (M3–M7, M19, M20)."""
