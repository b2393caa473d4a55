"""Time budgets leave cases out and never all of them, and a property that fails does so whatever the time."""

import pytest
import within_time
from hypothesis import assume, given, settings
from hypothesis import strategies as st

EVER = 1e9


def told():
    """Return what was left out, and forget it: the list at the end of the run is not for tests of the list."""
    found, within_time.cut[:] = list(within_time.cut), []
    return found


def test_the_first_cases_are_tried_however_long_they_take():
    """Without any time the least number of cases is tried, and it is told; with enough of it all are."""
    assert list(within_time.within_time(range(9), 0, 4)) == [0, 1, 2, 3]
    assert told() == ["4 of 9 cases were tried in 0 s"]
    assert list(within_time.within_time(range(9), EVER, 4)) == list(range(9))
    assert told() == []


@pytest.mark.parametrize(("cases", "least"), [(3, 0), (3, 4), (0, 1)])
def test_no_property_is_left_without_cases(cases, least):
    """A least number of no cases, or of more than there are, is refused."""
    with pytest.raises(ValueError, match=f"of {cases} cases"):
        list(within_time.within_time(range(cases), 0, least))


def property_of(tried):
    @settings(max_examples=40)
    @given(st.integers())
    def holds(number):
        assume(number % 7 != 3)
        tried.append(number)

    return holds


def test_examples_end_with_the_time():
    """Of a property of Hypothesis the least number of examples is tried, or all; what does not hold is none."""
    for seconds, expected in ((0, 5), (EVER, 40)):
        tried = []
        holds = property_of(tried)
        inner = holds.hypothesis.inner_test
        with within_time.examples_within_time(holds, seconds, least=5):
            holds()
        assert len(tried) == expected
        assert holds.hypothesis.inner_test is inner
    assert [line[:16] for line in told()] == ["5 of 40 examples"]


def test_a_failure_is_a_failure_after_the_time():
    """What fails within the least number of examples fails as it would without a budget, and is made smaller."""
    tried = []

    @given(st.integers())
    def holds(number):
        tried.append(number)
        assert abs(number) < 2

    with within_time.examples_within_time(holds, 0, least=50), pytest.raises(AssertionError):
        holds()
    told()
    assert abs(tried[-1]) == 2


@settings(max_examples=2)
@given(st.integers())
def test_every_property_of_hypothesis_has_a_budget(number):
    """The hook of all tests puts the limit around this one too."""
    assert isinstance(number, int)
    assert (
        "limited"
        in test_every_property_of_hypothesis_has_a_budget.hypothesis.inner_test.__code__.co_name
    )
