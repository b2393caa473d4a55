"""Streams and files that commands write to: full ones, links, and files that are somebody else's."""

import subprocess
import sys
from pathlib import Path

import pytest
from thinned import thinned

import pufferflow as pf
from pufferflow.cli.output import write

DAY = "2026-11-20"


class Full:
    """A stream on a disk that is full."""

    closed = False

    def write(self, text):
        raise OSError(28, text)

    def fileno(self):
        raise ValueError


def test_a_stream_that_is_full_is_no_error():
    """A stream that cannot be written to, and has no file either, is left alone."""
    write(Full(), "a")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
@pytest.mark.parametrize(
    "more", [pytest.param([], marks=pytest.mark.slow), ["--json"]], ids=["words", "json"]
)
def test_a_full_disk_changes_no_exit_code(make, tmp_path, more):
    """A run whose words cannot be written ends with 0, without a traceback, and has released."""
    make()
    with Path("/dev/full").open("w") as full:
        found = subprocess.run(
            [sys.executable, "-m", "pufferflow", "run", "job.toml", *more],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            cwd=tmp_path,
        )
    assert (found.returncode, "Traceback" in found.stderr) == (0, False)
    assert len(pf.Ledger("ledger.db").account("hours-2026").history()) == 1


WRITERS = {
    "x.json": ["job", "schema", "-o", "x.json"],
    "x.html": ["report", "ledger.db", "-o", "x.html"],
    "y.html": ["plan", "job.toml", "-o", "y.html"],
}


@pytest.mark.usefixtures("released")
@pytest.mark.parametrize("name", thinned(WRITERS, 0.33))
def test_nothing_is_written_over_or_through_a_link(give, name):
    """What is there and no page is replaced only with --force, and what a link leads to never."""
    Path(name).symlink_to("ledger.db")
    assert give(*WRITERS[name]).exit == 2
    assert give("ledger", "verify", "ledger.db").exit == 0
    Path(name).unlink()
    Path(name).write_text("mine")
    assert give(*WRITERS[name]).exit == 2
    assert Path(name).read_text() == "mine"
    assert give(*WRITERS[name], "--force").exit == 0
    assert give(*WRITERS[name]).exit == (2 if name == "x.json" else 0)


@pytest.mark.slow
@pytest.mark.usefixtures("released")
def test_a_link_is_replaced_and_not_followed(give):
    """With --force the link gives way to the file; what it led to stays."""
    Path("job2.toml").write_text("mine")
    Path("y.html").symlink_to("job2.toml")
    assert give(*WRITERS["y.html"], "--force").exit == 0
    assert (Path("y.html").is_symlink(), Path("job2.toml").read_text()) == (False, "mine")


@pytest.mark.parametrize("address", thinned(["ledger.html", "sqlite:///ledger.html"], 0.5))
def test_no_page_replaces_the_ledger(make, give, change, address):
    """A ledger that is called like a page is not replaced by its page, whatever is asked for."""
    make()
    change("[sink]", '[sink]\npath = "out"')
    change("limit = ", 'address = "ledger.html"\nlimit = ')
    assert give("run", "job.toml", "--period", DAY).exit == 0
    for words in (["report", address], ["plan", "job.toml"]):
        assert give(*words, "-o", "ledger.html", "--force").exit == 2
    assert give("ledger", "verify", "ledger.html").exit == 0
