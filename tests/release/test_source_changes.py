"""A source that changes after its plan: nothing is released that noise and cost were not made for, or paid for."""

import numpy as np
import polars as pl
import pytest
from polars.io.plugins import register_io_source
from thinned import thinned

import pufferflow as pf
from pufferflow.core.errors import PufferflowError
from pufferflow.engines import polars_engine as engine
from pufferflow.queries import engine_interface as snapshot

ON = pf.Secret("on", domain=[0, 1])
LEVEL = pf.Secret("level", domain=pf.Interval(0, 1))
CHAIN = [[0.8, 0.2], [0.3, 0.7]]
CLASSES = pf.LatentClass([0.3, 0.7], [[0.5, 0.5], [0.1, 0.9]])
KIND = {"kind": [0, 0, 1, 1], "on": [0, 1, 0, 1], "probability": [0.4, 0.1, 0.2, 0.3]}
TIED = {
    "any correlation": (ON, pf.AnyCorrelation()),
    "chain": (ON, pf.MarkovChain(CHAIN)),
    "chain, period": (ON, pf.MarkovChain([CHAIN, CHAIN[::-1]], period=2)),
    "chain, first value": (pf.Initial("on", domain=[0, 1]), pf.MarkovChain(CHAIN)),
    "chains between": (ON, pf.MarkovChain.between(np.array(CHAIN) - 0.05, np.array(CHAIN) + 0.05)),
    "classes": (ON, CLASSES),
    "a hidden class": (pf.Derived("kind", column="on", domain=[0, 1]), CLASSES),
    "a shared table": (pf.Derived("kind"), pf.Table(KIND, shared="kind")),
    "autoregressive": (LEVEL, pf.GaussianPrior(pf.AR1(0.5))),
    "exchangeable": (LEVEL, pf.GaussianPrior(pf.Exchangeable(0.3))),
    "weakly dependent": (LEVEL, pf.WeaklyDependent(0.5)),
    "diffusion": (pf.Initial("level", domain=pf.Interval(0, 1)), pf.Diffusion(0.7)),
    "first value, alone": (pf.Initial("on", domain=[0, 1]), pf.Independent()),
}
ASKED = {
    "a filter": lambda batch: batch.filter(pl.col("day") == 1),
    "keys": lambda batch: batch.group_by("day", keys=[1]),
    "a derived column": lambda batch: batch.with_columns(night=pl.col("day") > 0).filter(
        pl.col("night")
    ),
    "derived keys": lambda batch: batch.with_columns(week=pl.col("day") // 1).group_by(
        "week", keys=[1]
    ),
    "a filter and keys of the rows": lambda batch: batch.filter(pl.col("day") == 1).group_by("day"),
}


class Refilled:
    """A frame in memory whose columns are NumPy's, which may be filled anew."""

    def __init__(self, **columns):
        self.columns = {name: np.array(values) for name, values in columns.items()}
        self.frame = pl.DataFrame(
            [pl.Series(name, values) for name, values in self.columns.items()]
        )

    def fill(self, **columns):
        for name, values in columns.items():
            self.columns[name][:] = values


def rows(**columns):
    """Three houses of eight hours."""
    known = {
        "house": np.repeat([1, 2, 3], 8),
        "hour": np.tile(np.arange(8), 3),
        "day": np.zeros(24, dtype=np.int64),
    }
    return Refilled(**(known | {"on": np.ones(24, dtype=np.int64), "level": np.ones(24)} | columns))


def batch(source, secret=ON, prior=None, **options):
    frame = getattr(source, "frame", source)
    given = {"order_by": "hour", "start": 0, "within": "house", "public": ["day"], **options}
    return pf.protect(frame, pf.Scenario(secret, prior or pf.AnyCorrelation(), **given))


def asking(found):
    """The batch with a sum of its sensitive column."""
    return found.private_sum(next(iter(found.request.domains)))


@pytest.fixture
def account(tmp_path):
    """An account with a limit of 1, opened by the first plan."""
    with pf.Ledger(str(tmp_path / "ledger.db")) as ledger:
        yield lambda plan: ledger.open("houses", plan.request.scenario, limit=pf.Pure(1.0))


