"""What is documented is there: commands, options, exit codes, examples, in help, the reference page and the README."""

import re
import shlex

import pytest
import typer
from documented import PAGE, README, SECTIONS, TABLE, commands

from pufferflow.cli.app import app
from pufferflow.cli.errors import MEANINGS

ROOT = typer.main.get_command(app)


def leaves(group, path=()):
    """Yield every command with the words that call it."""
    for name, one in group.commands.items():
        if hasattr(one, "commands"):
            yield from leaves(one, (*path, name))
        else:
            yield " ".join((*path, name)), one


COMMANDS = dict(leaves(ROOT))
EXAMPLES = {name: re.search(r"pufferflow .*", one.epilog)[0] for name, one in COMMANDS.items()}
LINES = sorted({*commands(PAGE), *commands(README), *EXAMPLES.values()})


def called(line):
    """Return the command that a line calls, and its further words."""
    words = shlex.split(line)[1:]
    name = " ".join(words[:2]) if " ".join(words[:2]) in COMMANDS else words[0]
    return COMMANDS.get(name), words[len(name.split()) :]


@pytest.mark.parametrize("line", LINES)
def test_every_documented_line_can_be_given(line):
    """A line in the documentation names a command that there is, with options and arguments that it takes."""
    found, words = called(line)
    assert found is not None, line
    found.make_context(found.name, list(words), resilient_parsing=False)


def test_every_command_has_its_section():
    """The documentation has a section for each command, with an example in it, and none besides."""
    assert set(SECTIONS) == set(COMMANDS)
    for name, text in SECTIONS.items():
        assert commands(text)[0].startswith(f"pufferflow {name}")


def test_every_option_is_documented():
    """Each option of a command stands in its section, or among what all have in common."""
    shared = PAGE.partition("## plan")[0]
    for name, one in COMMANDS.items():
        options = {
            option for param in one.params for option in param.opts if option.startswith("--")
        } - {"--output"}
        assert [option for option in options if option not in SECTIONS[name] + shared] == [], name


def test_the_table_of_codes_is_that_of_the_program(give):
    """The documentation and the help have the codes and the words of the one table."""
    assert TABLE == MEANINGS
    told = give("--help", COLUMNS="100").out
    for code, meaning in MEANINGS.items():
        assert re.search(rf"{code}\s+{re.escape(meaning)}", told)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_a_summary_arguments_and_an_example(give, name):
    """Help begins with one short sentence, explains all that can be given, and shows an example."""
    one = COMMANDS[name]
    summary = one.help.partition("\n")[0]
    assert summary.endswith(".")
    assert len(summary) <= 70
    assert all(param.help for param in one.params)
    told = give(*name.split(), "--help", COLUMNS="120").out
    assert summary in told
    assert EXAMPLES[name] in told
    assert told.isascii() or "╭" in told


@pytest.mark.slow
def test_examples_run_where_a_job_begins(begun, give):
    """The examples of the help run as they stand in a folder that `job init` has made, one after the other."""
    first = ["job check", "plan", "run"]
    for name in [*first, *(name for name in COMMANDS if name not in {*first, "schedule"})]:
        found = give(*shlex.split(EXAMPLES[name])[1:])
        assert found.exit == 0, (name, found.err)
    assert {"plan.html", "ledger.html", "entries.ndjson", "another", "published"} <= {
        one.name for one in begun.iterdir()
    }


@pytest.mark.slow
def test_the_readme_runs_as_it_stands(tmp_path, monkeypatch, give):
    """The commands of the README run in an empty folder, in their order."""
    monkeypatch.chdir(tmp_path)
    for line in commands(README):
        found = give(*shlex.split(line)[1:])
        assert found.exit == 0, (line, found.err)


def test_versions_and_help_exit_with_zero(give):
    """The version is the package's, and both ways to ask for help answer."""
    assert re.fullmatch(r"pufferflow \d+\.\d+\S*\n", give("--version").out)
    assert give("-h").exit == give("plan", "-h").exit == 0
    assert "--install-completion" in give("--help").out
