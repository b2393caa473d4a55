"""Each guard of the SQL is taken away in turn: the self-test refuses a machine that then answers otherwise."""

import re
from dataclasses import replace

import duckdb
import pytest
from pufferflow_connectors import duckdb as on_duckdb
from pufferflow_connectors import postgresql as on_postgresql
from thinned import nightly

import pufferflow as pf
from pufferflow.engines.self_test import digest

FLOAT = r"CAST\('[^']*' AS [A-Z ]+\)"
NUMBER = rf'(?:{FLOAT}|"\w+"|CAST\("\w+" AS [A-Z ]+\)|`\w+`)'
INFINITE = r"CAST\('-?Infinity' AS [A-Z ]+\)"
ROUNDER = r"CAST\('6755399441055744.0' AS [A-Z ]+\)"
QUOTE = r'["`]'
COUNT = r"(?:COUNT\(CASE WHEN |COUNT_IF\()"

MUTANTS = {
    "a number is at most infinite, where it is brought into an interval": (
        rf"(WHEN {NUMBER} > {NUMBER}) AND {NUMBER} <= {INFINITE} THEN",
        r"\1 THEN",
    ),
    "a number is at most infinite, where it is counted above a limit": (
        rf"({COUNT}{NUMBER} > {FLOAT}) AND {NUMBER} <= {INFINITE}",
        r"\1",
    ),
    "a number is at most infinite, where it is there or not": (
        rf"({NUMBER} >= {INFINITE}) AND {NUMBER} <= {INFINITE}",
        r"\1",
    ),
    "a number above the interval is its end": (
        rf"WHEN {NUMBER} > {NUMBER} AND {NUMBER} <= {INFINITE} THEN {FLOAT} ",
        "",
    ),
    "a number below the interval is its end": (
        rf"WHEN {NUMBER} < {NUMBER} AND {NUMBER} >= {INFINITE} THEN {FLOAT} ",
        "",
    ),
    "what is no number is the value for missing ones": (
        rf"(THEN {FLOAT}) ELSE {FLOAT} END AS",
        r"\1 END AS",
    ),
    "steps are rounded before they are whole": (
        rf" \+ {ROUNDER} - {ROUNDER}",
        " + CAST('0.3' AS DOUBLE PRECISION)",
    ),
    "half steps are rounded to even ones": (
        rf" (\+ {ROUNDER} - {ROUNDER})",
        r" + CAST('1e-09' AS DOUBLE PRECISION) \1",
    ),
    "whole numbers above their domain are its end": (
        r"CASE WHEN (\S+) > -?\d+ THEN -?\d+ WHEN \1 <",
        r"CASE WHEN \1 <",
    ),
    "whole numbers below their domain are its end": (
        r"(THEN -?\d+) WHEN \S+ < -?\d+ THEN -?\d+ ELSE",
        r"\1 ELSE",
    ),
    "limits belong to the class below": (
        rf"({COUNT}{NUMBER}) > {FLOAT}",
        r"\1 >= CAST('0.1' AS DOUBLE PRECISION)",
    ),
    "whole limits belong to the class below": (rf"({COUNT}\S+) > ", r"\1 >= "),
    "limits of numbered classes belong to the class below": (
        rf"(WHEN {QUOTE}value{QUOTE}) > ",
        r"\1 >= ",
    ),
    "tuples are told apart": (r"\) \* (\d+) \+ CASE", r") * 1 + CASE"),
    "false is 0": (r"THEN 1 WHEN NOT \S+ THEN 0 END", "THEN 1 END"),
    "rows without a whole number have the last class": (
        r"CASE WHEN \S+ IS NOT NULL THEN (.*) ELSE \d+ END AS",
        r"\1 AS",
    ),
    "other labels have the last class": (r" ELSE 45 END AS", " ELSE 44 END AS"),
    "counts are of the labels": (r"IN \('a ', ", "IN ('a', "),
    "rows are counted": (rf"COUNT\(\*\) AS ({QUOTE})rows", r"COUNT(DISTINCT 1) AS \1rows"),
    "numbers that are there are counted": (
        rf"COUNT\(({QUOTE}value\d+{QUOTE})\)",
        r"COUNT(DISTINCT \1)",
    ),
    "numbers that are not there are not counted": (rf"COUNT\({QUOTE}value\d+{QUOTE}\)", "COUNT(*)"),
    "segments have their end where it is reached": (
        rf"(CASE WHEN {QUOTE}value\d+{QUOTE}) <= ({FLOAT} THEN)",
        r"\1 < \2",
    ),
    "segments lack their end where it is not reached": (
        rf"(CASE WHEN {QUOTE}value\d+{QUOTE}) < ({FLOAT} THEN)",
        r"\1 <= \2",
    ),
    "floats are of 64 bits": (r"AS DOUBLE(?: PRECISION)?\)", "AS REAL)"),
    "moments that are twice are counted once": (r"COUNT\(DISTINCT ", "COUNT("),
    "a group of one run is one": (
        r"COUNT\(\*\) OVER \(PARTITION BY (?:\S+)\) AS (.runs.)",
        r"1 AS \1",
    ),
    "rows of a group are counted": (
        r"SUM\((.count.)\) OVER \(PARTITION BY \S+\)",
        r"SUM(\1) OVER ()",
    ),
    "groups with equal runs are counted": (r"COUNT\(\*\) AS (.times.)", r"1 AS \1"),
    "groups are told apart": (
        r"CASE WHEN .runs. > 1 THEN (.within0.) END",
        r"CASE WHEN 1 > 2 THEN \1 END",
    ),
    "only groups of some sizes are read": (r" WHERE .rows. IN \([^)]*\)", ""),
    "the sizes of groups are theirs": (
        r"COUNT\(\*\) OVER \(PARTITION BY \S+\) AS (.rows.)",
        r"4 AS \1",
    ),
    "rows of units are limited": (r" WHERE .place. <= \d+", ""),
    "as many rows are read of a unit as it may have": (r"( WHERE .place.) <= ", r"\1 < "),
    "groups of units are limited": (r" AND .group. <= \d+", ""),
    "rows of groups of units are limited": (r" WHERE .place. <= \d+ AND", " WHERE"),
    "rows of a group have one place": (r"DENSE_RANK\(\)", "ROW_NUMBER()"),
    "places of groups have no gaps": (r"DENSE_RANK\(\)", "RANK()"),
    "equal rows are told apart": (r"\(SELECT ", "(SELECT DISTINCT "),
    "results have no end": (r"$", " LIMIT 64"),
    "texts have no end": (
        r"(by\d+\W AS |, )?(.long. COLLATE \S+|.long.) AS (.by)",
        r"\1SUBSTR(\2, 1, 255) AS \3",
    ),
    "rows of all units are read": (r"PARTITION BY \S+ ORDER BY", "ORDER BY"),
    "rows without a unit are limited": (r" WHERE (.)place. <= \d+", r"\g<0> OR \1by0\1 IS NULL"),
    "rows of a unit are in order": (r"ORDER BY .*?\) AS (.place.)", r"ORDER BY 1) AS \1"),
    "equal rows have places of their own": (r"ROW_NUMBER\(\)", "RANK()"),
    "NULL is the first": (r"(ORDER BY .name.*?) NULLS FIRST", r"\1 NULLS LAST"),
    "NULL is the first of floats": (r"(END END) NULLS FIRST", r"\1 NULLS LAST"),
    "NULL is no NaN": (r"CASE WHEN \S+ IS NULL OR (.*? THEN 0 ELSE 1 END)", r"CASE WHEN \1"),
    "NaN is the last": (r"THEN 0 ELSE 1 END, CASE", "THEN 0 ELSE -1 END, CASE"),
    "numbers are in order": (r"(THEN 0 ELSE 1 END), CASE WHEN .*? END END NULLS FIRST", r"\1"),
}
"""What a guard is for, the text that is it, and what stands there without it."""
OF_PARTS = {
    "the high part of steps is whole": (r"FLOOR(\(\((?:CASE|CAST))", r"\1"),
    "the low part of steps is without the high one": (
        r" - FLOOR\(.*? \* CAST\('32768.0' AS [A-Z ]+\)",
        "",
    ),
    "steps are counted from the least": (rf"(END|DOUBLE\)) - {FLOAT}\)", r"\1)"),
}
"""The same for machines whose sums have 64 bits."""
OF_HALVES = {
    "sums are split where they are put together": (r"(//|%|,) 32768\)", r"\1 16384)"),
    "the high part of a sum is the quotient": (
        r"(?:(\(COALESCE\(SUM.*?, 0\)) //|DIV(\(.*?),) 32768\)",
        r"\1\2)",
    ),
    "steps are counted from the least": (r"(AS BIGINT\)) - \(-?\d+\)", r"\1"),
}
"""The same for machines whose sums have more."""

