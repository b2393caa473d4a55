"""Where a ledger is kept: reading what people give."""

import re
from contextlib import suppress
from os import PathLike, fspath
from pathlib import Path
from typing import Any, cast

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from pufferflow.addresses import scheme_of
from pufferflow.errors import Misuse

_ALLOWED = 'a file, a "sqlite:///…" address or a "postgresql+psycopg://…" address'
_INSTEAD = 'pf.Ledger("ledger.db")'
_POSTGRESQL, _SQLITE = {"postgresql", "postgresql+psycopg"}, {"sqlite", "sqlite+pysqlite"}


_WORDS = re.compile(r"(?i)(^|\s)\w*pass\w*\s*=|^\s*(host|hostaddr|port|dbname|user|service)\s*=\s*\S*\s+\w+\s*=")
_LOGIN = re.compile(r"(?![A-Za-z]:[/\\])[^/\\:]*:([^/\\]*@|[^@]*@[^/\\]*/)")
_HARMLESS = re.compile(r"[\w.,\-]+|\[?[0-9A-Fa-f:.%]+\]?", re.ASCII)


def read_address(given: Any) -> URL:
    """Return where a ledger is; files by their whole path, so that changing the folder changes nothing."""
    if isinstance(given, URL):
        return _checked(given)
    kind = type(given).__name__
    text: object = fspath(cast(str, given)) if isinstance(given, str | PathLike) else None
    if not isinstance(text, str):
        raise Misuse(f"The address is of type {kind}.", allowed=_ALLOWED, instead=_INSTEAD)
    check_scheme(text)
    if "://" not in text:
        _check_no_login(text)
        return _file(text)
    url: URL | None = None
    with suppress(ArgumentError, ValueError):  # the text may hold a password
        url = make_url(text)
    if url is None:
        raise Misuse("The address cannot be read.", allowed=_ALLOWED, instead=_INSTEAD)
    return _checked(url)


def shown_address(url: URL) -> str:
    """Return an address as it may be shown: without a password, without options, and without what may be a part of one.

    An address that was not quoted as it should be is read in other parts than were meant, so that a part of the
    password may stand for a user, a host or a database.

    >>> shown_address(URL.create("postgresql+psycopg", "me:secret", "more", "host", 5432, "ledger"))
    'postgresql+psycopg://***:***@host:5432/ledger'
    """
    if url.drivername in _SQLITE:
        return url.database or ""
    user = "" if url.username is None else _harmless(url.username)
    login = f"{user}:***@" if url.password is not None else f"{user}@" if user else ""
    port = "" if url.port is None else f":{url.port}"
    return f"{url.drivername}://{login}{_harmless(url.host or '')}{port}/{_harmless(url.database or '')}"


def _harmless(part: str) -> str:
    return part if not part or _HARMLESS.fullmatch(part) else "***"


def _check_no_login(path: str) -> None:
    """Refuse what was meant for a server and would be a file of that name, which messages show."""
    if _WORDS.search(path) or _LOGIN.match(path):
        raise Misuse(
            "An address of a server that does not say so.",
            allowed=_ALLOWED,
            instead='pf.Ledger("postgresql+psycopg://user@host/ledger"); "./…" for a file of such a name',
        )


def check_scheme(address: str) -> None:
    """Refuse an address with a scheme in which no ledger can be kept; of the rest, which may hold a password, no word.

    >>> check_scheme("ledger.db"), check_scheme("postgresql+psycopg://host/ledger")
    (None, None)
    """
    scheme = scheme_of(address)
    known = {*_POSTGRESQL, *_SQLITE} if "://" in address else set[str]()
    if scheme is not None and scheme not in known:
        raise Misuse(f"A ledger in {scheme!r}.", allowed=_ALLOWED, instead=_INSTEAD)


def _checked(url: URL) -> URL:
    if url.drivername in _POSTGRESQL:
        return url.set(drivername="postgresql+psycopg")
    check_scheme(f"{url.drivername}://")
    if url.query:
        raise Misuse("An address of a file with options.", allowed=_ALLOWED, instead=_INSTEAD)
    return _file(url.database or "")


def _file(path: str) -> URL:
    if path in {"", ":memory:"} or path.startswith("file:"):
        raise Misuse(
            "A ledger in memory forgets what was spent when the process ends.", allowed=_ALLOWED, instead=_INSTEAD
        )
    if "\0" in path:
        raise Misuse("The name of the file has a character that no file has.", allowed=_ALLOWED, instead=_INSTEAD)
    return URL.create("sqlite+pysqlite", database=str(Path(path).absolute()))
