"""Scheduled batches: a file says what is released for every period, and each release happens once."""
