"""A plan in words: what is hidden, from whom, how well, what carries the promise, what it costs if that is wrong."""

from collections.abc import Sequence
from typing import Any, cast

from pufferflow.errors import visible
from pufferflow.expressions import public_words
from pufferflow.guarantees import Guarantee
from pufferflow.plan.floor import impossible_values
from pufferflow.plan.planned import Planned
from pufferflow.plan.readings import assumed, readings_together
from pufferflow.plan.too_noisy import too_noisy
from pufferflow.plan.what_if import what_if
from pufferflow.plan.worst_pair import NAMELESS, nameless
from pufferflow.priors import AnyCorrelation
from pufferflow.priors.prior import Prior, belief_in_words
from pufferflow.questions import Questions
from pufferflow.release.certificate import ERROR_BARS
from pufferflow.release.clipped import of_no_rows
from pufferflow.release.ready import in_units
from pufferflow.report.numbers import at_most
from pufferflow.report.promises import promise_in_words
from pufferflow.secrets import AnySecret, Initial, Presence
from pufferflow.secrets.secret import ValueSecret

_NEARLY = 0.999
_SAME = 1e-6


def explained(plan: Planned) -> str:
    """Return the text that a person can sign."""
    questions, size = plan.questions, plan.facts.size
    lines = [
        f"Published: {asked_in_words(questions)}.",
        *questions.scenario.describe().split("\n"),
        f"How well: {promise_in_words(plan.calibration.guarantee)}.",
        f"How: {noise_in_words(plan)}",
        *(f"Read: {line}." for line in readings_together(questions)),
        f"Error bars: {ERROR_BARS}.",
        f"Carried by: {carried_by(plan)}",
        f"One row alone: {ordinary_in_words(plan)}",
        *(f"Assumed: {line}." for line in assumptions(plan)),
        *(f"Note: {line}." for line in (*notes(plan), *too_noisy(plan), *of_no_rows(questions.queries, size))),
        f"If that is wrong: {if_wrong(plan)}",
    ]
    return "\n".join(visible(line, one_line=True) for line in lines)


def asked_in_words(questions: Questions) -> str:
    """Say what is asked of whom."""
    asked = _listed([f"{query.words} ({query.name})" for query in questions.queries])
    filtered = f" where {_listed([public_words(one) for one in questions.filters])}" if questions.filters else ""
    grouped = f", for each {_listed(questions.by)}" if questions.by else ""
    return f"{asked}, over rows{filtered}{grouped}" if filtered else f"{asked}{grouped}"


def noise_in_words(plan: Planned) -> str:
    """Say how much noise there is behind each query."""
    questions = plan.questions
    scales = [noise.scale for noise in in_units(plan.noises, questions.measures)]
    parts = [
        f"{_scales([scales[place] for place in places])} behind {query.name}"
        for query, places in zip(questions.queries, questions.places, strict=True)
    ]
    name = type(plan.calibration.noise).__name__
    each = f", for each {_listed(questions.by)}" if questions.by else ""
    return f"{name} noise on every sum{each}, of scale {'; '.join(parts)}."


def _scales(scales: Sequence[float]) -> str:
    different = list(dict.fromkeys(f"{scale:.4g}" for scale in scales))
    if "0" in different:
        different[different.index("0")] = "0 (which no secret moves)"
    return different[0] if len(different) == 1 else " and ".join(different)


def carried_by(plan: Planned) -> str:
    """Say which theorem and which belief the promise stands on."""
    found = plan.calibration
    sure = {"exact": "exactly", "upper_bound": "as an upper bound", "estimate": "as an ESTIMATE, which may be too low"}
    return (
        f"{type(found.bound).__name__}, which was worked out {sure[found.certainty.value]}; the costliest secret is "
        f"{witness_in_words(plan)}. All answers are one vector, so they are paid for once (M23)."
    )


def ordinary_in_words(plan: Planned) -> str:
    """Say what the same noise keeps of one row as ordinary differential privacy."""
    secret = plan.questions.scenario.secret
    if isinstance(secret, Presence):
        return "the promise itself is differential privacy, of the unit that is there or not."
    if plan.row_laws is None:
        return f"no ordinary differential privacy of a row is promised: {_not_of_a_row(secret)}."
    if plan.ordinary is None:
        return "what the noise keeps of it as ordinary differential privacy is not known."
    row = "the first row of a sequence" if isinstance(secret, Initial) else "one row"
    pairs = "" if cast(ValueSecret, secret).pairs == "all" else ", over the pairs of values above and no others"
    known = f"if everything but {row} is known"
    kept = promise_in_words(plan.ordinary)
    if _weaker(plan.ordinary, plan.calibration.guarantee):
        return f"less than is promised{pairs}; {known}: {kept}."
    return f"ordinary differential privacy too{pairs}, {known}: {kept}."


