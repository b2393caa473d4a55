"""Parts of pages that tell of accounts: what is spent, what will be, and every charge."""

from pufferflow.report.evidence import Budget, Charge
from pufferflow.report.figures.budget import budget_figure, releases_of
from pufferflow.report.markup import Column, Section, paragraph, table
from pufferflow.report.numbers import UNKNOWN, total

MOST_CHARGES = 200
_NO_RULE = "no rule"
NOBODY = "Nobody is counting: no account of a ledger was named, so what several releases tell together is not limited."


def budget(found: Budget | None) -> Section:
    """Give the account of a plan or release."""
    title = "Budget over time"
    if found is None:
        return Section("budget", title, paragraph(NOBODY, "quiet"))
    return Section("budget", title, account(found))


def account(found: Budget, name: str = "") -> str:
    """Return the figure and the charges of an account; `name` makes ids that occur once on the page."""
    drawn = budget_figure(found, name) if found.charges or found.ahead else ""
    return paragraphs(found) + drawn + _notes(found) + charges(found)


def paragraphs(found: Budget) -> str:
    """Say why so much is spent, and give what the releases keep together if a belief is wrong."""
    why = paragraph(found.why) if found.why else ""
    if not found.what_if:
        return why
    wrong = [one.wrong for one in found.what_if]
    return why + table(
        "What is left if a belief is wrong",
        [
            Column("if", [words.removeprefix("if ") for words in wrong]),
            Column("what is left", [one.left for one in found.what_if]),
        ],
    )


def spent(found: Budget | None) -> str:
    """Return in words what is spent of the limit."""
    if found is None:
        return "nobody is counting"
    return f"{total(found.spent)} of {total(found.limit_epsilon)}"


def room_left(found: Budget) -> str:
    """Return how many more releases fit: any number if the limit is never reached, unknown if nobody can tell."""
    if found.fits is not None:
        return f"{found.fits:,}"
    never = found.endless is not None and found.endless <= found.limit_epsilon
    return "any number" if never else "unknown"


def charges(found: Budget) -> str:
    """Return the table of charges, the latest ones if there are very many."""
    if not found.charges:
        return paragraph("Nothing has been charged yet.", "quiet")
    kept = found.charges[-MOST_CHARGES:]
    count = releases_of(found)
    more = f", the latest {len(kept)} of those that are shown of {count:,}" if count > len(kept) else ""
    columns = [
        Column("no.", [f"{charge.number:,}" for charge in kept], number=True),
        Column("release", [charge.release for charge in kept]),
        Column("at", [moment(charge.at) for charge in kept]),
        Column("state", [charge.state for charge in kept]),
        Column("promise", [charge.promise for charge in kept]),
        Column("total after it", [_total(charge) for charge in kept], number=True),
    ]
    rules = list(dict.fromkeys(charge.rule for charge in kept))
    if len(rules) > 1:
        columns.append(Column("by the rule", [charge.rule for charge in kept]))
    added = f", added up by {rules[0]}" if len(rules) == 1 and rules[0] else ""
    return table(f"Charges on the account {found.account}{more}{added}", columns)


def _total(charge: Charge) -> str:
    return f"≤ {total(charge.total)}" if charge.at_most else total(charge.total)


def moment(at: str) -> str:
    """Return a moment without its parts of a second.

    >>> moment("2026-11-20T03:00:01.123456+00:00"), moment("")
    ('2026-11-20 03:00:01 +00:00', '—')
    """
    day, _, rest = at.partition("T")
    if not rest:
        return at or UNKNOWN
    clock, zone = rest[:8], rest[8:].lstrip(".0123456789")
    return f"{day} {clock} {zone}".rstrip()


def _notes(found: Budget) -> str:
    told = found.ahead and found.rule and not found.rule.startswith(_NO_RULE)
    rule = paragraph(f"The forecast adds up by {found.rule}.", "quiet") if told else ""
    return rule + (paragraph(_sentence(found.note), "quiet") if found.note else "")


def _sentence(note: str) -> str:
    return f"{note[:1].upper()}{note[1:].rstrip('.')}."
