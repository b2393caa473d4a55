"""Names that move cursors, files made to stop their reader, values that are sent to other processes."""

import copy
import json
import pickle
import time

import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf
from pufferflow.core.errors import escape_controls
from pufferflow.jobs.file import read_file
from pufferflow.published.certificate import Certificate
from pufferflow.reports.evidence import Evidence

HOSTILE = "a\x1b[2J\x07\r\x9b31m\u202e\u2066\u200b\ufeff\nledger  1:abc"


def hostile():
    """Return a batch all of whose names are hostile."""
    column, public, key = (f"{HOSTILE}{name}" for name in ("level", "day", "key"))
    rows = pl.DataFrame({column: [0, 1, 1], public: [HOSTILE, "x", "y"], key: [1, 2, 3]})
    reference = pf.Reference(HOSTILE, pl.DataFrame({column: [0, 1, 0, 1], key: [1, 2, 3, 4]}))
    prior = pf.MarkovChain.fit(reference, column, domain=[0, 1], order_by=key)
    scenario = pf.Scenario(pf.Secret(column, domain=[0, 1]), prior, order_by=key, public=[public])
    batch = (
        pf.protect(rows, scenario)
        .filter(pl.col(public).is_in([HOSTILE, "x", "y"]))
        .group_by(public)
    )
    return batch.private_sum(column).private_mean(column, f"{HOSTILE}mean")


def quoted():
    """Return everything that is shown of a hostile plan."""
    batch = hostile()
    plan = batch.plan(epsilon=0.1)
    release = plan.release()
    yield from map(repr, (batch, plan, batch.request.scenario, release, plan.certificate))
    yield from (
        str(plan.certificate),
        plan.explain(),
        *plan.value_handling(),
        *plan.check()["finding"],
    )
    yield from (plan.request.scenario.describe(), release.page(plan.evidence()))
    for wrong in (
        lambda: batch.private_sum(f"{HOSTILE}lovel"),
        lambda: batch.private_sum(f"{HOSTILE}level"),
        lambda: batch.plan(epsilon=1.0, shares={HOSTILE: 1}),
        lambda: pf.protect(pl.DataFrame({"x": [1]}), plan.request.scenario),
        lambda: pf.protect(batch.request.frame, plan.request.scenario).group_by(f"{HOSTILE}dey"),
        lambda: pf.protect(
            batch.request.frame.cast({f"{HOSTILE}day": pl.Int8}, strict=False),
            batch.request.scenario,
        ).filter(pl.col(f"{HOSTILE}day") == HOSTILE),
    ):
        with pytest.raises(pf.PufferflowError) as caught:
            wrong()
        yield from (
            str(caught.value),
            caught.value.problem,
            caught.value.allowed,
            caught.value.instead,
        )


@pytest.mark.slow
def test_no_name_moves_a_cursor_or_turns_the_direction_of_reading():
    for text in quoted():
        assert not [sign for sign in text if sign not in "\n\t\xa0" and not sign.isprintable()], (
            ascii(text)[:300]
        )


def test_no_name_makes_a_line_of_its_own():
    """A certificate whose ledger's line is forged by the name of a column would say what nobody counted."""
    plan = hostile().plan(epsilon=0.1)
    for text in (str(plan.certificate), plan.explain(), repr(plan), *plan.value_handling()):
        assert not [line for line in text.splitlines() if line.startswith("ledger  1:abc")]
    known = plan.certificate
    for line in (*known.assumptions, *known.notes, *known.readings, known.witness):
        assert line.splitlines() == [line]


def test_letters_of_all_languages_are_left_alone():
    text = "Zürich, Ελλάδα, 東京, עברית, العربية, 12\u00a0%, é, 👩"
    assert escape_controls(text) == text
    assert escape_controls(escape_controls(HOSTILE)) == escape_controls(HOSTILE)


