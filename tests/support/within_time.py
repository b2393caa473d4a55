"""Time budgets: a property tries as many of its cases as its time allows, and a least number of them always."""

import contextlib
import functools
import time

from hypothesis.errors import StopTest, UnsatisfiedAssumption

PASSED_OVER = (UnsatisfiedAssumption, StopTest)
"""After these Hypothesis goes on to another example: what was assumed does not hold, or no more can be drawn."""
SECONDS = {"nightly": 600, "slow": 60}
"""What the properties of Hypothesis may take by the mark of their test."""
OTHERWISE = 30
LEAST = 10
"""So many examples are tried however long they take."""

cut = []
"""What the test that runs now has left out for want of time; it is listed at the end of the run."""


def within_time(cases, seconds, least):
    """Yield the cases until the time is over, the first `least` of them in any time."""
    cases = list(cases)
    if not 0 < least <= len(cases):
        raise ValueError(f"of {len(cases)} cases at least {least} cannot be tried")
    began = time.monotonic()
    for number, case in enumerate(cases):
        if number >= least and time.monotonic() - began > seconds:
            cut.append(f"{number} of {len(cases)} cases were tried in {seconds} s")
            return
        yield case


@contextlib.contextmanager
def examples_within_time(test, seconds, least=LEAST):
    """Let a property of Hypothesis pass over all further examples when its time is over.

    Once an example has failed all are tried, so that the least failing one is found and fails again.
    """
    inner = test.hypothesis.inner_test
    began = time.monotonic()
    tried = left = 0
    failed = False

    @functools.wraps(inner)
    def limited(*args, **kwargs):
        nonlocal tried, left, failed
        if tried >= least and not failed and time.monotonic() - began > seconds:
            left += 1
            return
        try:
            inner(*args, **kwargs)
        except BaseException as error:
            failed = failed or not isinstance(error, PASSED_OVER)
            raise
        tried += 1

    test.hypothesis.inner_test = limited
    try:
        yield
    finally:
        test.hypothesis.inner_test = inner
        if left:
            cut.append(f"{tried} of {tried + left} examples were tried in {seconds} s")
