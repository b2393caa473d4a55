"""Pictures of how the library works: from a query to a release, and what happens at night."""

import tomllib
from pathlib import Path

from sheet import Sheet, picture

ROOT = Path(__file__).parents[2]


@picture
def from_query_to_release() -> Sheet:
    """Draw the steps of a release."""
    sheet = Sheet(
        "From a query to a release",
        860,
        210,
        "Five steps from left to right: a query and a scenario, the laws of the answer, "
        "the noise, the ledger, the release. "
        "Only the last step reads private rows.",
    )
    steps = (
        ["query + scenario", "what is computed,", "what is protected"],
        ["laws", "of the answer under", "each secret"],
        ["noise", "as much as moves", "between the laws"],
        ["ledger", "reserves the cost,", "or refuses"],
        ["release", "rows are read once,", "noise is added"],
    )
    for number, words in enumerate(steps):
        left = 20 + 168 * number
        sheet.labelled_box(left, 60, 148, 84, words)
        if number:
            sheet.arrow((left - 19, 102), (left - 2, 102))
    sheet.line([(20, 166), (672, 166)], "first", wide=3)
    sheet.write(20, 188, "reads public columns only", "first", size=12)
    sheet.line([(692, 166), (840, 166)], "warn", wide=3)
    sheet.write(692, 188, "reads private rows", "warn", size=12)
    return sheet


@picture
def who_sees_what() -> Sheet:
    """Draw who is trusted and who is not."""
    sheet = Sheet(
        "Who is trusted, and who is not",
        760,
        250,
        "Left of a line, who is trusted: the curator with the rows and the ledger. Right "
        "of it, everybody else: they see "
        "published numbers, certificates and reports, and may know the prior.",
    )
    sheet.labelled_box(30, 60, 200, 60, ["private rows", "seen by the curator alone"])
    sheet.labelled_box(30, 150, 200, 60, ["ledger", "costs, no rows"])
    sheet.labelled_box(290, 105, 130, 60, ["pufferflow", "noise, cost, proof"])
    sheet.arrow((230, 90), (288, 120))
    sheet.arrow((288, 150), (232, 178))
    sheet.line([(460, 50), (460, 226)], "warn", wide=2, dashed=True)
    sheet.write(450, 242, "trusted", "quiet", size=12, at="end")
    sheet.write(470, 242, "everybody else, with what priors allow", "quiet", size=12)
    sheet.arrow((420, 135), (518, 135), "first", wide=2.5)
    sheet.labelled_box(522, 60, 210, 48, ["numbers with noise"])
    sheet.labelled_box(522, 118, 210, 48, ["certificate", "guarantee and proof"])
    sheet.labelled_box(522, 176, 210, 48, ["report for readers"])
    return sheet


@picture
def layers_of_packages() -> Sheet:
    """Draw the layers of packages as the import rules have them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one["type"] == "layers")
    sheet = Sheet(
        "A package imports only from layers below its own",
        620,
        60 + 44 * len(layers),
        f"The packages of the library in {len(layers)} layers, the command line at the "
        "top and the core at the bottom; each "
        "imports only from layers below.",
    )
    for number, layer in enumerate(layers):
        names = layer.split(" | ")
        wide = 540 / len(names)
        for place, name in enumerate(names):
            sheet.box(50 + wide * place, 48 + 44 * number, wide - 8, 36, "panel", round_=6)
            sheet.write(50 + wide * place + wide / 2 - 4, 71 + 44 * number, name, at="middle")
    sheet.arrow((30, 56), (30, 40 + 44 * len(layers)), "quiet")
    return sheet


def steps_in_time(sheet: Sheet, top: float, steps: list[tuple[str, str, str]]) -> None:
    """Draw steps from left to right, each with a time or a number, a name and a quiet line below."""
    wide = (sheet.width - 40) / len(steps)
    sheet.line([(20, top), (sheet.width - 20, top)], "rule", wide=3)
    for number, (when, name, words) in enumerate(steps):
        middle = 20 + wide * (number + 0.5)
        sheet.dot(middle, top, "warn" if name.startswith("crash") else "first", size=7)
        sheet.write(middle, top - 18, when, "quiet", size=12, at="middle")
        sheet.write(middle, top + 28, name, at="middle", bold=True)
        sheet.write(middle, top + 46, words, "quiet", size=12, at="middle")


@picture
def night_of_a_job() -> Sheet:
    """Draw a scheduled run."""
    sheet = Sheet(
        "A night of a job",
        860,
        170,
        "A night of a job: the period ends at midnight, cron starts the run at three, the "
        "plan reads public columns, the ledger "
        "reserves the cost, rows are read once, a table is written, the cost is committed.",
    )
    steps_in_time(
        sheet,
        84,
        [
            ("0:00", "period ends", "a day is over"),
            ("2:00", "cron starts", "pufferflow run"),
            ("2:01", "plan", "public columns"),
            ("2:01", "reserve", "cost in the ledger"),
            ("2:02", "release", "rows read once"),
            ("2:02", "write", "table and certificate"),
            ("2:02", "commit", "once for ever"),
        ],
    )
    return sheet


@picture
def crash_and_retry() -> Sheet:
    """Draw what a crash leaves behind."""
    sheet = Sheet(
        "A crash costs nothing twice",
        860,
        170,
        "A run crashes after the cost was reserved and before it was committed. The next "
        "run finds the reservation, draws "
        "noise again under the same cost, and commits: the period is charged once.",
    )
    steps_in_time(
        sheet,
        84,
        [
            ("first run", "reserve", "ε = 0.5 in the ledger"),
            ("first run", "crash", "nothing was published"),
            ("second run", "same id", "reservation is found"),
            ("second run", "release", "noise is drawn"),
            ("second run", "commit", "charged once: ε = 0.5"),
            ("third run", "same id", "the stored release"),
        ],
    )
    return sheet


@picture
def sensitive_or_public() -> Sheet:
    """Draw which columns are read when."""
    sheet = Sheet(
        "Which columns are public, and when are they read?",
        620,
        260,
        "A table with the columns meter, hour and district, which are public and read "
        "when planning, and level, which is "
        "private and read once, at the release.",
    )
    for number, (name, words) in enumerate(
        (
            ("meter", "which rows belong together"),
            ("hour", "their order"),
            ("district", "a group"),
            ("level", "the secret"),
        )
    ):
        colour = "warn" if name == "level" else "first"
        left = 30 + 144 * number
        sheet.box(left, 56, 130, 32, colour)
        sheet.write(left + 65, 77, name, "paper", at="middle", bold=True)
        for row in range(3):
            sheet.box(left, 94 + 26 * row, 130, 22, "panel")
        sheet.write(left + 65, 196, words, "quiet", size=12, at="middle")
    sheet.write(30, 232, "read by plan(): values of public columns", "first", size=12)
    sheet.write(592, 232, "read by release(), once", "warn", size=12, at="end")
    return sheet
