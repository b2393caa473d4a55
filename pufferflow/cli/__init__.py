"""The command line, `pufferflow`; it loads few modules at its start, so that `--help` is quick."""

import sys

_AGAIN = "the same command again: nothing is charged twice"
_STOPPED = f"Stopped.\n  try: {_AGAIN}\n"
_STOPPED_JSON = (
    '{"error": {"kind": "Stopped", "problem": "Stopped.", "allowed": "", '
    f'"instead": "{_AGAIN}"}}, "exit": 130}}\n'
)


def main() -> None:
    """Run the command that the arguments name, and exit with its code."""
    try:
        from pufferflow.cli.app import app

        app()
    except KeyboardInterrupt:  # before the command began, or after it ended
        from pufferflow.cli.output import write

        json = "--json" in sys.argv
        write(sys.stdout if json else sys.stderr, _STOPPED_JSON if json else _STOPPED, end="")
        sys.exit(130)
    finally:
        exec("")  # noqa: S102 - CPython would die of a signal that it caught inside exec(), unless it runs another
