"""Tables of other libraries go under a scenario as they are: no type is guessed from rows, a stream is read once."""

from datetime import timedelta
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pytest

import pufferflow as pf

ROWS = {"day": ["a", "a", "b"], "level": [0, 3, 2]}
TABLE = pa.table(ROWS)
HIDDEN = "4711-top-secret"


class Once:
    """A stream that can be read once, and has nothing but that."""

    def __init__(self, table, *, fails=False):
        self.batches, self.schema_of, self.fails = iter(table.to_batches()), table.schema, fails

    def given(self):
        yield from self.batches
        if self.fails:
            raise ValueError(HIDDEN)

    def __arrow_c_stream__(self, requested_schema=None):
        reader = pa.RecordBatchReader.from_batches(self.schema_of, self.given())
        return reader.__arrow_c_stream__(requested_schema)


def scenario(domain=(0, 1, 2, 3), public=("day",), **options):
    return pf.Scenario(
        pf.Secret("level", domain=list(domain)), pf.Independent(), public=list(public), **options
    )


def sums(table, **options):
    """The sums by day, with next to no noise."""
    batch = pf.protect(table, scenario(**options)).group_by("day").private_sum("level")
    return dict(
        batch.release(epsilon=1e6).frame.with_columns(pl.col("level_sum").round()).iter_rows()
    )


@pytest.fixture
def pd():
    return pytest.importorskip("pandas")


STREAMS = {
    "table": lambda: TABLE,
    "batch": lambda: TABLE.to_batches()[0],
    "reader": TABLE.to_reader,
    "once": lambda: Once(TABLE),
    "several batches": lambda: pa.concat_tables([TABLE.slice(at, 1) for at in range(3)]),
    "dictionaries": lambda: TABLE.set_column(0, "day", TABLE["day"].dictionary_encode()),
    "wide decimals": lambda: TABLE.set_column(1, "level", TABLE["level"].cast(pa.decimal128(38, 2))),
    "unsigned": lambda: TABLE.set_column(1, "level", TABLE["level"].cast(pa.uint64())),
    "a column of no type beside": lambda: TABLE.append_column("amount", pa.array([1, 2, 3]).cast(pa.decimal256(60, 0))),
}  # fmt: skip


@pytest.mark.parametrize("name", STREAMS)
def test_streams_of_every_kind(name):
    """Whatever gives its rows as a stream of Arrow gives the answers of its rows."""
    assert sums(STREAMS[name]()) == {"a": 3, "b": 2}


def test_no_rows():
    """A table of no rows has types all the same."""
    assert sums(TABLE.slice(0, 0)) == {}
    assert sums(Once(TABLE.slice(0, 0))) == {}


def test_a_stream_is_read_once_and_released_twice():
    """Plans and releases read several times what was taken over."""
    plan = (
        pf.protect(Once(TABLE), scenario(order_by=None))
        .group_by("day")
        .private_sum("level")
        .plan(epsilon=1e6)
    )
    first, second = (plan.release().frame["level_sum"].round().to_list() for _ in range(2))
    assert first == second == [3, 2]


def test_a_reader_is_not_used_up_by_a_typo():
    """Types are checked before a row is read: after a mistake the same reader will do."""
    reader = TABLE.to_reader()
    with pytest.raises(pf.UsageError, match="no column 'dya'"):
        pf.protect(reader, scenario(public=["dya"]))
    assert sums(reader) == {"a": 3, "b": 2}


def test_what_a_stream_says_when_it_fails_is_not_told():
    """A stream that breaks off is a failed source: neither half of its rows nor its words come out."""
    with pytest.raises(pf.SourceError) as caught:
        pf.protect(Once(TABLE, fails=True), scenario())
    assert HIDDEN not in str(caught.value)
    assert caught.value.__context__ is None


WITHOUT_MEANING = {
    "decimals of 50 digits": pa.array([Decimal(1)] * 3, pa.decimal256(50, 0)),
    "intervals of months": pa.array([(1, 2, 3)] * 3, pa.month_day_nano_interval()),
    "a zone of another planet": pa.array([1, 2, 3], pa.timestamp("us", "Mars/Base")),
    "run ends": pa.RunEndEncodedArray.from_arrays(pa.array([3], pa.int32()), pa.array([1.0])),
    "identifiers": pa.array([b"a" * 16] * 3, pa.uuid()),
    "unions": pa.UnionArray.from_sparse(pa.array([0, 0, 0], pa.int8()), [pa.array([1, 2, 3])]),
}


