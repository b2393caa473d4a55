"""The planted bugs: small mistakes, each with its file, its text and what it would harm."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Mutant:
    """One planted bug: the text `old` of a file becomes `new`."""

    name: str
    file: str
    harm: str
    old: str
    new: str

    @property
    def package(self) -> str:
        """The package that the bug is in: the folder, or the module where there is none."""
        parts = Path(self.file).parts
        return parts[0] if parts[0] == "connectors" else parts[1].removesuffix(".py")

    def source(self, root: Path = ROOT) -> str:
        """Return the source of the file as it stands."""
        return (root / self.file).read_text(encoding="utf-8")

    def mutated(self, root: Path = ROOT) -> str:
        """Return the source of the file with the bug in it."""
        source = self.source(root)
        if source.count(self.old) != 1:
            raise ValueError(
                f"{self.name}: its text occurs {source.count(self.old)} times in {self.file}."
            )
        return source.replace(self.old, self.new)


def mutants() -> list[Mutant]:
    """Return all planted bugs, by file and name."""
    tables = (
        tomllib.loads(path.read_text(encoding="utf-8"))
        for path in sorted(FOLDER.glob("planted_*.toml"))
    )
    found = [Mutant(**entry) for table in tables for entry in table["mutant"]]
    return sorted(found, key=lambda mutant: (mutant.file, mutant.name))
