"""The first screen of a report, for the person who signs, and the verdicts on outputs that stand there.

Older evidence has no first screen of its own: then what is known of the guarantee stands there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from pufferflow.reports.evidence import Evidence, LedgerFacts, Odds, Verdict
from pufferflow.reports.html import values_of
from pufferflow.reports.numbers import counted, even_odds, fold, plain
from pufferflow.reports.outputs import PublishedColumn
from pufferflow.reports.sections import room_left, spent
from pufferflow.reports.text import lines, phrase

_MOST_OUTPUTS: Final = 3
_MOST_DETAILS: Final = 3
_COLOURS: Final = {"useful": "green", "weak": "amber", "useless": "red"}


@final
@dataclass(frozen=True)
class Judged:
    """How useful the numbers of one output are: a colour and a word for the worst of them; "" if that is unknown."""

    output: str
    colour: str = ""
    word: str = ""
    half: float | None = None
    signal: float | None = None

    @property
    def text(self) -> str:
        """The size of the noise, and the difference by which it was judged."""
        if self.half is None:
            return "has an error bar that depends on the numbers"
        size = f"± {plain(self.half, 3)} in 19 of 20 cases"
        if not self.word or self.signal is None:
            return size
        return f"{size}, judged by a difference of {plain(self.signal, 3)} in the answer"


def judged(verdict: Verdict) -> Judged:
    """Return the worst verdict on the numbers of an output, with how many groups have it.

    >>> judged(Verdict("load", useful=4, weak=3, half=20.0)).word, judged(Verdict("load", useful=1)).word
    ('Weak in 3 of 7 groups', 'Useful')
    """
    counts = {name: getattr(verdict, name) for name in ("useless", "weak", "useful")}
    groups = sum(counts.values()) + verdict.unknown
    worst = next((name for name, count in counts.items() if count), "")
    word = worst.capitalize()
    if worst and counts[worst] < groups:
        word += f" in {counts[worst]:,} of {counted(groups, 'group')}"
    return Judged(verdict.output, _COLOURS.get(worst, ""), word, verdict.half, verdict.signal)


def outputs_in_words(
    evidence: Evidence, published: Sequence[PublishedColumn] = ()
) -> tuple[Sequence[Judged], int]:
    """Return how exact the first outputs are, useless ones first, and how many others there are."""
    widths = _widths(evidence, published)
    known = {verdict.output: judged(verdict) for verdict in evidence.verdicts}
    every = [
        Judged(
            name,
            known[name].colour,
            known[name].word,
            half if half is not None else known[name].half,
            known[name].signal,
        )
        if name in known
        else Judged(name, half=half)
        for name, half in widths.items()
    ]
    every.sort(key=lambda one: {"red": 0, "amber": 1}.get(one.colour, 2))
    return every[:_MOST_OUTPUTS], max(len(every) - _MOST_OUTPUTS, 0)


def _widths(evidence: Evidence, published: Sequence[PublishedColumn]) -> Mapping[str, float | None]:
    """Return half the error bar of each output: of published ones the middle one, else what is planned."""
    found = dict[str, float | None]()
    for cell in evidence.cells:
        found.setdefault(cell.query, cell.interval_95)
    for output in published:
        halves = output.half[np.isfinite(output.half)]
        found[output.name] = float(np.median(halves)) if len(halves) else None
    return found


def how_well(evidence: Evidence) -> str:
    """Return the guarantee in one or two sentences, in odds if it says anything about them."""
    odds = None if evidence.first is None else evidence.first.odds
    pair = evidence.pair
    if evidence.first is None and pair is not None and pair.epsilon is not None:
        odds = Odds(pair.epsilon, pair.delta)
    if odds is None:
        return evidence.promise_in_words or evidence.promise
    even = even_odds(odds.epsilon, odds.delta)
    return phrase("protected_in_odds", fold(odds.epsilon), even, odds.delta)


def first_screen(
    evidence: Evidence, signed: str, published: Sequence[PublishedColumn] = (), entry: str = ""
) -> Any:
    """Return the first screen of a report as markup; `signed` says what is approved there, a plan or a release.

    `entry` is the entry of a ledger that a release was charged to.
    """
    exact, more = outputs_in_words(evidence, published)
    budget = evidence.budget
    share = 0.0
    if budget is not None and budget.limit_epsilon > 0:
        share = min(max(budget.spent / budget.limit_epsilon, 0.0), 1.0)
    return values_of(
        "first_screen.html",
        first=evidence.first,
        lights=() if evidence.first is None else evidence.first.lights,
        well=how_well(evidence),
        exact=exact,
        more=more,
        most=_MOST_DETAILS,
        budget=budget,
        share=share,
        spent=spent(budget),
        entry=entry,
        room="unknown" if budget is None else room_left(budget),
        signed=signed if evidence.sentence else "",
    )


def ledger_screen(ledger: LedgerFacts) -> Any:
    """Return the first screen of the report on a ledger as markup: whether it is whole, and which accounts are full."""
    full = [budget.account for budget in ledger.accounts if room_left(budget) == "0"]
    return values_of("ledger_screen.html", ledger=ledger, full=full, most=_MOST_DETAILS)


def next_steps(evidence: Evidence, *, published: bool, cut: bool = False) -> Sequence[str]:
    """Return what an analyst does next with a plan or a release, one step each."""
    useless = [one for one in evidence.verdicts if one.useless]
    weak = [one for one in evidence.verdicts if one.weak and not one.useless]
    wrong = evidence.first is not None and any(
        light.colour == "red" for light in evidence.first.lights
    )
    return lines(
        "next",
        useless=[(one.output, one.remedies) for one in useless[:_MOST_OUTPUTS]],
        weak=[(one.output, one.remedies) for one in weak[:_MOST_OUTPUTS]],
        more=max(len(useless) - _MOST_OUTPUTS, 0) + max(len(weak) - _MOST_OUTPUTS, 0),
        published=published,
        cut=cut,
        wrong=wrong,
    )
