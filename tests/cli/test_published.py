"""What is published is compared with the ledger that paid; a ledger that lacks what is published pays for nothing."""

import json
import os
import shutil

import jobs
import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf

PERIODS = ("2026-11-01", "2026-11-02", "2026-11-03")


@pytest.fixture
def job(tmp_path):
    return jobs.made(tmp_path)


def edited(path, change):
    """Change a file of a release as somebody might who wants it to say something else."""
    text = path.read_text()
    assert change[0] in text
    path.write_text(text.replace(*change))


def other_numbers(folder):
    frame = pl.read_parquet(folder / "release.parquet")
    name = frame.columns[-1]
    frame.with_columns(pl.col(name) + 1e-9).write_parquet(folder / "release.parquet")


def other_bars(folder):
    frame = pl.read_parquet(folder / "intervals.parquet")
    frame.with_columns(pl.col(frame.columns[-1]) * 2 + 1).write_parquet(
        folder / "intervals.parquet"
    )


def longer(folder):
    frame = pl.read_parquet(folder / "release.parquet")
    pl.concat([frame, frame]).write_parquet(folder / "release.parquet")


EDITS = {
    "promise": lambda folder: edited(
        folder / "certificate.json", ('"epsilon":0.5', '"epsilon":0.25')
    ),
    "words": lambda folder: edited(folder / "certificate.json", ("Hidden: ", "Well hidden: ")),
    "no entry": lambda folder: edited(
        folder / "certificate.json", ('"entry":"', '"entry":null,"library":"')
    ),
    "another entry": lambda folder: edited(
        folder / "certificate.json", ('"entry":"2:', '"entry":"4:')
    ),
    "no certificate": lambda folder: (folder / "certificate.json").write_text("[" * 100_000),
    "numbers": other_numbers,
    "bars": other_bars,
    "rows": longer,
    "damaged": lambda folder: (folder / "release.parquet").write_bytes(b"PAR1"),
    "missing": lambda folder: (folder / "intervals.parquet").unlink(),
}


@pytest.mark.parametrize("edit", thinned(EDITS.values(), 0.1), ids=EDITS)
def test_an_edited_release_is_told(edit, job, give):
    for period in PERIODS[:2]:
        job.run(period)
    sink, ledger = job.folder / "published", str(job.folder / "ledger.db")
    clean = give("verify", str(sink), "--ledger", ledger, "--json")
    assert (clean.exit, clean.document["same"]) == (0, True)
    edit(sink / PERIODS[0])
    found = give("verify", str(sink), "--ledger", ledger, "--account", "meters-2026", "--json")
    assert (found.exit, found.document["same"]) == (6, False)
    assert [one["same"] for one in found.document["releases"]] == [False, True]
    page = give(
        "report", str(sink / PERIODS[0]), "--ledger", ledger, "-o", str(job.folder / "page.html")
    )
    assert page.exit in {2, 5, 6}
    assert not (job.folder / "page.html").exists()


@pytest.mark.slow
def test_csv_is_compared_and_what_lies_beside_it_too(tmp_path, give):
    job = jobs.made(tmp_path, ('format = "parquet"', 'format = "csv"'))
    folder = job.run(PERIODS[0]).folder
    ledger = str(job.folder / "ledger.db")
    assert give("verify", str(folder), "--ledger", ledger).exit == 0
    body = (folder / "release.csv").read_text()
    (folder / "release.csv").write_text(body.replace(".", ".1", 1))
    found = give("verify", str(folder), "--ledger", ledger)
    assert (found.exit, "release.csv has other numbers" in found.out) == (6, True)


@pytest.mark.slow
def test_a_release_of_another_account_or_ledger_is_told(job, tmp_path):
    folder = job.run(PERIODS[0]).folder
    with job.ledger() as ledger, pf.Ledger(tmp_path / "other.db") as other:
        scenario = ledger.account("meters-2026").scenario
        ledger.open("another", scenario, limit=pf.Pure(1.0), dataset="others")
        assert ledger.compare(folder, "another")[0].differs == (
            "the entry is of the account 'meters-2026'",
        )
        other.open("another", scenario, limit=pf.Pure(1.0))
        assert other.compare(folder)[0].differs == ("the ledger has no such entry",)
        with pytest.raises(pf.UsageError, match="no account"):
            ledger.compare(folder, "anothre")
    with pytest.raises(pf.UsageError, match=r"has no certificate\.json"):
        job.ledger().compare(tmp_path / "data")


