"""A release in a folder: there whole or not at all, sent once, mended, and never taken from another release."""

import contextlib
import errno
import functools
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ledgers
import msgspec
import numpy as np
import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf
from pufferflow.core import durable_files as durable
from pufferflow.published import files, folder

FORMATS = folder.FORMATS
ENTRY = "meters/7"
CHILDREN = 4
HOW = ["gone", "empty", "half", "cut", "zeros"]
STEPS = ("fsync", "rename", "replace")
OPENED = Path.open


def write(release, place, form):
    files.write(files.Parts(release.frame, release.ends, release.certificate), place, form)


@functools.cache
def made(entry=ENTRY):
    """A release with keys, NaN, null and infinite ends."""
    release = ledgers.drawn(ledgers.ready(), entry)
    keys = pl.Series("day", ["Ä", "", None, 'x,"\n'])
    frame = pl.DataFrame([keys, pl.Series("load", [0.1, math.nan, -math.inf, 5e-324])])
    bars = pl.DataFrame(
        [
            keys,
            pl.Series("load_low", [-math.inf, 0, None, 1]),
            pl.Series("load_high", [math.inf] * 4),
        ]
    )
    return pf.Release(frame, bars, release.certificate)


def same(one, other):
    tables = [(one.frame, other.frame), (one.intervals, other.intervals)]
    return one.certificate == other.certificate and all(
        a.equals(b) and a.schema == b.schema for a, b in tables
    )


def names(place):
    return sorted(path.name for path in place.iterdir())


def other_numbers(release):
    return pf.Release(
        release.frame.with_columns(pl.lit(2.5).alias("load")),
        release.intervals,
        release.certificate,
    )


@pytest.fixture(params=FORMATS)
def form(request):
    return request.param


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """No test waits for the disk."""
    monkeypatch.setattr(durable.os, "fsync", lambda _: None)


# The contract of the formats


def test_a_release_is_read_back(tmp_path, form):
    """The same numbers, bars and certificate; parents are made; the verb returns the folder."""
    release, place = made(), tmp_path / "a" / "b" / "monday"
    assert getattr(release, f"write_{form}")(str(place)) == place
    assert same(pf.Release.read(place), release)
    assert same(pf.Release.read(place), release)
    assert names(tmp_path / "a" / "b") == ["monday"]
    schema = [] if form == "parquet" else ["schema.json"]
    assert names(place) == sorted(
        [f"release.{form}", f"intervals.{form}", "certificate.json", *schema]
    )


def test_a_release_without_keys_is_read_back(tmp_path, form):
    """One row, one column; and a release of no cell at all."""
    release = ledgers.drawn(ledgers.ready(), None)
    for rows in (1, 0):
        cut = pf.Release(release.frame[:rows], release.intervals[:rows], release.certificate)
        getattr(cut, f"write_{form}")(tmp_path / str(rows))
        assert same(pf.Release.read(tmp_path / str(rows)), cut)


def test_a_release_is_sent_once(tmp_path, form):
    """The second time there is nothing to do, and nothing is touched."""
    release, place = made(), tmp_path / "monday"
    assert folder.send(release, place, form)
    before = {path: path.stat().st_mtime_ns for path in place.iterdir()}
    assert not folder.send(release, place, form)
    assert not folder.send(pf.Release.from_bytes(release.to_bytes()), place, form)
    assert {path: path.stat().st_mtime_ns for path in place.iterdir()} == before


def test_a_folder_that_is_there_is_filled(tmp_path, form):
    """An empty one, and one with files of somebody's own, which stay."""
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / ".hidden").mkdir()
    assert folder.send(made(), tmp_path, form)
    assert not folder.send(made(), tmp_path, form)
    assert same(pf.Release.read(tmp_path), made())
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert (tmp_path / ".hidden").is_dir()


