"""Delta and Iceberg tables: one commit a release, whichever comes first; the certificate stays with its rows."""

import deltalake
import ons
import polars as pl
import pytest
import sinks
from pufferflow_connectors.sinks.delta import DeltaTable
from pufferflow_connectors.sinks.iceberg import IcebergTable
from pufferflow_connectors.sinks.lake import LakeSink
from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import EqualTo
from thinned import thinned

import pufferflow as pf

LABEL, NEXT = "2026-11-20", "2026-11-21"
LAKES = [kind for kind in sinks.KINDS if kind.name in {"delta", "iceberg"}]


@pytest.fixture(params=LAKES, ids=lambda kind: kind.name)
def lake(request):
    return request.param


@pytest.fixture
def opened(lake, tmp_path):
    return lambda: lake.table("", tmp_path).open(tmp_path, sinks.JOB)


@pytest.fixture
def release():
    return sinks.release_of(pl.DataFrame({"district": ["north", None]}))


@pytest.mark.parametrize("both", thinned(["the same", "another"], 0.5))
def test_a_commit_that_came_first_is_found(lake, opened, release, monkeypatch, both):
    """Another process commits between the look and the commit: its release stays, and is there once."""
    opened().send("2026-11-19", release)
    second = release if both == "the same" else sinks.other(release)
    commit = type(opened())._append
    monkeypatch.setattr(
        type(opened()), "_append", _after(lambda: opened().send(LABEL, release), commit)
    )
    if both == "the same":
        assert opened().send(LABEL, second) is False
    else:
        with pytest.raises(pf.UsageError, match="never replaced"):
            opened().send(LABEL, second)
    assert lake.reader(opened(), LABEL) == release.frame["load"].to_list()


@pytest.mark.slow
def test_commits_of_others_are_no_reason_to_stop(lake, opened, release, monkeypatch):
    """Another release that is committed in between stands beside this one."""
    opened().send("2026-11-19", release)
    commit, more = type(opened())._append, sinks.other(release)
    monkeypatch.setattr(
        type(opened()), "_append", _after(lambda: opened().send(NEXT, more), commit)
    )
    assert opened().send(LABEL, release) is True
    assert lake.reader(opened(), LABEL) == release.frame["load"].to_list()
    assert lake.reader(opened(), NEXT) == more.frame["load"].to_list()
    assert len(list(opened().copies())) == 3


def _after(first, commit):
    """Return a commit before which, once, something else happens."""
    waiting = [first]

    def late(*arguments):
        if waiting:
            waiting.pop()()
        return commit(*arguments)

    return late


@pytest.mark.slow
def test_a_release_that_is_there_twice_is_told(opened, release, monkeypatch):
    """As it would be if somebody appended it by hand."""
    opened().send(LABEL, release)
    monkeypatch.setattr(LakeSink, "_other", lambda *_: "")
    rows = opened()._read(
        lambda table: opened()._rows(table, f"{sinks.JOB}-{LABEL}", opened()._columns(table))
    )
    assert opened()._append(opened()._open(), f"{sinks.JOB}-{LABEL}", rows, "")
    (copy,) = opened().copies()
    assert copy.differences(release) == [
        "its rows have other numbers, or are not all there, or twice"
    ]


@pytest.mark.slow
def test_rows_that_were_deleted_are_sent_again(lake, opened, release):
    """All of them: whether a release is there is what its rows say. A part of them is another release."""
    opened().send(LABEL, release)
    opened().send(NEXT, sinks.other(release))
    _delete(lake, opened(), f"{sinks.JOB}-{LABEL}")
    assert not opened().has(LABEL)
    assert opened().send(LABEL, release)
    assert not opened().send(LABEL, release)
    assert lake.reader(opened(), LABEL) == release.frame["load"].to_list()


def _delete(lake, sink, name):
    if lake.name == "delta":
        deltalake.DeltaTable(sink.root).delete(f"release_id = '{name}'")
    else:
        load_catalog("default", **sink._options).load_table("stats.meters").delete(
            EqualTo("release_id", name)
        )


def test_commits_say_which_release_they_are(opened, release):
    """For people who look at the history of the table, and so that the newest are found at once."""
    opened().send(LABEL, release)
    opened().send(NEXT, sinks.other(release))
    assert [place.rpartition("#")[2] for place, _ in opened().newest()] == [
        f"{sinks.JOB}-{NEXT}",
        f"{sinks.JOB}-{LABEL}",
    ]


