"""Values for pages, made by hand: usual ones, hostile ones, empty ones, huge ones."""

import math
from datetime import timedelta

from published import DAY, FRAMES, HOSTILE, days, hostile_names

from pufferflow.reports import pages as report
from pufferflow.reports.evidence import (
    ORDINARY,
    Atoms,
    BoundRow,
    Budget,
    Cell,
    Charge,
    Evidence,
    FirstScreen,
    LedgerFacts,
    Light,
    Memory,
    Odds,
    Remarks,
    Verdict,
    WhatIf,
    WorstPair,
)

SENTENCE = """Published: the sum of level (load), the number of rows with level >= 3 (peaks), for each day.
Hidden: the value of 'level' in every row (one of 0, 1, 2, 3), any two of them.
Against: an adversary whose prior is that rows form a Markov chain of 4 states whose steps repeat after 24.
Rows that differ in 'meter' are assumed to be independent of each other.
How well: epsilon 1 for all answers together: whoever sees the answers changes the odds at most 2.72-fold.
Proof: Messages, which was worked out as an upper bound; the costliest secret is 0 against 3.
Assumed: the prior is declared."""


def budget(charges=9, ahead=26, name="district-north-2026", **more):
    """An account with some releases behind and some ahead of it."""
    total = [0.25 * (1 - 0.8**number) + 0.07 * number for number in range(1, charges + ahead + 1)]
    kept = [
        Charge(
            number,
            f"week-{number}",
            "reserved" if number == 4 else "committed",
            f"2026-11-{number % 28 + 1:02d}T03:00:01.123456+00:00",
            "Pure(epsilon=0.1)",
            total[number - 1],
            "messages along the chain (M20)",
        )
        for number in range(1, charges + 1)
    ]
    given = {
        "every": "7d",
        "endless": max(total, default=0.0) * 1.12,
        "fits": 31,
        "rule": "messages along the chain (M20)",
    } | more
    spent = kept[-1].total if kept else 0.0
    return Budget(
        name,
        "meters",
        "Pure(epsilon=3)",
        3.0,
        spent,
        tuple(kept),
        ahead=tuple(total[charges:]),
        **given,
    )


def pair(noise="Laplace", scale=3.0, shape=0.0, epsilon=1.0, **more):
    """The laws of a number under two secrets, 3 apart."""
    values = tuple(float(value) for value in range(9))
    first = tuple(math.exp(-abs(value - 2)) for value in values)
    second = tuple(math.exp(-abs(value - 5)) for value in values)
    laws = [
        Atoms(values, tuple(weight / sum(weights) for weight in weights))
        for weights in (first, second)
    ]
    return WorstPair(
        "load", "level is 0", "level is 3", *laws, noise, scale, shape, epsilon, **more
    )


def bounds():
    """Bounds of which one is the plan's own and one refuses."""
    given = [
        ("Messages()", 1.0, True),
        ("Quilt(approximate=False)", 4.78, False),
        ("group privacy", 9.65, False),
    ]
    rows = [
        BoundRow(
            bound, query, "Laplace", scale * times, scale * times, times, "upper_bound", "", chosen
        )
        for bound, times, chosen in given
        for query, scale in (("load", 104.4), ("peaks", 34.8))
    ]
    refusal = "The pairs of laws of this scenario are too many to compare one by one."
    return (
        *rows,
        *(
            BoundRow("GAWM(delta=1e-06)", query, "Laplace", note=refusal)
            for query in ("load", "peaks")
        ),
    )


def others():
    """Ordinary differential privacy, and bounds that had to do without the laws they need."""
    ordinary = [
        BoundRow(
            ORDINARY,
            query,
            "Laplace",
            scale,
            scale,
            1 / 9,
            "exact",
            "it would keep epsilon 5.3 here",
        )
        for query, scale in (("load", 11.6), ("peaks", 3.87))
    ]
    rough = [
        BoundRow(
            bound,
            query,
            "Laplace",
            1007.0,
            1007.0,
            9.65,
            "upper_bound",
            "by movement alone",
            worked_out=False,
        )
        for bound in ("GWM(norm=None)", "Exact()")
        for query in ("load", "peaks")
    ]
    return (*ordinary, *rough)


def memory(step="1h", forgotten=21, **more):
    """What is left of an hour, a fifth less with each that passes."""
    steps = tuple(range(26))
    given = {
        "prior": "rows form a Markov chain",
        "measure": "total variation",
        "step": step,
        "steps": steps,
    }
    return Memory(
        **given | {"left": tuple(0.8**number for number in steps), "forgotten": forgotten} | more
    )


