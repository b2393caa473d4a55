"""A check of drawn numbers fails if two looks in a row find something, and looks once where nothing is found."""

import numpy as np
import pytest
from alarms import alarms_twice


@pytest.mark.parametrize(
    ("wrong", "found", "looks"),
    [((), None, 1), ((0,), None, 2), ((1,), None, 1), ((0, 1), 1, 2)],
    ids=str,
)
def test_an_alarm_needs_a_second_one(wrong, found, looks):
    """The second look is taken after an alarm only, and what it finds is returned."""
    turns = []

    def look(turn):
        turns.append(turn)
        return [turn] if turn in wrong else []

    assert alarms_twice(look) == ([] if found is None else [found])
    assert turns == list(range(looks))


def test_honest_draws_hardly_ever_alarm_twice_and_wrong_ones_nearly_always():
    """Of 4,000 means of honest draws none is off twice; of those moved by seven deviations nearly all are."""

    def often(moved):
        rng, limit = np.random.default_rng(4), 3.3
        return sum(
            bool(alarms_twice(lambda _: abs(rng.normal(moved)) > limit)) for _ in range(4000)
        )

    assert often(0.0) == 0
    assert often(7.0) >= 3990
