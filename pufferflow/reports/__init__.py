"""Figures and HTML reports, made from plain values."""
