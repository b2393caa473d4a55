"""Addresses given for files and folders: paths of this machine, and addresses with a scheme."""

import re
from os import PathLike, fspath
from pathlib import Path
from typing import cast
from urllib.parse import unquote, urlsplit

from pufferflow.core.errors import UsageError

_SCHEME = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]+):/")
"""Of two letters or more, since C:/ is a drive; with one slash or more, since a `Path` keeps only one."""


def scheme_of(address: str) -> str | None:
    """Return the scheme of an address, None of a path.

    >>> scheme_of("s3://bucket/published"), scheme_of("C:/published"), scheme_of("published/2026")
    ('s3', None, None)
    """
    found = _SCHEME.match(address)
    return None if found is None else found[1]


def local_path(given: object, what: str) -> Path:
    """Return a path of this machine; refuse an address with a scheme, since a folder of that name would be made.

    The error shows only the scheme: the rest may hold a password.
    """
    kind = type(given).__name__
    text: object = fspath(cast(str, given)) if isinstance(given, str | PathLike) else None
    if not isinstance(text, str):
        raise UsageError(f"{what} is of type {kind}.", allowed="a path", instead='"published"')
    scheme = scheme_of(text)
    if scheme is None:
        return Path(text)
    raise UsageError(
        f"{what} is an address with '{scheme}:', to which nothing can be written.",
        allowed="a path of this machine, such as a folder that is mounted or that another program sends on",
        instead=_path_of(text)
        if scheme.lower() == "file"
        else '"published", and sending the folder on afterwards',
    )


def _path_of(address: str) -> str:
    """Return the path that an address of a file means.

    >>> _path_of("file:///data/a%20folder")
    '"/data/a folder"'
    """
    parts = urlsplit(address.strip())
    host = "" if parts.netloc == "localhost" else parts.netloc
    return f'"{host}{unquote(parts.path)[:200]}"'
