"""Perturbed rows are drawn once, charged once, and tell nothing but what their channel lets through."""

import math
import multiprocessing
import pickle
import stat
import types
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import pufferflow as pf
from pufferflow.engines import row_by_row
from pufferflow.engines.remote import RemoteEngine

SCENARIO = pf.Scenario(
    pf.Secret("level", domain=[0, 1, 2], missing=1),
    pf.Independent(),
    order_by="hour",
    within="meter",
    public=["day"],
)
ROWS = pl.DataFrame(
    {
        "meter": [1] * 50 + [2] * 50,
        "hour": [*range(50)] * 2,
        "day": [0, 1] * 50,
        "level": [0, 1, 2, 2] * 25,
    }
)
OPEN = pf.local.randomized_response([0, 1, 2], 20.0)
"""A channel that next to never changes a value, to see which one was read."""


def rows_of(frame=ROWS, scenario=SCENARIO, channel=None, column="level"):
    return pf.protect(frame, scenario).private_local(column, channel)


@pytest.fixture
def account(tmp_path):
    """An account of the scenario with room for ten releases."""
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        yield ledger.open("levels", SCENARIO, limit=pf.Pure(10.0))


def test_the_same_id_is_the_same_draw_charged_once(account, tmp_path):
    """In memory and in a file: an id gives its rows again, for nothing; a new one draws and costs anew."""
    plan = rows_of().plan(pf.Pure(1.0))
    kept = [plan.release(None, account, "kept").frame.collect() for _ in range(2)]
    path = tmp_path / "rows.parquet"
    written = [plan.release(path, account, "written") for _ in range(2)]
    assert kept[0].equals(kept[1])
    assert written[0].frame.collect().equals(written[1].frame.collect())
    assert account.spent().epsilon == pytest.approx(2.0, rel=1e-4)
    assert not kept[0].equals(written[0].frame.collect())
    assert [entry.state for entry in account.history()] == ["committed"] * 2
    assert account.remaining(plan) == 8
    assert list(tmp_path.glob(".*")) == []


def test_collecting_again_draws_nothing_anew():
    """The frame of a release is drawn: whoever collects it often has the same rows each time."""
    frame = rows_of().release(epsilon=1.0).frame
    assert frame.collect().equals(frame.collect())


def test_a_limit_refuses_before_rows_are_read(account, tmp_path):
    """Above the limit nothing is read, drawn or written."""

    def explode(_):
        raise AssertionError

    trap = ROWS.lazy().with_columns(pl.col("level").map_batches(explode, return_dtype=pl.Int64))
    with pytest.raises(pf.LimitReached):
        rows_of(trap).plan(pf.Pure(11.0)).release(tmp_path / "rows.parquet", account, "much")
    assert not (tmp_path / "rows.parquet").exists()
    with pytest.raises(pf.SourceError):
        rows_of(trap).plan(pf.Pure(1.0)).release(tmp_path / "rows.parquet", account, "broken")
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith("ledger")] == []
    assert account.history()[0].state == "reserved"  # it may have told something
    rows_of().plan(pf.Pure(1.0)).release(
        tmp_path / "rows.parquet", account, "broken"
    )  # a retry completes it
    assert account.spent().epsilon == pytest.approx(1.0, rel=1e-4)


def test_what_another_process_committed_first_is_what_appears(account, tmp_path):
    """The loser of a race throws its draw away, so nobody has two draws for one charge."""
    plan, path = rows_of().plan(pf.Pure(1.0)), tmp_path / "rows.parquet"

    class Late:
        """An account before whose commit another process is done."""

        find = account.find

        def reserve(self, decision, release_id):
            reservation = account.reserve(decision, release_id)
            first = plan.release(tmp_path / "first.parquet", account, release_id)
            assert first.path.exists()
            return reservation

    with pytest.raises(pf.UsageError, match="not here"):
        plan.release(path, Late(), "race")
    assert not path.exists()
    assert [one.name for one in tmp_path.iterdir() if one.name.endswith(".part")] == []
    assert plan.release(tmp_path / "first.parquet", account, "race").path.exists()
    assert account.spent().epsilon == pytest.approx(1.0, rel=1e-4)


def test_a_file_that_was_committed_and_not_moved_is_found(account, tmp_path, monkeypatch):
    """If a process stops between committing and moving its file, the same id moves it, and draws nothing."""
    plan, path = rows_of().plan(pf.Pure(1.0)), tmp_path / "rows.parquet"

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("pufferflow.release.local.release.move_file", stop)
    with pytest.raises(KeyboardInterrupt):
        plan.release(path, account, "stopped")
    monkeypatch.undo()
    (beside,) = tmp_path.glob(".*.part")
    drawn = beside.read_bytes()
    release = plan.release(path, account, "stopped")
    assert release.path.read_bytes() == drawn
    assert account.spent().epsilon == pytest.approx(1.0, rel=1e-4)


