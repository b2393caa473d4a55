"""The certificate of a mechanism, and the explanation of a plan: one writer of each, for all mechanisms."""

from dataclasses import fields
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pufferflow.published.certificate import Certificate
from pufferflow.release.explain.sentences import posterior, queries_in_words
from pufferflow.release.mechanisms.base import Description, Mechanism
from pufferflow.reports.numbers import promise_in_words
from pufferflow.reports.text import lines


def certificate_of(mechanism: Mechanism) -> Certificate:
    """Return the facts that go out with the answers."""
    request, described = mechanism.request, mechanism.describe()
    own: dict[str, Any] = {
        field.name: getattr(described, field.name) for field in fields(Description)
    }
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
    said, request, guarantee = mechanism.explain(), mechanism.request, mechanism.guarantee
    text = lines(
        said.template,
        queries=queries_in_words(request),
        hidden=known.hidden.split("\n"),
        promise=promise_in_words(guarantee),
        posterior=posterior(request.scenario, guarantee),
        readings=known.readings,
        assumptions=known.assumptions,
        notes=(*known.notes, *said.notes),
        **said.values,
    )
    return "\n".join(text)


def _version() -> str:
    try:
        return version("pufferflow")
    except PackageNotFoundError:
        return ""