GOOD = 'name = "x"\nbuild = "own.py:build"\n'
BOMBS = {
    "brackets": "x = " + "[" * 100_000,
    "brackets on lines": "x = " + "[\n" * 60_000,
    "tables": "[" * 100_000,
    "inline tables": "x = " + "{a=" * 20_000,
    "closed brackets": "]" * 1000 + "[" * 100_000,
    "digits": "x = " + "1" * 5000,
    "digits of a fraction": "x = 1." + "1" * 5000,
    "dotted key": "a" + ".a" * 50_000 + " = 1",
    "dotted keys": "\n".join(f"a{'.a' * 199}.b{line} = 1" for line in range(600)),
    "dotted header": "[a" + ".a" * 50_000 + "]",
    "blanks in a header": GOOD + "[  " + " " * 100_000 + "x" + " " * 100_000 + "]\n",
    "huge": "#" * 3_000_000,
    "null": "x = \0",
    "quotes": 'x = """' + '"' * 200_000,
    "long key": "x" * 200_000 + " = 1",
    "many": "\n".join(f"a.b{line} = 1" for line in range(18_000)),
    "no TOML at all": "\x1b[2J",
    "surrogate": b'x = "\xed\xa0\x80"',
    "another encoding": GOOD.encode("utf-16"),
}


@pytest.mark.parametrize("bomb", thinned(BOMBS.values(), 0.63), ids=BOMBS)
def test_a_file_made_to_stop_its_reader_is_refused_at_once(bomb, tmp_path):
    """In our words, with the line where there is one; the time is far above what it takes, far below what it took."""
    path = tmp_path / "job.toml"
    path.write_bytes(bomb if isinstance(bomb, bytes) else bomb.encode())
    began = time.process_time()
    with pytest.raises(pf.UsageError) as caught:
        read_file(path)
    assert time.process_time() - began < 10
    assert caught.value.allowed
    assert len(str(caught.value)) < 1500


def test_a_mark_of_the_encoding_in_front_of_a_file_is_no_error(tmp_path):
    from pufferflow.jobs import starter

    starter.write(tmp_path)
    path = tmp_path / "job.toml"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read_file(path).name == "meters-daily"


@pytest.mark.parametrize(
    "read",
    [Certificate.from_json, pf.Scenario.from_json, Evidence.from_json, pf.Guarantee.from_json],
    ids=repr,
)
@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 100_000, "1" * 5000, '{"version": ' + "1" * 5000 + "}"]
)
def test_documents_made_to_stop_their_reader_are_refused(read, text):
    with pytest.raises(pf.UsageError):
        read(text)


def test_a_number_of_thousands_of_digits_is_shown_by_its_length():
    with pytest.raises(pf.UsageError, match="bits"):
        pf.Scenario(pf.Secret("level", domain=10**5000), pf.Independent())
    with pytest.raises(pf.UsageError, match="bits"):
        simple().plan(10**5000)


def simple(prior=None):
    scenario = pf.Scenario(
        pf.Secret("level", domain=[0, 1]), prior or pf.Independent(), order_by="hour"
    )
    return pf.protect(pl.DataFrame({"level": [0, 1], "hour": [0, 1]}), scenario).private_sum(
        "level"
    )


@pytest.mark.parametrize(
    "prior", [pf.Independent(), pf.MarkovChain([[0.9, 0.1], [0.2, 0.8]])], ids=repr
)
def test_a_plan_is_not_pickled_and_says_so(prior):
    plan = simple(prior).plan(epsilon=1.0)
    assert repr(plan)
    with pytest.raises(pf.UsageError, match="cannot be pickled") as caught:
        pickle.dumps(plan)
    assert "batch.plan" in caught.value.instead
    assert copy.copy(plan) is copy.deepcopy(plan) is plan


def test_facts_are_pickled():
    plan = simple().plan(epsilon=1.0)
    release = plan.release()
    laws = pf.laws(plan.request.scenario, pf.Statistic.total(2))
    for value in (
        plan.certificate,
        plan.request.scenario,
        plan.guarantee,
        plan.cost,
        plan.evidence(),
        pf.Law.point(1),
    ):
        assert pickle.loads(pickle.dumps(value)) == value
    assert pickle.loads(pickle.dumps(release)).frame.equals(release.frame)
    found = pickle.loads(pickle.dumps(laws))
    assert pf.loss(found, pf.Laplace(1.0), pf.Pure) == pf.loss(laws, pf.Laplace(1.0), pf.Pure)
    assert json.loads(plan.certificate.to_json())
