"""The check of the import rules in pyproject.toml, as a command to run in a tree."""

import sys

LINT_IMPORTS = [
    sys.executable,
    "-c",
    "from importlinter.cli import lint_imports_command as run; run()",
    "--no-cache",
]
