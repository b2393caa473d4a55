"""The page of a ledger: every account, what it has spent of its limit, and whether the records are whole."""

from pufferflow.report.evidence import Budget, LedgerFacts
from pufferflow.report.figures.budget import budget_told, releases_of
from pufferflow.report.markup import Column, Section, facts, paragraph, table
from pufferflow.report.numbers import counted, total
from pufferflow.report.page import page
from pufferflow.report.spending import account, room_left

MOST_ACCOUNTS = 12
_CLOSING = "Written by pufferflow from the records of the ledger, which hold no private value."


def ledger_page(ledger: LedgerFacts) -> str:
    """Return the page of a ledger: all accounts in a table, the first ones with their figures."""
    broken = f"NOT whole: {ledger.fault or 'records were changed or lost'}"
    sound = "whole: every record fits the one before it" if ledger.sound else broken
    summary = [
        ("Ledger", ledger.address),
        ("Accounts", f"{len(ledger.accounts):,}"),
        ("Entries", f"{ledger.entries:,}"),
        ("Records", sound),
    ]
    kept = ledger.accounts[:MOST_ACCOUNTS]
    parts = [
        _overview(ledger.accounts),
        *[_account(budget, place) for place, budget in enumerate(kept, 1)],
        Section("head", "For the record", facts([*summary, ("Head", ledger.head)], "record")),
    ]
    title = f"{counted(len(ledger.accounts), 'account')}, {counted(ledger.entries, 'entry', 'entries')}"
    return page("Ledger: what has been spent", title, summary, parts, _CLOSING)


def _overview(accounts: tuple[Budget, ...]) -> Section:
    title = "All accounts"
    if not accounts:
        return Section("accounts", title, paragraph("The ledger has no accounts yet.", "quiet"))
    columns = [
        Column("account", [one.account for one in accounts]),
        Column("dataset", [one.dataset for one in accounts]),
        Column("limit", [one.limit for one in accounts]),
        Column("spent", [total(one.spent) for one in accounts], number=True),
        Column("of", [total(one.limit_epsilon) for one in accounts], number=True),
        Column("releases", [f"{releases_of(one):,}" for one in accounts], number=True),
        Column("more that fit", list(map(room_left, accounts)), number=True),
    ]
    more = f" Figures follow for the first {MOST_ACCOUNTS}." if len(accounts) > MOST_ACCOUNTS else ""
    return Section("accounts", title, table(f"What every account has spent of its limit.{more}", columns))


def _account(budget: Budget, place: int) -> Section:
    name = "budget" if place == 1 else f"budget-{place}"
    body = paragraph(budget_told(budget)) + account(budget, name)
    return Section(f"account-{place}", f"Account {budget.account}", body)
