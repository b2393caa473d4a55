"""Whether two scenarios are the same, and if not, in what they differ."""

import json
from typing import Any

from pufferflow.errors import Misuse
from pufferflow.scenario import Scenario

_NAMES = {"priors": "prior"}


def read_scenario(given: object) -> Scenario:
    """Return a scenario, or say what was given."""
    if not isinstance(given, Scenario):
        raise Misuse(
            f"The scenario is of type {type(given).__name__}.",
            allowed="a pf.Scenario",
            instead='pf.Scenario(secret=pf.Secret("level", domain=[0, 1, 2]), prior=pf.Independent())',
        )
    return given


def differences(first: Scenario, second: Scenario) -> list[str]:
    """Return the names of the parts in which two scenarios differ.

    >>> import pufferflow as pf
    >>> secret = pf.Secret("level", domain=[0, 1])
    >>> differences(pf.Scenario(secret, pf.Independent()), pf.Scenario(secret, pf.AnyCorrelation(), public="day"))
    ['prior', 'public']
    """
    ours, theirs = _parts(first), _parts(second)
    return [_NAMES.get(name, name) for name in sorted({*ours, *theirs}) if ours.get(name) != theirs.get(name)]


def _parts(scenario: Scenario) -> dict[str, Any]:
    return json.loads(scenario.to_json())
