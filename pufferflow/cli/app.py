"""All commands, in the order of the help, each with an example that runs beside the starter's job.toml."""

import sys
from typing import Annotated, Final

import typer

from pufferflow.cli.commands.engine import check as check_engine
from pufferflow.cli.commands.engine import installed
from pufferflow.cli.commands.job import check, init, schema
from pufferflow.cli.commands.ledger import compare, export, show, verify
from pufferflow.cli.commands.plan import plan
from pufferflow.cli.commands.report import audit, report
from pufferflow.cli.commands.run import run, schedule
from pufferflow.cli.errors import table
from pufferflow.cli.output import write
from pufferflow.cli.run import Root, command

app: Final = typer.Typer(
    name="pufferflow",
    cls=Root,
    help="Publish noisy statistics of private, correlated data. A ledger adds up what all releases reveal.",
    epilog=f"Exit codes:\n{table()}\n\nFirst steps: pufferflow job init, then plan job.toml, then run job.toml",
    pretty_exceptions_enable=False,  # typer's show local variables, which are data
    context_settings={"help_option_names": ["--help", "-h"]},
)
ledgers: Final = typer.Typer(
    help="Show what was spent, check that no entry was changed, or export all.",
    epilog="Example:\n\npufferflow ledger show ledger.db",
)
jobs: Final = typer.Typer(
    help="Write a first job, check a job file, or print its schema for editors.",
    epilog="Example:\n\npufferflow job init",
)

engines: Final = typer.Typer(
    help="List the engines, or test a database or cluster that holds the rows.",
    epilog="Example:\n\npufferflow engine list",
)


def _show_version(requested: bool) -> None:  # noqa: FBT001 - typer calls it with the value alone
    if requested:
        from importlib.metadata import version

        write(sys.stdout, f"pufferflow {version('pufferflow')}")
        raise typer.Exit


@app.callback()
def root(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Read the options before a command."""
    del version


command(app, "plan", example="pufferflow plan job.toml -o plan.html")(plan)
command(app, "run", example="pufferflow run job.toml")(run)
command(app, "schedule", example="pufferflow schedule job.toml")(schedule)
app.add_typer(ledgers, name="ledger")
command(ledgers, "show", example="pufferflow ledger show ledger.db")(show)
command(ledgers, "verify", example="pufferflow ledger verify ledger.db")(verify)
command(ledgers, "export", example="pufferflow ledger export ledger.db -o entries.ndjson")(export)
command(app, "report", example="pufferflow report ledger.db -o ledger.html")(report)
command(app, "verify", example="pufferflow verify published --ledger ledger.db")(compare)
command(app, "audit", example="pufferflow audit job.toml --trials 20000")(audit)
app.add_typer(jobs, name="job")
command(jobs, "init", example="pufferflow job init another")(init)
command(jobs, "schema", example="pufferflow job schema -o job.schema.json --force")(schema)
command(jobs, "check", example="pufferflow job check job.toml")(check)
app.add_typer(engines, name="engine")
command(engines, "list", example="pufferflow engine list")(installed)
command(engines, "check", example="pufferflow engine check duckdb:")(check_engine)
