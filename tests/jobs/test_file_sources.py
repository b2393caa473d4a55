"""Files in folders by partition and in object stores: types are declared, and credentials are not shown."""

import datetime as dt

import object_store
import polars as pl
import pytest

import pufferflow as pf
from pufferflow.jobs.file import read_text
from pufferflow.jobs.sources import FileSource, placed

DAY = pf.Period.read("2026-11-20")
DAYS = [dt.date(2026, 11, 20), dt.date(2026, 11, 21)]
TYPES = {"day": "date", "region": "text"}


def part(day, region):
    return f"day={day}/region={region}/part-0.parquet"


def rows_of(folder, **source):
    return FileSource(**source).rows(folder, DAY)


@pytest.fixture
def folders(tmp_path):
    """Two days of two regions, a file for each; the second day has more rows."""
    for number, day in enumerate(DAYS, start=1):
        for region in ("north", "south%2Fwest"):
            path = tmp_path / "data" / part(day, region)
            path.parent.mkdir(parents=True)
            pl.DataFrame({"level": [number] * number}).write_parquet(path)
    return tmp_path


@pytest.mark.parametrize(
    "path", ["data/", "data/**/*.parquet", "data/day=*/region=*/part-*.parquet"]
)
def test_folders_are_columns_of_declared_types(path, folders):
    """What the names of folders say are columns, in the types that the file says."""
    found = rows_of(folders, path=path, hive=True, columns=TYPES)
    assert found.collect_schema() == {"level": pl.Int64, "day": pl.Date, "region": pl.String}
    counts = (
        found.group_by("day", "region").agg(pl.col("level").sum()).sort("day", "region").collect()
    )
    assert counts.rows() == [
        (day, region, number**2)
        for number, day in enumerate(DAYS, 1)
        for region in ("north", "south/west")
    ]
    texts = rows_of(folders, path=path, hive=True, columns={"day": "text", "region": "text"})
    assert texts.collect()["day"].unique().sort().to_list() == [str(day) for day in DAYS]


def test_one_period_reads_its_folder_alone(folders):
    """A path with the period's name, or a form of it, leaves other folders alone."""
    (folders / "data" / part(DAYS[1], "north")).write_bytes(b"no Parquet")
    for path in ("data/day={period}/", "data/day={period:%Y-%m}-{period:%d}/**/*.parquet"):
        assert rows_of(folders, path=path, hive=True, columns=TYPES).collect()[
            "level"
        ].to_list() == [1, 1]


def test_forms_of_a_period():
    """Folders by year, month and day are written with the period's first moment."""
    text = "y={period:%Y}/m={period:%m}/d={period:%d}/{period}"
    assert placed(text, DAY) == "y=2026/m=11/d=20/2026-11-20"
    assert placed(text, pf.Period.read("2026-11", "month")) == "y=2026/m=11/d=01/2026-11"
    for wrong in ("{period:%Q}", "{period:}", "{periods}", "{}", "{period:{x}}"):
        with pytest.raises(pf.UsageError, match=r"The path has \{"):
            FileSource(path=f"data/{wrong}.parquet")


def test_types_of_folders_are_declared_and_not_guessed(folders):
    """A folder whose column has no declared type is refused, by the name of the column."""
    with pytest.raises(pf.UsageError, match="would be guessed from private rows"):
        FileSource(path="data/", hive=True)
    with pytest.raises(pf.UsageError, match="'region=…' are a column whose type"):
        rows_of(folders, path="data/", hive=True, columns={"day": "date"})
    plain = rows_of(folders, path="data/**/*.parquet")
    assert plain.collect_schema().names() == ["level"]


def test_folders_of_no_value_and_of_another_type(folders):
    """Hive's name for no value is null; a name that is not of the declared type is a failed source, and is not told."""
    none = folders / "data" / part("__HIVE_DEFAULT_PARTITION__", "north")
    none.parent.mkdir(parents=True)
    pl.DataFrame({"level": [3]}).write_parquet(none)
    assert (
        rows_of(folders, path="data/", hive=True, columns=TYPES).collect()["day"].null_count() == 1
    )
    with pytest.raises(pf.SourceError) as caught:
        rows_of(folders, path="data/", hive=True, columns={"day": "integer", "region": "text"})
    assert "2026" not in str(caught.value)


def test_folders_of_different_kinds(folders):
    """Files in folders with other columns than the rest are refused, instead of read by half."""
    pl.DataFrame({"level": [3]}).write_parquet(
        folders / "data" / "day=2026-11-20" / "beside.parquet"
    )
    with pytest.raises(pf.UsageError, match="folders with other columns"):
        rows_of(folders, path="data/", hive=True, columns=TYPES)


def test_keys_that_do_not_go_together(folders):
    """Folders are of Parquet files, options are for object stores, and a function has neither."""
    (folders / "rows.csv").write_text("day,level\n2026-11-20,1\n")
    with pytest.raises(
        pf.UsageError, match=r"ends in '\.csv', and only Parquet files can have folders"
    ):
        rows_of(folders, path="rows.csv", hive=True, columns=TYPES)
    with pytest.raises(pf.UsageError, match="path is on this machine"):
        rows_of(folders, path="data/**/*.parquet", options={"aws_region": "eu-central-1"})
    for further in ({"hive": True, "columns": TYPES}, {"options": {"aws_region": "eu-central-1"}}):
        with pytest.raises(pf.UsageError, match="is a function"):
            FileSource(function="job.py:rows", **further)


