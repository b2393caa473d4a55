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
    with pytest.raises(pf.Misuse) as caught:
        wrong(pf.protect(ROWS, present()))
    assert "Under pf.Presence that means its possible values; who has which one stays hidden" in caught.value.allowed
    assert "if everybody may know which values there can be" in caught.value.instead
    grouped = pf.protect(ROWS, present(public=["sex"])).group_by("sex", keys=["f", "m"]).private_count()
    assert grouped.release(epsilon=1.0).frame.height == 2


def test_public_is_known_row_by_row_elsewhere():
    """Of other secrets a public column is known of every row, and the error says so."""
    known = pf.Scenario(pf.Secret("age", pf.Interval(0, 100)), pf.Independent())
    with pytest.raises(pf.Misuse, match="if everybody may know it, row by row"):
        pf.protect(ROWS, known).group_by("sex")


def test_an_id_is_made_where_each_row_is_a_unit():
    """The error names the call, and the call works."""
    nameless = ROWS.drop("person")
    with pytest.raises(pf.Misuse) as caught:
        pf.protect(nameless, present())
    assert "says whose row each row is" in caught.value.problem
    assert caught.value.instead == 'frame.with_row_index("person") and rows=1, if each row is a unit of its own'
    made = pf.protect(nameless.with_row_index("person"), present()).private_count()
    same = pf.protect(ROWS, present()).private_count()
    assert made.plan(pf.Pure(1.0)).noises == same.plan(pf.Pure(1.0)).noises


def test_a_near_name_comes_first():
    """A column that is called almost so is offered before one is made."""
    with pytest.raises(pf.Misuse) as caught:
        pf.protect(ROWS.rename({"person": "persons"}), present())
    assert caught.value.instead.startswith("'persons' instead of 'person' in the scenario")
    assert 'with_row_index("person")' in caught.value.instead


def test_help_opens_with_what_to_do():
    """The first lines of help(pf) are steps that run, from rows to numbers."""
    import pydoc

    words = pydoc.plain(pydoc.render_doc(pf))
    for step in ("What to do first", "pf.Secret(", "pf.Scenario(", "pf.protect(", "plan(pf.Pure(1.0))", ".release()"):
        assert step in words[:2500]
    assert words.index("What to do first") < 400