EQUIVALENT = {
    "a number is at least −∞": (rf" AND {NUMBER} >= {INFINITE}", ""),
    "empty sums are 0": (r"COALESCE\(SUM\((.*?)\), 0\)", r"SUM(\1)"),
    "runs are counted in their group": (
        r"COUNT\(\*\) OVER \(PARTITION BY \S+\) AS (.runs.)",
        r"COUNT(*) OVER () AS \1",
    ),
    "first moments are the least": (r"MIN\(", "MAX("),
    "last moments are the greatest": (r"MAX\(", "MIN("),
}
"""What changes no answer of these machines, and why it stands there.

NaN is above −∞ or compares as false, so the lower bound is for machines where it is the least. Null is added up as 0
here as well. Runs that are taken for runs of several or of irregular groups are read row by row, which takes longer.
"""
EQUIVALENT_PARTS = {
    "the parts of steps have as many bits": (r"3\.0517578125e-05", "6.103515625e-05")
}
"""The same for machines whose sums have 64 bits: parts add up as well with other bits; 15 prove that sums have room."""


class Mutated:
    """A machine whose texts are changed before it gets them."""

    def __init__(self, monkeypatch, module):
        self.monkeypatch, self.module, self.original = monkeypatch, module, module.query_text

    def by(self, pattern, replacement):
        """Replace a pattern in all texts; it has to be there."""
        self.seen = 0

        def text(query, table, kinds, dialect):
            own = replacement.replace("DOUBLE PRECISION", dialect.float_type)
            changed, times = re.subn(pattern, own, self.original(query, table, kinds, dialect))
            self.seen += times
            return changed

        self.monkeypatch.setattr(self.module, "query_text", text)

    def with_dialect(self, **facts):
        """Change facts of the dialect."""
        self.monkeypatch.setattr(self.module, "DIALECT", replace(self.module.DIALECT, **facts))