# Object stores


@pytest.fixture(scope="module")
def bucket():
    with object_store.bucket("meters") as served:
        for number, day in enumerate(DAYS, start=1):
            served.put(f"data/day={day}/part-0.parquet", pl.DataFrame({"level": [number] * number}))
        yield served


def test_rows_of_an_object_store(bucket, tmp_path):
    """Rows come from a bucket as from a folder: a period's folder, all of them, and its columns."""
    found = rows_of(
        tmp_path, path="s3://meters/data/day={period}/*.parquet", options=bucket.options
    )
    assert found.collect().rows() == [(1,)]
    every = rows_of(
        tmp_path,
        path="s3://meters/data/",
        hive=True,
        columns={"day": "date"},
        options=bucket.options,
    )
    assert every.collect_schema() == {"level": pl.Int64, "day": pl.Date}
    assert sorted(every.collect().rows()) == [(1, DAYS[0]), (2, DAYS[1]), (2, DAYS[1])]
    with pytest.raises(pf.UsageError, match="folders are not declared"):
        rows_of(
            tmp_path,
            path="s3://meters/data/",
            hive=True,
            columns={"dya": "date"},
            options=bucket.options,
        )


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("s3://meters/nothing/*.parquet", {}),
        ("s3://nowhere/data/*.parquet", {}),
        ("s3://meters/data/**/*.parquet", {"aws_endpoint_url": "http://127.0.0.1:9"}),
        ("s3://meters/data/**/*.parquet", {"max_retries": "many"}),
    ],
)
def test_what_an_object_store_says_is_not_told(path, change, bucket, tmp_path):
    """Nothing there, no such bucket, nobody listening, options of no sense: a failed source, without its words."""
    with pytest.raises(pf.SourceError) as caught:
        pf.protect(
            rows_of(tmp_path, path=path, options=bucket.options | change),
            pf.Scenario(pf.Secret("level", domain=[1, 2]), pf.Independent()),
        ).private_sum("level").release(epsilon=1.0)
    for words in (object_store.SECRET, "127.0.0.1", "http", "xml"):
        assert words not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.slow
def test_credentials_come_from_the_environment_and_stay_there(bucket, tmp_path, monkeypatch):
    """A job reads with credentials that it looks up; no file that it writes, and no text of it, has them."""
    options = "\n".join(
        f"{name} = {value!r}" for name, value in bucket.options.items() if "secret" not in name
    )
    (tmp_path / "job.toml").write_text(
        'name = "s3"\nbuild = "own.py:build"\n[source]\npath = "s3://meters/data/day={period}/*.parquet"\n'
        f"[source.options]\n{options}\naws_secret_access_key = '${{STORE_SECRET}}'\n"
        '[guarantee]\nepsilon = 0.5\n[ledger]\naccount = "a"\nlimit = { epsilon = 1.0 }\n'
        "[retries]\nattempts = 1\n"
    )
    (tmp_path / "own.py").write_text(
        "import pufferflow as pf\n"
        "def build(frame, period):\n"
        "    scenario = pf.Scenario(pf.Secret('level', domain=[1, 2]), pf.Independent())\n"
        "    return pf.protect(frame, scenario).private_sum('level')\n"
    )
    job = pf.Job.read(tmp_path / "job.toml")
    monkeypatch.delenv("STORE_SECRET", raising=False)
    with pytest.raises(pf.UsageError, match="environment variable 'STORE_SECRET'"):
        job.run("2026-11-20")
    monkeypatch.setenv("STORE_SECRET", object_store.SECRET)
    plan = job.plan("2026-11-20")
    assert job.run("2026-11-20").state == "released"
    texts = [
        repr(job.file),
        repr(job),
        str(plan.certificate),
        plan.request.frame.explain(),
        repr(plan),
    ]
    assert not any(object_store.SECRET in text or "STORE_SECRET" in text for text in texts)
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) >= 6
    assert not any(object_store.SECRET.encode() in path.read_bytes() for path in written)


@pytest.mark.slow
def test_options_in_a_job_file():
    """Options are texts, numbers and booleans; a key of [source] that is misspelt is answered with the right one."""
    text = (
        'name = "a"\nbuild = "a.py:b"\n[source]\npath = "s3://b/*.parquet"\n[guarantee]\nepsilon = 1.0\n[ledger]\n'
        'account = "a"\nlimit = { epsilon = 1.0 }\n[source.options]\nmax_retries = 2\naws_allow_http = true\n'
    )
    assert read_text(text, "job.toml").source.options == {"max_retries": 2, "aws_allow_http": True}
    with pytest.raises(pf.UsageError, match=r"unknown key 'option' in \[source\]"):
        read_text(text.replace("source.options", "source.option"), "job.toml")
    with pytest.raises(pf.UsageError, match=r"source\.options"):
        read_text(text + "further = [1]\n", "job.toml")
