"""What every sink keeps: a release is published once and whole or not at all, and never replaced by another one."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from pathlib import Path

import installed
import jobs
import msgspec
import ons
import polars as pl
import pufferflow_connectors.sinks as room
import pytest
import sinks
from thinned import nightly

import pufferflow as pf
from pufferflow.core import durable_files as durable
from pufferflow.published import files, folder

LABEL, NEXT = "2026-11-20", "2026-11-21"
KEYS = {
    "plain": pl.DataFrame(
        {"district": ["north", "south"], "day": [date(2026, 11, 20), date(2026, 11, 21)]}
    ),
    "no keys": pl.DataFrame([pl.Series("on", [True])]),
    "no rows": pl.DataFrame(schema={"district": pl.String}),
    "nulls": pl.DataFrame(
        {"a": [None, 1, None], "b": pl.Series([None, None, "x"], dtype=pl.String)}
    ),
    "unicode": pl.DataFrame({"größe🐡": ["מחוז", "e\u0301", "é", "\u202eabc", "İ", "a\r\nb", ""]}),
    "hostile values": pl.DataFrame(
        {
            "key": [
                "'; DROP TABLE meters; --",
                '"',
                "\\",
                "%s",
                "%(x)s",
                ":x",
                "?",
                "null",
                "NULL",
                " ",
                "a ",
                "A",
                "{}",
            ]
        }
    ),
    "hostile names": pl.DataFrame(
        {
            '"; DROP TABLE meters; --': [1],
            "%s": [2],
            "100 %%": [3],
            ":load": [4],
            "a b\tc": [5],
            "select": [6],
            "'": [7],
            "x(y)": [8],
            "[z]": [9],
            "ns.column": [10],
            "back\\slash": [11],
            "`tick`": [12],
        }
    ),
    "odd names": pl.DataFrame(
        {
            name: [1]
            for name in [
                '"',
                "%s",
                "%%",
                ":load",
                "select",
                "'",
                "[z]",
                "a.b",
                "back\\slash",
                "`tick`",
                "ü🐡",
                "_",
                "1",
                "-",
            ]
        }
    ),
    "types": pl.DataFrame(
        {
            "byte": pl.Series([255, None], dtype=pl.UInt8),
            "long": pl.Series([-(2**63), 2**63 - 1], dtype=pl.Int64),
            "real": pl.Series([0.1, None], dtype=pl.Float32),
            "double": [5e-324, 0.1 + 0.2],
            "flag": [True, None],
            "at": pl.Series(
                [datetime(1969, 12, 31, 23, 59, 59, 999999), None],  # noqa: DTZ001
                dtype=pl.Datetime("us"),
            ),
            "coarse": pl.Series([datetime(2026, 1, 1), None], dtype=pl.Datetime("ms")),  # noqa: DTZ001
            "moment": pl.Series([datetime(2026, 10, 25, 1, tzinfo=UTC)] * 2).dt.convert_time_zone(
                "Europe/Berlin"
            ),
            "day": [date(1, 1, 1), date(9999, 12, 31)],
            "enum": pl.Series(["b", "a"], dtype=pl.Enum(["b", "a"])),
            "category": pl.Series(["y", "x"], dtype=pl.Categorical),
        }
    ),
}


@pytest.fixture
def release():
    return sinks.release_of(KEYS["plain"])


def check(kind, sink, release, label=LABEL):
    """Check that a release is published, whole, once, and as a ledger keeps it."""
    assert sink.has(label)
    (copy,) = [one for one in sink.copies() if one.label.endswith(label)]
    assert copy.entry == release.certificate.entry
    assert copy.differences(release) == []
    if kind.reader is not None:
        assert sinks.seen(kind, sink, label) == release.frame["load"].to_list()


QUICK = {"types", "no rows"}
"""The keys that are tried by default in sinks that take their time."""


@pytest.mark.parametrize(
    "keys", [pytest.param(one, marks=[pytest.mark.slow][one in QUICK :]) for one in KEYS]
)
def test_a_release_is_there_as_it_was(kind, opened, keys):
    """Whatever the keys are called, whatever is in them, or if there are none; a second time nothing is written."""
    release = sinks.release_of(KEYS[keys])
    assert not opened().has(LABEL)
    if keys in kind.refuses:
        with pytest.raises(pf.UsageError, match="cannot be a column of a table"):
            opened().send(LABEL, release)
        assert not opened().has(LABEL)
        return
    assert opened().send(LABEL, release)
    check(kind, opened(), release)
    assert not opened().send(LABEL, release)
    check(kind, opened(), release)
    assert list(opened().newest()) == [(opened().place(LABEL), release.certificate.entry)]


def test_quick_sinks_take_all_keys_by_default(quick, tmp_path):
    """As above, of all keys together, where that takes a moment."""
    for label, keys in enumerate(KEYS.values()):
        folder = tmp_path / str(label)
        folder.mkdir()
        release = sinks.release_of(keys)
        assert quick.table("", folder).open(folder, sinks.JOB).send(LABEL, release)
        assert not quick.table("", folder).open(folder, sinks.JOB).send(LABEL, release)
        check(quick, quick.table("", folder).open(folder, sinks.JOB), release)


def test_a_sink_that_has_nothing_is_empty(opened, tmp_path):
    """Looking finds nothing, fails at nothing, and makes nothing; a catalog of Iceberg makes its own database."""
    sink = opened()
    assert not sink.has(LABEL)
    assert list(sink.newest()) == []
    assert list(sink.copies()) == []
    assert {path.name for path in tmp_path.iterdir()} <= {"catalog.db"}


def test_another_release_is_refused(kind, opened, release):
    """What was published is never replaced: by another entry, by the same one with other numbers, or the other way."""
    opened().send(LABEL, release)
    same_numbers = sinks.release_of(KEYS["plain"], entry="3:" + "cd" * 32)
    fewer = sinks.release_of(KEYS["plain"].head(1))
    for wrong in (sinks.other(release), sinks.edited(release), same_numbers, fewer):
        with pytest.raises(pf.UsageError, match="what was published is never replaced"):
            opened().send(LABEL, wrong)
        check(kind, opened(), release)


def test_releases_stand_beside_each_other(kind, opened, release):
    """Labels, and revisions of them, are releases of their own."""
    more = sinks.other(release)
    assert opened().send(LABEL, release)
    assert opened().send(NEXT, more)
    check(kind, opened(), release)
    check(kind, opened(), more, NEXT)
    assert not opened().has(f"{LABEL}.2")
    assert opened().send(f"{LABEL}.2", sinks.release_of(KEYS["plain"], entry="9:" + "ef" * 32))
    assert opened().has(f"{LABEL}.2")
    assert {entry for _, entry in opened().newest()} == {
        f"{n}:{two * 32}" for n, two in ((2, "ab"), (3, "cd"), (9, "ef"))
    }


def test_what_differs_is_told(opened, release):
    """A copy tells a certificate and numbers that are not those that the ledger keeps."""
    opened().send(LABEL, release)
    (copy,) = opened().copies()
    other = sinks.other(release)
    assert any("certificate" in line for line in copy.differences(other))
    assert any("certificate" not in line for line in copy.differences(other))
    assert not any("certificate" in line for line in copy.differences(sinks.edited(release)))
    assert copy.differences(sinks.edited(release))


def test_threads_that_send_at_once_write_once(kind, opened, release):
    """Of several at the same moment one writes; the others find what it wrote."""
    for label in (LABEL, NEXT):
        ready, written = threading.Barrier(4), list[object]()

        def send(label=label, ready=ready, written=written):
            sink = opened()
            ready.wait()
            try:
                written.append(sink.send(label, release))
            except pf.SinkError as error:  # which a run tries again
                written.append(error.problem)

        threads = [threading.Thread(target=send) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert written.count(True) == 1, written
        assert written.count(False) == 3, written
        check(kind, opened(), release, label)


def test_of_two_releases_at_once_one_is_refused(kind, opened, release):
    """Where a ledger was copied, two may send different releases to one place: the first stays."""
    other, ready, outcomes = sinks.other(release), threading.Barrier(2), {}

    def send(name, one):
        sink = opened()
        ready.wait()
        try:
            outcomes[name] = sink.send(LABEL, one)
        except pf.UsageError as error:
            outcomes[name] = error.allowed

    threads = [
        threading.Thread(target=send, args=pair) for pair in (("first", release), ("second", other))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    told = sorted(map(str, outcomes.values()))
    assert told[0] == "True", outcomes
    assert "never replaced" in told[1], outcomes
    check(kind, opened(), release if outcomes["first"] is True else other)


SOURCES = {str(path) for path in Path(room.__path__[0]).glob("*.py")}
UNCLOSED = "ignore::pytest.PytestUnraisableExceptionWarning"
"""What stops in the middle of a write leaves a file open, which a process that ends does not."""
WATCHED = SOURCES | {module.__file__ for module in (durable, files, folder)}


def lines_of(opened, release):
    """Return the lines of a sink that are run to send a release, where others were sent: each when it is first run."""
    opened().send("2025-12-31", release)
    with jobs.Tracer(watched=WATCHED) as tracer:
        opened().send("2026-01-01", release)
    return sorted(tracer.places.values())


def stopped(opened, release, label, line):
    with jobs.Tracer(jobs.stop, line, WATCHED):
        opened().send(label, release)


def crash_everywhere(kind, opened, release, lines):
    for number, line in enumerate(lines):
        label = f"2026-11-20.{number + 2}"
        with pytest.raises(KeyboardInterrupt), ThreadPoolExecutor(1) as apart:
            # a handler that is stopped leaves its error to the thread, as the context of later ones
            apart.submit(stopped, opened, release, label, line).result()
        there = sinks.seen(kind, opened(), label)
        assert there in (None, True, release.frame["load"].to_list()), line
        assert opened().send(label, release) == (there is None), line
        check(kind, opened(), release, label)
        assert not opened().send(label, release)


@pytest.mark.filterwarnings(UNCLOSED)
def test_a_process_that_stops_leaves_nothing_half_written(kind, opened, release):
    """Stopped before some of its lines: a reader sees the whole release or nothing, and the next run completes it."""
    crash_everywhere(kind, opened, release, lines_of(opened, release)[3::9])


@pytest.mark.slow
@pytest.mark.filterwarnings(UNCLOSED)
@pytest.mark.parametrize("every", [3, *nightly([1])])
def test_a_process_that_stops_anywhere_leaves_nothing_half_written(kind, opened, release, every):
    """As above, before every third line or each; in sinks that take their time before a third of these."""
    crash_everywhere(
        kind, opened, release, lines_of(opened, release)[:: every if kind.quick else 3 * every]
    )


@pytest.mark.parametrize("rows", [3_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a_large_release_is_published(kind, opened, rows):
    """All rows go in and come out, in their order."""
    keys = pl.DataFrame({"meter": range(rows)}).with_columns(name=pl.format("meter {}", "meter"))
    release = sinks.release_of(keys)
    assert opened().send(LABEL, release)
    assert not opened().send(LABEL, release)
    check(kind, opened(), release)


@pytest.fixture
def job(kind, server, tmp_path):
    """A job with this sink."""
    keys = (
        'guarantee = { epsilon = 0.6 }\nledger = { account = "ons", limit = { epsilon = 6.0 } }\n'
    )
    path = ons.write_job(
        tmp_path,
        keys + f'[sink]\nkind = "{kind.kind or kind.name}"\n{kind.written(server, tmp_path)}',
    )
    with installed.package(
        tmp_path / "installed", sinks.GROUP, installed.of_this_tree(sinks.GROUP)
    ):
        yield pf.Job.read(path)


def test_a_job_publishes_once(job):
    """A run sends, a second one finds it; an account that does not know what is published is refused before it pays."""
    first, again = job.run("2024-01-01"), job.run("2024-01-01")
    assert (first.state, again.state) == ("released", "kept")
    assert first.place == job.place_of("2024-01-01")
    (job.folder / "ledger.db").rename(job.folder / "away.db")
    with pytest.raises(pf.UsageError, match="releases that a ledger paid for"):
        job.run("2024-01-02")


def test_a_ledger_that_lacks_what_was_published_is_found_out(job):
    """An older copy of the ledger pays for nothing more, and is told what it lacks."""
    job.run("2024-01-01")
    with job.ledger() as ledger:
        ledger.copy_to(job.folder / "older.db")
    job.run("2024-01-02")
    with job.ledger() as ledger:
        assert [one.differs for one in ledger.compare(job.published(), "ons")] == [(), ()]
    (job.folder / "ledger.db").unlink()
    (job.folder / "older.db").rename(job.folder / "ledger.db")
    with pytest.raises(pf.UsageError, match="lacks: it is an older copy"):
        job.run("2024-01-03")
    with job.ledger() as ledger:
        assert [one.differs for one in ledger.compare(job.published())] == [
            (),
            ("the ledger has no such entry",),
        ]


def test_keys_without_a_form_are_refused_before_anything_is_drawn(kind, server):
    """A table says what it cannot take, and lists and structs are in no table and no text."""
    table = kind.table(server, "/folder")
    wrong = pl.Schema({"a": pl.List(pl.Int64)})
    if getattr(table, "format", "") != "parquet":
        with pytest.raises(pf.UsageError, match="'a'"):
            table.check_columns(wrong)
    assert msgspec.to_builtins(table)
    table.check_address()
