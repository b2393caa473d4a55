"""The first screen of a report: what the person who signs needs to know of a plan, as plain values.

It always shows two lights: one for a wrong prior, one for evidence against the prior. A third one appears if the noise
is only estimated. A light is red if a guess between two secrets of even odds can be right in more than 99 % of cases.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from pufferflow.distributions.coupling import Certainty
from pufferflow.models.population import Population
from pufferflow.models.priors.base import Prior, belief_in_words
from pufferflow.models.secret import Presence
from pufferflow.privacy.guarantee import Guarantee
from pufferflow.release.explain.check import check
from pufferflow.release.explain.sentences import queries_in_words
from pufferflow.release.explain.what_if import loss_in_words, nothing_assumed
from pufferflow.release.planning.calibrated_noise import CalibratedNoise
from pufferflow.reports.evidence import FirstScreen, Light, Odds, Verdict, WhatIf
from pufferflow.reports.numbers import CERTAIN, even_odds, fold, right_guesses
from pufferflow.reports.text import lines, phrase

GREEN, AMBER, RED = "green", "amber", "red"
IF_WRONG, AGAINST, CERTAINTY = (
    "If the prior is wrong",
    "Evidence against the prior",
    "How sure the noise is",
)
_SMALL_DELTA: Final = 1e-6
_CLOSE: Final = 1 + 1e-9
_ALLOWANCES: Final = ("lie in joint", "factors may be")
"""What notes of a fit say that state its allowance for chance; they are no evidence."""
_GAPS: Final = (
    *("left out", "read as the nearest", "break their sequences", "allowance for chance"),
    *("reveal about", "there is no transition", "too short", "too few pairs"),
)
"""What notes of a fit say that are about gaps in the reference; all other notes are evidence against the prior."""


def first_screen(plan: CalibratedNoise, cases: Sequence[WhatIf]) -> FirstScreen:
    """Return what the person who signs reads first; `cases` are what is left if an assumption is wrong."""
    scenario = plan.request.scenario
    presence = isinstance(scenario.secret, Presence)
    return FirstScreen(
        published=queries_in_words(plan.request),
        whom=phrase("whom", scenario.group_in_words, scenario.numbers_rows),
        protected=scenario.secret.describe(),
        adversary=phrase("adversary", list(map(belief_in_words, scenario.priors))),
        unprotected=lines(
            "unprotected",
            public=[] if presence else scenario.public,
            rows=not presence,
            within=scenario.group_in_words,
            drawn=isinstance(scenario.secret, Population),
        ),
        odds=odds_of(plan.guarantee),
        lights=tuple(_lights(plan, cases)),
    )


def odds_of(guarantee: Guarantee) -> Odds | None:
    """Return a guarantee in odds, by its conversion at a δ of 1e-6 if it is not about odds; None if there is none."""
    if guarantee.divergence.about_odds and math.isfinite(guarantee.epsilon):
        return Odds(guarantee.epsilon, guarantee.delta)
    delta = max(2 * guarantee.delta, _SMALL_DELTA)
    epsilon = guarantee.approx_epsilon(delta) if delta < 1 else math.inf
    return Odds(epsilon, delta) if math.isfinite(epsilon) else None


def _lights(plan: CalibratedNoise, cases: Sequence[WhatIf]) -> Iterator[Light]:
    yield _if_wrong(plan, cases)
    yield against(plan.request.scenario.priors, plan.request.scenario.group_in_words)
    if plan.calibration.certainty is Certainty.ESTIMATE:
        yield Light(CERTAINTY, AMBER, "Estimate", phrase("estimated"))


def _if_wrong(plan: CalibratedNoise, cases: Sequence[WhatIf]) -> Light:
    """Return the light for rows that depend on each other in any way."""
    scenario = plan.request.scenario
    within, wrong = scenario.group_in_words, phrase("any_way", scenario.group_in_words)
    if nothing_assumed(plan):
        return Light(IF_WRONG, GREEN, "Holds", phrase("nothing_assumed", within))
    left = next((case.epsilon for case in cases if case.wrong == wrong), None)
    kind = plan.guarantee.kind
    if left is None or kind is None:
        return Light(IF_WRONG, RED, "Not known", phrase("left_unknown", within))
    if left <= plan.guarantee.loss * _CLOSE:
        return Light(IF_WRONG, GREEN, "Holds", phrase("left_as_it_is", within))
    kept = kind.at(left)
    odds, loss = odds_of(kept), loss_in_words(kept)
    if odds is None:
        return Light(IF_WRONG, RED, "Weaker", phrase("left_without_odds", within, loss))
    factor, even = fold(odds.epsilon), even_odds(odds.epsilon, odds.delta)
    words = phrase("left_in_odds", within, loss, factor, even, odds.delta)
    if right_guesses(odds.epsilon, odds.delta) <= CERTAIN:
        return Light(IF_WRONG, AMBER, "Weaker", words)
    return Light(IF_WRONG, RED, "Little is left", words)


def against(priors: Sequence[Prior], within: str) -> Light:
    """Return the light for what speaks against the priors, as far as they were fitted; the worst of them decides.

    >>> import pufferflow as pf
    >>> against([pf.Independent()], "").word, against([pf.AnyCorrelation()], "meter").word
    ('Not tested', 'Nothing to test')
    """
    if all(prior.any_correlation for prior in priors):
        return Light(AGAINST, GREEN, "Nothing to test", phrase("nothing_assumed", within))
    notes = [note for prior in priors for note in _notes(prior)]
    misfits = [note for note in notes if not any(gap in note for gap in _GAPS)]
    if misfits:
        return Light(AGAINST, RED, "Found", phrase("misfits"), tuple(dict.fromkeys(notes)))
    if any(prior.provenance.reference is None for prior in priors if not prior.any_correlation):
        return Light(
            AGAINST, AMBER, "Not tested", phrase("not_tested"), tuple(dict.fromkeys(notes))
        )
    source = "; ".join(dict.fromkeys(prior.provenance.origin_in_words for prior in priors))
    if notes:
        return Light(AGAINST, AMBER, "Gaps", phrase("gaps", source), tuple(dict.fromkeys(notes)))
    return Light(AGAINST, GREEN, "None found", phrase("none_found", source))


def _notes(prior: Prior) -> Iterator[str]:
    """Yield what the fit of a prior noted, without its allowance for chance."""
    for note in prior.provenance.notes:
        if not any(words in note for words in _ALLOWANCES):
            yield note


def verdicts(plan: CalibratedNoise) -> tuple[Verdict, ...]:
    """Return how useful the numbers of each output are, in the order of the outputs."""
    return tuple(
        _verdict(name, rows) for (name,), rows in check(plan).group_by("query", maintain_order=True)
    )


def _verdict(name: object, rows: pl.DataFrame) -> Verdict:
    counts = dict(rows["verdict"].value_counts().iter_rows())
    worst = rows.sort(pl.col("interval_95") / pl.col("signal"), descending=True, nulls_last=True)
    half, signal, remedies = worst.select("interval_95", "signal", "way_on").row(0)
    of_groups = {known: counts.get(known, 0) for known in ("useful", "weak", "useless")}
    return Verdict(
        str(name),
        **of_groups,
        unknown=counts.get(None, 0),
        half=half,
        signal=signal,
        remedies=remedies or "",
    )
