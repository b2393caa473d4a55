"""Checks of drawn numbers: an alarm counts if draws of their own, made after it, alarm too."""


def alarms_twice(look):
    """Return what `look(1)` finds wrong if `look(0)` finds something wrong too, else nothing.

    Each look draws by itself: the second as much as the first or more, by no seed of it. Where an honest check alarms
    once in 1,000 runs, both do once in a million. What 99 of 100 looks find is found by both 98 times of 100.
    """
    return look(0) and look(1)
