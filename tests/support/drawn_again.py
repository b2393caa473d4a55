"""Checks of drawn numbers: an alarm counts if draws of their own, made after it, alarm too."""


def drawn_again(check):
    """Run `check(0)`, and if it fails `check(1)`, which has to draw anew: as much or more, by no seed of the first.

    Where an honest check alarms once in 1,000 runs, this fails once in a million. What is truly wrong, and is found by
    99 of 100 checks, fails 98 times of 100.
    """
    try:
        check(0)
    except AssertionError:
        check(1)
