"""The exact loss of two noisy laws (M6)."""

from pufferflow.bounds.exact.exact import Exact

__all__ = ["Exact"]
