"""`pufferflow ledger show`, `verify` and `export`: show what was spent, verify all entries, and export them.

`pufferflow verify`: compare published releases with their ledger.
"""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pufferflow.cli.errors import EXITS
from pufferflow.cli.options import Force, LedgerAddress, check_free, existing
from pufferflow.cli.run import Answer
from pufferflow.cli.screen import Screen
from pufferflow.core.errors import LedgerError, UsageError

if TYPE_CHECKING:
    from pufferflow.accounting.account_costs import AccountMethod
    from pufferflow.accounting.ledger.account import Account, Correction
    from pufferflow.accounting.ledger.reader import Entry
    from pufferflow.reports.evidence import Charge

AccountName = Annotated[
    str | None,
    typer.Option(
        "--account", metavar="NAME", help="Show each release of this account.", show_default=False
    ),
]
Head = Annotated[
    str | None,
    typer.Option(
        "--head",
        metavar="HEAD",
        help="A head from an earlier run, number:hash, to detect an older copy.",
        show_default=False,
    ),
]
Lines = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Write the entries to this file.", show_default=False
    ),
]


def show(screen: Screen, ledger: LedgerAddress, account: AccountName = None) -> Answer:
    """Show what each account has spent, or the history of one.

    Reserved costs count too: a release that failed may have revealed something.
    """
    with existing(ledger) as open_ledger:
        names = open_ledger.accounts() if account is None else (account,)
        accounts = [
            _account_document(open_ledger.account(name), history=account is not None)
            for name in names
        ]
        document = {"ledger": open_ledger.address, "head": open_ledger.head(), "accounts": accounts}
    if account is None:
        _show_accounts(screen, accounts)
    else:
        _show_history(screen, accounts[0])
    return Answer(document)


def verify(screen: Screen, ledger: LedgerAddress, head: Head = None) -> Answer:
    """Check that no entry was changed, removed or added.

    Prints the new head. Store it elsewhere, and give it to --head next time: only then is an older copy of the ledger
    detected.
    """
    with existing(ledger) as open_ledger:
        sound, place = open_ledger.verify(head), open_ledger.address
    screen.facts(
        [("ledger", place), ("entries", f"{sound.entries}, all sound"), ("head", sound.head)]
    )
    corrected = [_corrected(one) for one in sound.corrected]
    if corrected:
        screen.say(
            "An older version recorded totals that are too small; accounts continue with the corrected ones:"
        )
        screen.table(
            ("account", "no", "release", "recorded", "corrected"),
            [list(one.values()) for one in corrected],
        )
    compared = head is not None
    if not compared:
        screen.note(
            "Store the head elsewhere, and pass it next time: --head HEAD detects an older copy."
        )
    return Answer(
        {
            "ledger": place,
            "entries": sound.entries,
            "head": sound.head,
            "sound": True,
            "compared": compared,
            "corrected": corrected,
        }
    )


def _corrected(one: "Correction") -> dict[str, Any]:
    """Return an entry whose total is corrected; the total is None where no rule bounds it."""
    total = one.total if math.isfinite(one.total) else None
    return {
        "account": one.account,
        "number": one.number,
        "release": one.release_id,
        "recorded": one.recorded,
        "total": total,
    }


def export(screen: Screen, ledger: LedgerAddress, output: Lines, force: Force = False) -> Answer:  # noqa: FBT002
    """Write all entries as lines of JSON, each with its hash.

    The released numbers, which the ledger also stores, are left out.
    """
    check_free(output, force=force)
    with existing(ledger) as open_ledger:
        place, entries = open_ledger.export(output), int(open_ledger.head().partition(":")[0])
        name = open_ledger.address
    size = place.stat().st_size
    screen.say(f"{place}: {entries} entries, {size} bytes.")
    return Answer({"ledger": name, "path": place, "entries": entries, "bytes": size})


def _account_document(account: "Account", *, history: bool) -> dict[str, Any]:
    entries, spent = account.history(), account.spent()
    committed = sum(entry.state == "committed" for entry in entries)
    document: dict[str, Any] = {
        "name": account.name,
        "dataset": account.dataset,
        "limit": account.limit,
        "keys_delta": account.keys_delta,
        "methods": [_method(one) for one in account.methods()],
        "spent": spent,
        "explanation": account.explain(),
        "differential_privacy": account.differential_privacy(),
        "group_privacy": account.group_privacy(),
        "committed": committed,
        "reserved": len(entries) - committed,
        "last": entries[-1].at if entries else None,
    }
    if history:
        known = {charge.number: charge for charge in account.budget(ahead=0).charges}
        document["history"] = [_entry(entry, known.get(entry.number)) for entry in entries]
    return document


def _method(one: "AccountMethod") -> dict[str, Any]:
    """Return an accounting method; its total is None if it proves none."""
    total = one.total if math.isfinite(one.total) else None
    return {"name": one.name, "share": one.share, "total": total, "alive": one.alive}


