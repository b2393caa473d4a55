"""Fewer cases of one truth in the default run; the slow run has the others."""

import pytest


def thinned(cases, share, *, unpack=False):
    """Leave a share of the cases, evenly spread, to the default run, and mark all others as slow.

    With `unpack` a case is a tuple of the values of several arguments.
    """
    cases = list(cases)
    count = max(1, round(share * len(cases)))
    default = {place * len(cases) // count for place in range(count)}
    return [case if place in default else _slow(case, unpack=unpack) for place, case in enumerate(cases)]


def _slow(case, *, unpack):
    if hasattr(case, "marks"):
        return pytest.param(*case.values, marks=[*case.marks, pytest.mark.slow], id=case.id)
    return pytest.param(*case, marks=pytest.mark.slow) if unpack else pytest.param(case, marks=pytest.mark.slow)
