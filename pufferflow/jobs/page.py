"""The page that goes with a release, and what it is made from; neither may hold up the numbers."""

from pathlib import Path
from typing import Protocol

from pufferflow.errors import InternalError, Misuse, PufferflowError
from pufferflow.guarded import guarded
from pufferflow.plan import Plan
from pufferflow.release import Release, add
from pufferflow.report.evidence import Evidence
from pufferflow.rounding import agree

EVIDENCE, PAGE = "evidence.json", "report.html"


class Planned(Protocol):
    """A job, as far as its page needs it."""

    def plan(self, period: str) -> Plan:
        """Return what would be released for a period."""
        ...

    @property
    def name(self) -> str:
        """The name of the job."""
        ...

    def evidence(self, plan: Plan, period: str) -> Evidence:
        """Return what a page shows of a plan for a period."""
        ...


def keep_page(job: Planned, period: str, plan: Plan | None, release: Release, folder: Path) -> tuple[str, ...]:
    """Write the page of a release beside it, unless it is there; return what went wrong, which is no reason to fail.

    The release is what was promised. Where rows or priors are gone by now, its page is written without evidence.
    """
    if (folder / PAGE).exists():
        return ()
    notes, evidence = list[str](), None

    def gathered() -> Evidence:
        made = job.plan(period) if plan is None else plan
        if not agree(made.certificate.facts, release.certificate.facts):
            raise Misuse("the job, or its rows, have changed since the release.")
        found = job.evidence(made, period)
        add(folder, EVIDENCE, found.to_json())
        return found

    def drawn() -> None:
        add(folder, PAGE, release.page(evidence, job.name, period).encode())

    try:
        evidence = guarded(gathered, _failed)
    except PufferflowError as error:
        notes.append(f"the page has no evidence: {error.problem}")
    try:
        guarded(drawn, _failed)
    except PufferflowError as error:
        notes.append(f"the page could not be written: {error.problem}")
    return tuple(notes)


def _failed(kind: str) -> InternalError:
    return InternalError(f"its making stopped with {kind}.", instead="reporting it to the maintainers")
