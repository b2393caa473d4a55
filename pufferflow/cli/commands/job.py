"""`pufferflow job init`, `schema` and `check`: begin a job, print the schema of its file, and check the file."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pufferflow.cli.options import Force, JobPath, check_free
from pufferflow.cli.run import Answer
from pufferflow.cli.screen import Screen
from pufferflow.core.errors import UsageError

if TYPE_CHECKING:
    from pufferflow.jobs.job import Job

Folder = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="The folder of the job; it is created if missing.")
]
SchemaPath = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE.json",
        help="Write the schema to this file. Default: stdout.",
        show_default=False,
    ),
]


def init(screen: Screen, folder: Folder = Path()) -> Answer:
    """Write a first job, which runs as it is.

    Writes job.toml, its Python functions, and the schema of the file for editors. The rows are made up. Replaces no
    file.
    """
    from pufferflow.cli.commands.run import near
    from pufferflow.jobs import starter

    files = starter.write(folder)
    job = folder / "job.toml"
    for file in files:
        screen.say(f"wrote {near(file)}")
    screen.say(f"\nNext:\n  pufferflow plan {job}\n  pufferflow run {job}")
    return Answer(
        {
            "folder": folder,
            "files": files,
            "next": [f"pufferflow plan {job}", f"pufferflow run {job}"],
        }
    )


def schema(screen: Screen, output: SchemaPath = None, force: Force = False) -> Answer:  # noqa: FBT002
    """Print the JSON schema of a job file, for editors.

    Editors with TOML support use it to complete and check job.toml.
    """
    from pufferflow.jobs.file import schema as of_a_job

    if output is not None:
        _check_name(output)
        check_free(output, force=force)
    json_schema = of_a_job()
    if output is None:
        screen.raw(json.dumps(json_schema, indent=2))
    else:
        from pufferflow.published.release import put_text

        put_text(output, json.dumps(json_schema, indent=2) + "\n")
        screen.note(f"The schema is {output}.")
    return Answer({"path": output, "schema": json_schema})


def check(screen: Screen, job: JobPath) -> Answer:
    """Read a job file, import its functions, and say what is due next.

    Reads no data. Of a ledger it reads only whether its account agrees with the file.
    """
    from pufferflow.cli.guarantee_texts import differences
    from pufferflow.jobs.file import check_addresses
    from pufferflow.jobs.job import Job

    batch = Job.read(job)
    check_addresses(batch.file)
    _ = batch.functions
    document = _describe(batch)
    notes = differences(batch)
    screen.facts(
        [
            (name, value)
            for name, value in (document | _describe_in_words(batch)).items()
            if value is not None
        ]
    )
    for note in notes:
        screen.note(note)
    return Answer({"path": batch.path, **document})


def _describe(job: "Job") -> dict[str, Any]:
    from pufferflow.jobs.scheduling import next_time

    plan, period = job.file.schedule, job.period()
    return {
        "job": job.name,
        "build": job.file.build,
        "promise": None if job.file.guarantee is None else job.file.guarantee.guarantee,
        "accuracy": job.file.accuracy,
        "account": job.file.ledger.account,
        "limit": job.file.ledger.limit.guarantee,
        "period": str(period),
        "folder": job.place_of(period),
        "cron": plan.cron,
        "timezone": plan.timezone,
        "next": None if plan.cron is None else next_time(plan.cron, plan.timezone),
    }


def _describe_in_words(job: "Job") -> dict[str, Any]:
    """Return the values whose text for people differs from that for programs."""
    from pufferflow.cli.commands.run import near
    from pufferflow.cli.guarantee_texts import in_words

    file, period = job.file, job.period()
    promise = None if file.guarantee is None else in_words(file.guarantee.guarantee)
    accuracy = file.accuracy
    return {
        "promise": promise,
        "accuracy": None
        if accuracy is None
        else f"errors within {accuracy.error:g}, confidence {accuracy.confidence:g}",
        "limit": in_words(file.ledger.limit.guarantee),
        "folder": near(job.place_of(period)),
    }


def _check_name(path: Path) -> None:
    if path.suffix.lower() != ".json":
        raise UsageError(
            f"A schema would be written to {path.name[:200]!r}.",
            allowed="a name that ends in .json",
            instead="-o job.schema.json",
        )