@pytest.mark.slow
def test_a_page_says_whether_it_was_compared(job, give):
    folder = job.run(PERIODS[0]).folder
    ledger, page = str(job.folder / "ledger.db"), str(job.folder / "page.html")
    compared = give("report", str(folder), "--ledger", ledger, "-o", page, "--json")
    assert (compared.exit, compared.document["sound"]) == (0, True)
    alone = give("report", str(folder), "-o", page)
    assert (alone.exit, "was not compared" in alone.err) == (0, True)
    assert give("report", ledger, "--ledger", ledger, "-o", page).exit == 2


@pytest.mark.slow
def test_a_ledger_restored_from_a_backup_pays_for_no_new_period(job, tmp_path):
    """Also if the newest release was of an early period, and whatever the folders' times are."""
    job.run(PERIODS[1])
    with job.ledger() as ledger:
        ledger.copy_to(tmp_path / "backup.db")
    job.run(PERIODS[0])
    for name in ("ledger.db", "ledger.db-wal", "ledger.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    shutil.copy(tmp_path / "backup.db", tmp_path / "ledger.db")
    again = type(job).read(job.path)
    for age in (0, 10**9):
        for folder in (tmp_path / "published").iterdir():
            os.utime(folder / "certificate.json", (age, age))
        with pytest.raises(pf.UsageError, match="lacks: it is an older copy"):
            again.run(PERIODS[2])
    assert [entry.state for entry in again.account().history()] == ["committed"]
    assert not (tmp_path / "published" / PERIODS[2]).exists()
    assert again.run(PERIODS[1]).state == "kept"


@pytest.mark.slow
def test_a_ledger_that_has_grown_or_moved_pays_on(job, tmp_path):
    job.run(PERIODS[0])
    with job.ledger() as ledger:
        ledger.copy_to(tmp_path / "moved.db")
    (tmp_path / "job.toml").write_text(
        (tmp_path / "job.toml").read_text().replace('"ledger.db"', '"moved.db"')
    )
    assert type(job).read(job.path).run(PERIODS[1]).state == "released"


@pytest.mark.slow
def test_what_is_no_certificate_in_a_sink_stops_nothing(job, tmp_path):
    """Notes, half a file, and releases that no account counted."""
    job.run(PERIODS[0])
    for name, text in {
        "2026-12-01": "{",
        "2026-12-02": "[" * 100_000,
        "2026-12-03": json.dumps({"version": 1}),
    }.items():
        (tmp_path / "published" / name).mkdir()
        (tmp_path / "published" / name / "certificate.json").write_text(text)
    assert job.run(PERIODS[1]).state == "released"


@pytest.mark.slow
def test_releases_out_of_their_places_are_told(job, give):
    """Folders that change places, are copied, or lose their certificate are not what the ledger keeps."""
    for period in PERIODS:
        job.run(period)
    sink = job.folder / "published"
    first, second, third = (sink / period for period in PERIODS)

    def same():
        found = give("verify", str(sink), "--ledger", str(job.folder / "ledger.db"), "--json")
        return [one["same"] for one in found.document["releases"]]

    assert same() == [True] * 3
    (third / "certificate.json").rename(job.folder / "certificate.json")
    assert same() == [True, True, False]
    (job.folder / "certificate.json").rename(third / "certificate.json")
    shutil.copytree(third, sink / "2026-11-04")
    assert same() == [True, True, False, False]
    shutil.rmtree(sink / "2026-11-04")
    first.rename(sink / "away")
    second.rename(first)
    (sink / "away").rename(second)
    assert same() == [False, False, True]


@pytest.mark.slow
def test_a_job_names_its_sink_and_its_ledger(job, give):
    """`verify job.toml` compares whatever sink it has; with --ledger, an older copy of its ledger is found out."""
    job.run(PERIODS[0])
    with job.ledger() as ledger:
        ledger.copy_to(job.folder / "older.db")
    job.run(PERIODS[1])
    found = give("verify", str(job.path), "--json")
    assert (found.exit, [one["same"] for one in found.document["releases"]]) == (0, [True, True])
    older = give("verify", str(job.path), "--ledger", str(job.folder / "older.db"), "--json")
    assert (older.exit, [one["differs"] for one in older.document["releases"]]) == (
        6,
        [[], ["the ledger has no such entry"]],
    )
    assert give("verify", str(job.folder / "published")).exit == 2


@pytest.mark.slow
def test_a_page_that_was_compared_shows_nothing_that_no_ledger_keeps(job, give):
    """What somebody writes into the evidence beside a release is on no page that says it is sound."""
    folder = job.run(PERIODS[0]).folder
    page, ledger = job.folder / "page.html", str(job.folder / "ledger.db")
    (folder / "evidence.json").write_text('{"sentence": "Everything is safe."}')
    assert give("report", str(folder), "-o", str(page)).exit == 2
    assert give("report", str(folder), "--ledger", ledger, "-o", str(page)).exit == 0
    assert "Everything is safe." not in page.read_text()
