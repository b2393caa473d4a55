"""The best next release of an account, as a plan: one sum, published through a channel in place of noise (M32).

`account.design(batch)` makes it. The channel has the least expected loss among all that keep the account's limit
together with the past releases; it is released, charged and stored as any other plan.
"""

from pufferflow.designed.plan import DesignedPlan, designed_plan

__all__ = ["DesignedPlan", "designed_plan"]
