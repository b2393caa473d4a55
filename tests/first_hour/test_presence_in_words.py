"""Under pf.Presence an error says what public= means there, and how an id is made where each row is a unit."""

import polars as pl
import pytest

import pufferflow as pf

ROWS = pl.DataFrame({"person": [1, 2, 3], "age": [20, 30, 40], "sex": ["f", "m", "f"]})
AGE = {"column": "age", "domain": pf.Interval(0, 100), "rows": 1}


def present(within="person", **options):
    return pf.Scenario(pf.Presence(within, **AGE), pf.Independent(), **options)


@pytest.mark.parametrize("wrong", [lambda b: b.group_by("sex"), lambda b: b.filter(sex="f")])
def test_public_is_explained_where_rows_are_hidden(wrong):
    """It is about which values there can be, not about whose row has which."""
    with pytest.raises(pf.UsageError) as caught:
        wrong(pf.protect(ROWS, present()))
    assert (
        "Under pf.Presence that means its possible values; those of each unit stay hidden"
        in caught.value.allowed
    )
    assert "if everybody may know which values there can be" in caught.value.instead
    grouped = (
        pf.protect(ROWS, present(public=["sex"])).group_by("sex", keys=["f", "m"]).private_count()
    )
    assert grouped.release(epsilon=1.0).frame.height == 2


def test_public_is_known_row_by_row_elsewhere():
    """Of other secrets a public column is known of every row, and the error says so."""
    known = pf.Scenario(pf.Secret("age", pf.Interval(0, 100)), pf.Independent())
    with pytest.raises(pf.UsageError, match="if everybody may know it, row by row"):
        pf.protect(ROWS, known).group_by("sex")


def test_an_id_is_made_where_each_row_is_a_unit():
    """The error of a frame without ids names the call, and the call works."""
    nameless = ROWS.drop("person")
    with pytest.raises(pf.UsageError) as caught:
        pf.protect(nameless, present())
    assert "says whose row each row is" in caught.value.problem
    assert caught.value.instead.startswith(
        "pf.Presence.of_rows(…), if each row is a unit of its own"
    )
    made = (
        pf.protect(nameless, OF_ROWS)
        .group_by("sex", keys=["f", "m"])
        .private_sum("age")
        .private_count()
    )
    assert made.release(epsilon=1.0).frame.columns == ["sex", "age_sum", "count"]


OF_ROWS = pf.Scenario(
    pf.Presence.of_rows("age", pf.Interval(0, 100)), pf.Independent(), public=["sex"]
)
ASKED = {
    "a count": lambda b: b.private_count(),
    "sums by groups": lambda b: (
        b.group_by("sex", keys=["f", "m", "x"]).private_sum("age").private_count()
    ),
    "a mean": lambda b: b.filter(sex="f").private_mean("age"),
    "a histogram": lambda b: b.private_histogram("age", bins=[0, 25, 50, 100]),
    "a weighted sum": lambda b: b.with_columns(w=pl.lit(1.0)).private_sum("age"),
    "keys from data": lambda b: b.group_by("sex", keys="discover").private_count(),
}


@pytest.mark.parametrize("name", ASKED)
def test_rows_as_units_have_the_noise_of_ids_that_are_there(name):
    """The same noise, sensitivity and cost as with a column that numbers the rows and a limit of one row."""
    promise = pf.Approx(1.0, 1e-3) if name == "keys from data" else pf.Pure(1.0)
    of_rows = ASKED[name](pf.protect(ROWS.drop("person"), OF_ROWS)).plan(promise)
    by_ids = ASKED[name](pf.protect(ROWS, present(public=["sex"]))).plan(promise)
    assert of_rows.noises == by_ids.noises
    assert of_rows.calibration.loss == by_ids.calibration.loss
    assert of_rows.certificate.sensitivity == by_ids.certificate.sensitivity
    assert of_rows.cost.shape.stored_noise == by_ids.cost.shape.stored_noise


def test_answers_of_rows_as_units_read_every_row():
    """No row is left out, whatever the kind of frame."""
    pd = pytest.importorskip("pandas")
    many = pl.DataFrame({"age": [50] * 1000, "sex": ["f"] * 1000})
    for frame in (many, many.lazy(), pd.DataFrame(many.to_dict(as_series=False)), many.to_arrow()):
        count = pf.protect(frame, OF_ROWS).private_count().release(epsilon=100.0).frame.item()
        assert abs(count - 1000) < 1


def test_numbers_of_rows_are_no_column_to_ask_about():
    """They would change if a row before were not there: nothing filters, groups or computes by them."""
    batch = pf.protect(ROWS.drop("person"), OF_ROWS)
    assert batch.request.public == ("sex",)
    number = pl.col("(each row)")
    for wrong in (
        lambda: batch.filter(number > 1),
        lambda: batch.group_by("(each row)", keys=[1]),
        lambda: batch.with_columns(x=number + 1),
        lambda: batch.private_sum(pl.col("age") * number),
    ):
        with pytest.raises(pf.PufferflowError):
            wrong()
    assert batch.group_by(pl.selectors.all(), keys=["f"]).request.by == ("sex",)


def test_rows_as_units_are_charged_and_stored(tmp_path):
    """Releases add up on an account, scenarios are stored, and words name no made-up column."""
    assert pf.Scenario.from_json(OF_ROWS.to_json()) == OF_ROWS
    plan = pf.protect(ROWS.drop("person"), OF_ROWS).private_count().plan(pf.Pure(0.5))
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("people", OF_ROWS, limit=pf.Pure(1.0))
        releases = [plan.release(account, f"{number}") for number in range(2)]
        assert round(account.spent().epsilon, 6) == 1.0
        with pytest.raises(pf.LimitReached):
            plan.release(account, "3")
        words = [
            plan.explain(),
            str(releases[0].certificate),
            account.explain(),
            OF_ROWS.describe(),
            plan.evidence().sentence,
        ]
    assert not [text for text in words if "(each row)" in text]


def test_a_frame_that_has_such_a_column_is_refused():
    """It would be taken for the numbers that are made."""
    with pytest.raises(pf.UsageError, match="would be made"):
        pf.protect(ROWS.rename({"person": "(each row)"}), OF_ROWS)


def test_a_near_name_comes_first():
    """A column that is called almost so is offered before one is made."""
    with pytest.raises(pf.UsageError) as caught:
        pf.protect(ROWS.rename({"person": "persons"}), present())
    assert caught.value.instead.startswith("'persons' instead of 'person' in the scenario")
    assert "pf.Presence.of_rows" in caught.value.instead


@pytest.mark.slow
def test_help_opens_with_what_to_do():
    """The first lines of help(pf) are steps that run, from rows to numbers."""
    import pydoc

    words = pydoc.plain(pydoc.render_doc(pf))
    for step in (
        "What to do first",
        "pf.Secret(",
        "pf.Scenario(",
        "pf.protect(",
        "plan(pf.Pure(1.0))",
        ".release()",
    ):
        assert step in words[:2500]
    assert words.index("What to do first") < 400