@pytest.fixture(params=["duckdb", *nightly(["postgresql"])])
def of(request, monkeypatch):
    """A machine, and what changes its texts."""
    if request.param == "duckdb":
        relation = duckdb.connect().sql("SELECT 1 AS a")
        return on_duckdb.DuckDb(relation, relation), Mutated(monkeypatch, on_duckdb)
    if request.param == "postgresql":
        table = pf.table(request.getfixturevalue("server"), "not read")
        return on_postgresql.PostgreSql(table), Mutated(monkeypatch, on_postgresql)
    from pufferflow_connectors import spark as on_spark

    frame = request.getfixturevalue("session").range(1)
    return on_spark.Spark(frame, frame), Mutated(monkeypatch, on_spark)


def refused(backend):
    with pytest.raises(pf.UsageError, match="does not pass the self-test"):
        digest(backend)
    return True


def without(guards, of):
    """Check that the machine is refused without each of the guards."""
    backend, mutated = of
    for guard, change in guards.items():
        mutated.by(*change)
        assert refused(backend), guard
        assert mutated.seen, guard


def has_halves(of):
    return of[1].module.DIALECT.halves is not None


def guards_of(of):
    return MUTANTS | (OF_HALVES if has_halves(of) else OF_PARTS)


@pytest.mark.slow
def test_without_any_guard_the_machine_is_refused(of):
    without(guards_of(of), of)


@pytest.mark.nightly
@pytest.mark.parametrize("of", ["spark"], indirect=True)
def test_without_any_guard_spark_is_refused(of):
    without(guards_of(of), of)


@pytest.mark.slow
def test_what_changes_no_answer(of):
    unchanged(of)


@pytest.mark.nightly
@pytest.mark.parametrize("of", ["spark"], indirect=True)
def test_what_changes_no_answer_of_spark(of):
    """Spark takes seconds for each answer of the self-test."""
    unchanged(of)


def unchanged(of):
    backend, mutated = of
    passed = digest(backend)
    for what, change in (EQUIVALENT if has_halves(of) else EQUIVALENT | EQUIVALENT_PARTS).items():
        mutated.by(*change)
        assert digest(backend) == passed, what
        assert mutated.seen, what


def test_a_machine_that_fails_at_small_products_is_refused(server, monkeypatch):
    """Without the guard PostgreSQL stops with an underflow, for which the error has words of ours."""
    Mutated(monkeypatch, on_postgresql).with_dialect(flushes=False)
    with pytest.raises(pf.UsageError, match="stopped in the middle of an answer"):
        digest(on_postgresql.PostgreSql(pf.table(server, "not read")))


@pytest.mark.slow
def test_texts_that_are_equal_but_for_their_bytes_are_told_apart(monkeypatch):
    """A connection may compare texts without case: the dialect's collation holds all the same."""
    relation = duckdb.connect(config={"default_collation": "nocase"}).sql("SELECT 1 AS a")
    backend = on_duckdb.DuckDb(relation, relation)
    digest(backend)
    Mutated(monkeypatch, on_duckdb).with_dialect(binary="{}")
    assert refused(backend)


@pytest.mark.slow
def test_texts_are_in_the_order_of_their_bytes(of):
    """Which row of a unit is its first depends on it."""
    backend, mutated = of
    other = {"DuckDB": "NOCASE", "PostgreSQL": '"und-x-icu"', "Spark": "UNICODE"}[backend.name]
    mutated.by(r"(ORDER BY .name.) COLLATE [^,)\s]+", rf"\1 COLLATE {other}")
    assert refused(backend)
    assert mutated.seen


def test_quotes_are_escaped(of, monkeypatch):
    backend, mutated = of
    dialect = type(mutated.module.DIALECT)
    with monkeypatch.context() as patch:
        patch.setattr(dialect, "text_of", lambda _, text: f"'{text}'")
        assert refused(backend)


@pytest.mark.slow
def test_backslashes_are_escaped(of):
    """Where a backslash begins an escape it is written twice, and only there."""
    backend, mutated = of
    mutated.with_dialect(backslashes=not mutated.module.DIALECT.backslashes)
    assert refused(backend)
