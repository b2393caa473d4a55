"""The commands, grouped by topic."""

__all__ = []