def first(**more):
    """What the person who signs reads first: one light is red, one amber."""
    left = (
        "If the rows of one meter depend on each other in another way, the noise keeps only epsilon 9.653. The odds "
        "then change at most 2×10⁴-fold. A guess between two of them can be right in more than 99\xa0% of cases "
        "(by chance: 50\xa0%)."
    )
    given = {
        "published": "the sum of level (load), the number of rows with level >= 3 (peaks), for each day",
        "whom": "every meter",
        "protected": "the value of 'level' in every row (one of 0, 1, 2, 3), any two of them",
        "adversary": "anybody who sees the numbers and assumes that rows form a Markov chain of 4 states",
        "unprotected": (
            "We do not hide meter, hour, nor that a row exists.",
            "We do not cover links between one meter and another.",
        ),
        "odds": Odds(1.0),
        "lights": (
            Light("If the prior is wrong", "red", "Little is left", left),
            Light(
                "Evidence against the prior",
                "amber",
                "Gaps",
                "The public reference has gaps:",
                (
                    "2 rows without a value break their sequences",
                    "3 gaps between rows were left out",
                ),
            ),
        ),
    }
    return FirstScreen(**(given | more))


def evidence(**more):
    """What a usual plan shows of itself."""
    days = [f"day={DAY + timedelta(days=number)}" for number in range(7)]
    cells = [Cell("load", day, "Laplace", 104.4, 104.4, 312.9, 14400.0) for day in days]
    cells += [Cell("peaks", day, "Laplace", 34.8, 34.8, 104.3, 4800.0) for day in days]
    given = {
        "title": "The daily load of the district north",
        "sentence": SENTENCE,
        "promise": "Pure(epsilon=1)",
        "scenario": "3f1c9e5d2a",
        "assumptions": (
            "the prior is declared",
            "rows that differ in meter are independent of each other",
        ),
        "notes": ("at most 3 rows of each meter are read",),
        "cells": tuple(cells),
        "more_cells": 0,
        "pair": pair(),
        "pair_note": "",
        "bounds": (*bounds(), *others()),
        "what_if": (
            WhatIf(
                "whatever the rows of one meter have to do with each other", "epsilon 9.653", 9.653
            ),
            WhatIf(
                "if priors are off by a factor of up to 1.1 either way",
                "a weaker guarantee of another kind",
            ),
        ),
        "budget": budget(),
        "job": "meters-daily",
        "period": "2026-11-20",
        "dataset": "meters",
        "promise_in_words": "epsilon 1 for all answers together: the odds change at most 2.72-fold",
        "counts": ("peaks",),
        "memory": (memory(),),
        "remarks": (Remarks("numbers", "How values are read", ("nulls of load are read as 0",)),),
        "first": first(),
        "verdicts": (
            Verdict("load", useful=7, half=312.9, signal=3600.0),
            Verdict("peaks", useful=4, weak=3, half=104.3, signal=400.0, remedies="longer periods"),
        ),
    }
    return Evidence(**(given | more))


def hostile():
    """Text everywhere that tries to be markup, mathematics or a line of its own."""
    script, image, mathematics, other_way, long, ends = HOSTILE
    account = budget(charges=3, ahead=2, name=image, every=mathematics, rule=script, note=ends)
    return evidence(
        title=script,
        sentence=f"Published: {image}\n{mathematics}\n{other_way}: {long}",
        promise=mathematics,
        scenario=script,
        assumptions=HOSTILE,
        notes=HOSTILE,
        cells=tuple(Cell(name, name, "Laplace", 1.0, 1.0, 3.0, 40.0) for name in HOSTILE),
        pair=WorstPair(
            script,
            other_way,
            long,
            Atoms((0.0,), (1.0,)),
            Atoms((3.0,), (1.0,)),
            "Laplace",
            3.0,
            0.0,
            1.0,
        ),
        pair_note=ends,
        bounds=tuple(
            BoundRow(name, name, name, 1.0, 1.0, place + 1.0, name, name, chosen=place == 0)
            for place, name in enumerate(HOSTILE)
        ),
        what_if=tuple(WhatIf(name, name, 2.0) for name in HOSTILE),
        **dict.fromkeys(("job", "period", "dataset", "promise_in_words"), script),
        findings=HOSTILE,
        memory=tuple(memory(name, prior=name, measure=name) for name in HOSTILE),
        first=FirstScreen(
            *(script, image, other_way, long),
            unprotected=HOSTILE,
            odds=Odds(1.0, 1e-6),
            lights=tuple(Light(name, name, name, name, HOSTILE) for name in HOSTILE),
        ),
        verdicts=tuple(
            Verdict(name, useless=1, half=9.0, signal=3.0, remedies=name) for name in HOSTILE
        ),
        remarks=tuple(Remarks("worst", name, HOSTILE) for name in HOSTILE),
        budget=account,
    )


