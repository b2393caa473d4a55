"""Queries on a frame, and what they read of the data: aggregates, keys, weights, and sums of one function per cell."""
