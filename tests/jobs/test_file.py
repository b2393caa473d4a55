"""What is wrong with a job file is told with its place, what is allowed there, and what was probably meant."""

import json
from importlib.resources import files

import msgspec
import pytest

import pufferflow as pf
from pufferflow.jobs.file import JobFile, read_file, read_text, schema
from pufferflow.jobs.toml import with_variables

STARTER = (files("pufferflow.jobs.starter") / "job.toml").read_text()


def changed(*pairs):
    text = STARTER
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


def line_of(text, part):
    return next(number for number, line in enumerate(text.splitlines(), start=1) if part in line)


def refused(text):
    with pytest.raises(pf.UsageError) as caught:
        read_text(text, "job.toml")
    return caught.value


def test_the_starter_says_what_its_comments_say():
    """Keys that the starter shows as comments are those of the schema, with their default values."""
    assert read_text(STARTER, "job.toml").plan_arguments["guarantee"] == pf.Pure(0.5)
    lines = [line.strip() for line in STARTER.splitlines()]
    shown = [line for line in lines if line.startswith("# ") and " = " in line.split("#")[1]]
    assert len(shown) >= 8
    full = changed(
        ('# noise = "auto"', 'noise = "auto"'),
        ("# shares = {", "shares = {"),
        ("# row_privacy = true", "row_privacy = true"),
        ("# per_group = false", "per_group = false"),
        ("# estimates = false", "estimates = false"),
        ('function = "job.py:rows"', "# function"),
        ('# path = "data', 'path = "data'),
        ("# columns = {", "columns = {"),
        ("# report = true", "report = true"),
        ("# catch_up = 31", "catch_up = 31"),
    )
    found, plain = read_text(full, "job.toml"), read_text(STARTER, "job.toml")
    for key in ("sink", "schedule", "noise", "row_privacy", "per_group", "estimates"):
        assert getattr(found, key) == getattr(plain, key)
    assert plain.plan_arguments["row_privacy"] is True
    lowered = read_text(changed(("# row_privacy = true", "row_privacy = false")), "job.toml")
    assert lowered.plan_arguments["row_privacy"] is False


@pytest.mark.parametrize(
    ("old", "new", "part", "told"),
    [
        ("epsilon = 0.5", "epsilonn = 0.5", "epsilonn", "unknown key 'epsilonn' in [guarantee].*try: epsilon"),
        ("limit = { epsilon", "limit = { epsilonn", "epsilonn", "key 'epsilonn' in [ledger.limit].*try: epsilon"),
        ("[guarantee]", "[guarante]", "[guarante]", "unknown key 'guarante'.*try: guarantee"),
        ("[guarantee]", "[x]", "[x]", "unknown key 'x'.*job schema"),
        ("# row_privacy = true", 'floor = "none"', "floor", "unknown key 'floor'.*try: row_privacy = true"),
        ("epsilon = 0.5", 'epsilon = "0.5"', '"0.5"', "guarantee.epsilon: Expected `float`, got `str`"),
        ("epsilon = 0.5", "epsilon = -0.5", "-0.5", "guarantee.epsilon: Expected `float` > 0"),
        ("epsilon = 0.5", "epsilon = inf", "[guarantee]", "epsilon is inf"),
        ("epsilon = 0.5", "epsilon = 0.5\ndelta = 1.5", "delta = 1.5", "guarantee.delta"),
        ('cron = "0 3 * * *"', 'cron = "0 30 * * *"', "[schedule]", "'0 30 * * *': Bad hour"),
        ('cron = "0 3 * * *"', 'cron = "@daily"', "[schedule]", "five fields"),
        ('timezone = "UTC"', 'timezone = "Berlin"', "[schedule]", "'Berlin', which is not known"),
        ('period = "day"', 'period = "daily"', '"daily"', "Invalid enum value 'daily'.*day, hour, month, week"),
        ('wait = "30s"', 'wait = "30"', 'wait = "30"', "retries.wait.*30s, 5m or 1h"),
        ("attempts = 3", "attempts = 0", "attempts = 0", "retries.attempts: Expected `int` >= 1"),
        ('name = "meters-daily"', 'name = "a/b"', "name = ", "letters, digits"),
        ('name = "meters-daily"', 'name = "a\\n"', "name = ", "letters, digits"),
        ('function = "job.py:rows"', 'function = "job.py"', 'function = "job.py"', "file.py:function"),
        ('function = "job.py:rows"', "", "[source]", "a path and a function, or neither"),
        ('format = "parquet"', 'format = "xlsx"', "xlsx", "allowed: csv, ndjson, parquet"),
    ],
)  # fmt: skip
def test_each_mistake_is_told_with_its_line(old, new, part, told):
    """An error names the file, the line and the column, what is allowed, and what was probably meant."""
    text = changed((old, new))
    error = str(refused(text)).replace("\n", " ")
    assert error.startswith(f"job.toml, line {line_of(text, part)}, column 1: ")
    for piece in told.split(".*"):
        assert piece in error


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("epsilon = 0.5", "epsilon == 0.5", "column 10: invalid value"),
        ("epsilon = 0.5", "epsilon = 0.5 0.6", "column 15: expected newline"),
        ("[guarantee]", "[guarantee", "column 36: expected"),
        ('name = "meters-daily"', 'name = "meters-daily', "column"),
    ],
)
def test_malformed_toml_is_told_with_line_and_column(old, new, place):
    """What is no TOML is told where the reader stopped, with the line itself."""
    text = changed((old, new))
    error = refused(text)
    assert f"line {line_of(text, new)}, {place}" in error.problem
    assert error.allowed == "TOML"