def bare():
    """A plan of which next to nothing is known."""
    cells = (Cell("middle", "all rows", "Laplace", 1.0, None, None),)
    empty = dict.fromkeys(
        ("assumptions", "notes", "bounds", "what_if", "memory", "remarks", "counts", "verdicts"), ()
    )
    unnamed = dict.fromkeys(
        ("title", "sentence", "job", "period", "dataset", "promise_in_words"), ""
    )
    return evidence(cells=cells, pair=None, budget=None, first=None, **empty, **unnamed)


def crowded():
    """Many outputs, many groups, far numbers, an account of a year of hours."""
    cells = tuple(
        Cell(
            f"level_{place}_of_the_district",
            f"meter={group}",
            "Laplace",
            10.0**place,
            1.0,
            3 * 10.0**place,
            1e9,
        )
        for place in range(15)
        for group in range(30)
    )
    values = tuple(float(value) for value in range(3000))
    laws = [Atoms(values, tuple(1 / 3000 for _ in values)), Atoms((40.0, 9000.0), (0.5, 0.5))]
    worst = WorstPair(
        "load", "a", "b", *laws, "GeneralizedCauchy", 50.0, 4.0, None, note="one number of several"
    )
    rows = tuple(
        BoundRow(f"Bound({place})", "load", "Laplace", 1.0, 1.0, 7.0**place, "exact")
        for place in range(20)
    )
    slow = memory("7m", None), memory("7m", 19, left=tuple(0.7**number for number in range(26)))
    drowned = tuple(
        f"noise on level_{place}_of_the_district is larger than any answer" for place in range(15)
    )
    return evidence(
        cells=cells,
        more_cells=100_000,
        pair=worst,
        bounds=rows,
        budget=budget(3000, 6000),
        memory=slow,
        findings=drowned,
    )


ROWS = [
    ("promise", "Pure(epsilon=1)"),
    ("scenario", "3f1c9e"),
    ("", "Hidden: the value of 'level' in every row"),
    ("worst", "3 against 0"),
    ("noise", "Laplace of scale 104.4 on level, grid 1/1048576"),
    ("noise", "Laplace of scale 34.8 on level >= 3, grid 1/1048576"),
    ("ledger", "nobody is counting (no account)"),
]


def ledger(accounts=3):
    """A ledger with accounts."""
    found = [budget(charges=4 * n, ahead=5, name=f"account-{n}") for n in range(accounts)]
    return LedgerFacts(
        "ledger.db",
        "3:c9221ebda65a0b9decdfe16ad0f5c33c7c58c6e4d5f625263b876f4479712795",
        12,
        True,
        tuple(found),
    )


PLANS = {
    "usual": evidence,
    "hostile": hostile,
    "bare": bare,
    "crowded": crowded,
    "gaussian": lambda: evidence(
        pair=pair("Gaussian", 4.0, 0.0, 1.0, delta=1e-6), budget=budget(0, 0, endless=None)
    ),
    "staircase": lambda: evidence(pair=pair("Staircase", 3.0)),
    "cauchy": lambda: evidence(pair=pair("GeneralizedCauchy", 6.0, 4.0)),
    "unheard-of": lambda: evidence(pair=pair("Unheard", 6.0), budget=budget(1, 3)),
    "no-noise": lambda: evidence(pair=pair(scale=0.0), budget=budget(0, 5)),
}
LEDGERS = {"accounts": ledger, "none": lambda: ledger(0), "many": lambda: ledger(40)}


def all_pages():
    """Every page by its name, as functions that write it."""
    pages = {
        f"plan-{name}": lambda make=make: report.plan_page(make()) for name, make in PLANS.items()
    }
    for name, make in FRAMES.items():
        pages[f"release-{name}"] = lambda make=make: report.release_page(*make(), ROWS)
    pages["release-evidence"] = lambda: report.release_page(*days(), ROWS, evidence())
    pages["release-hostile-evidence"] = lambda: report.release_page(
        *hostile_names(), ROWS, hostile()
    )
    return pages | {
        f"ledger-{name}": lambda make=make: report.ledger_page(make())
        for name, make in LEDGERS.items()
    }
