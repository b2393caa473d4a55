"""What a release reads of private rows, against plain Python: any dtype, any values, any cells."""

import numpy as np
import polars as pl
import pytest
import rows
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferflow.core.errors import UsageError
from pufferflow.engines import column_measures as columns
from pufferflow.engines.column_measures import check_column
from pufferflow.engines.one_pass import tally
from pufferflow.models.domain import Bins, Interval, read_domain
from pufferflow.queries.engine_interface import Measure
from pufferflow.queries.expressions.compiler import indicators, read_values
from pufferflow.queries.keys import read_keys


def collect(frame):
    return frame.collect(engine="streaming")


def read(frame, by, keys, asked):
    """The tally of a frame, which takes one query and neither warns nor fails."""
    asks = []
    keys = None if keys is None else read_keys(keys, by, frame.lazy().collect_schema())
    found = tally(frame.lazy(), by, keys, asked, lambda query: (asks.append(1), collect(query))[1])
    assert len(asks) == 1
    return found


def same(one, other):
    assert (one.keys is None) == (other.keys is None)
    if one.keys is not None:
        assert one.keys.equals(other.keys)
        assert one.keys.schema == other.keys.schema
    assert (one.rows == other.rows).all()
    assert (one.sums == other.sums).all()
    assert (one.rows.dtype, one.sums.dtype, one.sums.shape) == (
        other.rows.dtype,
        other.sums.dtype,
        other.sums.shape,
    )


@pytest.fixture(params=[False, True], ids=["tested", "grouped"])
def few(request, monkeypatch):
    """Count all classes by tests, or as groups of their own wherever there is more than one."""
    monkeypatch.setattr(
        columns.ByClass,
        "many",
        property(lambda self: request.param and len(self.classes.places) > 1),
    )
    monkeypatch.setattr(columns, "_FEWEST", 1 if request.param else 4)


@st.composite
def private(draw):
    """A frame with two private columns and a key, and measures of both."""
    size = draw(st.integers(0, 12))
    first = draw(rows.column(draw(rows.number_dtypes), size)).alias("^x.*$")
    second = draw(rows.column(draw(rows.label_dtypes), size)).alias("rows")
    key = pl.Series(
        "by0",
        draw(st.lists(st.none() | st.integers(0, 2), min_size=size, max_size=size)),
        dtype=pl.Int16,
    )
    asked = draw(rows.measures("^x.*$", draw(rows.number_domains))) + draw(
        rows.measures("rows", draw(rows.label_domains), most=2)
    )
    return pl.DataFrame([key, first, second]), draw(st.permutations(asked))


@pytest.mark.usefixtures("few")
@settings(max_examples=30)
@given(private(), st.booleans())
def test_sums_are_those_of_plain_python(made, grouped):
    """Every dtype, null, NaN, ±∞, far outside, unknown; domains unsorted, with gaps, of classes, of labels."""
    frame, asked = made
    by, cells = (("by0",), [(2,), (None,), (7,), (0,)]) if grouped else ((), [()])
    keys = pl.DataFrame({"by0": [2, None, 7, 0]}) if grouped else None
    found = read(frame, by, keys, asked)
    counts, sums = rows.counted(frame, list(by), cells, asked)
    assert found.rows.tolist() == counts.tolist()
    assert found.sums.tolist() == sums.tolist()
    assert found.keys is None if not grouped else found.keys.rows() == cells


@pytest.mark.usefixtures("few")
@settings(max_examples=15)
@given(private(), st.randoms(use_true_random=False))
def test_order_and_chunks_do_not_matter(made, random):
    """Rows shuffled and cut into pieces give the same tally, bit by bit."""
    frame, asked = made
    order = random.sample(range(len(frame)), len(frame))
    cut = random.randint(0, len(frame))
    moved = frame[order]
    pieces = pl.concat([moved[:cut], moved[cut:]], rechunk=False)
    same(read(frame, ("by0",), None, asked), read(pieces, ("by0",), None, asked))


@pytest.mark.usefixtures("few")
@settings(max_examples=15)
@given(st.data())
def test_no_shape_depends_on_private_values(data):
    """Two private columns over the same public one: same keys, rows and dtypes, whatever is in them."""
    dtype, domain = data.draw(rows.number_dtypes), data.draw(rows.number_domains)
    asked = data.draw(rows.measures("x", domain))
    key = pl.Series("key", data.draw(st.lists(st.integers(0, 3), max_size=9)), dtype=pl.Int64)
    tallies = []
    for _ in range(2):
        frame = pl.DataFrame([key, data.draw(rows.column(dtype, len(key))).alias("x")])
        tallies.append(read(frame, ("key",), None, asked))
    one, other = tallies
    assert one.keys.equals(other.keys)
    assert (one.rows == other.rows).all()
    assert (one.sums.dtype, one.sums.shape) == (other.sums.dtype, other.sums.shape)


