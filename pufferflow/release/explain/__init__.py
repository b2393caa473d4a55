"""Explanations of a plan: sentences, tables, and the plain values that reports show."""