@pytest.mark.slow
def test_a_lost_file_is_not_drawn_again(account, tmp_path):
    """Rows that are gone stay gone: a second draw would let people average."""
    plan, path = rows_of().plan(pf.Pure(1.0)), tmp_path / "rows.parquet"
    plan.release(path, account, "lost")
    path.unlink()
    with pytest.raises(pf.UsageError, match="not drawn again"):
        plan.release(path, account, "lost")
    laws = {0: 0.5, 1: 0.3, 2: 0.2}, {0: 0.2, 1: 0.3, 2: 0.5}
    erasing = [pf.local.binary_erasure(*pair, 1.0, 0.3) for pair in (laws, laws[::-1])]
    rows_of(channel=erasing[0]).plan(pf.Pure(1.0)).release(None, account, "erased")
    for other in (rows_of().plan(pf.Pure(2.0)), rows_of(channel=erasing[0]).plan(pf.Pure(1.0))):
        with pytest.raises(pf.UsageError, match="another plan"):
            other.release(path, account, "lost")
    with pytest.raises(pf.UsageError, match="another plan"):
        rows_of(channel=erasing[1]).plan(pf.Pure(1.0)).release(None, account, "erased")


def test_the_order_of_rows_tells_nothing(tmp_path):
    """A source sorted by the secret column gives rows in the order of their public columns and published values."""
    shuffled = ROWS.sort("level")
    for release in (
        rows_of(shuffled).release(epsilon=1.0),
        rows_of(shuffled).release(tmp_path / "a", epsilon=1.0),
    ):
        rows = release.frame.collect()
        assert rows.equals(rows.sort("meter", "hour", "day", "level"))
    alike = pf.Scenario(
        pf.Secret("level", domain=[0, 1, 2]), pf.Independent()
    )  # no public column at all
    rows = rows_of(shuffled, alike).release(tmp_path / "b", epsilon=1.0).frame.collect()
    assert rows.columns == ["level"]
    assert rows["level"].is_sorted()
    ties = shuffled.with_columns(meter=pl.lit(1), hour=pl.lit(1), day=pl.lit(None, dtype=pl.Int64))
    rows = rows_of(ties).release(tmp_path / "c", epsilon=1.0).frame.collect()
    assert rows["level"].is_sorted()


@pytest.mark.parametrize(
    "nested", [pl.struct("meter", "hour"), pl.concat_list("meter", "hour")], ids=["struct", "list"]
)
def test_nested_public_columns_are_published(nested, tmp_path):
    """Columns whose values are not compared are sorted, too."""
    scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2]), pf.Independent(), public=["place"])
    frame = ROWS.select("level", place=nested).sort("level")
    rows = rows_of(frame, scenario).release(tmp_path / "rows", epsilon=1.0).frame.collect()
    assert rows.equals(rows.sort("place", "level"))


def test_rows_in_order_are_not_written_twice(tmp_path, monkeypatch):
    """A source in the order of its public columns is streamed to one file; another is sorted afterwards."""
    written = list[str]()
    sink = row_by_row._sink
    monkeypatch.setattr(
        row_by_row, "_sink", lambda *given: (written.append(given[-1]), sink(*given))[1]
    )
    for name, frame in {
        "sorted": ROWS,
        "shuffled": ROWS.sample(fraction=1, shuffle=True, seed=1),
    }.items():
        written.clear()
        release = rows_of(frame.lazy()).plan(pf.Pure(1.0)).release(tmp_path / name)
        assert len(written) == {"sorted": 1, "shuffled": 2}[name]
        assert release.frame.collect().drop("level").equals(ROWS.drop("level"))


def test_classes_and_one_of_several_columns_are_read_as_sums_read_them():
    """Bins publish the value of the class; of a secret of several columns one is published."""
    frame = pl.DataFrame(
        {"hour": range(5), "y": [0.2, 1.5, 7.0, None, 1.0], "z": ["a", None, "b", "c", "a"]}
    )
    classes = pf.Scenario(
        pf.Secret("y", domain=pf.Bins([0, 1, 5], values=[0.5, 3]), missing=3),
        pf.Independent(),
        order_by="hour",
    )
    rows = (
        rows_of(frame, classes, pf.local.randomized_response([0.5, 3], 20.0), "y")
        .release()
        .frame.collect()
    )
    assert rows["y"].to_list() == [0.5, 3, 3, 3, 3]
    secrets = [pf.Secret("y", domain=[0, 1]), pf.Secret("z", domain=["a", "b"], missing="b")]
    both = pf.Scenario(secrets, pf.Independent(), order_by="hour")
    rows = (
        rows_of(frame, both, pf.local.randomized_response(["a", "b"], 20.0), "z")
        .release()
        .frame.collect()
    )
    assert rows["z"].to_list() == ["a", "b", "b", "b", "a"]