def damage(path, how):
    body = path.read_bytes()
    match how:
        case "gone":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
        case "half":
            path.write_bytes(body[: len(body) // 2])
        case "cut":
            path.write_bytes(body[:-1])
        case "zeros":
            path.write_bytes(bytes(len(body)))


@pytest.mark.parametrize("how", thinned(HOW, 0.27))
def test_what_is_damaged_is_mended(tmp_path, form, how):
    """One file, each in its turn, or all of them: the release is whole again, and files of somebody's own stay."""
    listed = names_of(form)
    for damaged in [*([name] for name in listed[HOW.index(how) % 2 :: 2]), listed]:
        place = tmp_path / ("-".join(damaged))
        folder.send(made(), place, form)
        (place / "notes.txt").write_text("mine")
        for name in damaged:
            damage(place / name, how)
        with pytest.raises((pf.SourceError, pf.UsageError)):
            pf.Release.read(place)
        assert folder.send(made(), place, form)
        assert same(pf.Release.read(place), made())
        assert names(place) == sorted([*listed, "notes.txt"])
        assert not folder.send(made(), place, form)


def test_another_entry_is_refused(tmp_path, form):
    """Nothing is touched, even if files are missing; both entries are named, and what can be done."""
    for place, theirs in [(tmp_path / "1", "meters/6"), (tmp_path / "2", None)]:
        folder.send(made(theirs), place, form)
        (place / f"release.{form}").unlink()
        before = {path: path.read_bytes() for path in place.iterdir()}
        with pytest.raises(pf.UsageError) as caught:
            folder.send(made(), place, form)
        assert "entry meters/7" in caught.value.problem
        assert (
            "entry meters/6" if theirs else "a release without an entry"
        ) in caught.value.problem
        assert "revision" in caught.value.instead
        assert "sink" in caught.value.instead
        assert {path: path.read_bytes() for path in place.iterdir()} == before


def test_a_whole_table_with_other_numbers_is_refused(tmp_path, form):
    """Under the same entry, as of a ledger that was made anew; without a certificate; or without any entry."""
    for number, entry in enumerate([ENTRY, None]):
        place, mine = tmp_path / str(number), made(entry)
        folder.send(other_numbers(mine), place, form)
        for _ in range(2):
            with pytest.raises(pf.UsageError, match="other numbers"):
                folder.send(mine, place, form)
            (place / "certificate.json").unlink(missing_ok=True)
            (place / f"intervals.{form}").unlink(missing_ok=True)


def test_another_certificate_of_the_same_name_is_refused(tmp_path, form):
    """An entry's name says little if ledgers were exchanged."""
    release = made()
    changed = msgspec.structs.replace(release.certificate, loss=0.5)
    folder.send(release, tmp_path / "1", form)
    with pytest.raises(pf.UsageError, match="another certificate"):
        folder.send(pf.Release(release.frame, release.intervals, changed), tmp_path / "1", form)


def test_releases_without_an_entry_are_compared(tmp_path, form):
    """The same one is there already."""
    assert folder.send(made(None), tmp_path / "1", form)
    assert not folder.send(made(None), tmp_path / "1", form)


def test_a_newer_certificate_of_the_same_entry_is_mended(tmp_path, form):
    """What this version cannot read is written as the ledger keeps it."""
    folder.send(made(), tmp_path, form)
    kept = tmp_path / "certificate.json"
    kept.write_text(json.dumps(json.loads(kept.read_text()) | {"version": 99}))
    assert folder.send(made(), tmp_path, form)
    assert same(pf.Release.read(tmp_path), made())


def test_another_format_takes_the_place(tmp_path, form):
    """Of the same release, and of another one that is written over it: never two in a folder."""
    for old in FORMATS:
        place = tmp_path / old
        folder.send(made(), place, old)
        assert folder.send(made(), place, form) == (old != form)
        assert names(place) == names_of(form)
        write(other_numbers(made("meters/8")), place, old)
        assert names(place) == names_of(old)
        assert same(pf.Release.read(place), other_numbers(made("meters/8")))


def names_of(form):
    return sorted(files.bodies(made(), form))


@pytest.mark.parametrize("name", ["release.csv", "intervals.ndjson"])
def test_a_file_of_that_name_that_is_no_release_stays(tmp_path, form, name):
    """Text without a description was not written here: with nothing else there, and beside the release."""
    write(made(), tmp_path / "beside", "parquet")
    for place in (tmp_path, tmp_path / "beside"):
        (place / name).write_text("a,b\n1,2\n")
        before = names(place)
        if name.endswith(form) and place != tmp_path:
            continue
        with pytest.raises(pf.UsageError, match=name):
            folder.send(made(), place, form)
        assert (place / name).read_text() == "a,b\n1,2\n"
        assert names(place) == before


@pytest.mark.parametrize("form", ["csv", "ndjson"])
def test_what_cannot_be_written_is_refused_before(tmp_path, form):
    """No folder is made; an unknown format is refused too."""
    release = made()
    lists = pf.Release(
        release.frame.with_columns(pl.lit(b"x").alias("day")),
        release.intervals,
        release.certificate,
    )
    for bad in (folder.send, write):
        with pytest.raises(pf.UsageError, match="column 'day'"):
            bad(lists, tmp_path / "1", form)
        with pytest.raises(pf.UsageError, match="The format is 'xlsx'"):
            bad(release, tmp_path / "1", "xlsx")
    with pytest.raises(pf.UsageError, match="column 'day'"):
        files.check_format(lists.frame.schema, form)
    files.check_format(lists.frame.schema, "parquet")
    assert names(tmp_path) == []


def test_a_folder_without_a_release_is_no_source(tmp_path, form):
    """Nothing there, no certificate, a file in the place of the folder."""
    write(made(), tmp_path / "1", form)
    (tmp_path / "1" / "certificate.json").unlink()
    for name in ("1", "2", "1/schema.json"):
        with pytest.raises(pf.SourceError, match="has no"):
            pf.Release.read(tmp_path / name)


# Links, and what is in the way


def test_a_link_to_a_folder_stays_a_link(tmp_path, form):
    """To a folder that is there, and to one that is not yet."""
    (tmp_path / "there").mkdir()
    for name in ("there", "later"):
        link = tmp_path / f"link-{name}"
        link.symlink_to(tmp_path / name)
        assert folder.send(made(), link, form)
        assert not folder.send(made(), link, form)
        assert link.is_symlink()
        assert names(tmp_path / name) == names_of(form)


@pytest.mark.parametrize("below", ["file", "file/monday", "x" * 300, "/proc/nothing/monday"])
def test_a_place_that_cannot_be_is_a_failed_sink(tmp_path, form, below):
    """The system's reason is told, and that the release is kept; nothing is left behind."""
    (tmp_path / "file").write_text("mine")
    with pytest.raises(pf.SinkError) as caught:
        folder.send(made(), tmp_path / below, form)
    assert "kept in the ledger" in caught.value.instead
    assert (tmp_path / "file").read_text() == "mine"
    assert names(tmp_path) == ["file"]
    with pytest.raises(pf.UsageError, match="Nothing can be written"):
        made().write_parquet(tmp_path / below)


def test_a_folder_in_the_place_of_a_file_is_a_failed_sink(tmp_path, form):
    """It may hold anything."""
    (tmp_path / f"release.{form}").mkdir()
    (tmp_path / f"release.{form}" / "notes.txt").write_text("mine")
    with pytest.raises((pf.SinkError, pf.UsageError)):
        folder.send(made(), tmp_path, form)
    assert (tmp_path / f"release.{form}" / "notes.txt").read_text() == "mine"


# One more file


def test_a_file_is_added(tmp_path):
    """Whole, in the place of the one before; the release's own files cannot be replaced by it."""
    folder.send(made(), tmp_path / "1", "csv")
    for body in (b"{}", b"<html>"):
        folder.add(tmp_path / "1", "report.html", body)
        assert (tmp_path / "1" / "report.html").read_bytes() == body
    assert not folder.send(made(), tmp_path / "1", "csv")
    for name in ("certificate.json", "release.parquet", "../up", "", ".."):
        with pytest.raises(pf.UsageError):
            folder.add(tmp_path / "1", name, b"")
    with pytest.raises(pf.SinkError):
        folder.add(tmp_path / "2", "report.html", b"")
    assert names(tmp_path) == ["1"]


# Stopped anywhere


@pytest.mark.skipif(sys.platform == "win32", reason="folders cannot be brought to the disk")
def test_everything_is_on_the_disk_before_it_is_named(tmp_path, monkeypatch):
    """Each file and then its folder, before the move; after it the folder above. So too for one file, and parents."""
    steps = []

    def recorded(what):
        return lambda first, *rest: (
            steps.append((what, inode(first))),
            moves.get(what, nothing)(first, *rest),
        )[1]

    def inode(of):
        return (os.fstat(of) if isinstance(of, int) else of.stat()).st_ino

    moves, nothing = {"rename": os.rename, "replace": os.replace}, lambda *_: None
    for what in STEPS:
        monkeypatch.setattr(durable.os, what, recorded(what))
    place = tmp_path / "a" / "monday"
    write(made(), place, "csv")
    inodes = [inode(place / name) for name in files.bodies(made(), "csv")]
    expected = [tmp_path, *inodes, place, ("rename", place), tmp_path / "a"]
    assert steps == [step_of(one, inode) for one in expected]
    steps.clear()
    folder.add(place, "report.html", b"x")
    expected = [inode(place / "report.html"), ("replace", place / "report.html"), place]
    assert steps == [step_of(one, inode) for one in expected]


def step_of(one, inode):
    what, of = one if isinstance(one, tuple) else ("fsync", one)
    return what, of if isinstance(of, int) else inode(of)


class Stopping:
    """Counts the steps that reach the disk, and stops at one of them."""

    def __init__(self, monkeypatch, at, error):
        self.steps, self.at, self.error = 0, at, error
        for name in STEPS:
            monkeypatch.setattr(durable.os, name, self.counted(getattr(os, name)))
        monkeypatch.setattr(Path, "open", self.counted(OPENED))
        monkeypatch.setattr(Path, "unlink", self.counted(Path.unlink, of=files.OURS))

    def counted(self, step, of=None):
        def taken(first, *rest, **named):
            if of is None or first.name in of:
                self.steps += 1
                if self.steps == self.at:
                    raise self.error
            return step(first, *rest, **named)

        return taken


@pytest.mark.parametrize("start", thinned(["nothing", "empty", "damaged", "other format"], 0.2))
def test_stopped_at_any_step(tmp_path, monkeypatch, start):
    """By a full disk or a person: no name is left behind, a new folder is whole or not there, and a next run mends."""
    form, reached = "csv", 0
    for at in range(1, 60):
        error, told = [
            (OSError(errno.ENOSPC, "x"), pf.SinkError),
            (KeyboardInterrupt(), KeyboardInterrupt),
        ][at % 2]
        place = prepared(tmp_path / str(at), start)
        with monkeypatch.context() as patch:
            stopping = Stopping(patch, at, error)
            try:
                folder.send(made(), place, form)
            except told:
                reached += 1
        if stopping.steps < at:
            break
        assert not [path for path in place.parent.rglob("*") if path.name.startswith(".pufferflow")]
        if start == "nothing" and place.exists():
            assert same(pf.Release.read(place), made())
        folder.send(made(), place, form)
        assert same(pf.Release.read(place), made())
        assert set(names(place)) - {"notes.txt"} == set(names_of(form))
        assert start == "nothing" or (place / "notes.txt").read_text() == "mine"
    assert reached >= len(names_of(form))


def prepared(parent, start):
    parent.mkdir()
    place = parent / "monday"
    if start == "nothing":
        return place
    place.mkdir()
    (place / "notes.txt").write_text("mine")
    if start != "empty":
        folder.send(made(), place, "ndjson" if start == "other format" else "csv")
    if start == "damaged":
        damage(place / "release.csv", "half")
        damage(place / "certificate.json", "half")
    return place


@pytest.mark.slow
def test_written_over_another_release(tmp_path, monkeypatch):
    """Stopped at any step, the folder has one of the two releases or none, never numbers with another's certificate."""
    old, new = made("meters/6"), other_numbers(made("meters/8"))
    for before in FORMATS:
        for at in range(1, 60):
            place = tmp_path / before / str(at)
            write(old, place, before)
            with monkeypatch.context() as patch:
                stopping = Stopping(patch, at, KeyboardInterrupt())
                with contextlib.suppress(KeyboardInterrupt):
                    write(new, place, "csv")
            with contextlib.suppress(pf.SourceError):
                assert same(pf.Release.read(place), old) or same(pf.Release.read(place), new)
            if stopping.steps < at:
                break
        assert same(pf.Release.read(place), new)


KILLED = """
import importlib.util, os, pathlib, signal, sys
spec = importlib.util.spec_from_file_location("durable", sys.argv[1])
durable = importlib.util.module_from_spec(spec)
spec.loader.exec_module(durable)
source, place, at = pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]), int(sys.argv[4])
files = {name: (source / name).read_bytes() for name in sys.argv[5:]}
steps = 0
def killed(event, _):
    global steps
    if event in ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree"):
        steps += 1
        if steps == at:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(killed)
if place.exists():
    with durable.exclusive_access(place):
        for name, body in files.items():
            durable.write_whole(place / name, [body])
else:
    durable.make(place, files)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
@pytest.mark.parametrize("there", [False, True], ids=["new", "there"])
def test_killed_at_any_step(tmp_path, there):
    """Nothing is tidied up: a new folder is not there or whole, so is each file of an old one, and a next run mends."""
    folder.send(made(), tmp_path / "whole", "csv")
    order = list(files.bodies(made(), "csv"))
    for at in range(1, 60):
        place = tmp_path / f"{at}" / "monday"
        (place if there else place.parent).mkdir(parents=True)
        arguments = [durable.__file__, tmp_path / "whole", place, at, *order]
        ended = subprocess.run(
            [sys.executable, "-ISc", KILLED, *map(str, arguments)], check=False
        ).returncode
        if place.exists():
            found = [path for path in place.iterdir() if not path.name.startswith(".pufferflow")]
            assert all(
                path.read_bytes() == (tmp_path / "whole" / path.name).read_bytes() for path in found
            )
            assert there or len(found) == len(order)
        assert folder.send(made(), place, "csv") in ((False, True) if place.exists() else (True,))
        assert same(pf.Release.read(place), made())
        if ended == 0:
            break
        assert ended == -signal.SIGKILL
    assert at > 4 + len(order)


def test_what_killed_processes_left_is_removed_after_a_day(tmp_path, monkeypatch):
    """Beside the folder and in it; younger ones may be in use, and other names are somebody's own."""
    own = [".pufferflow-notes", ".pufferflow-0123456789abcdef.txt"]
    for parent in (tmp_path, tmp_path / "there"):
        parent.mkdir(exist_ok=True)
        (parent / ".pufferflow-0123456789abcdef.part").write_text("x")
        (parent / ".pufferflow-fedcba9876543210.part").mkdir()
        (parent / ".pufferflow-fedcba9876543210.part" / "release.csv").write_text("x")
        for name in own:
            (parent / name).write_text("mine")
    young = names(tmp_path)
    folder.send(made(), tmp_path / "1", "csv")
    assert names(tmp_path) == sorted([*young, "1"])
    now = time.time()
    monkeypatch.setattr(durable.time, "time", lambda: now + 90_000)
    folder.send(made(), tmp_path / "2", "csv")
    folder.send(made(), tmp_path / "there", "csv")
    assert names(tmp_path) == sorted([*own, "1", "2", "there"])
    assert names(tmp_path / "there") == sorted([*own, *names_of("csv")])


# Several at once

RACING = """
import pathlib, sys, time
import pufferflow as pf
from pufferflow.published import folder
folder.send
root, me = pathlib.Path(sys.argv[1]), sys.argv[2]
release = pf.Release.from_bytes((root / "release.bin").read_bytes())
(root / f"ready-{me}").touch()
while not (root / "go").exists():
    time.sleep(0.0005)
for number in range(int(sys.argv[3])):
    try:
        told = folder.send(release, root / "sent" / str(number), "csv")
    except BaseException as error:
        told = repr(error)
    print(told)
"""


def told_by_processes(root, count):
    """Start processes that send one release to the same folders, and return what each was told."""
    (root / "release.bin").write_bytes(made().to_bytes())
    commands = [
        [sys.executable, "-c", RACING, str(root), str(me), str(count)] for me in range(CHILDREN)
    ]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
    while len(list(root.glob("ready-*"))) < CHILDREN and all(
        child.poll() is None for child in started
    ):
        time.sleep(0.01)
    (root / "go").touch()
    return list(zip(*(child.communicate(timeout=60)[0].split() for child in started), strict=True))


def fields(root, count):
    """Make places to send to: a third are not there, a third are empty, a third have a damaged release."""
    places = [root / "sent" / str(number) for number in range(count)]
    for number, place in enumerate(places):
        if number % 3:
            place.mkdir(parents=True)
        if number % 3 == 2:
            folder.send(made(), place, "csv")
            damage(place / "intervals.csv", "half")
    return places


def told_by_threads(root, count):
    barrier = threading.Barrier(CHILDREN)

    def one(_):
        barrier.wait()
        return [
            str(folder.send(made(), root / "sent" / str(number), "csv")) for number in range(count)
        ]

    with ThreadPoolExecutor(CHILDREN) as pool:
        return list(zip(*pool.map(one, range(CHILDREN)), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("racing", "count"),
    [(told_by_threads, 15), pytest.param(told_by_processes, 300, marks=pytest.mark.slow)],
    ids=["threads", "processes"],
)
def test_several_at_once(tmp_path, racing, count):
    """Of four one writes each folder: new ones, empty ones, and damaged ones; the others see that it is there."""
    places = fields(tmp_path, count)
    told = racing(tmp_path, count)
    assert [sorted(one) for one in told] == [["False"] * (CHILDREN - 1) + ["True"]] * count
    assert all(same(pf.Release.read(place), made()) for place in places)
    assert not list((tmp_path / "sent").rglob(".pufferflow*"))


@pytest.mark.parametrize("entry", [ENTRY, "meters/8"])
def test_somebody_is_first_by_a_hair(tmp_path, monkeypatch, form, entry):
    """A folder that appears just before the move is looked at like any other, and nothing of ours is left."""
    place, rename = tmp_path / "monday", os.rename

    def late(beside, to):
        monkeypatch.setattr(durable.os, "rename", rename)
        folder.send(made(entry), place, form)
        rename(beside, to)

    monkeypatch.setattr(durable.os, "rename", late)
    if entry == ENTRY:
        assert not folder.send(made(), place, form)
    else:
        with pytest.raises(pf.UsageError, match="entry meters/8"):
            folder.send(made(), place, form)
    assert same(pf.Release.read(place), made(entry))
    assert names(tmp_path) == ["monday"]


@pytest.mark.slow
def test_killed_at_any_time(tmp_path):
    """Processes that send, killed at random times: no folder is there in part."""
    (tmp_path / "release.bin").write_bytes(made().to_bytes())
    (tmp_path / "go").touch()
    rng = np.random.default_rng(0)
    for me in range(30):
        child = subprocess.Popen(
            [sys.executable, "-c", RACING, str(tmp_path), str(me), "1000"],
            stdout=subprocess.DEVNULL,
        )
        while not (tmp_path / f"ready-{me}").exists():
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.2))
        child.kill()
        child.wait()
        places = [path for path in (tmp_path / "sent").glob("*") if not path.name.startswith(".")]
        assert all(same(pf.Release.read(place), made()) for place in places)
        shutil.rmtree(tmp_path / "sent", ignore_errors=True)
