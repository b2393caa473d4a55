"""The sink that is an object store: files under a name for each release, of which the certificate is written last.

Each file is put if there is none of its name, which the store decides. Files of numbers are named after the ledger's
entry. So files of a killed process are never taken for those of another release's certificate. Without a certificate
nothing was published. Credentials come from the environment, as the store's own tools read them, or from options; none
is in an address.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, TypeVar, final
from urllib.parse import unquote, urlsplit

import polars as pl
from msgspec import Meta

import pufferflow as pf
from pufferflow.plugins import (
    CERTIFICATE,
    MOST_NEW,
    PAGE,
    Copy,
    Options,
    Parts,
    Sink,
    TomlTable,
    check_format,
    entry_in,
    files_of,
    looked_up,
    other_release,
    place_taken,
    read_parts,
    resolved,
    rows_of_releases,
    sandboxed,
    table_differences,
    with_variables,
)
from pufferflow_connectors.sinks.failures import attempt, check_installed, kind_of

if TYPE_CHECKING:
    from obstore.store import ObjectStore


T = TypeVar("T")
_ONCE: Final = ".pufferflow-once"
"""An object that is put twice, to see whether the store keeps the first."""
_DIGITS: Final = 16


@final
class ObjectTable(TomlTable, frozen=True):
    """Where releases go: an object store, with a name for each period below the address."""

    address: Annotated[
        str, Meta(min_length=1, description="s3://bucket/published, gs://…, az://…, file:///…")
    ]
    format: Literal["parquet", "csv", "ndjson"] = "parquet"
    report: Annotated[
        bool, Meta(description="whether a report for people is written beside the numbers")
    ] = True
    options: Options | None = None

    def check_address(self) -> None:
        if address := resolved(self.address):
            check_store_address(address)

    def check_columns(self, columns: pl.Schema) -> None:
        check_format(columns, self.format)

    def open(self, folder: Path, job: str) -> "ObjectSink":
        address = check_store_address(with_variables(self.address))
        return ObjectSink(address, looked_up(self.options), self)


@final
class ObjectSink(Sink):
    """Releases of a job in an object store: `label/certificate.json`, and beside it the files that it certifies."""

    noun: ClassVar = "folder"

    def __init__(self, address: str, options: Mapping[str, Any], table: ObjectTable) -> None:
        self._address, self._options, self._table = address.rstrip("/"), options, table

    @property
    def root(self) -> str:
        return self._address

    def place(self, label: str) -> str:
        return f"{self._address}/{label}"

    def has(self, label: str) -> bool:
        return self._attempt(lambda: self._exists(f"{label}/{CERTIFICATE}"))

    def newest(self) -> Iterator[tuple[str, str]]:
        """Yield the newest releases by their periods, then by when they were written."""
        certificates = [
            (path.rpartition("/")[0], one["last_modified"])
            for one in self._attempt(lambda: self._listed(""))
            if (path := one["path"]).count("/") == 1 and path.endswith(f"/{CERTIFICATE}")
        ]
        by_name = sorted(certificates)[-MOST_NEW:]
        by_time = sorted(certificates, key=lambda one: one[1])[-MOST_NEW:]
        for label in dict.fromkeys(label for label, _ in [*by_name[::-1], *by_time[::-1]]):
            yield (
                self.place(label),
                entry_in(self._attempt(partial(self._body, f"{label}/{CERTIFICATE}")) or b""),
            )

    def copies(self) -> Iterable[Copy]:
        labels = self._labels()
        return [
            Copy(
                label,
                self.place(label),
                self._attempt(partial(self._body, f"{label}/{CERTIFICATE}")),
                partial(self._differences, label),
            )
            for label in labels
        ]

    def rows(self, *, insert: bool = False) -> pl.DataFrame | None:
        """Return the rows of all releases with a certificate, which is written last."""
        found = [
            (label, self.place(label), partial(self._parts, label)) for label in self._labels()
        ]
        return rows_of_releases(found, insert=insert)

    def prepare(self, columns: pl.Schema) -> None:
        """Refuse a store that would let a second file take the place of the first."""
        self._attempt(self._check_once)

    def send(self, label: str, release: pf.Release) -> bool:
        files = files_of(release, self._table.format)
        return self._attempt(lambda: self._send(label, release, files))

    def lacks_page(self, label: str) -> bool:
        return self._table.report and not self._attempt(lambda: self._exists(f"{label}/{PAGE}"))

    def add(self, label: str, name: str, body: bytes) -> None:
        self._attempt(lambda: self._replace(f"{label}/{name}", body))

    # Releases

    def _send(self, label: str, release: pf.Release, files: Mapping[str, bytes]) -> bool:
        self._check_once()
        certificate, stored = self._certificate(label, release), self._tables(label, release)
        published = certificate is not None
        if certificate == files[CERTIFICATE] and not table_differences(
            stored, stored.__getitem__, release
        ):
            return False
        for name, body in files.items():
            if name != CERTIFICATE:
                self._put_numbers(label, name, body, release, published=published)
        return self._put_certificate(label, files[CERTIFICATE], release) or published

    def _certificate(self, label: str, release: pf.Release) -> bytes | None:
        """Return the certificate that is there, if one is; another release's is refused."""
        stored = self._body(f"{label}/{CERTIFICATE}")
        if stored is not None and (theirs := other_release(stored, release)):
            raise place_taken(self.noun, self.place(label), theirs, release)
        return stored

    def _put_numbers(
        self, label: str, name: str, body: bytes, release: pf.Release, *, published: bool
    ) -> None:
        """Put a file unless it is there; an incomplete file of a killed process is replaced, if it is not published."""
        path = f"{label}/{_stored_name(name, release)}"
        if self._put_new(path, body) or self._body(path) == body:
            return
        stored = self._tables(label, release)
        if any(
            line.startswith(name) for line in table_differences(stored, stored.__getitem__, release)
        ):
            if published:
                raise place_taken(self.noun, self.place(label), "other numbers", release)
            self._replace(path, body)

    def _put_certificate(self, label: str, body: bytes, release: pf.Release) -> bool:
        """Publish a release; of several that do so at once, one does. A damaged certificate is replaced."""
        path = f"{label}/{CERTIFICATE}"
        if self._put_new(path, body):
            return True
        stored = self._body(path) or b""
        if theirs := other_release(stored, release):
            raise place_taken(self.noun, self.place(label), theirs, release)
        if stored != body:
            self._replace(path, body)
        return stored != body

    def _tables(self, label: str, release: pf.Release) -> dict[str, bytes]:
        """Return the files of a release's numbers that are there, by the names that they have in folders."""
        return self._files(label, release.certificate.entry)

    def _labels(self) -> list[str]:
        """Return the labels of all releases with a certificate, in order."""
        paths = [one["path"] for one in self._attempt(lambda: self._listed(""))]
        ends = f"/{CERTIFICATE}"
        return sorted(path.removesuffix(ends) for path in paths if path.endswith(ends))

    def _parts(self, label: str) -> Parts:
        """Return a release, of which the certificate names the files."""
        certificate = self._attempt(lambda: self._body(f"{label}/{CERTIFICATE}")) or b""
        stored = self._attempt(lambda: self._files(label, entry_in(certificate)))
        return read_parts(
            {*stored, CERTIFICATE}, lambda name: {**stored, CERTIFICATE: certificate}[name]
        )

    def _files(self, label: str, entry: str | None) -> dict[str, bytes]:
        ours = f".{_tag(entry)}."
        names = [
            path.rpartition("/")[2]
            for path in (one["path"] for one in self._listed(label))
            if ours in path
        ]
        bodies = {name.replace(ours, ".", 1): self._body(f"{label}/{name}") for name in names}
        return {name: body for name, body in bodies.items() if body is not None}

    def _differences(self, label: str, release: pf.Release) -> list[str]:
        stored = self._attempt(lambda: self._tables(label, release))
        return table_differences(stored, stored.__getitem__, release)

    # Objects

    @cached_property
    def _store(self) -> "ObjectStore":
        return store_of(self._address, self._options)

    def _put_new(self, path: str, body: bytes) -> bool:
        """Put an object unless there is one, and return whether it was put: the store decides."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        try:
            obstore.put(self._store, path, body, mode="create", use_multipart=False)
        except AlreadyExistsError:
            return False
        return True

    def _replace(self, path: str, body: bytes) -> None:
        import obstore

        obstore.put(self._store, path, body, use_multipart=False)

    def _body(self, path: str) -> bytes | None:
        import obstore

        if is_absent(self._address):
            return None
        try:
            return bytes(obstore.get(self._store, path).bytes())
        except FileNotFoundError:
            return None

    def _exists(self, path: str) -> bool:
        import obstore

        if is_absent(self._address):
            return False
        try:
            obstore.head(self._store, path)
        except FileNotFoundError:
            return False
        return True

    def _listed(self, below: str) -> list[Mapping[str, Any]]:
        import obstore

        if is_absent(self._address):
            return []
        return [dict(one) for one in obstore.list(self._store, below or None).collect()]

    def _check_once(self) -> None:
        if self._put_new(_ONCE, b"") and self._put_new(_ONCE, b""):
            raise pf.UsageError(
                f"The store {self._address[-200:]!r} lets a second file take the place of the first, so that a release "
                "could be published twice.",
                allowed="a store with conditional puts (If-None-Match), as S3, GCS, Azure and newer MinIO have them",
                instead='a newer version of it; or [sink] kind = "folder", or kind = "sql"',
            )

    def _attempt(self, work: Callable[[], T]) -> T:
        return attempt(work, self.root, reason_of)


def _stored_name(name: str, release: pf.Release) -> str:
    """Return the name under which a file of numbers is stored: "release.4f0c….parquet".

    It has the beginning of the hash of the ledger's entry, which the certificate names.
    """
    stem, _, form = name.partition(".")
    return f"{stem}.{_tag(release.certificate.entry)}.{form}"


def _tag(entry: str | None) -> str:
    return (entry or "").rpartition(":")[2][:_DIGITS] or "uncounted"


SCHEMES: Final = ("s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss", "file")
_OF_CLIENTS: Final = {
    *(
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "proxy_url",
        "proxy_ca_certificate",
    ),
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
        elif (
            parts.query
            or parts.fragment
            or parts.password is not None
            or (parts.username and scheme[:4] != "abfs")
        ):
            problem = "has more in it than a bucket and a path"
        elif not (parts.netloc or scheme == "file") or (
            scheme == "file" and (parts.netloc or len(parts.path) < 2)
        ):
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
