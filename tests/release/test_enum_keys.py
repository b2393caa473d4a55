"""Enum columns.

Their categories may be made of the data, so where it is secret who is there nothing reveals about them.
"""

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import pufferflow as pf

HIDDEN = "zoe-of-the-data"
NAMES = ["ada", "bob", HIDDEN]
ENUM = pl.Enum(NAMES)
SCENARIO = pf.Scenario(
    pf.Presence("person", column="hours", domain=pf.Interval(0, 9), rows=1),
    pf.Independent(),
    public=["who"],
)
KINDS = {
    "enum": (ENUM, NAMES, ["bob", "eve"]),
    "list": (pl.List(ENUM), [[name] for name in NAMES], [["bob"], ["eve", "ada"]]),
    "array": (
        pl.Array(ENUM, 2),
        [[name, "bob"] for name in NAMES],
        [["bob", "bob"], ["eve", "bob"]],
    ),
    "struct": (
        pl.Struct({"name": ENUM}),
        [{"name": name} for name in NAMES],
        [{"name": "bob"}, {"name": "eve"}],
    ),
}


def protected(kind):
    dtype, values, keys = KINDS[kind]
    rows = pl.DataFrame(
        {"person": [1, 2, 3], "who": pl.Series(values, dtype=dtype), "hours": [9.0, 9.0, 9.0]}
    )
    return pf.protect(rows, SCENARIO), keys


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_under_presence_nothing_published_tells_the_categories_of_an_enum(kind, tmp_path):
    """Keys are published as they were declared, in texts: frame, intervals, files, certificate, words and pages."""
    batch, keys = protected(kind)
    plan = batch.group_by("who", keys=keys).private_sum("hours").private_count().plan(epsilon=1e6)
    release = plan.release()
    assert release.frame["who"].to_list() == release.intervals["who"].to_list() == keys
    assert release.frame["count"].round().to_list() == [1, 0]
    release.write_parquet(tmp_path / "parquet")
    if kind == "enum":
        release.write_csv(tmp_path / "csv")
        release.write_ndjson(tmp_path / "ndjson")
        assert_frame_equal(pf.Release.read(tmp_path / "csv").frame, release.frame)
    plan.report(tmp_path / "plan.html")
    release.report(tmp_path / "release.html")
    told = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    told += [
        str(
            (release.frame.schema, release.certificate, plan.summary(), plan.compare(), plan)
        ).encode()
    ]
    told += [plan.explain().encode(), release.certificate.to_json().encode()]
    assert len(told) >= 8
    assert not any(HIDDEN.encode() in text for text in told)


@pytest.mark.parametrize("derived", [False, True])
def test_declared_keys_need_not_be_categories_of_the_data(derived):
    """Whether a key is refused does not tell who is there; a key that nobody has gets noise around 0."""
    batch, _ = protected("enum")
    if derived:
        batch = batch.with_columns(name=pl.col("who").cast(pl.Enum(NAMES), strict=False))
    keys = pl.DataFrame(
        {
            "name" if derived else "who": pl.Series(
                ["eve", "bob"], dtype=pl.Enum(["bob", "eve", "kim"])
            )
        }
    )
    release = batch.group_by(*keys.columns, keys=keys).private_count().release(epsilon=1e6)
    assert release.frame.schema[keys.columns[0]] == pl.String
    assert release.frame["count"].round().to_list() == [0, 1]


def test_filters_on_an_enum_stay_filters_on_an_enum():
    """Only keys become texts: what is asked of the rows is worked out on the column as it is."""
    batch, _ = protected("enum")
    batch = batch.filter(pl.col("who").is_in(["ada", "bob"])).group_by(
        "who", keys=["bob", "ada", HIDDEN]
    )
    assert batch.private_count().release(epsilon=1e6).frame["count"].round().to_list() == [1, 1, 0]


def test_where_keys_are_public_an_enum_stays_one(tmp_path):
    """Its categories are part of a public schema: keys keep their order and type, in files too."""
    scenario = pf.Scenario(
        pf.Secret("hours", domain=pf.Interval(0, 9)), pf.Independent(), public=["who"]
    )
    rows = pl.DataFrame({"who": pl.Series(["bob", "ada"], dtype=ENUM), "hours": [9.0, 1.0]})
    release = pf.protect(rows, scenario).group_by("who").private_sum("hours").release(epsilon=1.0)
    assert release.frame.schema["who"] == ENUM
    assert release.frame["who"].to_list() == ["ada", "bob"]
    release.write_csv(tmp_path / "csv")
    assert pf.Release.read(tmp_path / "csv").frame.schema["who"] == ENUM


@pytest.mark.parametrize(
    "wrong",
    [
        lambda rows: pf.protect(
            rows, pf.Scenario(pf.Secret("who", domain=[0, 1]), pf.Independent())
        ),
        lambda rows: pf.protect(
            rows, pf.Scenario(pf.Presence("who"), pf.Independent(), order_by="who")
        ),
        lambda rows: (
            pf.protect(
                rows, pf.Scenario(pf.Secret("hours", [0, 9]), pf.Independent(), public="who")
            )
            .group_by("who", keys=["eve"])
            .private_sum("hours")
        ),
        lambda rows: pf.protect(
            rows.with_columns(pl.col("who").implode().over("person").alias("who")),
            pf.Scenario(pf.Secret("who", domain=["a", "b"]), pf.Independent()),
        ),
        lambda rows: (
            pf.protect(
                rows, pf.Scenario(pf.Secret("hours", [0, 9]), pf.Independent(), public="who")
            )
            .with_columns(all=pl.struct("who"))
            .group_by("all")
            .private_sum("hours")
            .release(epsilon=1.0)
            .write_csv("nowhere")
        ),
    ],
)
def test_no_error_lists_the_categories_of_an_enum(wrong):
    """A type is called by its name."""
    rows = pl.DataFrame(
        {"person": [1, 2, 3], "who": pl.Series(NAMES, dtype=ENUM), "hours": [9, 9, 0]}
    )
    with pytest.raises(pf.PufferflowError) as refused:
        wrong(rows)
    assert HIDDEN not in str(refused.value)
    assert "Enum" in str(refused.value) or "keys" in str(refused.value).lower()


@pytest.mark.parametrize(
    "refused",
    [
        pl.col("who") > "bob",
        pl.lit("bob") <= pl.col("who"),
        pl.col("who").is_between(pl.lit("ada"), pl.lit("bob")),
    ],
)
def test_an_order_of_labels_has_a_way_out(refused):
    """What is tried instead is not what was refused, and works."""
    batch, _ = protected("enum")
    with pytest.raises(pf.UsageError, match=r"pl.col\('who'\).is_in\(\[…\]\)") as error:
        batch.filter(refused)
    assert HIDDEN not in str(error.value)
    as_text = pl.col("who").cast(pl.String, strict=False)
    assert batch.filter(as_text > "bob").filter(pl.col("who").is_in(["bob", "ada"])) is not None
