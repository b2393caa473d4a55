"""A job to begin with: a commented file and its Python functions, which run as they are in an empty folder."""

import json
from importlib.resources import files
from pathlib import Path

from pufferflow.core.errors import UsageError
from pufferflow.core.paths import local_path
from pufferflow.jobs.file import schema
from pufferflow.published.release import written

FILES = {"job.toml": "job.toml", "job.py": "job.py.txt"}
"""What is written, and the file here that it is a copy of."""
SCHEMA = "job.schema.json"


def write(folder: str | Path) -> list[Path]:
    """Write the job into a folder, which is made if it is missing; refuse to touch files that are there."""
    place = local_path(folder, "The folder")
    texts = {
        name: (files(__name__) / source).read_text(encoding="utf-8")
        for name, source in FILES.items()
    }
    texts[SCHEMA] = json.dumps(schema(), indent=2) + "\n"
    there = [name for name in texts if (place / name).exists()]
    if there:
        raise UsageError(
            f"The folder has a file {there[0]!r} already.",
            allowed="a folder without such files",
            instead="pufferflow job init another-folder",
        )

    def write_all() -> None:
        place.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (place / name).write_text(text, encoding="utf-8")

    written(write_all, place)
    return [place / name for name in texts]
