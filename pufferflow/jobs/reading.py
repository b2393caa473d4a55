"""Reading a `job.toml`: what is wrong with it is told with its line, and what was probably meant."""

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from pufferflow.errors import Misuse, PufferflowError
from pufferflow.jobs.file import JobFile, check_source
from pufferflow.ledger.address import check_scheme
from pufferflow.suggestions import nearest

_STARTER = "the one that `pufferflow job init` writes, which runs"
_UNKNOWN = re.compile(r"unknown field `(?P<key>[^`]*)`")
_PLACE = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")
_SYNTAX = re.compile(r" \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)$")
_TABLE = re.compile(r"^\s*\[(?P<name>[^\]]+)\]")
_MOST_BYTES, _DEEPEST, _MOST_DOTS, _MOST_DIGITS = 256_000, 32, 200, 400
_DIGITS = re.compile(rf"(?<![0-9_])[0-9_]{{{_MOST_DIGITS + 1}}}")
_BRACKETS = re.compile(r"[\[\]{}]")
_KEY = re.compile(r"""^\s*["']?(?P<key>[A-Za-z0-9_-]+)["']?\s*=""")
_VARIABLE = re.compile(r"\$\{(?P<name>[^}]*)\}")


def read_file(path: Path) -> JobFile:
    """Return what a file says."""
    try:
        with path.open("rb") as file:
            body = file.read(_MOST_BYTES + 1)
        text = None if len(body) > _MOST_BYTES else body.decode("utf-8-sig")
    except FileNotFoundError:
        raise Misuse(f"There is no file {_named(path)}.", allowed="the path of a job file", instead=_STARTER) from None
    except (OSError, UnicodeDecodeError) as error:
        raise Misuse(
            f"{_named(path)} cannot be read: {type(error).__name__}.", allowed="a text file in UTF-8", instead=_STARTER
        ) from None
    if text is None:
        raise Misuse(
            f"{_named(path)} has more than {_MOST_BYTES:,} bytes.",
            allowed=f"a job file of up to {_MOST_BYTES:,} bytes",
            instead=f"{_STARTER}; rows are read from [source]",
        )
    return read_text(text, _named(path))


def read_text(text: str, name: str) -> JobFile:
    """Return what the text of a file says; `name` is what errors call it."""
    found: JobFile | Misuse
    _check_depth(text, name)
    try:
        found = msgspec.toml.decode(text, type=JobFile)
    except msgspec.ValidationError as error:
        found = _not_valid(error, text, name)
    except msgspec.DecodeError as error:
        found = _not_toml(str(error), text, name)
    except (ValueError, RecursionError):  # as of numbers of thousands of digits, which Python does not read
        found = _not_toml("a value that cannot be read (at end of document)", text, name)
    if isinstance(found, Misuse):
        raise found
    return found


def _check_depth(text: str, name: str) -> None:
    """Refuse what would take a reader of TOML very long, or too deep: no job has keys of so many parts, or such lists.

    It is looked for in strings and comments as well, where it is as strange.
    """
    for number, line in enumerate(text.splitlines(), start=1):
        if line.count(".") > _MOST_DOTS:
            raise _too_much(f"{name}, line {number}: more than {_MOST_DOTS} dots")
        if digits := _DIGITS.search(line):
            raise _too_much(f"{name}, line {number}, column {digits.start() + 1}: more than {_MOST_DIGITS} digits")
    depth = 0
    for sign in _BRACKETS.finditer(text):
        depth = depth + 1 if sign[0] in "[{" else max(depth - 1, 0)
        if depth > _DEEPEST:
            number = text.count("\n", 0, sign.start()) + 1
            raise _too_much(f"{name}, line {number}: more than {_DEEPEST} brackets are open")


def _too_much(problem: str) -> Misuse:
    return Misuse(
        f"{problem}.", allowed=f"keys of up to four parts, and lists of up to {_DEEPEST} levels", instead=_STARTER
    )


