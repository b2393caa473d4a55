"""The queries of an engine as SQL: a closed set of SELECT, GROUP BY, COUNT, SUM, MIN, MAX, places, comparisons.

No expression of a user is among them. Names of columns are quoted, results have names of ours.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce

from pufferflow.plugins import (
    Backend,
    CellTotals,
    Float,
    FloatInside,
    GroupRows,
    GroupRuns,
    Numbering,
    PrivateTotals,
    Query,
    Steps,
    UnitLimit,
    Value,
)
from pufferflow_connectors.sql.dialect import ColumnKind, Dialect
from pufferflow_connectors.sql.values import (
    is_number_text,
    numbering_text,
    steps_text,
    total_text,
    value_text,
)

Kinds = Mapping[str, ColumnKind]


def query_text(query: Query, table: str, kinds: Kinds, dialect: Dialect) -> str:
    """Return a query on a table, which is written as it stands after FROM."""
    match query:
        case CellTotals():
            return _cell_totals(query, table, kinds, dialect)
        case GroupRuns():
            return _group_runs(query, table, kinds, dialect)
        case GroupRows():
            return _group_rows(query, table, kinds, dialect)


def _cell_totals(query: CellTotals, table: str, kinds: Kinds, dialect: Dialect) -> str:
    """Return the text for totals: values are worked out in one subquery, their steps in the next.

    Where rows of units are limited, each has its place among those of its unit, which the second subquery looks at.
    """
    q, by = dialect.quoted, _columns("by", query.by, kinds, dialect)
    values = _values(query, kinds, dialect)
    keys = [name for name, _ in by] + [q("class")] * (query.numbering is not None)
    places = [] if query.limit is None else _places(query.limit, kinds, dialect)
    place = [(q(name), text) for name, text, _ in places]
    inner = _select([*by, *values, *place], table)
    numbered = [*((name, name) for name, _ in (*by, *values)), *_steps(query, dialect)]
    if query.numbering is not None:
        numbered.append((q("class"), _class(query.numbering, dialect)))
    middle = _select(numbered, f"({inner}) AS {q('cleaned')}")
    if places:
        middle += " WHERE " + " AND ".join(
            f"{q(name)} <= {min(most, Backend.most_rows)}" for name, _, most in places
        )
    totals = [
        total for place, own in enumerate(query.private) for total in _totals(place, own, dialect)
    ]
    counted = [*((key, key) for key in keys), (q("rows"), "COUNT(*)"), *totals]
    return _select(counted, f"({middle}) AS {q('numbered')}", keys)


def _places(limit: UnitLimit, kinds: Kinds, dialect: Dialect) -> list[tuple[str, str, int]]:
    """Return the places of a row that are limited, counted from 1: a name, the text, and the largest that is read.

    That of a row among those of its unit, or of its group there; and that of its group among those of its unit.
    Machines differ in where NULL and NaN stand, so both are written out; some want an order where there is none: a
    unit's own column is none within it. Rows that are equal in all of it have different places all the same.
    """
    of = [dialect.key(name, kinds[name]) for name in (limit.unit, *limit.by)]
    order, by = (
        ", ".join(text for name in names for text in _in_order(name, kinds[name], dialect))
        for names in (limit.order or (limit.unit,), limit.by)
    )
    places = [
        ("place", f"ROW_NUMBER() OVER (PARTITION BY {', '.join(of)} ORDER BY {order})", limit.rows)
    ]
    if limit.by and limit.groups is not None:
        places.append(
            ("group", f"DENSE_RANK() OVER (PARTITION BY {of[0]} ORDER BY {by})", limit.groups)
        )
    return places


def _in_order(name: str, kind: ColumnKind, dialect: Dialect) -> Iterator[str]:
    """Yield what rows are sorted by, for one column: NULL first, NaN last, texts byte by byte."""
    column, key = dialect.quoted(name), dialect.key(name, kind)
    if kind in {"float", "single"}:
        is_number = is_number_text(column, dialect)
        yield f"CASE WHEN {column} IS NULL OR {is_number} THEN 0 ELSE 1 END"
        key = f"CASE WHEN {is_number} THEN {key} END"
    yield f"{key} NULLS FIRST"


def _values(query: CellTotals, kinds: Kinds, dialect: Dialect) -> list[tuple[str, str]]:
    private = [(f"value{place}", one.value) for place, one in enumerate(query.private)]
    private += (
        []
        if query.numbering is None
        else [(name, one.value) for name, one in _parts(query.numbering)]
    )
    return [
        (dialect.quoted(name), value_text(value, kinds[value.column], dialect))
        for name, value in private
    ]


def _class(numbering: Numbering, dialect: Dialect) -> str:
    """Return the number of the class of a row; of a tuple of values that of all classes, the last varying fastest."""
    first, *others = (
        (
            numbering_text(
                one, dialect.quoted(name), is_float=_is_float(one.value), dialect=dialect
            ),
            one.missing + 1,
        )
        for name, one in _parts(numbering)
    )
    return reduce(lambda whole, one: f"({whole}) * {one[1]} + {one[0]}", others, first[0])


def _parts(numbering: Numbering) -> list[tuple[str, Numbering]]:
    """Return the numberings of single values, each with the name of the column of its value."""
    single = len(numbering.parts) == 1
    return [
        ("value" if single else f"part{place}", one) for place, one in enumerate(numbering.parts)
    ]


def _steps(query: CellTotals, dialect: Dialect) -> list[tuple[str, str]]:
    """Return the steps of each formula of a value, once where two totals are of one formula."""
    return [
        (dialect.quoted(name), steps_text(total, dialect.quoted(f"value{place}"), dialect))
        for place, one in enumerate(query.private)
        for name, total in {name: total for total, name in _named_steps(place, one)}.items()
    ]


def _named_steps(place: int, private: PrivateTotals) -> Iterator[tuple[Steps, str]]:
    """Yield the totals of formulas, each with the name of the column of its steps."""
    formulas = list(
        dict.fromkeys(total.formula for total in private.totals if isinstance(total, Steps))
    )
    for total in private.totals:
        if isinstance(total, Steps):
            yield total, f"steps{place}_{formulas.index(total.formula)}"


def _totals(place: int, private: PrivateTotals, dialect: Dialect) -> list[tuple[str, str]]:
    texts, steps = list[tuple[str, str]](), dict(_named_steps(place, private))
    for number, total in enumerate(private.totals):
        value = dialect.quoted(steps[total] if isinstance(total, Steps) else f"value{place}")
        text = total_text(total, value, is_float=_is_float(private.value), dialect=dialect)
        texts.append((dialect.quoted(f"total{place}_{number}"), text))
    return texts


def _is_float(value: Value) -> bool:
    return isinstance(value, Float | FloatInside)


def _group_runs(query: GroupRuns, table: str, kinds: Kinds, dialect: Dialect) -> str:
    """Return the text for runs: an aggregate of each, the size of its group, and one of all equal runs."""
    q, within = dialect.quoted, _columns("within", query.within, kinds, dialect)
    columns = _columns("column", query.columns, kinds, dialect)
    keys, facts = [name for name, _ in (*within, *columns)], [(q("count"), "COUNT(*)")]
    if query.order_by is not None:
        moment = dialect.key(query.order_by, kinds[query.order_by])
        facts += [(q("first"), f"MIN({moment})"), (q("last"), f"MAX({moment})")]
        facts += [(q("moments"), f"COUNT(DISTINCT {moment})")]
    runs = _select([*within, *columns, *facts], table, [text for _, text in (*within, *columns)])
    names = [*keys, *(name for name, _ in facts)]
    over = f"OVER (PARTITION BY {', '.join(name for name, _ in within)})" if within else "OVER ()"
    rows = f"CAST(SUM({q('count')}) {over} AS {dialect.whole_type})"
    of_group = [(q("runs"), f"COUNT(*) {over}"), (q("rows"), rows)]
    counted = _select([*((name, name) for name in names), *of_group], f"({runs}) AS {q('each')}")
    several = [(name, f"CASE WHEN {q('runs')} > 1 THEN {name} END") for name, _ in within]
    others = [name for name in (q("runs"), q("rows"), *names) if name not in dict(within)]
    chosen = _select(
        [*several, *((name, name) for name in others)], f"({counted}) AS {q('of_groups')}"
    )
    all_names = [*(name for name, _ in within), *others]
    times = [*((name, name) for name in all_names), (q("times"), "COUNT(*)")]
    return _select(times, f"({chosen}) AS {q('chosen')}", all_names)


def _group_rows(query: GroupRows, table: str, kinds: Kinds, dialect: Dialect) -> str:
    runs, q = query.runs, dialect.quoted
    within = _columns("within", runs.within, kinds, dialect)
    own = [*within, *_columns("column", runs.columns, kinds, dialect)]
    if runs.order_by is not None:
        own.append((q("moment"), dialect.key(runs.order_by, kinds[runs.order_by])))
    if not query.sizes:
        return _select(own, table)
    over = f"OVER (PARTITION BY {', '.join(text for _, text in within)})" if within else "OVER ()"
    rows = _select([*own, (q("rows"), f"COUNT(*) {over}")], table)
    chosen = _select([(name, name) for name, _ in own], f"({rows}) AS {q('sized')}")
    return f"{chosen} WHERE {q('rows')} IN ({', '.join(map(str, query.sizes))})"


def _columns(
    stem: str, names: Sequence[str], kinds: Kinds, dialect: Dialect
) -> list[tuple[str, str]]:
    """Return columns by which rows are grouped, under names of ours."""
    return [
        (dialect.quoted(f"{stem}{place}"), dialect.key(name, kinds[name]))
        for place, name in enumerate(names)
    ]


def _select(columns: Sequence[tuple[str, str]], table: str, by: Sequence[str] = ()) -> str:
    chosen = (
        ", ".join(name if name == text else f"{text} AS {name}" for name, text in columns) or "1"
    )
    grouped = f" GROUP BY {', '.join(by)}" if by else ""
    return f"SELECT {chosen} FROM {table}{grouped}"  # noqa: S608 - names are quoted, and nothing else is a user's