@pytest.mark.parametrize("column", ["day", "level"])
@pytest.mark.parametrize("kind", WITHOUT_MEANING)
def test_types_without_a_meaning(kind, column):
    """A column that is needed is refused by its type, before a row is read; one that is not is left out."""
    values = WITHOUT_MEANING[kind]
    place = TABLE.column_names.index(column)
    with pytest.raises(pf.UsageError, match="no meaning here") as caught:
        pf.protect(TABLE.set_column(place, column, values), scenario())
    assert f'CAST("{column}" AS' in caught.value.instead
    assert sums(TABLE.append_column("further", values)) == {"a": 3, "b": 2}


@pytest.mark.parametrize(
    ("kind", "told"), [(pa.list_(pa.int64()), "List"), (pa.duration("s"), "Duration")]
)
def test_types_that_are_no_numbers(kind, told):
    """A secret of a type that Polars has, and that is no number, is refused as in a Polars frame."""
    table = TABLE.set_column(1, "level", pa.nulls(3, kind))
    with pytest.raises(pf.UsageError, match=f"of type {told}"):
        pf.protect(table, scenario())


def test_offsets_are_times_in_utc():
    """Polars knows no +05:30; the moments are the same in UTC."""
    zones = [pa.timestamp("us", zone) for zone in ("+05:30", "+02:00", "UTC", "Europe/Berlin")]
    for zone in zones:
        moments = pa.array([0, 0, 86_400_000_000], pa.timestamp("us", "UTC")).cast(zone)
        found = sums(TABLE.set_column(0, "day", moments))
        assert [moment.utcoffset() for moment in found] == (
            [timedelta(hours=1)] * 2 if zone.tz == "Europe/Berlin" else [timedelta(0)] * 2
        )
        assert list(found.values()) == [3, 2]


def test_what_is_no_table():
    """A column, and two columns of one name, are refused with what to write."""
    with pytest.raises(pf.UsageError, match="of type ChunkedArray"):
        pf.protect(TABLE["level"], scenario())
    with pytest.raises(pf.UsageError, match="Two columns are called 'level'"):
        pf.protect(pa.table([[0], [1], ["a"]], names=["level", "level", "day"]), scenario())


@pytest.mark.parametrize("library", ["pyarrow", "pandas"])
def test_a_prior_of_the_private_table_itself(library, request):
    """A prior that was fitted on the same table is refused, whichever library the table is of."""
    rows = {"day": [0, 1, 2, 3], "level": [0, 1, 2, 3]}
    table = (
        pa.table(rows) if library == "pyarrow" else request.getfixturevalue("pd").DataFrame(rows)
    )
    fitted = pf.MarkovChain.fit(
        pf.Reference("mine", table), "level", order_by="day", domain=[0, 1, 2, 3]
    )
    with pytest.raises(pf.UsageError, match="which is the private frame itself"):
        pf.protect(
            table,
            pf.Scenario(
                pf.Secret("level", domain=[0, 1, 2, 3]), fitted, order_by="day", public=["day"]
            ),
        )


# pandas


def test_tables_of_pandas(pd):
    """Types of pandas are those of Arrow; null is what it is in either."""
    frame = pd.DataFrame(ROWS)
    assert sums(frame) == {"a": 3, "b": 2}
    assert sums(frame.astype({"level": "Int8", "day": "string"})) == {"a": 3, "b": 2}
    assert sums(frame.astype({"day": "category", "level": float})) == {"a": 3, "b": 2}
    assert sums(frame.assign(level=[0, None, 2])) == {"a": 0, "b": 2}
    assert sums(frame[frame["level"] > 0]) == {"a": 3, "b": 2}
    assert sums(frame.iloc[:0]) == {}


def test_what_is_done_to_a_table_afterwards_changes_nothing(pd):
    """A table is taken over as it is at protect."""
    frame = pd.DataFrame(ROWS)
    batch = pf.protect(frame, scenario()).group_by("day").private_sum("level")
    frame.loc[0, "level"] = 3
    frame["day"] = "c"
    assert batch.release(epsilon=1e6).frame.with_columns(pl.col("level_sum").round()).rows() == [
        ("a", 3),
        ("b", 2),
    ]


def test_levels_of_an_index_that_have_a_name_are_columns(pd):
    """An index by name is what pandas calls a column elsewhere; without a name it is a number of rows."""
    frame = pd.DataFrame(ROWS)
    assert sums(frame.set_index("day")) == {"a": 3, "b": 2}
    assert sums(frame.assign(hour=[1, 2, 3]).set_index(["hour", "day"])) == {"a": 3, "b": 2}
    assert sums(pd.DataFrame({"level": [0, 3, 2]}, index=pd.RangeIndex(3, name="day"))) == {
        0: 0,
        1: 3,
        2: 2,
    }
    both = frame.set_index(pd.Index(["x", "y", "z"], name="day"))
    assert sums(both) == {"a": 3, "b": 2}
    assert "index" not in str(pf.protect(frame, scenario()).request.frame.collect_schema())


