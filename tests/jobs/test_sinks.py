"""A sink is chosen by `[sink]`: a folder unless its kind says otherwise, and other kinds come with packages."""

import json
from pathlib import Path

import installed
import msgspec
import pytest
from shelf import SHELVES

import pufferflow as pf
from pufferflow.jobs.file import schema

DAY, NEXT = "2026-10-20", "2026-10-21"


@pytest.fixture
def shelf_job(make, tmp_path):
    """A job whose sink is of a kind that a package brings."""
    SHELVES.clear()

    def made(keys='kind = "shelf"\nshelf = "a"'):
        job = make()
        text = job.path.read_text()
        start = text.index("[sink]")
        job.path.write_text(f"{text[:start]}[sink]\n{keys}\n{text[text.index('[retries]') :]}")
        return pf.Job.read(job.path)

    names = {
        "shelf": "shelf:ShelfTable",
        "torn": "a_module_that_is_not_there:Table",
        "odd": "json:loads",
        "gone": "json:nothing",
    }
    with installed.package(tmp_path / "installed", "pufferflow.sinks", names):
        yield made


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
    with pytest.raises(pf.UsageError, match="'memory:a' has releases that a ledger paid for"):
        job.run(NEXT)
    (job.folder / "away.db").rename(job.folder / "ledger.db")
    (releases,) = SHELVES.values()
    releases[NEXT] = releases[DAY]
    with pytest.raises(
        pf.UsageError,
        match=f"The shelf 'memory:a/{NEXT}' has a release that the account does not know",
    ):
        job.run(NEXT)


@pytest.mark.parametrize(
    ("keys", "part"),
    [
        ('kind = "shelf"', "missing `shelf`"),
        ('kind = "shelf"\nshelf = "a"\npath = "b"', "unknown key 'path' in [sink]"),
        ('kind = "shelf"\nshelf = 3', "sink.shelf: Expected `str`"),
        ('kind = "rack"', "job.toml: There is no sink 'rack'"),
        ("kind = 3", "job.toml: The kind is not a text"),
        ('kind = "torn"', "'torn' needs 'a_module_that_is_not_there', which is not installed"),
        (
            'kind = "gone"',
            "The entry point of 'gone' names an object that its package does not have",
        ),
        ('kind = "odd"', "The package installed for the sink 'odd' has no keys for [sink]"),
    ],
)
def test_keys_are_those_of_the_kind(shelf_job, keys, part):
    """What `[sink]` may say is what its kind has; mistakes in it are told as in any other table."""
    with pytest.raises(pf.UsageError) as caught:
        shelf_job(keys)
    assert part in caught.value.problem


def test_a_mistyped_kind_is_told_what_is_installed(shelf_job):
    """All kinds are named, and the one that was probably meant."""
    with pytest.raises(pf.UsageError) as caught:
        shelf_job('kind = "shelv"\nshelf = "a"')
    assert caught.value.instead == "'shelf'"
    assert {"folder", "shelf"} <= set(
        caught.value.allowed.removeprefix("an installed one: ").split(", ")
    )


def test_a_folder_needs_no_kind(shelf_job, make):
    """Left out, the kind is a folder, which may be named too."""
    assert shelf_job("report = false").run(DAY).folder == Path(make().folder_of(DAY))
    assert shelf_job('kind = "folder"\nreport = false').run(DAY).state == "kept"


@pytest.mark.usefixtures("shelf_job")
def test_the_schema_has_the_keys_of_each_installed_kind():
    """An editor is told the keys of each kind by its name; kinds that cannot be loaded are left out."""
    found = schema()
    kinds = {
        table["properties"]["kind"]["const"]: table
        for reference in found["$defs"]["JobFile"]["properties"]["sink"]["anyOf"]
        for table in [found["$defs"][reference["$ref"].rpartition("/")[2]]]
    }
    assert {"folder", "shelf"} <= set(kinds)
    assert not {"torn", "odd", "gone"} & set(kinds)
    assert set(kinds["folder"]["properties"]) == {"kind", "path", "format", "report"}
    assert "kind" not in kinds["folder"]["required"]
    assert kinds["shelf"]["required"] == ["kind", "shelf"]
    assert json.loads(msgspec.json.encode(found)) == found


def test_a_release_is_not_drawn_if_its_sink_could_not_take_it(shelf_job, monkeypatch):
    """What a sink refuses of the columns is refused before the ledger is charged."""
    import shelf

    def prepare(_, columns):
        assert columns.names() == [
            "on_sum",
            "on_sum_low",
            "on_sum_high",
            "on_sum_least",
            "on_sum_most",
        ]
        raise pf.UsageError("not here", allowed="elsewhere", instead="there")

    monkeypatch.setattr(shelf.Shelf, "prepare", prepare)
    job = shelf_job()
    with pytest.raises(pf.UsageError, match="not here"):
        job.run(DAY)
    assert job.account() is None


def test_any_sink_is_compared_with_a_ledger(shelf_job):
    """A copy of the ledger that lacks what was published is found out, and so is what nobody paid for."""
    job = shelf_job()
    job.run(DAY)
    with job.ledger() as ledger:
        ledger.copy_to(job.folder / "older.db")
    job.run(NEXT)
    with job.ledger() as ledger, pf.Ledger(job.folder / "older.db") as older:
        assert [one.differs for one in ledger.compare(job.published())] == [(), ()]
        assert [one.differs for one in older.compare(job.published())] == [
            (),
            ("the ledger has no such entry",),
        ]
