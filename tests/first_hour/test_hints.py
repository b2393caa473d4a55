"""Hints have the right names, in the columns of whoever asks, and can be typed as they stand."""

from datetime import datetime

import polars as pl
import pytest
from remedies import run, typed
from thinned import thinned

import pufferflow as pf
from pufferflow.core import suggestions as habits

ROWS = pl.DataFrame(
    {
        "home": [1, 1, 2, 2],
        "read": [datetime(2026, 1, day) for day in (1, 2, 1, 2)],  # noqa: DTZ001 - local time
        "kwh": [1.0, 2.0, 3.0, 0.5],
        "area": ["n", "n", "s", "s"],
        "floor": [1, 2, 1, 2],
    }
)
PLACES = {"within": "home", "order_by": "read", "step": "1d", "public": ["area", "floor"]}
SCENARIO = pf.Scenario(pf.Secret("kwh", pf.Interval(0, 5)), pf.Independent(), **PLACES)
EXAMPLES = ('"level"', '"day"', '"at"', '"meter"', '"district"', '"level_sum"')
WAYS = {
    way: name
    for name, way in reversed(habits.ATTRIBUTES["Batch"].items())
    if "covariance" not in way
}


@pytest.fixture
def batch():
    return pf.protect(ROWS, SCENARIO)


def hint(value, name):
    """Return what an error says to try."""
    with pytest.raises(pf.UsageError) as caught:
        _ = value["x"] if name == "[…]" else len(value) if name == "len()" else getattr(value, name)
    return caught.value.instead


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("private_len", 'private_count(pl.col("kwh") >= 2.5)'),
        ("len", 'private_count(pl.col("kwh") >= 2.5)'),
        ("private_corr", 'private_covariance("hours", "wage"), with two columns'),
        ("cov", 'private_covariance("hours", "wage"), with two columns'),
        ("top_k", 'private_histogram("kwh", bins=[0, 1.25, 2.5, 3.75, 5]), and the largest'),
        ("private_topk", 'private_histogram("kwh", bins=[0, 1.25, 2.5, 3.75, 5]), and the largest'),
        ("argmax", 'private_histogram("kwh", bins='),
        ("count_distinct", 'private_histogram("kwh", bins='),
        ("private_proportion", 'private_mean(pl.col("kwh") >= 2.5)'),
        ("dp_median", 'private_median("kwh", bins=[0, 1.25, 2.5, 3.75, 5])'),
        ("laplace_sum", 'private_sum("kwh")'),
        ("private_sums", 'private_sum("kwh")'),
        ("quantile", 'private_quantile("kwh", 0.9, bins='),
        ("clip", 'private_sum(pl.col("kwh").clip(0, 2.5))'),
        ("where", '.filter(pl.col("area") == "north")'),
        ("aggregate", '.group_by("area").agg(pl.col("kwh").puffer.sum())'),
        ("group_by_dynamic", '.group_by(date=pl.col("read").dt.truncate("1d"))'),
    ],
)
def test_habits_have_the_right_names(batch, name, way):
    """Names of Polars and of other libraries lead to the query that is meant, of the batch's own columns."""
    assert hint(batch, name).startswith(way)


@pytest.mark.parametrize("way", thinned(WAYS, 0.66))
def test_every_hint_can_be_typed_with_the_columns_of_the_batch(batch, way, tmp_path, monkeypatch):
    """No example's name is left, and what is said to be typed runs."""
    monkeypatch.chdir(tmp_path)
    told = hint(batch, WAYS[way])
    code = typed(told)
    assert not [name for name in EXAMPLES if name in code], told
    if "join" in code or 'rename({"old"' in code or "to_pandas" in code or "pivot" in code:
        return  # they speak of other frames
    known = {"batch": batch, "pf": pf, "pl": pl, "frame": ROWS, "scenario": SCENARIO}
    if code.startswith((".release", ".plan")):
        known["batch"] = batch.private_sum("kwh")
    if not code.startswith(("pf.", "batch.")):
        code = f"batch.{code.removeprefix('.')}"
    assert run(code, known) is not None


def test_numbers_of_rows_that_are_private_have_a_count_of_their_own():
    """Under pf.Presence the length of a table is private_count()."""
    present = pf.Scenario(pf.Presence("home", "kwh", pf.Interval(0, 5), rows=2), pf.Independent())
    told = hint(pf.protect(ROWS, present), "private_len")
    assert told == 'private_count(), or private_count(pl.col("kwh") >= 2.5)'


