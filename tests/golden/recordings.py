"""The recordings of a scenario: its texts, its laws, its plans, and the account of its releases."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
from batches import BATCHES
from readings import (
    BITS,
    attributes,
    digest,
    of_database,
    of_evidence,
    of_plan,
    of_release,
    of_text,
    outcome,
    plain,
)
from scenarios import NAMES, QUESTIONS, SCENARIOS

import pufferflow as pf

PROMISES = {"pure": pf.Pure(1.0), "renyi": pf.Renyi(4, 1.0), "approx": pf.Approx(1.0, 1e-4)}
BOUNDS = {
    "gwm": pf.GWM(),
    "gawm": pf.GAWM(5e-5),
    "dagwm": pf.DAGWM(),
    "kantorovich": pf.Kantorovich(),
    "messages": pf.Messages(),
    "quilt": pf.Quilt(),
    "group": pf.Group(),
}
LIMITS = [
    (pf.Pure(3.0), pf.Pure(0.5)),
    (pf.Approx(3.0, 1e-4), pf.Approx(0.5, 1e-6)),
    (pf.Renyi(4, 4.0), pf.Renyi(4, 0.5)),
    (pf.Pure(1.2), pf.Pure(0.4)),
    (pf.ApproxRenyi(4, 3.0, 1e-4), pf.ApproxRenyi(4, 0.5, 1e-6)),
    (pf.Approx(3.0, 1e-4), pf.Pure(0.25)),
]
"""Limits of accounts and guarantees of their releases; scenarios take turns, but for those whose totals take long."""
TURNS = ("chain", "gaussian", "independent", "any", "presence", "diffusion", "weak", "first")
OWN = {"gaussian, function", "simulator", "simulator, derived"}
"""Scenarios with Python functions, which no other process knows."""


def scenario(name: str) -> dict[str, Any]:
    """Return what a scenario reveals about itself, and of the laws of a small statistic."""
    made = SCENARIOS[name].make()
    found = attributes(
        made, "describe", "sensitive", "public", "step_in_words", "fingerprint", "to_json"
    )
    found["again"] = outcome(lambda: pf.Scenario.from_json(made.to_json()) == made)
    found["provenance"] = [
        plain([one.provenance.notes, one.provenance.rows]) for one in made.priors
    ]
    return found


def laws(name: str) -> dict[str, Any]:
    """Return the least noise for two small statistics, by each guarantee and bound."""
    made = SCENARIOS[name].make()
    column = {"column": "on"} if name.startswith("empirical") else {}
    one = outcome(lambda: pf.laws(made, pf.Statistic([1, 1, 2], **column)) and None)
    if one is not None:
        return {"laws": one}
    known = pf.laws(made, pf.Statistic([1, 1, 2], **column))
    found: dict[str, Any] = {
        kind: {
            called: outcome(lambda p=promise, b=bound: pf.calibrate(known, p, bound=b))
            for called, bound in BOUNDS.items()
        }
        for kind, promise in PROMISES.items()
    }
    found["exact"] = outcome(lambda: pf.calibrate(known, pf.Pure(1.0), bound=pf.Exact()))
    found["auto"] = outcome(lambda: pf.calibrate(known, pf.Pure(1.0)))
    two = outcome(
        lambda: pf.calibrate(
            pf.laws(made, pf.Statistic([[1, 1, 0], [0, 1, 1]], **column)), pf.Pure(1.0)
        )
    )
    return found | {"two": two}


def plan(name: str, batch: str) -> Any:
    """Return all of the plan of a batch, and its release."""
    known, wanted = SCENARIOS[name], BATCHES[batch]

    def made() -> Any:
        made_batch = wanted.ask(pf.protect(known.rows, known.make()), QUESTIONS[known.question])
        found = made_batch.plan(**wanted.plan)
        return {
            "batch": repr(made_batch),
            **of_plan(found),
            "release": outcome(lambda: of_release(found.release())),
        }

    return outcome(made)


def evidence(name: str) -> Any:
    """Return the values of the page of a plan: other bounds, the worst pair, what could break."""
    known = SCENARIOS[name]

    def made() -> Any:
        question = QUESTIONS[known.question]
        batch = pf.protect(known.rows, known.make()).private_count(question.property, name="peaks")
        return of_evidence(batch.plan(pf.Pure(1.0)))

    return outcome(made)


# Accounts


def _broken(frame: pl.LazyFrame, column: str) -> pl.LazyFrame:
    """Return the same rows, but for the sensitive ones, which cannot be read."""

    def fail(series: pl.Series) -> pl.Series:
        raise ValueError(series.name)

    return frame.with_columns(
        pl.col(column).map_batches(fail, return_dtype=frame.collect_schema()[column])
    )


def ledger(name: str) -> Any:
    """Return what an account tells while releases are made, and what lies in its file at the end."""
    known, (limit, promise) = (
        SCENARIOS[name],
        LIMITS[NAMES.index(name) % len(LIMITS) if name.startswith(TURNS) else 0],
    )
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        file = folder / "ledger.db"
        return outcome(lambda: _account(folder, file, known.make(), name, limit, promise))


def _account(
    folder: Path, file: Path, made: pf.Scenario, name: str, limit: Any, promise: Any
) -> Any:
    known = SCENARIOS[name]
    question = QUESTIONS[known.question]

    def part(frame: pl.LazyFrame, which: pl.Expr) -> Any:
        batch = pf.protect(frame, made)
        return batch.filter(which) if "day" in made.public else batch

    def plan_of(number: int, frame: pl.LazyFrame | None = None) -> pf.Plan:
        rows = known.rows if frame is None else frame
        return (
            part(rows, pl.col("day") == number)
            .private_count(question.property, name="peaks")
            .plan(promise)
        )

    steps: dict[str, Any] = {}
    with pf.Ledger(file) as book:
        account = book.open("meters", made, limit=limit, dataset="power")
        steps["empty"] = attributes(
            account,
            "spent",
            "history",
            "explain",
            "limit",
            "dataset",
            "name",
            repr=account.__repr__,
        )
        first, second = plan_of(0), plan_of(1)
        steps["ahead"] = attributes(
            account,
            after=lambda: account.after(first),
            remaining=lambda: account.remaining(first),
            forecast=lambda: account.forecast(first, every=2),
            until=lambda: account.forecast(first, every=4, until=40),
        )
        steps["first"] = _released(first, account, "day-0")
        steps["second"] = _released(second, account, "day-1")
        steps["again"] = outcome(lambda: first.release(account, id="day-0").frame)
        steps["another"] = outcome(lambda: second.release(account, id="day-0").frame)
        steps["broken"] = outcome(
            lambda: plan_of(0, _broken(known.rows, question.column)).release(account, id="broken")
        )
        steps["completed"] = outcome(lambda: first.release(account, id="broken").certificate.cost)
        steps["limit"] = [
            outcome(lambda n=n: first.release(account, id=f"more-{n}").frame) for n in range(2)
        ]
        steps["compose"] = attributes(
            None,
            both=lambda: pf.compose([first, second], made),
            fixed=lambda: pf.compose([first, second], made, fixed=True),
            approx=lambda: pf.compose(
                [first, first], made, lambda epsilon: pf.Approx(epsilon, 1e-6)
            ),
        )
        steps["end"] = attributes(
            account,
            "spent",
            "explain",
            "differential_privacy",
            "group_privacy",
            history=lambda: [_entry(one) for one in account.history()],
            after=lambda: account.after(first),
            remaining=lambda: account.remaining(first),
            forecast=lambda: account.forecast(second, every="2h" if made.timed else 2),
            budget=lambda: _budget(account, second, folder),
            inferred=lambda: _budget(account, None, folder),
            found=lambda: account.find("day-1").frame,
            missing=lambda: account.release("day-7").frame,
        )
        steps["verify"] = outcome(lambda: [book.verify().entries, book.verify(book.head()).entries])
        steps["copy"] = outcome(lambda: [book.copy_to(folder / "copy.db").entries, book.accounts()])
        steps["export"] = outcome(lambda: _export(book, folder, file))
        steps["twice"] = outcome(
            lambda: book.open("others", made, limit=limit, dataset="power") and None
        )
        other = pf.Scenario(made.secret, pf.AnyCorrelation(), **_frame(made))
        steps["supersede"] = outcome(
            lambda: book.replace_prior("meters", other, regardless_of_answers=True).spent()
        )
    return steps | {"file": of_database(file, folder)}


def _released(plan: pf.Plan, account: pf.Account, name: str) -> Any:
    def made() -> Any:
        found = plan.release(account, id=name)
        return {
            "frame": plain(found.frame),
            "number": found.certificate.entry.partition(":")[0],
            "spent": account.spent(),
        }

    return outcome(made)


def _entry(one: Any) -> dict[str, Any]:
    names = (
        "number",
        "release_id",
        "state",
        "promise",
        "asked",
        "certainty",
        "at_most",
        "at_most_rule",
        "total",
        "rule",
    )
    return attributes(one, *names)


def _budget(account: pf.Account, plan: pf.Plan | None, folder: Path) -> str:
    import msgspec

    found = account.budget(plan, every=2, ahead=3) if plan is not None else account.budget(ahead=3)
    return of_text(msgspec.json.encode(found, order="sorted").decode(), folder)


def _export(book: pf.Ledger, folder: Path, file: Path) -> list[str]:
    lines = book.export(folder / "entries.ndjson").read_text(encoding="utf-8")
    return of_text(lines, folder, file).splitlines()


def _frame(made: pf.Scenario) -> dict[str, Any]:
    start = {"start": made.start} if made.start else {}
    return {
        "order_by": made.order_by,
        "step": made.step_in_words if made.timed else made.step,
        "within": made.within,
        "public": made.public,
        **start,
    }


# Pages


def pages(name: str, batch: str) -> Any:
    """Return the pages of a plan, of its release with evidence, and of the ledger, and the folders of a release."""
    from readings import of_page

    known, wanted = SCENARIOS[name], BATCHES[batch]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        file = folder / "ledger.db"

        def page(write: Callable[[Path], Any]) -> Any:
            path = folder / "page.html"
            write(path)
            return of_page(of_text(path.read_text(encoding="utf-8"), folder, file), folder)

        with pf.Ledger(file) as book:
            made = known.make()
            account = book.open("meters", made, limit=pf.Pure(6.0))
            plan = wanted.ask(pf.protect(known.rows, made), QUESTIONS[known.question]).plan(
                **wanted.plan
            )
            release = plan.release(account, id="today")
            held = plan.evidence(account, every=4, period="2024-01-01")
            return {
                "plan": page(
                    lambda path: plan.report(
                        path, account, every=4, job="daily", period="2024-01-01"
                    )
                ),
                "release": page(release.report),
                "release with evidence": page(lambda path: release.report(path, held)),
                "ledger": page(book.report),
                f"blocks {BITS}": [
                    digest(plan._repr_html_()),
                    digest(of_text(release._repr_html_(), folder, file)),
                ],
                "folders": {
                    form: _folder(
                        getattr(release, f"write_{form}")(folder / form), folder, file, book
                    )
                    for form in ("csv", "ndjson", "parquet")
                },
            }


def _folder(path: Path, folder: Path, file: Path, book: pf.Ledger) -> dict[str, Any]:
    """Return the files of a release: texts as they are, tables as what they hold."""
    found: dict[str, Any] = {"differs": [plain(one.differs) for one in book.compare(path)]}
    for one in sorted(path.iterdir()):
        if one.suffix == ".parquet":
            found[one.name] = plain(pl.read_parquet(one))
            found[f"{one.name} {BITS}"] = digest(one.read_bytes())
        else:
            found[one.name] = of_text(one.read_text(encoding="utf-8"), folder, file)
    found["same"] = pf.Release.read(path).certificate.entry.partition(":")[0]
    return found
