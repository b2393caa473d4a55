"""Jobs that are quick to run, processes that run them, and crashes at any line of the code that runs them.

As a script it is a farm: a process that has imported everything and forks one off for each thing it is told to do.
"""

import contextlib
import hashlib
import itertools
import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

from strict import STRICT

import pufferflow as pf
from pufferflow.core import durable_files as durable
from pufferflow.jobs import job as running
from pufferflow.jobs import scheduling, starter
from pufferflow.jobs.period import last_complete
from pufferflow.jobs.sources import functions_of
from pufferflow.published import files, folder, release
from pufferflow.release import publish as publication

WHOLE = {"certificate.json", "intervals.parquet", "release.parquet"}
_JOBS = {str(path) for path in Path(running.__file__).parent.glob("*.py")}
LINES = _JOBS | {module.__file__ for module in (folder, files, durable, publication, release)}
"""The code that runs a job, reserves, draws, keeps and writes; the ledger's tests crash at the ledger's own lines."""
QUICK = [(r"\bmeters, steps = [0-9]+", "meters, steps = 8")]
MADE_UP = [
    ("# report = true", "report = false"),
    (r"limit = \{ epsilon = [0-9.]+ \}", "limit = { epsilon = 9.0 }"),
    (r'wait = "[0-9a-z]+"', 'wait = "0s"'),
]
FILES = (r'function = "job.py:rows"', 'path = "data/{period}.parquet"')


def made(place, *changes, data=False):
    """Write a starter job with few meters and some changes; with data, its rows are files, one for each period."""
    starter.write(place)
    code, text = place / "job.py", place / "job.toml"
    code.write_text(_changed(code, QUICK))
    text.write_text(_changed(text, [*MADE_UP, *changes, *([FILES] if data else [])]))
    (place / "data").mkdir()
    return pf.Job.read(text)


def _changed(path, changes):
    text = path.read_text()
    for old, new in changes:
        text, found = re.subn(old, lambda _, new=new: new, text, count=1)
        assert found, old
    return text


def arrive(job, period):
    """Let the rows of a period come."""
    rows = functions_of(["job.py:rows"], job.folder)[0](job.period(period))
    beside = job.folder / "data" / f".{period}"
    rows.collect().write_parquet(beside)
    beside.rename(job.folder / "data" / f"{period}.parquet")


def days(number, first="2025-11-01"):
    """Return the names of so many days."""
    found = itertools.accumulate(
        range(number - 1), lambda day, _: day.next(), initial=pf.Period.read(first)
    )
    return [str(day) for day in found]


# What is seen of releases


def digest(release):
    """Return a name for the numbers of a release and their entry."""
    body = repr((release.frame.to_dict(as_series=False), release.certificate.entry))
    return hashlib.sha256(body.encode()).hexdigest()[:16]


class Seen:
    """The releases of a job as they were seen, each always the same."""

    def __init__(self, job):
        self.job, self.known = job, {}

    def gave(self, label, numbers):
        """Remember the numbers of a release, or see that they are the same as before."""
        assert self.known.setdefault(label, numbers) == numbers, f"two releases of {label}"

    def words(self, words):
        """Look at what a process told."""
        for word in words:
            if "gave" in word:
                self.gave(*word["gave"])

    def look(self, label="*"):
        """Look at what the ledger and the folders have, of one period or of all."""
        kept = {
            one
            for one, state in states(self.job).items()
            if state == "committed" and label in {one, "*"}
        }
        account = self.job.account()
        for one in kept:
            self.gave(one, digest(account.release(self.job.id_of(one))))
        for path in (self.job.folder / self.job.file.sink.path).glob(
            f"{label.replace('*', '[0-9]*')}/certificate.json"
        ):
            self.gave(path.parent.name, digest(pf.Release.read(path.parent)))
            assert states(self.job)[path.parent.name] == "committed", "sent before it was kept"


def states(job):
    """Return what the account has of each period; two entries of one would be two charges."""
    account = job.account()
    history = () if account is None else account.history()
    labels = [entry.release_id.removeprefix(f"{job.name}-") for entry in history]
    assert len(set(labels)) == len(labels), "charged twice"
    return {label: entry.state for label, entry in zip(labels, history, strict=True)}


