"""What became of one scheduled batch."""

from dataclasses import dataclass
from pathlib import Path
from typing import final

from pufferflow.release import Release


@final
@dataclass(frozen=True, eq=False)
class Ran:
    """A batch that is released and where it goes.

    `drawn` says whether noise was drawn now; otherwise the release was kept before, and is the same. `sent` says
    whether it was written now; otherwise the folder had it. `notes` tell what did not go smoothly.

    >>> import tempfile, pufferflow as pf
    >>> from pufferflow.jobs import starter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = starter.write(folder)
    ...     ran = pf.Job.read(f"{folder}/job.toml").run("2026-11-20")
    ...     print(ran.state, ran.id, ran.folder.name, ran.release.frame.height)
    released meters-daily-2026-11-20 2026-11-20 4
    """

    job: str
    period: str
    id: str
    release: Release
    folder: Path
    drawn: bool
    sent: bool
    attempts: int = 1
    notes: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        """What happened, in a word: "released", "sent again" or "kept"."""
        return "released" if self.drawn else "sent again" if self.sent else "kept"
