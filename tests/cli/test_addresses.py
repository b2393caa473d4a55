"""Addresses with a scheme: served, or refused before anything is written, read or drawn."""

from pathlib import Path

import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf
from pufferflow.core.paths import local_path, scheme_of
from pufferflow.jobs import starter

ELSEWHERE = [
    "s3://bucket/published",
    "gs://b/x",
    "abfss://c@a/x",
    "https://u:secret@host/x",
    "file:///data/x",
    "s3:/b/x",
]


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Return a folder with the starter's job, in which programs run, and what is in it at first."""
    folder = tmp_path / "job"
    starter.write(folder)
    monkeypatch.chdir(folder)
    return folder, sorted(folder.rglob("*"))


def said(folder, table, key, value):
    """Let the job file say something else under a key of a table."""
    file = folder / "job.toml"
    lines, here = [], ""
    for line in file.read_text().splitlines():
        here = line.strip() if line.startswith("[") else here
        lines.append(
            f'{key} = "{value}"' if here == f"[{table}]" and line.startswith(f"{key} =") else line
        )
    file.write_text("\n".join(lines))
    assert f'{key} = "{value}"' in lines


def plan():
    scenario = pf.Scenario(pf.Secret("level", domain=[0, 1]), pf.Independent())
    return (
        pf.protect(pl.DataFrame({"level": [0, 1]}), scenario).private_sum("level").plan(epsilon=1.0)
    )


@pytest.mark.parametrize("address", ELSEWHERE)
@pytest.mark.parametrize("command", ["check", "plan", "run"])
def test_a_sink_elsewhere_is_refused_by_every_command(address, command, written, give):
    """With the line of the file, before anything is drawn, and no folder of that name is made."""
    folder, before = written
    said(folder, "sink", "path", address)
    given = ["job", "check", "job.toml"] if command == "check" else [command, "job.toml"]
    found = give(*given)
    assert found.exit == 2
    assert "job.toml, line " in found.err
    assert f"address with '{scheme_of(address)}:'" in " ".join(found.err.split())
    assert "secret" not in found.err
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("address", thinned(ELSEWHERE, 0.2))
def test_a_sink_that_the_environment_puts_elsewhere_is_refused(address, written, give, monkeypatch):
    """A variable may hold the address; it is looked up by whoever checks, plans or runs."""
    folder, before = written
    said(folder, "sink", "path", "${WHERE}")
    monkeypatch.setenv("WHERE", address)
    for command in (["job", "check"], ["plan"], ["run"]):
        found = give(*command, "job.toml")
        assert found.exit == 2
        assert "address with" in found.err
    assert [file for file in sorted(folder.rglob("*")) if "__pycache__" not in str(file)] == before
    monkeypatch.delenv("WHERE")
    assert give("plan", "job.toml").exit == 0  # a plan writes nowhere


@pytest.mark.parametrize(
    "address", ["s3://bucket/ledger.db", "mysql://u:secret@host/x", "file:///data/l.db", "s3:/b/x"]
)
@pytest.mark.parametrize("variable", [False, True])
def test_a_ledger_elsewhere_is_refused_by_check(address, variable, written, give, monkeypatch):
    """Not only noted: every run of the job would be refused."""
    folder, _ = written
    monkeypatch.setenv("WHERE", address)
    said(folder, "ledger", "address", "${WHERE}" if variable else address)
    for command in (["job", "check"], ["plan"], ["run"]):
        found = give(*command, "job.toml")
        assert found.exit == 2
        assert f"A ledger in '{scheme_of(address)}'" in " ".join(found.err.split())
        assert "secret" not in found.err


@pytest.mark.parametrize(
    "address",
    ["ftp://host/x.parquet", "S3://bucket/x.parquet", "hdfs://n/x.parquet", "s3:/b/x.csv"],
)
def test_a_source_that_polars_does_not_read_is_refused(address, written, give):
    """The error lists those that it reads, and says that a function reads anything."""
    folder, _ = written
    text = (
        (folder / "job.toml").read_text().replace('function = "job.py:rows"', f'path = "{address}"')
    )
    (folder / "job.toml").write_text(text)
    found = give("job", "check", "job.toml")
    assert found.exit == 2
    assert "which Polars does not read" in " ".join(found.err.split())
    assert "s3://" in found.err
    (folder / "job.toml").write_text(text.replace(address, "s3://bucket/{period}.parquet"))
    assert give("job", "check", "job.toml").exit == 0


@pytest.mark.parametrize("address", thinned(ELSEWHERE, 0.25))
@pytest.mark.parametrize("kind", [str, Path])
def test_nothing_of_the_library_writes_to_an_address(address, kind, tmp_path, monkeypatch):
    """Releases, pages, exports and ledgers: a Path keeps one slash of two, and is no way around."""
    monkeypatch.chdir(tmp_path)
    release, place = plan().release(), kind(address)
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        ledger.open(
            "levels", pf.Scenario(pf.Secret("level", [0, 1]), pf.Independent()), limit=pf.Pure(1.0)
        )
        for write in (
            *(
                release.write_parquet,
                release.write_csv,
                release.write_ndjson,
                release.report,
                pf.Release.read,
            ),
            *(
                plan().report,
                ledger.report,
                ledger.export,
                ledger.copy_to,
                pf.Ledger,
                starter.write,
            ),
        ):
            with pytest.raises(pf.UsageError) as refused:
                write(place)
            assert "secret" not in str(refused.value)
            assert f"'{scheme_of(address)}" in refused.value.problem
    assert [file.name for file in tmp_path.iterdir() if not file.name.startswith("ledger.db")] == []


def test_the_path_of_a_file_address_is_what_to_type(tmp_path):
    """A file:// address is refused with the plain path that it means."""
    place = tmp_path / "a folder"
    with pytest.raises(pf.UsageError) as refused:
        plan().release().write_parquet(place.as_uri())
    assert refused.value.instead == f'"{place}"'
    for address in ("file://localhost/data/x", "file:/data/x"):
        with pytest.raises(pf.UsageError) as refused:
            local_path(address, "It")
        assert refused.value.instead == '"/data/x"'


@pytest.mark.parametrize(
    "path",
    ["published", "./s3/x", "C:\\data\\x", "C:/data/x", "/data/s3:/x", "a:b/c", "~/x", "2026:11"],
)
def test_paths_are_no_addresses(path):
    """Drives, colons inside names and folders called s3 are paths."""
    assert local_path(path, "It") == Path(path)


@pytest.mark.parametrize("wrong", [None, 3, b"published", ["published"]])
def test_what_is_no_path_is_refused(wrong):
    """With what it is, and what a path looks like."""
    with pytest.raises(pf.UsageError, match="The folder is of type"):
        plan().release().write_parquet(wrong)


@pytest.mark.parametrize(
    "command", [["plan", "job.toml", "-o"], ["report", "published", "-o"], ["job", "schema", "-o"]]
)
def test_no_command_writes_a_page_to_an_address(command, written, give):
    """What is typed after -o is a path as well."""
    folder, before = written
    name = "s3://bucket/page.json" if "schema" in command else "s3://bucket/page.html"
    found = give(*command, name)
    assert found.exit == 2
    assert "address with 's3:'" in found.err
    assert not (folder / "s3:").exists()
    assert set(before) <= set(folder.rglob("*"))