def written(path, frame):
    """A file of rows, and a scan of it."""
    writer, scan = {
        ".csv": (frame.write_csv, pl.scan_csv),
        ".ndjson": (frame.write_ndjson, pl.scan_ndjson),
        ".parquet": (frame.write_parquet, pl.scan_parquet),
        ".arrow": (frame.write_ipc, pl.scan_ipc),
    }[path.suffix]
    writer(path)
    return scan(path)


# A plan of nothing


@pytest.mark.parametrize("way", thinned(ASKED, 0.25))
@pytest.mark.parametrize("prior", TIED)
def test_a_plan_of_no_rows_releases_no_rows(prior, way, account):
    """What was planned while no row passed costs nothing, and is refused, and charges nothing, when rows are there."""
    source = rows()
    plan = asking(ASKED[way](batch(source, *TIED[prior]))).plan(pf.Pure(1.0))
    assert plan.cost.selects_nothing
    books = account(plan)
    plan.release(books)
    source.fill(day=1)
    for _ in range(3):
        with pytest.raises(pf.SourceError, match="other rows"):
            plan.release(books)
    assert len(books.history()) == 1
    assert books.spent().epsilon == 0


def test_rows_that_come_after_the_plan_in_a_file(tmp_path, account):
    """A file that gets the first row that passes the filter is refused: 200 releases would average to the exact sum."""
    path = tmp_path / "houses.csv"
    path.write_text("house,hour,day,on\n1,0,0,1\n")
    plan = asking(batch(pl.scan_csv(path)).filter(pl.col("day") == 1)).plan(pf.Pure(1.0))
    books = account(plan)
    with path.open("a") as file:
        file.write("1,1,1,1\n1,2,1,1\n")
    for _ in range(5):
        with pytest.raises(pf.SourceError, match="plan"):
            plan.release(books)
    assert (books.spent().epsilon, len(books.history())) == (0, 0)
    again = asking(batch(pl.scan_csv(path)).filter(pl.col("day") == 1)).plan(pf.Pure(1.0))
    again.release(books)
    assert books.spent().epsilon == pytest.approx(1.0)


# Other rows of the same number


@pytest.mark.parametrize("by", [(), ("day",)])
def test_many_houses_become_one(by):
    """24 houses of one row are not released as one house of 24, under noise made for one."""
    source = rows(house=np.arange(24))
    found = batch(source)
    plan = asking(found.group_by(*by) if by else found).plan(pf.Pure(1.0))
    assert plan.noises["on_sum"].scale < 2
    source.fill(house=0)
    with pytest.raises(pf.SourceError, match="other rows"):
        plan.release()


@pytest.mark.parametrize("suffix", [".csv", ".ndjson", ".parquet", ".arrow"])
def test_a_file_of_other_houses(suffix, tmp_path):
    """A file that is replaced by one of as many rows in other houses is refused."""
    frame = pl.DataFrame({"house": range(24), "hour": [0] * 24, "day": [0] * 24, "on": [1] * 24})
    path = tmp_path / f"houses{suffix}"
    plan = asking(batch(written(path, frame))).plan(pf.Pure(1.0))
    written(path, frame.with_columns(house=0))
    with pytest.raises(pf.SourceError):
        plan.release()


def test_a_function_that_gives_other_rows():
    """Rows that a function gives are compared each time, before and after they are read."""
    houses = [1, 2, 3]

    def given(with_columns, predicate, n_rows, batch_size):
        del predicate, n_rows, batch_size
        frame = pl.DataFrame({"house": houses, "day": 0, "on": 1})
        yield frame if with_columns is None else frame.select(with_columns)

    scan = register_io_source(given, schema={"house": pl.Int64, "day": pl.Int32, "on": pl.Int32})
    plan = asking(batch(scan, order_by=None, start=None)).plan(pf.Pure(1.0))
    houses.append(4)
    plan.release()
    houses[:] = [1, 1, 2, 3]
    with pytest.raises(pf.SourceError, match="other rows"):
        plan.release()


