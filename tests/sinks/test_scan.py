"""`pf.scan_release` reads what sinks published: whole releases, each with its period, and nothing else."""

import json
import shutil
from datetime import date

import polars as pl
import pytest
import sinks
from polars.testing import assert_frame_equal

import pufferflow as pf
from pufferflow.jobs.file import SINKS
from pufferflow.jobs.sink import FolderSink
from pufferflow.published import folder
from pufferflow.published.files import OURS

KEYS = pl.DataFrame({"district": ["north", "south"], "day": [date(2026, 11, 20)] * 2})
FIRST, SECOND, CORRECTED = "2026-11-20", "2026-11-21", "2026-11-21.2"
FORMATS = ("parquet", "csv", "ndjson")


def release(first=0.5, keys=KEYS, entry="ab"):
    return sinks.release_of(keys, entry=f"2:{entry * 32}", first=first)


RELEASES = {
    CORRECTED: release(9.0, entry="ef"),
    FIRST: release(0.5),
    SECOND: release(5.0, entry="cd"),
}
"""Sent in this order, and read by period and revision."""


def wanted(*labels, intervals=False):
    """The releases as they are to be read."""
    frames = []
    for label in labels:
        one, (period, _, revision) = RELEASES[label], label.partition(".")
        numbers = one.frame.hstack(one.intervals.drop(KEYS.columns)) if intervals else one.frame
        own = [pl.lit(period).alias("period"), pl.lit(int(revision or 1)).cast(pl.Int64)]
        frames.append(numbers.select(*own[:1], own[1].alias("revision"), *numbers.columns))
    names = [
        "period",
        "revision",
        *KEYS.columns,
        *("load", "load_low", "load_high")[: 1 + 2 * intervals],
    ]
    names += ["n", "n_low", "n_high"][: 1 + 2 * intervals]
    return pl.concat(frames).select(names)


def publish(root, form="parquet", labels=RELEASES):
    for label in labels:
        folder.send(RELEASES[label], root / label, form)
    return root


def keys_of(kind, server, place):
    """The keys of `[sink]` as a dictionary."""
    import tomllib

    keys = tomllib.loads(kind.written(server, place))
    if "path" in keys:
        keys["path"] = str(place / keys["path"])
    elif str(keys.get("address", "")).startswith("sqlite:///"):
        keys["address"] = f"sqlite:///{place}/published.db"
    return {"kind": kind.kind or kind.name, **keys}


@pytest.mark.parametrize("intervals", [False, True])
def test_all_releases_of_a_sink(kind, opened, server, tmp_path, intervals):
    """They come in the order of their periods and revisions, with equal numbers, and with their bars if wanted."""
    for label, one in RELEASES.items():
        opened().send(label, one)
    keys = keys_of(kind, server, tmp_path)
    found = pf.scan_release(keys, intervals=intervals)
    assert isinstance(found, pl.LazyFrame)
    assert_frame_equal(
        found.collect(), wanted(FIRST, SECOND, CORRECTED, intervals=intervals), rel_tol=0, abs_tol=0
    )


def test_a_sink_with_nothing(kind, server, tmp_path):
    """A sink that has published nothing yet is an error, and nothing is made of it but a catalog's own database."""
    keys = keys_of(kind, server, tmp_path)
    with pytest.raises(pf.PufferflowError, match="no whole release"):
        pf.scan_release(keys)
    assert {path.name for path in tmp_path.iterdir()} <= {"catalog.db"}


@pytest.mark.parametrize("form", FORMATS)
def test_an_object_store_in_any_format(tmp_path, form):
    """The certificate names its files; what a killed process left beside them is left out, and damage is named."""
    keys = {"kind": "object", "address": f"file://{tmp_path}/published", "format": form}
    sink = SINKS.read(dict(keys))(keys["address"], form).open(tmp_path, "")
    for label, one in RELEASES.items():
        sink.send(label, one)
    assert_frame_equal(pf.scan_release(keys).collect(), wanted(FIRST, SECOND, CORRECTED))
    place = tmp_path / "published" / SECOND
    (place / f"release.0123456789abcdef.{form}").write_bytes(b"unfinished")
    (tmp_path / "published" / CORRECTED / "certificate.json").unlink()
    assert_frame_equal(pf.scan_release(keys).collect(), wanted(FIRST, SECOND))
    cut(next(place.glob(f"release.cd*.{form}")))
    with pytest.raises(pf.SourceError, match="is damaged") as caught:
        pf.scan_release(keys)
    assert f"published/{SECOND}" in caught.value.problem


