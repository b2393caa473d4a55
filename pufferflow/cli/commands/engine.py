"""`pufferflow engine list` and `check`: list the engines that can hold the rows, and run the self-test of one.

Rows stay in the engine, which groups, counts and sums. Its results must be those of Polars.
"""

import time
from typing import Annotated

import typer

from pufferflow.cli.run import Answer
from pufferflow.cli.screen import Screen

Address = Annotated[
    str,
    typer.Argument(
        metavar="ADDRESS",
        help="The address, such as duckdb:, postgresql://…, spark: or sc://host:15002.",
    ),
]


def installed(screen: Screen) -> Answer:
    """List the installed engines, and what to install for others.

    An engine is a database or cluster that holds the rows. Polars, which reads frames and files, is always there.
    """
    from pufferflow.core.entry_points import load, names_in
    from pufferflow.core.errors import UsageError

    rows = list[list[str]]()
    for name in names_in("pufferflow.engines"):
        try:
            load("pufferflow.engines", name)
            rows.append([name, "ready", ""])
        except UsageError as error:
            rows.append([name, "missing", error.instead or ""])
    screen.table(("engine", "state", "to install it"), rows)
    return Answer(
        {"engines": [{"engine": name, "ready": state == "ready"} for name, state, _ in rows]}
    )


def check(screen: Screen, address: Address) -> Answer:
    """Test whether an engine computes what Polars does, to the last digit.

    No table is made or read: the test rows, all edge cases, are part of the queries. Every engine must pass this test
    before it reads private rows; the command runs it earlier. ${NAME} in the address is read from the environment.
    """
    from pufferflow.engines.connect import check_engine
    from pufferflow.jobs.toml import with_variables

    begun = time.monotonic()
    name, digest = check_engine(with_variables(address))
    seconds = time.monotonic() - begun
    screen.facts(
        [
            ("engine", name),
            ("self-test", "passed"),
            ("digest", digest),
            ("seconds", f"{seconds:.1f}"),
        ]
    )
    return Answer({"engine": name, "passed": True, "digest": digest, "seconds": round(seconds, 3)})