def check_all(job, labels, known, least=WHOLE):
    """Check that there is one release for each of the periods, everywhere the same, and nothing else."""
    assert states(job) == dict.fromkeys(labels, "committed")
    assert sorted(known) == sorted(labels)
    for label in labels:
        place = job.folder_of(label)
        assert whole(place) >= least, label
        assert {
            digest(pf.Release.read(place)),
            digest(job.account().release(job.id_of(label))),
        } == {known[label]}
    with job.ledger() as ledger:
        ledger.verify(ledger.head())


def whole(place):
    """Return the names of a folder's files."""
    return {path.name for path in place.iterdir()} if place.is_dir() else set()


def unfinished(place):
    """Return the unfinished files and folders anywhere below a folder."""
    return list(place.rglob(".pufferflow-*"))


def age(place):
    """Make what is unfinished two days old; return how much of it there was."""
    found = unfinished(place)
    for path in found:
        os.utime(path, (time.time() - 2 * 86400,) * 2)
    return len(found)


# Crashes


class Tracer:
    """Counts the lines of some files that are run, and crashes before one: the n-th, or the first in a place.

    A place is "file.py:12" or "file.py:function".
    """

    def __init__(self, crash=None, at=None, watched=LINES):
        self.crash, self.at, self.watched = crash, at, watched
        self.count, self.places = 0, {}

    def __enter__(self):
        threading.settrace(self._trace)
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_):
        sys.settrace(None)
        threading.settrace(None)

    def _trace(self, frame, event, argument):
        del argument
        if frame.f_code.co_filename not in self.watched:
            return None
        if event == "line":
            self.count += 1
            file = Path(frame.f_code.co_filename).name
            place = f"{file}:{frame.f_lineno}"
            self.places.setdefault(place, self.count)
            if self.at in {self.count, place, f"{file}:{frame.f_code.co_name}"}:
                self.at = None
                self.crash()
        return self._trace


def stop():
    """Crash as Ctrl-C does."""
    raise KeyboardInterrupt


def kill():
    """Crash as kill −9 does."""
    os.kill(os.getpid(), signal.SIGKILL)


# Processes


class Farm:
    """Processes that run jobs, forked off one that has imported everything and used nothing of it."""

    def __init__(self):
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
        root = str(Path(pf.__file__).parents[1])
        environment["PYTHONPATH"] = os.pathsep.join([root, environment.get("PYTHONPATH", "")])
        pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "bufsize": 0}
        self.process = subprocess.Popen(
            [sys.executable, *STRICT, __file__],
            env=environment,
            **pipe,
        )
        self.numbers, self.waiting, self.found, self.rest = itertools.count(), {}, {}, b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(60)

    def start(self, job, call="run", **options):
        """Let a process do something with a job; return its number."""
        number = next(self.numbers)
        asked = {"number": number, "job": str(job.path), "call": call, **options}
        self.process.stdin.write((json.dumps(asked) + "\n").encode())
        return number

    def send(self, number, which=signal.SIGTERM):
        """Send a signal to a process."""
        self.process.stdin.write((json.dumps({"to": number, "signal": int(which)}) + "\n").encode())

    def wait(self, *numbers, seconds=120):
        """Return what became of processes, in this order: how they ended, and what they told."""
        deadline = time.monotonic() + seconds
        while not self.found.keys() >= set(numbers):
            ready = select.select(
                [self.process.stdout], [], [], max(0, deadline - time.monotonic())
            )[0]
            assert ready, f"nothing was heard for {seconds} s"
            body = os.read(self.process.stdout.fileno(), 1 << 16)
            assert body, "the farm is gone"
            *lines, self.rest = (self.rest + body).split(b"\n")
            for line in lines:
                found = json.loads(line)
                self.found[found["number"]] = SimpleNamespace(**found)
        return [self.found.pop(number) for number in numbers]

    def run(self, job, call="run", **options):
        """Let a process do something with a job; return what became of it."""
        return self.wait(self.start(job, call, **options))[0]


def _run(job, tell, asked):
    ran = job.run(asked["period"])
    tell(gave=[ran.period, digest(ran.release)], drawn=ran.drawn, sent=ran.sent)


def _catch_up(job, tell, asked):
    for ran in job.catch_up(asked.get("since")):
        tell(gave=[ran.period, digest(ran.release)], drawn=ran.drawn, sent=ran.sent)