VALUES = {
    "null": (None, 1),
    "below": (-7, 0),
    "above": (99, 2),
    "between": (1.4, 1),
    "NaN": (math.nan, 1),
    "infinite": (-math.inf, 0),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_outside_the_domain_are_read_as_declared(name):
    """Null and NaN are `missing`, numbers outside the domain its nearest value; nothing of it is seen in the dtype."""
    given, read = VALUES[name]
    frame = ROWS.with_columns(level=pl.lit(given, dtype=pl.Float64))
    rows = rows_of(frame, channel=OPEN).release().frame.collect()
    assert rows["level"].to_list() == [read] * 100
    assert rows["level"].dtype == pl.Int64


@pytest.mark.parametrize(
    "dtype", [pl.String, pl.Categorical, pl.Enum(["no", "maybe", "yes", "else"])]
)
def test_labels_are_an_enum_of_the_alphabet(dtype, tmp_path):
    """Labels of any type are published as the declared ones alone; unknown ones and null are `missing`."""
    scenario = pf.Scenario(
        pf.Secret("said", domain=["yes", "no", "maybe"], missing="maybe"), pf.Independent()
    )
    frame = pl.DataFrame({"said": pl.Series(["no", "else", None, "yes"], dtype=dtype)})
    open_channel = pf.local.randomized_response(["no", "yes", "maybe"], 20.0)
    release = rows_of(frame, scenario, open_channel, "said").release(tmp_path / "rows.parquet")
    rows = release.frame.collect()
    assert sorted(rows["said"].to_list()) == ["maybe", "maybe", "no", "yes"]
    assert rows["said"].dtype == pl.Enum(["no", "yes", "maybe"])


def test_erased_values_are_null():
    """The output that says nothing is null in the column, of labels as of numbers."""
    laws = {0: 0.5, 1: 0.3, 2: 0.2}, {0: 0.2, 1: 0.3, 2: 0.5}
    channel = pf.local.binary_erasure(*laws, 1.0, 0.05)
    rows = rows_of(channel=channel).release().frame.collect()
    assert rows["level"].null_count() > 50
    assert set(rows["level"].drop_nulls()) <= {0, 1}


def test_a_file_carries_what_it_takes_to_read_it(account, tmp_path):
    """Certificate and channel are in the file; without the ledger, estimates come out the same."""
    release = rows_of().plan(pf.Pure(1.0)).release(tmp_path / "rows.parquet", account, "monday")
    read = pf.local.read(str(tmp_path / "rows.parquet"))
    assert read.certificate == release.certificate
    assert read.certificate.entry is not None
    assert (read.channel, read.column) == (release.channel, "level")
    assert read.means("day").equals(release.means("day"))
    assert account.release("monday").frame["rows"].sum() == 100
    assert stat.S_ISREG((tmp_path / "rows.parquet").stat().st_mode)
    assert "M35" in account.release("monday").page()
    assert "M35" in release.report(tmp_path / "rows.html").read_text(encoding="utf-8")


def test_the_certificate_says_what_carries_the_promise():
    """The page and the text name the bridge, the bound, ε of a row, and how values are read."""
    chain = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    scenario = pf.Scenario(pf.Secret("on", domain=[0, 1]), chain, order_by="hour")
    frame = pl.DataFrame({"hour": range(24), "on": [0, 1] * 12})
    plan = rows_of(frame, scenario, column="on").plan(pf.Pure(1.0))
    certificate = plan.release().certificate
    assert "channel of its own, by what it reveals about the row (M35)" in str(certificate)
    assert "Messages()" in str(certificate)
    assert certificate.ordinary == pf.Pure(plan.channel.epsilon)
    assert "null in 'on' counts as 0" in plan.explain()
    assert pf.Certificate.from_json(certificate.to_json()) == certificate


def test_filters_and_derived_columns_are_for_public_ones():
    """Rows are selected, and columns made, by public columns; both are published beside the perturbed one."""
    batch = (
        pf.protect(ROWS, SCENARIO).filter(pl.col("day") == 1).with_columns(week=pl.col("hour") // 7)
    )
    rows = batch.private_local("level").release(epsilon=1.0).frame.collect()
    assert rows.columns == ["meter", "hour", "day", "week", "level"]
    assert rows["day"].unique().to_list() == [1]
    assert rows.height == 50
    with pytest.raises(pf.UsageError):
        pf.protect(ROWS, SCENARIO).filter(pl.col("level") == 1)


def test_no_rows_are_no_error(tmp_path):
    """An empty selection gives an empty file, and estimates of nothing."""
    batch = pf.protect(ROWS, SCENARIO).filter(day=7).private_local("level")
    release = batch.release(tmp_path / "rows.parquet", epsilon=1.0)
    assert release.frame.collect().height == 0
    assert release.sums()["level_sum"].to_list() == [0.0]
    assert release.means()["level_mean"].to_list() == [None]
    assert release.means("day").height == 0


def test_a_source_that_changes_is_refused(tmp_path):
    """Rows that are others than those that were planned with are not published."""
    chain = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    scenario = pf.Scenario(pf.Secret("on", domain=[0, 1]), chain, order_by="hour")
    source = tmp_path / "source.parquet"
    pl.DataFrame({"hour": range(24), "on": [0, 1] * 12}).write_parquet(source)
    plan = rows_of(pl.scan_parquet(source), scenario, column="on").plan(pf.Pure(1.0))
    pl.DataFrame({"hour": range(240), "on": [0, 1] * 120}).write_parquet(source)
    with pytest.raises(pf.SourceError):
        plan.release(tmp_path / "rows.parquet")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source.parquet"]


def _release_in_child(folder, queue):
    with pf.Ledger(Path(folder) / "ledger.db") as ledger:
        plan = rows_of().plan(pf.Pure(1.0))
        release = plan.release(None, ledger.account("levels"), "same")
        queue.put(release.frame.collect()["level"].to_list())


@pytest.mark.slow
def test_processes_that_release_at_once_publish_one_draw(account, tmp_path):
    """Several processes under one id get the same rows, charged once."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    children = [context.Process(target=_release_in_child, args=(tmp_path, queue)) for _ in range(3)]
    for child in children:
        child.start()
    drawn = [queue.get(timeout=120) for _ in children]
    for child in children:
        child.join()
    assert drawn[0] == drawn[1] == drawn[2]
    assert account.spent().epsilon == pytest.approx(1.0, rel=1e-4)


def refuse(frame=ROWS, secret=None, prior=None, **more):
    scenario = pf.Scenario(
        secret or pf.Secret("level", domain=[0, 1, 2]), prior or pf.Independent(), **more
    )
    return pf.protect(frame, scenario).private_local("level")


class Accounted:
    """What has the method of an account."""

    def reserve(self, decision, release_id): ...


BAD = {
    "a query before it": (
        lambda: pf.protect(ROWS, SCENARIO).private_sum("level").private_local("level"),
        "after",
    ),
    "groups": (
        lambda: pf.protect(ROWS, SCENARIO).group_by("day").private_local("level"),
        "or group_by",
    ),
    "an interval": (lambda: refuse(secret=pf.Secret("level", domain=pf.Interval(0, 9))), "pf.Bins"),
    "presence": (
        lambda: refuse(secret=pf.Presence("meter", "level", [0, 1, 2], rows=50)),
        "would reveal",
    ),
    "very many values": (
        lambda: refuse(secret=pf.Secret("level", domain=list(range(500)))),
        "500 values",
    ),
    "another alphabet": (
        lambda: rows_of(channel=pf.local.randomized_response([0, 1, 3], 1.0)),
        "no input 2",
    ),
    "a larger alphabet": (
        lambda: rows_of(channel=pf.local.randomized_response([0, 1, 2, 3], 1.0)),
        "does not have",
    ),
    "an epsilon for a mechanism": (lambda: rows_of(channel=1.0), "mechanism is 1.0"),
    "a channel that gives away": (
        lambda: rows_of(
            channel=pf.local.Channel.of([0, 1, 2], [0, 1], [[1, 0], [0.5, 0.5], [0, 1]])
        ),
        "would reveal the value",
    ),
    "a text beside its number": (
        lambda: rows_of(
            channel=pf.local.Channel.of([0, 1, 2], [1, "1"], [[0.7, 0.3], [0.5, 0.5], [0.3, 0.7]])
        ),
        "one column",
    ),
    "a channel of another column": (
        lambda: rows_of(channel=pf.local.randomized_response([0, 1, 2], 1.0).reading("day")),
        "reads 'day'",
    ),
    "a public column": (lambda: rows_of(column="day"), "day"),
    "no guarantee": (lambda: rows_of().plan(), "left out"),
    "no such guarantee": (lambda: rows_of().plan(1.0), "1.0"),
    "a custom channel that is too open": (
        lambda: rows_of(
            channel=pf.local.Channel.of([0, 1, 2], [0, 1], [[0.9, 0.1], [0.5, 0.5], [0.1, 0.9]])
        ).release(epsilon=0.5),
        "at most 0.5",
    ),
    "an id without an account": (
        lambda: rows_of().plan(pf.Pure(1.0)).release(id="monday"),
        "without an account",
    ),
    "without an account": (
        lambda: rows_of().plan(pf.Pure(1.0)).release(None, "power"),
        "account is 'power'",
    ),
    "an address": (lambda: rows_of().plan(pf.Pure(1.0)).release("s3://bucket/rows"), "address"),
    "no folder": (
        lambda: rows_of().plan(pf.Pure(1.0)).release("/nowhere/rows.parquet"),
        "no folder",
    ),
    "a taken place": (lambda: rows_of().plan(pf.Pure(1.0)).release(__file__), "There is a file"),
    "another format": (
        lambda: rows_of().plan(pf.Pure(1.0)).release("rows.csv"),
        "written as Parquet",
    ),
    "no file of rows": (lambda: pf.local.read(__file__), "has no rows"),
    "groups that are none": (
        lambda: rows_of().release(epsilon=1.0).means("district"),
        "no public column",
    ),
    "an expression as a group": (
        lambda: rows_of().release(epsilon=1.0).means(pl.col("day")),
        "of type Expr",
    ),
    "a group of frequencies": (
        lambda: rows_of().release(epsilon=1.0).frequencies("daay"),
        "frequencies",
    ),
    "a group twice": (lambda: rows_of().release(epsilon=1.0).means("day", "day"), "twice"),
    "means of labels": (
        lambda: (
            rows_of(
                pl.DataFrame({"a": ["x"]}),
                pf.Scenario(pf.Secret("a", domain=["x", "y"]), pf.Independent()),
                column="a",
            )
            .release(epsilon=1.0)
            .means()
        ),
        "no sum and no mean",
    ),
    "a plan that is pickled": (
        lambda: pickle.dumps(rows_of().plan(pf.Pure(1.0))),
        "cannot be pickled",
    ),
    "an account as a path": (
        lambda: rows_of().plan(epsilon=1.0).release(Accounted()),
        "account=account",
    ),
    "a tiny guarantee": (lambda: rows_of().plan(pf.Pure(1e-12)), "too small"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused(name):
    """Each error says what was given."""
    call, problem = BAD[name]
    with pytest.raises(pf.PufferflowError, match=problem):
        call()


def test_other_engines_are_refused():
    """Rows of a database do not come by here, and its random numbers are no secret bits."""
    rows = rows_of().plan(pf.Pure(1.0)).mechanism.row_by_row
    with pytest.raises(
        pf.Refused, match=r"Rows of duckdb 1\.4 cannot be published.*numbers are not secret"
    ):
        rows.check(RemoteEngine(types.SimpleNamespace(name="duckdb", version="1.4")))


@pytest.mark.slow
def test_a_relation_of_duckdb_is_refused():
    """The refusal comes when the column is named, before anything is planned."""
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.register("rows", ROWS.to_arrow())
    with pytest.raises(pf.Refused, match="numbers are not secret"):
        rows_of(connection.sql("select * from rows"))


def test_estimates_need_what_the_channel_tells():
    """Binary erasure tells how many rows are of either kind, and not which value of a kind they have."""
    laws = {0: 0.5, 1: 0.3, 2: 0.2}, {0: 0.2, 1: 0.3, 2: 0.5}
    release = rows_of(channel=pf.local.binary_erasure(*laws, 1.0, 0.3)).release()
    with pytest.raises(pf.Refused, match="several values in the same way"):
        release.frequencies()


def test_rows_of_two_groups_are_estimated_apart(tmp_path):
    """Estimates by public columns add up to that of all rows."""
    release = rows_of().release(tmp_path / "rows.parquet", epsilon=1.0)
    by_meter = release.frequencies("meter")
    assert by_meter.columns[:2] == ["meter", "level"]
    whole = release.frequencies().sort("level")["frequency"].to_numpy()
    parts = (
        by_meter.group_by("level")
        .agg(pl.col("frequency").sum())
        .sort("level")["frequency"]
        .to_numpy()
    )
    assert np.allclose(whole, parts)
    assert whole.sum() == pytest.approx(100)