def test_columns_without_a_type_of_their_own(pd):
    """Objects are refused where they are needed, with a cast that helps; what they are is never guessed from rows."""
    for column, values in (
        ("level", [0, 3, HIDDEN]),
        ("level", [0, 3, 2]),
        ("day", ["a", "a", "b"]),
    ):
        frame = pd.DataFrame(ROWS).assign(**{column: pd.Series(values, dtype=object)})
        with pytest.raises(pf.UsageError, match=f"'{column}' is object") as caught:
            pf.protect(frame, scenario())
        assert HIDDEN not in str(caught.value)
        if HIDDEN not in values:
            assert sums(eval(caught.value.instead, {"frame": frame})) == {"a": 3, "b": 2}  # noqa: S307 - our own words
    assert sums(pd.DataFrame(ROWS).assign(further=pd.Series([1, "a", None], dtype=object))) == {
        "a": 3,
        "b": 2,
    }


def test_types_of_pandas_alone(pd):
    """Periods, intervals and the like have no meaning here, which is said by their names."""
    frame = pd.DataFrame(ROWS)
    kinds = {
        "period": pd.period_range("2026-01", periods=3, freq="M"),
        "interval": pd.interval_range(0, 3),
        "complex": [1j, 2, 3],
        "Sparse": pd.arrays.SparseArray([0, 3, 2]),
    }
    for told, values in kinds.items():
        with pytest.raises(pf.UsageError, match=f"is {told}"):
            pf.protect(frame.assign(day=values), scenario())
        assert sums(frame.assign(further=values)) == {"a": 3, "b": 2}


def test_types_do_not_follow_from_rows(pd):
    """The types of a batch are those of the table without its rows."""
    frames = [
        pd.DataFrame(ROWS).assign(level=pd.Series(values, dtype="Int64"))
        for values in ([1, 2, 3], [None] * 3)
    ]
    schemas = {
        str(pf.protect(frame, scenario()).request.frame.collect_schema()) for frame in frames
    }
    assert len(schemas) == 1


def test_a_function_of_a_job_may_give_other_tables(tmp_path):
    """Rows of a job are what a function gives; a table of another library reaches build as it is."""
    (tmp_path / "job.py").write_text(
        "import pyarrow as pa\nimport pufferflow as pf\n"
        f"def rows(period):\n    return pa.table({ROWS!r})\n"
        "def build(frame, period):\n"
        "    secret = pf.Secret('level', domain=[0, 1, 2, 3])\n"
        "    return pf.protect(frame, pf.Scenario(secret, pf.Independent())).private_sum('level')\n"
    )
    (tmp_path / "job.toml").write_text(
        'name = "a"\nbuild = "job.py:build"\n[source]\nfunction = "job.py:rows"\n[guarantee]\nepsilon = 1.0\n'
        '[ledger]\naccount = "a"\nlimit = { epsilon = 1.0 }\n[sink]\nreport = false\n'
    )
    assert pf.Job.read(tmp_path / "job.toml").run("2026-11-20").state == "released"


def test_a_survey_in_pandas(pd, tables):
    """A real table answers alike in pandas and in Polars."""
    secret = pf.Secret("education_num", domain=pf.Interval(0, 16))
    survey = pf.Scenario(secret, pf.Independent(), public=["sex", "race"])
    answers = [
        pf.protect(frame, survey)
        .group_by("sex", "race")
        .private_sum("education_num")
        .release(epsilon=1e6)
        .frame
        for frame in (
            pl.scan_parquet(tables / "adult_train.parquet"),
            pd.read_parquet(tables / "adult_train.parquet"),
        )
    ]
    first, second = (answer.with_columns(pl.col("education_num_sum").round()) for answer in answers)
    assert first.equals(second)
    assert first.height == 10


def test_results_of_a_database():
    """What DuckDB answers goes in as it comes, its hugeints too."""
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        query = "SELECT unnest(['a', 'a', 'b']) AS day, unnest([0, 3, 2])::HUGEINT AS level"
        assert sums(connection.sql(query).to_arrow_reader()) == {"a": 3, "b": 2}
        assert sums(connection.sql(query).to_arrow_table()) == {"a": 3, "b": 2}
