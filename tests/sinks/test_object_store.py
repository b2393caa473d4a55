"""The sink that is an object store: the certificate publishes, attempts never mix, and no credential is told."""

import shutil

import obstore
import ons
import polars as pl
import pytest
import sinks
from pufferflow_connectors.sinks.object_store import ObjectSink, ObjectTable, store_of

import pufferflow as pf

LABEL = "2026-11-20"
SECRET = "a-secret-of-the-store"  # noqa: S105 - what must not be told


@pytest.fixture
def release():
    return sinks.release_of(pl.DataFrame({"district": ["north", None]}))


@pytest.fixture
def opened(tmp_path):
    """Open a sink of local files."""
    return lambda **keys: ObjectTable(f"file://{tmp_path}/published", **keys).open(
        tmp_path, sinks.JOB
    )


@pytest.fixture
def published(tmp_path):
    """The folder of the release."""
    return tmp_path / "published" / LABEL


def numbers(folder):
    return sorted(path for path in folder.iterdir() if path.name != "certificate.json")


def test_without_its_certificate_nothing_was_published(opened, published, release):
    """What a process left is no release, and the next run completes it without writing the same anew."""
    opened().send(LABEL, release)
    (published / "certificate.json").unlink()
    before = [path.stat().st_mtime_ns for path in numbers(published)]
    assert not opened().has(LABEL)
    assert (list(opened().newest()), list(opened().copies())) == ([], [])
    assert opened().send(LABEL, release)
    assert [path.stat().st_mtime_ns for path in numbers(published)] == before


def test_what_another_attempt_left_never_mixes(opened, published, release):
    """Files of another release that was not published, and half of a file of ours, are in nobody's way."""
    opened().send(LABEL, sinks.other(release))
    (published / "certificate.json").unlink()
    assert opened().send(LABEL, release)
    (copy,) = opened().copies()
    assert copy.differences(release) == []
    (published / "certificate.json").unlink()
    for path in published.glob("*.abab*"):
        path.write_bytes(path.read_bytes()[:100])
    assert opened().send(LABEL, release)
    assert copy.differences(release) == []


def test_what_another_writes_at_the_same_time_never_mixes(opened, published, release, monkeypatch):
    """Another release's files come between ours and our certificate: what is certified is ours."""
    publish = ObjectSink._put_certificate

    def late(sink, label, body, own):
        if own is not release:
            raise KeyboardInterrupt  # the other process is killed before it publishes
        with pytest.raises(KeyboardInterrupt):
            opened().send(LABEL, sinks.other(release))
        return publish(sink, label, body, own)

    monkeypatch.setattr(ObjectSink, "_put_certificate", late)
    assert opened().send(LABEL, release)
    assert len(numbers(published)) == 4
    (copy,) = opened().copies()
    assert copy.differences(release) == []


def test_what_was_published_is_mended_and_never_replaced(opened, published, release):
    """A file that is gone is written anew, one that was edited is refused, and so is another's certificate."""
    opened().send(LABEL, release)
    for path in numbers(published):
        path.unlink()
        assert opened().send(LABEL, release)
        assert not opened().send(LABEL, release)
    (published / "certificate.json").write_text("{")
    assert opened().send(LABEL, release)
    sinks.edited(release).frame.write_parquet(next(published.glob("release.*")))
    with pytest.raises(pf.UsageError, match="other numbers"):
        opened().send(LABEL, release)
    (copy,) = opened().copies()
    assert copy.differences(release) == ["release.parquet has other numbers, or is damaged"]


@pytest.mark.parametrize("form", ["csv", "ndjson"])
def test_formats_are_those_of_folders(opened, published, release, form):
    """The files have the names of a folder's, with the entry in them; a folder made of them is read back."""
    assert opened(format=form).send(LABEL, release)
    assert not opened(format=form).send(LABEL, release)
    (copy,) = opened().copies()
    assert copy.differences(release) == []
    for path in numbers(published):
        shutil.move(path, published / path.name.replace(".abababababababab", ""))
    assert pf.Release.read(published).frame.equals(release.frame)


