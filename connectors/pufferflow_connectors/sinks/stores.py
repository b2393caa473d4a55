"""Object stores: their addresses, how they are opened, and their errors in plain words.

Credentials come from the environment, as the store's own tools read them, or from options; none is in an address.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import pufferflow as pf
from pufferflow.plugins import sandboxed
from pufferflow_connectors.sinks.failures import check_installed, kind_of

if TYPE_CHECKING:
    from obstore.store import ObjectStore

SCHEMES: Final = ("s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss", "file")
_OF_CLIENTS: Final = {
    *("allow_http", "allow_invalid_certificates", "connect_timeout", "proxy_url", "proxy_ca_certificate"),
    *("proxy_excludes", "timeout", "user_agent"),
}
"""Options of connections, which are not the store's own."""
_WORDS: Final = {"true": True, "false": False}
_RETRIES: Final[Any] = {"max_retries": 3, "retry_timeout": timedelta(seconds=60)}
_REASONS: Final = {
    "AlreadyExistsError": "another file is in its place",
    "FileNotFoundError": "there is no such bucket or container",
    "NotImplementedError": "it has no conditional puts, or they are switched off",
    "NotSupportedError": "it has no conditional puts",
    "PermissionDeniedError": "the store does not permit it",
    "PermissionError": "the store does not permit it",
    "UnauthenticatedError": "the store does not accept the credentials",
}


def check_store_address(address: str) -> str:
    """Return an address of an object store; an error for others shows no part of it, since it may hold a password."""
    scheme = address.partition("://")[0].lower()
    problem = ""
    try:
        parts = urlsplit(address)
        if scheme not in SCHEMES or "://" not in address:
            problem = "names no object store"
        elif parts.query or parts.fragment or parts.password is not None or (parts.username and scheme[:4] != "abfs"):
            problem = "has more in it than a bucket and a path"
        elif not (parts.netloc or scheme == "file") or (scheme == "file" and (parts.netloc or len(parts.path) < 2)):
            problem = "names no bucket" if scheme != "file" else "names no folder of this machine"
    except ValueError:
        problem = "cannot be read"
    if problem:
        raise pf.UsageError(
            f"The address of the sink {problem}.",
            allowed=f"{', '.join(f'{name}://' for name in SCHEMES)}; credentials in the environment, or in options",
            instead='address = "s3://bucket/published", with [sink.options] aws_secret_access_key = "${SECRET}"',
        )
    return address


def store_of(address: str, options: Mapping[str, Any]) -> "ObjectStore":
    """Return an opened store; no request is sent yet."""
    check_installed("obstore", "objects")
    from obstore.store import LocalStore, from_url

    if (folder := _local(address)) is not None:
        return LocalStore(folder, mkdir=True)
    client = {key: _typed(value) for name, value in options.items() if (key := _of_client(name))}
    config = {name: str(value) for name, value in options.items() if not _of_client(name)}
    given: dict[str, Any] = {  # which keys there are depends on the store, and is checked there
        "config": config or None,
        "client_options": {"timeout": "60s", "connect_timeout": "10s", **client},
        "retry_config": _RETRIES,
    }
    opened: Callable[..., Any] = from_url
    return sandboxed(lambda: opened(address, **given), _not_opened)


def is_absent(address: str) -> bool:
    """Return whether an address is of a folder that is not there, which opening it would make."""
    folder = _local(address)
    return folder is not None and not folder.is_dir()


def reason_of(error: Exception) -> str:
    """Return a store's error in plain words; empty where only its class can be shown."""
    text, kind = str(error), kind_of(error)
    if kind == "GenericError":  # whose words quote addresses and answers, and are read here only
        if "NotImplemented" in text or "501 " in text:
            return _REASONS["NotSupportedError"]
        if "NoSuchBucket" in text or "404 " in text:
            return _REASONS["FileNotFoundError"]
        if "error sending request" in text:
            return "it cannot be reached"
    return _REASONS.get(kind, "")


def _local(address: str) -> Path | None:
    parts = urlsplit(address)
    return Path(unquote(parts.path)) if parts.scheme.lower() == "file" else None


def _of_client(name: str) -> str:
    """Return the name of an option of connections; empty for the store's own."""
    plain = name.lower()
    for start in ("aws_", "google_", "azure_"):
        plain = plain.removeprefix(start)
    return plain if plain in _OF_CLIENTS else ""


def _typed(value: object) -> object:
    return _WORDS.get(value.lower(), value) if isinstance(value, str) else value


def _not_opened(kind: str) -> pf.UsageError:
    return pf.UsageError(
        f"The object store of the sink could not be opened: {kind}.",
        allowed="options as the store has them, such as aws_region, aws_endpoint_url, aws_access_key_id, allow_http; "
        "an account for Azure",
        instead='[sink.options] aws_region = "eu-central-1"',
    )