def _schedule(job, tell, asked):
    """Run on a schedule that is due every so many seconds, so many times if that is said."""
    scheduling.next_time = soon(asked.get("gap", 0.2))
    turns = itertools.count(1)

    def told(what):
        if isinstance(what, pf.JobRun):
            tell(gave=[what.period, digest(what.release)], drawn=what.drawn, sent=what.sent)
        else:
            tell(told=type(what).__name__)
        if isinstance(what, datetime) and next(turns) == asked.get("turns"):
            os.kill(os.getpid(), signal.SIGTERM)

    scheduling.schedule(job, asked.get("since"), told)
    tell(told="end")


def soon(gap):
    """Return a calendar on which something is due every so many seconds."""
    return lambda line, zone, after=None: (after or datetime.now(UTC)) + timedelta(seconds=gap)  # noqa: ARG005


def on(today):
    """Return what the last period is that is over, on the day that a function gives."""

    def last(every, zone, now=None):
        del now
        return last_complete(every, zone, datetime.fromisoformat(str(today())).replace(tzinfo=UTC))

    return last


CALLS = {"run": _run, "catch_up": _catch_up, "schedule": _schedule}
CRASHES = {"stop": stop, "kill": kill}


def _work(asked, writing):
    """Do what a process was told to, in that process."""

    def tell(**words):
        os.write(writing, (json.dumps(words) + "\n").encode())

    for name, value in asked.get("environment", {}).items():
        os.environ[name] = value
    if "after" in asked:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # which ends a process as suddenly as kill −9
        signal.setitimer(signal.ITIMER_REAL, asked["after"])
    if "today" in asked:
        running.last_complete = on(lambda: asked["today"])
    time.sleep(max(0, asked.get("at_time", 0) - time.time()))
    tracer = Tracer(CRASHES.get(asked.get("crash")), asked.get("line"))
    with tracer if "line" in asked or "count" in asked else contextlib.nullcontext():
        CALLS[asked["call"]](pf.Job.read(asked["job"]), tell, asked)
    tell(lines=tracer.count, places=tracer.places)


def _forked(asked):
    reading, writing = os.pipe()
    number = os.fork()
    if number:
        os.close(writing)
        return number, reading
    code = 1
    try:
        os.close(reading)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _work(asked, writing)
        code = 0
    except KeyboardInterrupt:
        code = 130
    except pf.PufferflowError as error:
        os.write(
            writing,
            (json.dumps({"error": type(error).__name__, "problem": error.problem}) + "\n").encode(),
        )
        code = 3
    finally:
        if code == 1:
            sys.excepthook(*sys.exc_info())
        os._exit(code)


def _preload():
    """Import what a run imports late, so that what is forked off need not; none of it may start a thread."""
    import _strptime
    import sqlite3

    import scipy.optimize
    import scipy.spatial

    return _strptime, sqlite3, scipy


def farm():
    """Fork off what is told on the standard input; tell what became of it, line by line."""
    _preload()
    commands, rest, at_work = sys.stdin.fileno(), b"", {}
    while commands is not None or at_work:
        ready = select.select([*at_work, *([] if commands is None else [commands])], [], [])[0]
        for one in ready:
            body = os.read(one, 1 << 16)
            if one == commands:
                *lines, rest = (rest + body).split(b"\n")
                if not body:
                    commands = None
                    _kill_all(at_work)
                for asked in map(json.loads, lines):
                    if "to" in asked:
                        _signalled(asked, at_work)
                    else:
                        process, reading = _forked(asked)
                        at_work[reading] = [asked["number"], process, b""]
            elif body:
                at_work[one][2] += body
            else:
                _end(one, *at_work.pop(one))


def _signalled(asked, at_work):
    for number, process, _ in at_work.values():
        if number == asked["to"]:
            os.kill(process, asked["signal"])


def _kill_all(at_work):
    for _, process, _ in at_work.values():
        os.kill(process, signal.SIGKILL)


def _end(reading, number, process, body):
    os.close(reading)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    words = [json.loads(line) for line in body.split(b"\n")[:-1]]
    sys.stdout.write(json.dumps({"number": number, "code": code, "words": words}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    farm()