def _weaker(guarantee: Guarantee, promised: Guarantee) -> bool:
    one, other = (getattr(each, "epsilon", 0.0) for each in (guarantee, promised))
    return one > other * (1 + _SAME)


def _not_of_a_row(secret: AnySecret) -> str:
    if isinstance(secret, Initial):
        return "no first row is among those that are asked about"
    return "the secret is not the value that is asked about"


def assumptions(plan: Planned) -> list[str]:
    """Return what has to be true of the world, in sentences, and which of it is declared by somebody."""
    scenario = plan.questions.scenario
    found = list(dict.fromkeys(f"the prior is {_origin(prior)}" for prior in scenario.priors))
    if not all(isinstance(prior, AnyCorrelation) for prior in scenario.priors):
        found.append("rows hang together as is believed above")
    if scenario.within:
        found.append(f"rows that differ in {_listed(scenario.within)} are independent of each other")
    if isinstance(scenario.secret, Presence):
        found.append(f"the column {scenario.secret.within!r} says in every row whose row it is")
    else:
        known = f"{_listed(scenario.public)} and " if scenario.public else ""
        found.append(f"everybody may know {known}which rows there are")
        found.append("the rows that are released are those that were planned with")
    return found


def _origin(prior: Prior) -> str:
    """Say where a prior comes from; what fitting found wrong with it, where the prior does not say so itself."""
    in_full = prior.provenance.describe()
    return prior.provenance.origin_in_words if in_full in prior.describe() else in_full


def notes(plan: Planned) -> list[str]:
    """Return what is worth knowing of the way the noise was found, and of how rows are read."""
    found = [plan.calibration.note] if plan.calibration.note else []
    found += dict.fromkeys(one.note for way in plan.ways for one in way if one.note)
    found += floor_notes(plan)
    late = list(dict.fromkeys(repr(one.bound) for one in plan.calibration.untried if one.late))
    if late:
        found.append(
            f"planning was given {plan.wanted.seconds:g} s: {', '.join(late)} might ask for less noise, untried"
        )
    found += assumed(plan.questions)
    secret = plan.questions.scenario.secret
    if isinstance(secret, Presence) and secret.rows is not None:
        order = plan.questions.scenario.order_by
        first = f"by {order}" if order else "in the order of the file"
        found.append(
            f"at most {secret.rows} rows of each {secret.within} are read, the first {first}; of units that have more, "
            "answers tell less than there is, and error bars do not allow for that"
        )
    return found


def floor_notes(plan: Planned) -> list[str]:
    """Say where a prior hides nothing, and whether noise is more than it needs, or too little for one row alone."""
    left = "ordinary differential privacy of one row is kept there" if plan.floor else "nothing is promised there"
    values = _listed([repr(value) for value in impossible_values(plan.questions.scenario)])
    found = [f"at some positions a prior holds {values} to be impossible and has nothing to hide; {left}"]
    found = found if values else []
    if plan.floor or plan.row_laws is None:
        return [*found, *_raised(plan)]
    kept = "nothing that is known" if plan.ordinary is None else repr(plan.ordinary)
    return [*found, f"floor=None: noise was made for the prior alone; of one row alone it keeps {kept}"]


def _raised(plan: Planned) -> list[str]:
    """Say that noise is what one row alone needs, if the prior needs less."""
    needed, ordinary = (getattr(one, "epsilon", None) for one in (plan.calibration.guarantee, plan.ordinary))
    if needed is None or ordinary is None or plan.calibration.loss > _NEARLY * needed or ordinary < _NEARLY * needed:
        return []
    own = at_most(plan.calibration.loss)
    return [f"for the prior alone less noise would do: with this much it keeps epsilon {own}; one row alone needs it"]


def if_wrong(plan: Planned) -> str:
    """Say what is left of the promise if rows hang together in another way, or if beliefs are a little off."""
    parts = [f"{one.wrong}, {one.left}" for one in what_if(plan)]
    return "; ".join(parts) + "." if parts else "nothing can be said."


def witness_in_words(plan: Planned) -> str:
    """Say which two values of the secret are the hardest to hide and, of several beliefs, under which."""
    witness: Any = plan.calibration.witness
    several, believed = len(plan.questions.scenario.priors) > 1, witness.prior
    prior = f", believing that {belief_in_words(believed)}" if several and believed is not None else ""
    if witness.secrets is None:
        return f"a pair that is not named{prior}"
    first, second = NAMELESS if nameless(plan) else map(repr, witness.secrets)
    return f"{first} against {second}{prior}"


def _listed(parts: Sequence[str]) -> str:
    return ", ".join(parts)
