"""Sinks of scheduled jobs beside folders: SQL tables and object stores."""
