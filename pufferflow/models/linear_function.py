"""The linear function of several columns that a derived secret may be: its factors, as a user gives them."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from pufferflow.core.errors import UsageError
from pufferflow.core.suggestions import did_you_mean
from pufferflow.core.validate import finite_number, quoted
from pufferflow.models.domain import Interval, Product
from pufferflow.models.secret_pairs import WithinDistance

Factors = tuple[tuple[str, float], ...]
_ALLOWED = (
    "a factor other than 0 for each column that it reads, from a list of columns on intervals"
)
_FUNCTION = (
    "of={'paid': 1, 'owed': -1}, column=['paid', 'owed'], "
    "domain=[pf.Interval(0, 9), pf.Interval(0, 9)]"
)


def read_factors(given: object, name: str, column: str | None, tuples: Product | None) -> Factors:
    """Return the factors of the columns, each of which fills an interval."""
    listed = _listed(given, name)
    if tuples is None:
        given = "left out" if column is None else f"only {column!r}"
        raise _refused(f"of is a function of several columns, and column is {given}.", name)
    _check_columns(name, tuples)
    return tuple((_known(one, name, tuples), _factor(one, of, name)) for one, of in listed)


def check_pairs_of_function(pairs: object, values: object) -> None:
    """Refuse values that are listed: a function of columns on intervals takes any value between two."""
    if values is None and (pairs == "all" or isinstance(pairs, WithinDistance)):
        return
    given = "a list of values" if values is not None else f"pairs {quoted(pairs)}"
    raise UsageError(
        f"A linear function of columns is given with {given}.",
        allowed='any two values of it (pairs="all"), or those that are near',
        instead="pairs=pf.WithinDistance(3), or leaving values and pairs out",
    )


def _refused(problem: str, name: str, allowed: str = _ALLOWED) -> UsageError:
    return UsageError(problem, allowed=allowed, instead=f"pf.Derived({name!r}, {_FUNCTION})")


def _listed(given: object, name: str) -> Sequence[tuple[object, object]]:
    """Return pairs of a column and its factor, one or more."""
    pairs: object = given
    if isinstance(given, Mapping):
        pairs = list(cast(Mapping[Any, Any], given).items())
    if not isinstance(pairs, list | tuple):
        raise _refused(f"of is {quoted(pairs)}.", name)
    listed = cast(Sequence[Any], pairs)
    if not listed:
        raise _refused("of is empty.", name)
    if not all(isinstance(one, list | tuple) and len(cast(Any, one)) == 2 for one in listed):
        raise _refused("of has an entry that is no column with its factor.", name)
    if len({repr(one) for one, _ in listed}) < len(listed):
        raise _refused("of gives a column twice.", name)
    return listed


def _check_columns(name: str, tuples: Product) -> None:
    for column, domain in zip(tuples.columns, tuples.domains, strict=True):
        if column == name:
            raise _refused(
                f"The function has the name of one of its columns, {name!r}.",
                f"{name}_function",
                "a name that no column has",
            )
        if not isinstance(domain, Interval):
            raise _refused(
                f"The domain of {column!r} is {domain.describe()}, and no interval.",
                name,
                "pf.Interval(low, high) as the domain of each column",
            )


def _known(given: object, name: str, tuples: Product) -> str:
    known = tuples.columns
    if not isinstance(given, str) or given not in known:
        said = f"of has the key {quoted(given)}, and the columns are {list(known)}."
        raise _refused(f"{said}{did_you_mean(given, known)}", name)
    return given


def _factor(column: object, given: object, name: str) -> float:
    return finite_number(
        given,
        f"of[{column!r}]",
        allowed="a finite number other than 0; columns that are not read, left out",
        instead=f"pf.Derived({name!r}, {_FUNCTION})",
        fits=lambda factor: factor != 0,
    )
