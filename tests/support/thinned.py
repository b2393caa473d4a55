"""Fewer cases of one truth in the default run; the slow run has more, and the nightly run the others."""

import pytest


def thinned(cases, share, *, slow=1.0, unpack=False):
    """Leave a share of the cases to the default run, and mark others as slow, up to the share `slow`, or as nightly.

    Each share is evenly spread. With `unpack` a case is a tuple of the values of several arguments.
    """
    cases = list(cases)
    default, by_slow = (_spread(len(cases), one) for one in (share, slow))
    return [
        case
        if place in default
        else _marked(case, "slow" if place in by_slow else "nightly", unpack=unpack)
        for place, case in enumerate(cases)
    ]


def nightly(cases, *, but=0.0, unpack=False):
    """Mark cases as nightly, but for an evenly spread share: they repeat what others hold by default or when slow."""
    cases = list(cases)
    left = _spread(len(cases), but) if but else ()
    return [
        case if place in left else _marked(case, "nightly", unpack=unpack)
        for place, case in enumerate(cases)
    ]


def _spread(count, share):
    chosen = max(1, round(share * count))
    return {place * count // chosen for place in range(chosen)}


def _marked(case, name, *, unpack):
    mark = getattr(pytest.mark, name)
    if hasattr(case, "marks"):
        return pytest.param(*case.values, marks=[*case.marks, mark], id=case.id)
    return pytest.param(*case, marks=mark) if unpack else pytest.param(case, marks=mark)
