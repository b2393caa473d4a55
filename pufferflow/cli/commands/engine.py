"""`pufferflow engine list` and `check`: which databases and clusters can keep the rows, and whether one is fit to.

Rows stay on such a machine, which groups, counts and adds up; what it returns has to be what Polars returns.
"""

import time
from typing import Annotated

import typer

from pufferflow.cli.run import Answer
from pufferflow.cli.screen import Screen

Address = Annotated[
    str, typer.Argument(metavar="ADDRESS", help="Where it is: duckdb:, postgresql://…, spark:, sc://host:15002.")
]


def installed(screen: Screen) -> Answer:
    """List the engines that are installed, and what to install for others.

    Polars, which reads frames and files, is always there.
    """
    from pufferflow.entry_points import load, names_in
    from pufferflow.errors import UsageError

    rows = list[list[str]]()
    for name in names_in("pufferflow.engines"):
        try:
            load("pufferflow.engines", name)
            rows.append([name, "ready", ""])
        except UsageError as error:
            rows.append([name, "missing", error.instead or ""])
    screen.table(("engine", "state", "to install it"), rows)
    return Answer({"engines": [{"engine": name, "ready": state == "ready"} for name, state, _ in rows]})


def check(screen: Screen, address: Address) -> Answer:
    """Test whether an engine answers as Polars does, to the last digit.

    The rows, made to hurt, stand in the queries: no table is made, and none is read. Every engine is tested so before
    its first rows are protected; this command tells beforehand. ${NAME} in the address is looked up in the environment.
    """
    from pufferflow.engine import check_engine
    from pufferflow.jobs import with_variables

    begun = time.monotonic()
    name, digest = check_engine(with_variables(address))
    seconds = time.monotonic() - begun
    screen.facts([("engine", name), ("self-test", "passed"), ("digest", digest), ("seconds", f"{seconds:.1f}")])
    return Answer({"engine": name, "passed": True, "digest": digest, "seconds": round(seconds, 3)})
