"""Rows of models are read some at a time: the same sums and iterates as of all at once, and nothing is left behind."""

import collections
import errno
import itertools
import os
import stat
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from alarms import alarms_twice
from polars.io.plugins import register_io_source

import pufferflow as pf
from pufferflow.engines import model_rows
from pufferflow.engines import model_rows as stored_rows
from pufferflow.learning import sums, training
from pufferflow.learning.sums import STEPS, ExactSums

L = pf.learning
PROMISE = pf.Approx(1.0, 1e-6)
NAMES = ("x", "y")
PRIORS = {
    "independent": (pf.Independent(), {}),
    "groups in time": (pf.AnyCorrelation(), {"within": "g", "order_by": "t"}),
    "groups": (pf.GaussianPrior(pf.Exchangeable(0.3), across=np.eye(2)), {"within": "g"}),
    "all together": (pf.AnyCorrelation(), {}),
}


def scenario_of(belief="independent"):
    prior, more = PRIORS[belief]
    return pf.Scenario([pf.Secret(name, pf.Interval(-1, 1)) for name in NAMES], prior, **more)


def rows_of(count=400, seed=0):
    rng = np.random.default_rng(seed)
    numbers = rng.uniform(-1, 1, (count, 2))
    frame = pl.DataFrame({"g": rng.integers(0, 5, count), "t": rng.integers(0, 9, count)})
    return frame.with_columns(x=numbers[:, 0], y=numbers[:, 1])


def plan_of(rows, belief="independent", **settings):
    settings = {"loss": "huber", "passes": 3, "batch_size": 23} | settings
    return L.PrivateSGDRegressor(scenario_of(belief), pf.Gdp(3.0), **settings).plan(rows, "y")


def numbers_in_order(plan, visits=None):
    with plan.mechanism.table.rows.in_order(
        plan.mechanism.table.order, visits, plan.columns.scaled
    ) as stored:
        return stored.read(0, stored.rows).copy()


