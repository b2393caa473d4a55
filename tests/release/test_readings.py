"""What values are read as is said for every query, from schema and domain alone, and what was assumed is a note."""

import json
import math

import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf

INTERVAL = pf.Interval(0, 10)
BINS = pf.Bins([0, 1, 5], values=[0.5, 3])
OPEN = pf.Bins([1, 5], values=[0, 3, 10])


def plan(domain, dtype=pl.Float64, ask=lambda batch: batch.private_sum("x"), **options):
    """A plan of one column of a dtype, none of whose rows anybody has seen."""
    scenario = pf.Scenario(
        pf.Secret("x", domain=domain, **options), pf.Independent(), public=["key"]
    )
    frame = pl.LazyFrame(schema={"key": pl.Int64, "x": dtype})
    return ask(pf.protect(frame, scenario)).plan(pf.Pure(1.0))


def reading(domain, dtype=pl.Float64, **options):
    """What is said of a sum, or of a count of labels."""
    counted = isinstance(domain, list) and isinstance(domain[0], str)
    ask = (
        (lambda batch: batch.private_histogram("x", "x_sum"))
        if counted
        else (lambda batch: batch.private_sum("x"))
    )
    (line,) = plan(domain, dtype, ask, **options).value_handling()
    name, _, words = line.partition(": ")
    assert name == "x_sum"
    return words


