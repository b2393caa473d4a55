"""Sinks of scheduled jobs beside folders: SQL tables, object stores, Delta and Iceberg tables."""
