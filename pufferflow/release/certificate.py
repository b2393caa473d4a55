"""The certificate of a mechanism, and the explanation of a plan: one writer of each, for all mechanisms."""

from dataclasses import fields
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pufferflow.core.errors import escape_controls
from pufferflow.published.certificate import Certificate
from pufferflow.release.explain.sentences import beliefs_in_words
from pufferflow.release.mechanisms.base import Description, Mechanism
from pufferflow.reports.numbers import promise_in_words


def certificate_of(mechanism: Mechanism) -> Certificate:
    """Return the facts that go out with the answers."""
    request, described = mechanism.request, mechanism.describe()
    own: dict[str, Any] = {field.name: getattr(described, field.name) for field in fields(Description)}
    return Certificate(
        scenario=request.scenario.fingerprint,
        hidden=request.scenario.describe(),
        promise=mechanism.guarantee,
        where=request.where,
        cost=mechanism.cost,
        questions=request.digest,
        sources=request.engine.versions,
        engine=request.engine.name,
        library=_version(),
        **own,
    )


def explanation_of(mechanism: Mechanism, known: Certificate) -> str:
    """Return the text that a person can sign, a labelled line for each fact; `known` is the certificate."""
    said, guarantee = mechanism.explain(), mechanism.guarantee
    lines = [
        said.published,
        *known.hidden.split("\n"),
        f"Guarantee: {promise_in_words(guarantee)}{said.together}.",
        *beliefs_in_words(mechanism.request.scenario, guarantee),
        *said.mechanism,
        *(f"Read: {line}." for line in known.readings),
        *said.answers,
        f"Carried by: {said.carried_by}",
        *said.one_row,
        *(f"Assumed: {line}." for line in known.assumptions),
        *(f"Note: {line}." for line in (*known.notes, *said.notes)),
        *said.robustness,
    ]
    return "\n".join(escape_controls(line, one_line=True) for line in lines)


def _version() -> str:
    try:
        return version("pufferflow")
    except PackageNotFoundError:
        return ""