@pytest.mark.slow
def test_pages_lie_beside_the_numbers(tmp_path):
    """As they do in folders, unless they are not wanted."""
    keys = (
        'guarantee = { epsilon = 0.6 }\nledger = { account = "ons", limit = { epsilon = 6.0 } }\n'
    )
    sink = f'[sink]\nkind = "object"\naddress = "file://{tmp_path}/published"\n'
    pf.Job.read(ons.write_job(tmp_path, keys + sink)).run("2024-01-01")
    pf.Job.read(ons.write_job(tmp_path, f"{keys}{sink}report = false")).run("2024-01-02")
    names = [
        {path.name for path in (tmp_path / "published" / day).iterdir()}
        for day in ("2024-01-01", "2024-01-02")
    ]
    assert names[0] - {"report.html", "evidence.json"} >= {"certificate.json"}
    assert {"report.html", "evidence.json"} <= names[0]
    assert not {"report.html", "evidence.json"} & names[1]


def test_a_store_that_replaces_what_is_there_is_refused(opened, release, monkeypatch):
    """Such a store answers as if it had put what it was asked to put once; it is found out before anything is drawn."""
    monkeypatch.setattr(
        ObjectSink, "_put_new", lambda self, path, body: self._replace(path, body) is None
    )
    with pytest.raises(pf.UsageError, match="lets a second file take the place of the first"):
        opened().prepare(pl.Schema())
    with pytest.raises(pf.UsageError, match="lets a second file take the place of the first"):
        opened().send(LABEL, release)


@pytest.fixture
def s3(s3_of_sinks, tmp_path):
    """Open a sink in a bucket, with other options."""

    def made(bucket="releases", **options):
        kept = {name: value for name, value in s3_of_sinks.options.items() if name != "max_retries"}
        return ObjectTable(f"s3://{bucket}/own", options={**kept, **options}).open(
            tmp_path, sinks.JOB
        )

    return made


def test_conditional_puts_that_are_switched_off_are_told(s3, release):
    with pytest.raises(pf.SinkError, match="no conditional puts"):
        s3(aws_conditional_put="disabled").send(LABEL, release)


@pytest.mark.slow
def test_a_store_that_fails_tells_no_secret(s3, release, monkeypatch):
    """Nobody there, no bucket, an option that no store has: in words of ours, which lead to no others."""
    monkeypatch.setenv("STORE_SECRET", SECRET)
    secret = {"aws_secret_access_key": "${STORE_SECRET}"}
    retries = {"connect_timeout": "1s", "timeout": "1s"}
    for wrong, kind, part in (
        (
            {"aws_endpoint_url": "http://127.0.0.1:1", **retries},
            pf.SinkError,
            "it cannot be reached",
        ),
        ({"bucket": "nowhere"}, pf.SinkError, "there is no such bucket"),
        ({"nonsense": "1"}, pf.UsageError, "could not be opened"),
    ):
        with pytest.raises(kind, match=part) as caught:
            s3(**wrong, **secret).send(LABEL, release)
        told = f"{caught.value}{caught.value.__context__}{s3().place(LABEL)}"
        assert SECRET not in told
        assert caught.value.__context__ is None


@pytest.mark.parametrize(
    "address",
    [
        "published",
        "memory:///published",
        "https://host/published",
        "s3://key:secret@bucket/published",
        "s3://key@bucket/published",
        "s3://bucket/published?secret=1",
        "s3:///published",
        "file://host/published",
        "file://",
        "s3://[",
    ],
)
def test_addresses_that_are_no_store_are_refused(address):
    """And of these, which may hold a password, nothing is told."""
    with pytest.raises(pf.UsageError, match="The address of the sink") as caught:
        ObjectTable(address).check_address()
    assert "secret@" not in str(caught.value)
    assert "secret=1" not in str(caught.value)


def test_all_stores_can_be_opened(monkeypatch):
    """Options are the store's own, or those of connections; none is looked up before it is needed."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    for address, options in {
        "s3://bucket/a b/ö": {"aws_region": "x", "aws_allow_http": "true", "timeout": "5s"},
        "gs://bucket/published": {"google_application_credentials": "/nowhere.json"},
        "az://container/published": {},
        "abfss://container@account.dfs.core.windows.net/published": {},
    }.items():
        if "google_application_credentials" in options:
            with pytest.raises(pf.UsageError, match="could not be opened"):
                store_of(address, options)
        else:
            assert isinstance(store_of(address, options), obstore.store.ObjectStore)