@pytest.mark.slow
def test_a_table_of_postgresql(postgres_server, tmp_path):
    """`pf.table` names the table of a sink, too."""
    keys = {"kind": "sql", "address": postgres_server, "table": "meters"}
    SINKS.read(dict(keys))(postgres_server, "meters").open(tmp_path, "meters").send(
        FIRST, RELEASES[FIRST]
    )
    found = pf.scan_release(pf.table(postgres_server, "meters"))
    assert_frame_equal(found.collect(), wanted(FIRST))


@pytest.mark.slow
def test_a_sink_of_a_package_that_cannot_be_scanned(tmp_path, monkeypatch):
    """It is refused in words, and says where else a release is."""
    monkeypatch.delattr(FolderSink, "rows")
    with pytest.raises(pf.UsageError, match="cannot be read as one table") as caught:
        pf.scan_release({"kind": "folder", "path": str(publish(tmp_path / "published"))})
    assert "account.release(" in caught.value.instead


@pytest.mark.parametrize("form", FORMATS)
def test_a_folder_in_any_format(tmp_path, form):
    """A folder of releases, the folder of one, and a file in it."""
    root = publish(tmp_path / "published", form)
    assert_frame_equal(pf.scan_release(root).collect(), wanted(FIRST, SECOND, CORRECTED))
    for one in (
        root / CORRECTED,
        root / CORRECTED / f"release.{form}",
        root / CORRECTED / "certificate.json",
    ):
        assert_frame_equal(pf.scan_release(str(one)).collect(), wanted(CORRECTED))


def test_a_release_that_a_person_wrote(tmp_path, monkeypatch):
    """A name that is no period stands as it is; a folder may be named by a dot."""
    RELEASES[FIRST].write_csv(tmp_path / "monday")
    RELEASES[SECOND].write_parquet(tmp_path / "tuesday")
    assert pf.scan_release(tmp_path).collect()["period"].unique().sort().to_list() == [
        "monday",
        "tuesday",
    ]
    monkeypatch.chdir(tmp_path / "monday")
    assert pf.scan_release(".").collect()["period"].to_list() == ["monday"] * 2


def test_names_of_the_period_and_the_revision(tmp_path):
    """Where a release has such columns, others are chosen."""
    release(keys=pl.DataFrame({"period": ["a"]})).write_parquet(tmp_path / FIRST)
    with pytest.raises(pf.UsageError, match="Two columns") as caught:
        pf.scan_release(tmp_path)
    assert caught.value.instead == 'period="release_period"'
    found = pf.scan_release(tmp_path, period="release_period", revision="nth").collect()
    assert found.columns == ["release_period", "nth", "period", "load", "n"]
    with pytest.raises(pf.UsageError):
        pf.scan_release(tmp_path, period="same", revision="same")


def test_what_is_not_whole_is_not_there(tmp_path):
    """Folders that are being written, were interrupted, or are something else, are left out."""
    root = publish(tmp_path / "published")
    (root / SECOND / "certificate.json").unlink()
    shutil.copytree(root / FIRST, root / ".pufferflow-0a1b2c.tmp")
    (root / "notes").mkdir()
    (root / "index.html").write_text("ours")
    assert_frame_equal(pf.scan_release(root).collect(), wanted(FIRST, CORRECTED))
    with pytest.raises(pf.SourceError, match="is not whole"):
        pf.scan_release(root / SECOND)
    for label in (FIRST, CORRECTED):
        (root / label / "certificate.json").unlink()
    with pytest.raises(pf.SourceError, match="no whole release"):
        pf.scan_release(root)


def cut(path):
    path.write_bytes(path.read_bytes()[:-7])