ENDS = "numbers below 0 as 0, numbers above 10 as 10"
WHOLE = "numbers below 0 as 0, numbers above 3 as 3"
NEAREST = "other numbers as the nearest of 0, 1, 2, 3, the lower of two as near"
CLASSES = "classes count as one value each: 0 to 1 as 0.5, 1 to 5 as 3, numbers beyond as the class next to them"
OPEN_CLASSES = "classes count as one value each: below 1 as 0, 1 to 5 as 3, 5 and more as 10"
OFF = "it may be off by up to {} for each row, without limit for values"
READ = {
    "floats on an interval": ((INTERVAL, pl.Float64), f"null and NaN in 'x' count as 0; {ENDS}"),
    "whole numbers have no NaN": ((INTERVAL, pl.Int64), f"null in 'x' counts as 0; {ENDS}"),
    "unsigned ones are not below 0": ((INTERVAL, pl.UInt8), "null in 'x' counts as 0; numbers above 10 as 10"),
    "bytes on all bytes": ((pf.Interval(0, 255), pl.UInt8), "null in 'x' counts as 0"),
    "decimals have no NaN": ((INTERVAL, pl.Decimal(9, 2)), f"null in 'x' counts as 0; {ENDS}"),
    "whole numbers in a list": (([0, 1, 2, 3], pl.Int16), f"null in 'x' counts as 0; {WHOLE}"),
    "floats near a list": (
        ([0, 1, 2, 3], pl.Float32),
        f"null and NaN in 'x' count as 0; {NEAREST}; {OFF.format(0.5)} below 0 and above 3",
    ),
    "true and false": (([0, 1], pl.Boolean), "null in 'x' counts as 0"),
    "labels": ((["ill", "well"], pl.String), "null and unknown labels in 'x' count as 'ill'"),
    "labels of an Enum": ((["ill", "well"], pl.Enum(["well", "ill"])), "null in 'x' counts as 'ill'"),
    "labels an Enum has more of": (
        (["ill", "well"], pl.Enum(["well", "ill", "?"])),
        "null and unknown labels in 'x' count as 'ill'",
    ),
    "classes": (
        (BINS, pl.Float64),
        f"null and NaN in 'x' count as 0.5; {CLASSES}; {OFF.format(2)} below 0 and from 5 on",
    ),
    "open classes": (
        (OPEN, pl.Float64),
        f"null and NaN in 'x' count as 0; {OPEN_CLASSES}; {OFF.format(2)} below 1 and from 5 on",
    ),
    "many digits": ((pf.Interval(0, 1234567), pl.UInt64), "null in 'x' counts as 0; numbers above 1234567 as 1234567"),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_what_can_happen_is_said(name):
    """Null always, NaN of floats, labels that may be unknown, numbers that a dtype can have and a domain has not."""
    given, expected = READ[name]
    assert reading(*given) == expected


def test_each_query_has_a_line():
    """One for each, in their order; for people those of one column stand together."""
    x = pl.col("x")
    asked = plan(
        BINS,
        ask=lambda batch: (
            batch.private_sum("x")
            .private_mean(x * 2)
            .private_quantile("x", 0.5)
            .private_variance("x")
            .private_count(x > 1)
            .private_histogram("x")
            .private_sum(x.clip(1, 2), name="other")
        ),
    )
    lines = asked.value_handling()
    assert [line.partition(":")[0] for line in lines] == [
        query.name for query in asked.request.queries
    ]
    off = [
        line.partition("beyond as the class next to them")[2].partition(", without")[0]
        for line in lines
    ]
    every = "; every value behind it may be off by up to 2"
    assert off[:4] == [
        "; it may be off by up to 2 for each row",
        "; it may be off by up to 4",
        "; it may be off by up to 2",
        every,
    ]
    assert off[4:6] == ["", ""]
    assert off[6].endswith("for each row")  # a function with two values is a line
    (together,) = asked.certificate.readings
    assert together.count("null and NaN") == 1
    assert "x_sum may be off by up to 2 for each row, x_mean may be off by up to 4" in together


def test_a_function_that_bends_says_what_values_may_be_off_by():
    """Of what is no line through the values only they are known to be off so far."""
    bent = plan([0, 1, 2, 4], ask=lambda batch: batch.private_sum(pl.col("x").clip(1, 2), name="s"))
    assert "every value behind it may be off by up to 1" in bent.value_handling()[0]


@pytest.mark.slow
def test_sentence_certificate_and_pages_say_it(tmp_path):
    """What signs, what goes out and what people look at has the readings, and what error bars are about."""
    asked = plan(INTERVAL)
    words = f"x_sum: null and NaN in 'x' count as 0; {ENDS}"
    note = "null and NaN in 'x' count as 0, since missing= was left out"
    bars = "they cover the added noise only, not clipping or missing values"
    assert (
        asked.value_handling()
        == asked.certificate.readings
        == asked.evidence().readings
        == (words,)
    )
    assert note in asked.certificate.notes
    release = asked.release()
    texts = [
        asked.explain(),
        str(release.certificate),
        asked.report(tmp_path / "plan.html").read_text("utf-8"),
    ]
    texts += [release.page(asked.evidence()), release.page()]
    for text in texts:
        plain = text.replace("&#39;", "'")
        assert words in plain
        assert note in plain
        assert bars in plain
    assert pf.Certificate.from_json(release.certificate.to_json()).readings == (words,)


def test_nothing_of_rows_is_in_it():
    """The same words whatever the rows are: how many are missing is private."""
    scenario = pf.Scenario(pf.Secret("x", domain=INTERVAL), pf.Independent())
    frames = ([None, math.nan, 99.0], [1.0, 2.0, 3.0], [None, None, None])
    said = set()
    for values in frames:
        frame = pl.DataFrame({"x": pl.Series(values, dtype=pl.Float64)})
        made = pf.protect(frame, scenario).private_mean("x").plan(pf.Pure(1.0))
        said.add((made.value_handling(), made.certificate.notes, made.release().certificate.notes))
    assert len(said) == 1


SECRETS = {
    "value": lambda **options: pf.Secret("x", domain=[3, 4], **options),
    "initial": lambda **options: pf.Initial("x", domain=[3, 4], **options),
    "presence": lambda **options: pf.Presence("key", column="x", domain=[3, 4], rows=1, **options),
    "derived": lambda **options: pf.Derived("d", column="x", domain=[3, 4], **options),
}


@pytest.mark.parametrize("kind", thinned(SECRETS, 0.8))
def test_what_was_chosen(kind):
    """Every secret takes a value of its domain for missing; a note says where none was, unless nobody knows."""
    make = SECRETS[kind]
    prior = pf.Independent()
    if kind == "derived":
        prior = pf.Table(
            pl.DataFrame(
                {"d": [0, 0, 1, 1], "x": [3, 4, 3, 4], "probability": [0.3, 0.2, 0.2, 0.3]}
            )
        )

    def said(secret, *, restored=False):
        scenario = pf.Scenario(
            secret, prior, order_by="key" if kind == "initial" else None, public=["key"]
        )
        scenario = pf.Scenario.from_json(scenario.to_json()) if restored else scenario
        made = pf.protect(
            pl.LazyFrame(schema={"key": pl.Int64, "x": pl.Int8}), scenario
        ).private_sum("x")
        made = made.plan(pf.Pure(1.0))
        return made.value_handling()[0], [
            note for note in made.certificate.notes if "missing=" in note
        ]

    assert make(missing=4).missing == 4
    assert "null in 'x' counts as 4, as missing= says;" in said(make(missing=4))[0]
    assert said(make(missing=4))[1] == []
    assert "null in 'x' counts as 3;" in said(make())[0]
    assert said(make())[1] == ["null in 'x' counts as 3, since missing= was left out"]
    for secret in (make(missing=4), make()):
        words, notes = said(secret, restored=True)
        assert f"null in 'x' counts as {secret.missing};" in words
        assert notes == []
    with pytest.raises(pf.UsageError, match="missing is 5"):
        make(missing=5)


def test_choosing_the_first_value_changes_no_fingerprint():
    """Scenarios that read alike are alike, whether or not somebody chose so; ledgers know them by their old names."""
    chosen, left_out = (
        pf.Scenario(pf.Secret("x", domain=[3, 4], **options), pf.Independent())
        for options in ({"missing": 3}, {})
    )
    assert chosen.fingerprint == left_out.fingerprint == "pf1-8578b83a04d8d6630e93b4b9f4ffd7f0"
    assert chosen == left_out
    assert chosen.to_json() == left_out.to_json()
    assert "chosen" not in json.dumps(chosen.secret.stored())


def test_missing_without_a_column_is_refused():
    """What no column can have is not passed over in silence."""
    for make in (lambda: pf.Presence("key", missing=3), lambda: pf.Derived("d", missing=3)):
        with pytest.raises(pf.UsageError, match="without a column that it applies to"):
            make()


def test_columns_that_only_a_prior_knows():
    """Their missing values count as their first value, which is said."""
    table = pf.Table(
        pl.DataFrame({"d": [0, 0, 1, 1], "y": [5, 6, 5, 6], "probability": [0.3, 0.2, 0.2, 0.3]})
    )
    scenario = pf.Scenario(pf.Derived("d"), table)
    made = (
        pf.protect(pl.LazyFrame(schema={"y": pl.Int64}), scenario)
        .private_sum("y")
        .plan(pf.Pure(1.0))
    )
    assert made.value_handling() == (
        "y_sum: null in 'y' counts as 5; numbers below 5 as 5, numbers above 6 as 6",
    )
    assert (
        "null in 'y' counts as 5, its first value, since the secret names no other"
        in made.certificate.notes
    )


def test_rows_are_counted_whatever_they_hold():
    """A count of rows reads no values."""
    scenario = pf.Scenario(pf.Presence("key", rows=1), pf.Independent())
    made = (
        pf.protect(pl.LazyFrame(schema={"key": pl.Int64}), scenario)
        .private_count()
        .plan(pf.Pure(1.0))
    )
    assert made.value_handling() == ("count: every row counts, whatever its values",)
    assert not any("missing" in note for note in made.certificate.notes)


def test_certificates_of_older_releases_have_no_readings():
    """They are read as before, and their page says nothing of it."""
    release = plan(INTERVAL).release()
    stored = json.loads(release.certificate.to_json())
    del stored["readings"]
    old = pf.Certificate.from_json(json.dumps(stored))
    assert old.readings == ()
    assert old.facts == release.certificate.facts
    assert not {"read", "bars"} & {name for name, _ in old.rows()}


def test_lists_are_written_out():
    """Which values a question or a filter lists stands in the sentence and in the certificate."""
    frame = pl.DataFrame({"school": ["GP", "MS", "GP"], "g3": [10, 11, 3]})
    scenario = pf.Scenario(
        pf.Secret("g3", domain=list(range(21))), pf.Independent(), public=["school"]
    )
    batch = pf.protect(frame, scenario).filter(pl.col("school").is_in(["MS"]))
    plan = batch.private_count(pl.col("g3").is_in([10, 11])).plan(pf.Pure(1.0))
    assert "the number of rows with g3.is_in([10, 11])" in plan.explain()
    assert plan.certificate.where == ("school.is_in(['MS'])",)
    many = batch.private_count(pl.col("g3").is_in(list(range(12))), name="many").plan(pf.Pure(1.0))
    assert "g3.is_in([0, 1, 2, 3, … (12 values)])" in many.explain()


def test_rows_of_one_belief_do_not_contradict_it():
    """Without groups the scenario says nothing that its prior denies."""
    secret = pf.Secret("g3", domain=[0, 1])
    assert (
        "none is assumed to be independent" not in pf.Scenario(secret, pf.Independent()).describe()
    )
    assert (
        "none is assumed to be independent" in pf.Scenario(secret, pf.AnyCorrelation()).describe()
    )


def test_a_group_without_rows_is_said_before_anything_is_paid():
    """Where everybody may know that nobody is asked about, the sentence to sign says so."""
    frame = pl.DataFrame({"school": ["GP", "MS"], "g3": [1, 0]})
    scenario = pf.Scenario(pf.Secret("g3", domain=[0, 1]), pf.Independent(), public=["school"])
    batch = pf.protect(frame, scenario).group_by("school", keys=["GP", "XX"])
    text = batch.private_mean("g3").plan(pf.Pure(1.0)).explain()
    assert "there are no rows in 1 of 2 groups: g3_mean is then pure noise" in text


def test_numbers_are_no_keys_of_texts():
    """Keys of another kind than the column are refused, not turned into texts that no row has."""
    scenario = pf.Scenario(pf.Secret("g3", domain=[0, 1]), pf.Independent(), public=["school"])
    with pytest.raises(pf.UsageError, match="are Int64, and some are no String"):
        pf.protect(pl.DataFrame({"school": ["1"], "g3": [1]}), scenario).group_by(
            "school", keys=[1, 2]
        )
