"""Planning: from questions and a promise to noise, in public knowledge only."""

from pufferflow.plan.plan import Plan, plan_of
from pufferflow.plan.wanted import Bounds, Wanted, read_promise, read_seconds

__all__ = ["Bounds", "Plan", "Wanted", "plan_of", "read_promise", "read_seconds"]
