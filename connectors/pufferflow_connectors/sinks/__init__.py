"""Sinks of scheduled jobs beside folders: tables of SQL databases."""