def test_a_file_that_ends_too_early():
    """A value that is missing at the end is told with the last line."""
    assert refused("name = ").problem.startswith("job.toml, line 1, column 8: ")
    assert "missing `name`" in refused("").problem


@pytest.mark.parametrize("text", ["[guarantee]\nepsilon = 0.5\n[accuracy]\nerror = 3\n", ""])
def test_one_promise(text):
    """A file has a guarantee or an accuracy, not both and not neither."""
    body = 'name = "a"\nbuild = "job.py:build"\n[source]\npath = "x.parquet"\n'
    ledger = '[ledger]\naccount = "a"\nlimit = { epsilon = 1 }\n'
    assert "a guarantee and an accuracy, or neither" in refused(body + ledger + text).problem


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        ("epsilon = 0.5", pf.Pure(0.5)),
        ("epsilon = 0.5\ndelta = 1e-6", pf.Approx(0.5, 1e-6)),
        ("epsilon = 0.5\nalpha = 4", pf.Renyi(4, 0.5)),
        ("epsilon = 0.5\nalpha = 4\ndelta = 1e-6", pf.ApproxRenyi(4, 0.5, 1e-6)),
    ],
)
def test_promises_of_every_kind(table, kind):
    """Which keys there are says which kind of guarantee it is."""
    assert (
        read_text(changed(("epsilon = 0.5", table)), "job.toml").plan_arguments["guarantee"] == kind
    )


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        ("", "Pure"),
        ("delta = 1e-6", "Approx"),
        ("alpha = 4", "Renyi"),
        ("alpha = 4\ndelta = 1e-6", "ApproxRenyi"),
    ],
)
def test_accuracies_of_every_kind(table, kind):
    """An accuracy says which kind of guarantee is sought in the same way."""
    asked = changed(("[guarantee] ", "[accuracy] "), ("epsilon = 0.5", f"error = 20\n{table}"))
    wanted = read_text(asked, "job.toml").plan_arguments
    assert wanted["accuracy"] == pf.Within(20)
    assert kind in repr(wanted["guarantee"])


def test_variables_come_from_the_environment(monkeypatch):
    """A password needs not stand in a file; a variable that is not set is named."""
    monkeypatch.setenv("LEDGER_PASSWORD", "s3cret$")
    assert (
        with_variables("postgresql://me:${LEDGER_PASSWORD}@host/db")
        == "postgresql://me:s3cret$@host/db"
    )
    monkeypatch.delenv("LEDGER_PASSWORD")
    with pytest.raises(pf.UsageError, match="environment variable 'LEDGER_PASSWORD'"):
        with_variables("postgresql://me:${LEDGER_PASSWORD}@host/db")


def test_files_that_cannot_be_read(tmp_path):
    """A path that is no text file is misuse, and says so."""
    with pytest.raises(pf.UsageError, match="There is no file"):
        read_file(tmp_path / "job.toml")
    with pytest.raises(pf.UsageError, match="cannot be read"):
        read_file(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b'name = "\xff"')
    with pytest.raises(pf.UsageError, match="cannot be read: UnicodeDecodeError"):
        read_file(tmp_path / "latin.toml")


def test_the_schema_knows_every_key():
    """Each key of the typed file is in the schema, which forbids all others."""
    found = schema()
    parts = found["$defs"]
    assert set(parts["JobFile"]["properties"]) == {
        field.name for field in msgspec.structs.fields(JobFile)
    }
    assert all(part["additionalProperties"] is False for part in parts.values())
    assert json.loads(json.dumps(found)) == found


def test_a_job_names_a_bound():
    """The proof may be chosen, by the names that `bound=` has; another name is answered with those."""
    named = changed(('# bound = "auto"', 'bound = "messages" #'))
    assert read_text(named, "job.toml").plan_arguments["bound"] == "messages"
    assert read_text(STARTER, "job.toml").plan_arguments["bound"] == "auto"
    assert "bound" in str(refused(changed(('# bound = "auto"', 'bound = "message" #'))))