def test_two_sensitive_columns_are_named_in_a_covariance():
    """Where the secret lists two columns, they are those of the hint."""
    secret = [pf.Secret("kwh", [0, 1, 2, 3]), pf.Secret("floor", [1, 2])]
    both = pf.protect(ROWS, pf.Scenario(secret, pf.Independent()))
    told = hint(both, "private_corr")
    assert run(f"batch.{typed(told)}", {"batch": both}).request.outputs == ("kwh_floor_covariance",)


@pytest.mark.parametrize(
    ("wrong", "part"),
    [
        (lambda b: b.private_sum(), 'private_sum("kwh")'),
        (lambda b: b.plan(pf.Pure(1.0)), '.private_sum("kwh")'),
        (lambda b: b.group_by("area").group_by("floor"), '.group_by("area", "floor")'),
        (lambda b: b.private_mean("kwh", bounds=(0, 3)), 'private_sum(pl.col("kwh").clip(0, 5))'),
        (lambda b: b.private_sum("kwh", where=1), '.filter(pl.col("area") == "north")'),
        (lambda b: b.private_sum("kwh").plan(pf.Pure(1.0))["x"], 'frame["kwh_sum"]'),
        (
            lambda b: b.group_by("area").private_sum("kwh").release(epsilon=1.0).pivot,
            'pivot("area", values="kwh_sum")',
        ),
    ],
)
def test_errors_of_methods_name_the_own_columns_too(batch, wrong, part):
    """Whatever a method of a batch, a plan or a release refuses."""
    with pytest.raises(pf.UsageError) as caught:
        wrong(batch)
    assert part in str(caught.value)


def test_columns_that_are_called_as_in_examples_stay():
    """Somebody's "day" is somebody's own."""
    frame = ROWS.rename({"area": "day", "kwh": "level"})
    own = pf.Scenario(
        pf.Secret("level", pf.Interval(0, 5)), pf.Independent(), public=["day", "floor"]
    )
    assert (
        hint(pf.protect(frame, own), "aggregate")
        == '.group_by("day").agg(pl.col("level").puffer.sum())'
    )


def test_a_problem_is_never_reworded(batch):
    """What was typed is quoted as it was typed."""
    with pytest.raises(pf.UsageError) as caught:
        batch.private_sum("level")
    assert "'level'" in caught.value.problem


def refusal_of(call):
    with pytest.raises((pf.UsageError, AttributeError)) as refused:
        call()
    return refused.value.instead


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("PureDPBudget", "pf.Pure"),
        ("KeySet", "keys="),
        ("unit_of", "pf.Presence"),
        ("dp", "pf.protect"),
    ],
)
def test_names_of_other_libraries_lead_to_ours(name, instead):
    assert instead in refusal_of(lambda: getattr(pf, name))


def test_habits_get_the_line_to_type():
    """Times as text, a word of pandas for missing values, an account in the place of a guarantee, a plain accuracy."""
    rows = pl.DataFrame({"time": ["2024-01-01T00:00"], "on": [1]})
    chain = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    scenario = pf.Scenario(pf.Secret("on", [0, 1]), chain, order_by="time", step="1h")
    assert "str.to_datetime()" in refusal_of(lambda: pf.protect(rows, scenario))
    words = refusal_of(lambda: pf.Secret("kw", pf.Interval(0, 9.2), missing="drop"))
    assert words == 'missing="skip"'
    batch = pf.protect(rows, pf.Scenario(pf.Secret("on", [0, 1]), pf.Independent())).private_sum(
        "on"
    )
    assert refusal_of(lambda: batch.plan(accuracy=0.1)) == "pf.Within(0.1)"
    interval = pf.Scenario(pf.Secret("kw", pf.Interval(0, 9.2)), pf.Independent())
    kilowatts = pf.protect(pl.DataFrame({"kw": [1.0]}), interval)
    assert refusal_of(lambda: kilowatts.private_histogram("kw")) == "bins=[0, 2.3, 4.6, 6.9, 9.2]"


def test_an_account_in_the_place_of_a_guarantee(tmp_path):
    scenario = pf.Scenario(pf.Secret("on", [0, 1]), pf.Independent())
    account = pf.Ledger(tmp_path / "a.db").open("a", scenario, limit=pf.Pure(3.0))
    batch = pf.protect(pl.DataFrame({"on": [0, 1]}), scenario).private_sum("on")
    assert "account=account" in refusal_of(lambda: batch.release(account, epsilon=0.2))
