"""Pictures, each from plain values: what was published, noise against it, the worst pair, other bounds, the budget."""

__all__ = []
