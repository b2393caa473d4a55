"""What a plan, an account and a ledger reveal about themselves for a page: plain values, kept as JSON beside a release.

Nothing here depends on a private value.
"""

from typing import final

import msgspec

from pufferflow.errors import UsageError

VERSION = 1
GROUP_PRIVACY = "group privacy"
"""The row of what it costs to know nothing of how the rows of a group depend on each other."""
ORDINARY = "differential privacy (rows independent)"
"""The row of ordinary differential privacy of a row, which takes rows for independent."""


@final
class Atoms(msgspec.Struct, frozen=True):
    """A law of one number, as far as a picture needs it: rising values and their probabilities."""

    values: tuple[float, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse values without weights: msgspec turns a ValueError into its own, which from_json knows."""
        if len(self.values) != len(self.weights):
            raise ValueError("A law has as many weights as values.")


@final
class WorstPair(msgspec.Struct, frozen=True):
    """The two secrets that an answer could give away most easily, and its law under each, in the unit of the answer.

    `noise`, `scale` and `shape` (the k of a generalized Cauchy noise, the epsilon of a staircase, else 0) are what is
    added to `answer`. `epsilon` is the guarantee on the ratio of the two noisy densities, but for a probability of
    `delta`; None for guarantees of another kind. `note` says what the laws are if they are not the answer's own:
    stand-ins for a movement, one number of several, or a coarser picture.
    """

    answer: str
    first: str
    second: str
    mu: Atoms
    nu: Atoms
    noise: str
    scale: float
    shape: float = 0.0
    epsilon: float | None = None
    delta: float = 0.0
    note: str = ""


@final
class BoundRow(msgspec.Struct, frozen=True):
    """What one bound asks for to keep the same guarantee; `note` says why, where it asks for nothing.

    A bound that was not `worked_out` had to do without the laws that it needs; its noise says nothing of the bound.
    """

    bound: str
    query: str
    noise: str
    scale: float | None = None
    expected_error: float | None = None
    times: float | None = None
    certainty: str | None = None
    note: str = ""
    chosen: bool = False
    worked_out: bool = True


@final
class Cell(msgspec.Struct, frozen=True):
    """One number that would be published; `largest` is the largest size that its answer could have without noise."""

    query: str
    group: str
    noise: str
    scale: float
    expected_error: float | None
    interval_95: float | None
    largest: float | None = None


@final
class WhatIf(msgspec.Struct, frozen=True):
    """What is left of the guarantee if an assumption is wrong.

    `epsilon` (ρ, μ) as far as it is one number, `measure`.
    """

    wrong: str
    left: str
    epsilon: float | None = None
    measure: str = "epsilon"


@final
class Memory(msgspec.Struct, frozen=True):
    """How long a row is remembered under a prior: what is `left` of it after so many `steps`, from 1 down to 0.

    `measure` says of what: a total variation or a correlation. `step` is one step as it could be typed, "1" where rows
    are counted. `forgotten` is the number of steps after which 1 % is left, None if that is beyond what was looked at.
    """

    prior: str
    measure: str
    step: str
    steps: tuple[int, ...]
    left: tuple[float, ...]
    forgotten: int | None = None

    def __post_init__(self) -> None:
        """Refuse steps without what is left after them."""
        if len(self.steps) != len(self.left):
            raise ValueError("A memory has as many shares as steps.")


@final
class Distances(msgspec.Struct, frozen=True):
    """How far the laws of the answer lie apart for two secrets, and the scales that bounds ask for; None if unknown."""

    first: str
    second: str
    prior: str
    position: float | None = None
    w_inf: float | None = None
    w_1: float | None = None
    w_2: float | None = None
    near: float | None = None
    gwm: float | None = None
    gawm: float | None = None
    dagwm: float | None = None
    exact: float | None = None
    decides: bool = False
    note: str = ""


@final
class Remarks(msgspec.Struct, frozen=True):
    """Lines for people under a heading of their own, at the end of the section of a page that has this anchor."""

    section: str
    title: str
    lines: tuple[str, ...]


@final
class Charge(msgspec.Struct, frozen=True):
    """One release on an account: when, under which id, whether it was kept, and what all releases told after it.

    If `at_most`, the total is a number that it does not exceed: it was proven when the release was charged.
    """

    number: int
    release: str
    state: str
    at: str
    promise: str
    total: float
    rule: str
    at_most: bool = False


@final
class Budget(msgspec.Struct, frozen=True):
    """What an account has spent over time and will spend if releases go on as before.

    `ahead` are totals after 1, 2, … further releases, `endless` the total of a schedule that never ends (None if there
    is none or nobody can tell), `fits` how many further releases fit (None for any number, or if nobody can tell). Of
    very many `releases` some are among the charges, the first and the last with them. `why` says why so much is spent,
    and `what_if` what the releases keep together if a prior is wrong.
    """

    account: str
    dataset: str
    limit: str
    limit_epsilon: float
    spent: float
    charges: tuple[Charge, ...] = ()
    every: str = ""
    ahead: tuple[float, ...] = ()
    endless: float | None = None
    fits: int | None = None
    rule: str = ""
    note: str = ""
    releases: int = 0
    why: str = ""
    what_if: tuple[WhatIf, ...] = ()


@final
class Evidence(msgspec.Struct, frozen=True):
    """What a plan shows of itself: the sentence to sign, its noise, the worst pair, other bounds, and what could break.

    `job`, `period` and `dataset` say what it is about, where that is known. `findings` says of which outputs the noise
    leaves nothing to see (`too_noisy` in evidence of older versions), `counts` names the outputs that count rows,
    `remarks` are further lines for sections, and `distances` are those of the pairs that lie farthest apart.

    >>> import polars as pl, pufferflow as pf
    >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.Independent())
    >>> plan = pf.protect(pl.DataFrame({"level": [0, 3, 2]}), scenario).private_sum("level").plan(pf.Pure(1.5))
    >>> evidence = plan.evidence()
    >>> evidence.pair.mu.values, evidence.pair.nu.values, evidence.pair.scale
    ((0.0,), (3.0,), 2.0...)
    >>> Evidence.from_json(evidence.to_json()) == evidence
    True
    """

    title: str
    sentence: str
    promise: str
    scenario: str
    assumptions: tuple[str, ...]
    notes: tuple[str, ...]
    cells: tuple[Cell, ...]
    more_cells: int
    pair: WorstPair | None
    pair_note: str
    bounds: tuple[BoundRow, ...]
    what_if: tuple[WhatIf, ...]
    budget: Budget | None = None
    version: int = VERSION
    readings: tuple[str, ...] = ()
    job: str = ""
    period: str = ""
    dataset: str = ""
    promise_in_words: str = ""
    too_noisy: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    counts: tuple[str, ...] = ()
    memory: tuple[Memory, ...] = ()
    remarks: tuple[Remarks, ...] = ()
    distances: tuple[Distances, ...] = ()
    more_distances: int = 0
    distances_unit: str = ""

    def to_json(self) -> bytes:
        """Return the evidence as JSON, which `from_json` reads back unchanged."""
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> "Evidence":
        """Return the evidence that `to_json` wrote."""
        found = None
        try:
            found = msgspec.json.decode(text, type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError, TypeError, ValueError, RecursionError):
            found = None
        if found is None or found.version > VERSION:
            raise UsageError(
                "The evidence is not stored evidence, or was written by a newer pufferflow.",
                allowed="what to_json wrote",
                instead="plan.evidence().to_json()",
            )
        return found


@final
class LedgerFacts(msgspec.Struct, frozen=True):
    """A whole ledger for a page; `fault` says what does not fit if it is not sound."""

    address: str
    head: str
    entries: int
    sound: bool
    accounts: tuple[Budget, ...]
    fault: str = ""