DAMAGES = {
    "a cut table": ("parquet", lambda place: cut(place / "release.parquet")),
    "cut bars": ("parquet", lambda place: cut(place / "intervals.parquet")),
    "a table of text with a line less": (
        "csv",
        lambda place: (place / "release.csv").write_text(
            "".join((place / "release.csv").read_text().splitlines(keepends=True)[:-1])
        ),
    ),
    "no table": ("parquet", lambda place: (place / "release.parquet").unlink()),
    "no bars": ("parquet", lambda place: (place / "intervals.parquet").unlink()),
    "no description": ("ndjson", lambda place: (place / "schema.json").unlink()),
    "another certificate": (
        "parquet",
        lambda place: (place / "certificate.json").write_text(json.dumps({"version": 1})),
    ),
    "tables of different lengths": (
        "parquet",
        lambda place: (
            pl.read_parquet(place / "release.parquet")
            .head(1)
            .write_parquet(place / "release.parquet")
        ),
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_an_error_that_names_the_folder(tmp_path, name):
    """A release with a certificate that cannot be read whole stops the scan: it is never left out in silence."""
    form, damage = DAMAGES[name]
    root = publish(tmp_path / "published", form)
    damage(root / SECOND)
    with pytest.raises(pf.SourceError, match="is damaged") as caught:
        pf.scan_release(root)
    assert SECOND in caught.value.problem


WRONG = {
    "no such folder": (lambda place: place / "missing", "There is no folder", "published"),
    "an empty folder": (lambda place: place, "no whole release", "published"),
    "a job file": (lambda place: place / "job.toml", "does not have the numbers", "pf.Job.read("),
    "a database": (
        lambda place: place / "published.db",
        "does not have the numbers",
        '"kind": "sql"',
    ),
    "bars alone": (
        lambda place: place / "intervals.csv",
        "does not have the numbers",
        "intervals=True",
    ),
    "another table": (lambda place: place / "x.parquet", "does not have the numbers", "published"),
    "an address of SQL": (lambda _: "sqlite:///published.db", "an address", '"kind": "sql"'),
    "an address of a store": (
        lambda _: "s3://bucket/published",
        "an address",
        '"kind": "object", "address": "s3://',
    ),
    "a number": (lambda _: 3, "a value of type int", "published"),
    "keys without a kind": (lambda _: {"path": "published"}, "have no kind", '"kind": "sql"'),
    "keys of no kind": (lambda _: {"kind": "fax"}, "no sink 'fax'", "delta"),
    "keys that do not fit": (lambda _: {"kind": "delta", "p": 1}, "do not fit", '"kind": "sql"'),
    "a frame of something else": (
        lambda _: pl.DataFrame({"day": [1]}),
        "not a table that a sink wrote",
        "pl.scan_delta(path)",
    ),
    "a frame that cannot be read": (
        lambda place: pl.scan_parquet(place / "missing.parquet"),
        "could not be read",
        "collect()",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_sources_are_refused_with_a_way(tmp_path, name):
    """Each error says what was given, what is allowed, and what to type."""
    for file in ("job.toml", "published.db", "intervals.csv", "x.parquet"):
        if name != "an empty folder":
            (tmp_path / file).write_text("")
    given, problem, instead = WRONG[name]
    with pytest.raises(pf.PufferflowError) as caught:
        pf.scan_release(given(tmp_path))
    assert problem in caught.value.problem
    assert instead in caught.value.instead
    assert caught.value.allowed


def test_an_address_shows_no_password():
    """Only the scheme of an address is quoted."""
    with pytest.raises(pf.UsageError) as caught:
        pf.scan_release("postgresql://user:hunter2@host/database")
    assert "hunter2" not in str(caught.value)


def test_releases_with_other_columns(tmp_path):
    """They are refused by the names of columns, or read with nulls; other types are always refused."""
    publish(tmp_path, labels=[FIRST])
    release(keys=pl.DataFrame({"town": ["x"]})).write_parquet(tmp_path / SECOND)
    with pytest.raises(pf.UsageError, match="'day', 'district', 'town'") as caught:
        pf.scan_release(tmp_path)
    assert caught.value.instead.startswith('missing_columns="insert"')
    found = pf.scan_release(tmp_path, missing_columns="insert").collect()
    assert found["town"].to_list() == [None, None, "x"]
    assert found["load"].null_count() == 0
    release(keys=pl.DataFrame({"town": [1]})).write_parquet(tmp_path / "2026-11-22")
    with pytest.raises(pf.UsageError, match="'town' is String"):
        pf.scan_release(tmp_path, missing_columns="insert")
    with pytest.raises(pf.UsageError, match="missing_columns is 'ignore'"):
        pf.scan_release(tmp_path, missing_columns="ignore")


def test_categories_of_keys_are_texts(tmp_path):
    """Enums of different days have different categories; as texts they are one column."""
    for label, kinds in ((FIRST, ["b", "a"]), (SECOND, ["c"])):
        keys = pl.DataFrame({"kind": pl.Series(kinds, dtype=pl.Enum(kinds))})
        release(keys=keys).write_parquet(tmp_path / label)
    assert pf.scan_release(tmp_path).collect()["kind"].to_list() == ["b", "a", "c"]


def test_a_release_without_rows(tmp_path):
    """It has columns and no row."""
    release(keys=KEYS.clear()).write_parquet(tmp_path / FIRST)
    found = pf.scan_release(tmp_path).collect()
    assert found.schema == wanted(FIRST).schema
    assert found.is_empty()


# Tables that readers of their own have read


def table(*labels, job=sinks.JOB):
    """A table as lakes have it: rows in any order, the certificate in the first row of each release."""
    from pufferflow_connectors.sinks.lake import rows_of

    return pl.concat([rows_of(RELEASES[label], f"{job}-{label}") for label in labels])


@pytest.mark.parametrize("lazy", [False, True])
def test_a_frame_of_a_table(lazy):
    """Whatever read the table, its rows become those of the folder; rows without a certificate are no release."""
    rows = table(SECOND, FIRST).reverse()
    rows = rows.lazy() if lazy else rows
    found = pf.scan_release(rows, intervals=True)
    assert_frame_equal(found.collect(), wanted(FIRST, SECOND, intervals=True))
    assert_frame_equal(pf.scan_release(table(FIRST).to_arrow()).collect(), wanted(FIRST))
    half = table(FIRST).vstack(table(SECOND).with_columns(certificate=pl.lit(None, pl.String)))
    assert_frame_equal(pf.scan_release(half).collect(), wanted(FIRST))


def test_a_table_of_several_jobs():
    """It needs the name of one, and the error lists them."""
    rows = table(FIRST).vstack(table(SECOND, job="meters-weekly"))
    with pytest.raises(pf.UsageError, match="'meters', 'meters-weekly'") as caught:
        pf.scan_release(rows)
    assert caught.value.instead == "job='meters-weekly'"
    assert_frame_equal(pf.scan_release(rows, job="meters-weekly").collect(), wanted(SECOND))
    with pytest.raises(pf.UsageError, match="no release of the job 'meter'"):
        pf.scan_release(rows, job="meter")


@pytest.mark.parametrize(
    "torn",
    [
        lambda rows: rows.filter(pl.col("row_number") != 0).with_columns(certificate=pl.lit("{}")),
        lambda rows: rows.vstack(rows),
        lambda rows: rows.with_columns(row_number=pl.col("row_number") + 1),
    ],
)
def test_rows_that_are_not_all_there(torn):
    """A table of which some rows are lost, or there twice, is refused."""
    with pytest.raises(pf.SourceError, match="are not all there"):
        pf.scan_release(torn(table(FIRST)))


@pytest.mark.slow
def test_a_job_has_its_own_sink(tmp_path):
    """`pf.Job` leads to the releases of the job, wherever its sink is."""
    from pufferflow.jobs import starter

    starter.write(tmp_path)
    job = pf.Job.read(tmp_path / "job.toml")
    with pytest.raises(pf.SourceError, match="no whole release"):
        pf.scan_release(job)
    ran = job.run()
    found = pf.scan_release(job).collect()
    assert found["period"].unique().to_list() == [ran.period]
    assert_frame_equal(found.drop("period", "revision"), ran.release.frame)


def test_files_of_a_release_are_known():
    """The names by which a folder is taken for one release are those that are written."""
    assert {f"release.{form}" for form in FORMATS} | {"certificate.json"} <= OURS