@pytest.mark.slow
def test_the_newest_are_known_without_a_log(opened, release, monkeypatch):
    """Where logs and snapshots have expired, the rows tell."""
    opened().send(LABEL, release)
    opened().send(NEXT, sinks.other(release))
    known = sorted(opened().newest())
    monkeypatch.setattr(type(opened()), "_recent", lambda *_: [])
    assert sorted(opened().newest()) == known


@pytest.mark.slow
def test_another_table_is_refused_before_anything_is_drawn(lake, tmp_path):
    """One that somebody else made is left alone, and the ledger is not charged."""
    if lake.name == "delta":
        deltalake.write_deltalake(tmp_path / "published", pl.DataFrame({"load": [1.0]}))
    else:
        options = lake.table("", tmp_path).options
        catalog = load_catalog("default", **options)
        catalog.create_namespace("stats")
        catalog.create_table(
            "stats.meters",
            pl.DataFrame({"release_id": ["a"], "certificate": [1]}).to_arrow().schema,
        )
    keys = (
        'guarantee = { epsilon = 0.6 }\nledger = { account = "ons", limit = { epsilon = 6.0 } }\n'
    )
    job = pf.Job.read(
        ons.write_job(tmp_path, f'{keys}[sink]\nkind = "{lake.name}"\n{lake.written("", tmp_path)}')
    )
    with pytest.raises((pf.UsageError, pf.SinkError)):
        job.run("2024-01-01")
    assert job.account() is None


def test_other_questions_need_another_table(opened, release):
    opened().send(LABEL, release)
    with pytest.raises(pf.UsageError, match="lacks the columns more"):
        opened().prepare(pl.Schema({"district": pl.String, "more": pl.Float64}))


@pytest.mark.slow
def test_a_delta_table_in_an_object_store(s3_of_sinks, tmp_path, release):
    """Commits are conditional puts there; nothing of the credentials is told."""
    options = {name: value for name, value in s3_of_sinks.options.items() if name != "max_retries"}
    table = DeltaTable("s3://releases/lake/meters", options)
    assert table.open(tmp_path, sinks.JOB).send(LABEL, release)
    assert not table.open(tmp_path, sinks.JOB).send(LABEL, release)
    (copy,) = table.open(tmp_path, sinks.JOB).copies()
    assert copy.differences(release) == []
    wrong = DeltaTable("s3://nowhere/meters", options).open(tmp_path, sinks.JOB)
    with pytest.raises(pf.SinkError) as caught:
        wrong.send(LABEL, release)
    assert "test-secret" not in f"{caught.value}{caught.value.__context__}"


def test_a_catalog_that_fails_tells_no_secret(tmp_path, release):
    """A catalog out of reach, and one that no PyIceberg knows."""
    for options in (
        {"type": "rest", "uri": "http://user:a-secret@127.0.0.1:1"},
        {
            "type": "sql",
            "uri": f"sqlite:///{tmp_path}/nowhere/a-secret.db",
            "warehouse": "file:///nowhere",
        },
        {"type": "a-secret"},
    ):
        sink = IcebergTable("stats.meters", options=options).open(tmp_path, sinks.JOB)
        with pytest.raises(pf.SinkError) as caught:
            sink.send(LABEL, release)
        assert "a-secret" not in f"{caught.value}{caught.value.__context__}"


@pytest.mark.parametrize("table", ["meters", ".meters", "stats."])
def test_a_table_of_iceberg_is_in_a_namespace(table):
    with pytest.raises(pf.UsageError, match=r"sink\.table"):
        _read(f'kind = "iceberg"\ntable = "{table}"')


def test_addresses_that_are_no_place_for_delta_are_refused():
    for path in ("s3://key:a-secret@bucket/x", "https://host/x"):
        with pytest.raises(pf.UsageError, match="The address of the sink"):
            DeltaTable(path).check_address()


def _read(sink):
    from pufferflow.jobs import file

    text = 'name = "a"\nbuild = "a.py:b"\nsource = { path = "a.parquet" }\nguarantee = { epsilon = 1.0 }\n'
    return file.read_text(
        f'{text}ledger = {{ account = "a", limit = {{ epsilon = 1.0 }} }}\n[sink]\n{sink}\n',
        "job.toml",
    )
