"""The names in the calls of a batch, of public columns and of answers, and examples of them in errors."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import polars as pl

from pufferflow.core.errors import UsageError
from pufferflow.core.suggestions import misfit
from pufferflow.core.validate import quoted
from pufferflow.models.domain import Domain, Interval
from pufferflow.models.secret import Presence
from pufferflow.queries.expressions.values import Values
from pufferflow.queries.request import Request

_TEXTS: Final = (pl.String, pl.Categorical, pl.Enum)


def examples_of(request: Request) -> dict[str, str]:
    """Return the parts of examples, as they are written in tables and errors, with their replacements here.

    >>> import pufferflow as pf
    >>> scenario = pf.Scenario(pf.Secret("kwh", domain=pf.Interval(0, 4)), pf.Independent(), public=["area"])
    >>> batch = pf.protect(pl.DataFrame({"area": ["north"], "kwh": [1.0]}), scenario)
    >>> examples = examples_of(batch.request)
    >>> examples['private_sum("level")'], examples['"day"'], examples['pl.col("level") >= 3']
    ('private_sum("kwh")', '"area"', 'pl.col("kwh") >= 2')
    """
    found = _of_public(request) | _of_outputs(request)
    if request.domains:
        column = _own("level", list(request.domains))
        found |= _of_secret(column, request.domains[column])
        if not request.counts_are_public:
            some = found['pl.col("level") >= 3']
            found['private_count(pl.col("level") >= 3)'] = (
                f"private_count(), or private_count({some})"
            )
    columns = list(request.domains)
    if len(columns) > 1 and not {"hours", "wage"} <= set(columns):
        found |= {'"hours", "wage"': f"{_quoted(columns[0])}, {_quoted(columns[1])}"}
    secret = request.scenario.secret
    units = [secret.within] if isinstance(secret, Presence) else list(request.scenario.within)
    if units:
        found['"meter"'] = _quoted(_own("meter", units))
    return found


def _own(word: str, columns: Sequence[str]) -> str:
    return word if word in columns else columns[0]


def _quoted(name: str) -> str:
    return f'"{name}"'


def _of_secret(column: str, domain: Domain) -> dict[str, str]:
    own, bins = _quoted(column), f", {domain.some_bins}" if isinstance(domain, Interval) else ""
    found = {'"level"': own, 'private_sum("level")': f"private_sum({own})"}
    found |= {
        f'private_{name}("level")': f"private_{name}({own}{bins})"
        for name in ("histogram", "median")
    }
    spelled = f"pl.col({own}).puffer"
    found |= {
        'pl.col("level").puffer.median()': f"{spelled}.median({bins[2:]})",
        'pl.col("level").puffer.quantile(0.5)': f"{spelled}.quantile(0.5{bins})",
    }
    for share in ("0.01", "0.1", "0.25", "0.5", "0.75", "0.9", "0.99"):
        found[f'private_quantile("level", {share})'] = f"private_quantile({own}, {share}{bins})"
    found['pl.col("level") >= 3'] = _predicate(own, domain)
    if isinstance(domain, Interval):
        found['pl.col("level").clip(0, 2)'] = (
            f"pl.col({own}).clip({domain.low:g}, {_middle(domain):g})"
        )
    return found


def _predicate(own: str, domain: Domain) -> str:
    if isinstance(domain, Interval):
        return f"pl.col({own}) >= {_middle(domain):g}"
    points = list(domain.points)
    if not domain.numeric:
        label = points[0] if isinstance(points[0], bool) else f'"{points[0]}"'
        return f"pl.col({own}) == {label}"
    return f"pl.col({own}) >= {3 if 3 in points else sorted(points)[len(points) // 2]}"


def _middle(domain: Interval) -> float:
    return (domain.low + domain.high) / 2


def _of_public(request: Request) -> dict[str, str]:
    """Return examples of filters and groups by the columns that everybody may know."""
    scenario, schema = request.scenario, request.schema
    places = {scenario.order_by, *scenario.within}
    plain = [
        name for name in request.public if name not in places and not schema[name].is_temporal()
    ]
    times = [name for name in request.public if schema[name].is_temporal()]
    found = dict[str, str]()
    if times:
        found['"at"'] = found['"hour"'] = _quoted(_own("at", times))
    if not plain:
        return found
    first, second = _own("day", plain), _own("district", plain[1:] or plain)
    found |= {'"day"': _quoted(first), '"district"': _quoted(second), '"grade"': _quoted(second)}
    found['.group_by("district", "day")'] = f".group_by({', '.join(map(_quoted, plain[:2]))})"
    found['pl.col("district") == "north"'] = _equals(second, schema)
    found['pl.col("day") == 1'] = _equals(first, schema)
    if schema[first].base_type() in _TEXTS:
        found['"day", keys=[1, 2], other=-1'] = (
            f'{_quoted(first)}, keys=["north", "south"], other="elsewhere"'
        )
    if not schema[first].is_numeric():
        found['week=pl.col("day") // 7'] = f"key=pl.col({_quoted(first)})"
    return found


def _equals(name: str, schema: Mapping[str, pl.DataType]) -> str:
    value = (
        '"north"'
        if schema[name].base_type() in _TEXTS
        else "True"
        if schema[name] == pl.Boolean
        else "1"
    )
    return f"pl.col({_quoted(name)}) == {value}"


def _of_outputs(request: Request) -> dict[str, str]:
    """Return the names of answers: those of the queries, or examples of them."""
    asked = list(request.outputs)
    if not asked and request.domains:
        column = _own("level", list(request.domains))
        asked = [f"{column}_sum", f"{column}_mean"]
    return {
        _quoted(f"level_{kind}"): _quoted(name)
        for kind, name in zip(("sum", "mean"), asked, strict=False)
    }


def one_by_one(arguments: Iterable[Any]) -> list[Any]:
    """Return arguments one by one: Polars takes lists of them, and generators too."""
    return [
        item
        for part in arguments
        for item in (
            cast("Iterable[Any]", part)
            if isinstance(part, list | tuple | set | Iterator)
            else (part,)
        )
    ]


def named_columns(named: Mapping[str, object]) -> dict[str, object]:
    """Return named expressions; refuse other values, which are misspelt arguments."""
    wrong = next(
        (name for name, expression in named.items() if not isinstance(expression, str | pl.Expr)),
        None,
    )
    if wrong is not None:
        raise misfit("group_by", ("columns", "keys", "other"), {wrong: None}, "")
    return dict(named)


def column_name(given: object) -> str:
    """Return the name of a public column, which is given by its name or by an expression."""
    if isinstance(given, str):
        return given
    if isinstance(given, pl.Expr):
        try:
            return given.meta.output_name()
        except pl.exceptions.PolarsError:
            pass
    raise UsageError(
        f"A public column is {quoted(given)}, which has no single name.",
        allowed="the name of a column, or an expression with one",
        instead='pl.col("hour").dt.truncate("1d").alias("day")',
    )


def answer_name(name: object, values: Values, what: str) -> str:
    """Return the name of an answer; by default that of its values, or of their column and the query."""
    default = values.name if values.name is not None else f"{values.column}_{what}"
    return read_name(name, default)


def read_name(name: object, default: str) -> str:
    """Return the name of an answer, `default` if none is given."""
    if name is None:
        return default
    written = isinstance(name, str) and name.encode(errors="ignore").decode()
    if not written or written != name:
        raise UsageError(
            f"name is {quoted(name)}.",
            allowed="a text that can be written",
            instead=f'name="{default}"',
        )
    return written