@pytest.mark.slow
@settings(max_examples=30)
@given(st.data(), st.sampled_from(["x", "squared", "peaks", "bars"]))
def test_numbers_of_an_interval_are_read_from_the_formula(data, kind):
    """A line, its square, a predicate and classes: the formula at the nearest number of the interval."""
    domain = Interval(*data.draw(st.sampled_from([(0, 10), (-1.5, 2.25), (0, 1e6)])))
    values = {
        "x": lambda: [read_values("x", {"x": domain})],
        "squared": lambda: [read_values("x", {"x": domain}).squared(0)],
        "peaks": lambda: [read_values(pl.col("x") >= 1, {"x": domain})],
        "bars": lambda: [one for _, one in indicators("x", domain, [0, 1, 2])],
    }[kind]()
    asked = [
        Measure(value, data.draw(st.sampled_from([domain.low, 1.0, domain.high])))
        for value in values
    ]
    frame = pl.DataFrame([data.draw(rows.column(data.draw(rows.number_dtypes), 8)).alias("x")])
    found = read(frame, (), None, asked)
    assert found.sums.tolist() == rows.counted(frame, [], [()], asked)[1].tolist()
    assert found.sums.dtype == np.int64


def test_a_column_with_many_classes_may_stand_beside_others():
    """Histograms of 30 and 70 bars, a sum of 3 classes and a line: one query, the sums of plain Python."""
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "key": rng.integers(0, 3, 80),
            "a": rng.integers(-2, 35, 80),
            "b": rng.normal(35, 25, 80),
            "c": rng.choice(["u", "v", "w", None], 80),
            "d": rng.normal(0, 3, 80),
        }
    )
    domains = {
        "a": read_domain(range(30)),
        "b": Bins(range(71), range(70)),
        "c": read_domain(["u", "w"]),
    }
    asked = [
        Measure(value, domains[name].points[0])
        for name in domains
        for _, value in indicators(name, domains[name])
    ]
    asked.append(Measure(read_values("d", {"d": Interval(-1, 4)}), 0.0))
    found = read(frame, ("key",), None, asked[::-1])
    counts, sums = rows.counted(frame, ["key"], [(0,), (1,), (2,)], asked[::-1])
    assert found.rows.tolist() == counts.tolist()
    assert found.sums.tolist() == sums.tolist()


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    "points",
    [range(100, 129), range(-140, -120), range(-1, 6), range(90, 300), [0, 127], [-129, -128.5]],
)
@pytest.mark.parametrize("dtype", [pl.Int8, pl.UInt8])
def test_every_whole_number_has_its_place(dtype, points):
    """All numbers of 8 bits, and domains that reach over their ends: places added up, and each one counted."""
    low = -128 if dtype == pl.Int8 else 0
    frame = pl.DataFrame({"x": pl.Series([*range(low, low + 256), None], dtype=dtype)})
    domain = read_domain(points)
    asked = [Measure(read_values("x", {"x": domain}), points[1])]
    for measures in (
        asked,
        [*asked, *(Measure(value, points[1]) for _, value in indicators("x", domain)[:40:3])],
    ):
        assert (
            read(frame, (), None, measures).sums.tolist()
            == rows.counted(frame, [], [()], measures)[1].tolist()
        )


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    "domain",
    [Bins([-1, 0, 0.5, 2], [5, 6, 7]), Bins([0, 0.1], [1, 2, 3]), read_domain([0.1, 0.3, -1])],
)
@pytest.mark.parametrize("dtype", [pl.Float64, pl.Float32])
def test_edges_belong_to_the_class_above_and_middles_to_the_value_below(dtype, domain):
    """Each edge and middle as a float of the dtype, the floats next to it, and −0.0."""
    middles = [-1.0, -0.45, -0.0, 0.0, 0.1, 0.2, 0.5, 2.0]
    kind = np.float64 if dtype == pl.Float64 else np.float32
    near = [float(np.nextafter(kind(one), kind(way))) for one in middles for way in (-9, one, 9)]
    asked = [Measure(value, domain.points[1]) for _, value in indicators("x", domain)]
    for number in near:
        frame = pl.DataFrame({"x": pl.Series([number], dtype=dtype)})
        assert (
            read(frame, (), None, asked).sums.tolist()
            == rows.counted(frame, [], [()], asked)[1].tolist()
        )


