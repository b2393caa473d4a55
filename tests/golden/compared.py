"""What was recorded, stored and compared: texts and whole numbers exactly, floats closely or bit for bit."""

import json
import lzma
import math
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from readings import BITS

GOLDEN = Path(__file__).parent / "golden.jsonl.xz"
"""All cases but those that are recorded in files of their own, a line of JSON for each."""
LEGIBLE = Path(__file__).parent / "recorded"
"""The cases of the default tests, for review: a file of JSON for each, texts as lists of their lines."""
CLOSE = 1e-12
_TEXT = "text, line by line"
_FLOAT = re.compile(r"(-?\d+\.\d+(?:e[+-]?\d+)?|-?\d+e[+-]?\d+)(?![\w.])")
_HASH = re.compile(r"\b[0-9a-f]{32,64}\b|\bpf1-[0-9a-f]{32}\b")
_DIGITS = 12
_SHOWN = 400


def stored(record: Any) -> Any:
    """Return a record without what is compared on one machine only."""
    if isinstance(record, dict):
        return {name: stored(one) for name, one in record.items() if not name.endswith(BITS)}
    return [stored(one) for one in record] if isinstance(record, list) else record


def write(records: Mapping[str, Any], legible: Collection[str]) -> None:
    """Keep records: some in files of their own, the others compressed."""
    shutil.rmtree(LEGIBLE, ignore_errors=True)
    for name in legible:
        place = place_of(name, LEGIBLE, ".json")
        place.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(
            {"name": name, "recorded": _as_lines(stored(records[name]))},
            ensure_ascii=False,
            indent=1,
        )
        place.write_text(text + "\n", encoding="utf-8")
    rest = [
        json.dumps([name, stored(one)], ensure_ascii=False) + "\n"
        for name, one in records.items()
        if name not in legible
    ]
    GOLDEN.write_bytes(lzma.compress("".join(rest).encode(), preset=9 | lzma.PRESET_EXTREME))


def read() -> dict[str, Any]:
    """Return the recorded cases."""
    files = [json.loads(place.read_text(encoding="utf-8")) for place in LEGIBLE.rglob("*.json")]
    rest = dict(map(json.loads, lzma.decompress(GOLDEN.read_bytes()).decode().splitlines()))
    return {one["name"]: _as_text(one["recorded"]) for one in files} | rest


def place_of(name: str, folder: Path, suffix: str) -> Path:
    """Return the file of a case: a folder for each kind of cases."""
    kind, _, rest = name.partition("/")
    return folder / kind / (re.sub(r"[^a-z0-9]+", "-", rest) + suffix)


def _as_lines(record: Any) -> Any:
    """Return a record whose texts of several lines are lists of lines."""
    if isinstance(record, str) and "\n" in record:
        return {_TEXT: record.split("\n")}
    if isinstance(record, dict):
        return {name: _as_lines(one) for name, one in record.items()}
    return [*map(_as_lines, record)] if isinstance(record, list) else record


def _as_text(record: Any) -> Any:
    if isinstance(record, dict):
        if list(record) == [_TEXT]:
            return "\n".join(record[_TEXT])
        return {name: _as_text(one) for name, one in record.items()}
    return [*map(_as_text, record)] if isinstance(record, list) else record


def differences(expected: Any, found: Any, close: float = CLOSE) -> list[str]:
    """Return a line for each thing in which two records differ.

    Floats may differ in their last bits, in texts too, as machines do. A hash may differ only where some float of the
    record does: it may be made of it.
    """
    comparison = _Comparison(close)
    comparison.compare(
        "", json.loads(json.dumps(stored(expected))), json.loads(json.dumps(stored(found)))
    )
    return comparison.lines if comparison.bits_differ else [*comparison.lines, *comparison.hashes]