def with_variables(text: str) -> str:
    """Return a text in which each ${NAME} is what the environment says; passwords need not stand in files."""

    def value(match: re.Match[str]) -> str:
        name = match["name"]
        if not os.environ.get(name):
            raise Misuse(
                f"The environment has no variable {name[:60]!r}, or an empty one, and the job file asks for it.",
                allowed="variables that are set where the job runs",
                instead=f"export {name[:60]}=…",
            )
        return os.environ[name]

    return _VARIABLE.sub(value, text)


def check_addresses(file: JobFile) -> None:
    """Refuse addresses that lead nowhere once their variables are known; what the environment lacks is left open."""
    checks = (
        (file.sink.path, file.sink.at),
        (file.ledger.address, check_scheme),
        (file.source.path or "", check_source),
    )
    for text, check in checks:
        known = ""
        with suppress(Misuse):
            known = with_variables(text)
        check(known)


def schema() -> dict[str, Any]:
    """Return the JSON schema of a job file, by which editors check and complete it."""
    found = msgspec.json.schema(JobFile)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A pufferflow job", **found}


def _not_toml(problem: str, text: str, name: str) -> Misuse:
    where = _SYNTAX.search(problem)
    what = problem[: where.start()] if where else problem
    lines = text.splitlines() or [""]
    line = int(where["line"]) if where and where["line"] else len(lines)
    column = int(where["column"]) if where and where["column"] else len(lines[-1]) + 1
    return Misuse(
        f"{name}, line {line}, column {column}: {what[:1].lower()}{what[1:]}.",
        allowed="TOML",
        instead=f"a look at that line: {_cut(lines[min(line, len(lines)) - 1])}",
    )


def _not_valid(error: msgspec.ValidationError, text: str, name: str) -> Misuse:
    """Return the error with the line of the key that it is about, or of the table that should have had it."""
    found = _PLACE.search(str(error))
    path = [part for part in (found["path"] if found else "").split(".") if part]
    problem = str(error)[: found.start()] if found else str(error)
    unknown = _UNKNOWN.search(problem)
    if unknown:
        return _unknown_key(unknown["key"], path, text, name)
    where = f"{name}{_line_of(text, path)}"
    key = ".".join(path) or "the file"
    cause = error.__cause__
    if isinstance(cause, PufferflowError):
        return Misuse(f"{where}: {cause.problem}", allowed=cause.allowed, instead=cause.instead)
    problem = problem.replace("Object missing required field", "missing")
    return Misuse(f"{where}: {key}: {problem}.", allowed=_kind_of(path), instead=_STARTER)


def _unknown_key(key: str, path: Sequence[str], text: str, name: str) -> Misuse:
    known = _keys(path)
    near = nearest(key, known, cutoff=0.5)
    table = f" in [{'.'.join(path)}]" if path else ""
    return Misuse(
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


def _keys(path: Sequence[str]) -> list[str]:
    part = _part(path)
    return [] if part is None else [field.name for field in msgspec.structs.fields(part)]


def _part(path: Sequence[str]) -> Any:
    """Return the struct that stands at a path of the file."""
    part: Any = JobFile
    for name in path:
        hint = get_type_hints(part).get(name)
        hints = get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)
        part = next((one for one in hints if isinstance(one, type) and issubclass(one, msgspec.Struct)), None)
        if part is None:
            return None
    return part


def _kind_of(path: Sequence[str]) -> str:
    """Say what may stand at a path, as far as the schema has words for it."""
    for field in msgspec.structs.fields(_part(path[:-1]) or JobFile) if path else ():
        if field.name == path[-1]:
            told = msgspec.json.schema(field.type)
            whole: dict[str, Any] = {key: value for one in told.get("anyOf", [told]) for key, value in one.items()}
            kinds = ", ".join(map(str, whole.get("enum", ())))
            return kinds or str(whole.get("description", whole.get("type", "")))
    return ", ".join(_keys(path))


def _cut(line: str) -> str:
    return line if len(line) <= 60 else f"{line[:60]}…"


def _named(path: Path) -> str:
    return str(path)[-200:]