def test_an_empty_frame_has_no_rows():
    """Without groups there is one cell of nothing; declared keys get nothing each; found keys are none."""
    frame = pl.DataFrame(schema={"key": pl.String, "x": pl.Float32})
    asked = [Measure(read_values("x", {"x": read_domain([1, 2])}), 1)]
    for by, keys, count in [
        ((), None, 1),
        (("key",), pl.DataFrame({"key": ["a", "b"]}), 2),
        (("key",), None, 0),
    ]:
        found = read(frame, by, keys, asked)
        assert (found.rows.tolist(), found.sums.tolist()) == ([0] * count, [[0]] * count)


def test_rows_are_counted_where_nothing_else_is_asked():
    """No measure: the rows of each cell, and sums of width 0."""
    frame = pl.DataFrame({"key": [1, 1, 2], "x": [0, 1, 2]})
    assert read(frame, (), None, []).rows.tolist() == [3]
    found = read(frame, ("key",), None, [])
    assert (found.rows.tolist(), found.sums.shape) == ([2, 1], (2, 0))


@pytest.mark.parametrize(
    ("dtype", "domain"),
    [
        (pl.String, [0, 1]),
        (pl.Date, [0, 1]),
        (pl.Int64, ["a", "b"]),
        (pl.Boolean, ["a", "b"]),
        (pl.List(pl.Int8), [0, 1]),
    ],
)
def test_a_dtype_that_cannot_hold_the_domain_is_refused(dtype, domain):
    """Labels for numbers, dates for numbers: known from the schema, before a row is read."""
    frame = pl.LazyFrame(schema={"x": dtype})
    asked = [Measure(value, domain[0]) for _, value in indicators("x", read_domain(domain))]
    with pytest.raises(UsageError, match="column 'x'"):
        tally(frame, (), None, asked, collect)


EVERY_DTYPE = [
    *rows.WHOLE,
    *rows.FLOATS,
    pl.UInt128,
    pl.Decimal(10, 2),
    pl.Boolean,
    pl.Null,
    pl.String,
    pl.Binary,
    pl.Categorical(),
    pl.Enum(["a", "b"]),
    pl.Date,
    pl.Time,
    pl.Duration("us"),
    pl.Datetime("us"),
    pl.List(pl.Int8),
    pl.Array(pl.Int8, 2),
    pl.Struct({"a": pl.Int8}),
    pl.Object,
]


@pytest.mark.parametrize(
    "domain",
    [
        *map(read_domain, ([0, 1], [0.5, 2], [False, True], ["a", "b"])),
        Bins([0.5], [0, 1]),
        Bins([0.5], ["a", "b"]),
        Bins([0.5], [False, True]),
        Interval(0, 1),
    ],
    ids=repr,
)
@pytest.mark.parametrize("dtype", EVERY_DTYPE, ids=str)
def test_a_column_that_is_not_refused_at_once_can_be_read(dtype, domain):
    """Whatever the dtype and the domain: refused by its schema before anything is reserved, or read without fail."""
    missing = domain.points[0]
    asked = [
        Measure(value, missing)
        for _, value in indicators("x", domain, [0, 1] if isinstance(domain, Interval) else None)
    ]
    if not isinstance(domain, Interval):
        asked.append(Measure(read_values(pl.col("x") == missing, {"x": domain}), missing))
    try:
        check_column("x", pl.Schema({"x": dtype})["x"], domain)
    except UsageError:
        with pytest.raises(UsageError, match="column 'x'"):
            columns.columns_of(pl.Schema({"x": dtype}), asked)
        return
    frame = pl.DataFrame({"x": pl.Series([None, None], dtype=dtype)})
    assert (
        read(frame, (), None, asked).sums.tolist()
        == rows.counted(frame, [], [()], asked)[1].tolist()
    )


def test_errors_about_columns_are_short():
    """Names with lines of their own, and types that list many categories."""
    for dtype, domain in [
        (pl.Enum(["a\nb"] * 1 + [f"c{place}" for place in range(999)]), [0, 1]),
        (pl.Int8, ["a", "b"]),
    ]:
        with pytest.raises(UsageError) as caught:
            check_column("one\ntwo\nthree\nfour\n" * 99, dtype, read_domain(domain))
        assert len(str(caught.value).splitlines()) <= 5
        assert len(str(caught.value)) < 400


def test_sums_beyond_64_bits_are_exact():
    """Steps of 2^40 over many rows of one class: Python's whole numbers, known from the steps alone."""
    domain = read_domain([0, 1])
    third = read_values(pl.when(pl.col("x") == 1).then(1 / 3).otherwise(0), {"x": domain})
    found = read(pl.DataFrame({"x": [1, 1, 0, None]}), (), None, [Measure(third, 1)])
    assert found.sums.dtype == object
    assert found.sums.tolist() == [[3 * third.high]]