def test_functions_are_not_taken_for_one_another():
    """A prior that was fitted on what one function gives is no prior of the rows that another gives."""

    def scan(rows):
        frame = pl.DataFrame({"house": [1] * rows, "hour": range(rows), "on": [0, 1] * (rows // 2)})
        given = lambda columns, *_: iter([frame if columns is None else frame.select(columns)])  # noqa: E731
        return register_io_source(given, schema=frame.schema)

    public = pf.Reference("a survey", scan(20))
    prior = pf.MarkovChain.fit(public, "on", within="house", order_by="hour", domain=[0, 1])
    scenario = pf.Scenario(ON, prior, order_by="hour", within="house")
    assert pf.protect(scan(10), scenario)
    with pytest.raises(pf.UsageError, match="the private frame itself"):
        pf.protect(public.frame, scenario)


def test_more_rows_than_a_cover_has():
    """Houses too many in kind are covered by one pattern; a house that outgrows it is refused, one inside it is not."""
    house = np.repeat(np.arange(70), np.arange(1, 71))
    source = Refilled(
        house=house,
        day=np.zeros(len(house), dtype=np.int64),
        on=np.ones(len(house), dtype=np.int64),
    )
    plan = asking(batch(source, order_by=None, start=None)).plan(pf.Pure(1.0))
    assert plan.mechanism.source.selected == len(house)
    plan.release()
    source.fill(house=np.where(house == 0, 1, house))  # 71 rows of 69 kinds, all within
    plan.release()
    source.fill(house=np.where(house < 60, 69, house))
    with pytest.raises(pf.SourceError):
        plan.release()


def test_a_house_that_grows_within_the_cover_of_places():
    """Noise for Gaussian rows may rest on how many rows a house has, where too many kinds of places are covered."""
    gap = np.arange(1, 71)
    house, first = np.repeat(gap, 2), gap % 3
    source = Refilled(
        house=house,
        hour=np.stack([first, first + gap], axis=1).ravel(),
        day=np.zeros_like(house),
        level=np.ones(len(house)),
    )
    plan = asking(batch(source, LEVEL, pf.GaussianPrior(pf.AR1(0.5)))).plan(pf.Pure(1.0))
    plan.release()
    source.fill(
        house=np.where(house == 67, 68, house)
    )  # four hours of one house, within the others' reach
    with pytest.raises(pf.SourceError, match="other rows"):
        plan.release()


# Where rows stand


CHANGED = {
    "reach": {"hour": [*range(8), *range(8), *range(7), 900]},
    "positions": {"hour": [*range(8), *range(8), *range(1, 9)]},
    "a gap": {"hour": [*range(8), *range(8), *range(7), 8]},
    "clock": {"hour": np.tile(np.arange(8), 3) + 0.5},
    "shift": {"hour": np.tile(np.arange(8), 3) + 24.0},
    "houses": {"house": [1] * 8 + [2] * 7 + [3] * 9, "hour": [*range(8), *range(7), *range(9)]},
}


@pytest.mark.parametrize("change", thinned(CHANGED, 0.27))
@pytest.mark.parametrize(
    "prior", ["chain", "chain, period", "chain, first value", "chains between", "autoregressive"]
)
def test_rows_that_stand_elsewhere(prior, change):
    """Positions, the first and last row, clock and gaps: cost or noise of rows in order rests on each."""
    source = rows(hour=np.tile(np.arange(8.0), 3))
    plan = asking(batch(source, *TIED[prior])).plan(pf.Pure(1.0))
    plan.release()
    source.fill(**CHANGED[change])
    with pytest.raises(pf.SourceError):
        plan.release()


def test_rows_that_are_not_asked_about():
    """A group's other rows, and the last row of a group that nobody asks about, count too."""
    source = rows()
    first = batch(source, ON, pf.MarkovChain(CHAIN)).filter(pl.col("day") == 0)
    source.fill(day=[0] * 16 + [1] * 8)
    plan = asking(first).plan(pf.Pure(1.0))
    source.fill(hour=[*range(8), *range(8), *range(7), 99])
    with pytest.raises(pf.SourceError):
        plan.release()


def test_keys_of_the_rows():
    """Keys that are those of the rows stay as they were planned with; those that are declared need not be there."""
    source = rows()
    plan, declared = (
        asking(found).plan(pf.Pure(1.0))
        for found in (
            batch(source).group_by("day"),
            batch(source).group_by("day", keys=[0, 1, 2]),
        )
    )
    source.fill(day=5)
    with pytest.raises(pf.SourceError):
        plan.release()
    source.fill(day=2)
    with pytest.raises(pf.SourceError):
        plan.release()
    assert declared.release().frame["day"].to_list() == [0, 1, 2]


@pytest.mark.parametrize("prior", ["any correlation", "chain", "classes"])
def test_a_further_house_of_a_known_pattern(prior, tmp_path):
    """A house that looks like others loses no more than they: it is released with them."""
    path = tmp_path / "houses.csv"
    scan = written(path, rows().frame.select("house", "hour", "day", "on"))
    plan = asking(batch(scan, *TIED[prior]).group_by("day")).plan(pf.Pure(1000.0))
    with path.open("a") as file:
        file.writelines(f"4,{hour},0,1\n" for hour in range(8))
    assert round(plan.release().frame["on_sum"][0]) == 32


# While it is read


def while_reading(monkeypatch, change, back=None):
    """Change the source when the private rows are about to be read, and maybe back when they are."""
    true = engine.collect

    def collect(frame, what):
        if what == engine.PUBLIC:
            return true(frame, what)
        change()
        found = true(frame, what)
        if back is not None:
            back()
        return found

    monkeypatch.setattr(engine, "collect", collect)


@pytest.mark.parametrize("settled", [0, snapshot.SETTLED])
def test_a_file_that_changes_while_it_is_read(settled, monkeypatch, tmp_path, account):
    """Rows that change between comparing and reading are not released; the cost that was reserved stays so."""
    path = tmp_path / "houses.csv"
    monkeypatch.setattr(snapshot, "SETTLED", settled)
    scan = written(path, rows().frame.select("house", "hour", "day", "on"))
    plan = asking(batch(scan)).plan(pf.Pure(0.5))
    books = account(plan)
    with monkeypatch.context() as patch:
        while_reading(patch, lambda: path.write_text(path.read_text().replace("\n3,", "\n2,")))
        with pytest.raises(pf.SourceError, match="other rows"):
            plan.release(books, id="today")
    assert [entry.state for entry in books.history()] == ["reserved"]
    assert books.spent().epsilon == pytest.approx(0.5)


def test_a_frame_that_changes_while_it_is_read(monkeypatch):
    """Buffers that are filled anew between comparing and reading are noticed, and by their number if filled back."""
    source = rows(house=np.arange(24))
    plan = asking(batch(source).filter(pl.col("day") == 0)).plan(pf.Pure(1.0))
    with monkeypatch.context() as patch:
        while_reading(patch, lambda: source.fill(house=0))
        with pytest.raises(pf.SourceError, match="other rows"):
            plan.release()
    source.fill(house=np.arange(24))
    while_reading(monkeypatch, lambda: source.fill(day=[0] + [1] * 23), lambda: source.fill(day=0))
    with pytest.raises(pf.SourceError, match="other rows"):
        plan.release()


def test_a_reserved_id_is_completed_by_a_new_plan(monkeypatch, tmp_path, account):
    """After a source that changed while it was read, another plan of what is there completes the same id and cost."""
    path = tmp_path / "houses.csv"
    frame = rows().frame.select("house", "hour", "day", "on")
    plan = asking(batch(written(path, frame))).plan(pf.Pure(0.5))
    books = account(plan)
    with monkeypatch.context() as patch:
        while_reading(
            patch, lambda: path.write_text("house,hour,day,on\n"), lambda: written(path, frame)
        )
        with pytest.raises(pf.SourceError):
            plan.release(books, id="today")
    asking(batch(pl.scan_csv(path))).plan(pf.Pure(0.5)).release(books, id="today")
    assert [entry.state for entry in books.history()] == ["committed"]
    assert books.spent().epsilon == pytest.approx(0.5)


# What is not compared


def counted(monkeypatch):
    """How many queries run from here on."""
    runs, collect = [], pl.LazyFrame.collect

    def counting(self, *args, **options):
        runs.append(1)
        return collect(self, *args, **options)

    monkeypatch.setattr(pl.LazyFrame, "collect", counting)
    return runs


@pytest.mark.parametrize(
    "prior", ["any correlation", "chain", "chain, first value", "a shared table"]
)
def test_what_is_kept_needs_no_source(prior, tmp_path, account, monkeypatch):
    """A release that is kept comes back at once, though its rows are gone; with another plan its id is refused."""
    path = tmp_path / "houses.parquet"
    scan = written(path, rows().frame)
    found = batch(scan, *TIED[prior]).group_by("day")
    plan, other = asking(found).plan(pf.Pure(0.5)), asking(found).plan(pf.Pure(0.25))
    books = account(plan)
    release = plan.release(books, id="today")
    fresh = asking(found).plan(pf.Pure(0.5))
    path.unlink()
    runs = counted(monkeypatch)
    assert plan.release(books, id="today").frame.equals(release.frame)
    assert fresh.release(books, id="today").frame.equals(release.frame)
    assert runs == []
    with pytest.raises(pf.UsageError, match="another plan"):
        other.release(books, id="today")
    with pytest.raises(PufferflowError):
        plan.release(books, id="tomorrow")


def test_files_that_stay_as_they_are_are_read_once(monkeypatch, tmp_path):
    """A bare scan of a file that is certainly the planned one is not compared; once touched, or worked on, it is."""
    path = tmp_path / "houses.parquet"
    monkeypatch.setattr(snapshot, "SETTLED", 0)
    scan = written(path, rows().frame.unique(["house", "hour"], keep="first", maintain_order=True))
    for known, frame in (
        (1, scan),
        (3, scan.filter(pl.col("house") > 0)),
        (3, pl.concat([scan, scan.head(0)])),
    ):
        plan = asking(batch(frame, ON, pf.MarkovChain(CHAIN))).plan(pf.Pure(1.0))
        with monkeypatch.context() as patch:
            runs = counted(patch)
            plan.release()
            assert len(runs) == known
    text = written(tmp_path / "houses.csv", rows().frame)
    plan = asking(batch(text)).plan(pf.Pure(1.0))
    (tmp_path / "houses.csv").touch()
    runs = counted(monkeypatch)
    plan.release()
    assert len(runs) > 1


def test_a_file_written_a_moment_ago_may_be_written_again(tmp_path):
    """Right after a file was written its times do not tell the next version from it; shuffled rows never hold still."""
    scan = written(tmp_path / "houses.csv", rows().frame)
    assert not snapshot.Snapshot.of(scan).holds
    for frame in (
        scan.with_columns(pl.col("day").shuffle()),
        scan.map_batches(lambda own: own),
        rows().frame.lazy(),
    ):
        assert not snapshot.Snapshot.of(frame).complete


def unordered(scan):
    """Some rows of groups that come in another order each time."""
    return scan.group_by("house", "hour").agg(pl.col("on").first(), pl.col("day").first()).head(24)


WORKED_ON = {
    "a series": lambda scan: scan.with_columns(pl.Series("house", [1] * 24)),
    "a literal series": lambda scan: scan.with_columns(pl.lit(pl.Series([1] * 24)).alias("house")),
    "values to replace": lambda scan: scan.with_columns(
        pl.col("house").replace_strict(pl.Series([1]), pl.Series([2]))
    ),
    "a slice of groups": unordered,
    "a slice of a join": lambda scan: scan.join(scan, on="house").head(24),
    "a function": lambda scan: scan.map_batches(lambda own: own),
    "two files": lambda scan: pl.concat([scan, scan]),
}


@pytest.mark.parametrize("what", WORKED_ON)
def test_only_a_bare_scan_is_known_by_its_file(what, tmp_path, monkeypatch):
    """Whatever is done to the rows of a file before they are protected may bring others in, and is compared."""
    monkeypatch.setattr(snapshot, "SETTLED", 0)
    frame = pl.DataFrame({"house": [1] * 24, "hour": range(24), "day": 0, "on": [0, 1] * 12})
    scan = written(tmp_path / "houses.parquet", frame)
    assert snapshot.Snapshot.of(scan).holds
    assert not snapshot.Snapshot.of(WORKED_ON[what](scan)).complete


def test_a_series_beside_a_file_may_be_filled_anew(tmp_path, monkeypatch):
    """Houses that a buffer of NumPy names, and that become one house after the plan, are refused before any charge."""
    monkeypatch.setattr(snapshot, "SETTLED", 0)
    scan = written(tmp_path / "levels.parquet", pl.DataFrame({"x": [0, 1] * 12}))
    houses = np.arange(24)
    scenario = pf.Scenario(pf.Secret("x", domain=[0, 1]), pf.AnyCorrelation(), within="house")
    plan = (
        pf.protect(scan.with_columns(pl.Series("house", houses)), scenario)
        .private_sum("x")
        .plan(pf.Pure(1.0))
    )
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("levels", scenario, limit=pf.Pure(2.0))
        houses[:] = 0
        with pytest.raises(pf.SourceError, match="other rows than when the plan was made"):
            plan.release(account, id="today")
        assert account.spent() == pf.Pure(0.0)


def test_independent_rows_are_not_compared(monkeypatch):
    """Where rows reveal nothing about each other a release reads the private rows once, whatever came meanwhile."""
    source = rows()
    plan = asking(batch(source, ON, pf.Independent()).group_by("day")).plan(pf.Pure(1.0))
    assert not any(plan.mechanism.source.facts)
    source.fill(house=0, day=3)
    runs = counted(monkeypatch)
    assert plan.release().frame["day"].to_list() == [3]
    assert len(runs) == 1


def test_a_file_that_is_laid_out_anew(tmp_path):
    """A frame remembers where the columns of a Parquet file lie: another version is refused, and scanned again goes."""
    path = tmp_path / "houses.parquet"
    frame = rows().frame
    plan = asking(batch(written(path, frame), ON, pf.Independent())).plan(pf.Pure(1.0))
    scan = written(path, pl.concat([frame, frame]))
    with pytest.raises(pf.SourceError, match="scanning the files again"):
        plan.release()
    asking(batch(scan, ON, pf.Independent())).plan(pf.Pure(1.0)).release()


def test_a_folder_with_a_new_file(tmp_path):
    """A frame goes on with the files that it was planned with: a later one is in no answer before a new scan."""
    frame = rows().frame
    for name in "ab":
        written(
            tmp_path / f"{name}.csv", frame.with_columns(house=pl.col("house") + ord(name) * 10)
        )
    scan = pl.scan_csv(tmp_path / "*.csv")
    plan = asking(batch(scan)).plan(pf.Pure(1000.0))
    written(tmp_path / "c.csv", frame.with_columns(house=1))
    assert round(plan.release().frame["on_sum"][0]) == 48


@pytest.mark.parametrize("prior", [pf.Independent(), pf.AnyCorrelation()])
def test_nothing_of_private_rows_is_compared(prior, monkeypatch):
    """Where it is secret who is there, plan and release run the same queries on any rows, and know the same of them."""
    seen = []
    for house in (np.arange(24), np.zeros(24, dtype=np.int64)):
        source = rows(house=house)
        secret = pf.Presence("house", "on", [0, 1], rows=3)
        with monkeypatch.context() as patch:
            runs = counted(patch)
            plan = (
                batch(source, secret, prior)
                .group_by("day", keys=[0])
                .private_sum("on")
                .plan(pf.Pure(1.0))
            )
            public = plan.mechanism.source
            source.fill(house=house + 1, day=house, hour=0)
            plan.release()
            seen.append((len(runs), public, plan.certificate, repr(plan)))
    assert seen[0] == seen[1]
    assert seen[0][0] == 1
    assert not any(seen[0][1].facts)
    assert (seen[0][1].selected, dict(seen[0][1].version.snapshot.versions)) == (None, {})