class _Comparison:
    def __init__(self, close: float) -> None:
        self.lines, self.hashes, self.bits_differ = list[str](), list[str](), False
        self._close = close

    def compare(self, path: str, expected: Any, found: Any) -> None:
        """Compare two trees."""
        if isinstance(expected, dict) and isinstance(found, dict):
            self._compare_by_name(path, expected, found)
        elif isinstance(expected, list) and isinstance(found, list):
            if len(expected) != len(found):
                self._differ(path, f"{len(expected)} of them", f"{len(found)} of them")
            for place, (one, other) in enumerate(zip(expected, found, strict=False)):
                self.compare(f"{path}[{place}]", one, other)
        elif isinstance(expected, str) and isinstance(found, str):
            self._compare_texts(path, expected, found)
        elif type(expected) is not type(found):
            self._differ(path, repr(expected), repr(found))
        elif isinstance(expected, float):
            self._compare_floats(path, expected, found)
        elif expected != found:
            self._differ(path, repr(expected), repr(found))

    def _compare_by_name(self, path: str, expected: dict[str, Any], found: dict[str, Any]) -> None:
        """Compare values of the same names; names that are hashes may differ as hashes do, and then stand elsewhere."""
        if list(expected) != list(found) and all(map(_HASH.fullmatch, [*expected, *found])):
            self.hashes.append(f"{path}: names are other hashes")
            self.compare(
                path,
                sorted(expected.values(), key=_without_digits),
                sorted(found.values(), key=_without_digits),
            )
            return
        if list(expected) != list(found):
            self._differ(path, f"keys {list(expected)}", f"keys {list(found)}")
        for name in expected.keys() & found.keys():
            self.compare(f"{path}/{name}", expected[name], found[name])

    def _compare_floats(self, path: str, expected: float, found: float) -> None:
        if expected == found or (math.isnan(expected) and math.isnan(found)):
            return
        if math.isclose(expected, found, rel_tol=self._close, abs_tol=0.0):
            self.bits_differ = True
        else:
            self._differ(path, repr(expected), repr(found))

    def _compare_texts(self, path: str, expected: str, found: str) -> None:
        if expected == found:
            return
        if _HASH.findall(expected) != _HASH.findall(found):  # whose digits may look like a float's
            self.hashes.append(f"{path}: a hash is another: {' … '.join(_where(expected, found))}")
        parts, others = (_FLOAT.split(_HASH.sub("#", text)) for text in (expected, found))
        if len(parts) != len(others):
            self._differ(path, *_where(expected, found))
            return
        for place, (one, other) in enumerate(zip(parts, others, strict=True)):
            if one == other:
                continue
            if not place % 2 or max(_digits(one), _digits(other)) < _DIGITS:
                self._differ(path, *_where(expected, found))
                return
            self._compare_floats(path, float(one), float(other))

    def _differ(self, path: str, expected: str, found: str) -> None:
        self.lines.append(f"{path}:\n    was {expected[:_SHOWN]}\n    is  {found[:_SHOWN]}")


def _without_digits(value: Any) -> str:
    """Return a text that machines agree on, which orders values."""
    return _HASH.sub("#", _FLOAT.sub(lambda number: f"{float(number[0]):.6g}", json.dumps(value)))


def _digits(number: str) -> int:
    return len(number.partition("e")[0].replace(".", "").lstrip("-0"))


def _where(expected: str, found: str) -> tuple[str, str]:
    """Return the first stretches in which two texts differ."""
    pairs = zip(expected, found, strict=False)
    at = next(
        (place for place, (one, other) in enumerate(pairs) if one != other),
        min(len(expected), len(found)),
    )
    start = max(at - 60, 0)
    return repr(expected[start : at + 120]), repr(found[start : at + 120])


def lines(record: Any, path: str = "") -> Iterator[str]:
    """Yield a record as lines of text, floats in hexadecimal digits: equal bits make equal lines."""
    if isinstance(record, dict):
        for name, one in record.items():
            yield from lines(one, f"{path}/{name}")
        if not record:
            yield f"{path} = {{}}"
    elif isinstance(record, list):
        if all(not isinstance(one, dict | list) for one in record):
            yield f"{path} = [{', '.join(map(_leaf, record))}]"
        else:
            for place, one in enumerate(record):
                yield from lines(one, f"{path}[{place}]")
    elif isinstance(record, str) and "\n" in record:
        yield f"{path} ="
        yield from (f"    {line}" for line in record.split("\n"))
    else:
        yield f"{path} = {_leaf(record)}"


def _leaf(value: Any) -> str:
    return value.hex() if isinstance(value, float) else repr(value)