def _entry(entry: "Entry", charge: "Charge | None") -> dict[str, Any]:
    """Return an entry; of very many, some have exact totals, the others upper bounds."""
    worked_out = charge is not None and not charge.at_most
    return {
        "number": entry.number,
        "release": entry.release_id,
        "state": entry.state,
        "at": entry.at,
        "committed_at": entry.committed_at,
        "promise": entry.promise,
        "asked": entry.asked,
        "certainty": entry.certainty,
        "total": charge.total if charge is not None and worked_out else None,
        "total_at_most": entry.at_most if charge is None else charge.total,
        "rule": entry.at_most_rule if charge is None else charge.rule,
        "method": entry.method,
        "dead": entry.dead,
    }


def _show_accounts(screen: Screen, accounts: list[dict[str, Any]]) -> None:
    from pufferflow.cli.guarantee_texts import loss_of, of_limit

    if not accounts:
        screen.say("The ledger has no account.")
        return
    rows = [
        [
            *(
                account["name"],
                account["dataset"],
                of_limit(loss_of(account["spent"]), account["limit"]),
            ),
            *(account["committed"], account["reserved"], _minute(account["last"])),
        ]
        for account in accounts
    ]
    screen.table(("account", "data set", "spent", "releases", "reserved", "last (UTC)"), rows)


def _show_history(screen: Screen, account: dict[str, Any]) -> None:
    from pufferflow.cli.guarantee_texts import in_words, loss_of, of_limit

    screen.say(f"{account['name']}: spent {of_limit(loss_of(account['spent']), account['limit'])}")
    screen.say(account["explanation"].partition("\n")[2])
    columns = ("no", "release", "state", "at (UTC)", "guarantee", "total")
    rows = [
        [
            *(entry["number"], entry["release"], entry["state"], _minute(entry["at"])),
            *(in_words(entry["promise"]), _total(entry)),
        ]
        for entry in account["history"]
    ]
    if rows:
        screen.table(columns, rows)


def _total(entry: dict[str, Any]) -> str:
    from pufferflow.reports.numbers import SPENT, at_most

    known = entry["total"] is not None
    return (
        at_most(entry["total"], SPENT) if known else f"≤ {at_most(entry['total_at_most'], SPENT)}"
    )


def _minute(at: str | None) -> str | None:
    return None if at is None else at[:16].replace("T", " ")


if TYPE_CHECKING:
    from pufferflow.accounting.ledger.verify import Published
    from pufferflow.jobs.job import Job

Compared = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER|JOB",
        help="The folder of one release or of many, or a job file, whose sink may be of any kind.",
        show_default=False,
    ),
]
PaidBy = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        metavar="LEDGER",
        help="The ledger that was charged: a file or an address. A job file names its own.",
        show_default=False,
    ),
]
OfAccount = Annotated[
    str | None,
    typer.Option(
        "--account",
        metavar="NAME",
        help="The account that all releases must belong to.",
        show_default=False,
    ),
]


def compare(
    screen: Screen, published: Compared, ledger: PaidBy = None, account: OfAccount = None
) -> Answer:
    """Compare published releases with the ledger that was charged.

    Prints for each release whether every number and the certificate are those in the ledger. If not, it prints what was
    changed, and the exit code is 6. Reports are not compared.
    """
    job = _job_of(published)
    address = ledger or _ledger_of(job)
    with existing(address) as open_ledger:
        place = open_ledger.address
        about = account or (None if job is None else job.file.ledger.account)
        releases = open_ledger.compare(published if job is None else job.published(), about)
    changed = [release for release in releases if release.differs]
    columns = ("release", "entry", "account", "state")
    rows = [
        [
            release.label,
            release.entry.partition(":")[0],
            release.account,
            "; ".join(release.differs) or "same",
        ]
        for release in releases
    ]
    screen.table(columns, rows)
    screen.say(f"{len(releases) - len(changed)} of {len(releases)} as the ledger keeps them.")
    if changed:
        screen.note(f"PUBLISHED RELEASES ARE NOT WHAT THE LEDGER KEEPS: {len(changed)}")
    document = {
        "ledger": place,
        "folder": published,
        "releases": [_document(release) for release in releases],
    }
    return Answer({**document, "same": not changed}, EXITS[LedgerError] if changed else 0)


def _job_of(published: Path) -> "Job | None":
    """Return the job of a file; None for a folder."""
    if published.is_dir() or published.suffix.lower() != ".toml":
        return None
    from pufferflow.jobs.job import Job

    return Job.read(published)


def _ledger_of(job: "Job | None") -> str:
    if job is None:
        raise UsageError(
            "The folder of a release does not name the ledger that was charged.",
            allowed="--ledger with a folder; a job file, which names its ledger",
            instead="--ledger ledger.db",
        )
    return job.ledger_address


def _document(release: "Published") -> dict[str, Any]:
    return {
        "folder": release.place,
        "entry": release.entry or None,
        "account": release.account or None,
        "release": release.release_id or None,
        "same": not release.differs,
        "differs": release.differs,
    }
