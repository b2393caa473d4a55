"""Values of the public API as plain trees of texts and numbers, and a world in which all of them repeat."""

import contextlib
import datetime as dt
import enum
import hashlib
import html.parser
import json
import os
import random
import re
import sqlite3
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import numpy as np
import polars as pl

import pufferflow as pf

BITS = "(bits)"
"""Ends the names of what is compared bit for bit on one machine only: digests of files with figures, and the like."""
_SLOWER = 1000


@contextlib.contextmanager
def repeatable() -> Iterator[None]:
    """Let bits of the operating system be the same each time, and time limits be far away.

    Noise is made of `os.urandom` alone, which is replaced for the library: others ask for bits when they are loaded.
    """
    real, clock, bits = os.urandom, time.monotonic, random.Random(7)  # noqa: S311 - so that they repeat

    def urandom(size: int) -> bytes:
        asking = sys._getframe(1).f_globals.get("__name__", "")
        return bits.randbytes(size) if asking.partition(".")[0] == "pufferflow" else real(size)

    def slower() -> float:
        return clock() / _SLOWER

    with (
        mock.patch.object(os, "urandom", urandom),
        mock.patch.object(time, "monotonic", slower),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        yield


def outcome(make: Callable[[], Any]) -> Any:
    """Return what a function gives as a plain tree, or the class and the text of its error."""
    try:
        return plain(make())
    except Exception as error:  # noqa: BLE001 - whatever it is, it must stay so
        return {"error": type(error).__name__, "text": str(error)}


def attributes(value: Any, *names: str, **made: Callable[[], Any]) -> dict[str, Any]:
    """Return the attributes of a value, and the results of its methods, each by its name."""
    found = {name: outcome(lambda name=name: _called(getattr(value, name))) for name in names}
    return found | {name: outcome(make) for name, make in made.items()}


def _called(value: Any) -> Any:
    return value() if callable(value) else value


def plain(value: Any) -> Any:  # noqa: C901, PLR0911, PLR0912 - one answer for each kind of value
    """Return a value as dicts, lists, texts, numbers, booleans and None."""
    match value:
        case pf.Distance():
            return {"value": float(value), "certainty": value.certainty.value, "note": value.note}
        case pf.Noise() | pf.Bound():
            return repr(value)
        case pf.Guarantee():
            return value.to_json()
        case pf.Calibration():
            return _calibration(value)
        case pf.AccountForecast():
            return attributes(value, "total", "guarantee", "rule", "releases", "fits", "note")
        case pf.Composed():
            return attributes(value, "guarantee", "rule", "adaptive", "note") | {
                "repr": repr(value)
            }
        case pl.DataFrame():
            return {
                "dtypes": [str(one) for one in value.dtypes],
                "columns": plain(value.to_dict(as_series=False)),
            }
        case enum.Enum():
            return plain(value.value)
        case None | bool() | str():
            return value
        case np.generic() | np.ndarray():
            return plain(value.tolist())
        case int() | float():
            return value
        case Fraction() | dt.datetime() | dt.date() | dt.timedelta() | Path():
            return str(value)
        case bytes():
            return plain_text(value.decode())
        case msgspec.Struct():
            return msgspec.json.encode(value, order="sorted").decode()
        case Mapping():
            return {str(name): plain(one) for name, one in value.items()}
        case tuple() | list():
            return [plain(one) for one in value]
        case _:
            return repr(value)


def plain_text(text: str) -> str:
    """Return a text without the version of the library, which certificates name."""
    return re.sub(r'"library":"[^"]*"', '"library":"<version>"', text)


def _calibration(found: pf.Calibration) -> dict[str, Any]:
    pair = found.witness
    return {
        "repr": repr(found),
        "scale": found.noise.scale,
        "loss": found.loss,
        "sensitivity": found.sensitivity,
        "bound": repr(found.bound),
        "certainty": found.certainty.value,
        "note": found.note,
        "secrets": plain(getattr(pair, "secrets", None)),
        "prior": repr(getattr(pair, "prior", None)),
        "laws": [repr(getattr(pair, name, None)) for name in ("mu", "nu")],
    }


def digest(body: str | bytes) -> str:
    """Return a short name of a text, which changes with any of its bits."""
    return hashlib.sha256(body if isinstance(body, bytes) else body.encode()).hexdigest()[:16]


_OWN = re.compile(r"pf1-[0-9a-f]{8,32}|\b[0-9a-f]{32}\b|\b[0-9a-f]{64}\b|\bat 0x[0-9a-f]+")


def of_one_process(record: Any) -> Any:
    """Return a record without the names that a Python function has in its own process only."""
    if isinstance(record, dict):
        known = {
            _OWN.sub("<own>", name): one for name, one in record.items() if not name.endswith(BITS)
        }
        return {name: of_one_process(one) for name, one in known.items()}
    if isinstance(record, list):
        return [of_one_process(one) for one in record]
    return _OWN.sub("<own>", record) if isinstance(record, str) else record


# Plans and releases


def of_plan(plan: pf.Plan) -> dict[str, Any]:
    """Return all that a plan tells soon; `of_evidence` has what takes longer."""
    return {
        "repr": repr(plan),
        "noises": {
            name: {"noise": repr(noise), "scale": noise.scale, "error": noise.expected_error}
            for name, noise in plan.noises.items()
        },
        **attributes(plan, "guarantee", "ordinary", "rows", "largest_weight", "calibration"),
        **attributes(plan, "explain", "summary", "value_handling", "check"),
        "certificate": of_certificate(plan.certificate),
        "cost": plain(plan.cost),
    }


def of_certificate(certificate: pf.Certificate) -> dict[str, Any]:
    """Return a certificate as it is stored, as it is shown, and what names it."""
    again = pf.Certificate.from_json(certificate.to_json())
    return {
        "json": plain_text(certificate.to_json()),
        "text": str(certificate),
        "digest": certificate.digest,
        "same": again == certificate,
    }


def of_evidence(plan: pf.Plan) -> dict[str, Any]:
    """Return what a page of a plan tells, as plain values."""
    return attributes(
        plan,
        "compare",
        evidence=lambda: plan.evidence(
            job="daily", period="2024-01-01", dataset="meters"
        ).to_json(),
        moved=lambda: pf.robustness(plan, 0.5),
        ratio=lambda: pf.robustness(plan, ratio=0.1),
    )


def of_release(release: pf.Release) -> dict[str, Any]:
    """Return all that a release tells, its noisy numbers too: they repeat where the bits of the system do."""
    clipped = outcome(lambda: attributes(release.clipped(), "frame", "intervals"))
    return {
        **attributes(release, "frame", "intervals", "limits"),
        "clipped": clipped,
        "certificate": of_certificate(release.certificate),
        "repr": repr(release).rpartition("\n")[2],
        f"bytes {BITS}": digest(release.to_bytes()),
    }


# What is written to files


class _Page(html.parser.HTMLParser):
    """The words of a page, and its elements but for those of figures."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.elements, self._inside = list[str](), list[str](), ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if not self._inside:
            marks = {
                name: value
                for name, value in attrs
                if name in ("id", "class", "href", "aria-label")
            }
            self.elements.append(
                " ".join([tag, *(f"{name}={value}" for name, value in marks.items())])
            )
        if tag in ("svg", "style", "script") and not self._inside:
            self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        if tag == self._inside:
            self._inside = ""

    def handle_data(self, data: str) -> None:
        if data.strip() and not self._inside:
            self.words.append(" ".join(data.split()))


def of_page(text: str, folder: Path) -> dict[str, Any]:
    """Return a page: its words, its elements, and a digest of every bit of it but for times and places."""
    page = _Page()
    page.feed(text)
    settled = without_times(text, folder)
    return {
        "words": without_times("\n".join(page.words), folder),
        "elements": "\n".join(page.elements),
        f"page {BITS}": digest(settled),
    }


_SINCE = re.compile(
    r"(?P<day>20\d\d-\d\d-\d\d)(?P<time>[ T]\d\d:\d\d(:\d\d(\.\d+)?)?( ?UTC|Z|[+-]\d\d:\d\d)?)?"
)

_LAST_EXAMPLE = dt.date(2026, 11, 24)
"""Days up to it are examples in texts: whoever compares does so later."""


def without_times(text: str, folder: Path) -> str:
    """Return a text without the times of today or near it, and without the folder in which it was made."""
    today = dt.datetime.now(dt.UTC).date()

    def one(found: re.Match[str]) -> str:
        try:
            day = dt.date.fromisoformat(found["day"])
        except ValueError:
            return found[0]
        return (
            "<now>"
            if day > _LAST_EXAMPLE and abs(day - today) <= dt.timedelta(days=8)
            else found[0]
        )

    return _SINCE.sub(one, plain_text(text).replace(str(folder), "<folder>"))


def of_database(path: Path, folder: Path) -> dict[str, Any]:
    """Return the tables of a ledger as they lie in its file; hashes have names, since they depend on times."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as line:
        tables = line.execute(
            "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name"
        ).fetchall()
        events = line.execute(
            "SELECT number, body, hash FROM pufferflow_events ORDER BY number"
        ).fetchall()
        shapes = line.execute(
            "SELECT digest, body FROM pufferflow_shapes ORDER BY digest"
        ).fetchall()
        payloads = line.execute(
            "SELECT digest, body FROM pufferflow_payloads ORDER BY digest"
        ).fetchall()
        steps = line.execute("SELECT number FROM pufferflow_migrations ORDER BY number").fetchall()
    before, linked = "0" * 64, list[bool]()
    for _, body, found in events:
        linked.append(hashlib.sha256(before.encode() + body.encode()).hexdigest() == found)
        before = found
    named = names_of(path)
    bodies = {hashlib.sha256(body).hexdigest(): body for _, body in payloads}
    return {
        "tables": dict(tables),
        "steps": plain(steps),
        "linked": linked,
        "events": [without_times(_named(body, named), folder) for _, body, _ in events],
        "shapes": dict(shapes),
        "shapes named": [
            hashlib.sha256(body.encode()).hexdigest() == known for known, body in shapes
        ],
        "payloads": {
            named[known]: _payload(bodies[known], named) for known in named if known in bodies
        },
        "payloads named": [known in bodies and known in named for known, _ in payloads],
    }


def names_of(path: Path) -> dict[str, str]:
    """Return names for the hashes of a ledger that depend on times: of events, and of the releases that it keeps."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as line:
        events = line.execute(
            "SELECT number, body, hash FROM pufferflow_events ORDER BY number"
        ).fetchall()
    named = {found: f"<hash {number}>" for number, _, found in events}
    for number, body, _ in events:
        event = json.loads(body)
        if "payload" in event:
            named[event["payload"]] = f"<payload {number}>"
    return named


def _named(text: str, named: Mapping[str, str]) -> str:
    return re.sub(r"[0-9a-f]{64}", lambda found: named.get(found[0], found[0]), text)


def of_text(text: str, folder: Path, ledger: Path | None = None) -> str:
    """Return a text without times, places, and hashes that depend on times."""
    named = names_of(ledger) if ledger is not None and ledger.exists() else {}
    shortened = _named(text, named)
    for known, name in named.items():
        shortened = re.sub(rf"{known[:8]}[0-9a-f]*", name, shortened)
    return without_times(shortened, folder)


def _payload(body: bytes, named: Mapping[str, str]) -> dict[str, Any]:
    """Return a stored release: two Arrow files and a certificate."""
    found = msgspec.msgpack.decode(body)
    frames = {name: pl.read_ipc_stream(found[name]) for name in ("frame", "intervals")}
    return {
        "fields": list(found),
        "certificate": plain_text(_named(found["certificate"], named)),
        **{name: plain(frame) for name, frame in frames.items()},
        f"arrow {BITS}": [digest(found[name]) for name in frames],
    }
