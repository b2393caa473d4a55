"""What Polars, job files and common sense allow in the arguments of a batch is done, and means the same."""

import copy
import inspect
import pickle

import polars as pl
import polars.selectors as cs
import pytest

import pufferflow as pf
from pufferflow.calibration.bound_names import BOUNDS
from pufferflow.jobs.file import JobFile, Noises
from pufferflow.noise.names import NOISES

ROWS = pl.DataFrame(
    {
        "meter": [1, 1, 2, 2],
        "hour": [0, 30, 0, 30],
        "region": ["north", "north", "south", "south"],
        "district": ["a", "b", "a", "b"],
        "level": [0, 3, 2, 1],
        "kwh": [0.5, 1.0, 2.0, 3.0],
    }
)


def batch(secret=None, prior=None):
    secret = secret or pf.Secret("level", domain=[0, 1, 2, 3])
    options = {"order_by": "hour", "within": "meter", "public": ["region", "district"]}
    return pf.protect(ROWS, pf.Scenario(secret, prior or pf.Independent(), **options))


SAME = {
    "a list of groups": (
        lambda b: b.group_by(["region", "district"]),
        lambda b: b.group_by("region", "district"),
    ),
    "a tuple of groups": (
        lambda b: b.group_by(("region", "district")),
        lambda b: b.group_by("region", "district"),
    ),
    "groups as expressions": (
        lambda b: b.group_by(pl.col("region"), pl.col("district")),
        lambda b: b.group_by("region", "district"),
    ),
    "groups in one expression": (
        lambda b: b.group_by(pl.col("region", "district")),
        lambda b: b.group_by("region", "district"),
    ),
    "groups by a selector": (
        lambda b: b.group_by(cs.by_name("region")),
        lambda b: b.group_by("region"),
    ),
    "groups by type, of public columns": (
        lambda b: b.group_by(cs.string()),
        lambda b: b.group_by("region", "district"),
    ),
    "a named group": (
        lambda b: b.group_by(day=pl.col("hour") // 24),
        lambda b: b.with_columns(day=pl.col("hour") // 24).group_by("day"),
    ),
    "a named group beside another": (
        lambda b: b.group_by("region", day=pl.col("hour") // 24),
        lambda b: b.with_columns(day=pl.col("hour") // 24).group_by("region", "day"),
    ),
    "a constraint": (
        lambda b: b.filter(region="north"),
        lambda b: b.filter(pl.col("region") == "north"),
    ),
    "two constraints and a predicate": (
        lambda b: b.filter(pl.col("hour") > 0, region="north", meter=1),
        lambda b: b.filter(pl.col("hour") > 0, pl.col("region") == "north", pl.col("meter") == 1),
    ),
    "a list of predicates": (
        lambda b: b.filter([pl.col("hour") > 0, pl.col("meter") == 1]),
        lambda b: b.filter(pl.col("hour") > 0, pl.col("meter") == 1),
    ),
    "a list of columns": (
        lambda b: b.with_columns([(pl.col("hour") // 24).alias("day")]),
        lambda b: b.with_columns((pl.col("hour") // 24).alias("day")),
    ),
    "a median": (
        lambda b: b.private_median("level"),
        lambda b: b.private_quantile("level", 0.5, name="level_median"),
    ),
    "a histogram of an expression that is a column": (
        lambda b: b.private_histogram(pl.col("level")),
        lambda b: b.private_histogram("level"),
    ),
    "a quantile of an expression that is a column": (
        lambda b: b.private_quantile(pl.col("level"), 0.5),
        lambda b: b.private_quantile("level", 0.5),
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_two_ways_to_say_the_same(name):
    """What is typed as in Polars asks the same questions as what is typed at length."""
    first, second = (one(batch()).request for one in SAME[name])
    assert first.digest == second.digest


def test_a_named_group_names_the_key():
    """A named expression is a key column of this name, with the keys that are listed."""
    found = batch().group_by(
        "region", day=pl.col("hour") // 24, keys=[("north", 0), ("north", 1), ("west", 1)]
    )
    frame = found.private_sum("level").release(epsilon=1.0).frame
    assert frame.columns == ["region", "day", "level_sum"]
    assert frame.select("region", "day").rows() == [("north", 0), ("north", 1), ("west", 1)]


def test_a_median_of_an_interval_takes_bins():
    """The median of an interval is a point in a class of its bins, under the name it is given."""
    found = batch(pf.Secret("kwh", domain=pf.Interval(0, 4))).private_median(
        "kwh", "middle", bins=[1, 2, 3]
    )
    assert found.request.outputs == ("middle",)
    assert 0 <= found.release(epsilon=50.0).frame.item() <= 4


def test_selectors_name_public_columns_alone():
    """A selector that would take the secret, or a column that nobody declared, does not take it, or is refused."""
    assert batch().group_by(cs.all()).request.by == ("meter", "hour", "region", "district")
    for selected in (cs.by_name("level"), cs.by_name("kwh"), pl.col("region", "level")):
        with pytest.raises(pf.UsageError):
            batch().group_by(selected)


@pytest.mark.slow
@pytest.mark.parametrize("name", NOISES)
def test_names_of_noises(name):
    """A noise has the same name in Python as in a job file, and means the family of that name."""
    asked, promise = batch().private_sum("level"), pf.Approx(1.0, 1e-3)
    assert asked.plan(promise, noise=name).noises == asked.plan(promise, noise=NOISES[name]).noises
    assert asked.plan(promise, noise=name.upper()).noises == asked.plan(promise, noise=name).noises


def test_one_table_of_names_of_noises():
    """Job files take "auto" and exactly the names of the table that plans read."""
    assert set(Noises.__args__) == {"auto", *NOISES}
    assert JobFile.__struct_fields__.index("noise") >= 0


CHAIN = pf.MarkovChain(
    [[0.7, 0.1, 0.1, 0.1], [0.1, 0.7, 0.1, 0.1], [0.1, 0.1, 0.7, 0.1], [0.1, 0.1, 0.1, 0.7]]
)


@pytest.mark.slow
@pytest.mark.parametrize("name", BOUNDS)
def test_names_of_bounds(name):
    """The name of a bound means the bound; what it cannot prove is refused alike."""
    asked, guarantee = batch(prior=CHAIN).private_sum("level"), pf.Approx(1.0, 1e-3)
    meant = BOUNDS[name].named(guarantee, pf.Laplace(1.0))

    def planned(bound):
        try:
            return asked.plan(guarantee, bound=bound, noise="laplace").noises
        except pf.Refused as refusal:
            return str(refusal)

    assert planned(name) == planned(meant)
    assert planned(["group", name]) == planned([pf.Group(), meant])


def test_every_bound_has_a_name():
    """The table of names lacks no bound that `pf` offers."""
    kinds = [getattr(pf, name) for name in pf.__all__]
    bounds = [
        kind
        for kind in kinds
        if isinstance(kind, type) and issubclass(kind, pf.Bound) and kind is not pf.Bound
    ]
    assert set(bounds) == set(BOUNDS.values())
    assert all(bound.__name__.lower() == name for name, bound in BOUNDS.items())


def test_release_takes_what_a_plan_and_its_release_take():
    """Noise that rests on an estimate is refused in one go too, and what the refusal says to type is taken."""
    asked = batch().private_sum("level")
    assert asked.release(epsilon=1.0, noise="laplace", estimates=True).frame.width == 1
    assert "estimates" in inspect.signature(asked.release).parameters


def test_answers_are_not_called_like_other_columns():
    """private_sum("level", "kwh") does not publish a sum of level as kwh; the name of the column itself is allowed."""
    with pytest.raises(pf.UsageError, match="'region'"):
        batch().private_sum("level", "region")
    assert batch().private_sum("level", "level").request.outputs == ("level",)


@pytest.mark.slow
def test_batches_plans_and_releases_stay_values():
    """They are true, copied and pickled as before, though they answer names and lengths that they do not have."""
    asked = batch().private_sum("level")
    plan = asked.plan(pf.Pure(1.0))
    release = plan.release()
    for value in (asked, plan, release):
        assert value
        assert type(copy.copy(value)) is type(value)
        assert not hasattr(value, "collect")
        assert getattr(value, "__length_hint__", None) is None
        for probe in (
            "_repr_svg_",
            "_ipython_display_",
            "_ipython_canary_method_should_not_exist_",
            "__wrapped__",
        ):
            assert not hasattr(value, probe)
        with pytest.raises(TypeError):
            len(value)
        with pytest.raises(TypeError):
            list(value)
    assert pickle.loads(pickle.dumps(release)).frame.equals(release.frame)
    assert pickle.loads(pickle.dumps(asked)).request.digest == asked.request.digest


def test_signatures_and_examples_stay():
    """Editors see every argument, and doctest finds the examples of methods that are answered for."""
    arguments = ["self", "column", "name", "bounds", "otherwise"]
    assert list(inspect.signature(pf.Batch.private_sum).parameters) == arguments
    assert list(inspect.signature(pf.protect).parameters) == ["frame", "scenario"]
    assert "within" in inspect.signature(pf.Scenario).parameters
    assert pf.Batch.private_sum.__globals__ is inspect.unwrap(pf.Batch.private_sum).__globals__


def test_a_property_that_fails_shows_its_own_error():
    """An attribute that is there and fails is not told to be missing."""
    plan = batch().private_sum("level").plan(pf.Pure(1.0))
    object.__setattr__(plan.mechanism, "noise", None)
    with pytest.raises(AttributeError, match="NoneType"):
        _ = plan.noises


@pytest.mark.parametrize("lazy", [False, True])
def test_the_namespace_protects_all_rows(lazy):
    """`frame.puffer.protect` is `pf.protect`: rows with a null count too, so that no public number depends on nulls."""
    rows = pl.DataFrame({"hour": [0, 1, 2, 3], "on": [0, None, 1, 1]})
    rows = rows.lazy() if lazy else rows
    scenario = pf.Scenario(
        pf.Secret("on", domain=[0, 1], missing=0), pf.Independent(), order_by="hour"
    )
    plans = [
        one.private_mean("on").plan(pf.Pure(1.0))
        for one in (rows.puffer.protect(scenario), pf.protect(rows, scenario))
    ]
    assert plans[0].noises == plans[1].noises
    assert plans[0].summary().equals(plans[1].summary())


def test_a_release_in_one_go_trusts_no_estimate_by_itself(monkeypatch):
    """Whether noise may rest on an estimate is handed on as it was given, and is no if it was left out."""
    handed = []
    monkeypatch.setattr(
        pf.Plan, "release", lambda *_, **options: handed.append(options["estimates"])
    )
    asked = batch().private_sum("level")
    asked.release(epsilon=1.0)
    asked.release(epsilon=1.0, estimates=True)
    assert handed == [False, True]
