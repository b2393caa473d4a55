"""The evidence of a plan, an account and a ledger for a report: plain values, stored as JSON beside a release.

No value depends on private data.
"""

from typing import final

import msgspec

from pufferflow.core.errors import UsageError

VERSION = 1
GROUP_PRIVACY = "group privacy"
"""The row of the noise that allows any correlation of the rows of a group."""
ORDINARY = "differential privacy (rows independent)"
"""The row of ordinary differential privacy of one row, which assumes that rows are independent."""


@final
class Atoms(msgspec.Struct, frozen=True):
    """A law of one number for a figure: increasing values and their probabilities."""

    values: tuple[float, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse values without weights by a ValueError, which msgspec converts and `from_json` catches."""
        if len(self.values) != len(self.weights):
            raise ValueError("A law has as many weights as values.")


@final
class WorstPair(msgspec.Struct, frozen=True):
    """The two secrets that are the hardest to hide, and the law of the answer under each, in the unit of the answer.

    `noise`, `scale` and `shape` describe what is added to `answer`. `shape` is the k of a generalized Cauchy noise, the
    epsilon of a staircase, otherwise 0. `epsilon` is the guarantee on the ratio of the two noisy densities, except with
    a probability of `delta`; None for guarantees of another kind. `note` says what the laws are if they are not the
    answer's own: stand-ins for a movement, one number of several, or a coarser picture.
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
    """The noise that one bound needs for the same guarantee; `note` gives the reason where there is none.

    A bound that was not `worked_out` lacked the laws that it needs, and its noise does not characterise it.
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
    """One number to be published; `largest` is the largest absolute value of its answer without noise."""

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

    `epsilon` is its loss if that is one number; `measure` says whether it is an ε, ρ or μ.
    """

    wrong: str
    left: str
    epsilon: float | None = None
    measure: str = "epsilon"


@final
class Memory(msgspec.Struct, frozen=True):
    """How long a row is remembered under a prior: what is `left` of it after each of the `steps`, from 1 down to 0.

    `measure` is a total variation or a correlation. `step` is one step as a user types it, "1" where rows are counted.
    `forgotten` is the number of steps after which 1 % is left, None if that is beyond the range of `steps`.
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
    """The distances between the laws of the answer under two secrets, and the scale for each bound; None if unknown."""

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
class ValueDistances(msgspec.Struct, frozen=True):
    """W_∞ between the laws of the answer under every two values of the secret, at one position under one prior.

    `w_inf[i][j]` belongs to the values i and j; None if they are not paired, or one is impossible there.
    """

    values: tuple[str, ...]
    w_inf: tuple[tuple[float | None, ...], ...]
    prior: str = ""
    position: float | None = None

    def __post_init__(self) -> None:
        """Refuse a table that is not square."""
        if {len(row) for row in self.w_inf} | {len(self.w_inf)} != {len(self.values)}:
            raise ValueError("There is a row and a column for each value.")


@final
class Remarks(msgspec.Struct, frozen=True):
    """Lines under a heading of their own, at the end of the section of a report with this anchor."""

    section: str
    title: str
    lines: tuple[str, ...]


@final
class Odds(msgspec.Struct, frozen=True):
    """The guarantee in odds: they change at most by e^epsilon, up to a probability of `delta`."""

    epsilon: float
    delta: float = 0.0


@final
class Light(msgspec.Struct, frozen=True):
    """A verdict on one risk for the first screen: its colour (green, amber, red), a word, a sentence, and details."""

    risk: str
    colour: str
    word: str
    sentence: str
    details: tuple[str, ...] = ()


@final
class Verdict(msgspec.Struct, frozen=True):
    """How useful the numbers of one output are: the number of groups with this verdict, and of groups without one.

    `half` is half the widest 95 % interval and `signal` the difference it was compared with, if these are known.
    `remedies` says what would make the numbers useful.
    """

    output: str
    useful: int = 0
    weak: int = 0
    useless: int = 0
    unknown: int = 0
    half: float | None = None
    signal: float | None = None
    remedies: str = ""


@final
class FirstScreen(msgspec.Struct, frozen=True):
    """What the person who signs reads first, in plain words.

    It says what is `published`, of `whom`, what is `protected` from which `adversary`, what is not, the odds, and the
    lights.
    """

    published: str
    whom: str
    protected: str
    adversary: str
    unprotected: tuple[str, ...] = ()
    odds: Odds | None = None
    lights: tuple[Light, ...] = ()


@final
class Charge(msgspec.Struct, frozen=True):
    """One release on an account: its time, id and state, and the total loss after it.

    If `at_most`, the total is an upper bound that was proven when the release was charged.
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
    """What an account has spent over time, and its forecast if releases go on as before.

    `ahead` are totals after 1, 2, … further releases. `endless` is the total of a schedule that never ends, None if
    there is none or it is unknown. `fits` is how many further releases fit, None for any number or if unknown. Of very
    many `releases` only some are among the charges, with the first and the last. `why` explains the total. `what_if` is
    what the releases keep together if a prior is wrong.
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
    """The evidence of a plan: explanation, noise, worst pair, other bounds, and what is left if an assumption fails.

    `job`, `period` and `dataset` are its context, if known. `findings` names the outputs with useless numbers
    (`too_noisy` in evidence of older versions), `counts` the outputs that count rows. `remarks` are further lines for
    sections. `distances` are those of the pairs that lie farthest apart, `by_value` those of every two values of the
    secret at the position that decides. `first` is for the person who signs.
    `verdicts` say how useful the numbers of each output are.

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
    by_value: ValueDistances | None = None
    first: FirstScreen | None = None
    verdicts: tuple[Verdict, ...] = ()

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
    """A whole ledger for a report; `fault` says what is wrong if it does not verify."""

    address: str
    head: str
    entries: int
    sound: bool
    accounts: tuple[Budget, ...]
    fault: str = ""
