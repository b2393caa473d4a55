"""TOML read into typed structs; an error names the line, what is allowed there, and what was probably meant."""

import datetime as dt
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from pufferflow.core.errors import PufferflowError, UsageError
from pufferflow.core.suggestions import nearest

T = TypeVar("T")
_TYPED = {
    ("limit", "Expected `object`, got `float`"): "limit = { epsilon = 2.0 }",
    ("limit", "Expected `object`, got `int`"): "limit = { epsilon = 2.0 }",
    ("epsilon", "Expected `float`, got `str`"): "epsilon = 1.0, without quotation marks",
}
"""What was meant by values of another type, by the key and the problem."""
_STARTER = "the one that `pufferflow job init` writes, which runs"
_RENAMED = {
    "floor": 'row_privacy = true where it was "row", row_privacy = false where it was "none"'
}
"""Keys of older files, and what they are called now."""
_UNKNOWN = re.compile(r"unknown field `(?P<key>[^`]*)`")
_UNLISTED = re.compile(r"^Invalid enum value '(?P<value>.*)'$")
_PLACE = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")
_SYNTAX = re.compile(r" \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)$")
_TABLE = re.compile(r"^\s*\[(?P<name>[^\]]+)\]")
_MOST_BYTES, _DEEPEST, _MOST_DOTS, _MOST_DIGITS = 256_000, 32, 200, 400
_DIGITS = re.compile(rf"(?<![0-9_])[0-9_]{{{_MOST_DIGITS + 1}}}")
_BRACKETS = re.compile(r"[\[\]{}]")
_KEY = re.compile(r"""^\s*["']?(?P<key>[A-Za-z0-9_-]+)["']?\s*=""")
_VARIABLE = re.compile(r"\$\{(?P<name>[^}]*)\}")
_TOML_TYPES = (dt.datetime, dt.date, dt.time)


class TomlTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys of a table."""


def read_file(path: Path) -> str:
    """Return the text of a file."""
    try:
        with path.open("rb") as file:
            body = file.read(_MOST_BYTES + 1)
        text = None if len(body) > _MOST_BYTES else body.decode("utf-8-sig")
    except FileNotFoundError:
        raise UsageError(
            f"There is no file {named(path)}.", allowed="the path of a job file", instead=_STARTER
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{named(path)} cannot be read: {type(error).__name__}.",
            allowed="a text file in UTF-8",
            instead=_STARTER,
        ) from None
    if text is None:
        raise UsageError(
            f"{named(path)} has more than {_MOST_BYTES:,} bytes.",
            allowed=f"a job file of up to {_MOST_BYTES:,} bytes",
            instead=f"{_STARTER}; rows are read from [source]",
        )
    return text


def named(path: Path) -> str:
    """Return a path as errors show it."""
    return str(path)[-200:]


def decode(text: str, name: str, choose: Callable[[dict[str, Any]], type[T]]) -> T:
    """Return the struct of a text; `name` is what errors call it, `choose` gives the type of its plain values.

    `choose` may take a key out of the values that only says which type they are of.
    """
    _check_depth(text, name)
    problem: UsageError
    try:
        values = msgspec.toml.decode(text)
    except msgspec.DecodeError as error:
        problem = _not_toml(str(error), text, name)
    except (
        ValueError,
        RecursionError,
    ):  # as of numbers of thousands of digits, which Python does not read
        problem = _not_toml("a value that cannot be read (at end of document)", text, name)
    else:
        kind = _chosen(choose, values, name)
        try:
            return msgspec.convert(values, kind, str_keys=True, builtin_types=_TOML_TYPES)
        except msgspec.ValidationError as error:
            problem = _not_valid(error, kind, text, name)
    raise problem


def _chosen(
    choose: Callable[[dict[str, Any]], type[T]], values: dict[str, Any], name: str
) -> type[T]:
    try:
        return choose(values)
    except UsageError as error:
        problem = error
    raise UsageError(f"{name}: {problem.problem}", allowed=problem.allowed, instead=problem.instead)


def _check_depth(text: str, name: str) -> None:
    """Refuse text that would take a TOML reader too long or too deep: no job has keys of so many parts, or such lists.

    Strings and comments count as well.
    """
    for number, line in enumerate(text.splitlines(), start=1):
        if line.count(".") > _MOST_DOTS:
            raise _too_much(f"{name}, line {number}: more than {_MOST_DOTS} dots")
        if digits := _DIGITS.search(line):
            raise _too_much(
                f"{name}, line {number}, column {digits.start() + 1}: more than {_MOST_DIGITS} digits"
            )
    depth = 0
    for sign in _BRACKETS.finditer(text):
        depth = depth + 1 if sign[0] in "[{" else max(depth - 1, 0)
        if depth > _DEEPEST:
            number = text.count("\n", 0, sign.start()) + 1
            raise _too_much(f"{name}, line {number}: more than {_DEEPEST} brackets are open")


def _too_much(problem: str) -> UsageError:
    return UsageError(
        f"{problem}.",
        allowed=f"keys of up to four parts, and lists of up to {_DEEPEST} levels",
        instead=_STARTER,
    )


def with_variables(text: str) -> str:
    """Return a text in which each ${NAME} has its value from the environment; passwords need not stand in files."""

    def value(match: re.Match[str]) -> str:
        name = match["name"]
        if not os.environ.get(name):
            raise UsageError(
                f"The job file needs the environment variable {name[:60]!r}, which is missing or empty.",
                allowed="variables that are set where the job runs",
                instead=f"export {name[:60]}=…",
            )
        return os.environ[name]

    return _VARIABLE.sub(value, text)


def resolved(text: str) -> str:
    """Return a text with its variables, or an empty one if the environment lacks one of them."""
    with suppress(UsageError):
        return with_variables(text)
    return ""


def _not_toml(problem: str, text: str, name: str) -> UsageError:
    where = _SYNTAX.search(problem)
    what = problem[: where.start()] if where else problem
    lines = text.splitlines() or [""]
    line = int(where["line"]) if where and where["line"] else len(lines)
    column = int(where["column"]) if where and where["column"] else len(lines[-1]) + 1
    given = lines[min(line, len(lines)) - 1]
    shown = given if len(given) <= 60 else f"{given[:60]}…"
    return UsageError(
        f"{name}, line {line}, column {column}: {what[:1].lower()}{what[1:]}.",
        allowed="TOML",
        instead=f"checking that line: {shown}",
    )


def _not_valid(error: msgspec.ValidationError, kind: type, text: str, name: str) -> UsageError:
    """Return the error with the line of the key that it is about, or of the table that should have had it."""
    place = _PLACE.search(str(error))
    path = [part for part in (place["path"] if place else "").split(".") if part]
    problem = str(error)[: place.start()] if place else str(error)
    unknown = _UNKNOWN.search(problem)
    if unknown:
        return _unknown_key(unknown["key"], path, kind, text, name)
    where = f"{name}{_line_of(text, path)}"
    key = ".".join(path) or "the file"
    cause = error.__cause__
    if isinstance(cause, PufferflowError):
        return UsageError(f"{where}: {cause.problem}", allowed=cause.allowed, instead=cause.instead)
    problem = problem.replace("Object missing required field", "missing").replace(
        " | null", ""
    )  # TOML has no null
    allowed, given = _allowed_at(path, kind), _UNLISTED.search(problem)
    near = nearest(given["value"], allowed.split(", ")) if given else []
    last = key.rpartition(".")[2]
    instead = f'{last} = "{near[0]}"' if near else _TYPED.get((last, problem), _STARTER)
    return UsageError(f"{where}: {key}: {problem}.", allowed=allowed, instead=instead)


def _unknown_key(key: str, path: Sequence[str], kind: type, text: str, name: str) -> UsageError:
    known = _keys(path, kind)
    near = [_RENAMED[key]] if key in _RENAMED else nearest(key, known, cutoff=0.5)
    table = f" in [{'.'.join(path)}]" if path else ""
    return UsageError(
        f"{name}{_line_of(text, [*path, key])}: unknown key {key[:60]!r}{table}.",
        allowed=", ".join(known),
        instead=near[0] if near else "pufferflow job schema, which lists all keys",
    )


def _line_of(text: str, path: Sequence[str]) -> str:
    """Return ", line 3, column 1" for the key of a path, or for the longest part of the path that is there."""
    best, depth = "", 0
    table: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        header, key = _TABLE.match(line), _KEY.match(line)
        if header:
            table = [part.strip().strip("\"'") for part in header["name"].split(".")]
        here = [*table, key["key"]] if key else table
        if (header or key) and len(here) > depth and here == list(path[: len(here)]):
            best, depth = f", line {number}, column {line.index(line.strip()) + 1}", len(here)
    return best


def _keys(path: Sequence[str], kind: type) -> list[str]:
    table = _table(path, kind)
    return [] if table is None else [field.name for field in msgspec.structs.fields(table)]


def _table(path: Sequence[str], kind: type) -> type[msgspec.Struct] | None:
    """Return the struct that stands at a path of a file."""
    table: Any = kind
    for name in path:
        hint = get_type_hints(table).get(name)
        hints = get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)
        table = next(
            (item for item in hints if isinstance(item, type) and issubclass(item, msgspec.Struct)),
            None,
        )
        if table is None:
            return None
    return table


def _allowed_at(path: Sequence[str], kind: type) -> str:
    """Return what may stand at a path, as far as the schema has words for it."""
    for field in msgspec.structs.fields(_table(path[:-1], kind) or kind) if path else ():
        if field.name == path[-1]:
            schema = msgspec.json.schema(field.type)
            parts = [part for part in schema.get("anyOf", [schema]) if part.get("type") != "null"]
            keys: dict[str, Any] = {key: value for part in parts for key, value in part.items()}
            values = ", ".join(map(str, keys.get("enum", ())))
            return values or str(keys.get("description", keys.get("type", "")))
    return ", ".join(_keys(path, kind))