@pytest.fixture
def in_file(monkeypatch, tmp_path):
    """Keep tables of any size in a file of small parts, in a folder of their own."""
    monkeypatch.setattr(stored_rows, "IN_MEMORY", 0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return in_parts(monkeypatch, tmp_path)


def in_parts(monkeypatch, folder=None):
    monkeypatch.setattr(stored_rows, "_PART", 16 * 37)
    monkeypatch.setattr(stored_rows, "AT_ONCE", 16 * 29)
    monkeypatch.setattr(training, "_NUMBERS", 16)
    return folder


def without_chance(monkeypatch):
    """Let the operating system's randomness and all noise be the same each time."""
    monkeypatch.setattr(os, "urandom", lambda size: np.random.default_rng(size).bytes(size))
    monkeypatch.setattr(
        training.Training,
        "_noise",
        lambda self, weights: np.random.default_rng(1).normal(size=(self._steps, weights)),
    )


def open_files(folder):
    """Return the files below a folder that this process has open, with a name or without."""
    found = [str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return [path for path in found if path.startswith(str(folder))]


def source_of(tables):
    """Return a lazy frame that has the rows of the last of some tables whenever it is read."""

    def read(columns, predicate, rows, _):
        frame = tables[-1].lazy()
        frame = frame if predicate is None else frame.filter(predicate)
        frame = frame if columns is None else frame.select(columns)
        yield from (frame if rows is None else frame.head(rows)).collect().iter_slices(70)

    return register_io_source(read, schema=tables[-1].schema)


@pytest.mark.parametrize("belief", PRIORS)
def test_a_descent_from_a_file_ends_exactly_where_one_from_memory_does(
    belief, monkeypatch, tmp_path
):
    # to the last bit, for every kind of order, with one pass or several
    without_chance(monkeypatch)
    in_parts(monkeypatch)
    plan = plan_of(rows_of(), belief)
    small = plan.mechanism.coefficients()
    monkeypatch.setattr(stored_rows, "IN_MEMORY", 0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    kinds = []
    kind = stored_rows._InFile
    monkeypatch.setattr(stored_rows, "_InFile", lambda *size: kinds.append(size) or kind(*size))
    assert (plan.mechanism.coefficients() == small).all()
    assert kinds
    assert np.ptp(small) > 0
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_steps_read_all_rows_of_their_batches_some_at_a_time(loss, monkeypatch, in_file):
    # without noise the iterate is that of whole batches, of sizes that differ by one at most
    del in_file
    without_chance(monkeypatch)
    monkeypatch.setattr(
        training.Training, "_noise", lambda self, weights: np.zeros((self._steps, weights))
    )
    plan = plan_of(rows_of(101), "groups in time", loss=loss, batch_size=17, alpha=0.1)
    known, weights = plan.mechanism.fitting, np.zeros(2)
    rows = numbers_in_order(plan)
    for step in range(known._steps):
        batch = rows[known.step_of == step % known.batches]
        assert len(batch) in (101 // known.batches, 101 // known.batches + 1)
        here = known._projected(weights)
        lengths = np.hypot(1, batch[:, 0])
        slopes = known.objective.derivatives(batch[:, 0] * here[1] + here[0], batch[:, 1], lengths)
        gradient = np.array([slopes.sum(), slopes @ batch[:, 0]]) / known._largest_batch
        weights = here - known.step_size * (gradient + known.penalty * np.array([0, here[1]]))
    with plan.mechanism.table.rows.in_order(
        plan.mechanism.table.order, known.visits, plan.columns.scaled
    ) as stored:
        found = known.last_iterate(stored, None)
    assert found == pytest.approx(known._projected(weights), abs=known._steps * float(known._grid))


@pytest.mark.usefixtures("in_file")
@pytest.mark.parametrize("belief", PRIORS)
def test_rows_stand_in_public_order_whatever_their_order_in_the_source(belief):
    # each exactly once, by group and position, at the visit that was asked for
    rows = rows_of()
    plan = plan_of(rows.sample(fraction=1, shuffle=True, seed=3).lazy(), belief)
    visits = np.random.default_rng(5).permutation(400)
    found = numbers_in_order(plan, visits)[visits]
    assert sorted(map(tuple, found)) == sorted(rows.select(NAMES).rows())
    place = {
        row: facts
        for row, *facts in zip(rows.select(NAMES).rows(), rows["g"], rows["t"], strict=True)
    }
    facts = [place[tuple(row)] for row in found]
    if "groups" in belief:
        groups = [group for group, _ in facts]
        assert groups == sorted(groups)
    if "time" in belief:
        assert facts == sorted(facts)


@pytest.mark.slow
@pytest.mark.parametrize("belief", ["independent", "all together", "groups in time"])
def test_rows_that_nothing_public_tells_apart_stand_in_any_order_equally_often(belief, monkeypatch):
    # all 24 orders of four rows, over several parts: chi-squared of 23 degrees of freedom
    monkeypatch.setattr(stored_rows, "_PART", 16 * 3)
    monkeypatch.setattr(stored_rows, "AT_ONCE", 16 * 2)
    rows = pl.DataFrame({"g": [1] * 4, "t": [2] * 4, "x": [-0.6, -0.2, 0.2, 0.6], "y": [0.0] * 4})
    plan, times = plan_of(rows, belief, batch_size=4), 1200

    def look(_turn):
        drawn = collections.Counter(
            tuple(numbers_in_order(plan)[:, 0].tolist()) for _ in range(times)
        )
        counts = np.array([drawn[order] for order in itertools.permutations(rows["x"].to_list())])
        assert counts.sum() == times
        return ((counts - times / 24) ** 2 / (times / 24)).sum() >= 60

    assert not alarms_twice(look)


@pytest.mark.parametrize("columns", [1, 4, 80, 220])
def test_sums_are_those_of_whole_numbers_however_rows_come(columns, monkeypatch):
    # parts of any size, in any order, carried before 64 bits are full; wide tables too
    monkeypatch.setattr(sums, "_WHOLE", 300)
    rng = np.random.default_rng(columns)
    scaled = rng.choice([rng.uniform(-1, 1, (1500, columns)), np.ones((1500, columns))])
    steps = np.column_stack([np.full(1500, STEPS), np.rint(scaled * STEPS).astype(np.int64)])
    once, twice = ExactSums(columns), ExactSums(columns)
    once.add(scaled)
    for some in np.array_split(np.asfortranarray(scaled[rng.permutation(1500)]), [1, 7, 7, 900]):
        twice.add(some)
    first = [
        sum(int(a) * int(b) for a, b in zip(steps[:, 0], steps[:, place], strict=True))
        for place in (0, -1)
    ]
    assert (once.total == twice.total).all()
    assert (once.total == steps.T @ steps).all()
    assert [once.total[0, 0], once.total[0, -1]] == first


def test_sums_of_most_rows_pass_64_bits_and_stay_exact():
    # 2^25 rows of ones are 2^63 square steps: Python's numbers hold them
    total = ExactSums(1)
    total._part[:], total._rows = 2**62, sums._WHOLE
    total.add(np.ones((1, 1)))
    total._part[:] = 2**62
    assert total.total[0, 0] == 2**63 + STEPS**2


@pytest.mark.parametrize("kind", ["frame", "lazy", "parquet", "filtered"])
@pytest.mark.parametrize("belief", ["independent", "groups in time"])
def test_sums_of_every_kind_of_source_are_those_of_its_rows(kind, belief, monkeypatch, tmp_path):
    # many batches; null, NaN and numbers outside are read as declared
    in_parts(monkeypatch)
    rows = rows_of().with_columns(
        x=pl.when(pl.col("t") == 3)
        .then(None)
        .when(pl.col("t") == 4)
        .then(float("nan"))
        .otherwise(pl.col("x") * 3)
    )
    rows.write_parquet(tmp_path / "rows.parquet", row_group_size=90)
    source = {
        "frame": rows,
        "lazy": rows.lazy(),
        "parquet": pl.scan_parquet(tmp_path / "rows.parquet"),
        "filtered": pl.concat([rows, rows]).lazy().with_row_index("n").filter(pl.col("n") < 400),
    }[kind]
    plan = L.PrivateRidge(scenario_of(belief), PROMISE, solver="sums").plan(source, "y")
    found = ExactSums(2)
    plan.mechanism.table.rows.each(
        plan.mechanism.table.order, lambda numbers: found.add(plan.columns.scaled(numbers))
    )
    read = (
        rows["x"].fill_nan(None).fill_null(plan.columns.read[0].missing).clip(-1, 1).to_numpy(),
        rows["y"].to_numpy(),
    )
    steps = np.rint(np.column_stack([np.ones(400), *read]) * STEPS).astype(np.int64)
    assert (found.total == steps.T @ steps).all()


@pytest.mark.usefixtures("in_file")
def test_labels_and_classes_are_read_in_every_batch():
    # enums, texts and bins become the same numbers in memory and in many batches
    rng = np.random.default_rng(2)
    rows = pl.DataFrame({"b": rng.uniform(0, 30, 300), "y": rng.choice(["no", "yes", "?"], 300)})
    secrets = [
        pf.Secret("b", pf.Bins([0, 10, 20, 30], values=[2, 7, 29])),
        pf.Secret("y", ["no", "yes"]),
    ]
    model = L.PrivateSGDClassifier(pf.Scenario(secrets, pf.Independent()), PROMISE)
    for target in (pl.col("y"), pl.col("y").cast(pl.Categorical)):
        plan = model.plan(rows.with_columns(target), "y")
        found = sorted(map(tuple, numbers_in_order(plan).tolist()))
        numbers = plan.columns.read[0].numbers
        scaled = (
            numbers[(rows["b"].to_numpy() // 10).astype(int)] - plan.columns.middle[0]
        ) / plan.columns.half[0]
        labels = np.where(rows["y"].to_numpy() == "yes", 1.0, -1.0)
        truth = sorted(zip(scaled.tolist(), labels.tolist(), strict=True))
        assert np.array(found) == pytest.approx(np.array(truth))


@pytest.mark.parametrize("model", ["sums", "descent"])
@pytest.mark.parametrize("belief", PRIORS)
@pytest.mark.parametrize("change", ["more", "fewer", "none", "other groups"])
def test_a_source_that_changed_since_the_plan_is_refused(model, belief, change, in_file):
    # before anything is drawn; rows that have come by then leave no file
    rows = rows_of()
    tables = [rows]
    source = source_of(tables)
    made = plan_of(source, belief) if model == "descent" else None
    plan = made or L.PrivateRidge(scenario_of(belief), PROMISE, solver="sums").plan(source, "y")
    tables.append(
        {
            "more": pl.concat([rows, rows]),
            "fewer": rows.head(399),
            "none": rows.clear(),
            "other groups": rows.with_columns(
                g=pl.when(pl.int_range(400) == 399).then(77).otherwise("g")
            ),
        }[change]
    )
    if change == "other groups" and "groups" not in belief:
        assert len(plan.mechanism.coefficients()) == 2
        return
    with pytest.raises(pf.PufferflowError, match=r"has other rows|The table has 0 rows"):
        plan.release()
    assert not open_files(in_file)
    assert not list(in_file.iterdir())


@pytest.mark.parametrize("belief", PRIORS)
def test_a_source_that_never_ends_is_left_as_soon_as_it_has_a_row_too_many(belief, in_file):
    # rows that come on and on fill neither memory nor the disk
    rows, ends = rows_of(), [True]

    def read(*_):
        yield rows
        while not ends[0]:
            yield rows

    def wanted(columns, predicate, most, size):
        del size
        for frame in read():
            some = frame if columns is None else frame.select(columns)
            some = some if predicate is None else some.filter(predicate)
            yield some if most is None else some.head(most)

    plan = plan_of(register_io_source(wanted, schema=rows.schema), belief)
    ends[0] = False
    came = []
    with pytest.raises(pf.SourceError, match="has other rows"):
        plan.mechanism.table.rows.each(
            plan.mechanism.table.order, lambda numbers: came.append(len(numbers))
        )
    assert sum(came) <= 400
    with pytest.raises(pf.SourceError, match="has other rows"):
        plan.release()
    assert not list(in_file.iterdir())


@pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere the file has a name until it is closed"
)
@pytest.mark.parametrize("belief", ["independent", "groups"])
def test_the_file_has_no_name_is_its_owners_alone_and_goes_with_the_fit(belief, in_file):
    # while rows are in it nobody finds it, and afterwards it is closed, after an error and after Ctrl-C too
    plan = plan_of(rows_of(), belief)
    with plan.mechanism.table.rows.in_order(
        plan.mechanism.table.order, None, plan.columns.scaled
    ) as stored:
        assert not list(in_file.iterdir())
        assert stat.S_IMODE(os.fstat(stored._file.fileno()).st_mode) == 0o600
        assert open_files(in_file)
    assert not open_files(in_file)
    for error in (KeyboardInterrupt, MemoryError):
        came = []

        def change(numbers, came=came, error=error):
            came.append(len(open_files(in_file)))
            if len(came) > 3:
                raise error
            return numbers

        with (
            pytest.raises(error),
            plan.mechanism.table.rows.in_order(plan.mechanism.table.order, None, change),
        ):
            pass
        assert min(came) > 0
        assert not open_files(in_file)
        assert not list(in_file.iterdir())


@pytest.mark.parametrize("belief", ["independent", "groups"])
@pytest.mark.parametrize("broken", ["open", "write", "read"])
def test_a_folder_without_room_is_an_error_that_names_it_and_no_value(
    belief, broken, monkeypatch, in_file
):
    # a full disk, a folder that is not there, a file that is cut short
    plan, kind = plan_of(rows_of(), belief), stored_rows._InFile
    if broken == "open":
        monkeypatch.setattr("tempfile.tempdir", str(in_file / "missing"))

    def full(*_):
        raise OSError(errno.ENOSPC, "0.123 of a row")

    if broken == "write":
        monkeypatch.setattr(kind, "_write", full)
    if broken == "read":
        settle = stored_rows.Places.settle
        monkeypatch.setattr(
            stored_rows.Places,
            "settle",
            lambda self: (self.stored._file.truncate(1000), settle(self))[1],
        )
    with pytest.raises(pf.SourceError, match="temporary files") as caught:
        plan.release()
    assert "0.123" not in str(caught.value)
    assert "TMPDIR" in caught.value.instead
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert not list(in_file.iterdir())


@pytest.mark.usefixtures("in_file")
def test_writes_and_reads_that_stop_half_way_are_carried_on(monkeypatch):
    # the system may take or give fewer bytes than it was asked for
    class Slow:
        def __init__(self, file):
            self.file, self.seek, self.close = file, file.seek, file.close

        def write(self, view):
            return self.file.write(view[:13])

        def readinto(self, view):
            return self.file.readinto(view[:11])

    numbers = np.random.default_rng(0).normal(size=(9, 2))
    with stored_rows.stored_rows(9, 2) as stored:
        monkeypatch.setattr(stored, "_file", Slow(stored._file))
        stored.put(4, numbers[4:])
        stored.put(0, numbers[:4])
        assert (stored.read(0, 9) == numbers).all()
        assert (stored.read(3, 5) == numbers[3:5]).all()


@pytest.mark.parametrize("solver", ["sums", "descent"])
def test_an_engine_that_fails_half_way_tells_no_value(solver, in_file):
    # the text that it could not read stands in its own message, which is not passed on
    path = in_file / "rows.csv"
    rows_of(3000).with_columns(x=pl.col("x").cast(pl.String)).write_csv(path)
    source = pl.scan_csv(path, schema_overrides={"x": pl.String}).with_columns(
        pl.col("x").cast(pl.Float64)
    )
    plan = L.PrivateRidge(scenario_of(), PROMISE, solver=solver).plan(source, "y")
    lines = path.read_text().splitlines()
    lines[2500] = "1,1,hidden,0.5"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(pf.SourceError) as caught:
        plan.release()
    assert "hidden" not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert [item.name for item in in_file.iterdir()] == ["rows.csv"]


@pytest.mark.usefixtures("in_file")
@pytest.mark.parametrize("belief", PRIORS)
def test_one_row_is_fitted_and_none_are_refused(belief):
    # as few as there are
    for solver in ("sums", "descent"):
        model = L.PrivateRidge(scenario_of(belief), PROMISE, solver=solver)
        assert np.isfinite(model.fit(rows_of(1).lazy(), y="y").coef_).all()
        with pytest.raises(pf.UsageError, match="The table has 0 rows"):
            model.fit(rows_of(1).clear().lazy(), y="y")


@pytest.mark.usefixtures("in_file")
def test_those_who_wait_see_how_many_rows_are_read_and_steps_done(monkeypatch):
    # every row that is read and every step advances its bar to the end
    seen = {}

    class Work:
        def __init__(self, text, total=None):
            seen[text] = [total, 0]
            self.text = text

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def advance(self, parts=1):
            seen[self.text][1] += parts

    for module in (model_rows, stored_rows, training):
        monkeypatch.setattr(module, "working", Work)
    plan = plan_of(rows_of())
    plan.release()
    assert seen == {
        "reading rows": [400, 400],
        "ordering rows": [400, 400],
        "visiting rows": [plan.mechanism.fitting._steps] * 2,
    }
