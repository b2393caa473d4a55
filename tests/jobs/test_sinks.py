"""A sink is chosen by `[sink]`: a folder unless its kind says otherwise, and another kind is a file and a row."""

from pathlib import Path
from typing import Annotated, ClassVar

import pytest
from msgspec import Meta

import pufferflow as pf
from pufferflow.jobs import Sink, TomlTable, schema
from pufferflow.jobs import file as job_files

DAY, NEXT = "2026-10-20", "2026-10-21"


class ShelfTable(TomlTable, frozen=True):
    """Releases in the memory of a process."""

    shelf: Annotated[str, Meta(min_length=1)]

    def check_address(self):
        pass

    def check_keys(self, schema):
        pass

    def open(self, folder):
        return Shelf(f"memory:{self.shelf}", SHELVES.setdefault(f"{folder}/{self.shelf}", {}))


class Shelf(Sink):
    noun: ClassVar[str] = "shelf"

    def __init__(self, root, releases):
        self._root, self.releases = root, releases

    @property
    def root(self):
        return self._root

    def place(self, label):
        return f"{self._root}/{label}"

    def has(self, label):
        return label in self.releases

    def newest(self):
        return ((self.place(label), release.certificate.entry) for label, release in self.releases.items())

    def send(self, label, release):
        return self.releases.setdefault(label, release) is release

    def lacks_page(self, label):
        return False

    def add(self, label, name, body):
        raise AssertionError("this sink has no pages")


SHELVES = {}


@pytest.fixture
def shelf_job(make, monkeypatch):
    """A job whose sink is of another kind."""
    monkeypatch.setitem(job_files.SINKS, "shelf", ShelfTable)
    SHELVES.clear()

    def made(keys='kind = "shelf"\nshelf = "a"'):
        job = make()
        text = job.path.read_text()
        start = text.index("[sink]")
        job.path.write_text(f"{text[:start]}[sink]\n{keys}\n{text[text.index('[retries]') :]}")
        return pf.Job.read(job.path)

    return made


def test_another_sink_has_each_release_once(shelf_job):
    """A run sends to it, a second finds it there, and its place is told in its own words."""
    job = shelf_job()
    first, again = job.run(DAY), job.run(DAY)
    assert (first.state, again.state, first.place) == ("released", "kept", f"memory:a/{DAY}")
    (releases,) = SHELVES.values()
    assert list(releases) == [DAY]
    assert job.missed(DAY)[0].label == NEXT
    releases.clear()
    assert job.run(DAY).state == "sent again"


def test_another_sink_is_protected_from_other_ledgers(shelf_job):
    """Releases of other accounts, and of a ledger that went away, are refused in the sink's own words."""
    job = shelf_job()
    job.run(DAY)
    (job.folder / "ledger.db").rename(job.folder / "away.db")
    with pytest.raises(pf.Misuse, match="'memory:a' has releases that one paid for"):
        job.run(NEXT)
    (job.folder / "away.db").rename(job.folder / "ledger.db")
    (releases,) = SHELVES.values()
    releases[NEXT] = releases[DAY]
    with pytest.raises(pf.Misuse, match=f"The shelf 'memory:a/{NEXT}' has a release that the account does not know"):
        job.run(NEXT)


@pytest.mark.parametrize(
    ("keys", "part"),
    [
        ('kind = "shelf"', "missing `shelf`"),
        ('kind = "shelf"\nshelf = "a"\npath = "b"', "unknown key 'path' in [sink]"),
        ('kind = "shelf"\nshelf = 3', "sink.shelf: Expected `str`"),
        ('kind = "rack"', "unknown key 'kind' in [sink]"),
    ],
)
def test_keys_are_those_of_the_kind(shelf_job, keys, part):
    """What `[sink]` may say is what its kind has; mistakes in it are told as in any other table."""
    with pytest.raises(pf.Misuse) as caught:
        shelf_job(keys)
    assert part in caught.value.problem


def test_a_folder_needs_no_kind(shelf_job, make):
    """Left out, the kind is a folder, which may be named as soon as there are several."""
    assert shelf_job("report = false").run(DAY).folder == Path(make().folder_of(DAY))
    assert shelf_job('kind = "folder"\nreport = false').run(DAY).state == "kept"


def test_with_one_kind_there_is_nothing_to_choose(make):
    """`kind` is no key where only folders are known, nor in the schema of the file."""
    job = make()
    job.path.write_text(job.path.read_text().replace("[sink]", '[sink]\nkind = "folder"'))
    with pytest.raises(pf.Misuse, match="unknown key 'kind'"):
        pf.Job.read(job.path)
    assert set(schema()["$defs"]["Sink"]["properties"]) == {"path", "format", "report"}
