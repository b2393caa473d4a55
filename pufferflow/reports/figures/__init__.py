"""Figures from plain values: published numbers, noise against signal, the worst pair, other bounds, the budget."""
