"""Processes that race and are killed, on one ledger: a script, so that what it forks has no threads of the tests.

`processes.py STORY ADDRESS COUNT`, or several such threes, ends with 0 if no guarantee was broken. Releases are real
but for their data: noise is a random number, and no frame is made, since Polars' threads do not survive a fork.
"""

import contextlib
import itertools
import json
import os
import random
import signal
import sys
import time
import types
from pathlib import Path

import ledgers

import pufferflow as pf
from pufferflow.accounting.ledger import reader
from pufferflow.accounting.ledger import reserve as reserving
from pufferflow.accounting.ledger.ledger import Ledger
from pufferflow.release import publish as releasing

EPSILON = 1e-3
MADE = ledgers.ready(EPSILON)
ROOM = Path(reserving.__file__).parent
LINES = {str(path) for path in ROOM.glob("*.py")} | {releasing.__file__, __file__}
STEPS = {str(ROOM / "tables.py"), str(ROOM / "database.py"), releasing.__file__, __file__}
"""Where statements of the database begin and end, and where rows are read and noise is drawn."""


class Paper:
    """A release of one number, as bytes."""

    def __init__(self, entry, noise):
        self.certificate, self.noise = types.SimpleNamespace(entry=entry), noise

    def to_bytes(self):
        return json.dumps([self.certificate.entry, self.noise]).encode()

    @classmethod
    def from_bytes(cls, body):
        return cls(*json.loads(body))


def told(pipe):
    """Let releases tell through a pipe when private rows are read, and what is given out."""

    def tell(*words):
        os.write(pipe, (json.dumps(words) + "\n").encode())

    def new(mechanism, reading, certificate):
        del mechanism, reading
        entry = certificate.entry
        tell("read", entry)
        rows = collect()
        noise = draw(rows)
        return Paper(entry, noise)

    releasing.draw_release = new
    return tell


def collect():
    rows = os.urandom(8)
    return rows.hex()


def draw(rows):
    noise = os.urandom(8)
    return noise.hex() + rows


def released(account, release_id):
    return releasing.publish(MADE, releasing.ReleaseInMemory(), account, release_id)


def killed_at(line, watched):
    """Kill this process before the line of this number, of those in some files, is run."""
    left = [line]

    def trace(frame, event, argument):
        del argument
        if frame.f_code.co_filename not in watched or frame.f_code.co_name == "tell":
            return None
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)
    return lambda: line - left[0]


def forked(work):
    """Run work in a process of its own; return its number and the end of a pipe that it writes to."""
    reading, writing = os.pipe()
    number = os.fork()
    if number:
        os.close(writing)
        return number, reading
    code = 1
    try:
        os.close(reading)
        work(writing)
        code = 0
    finally:
        os._exit(code)


def heard(reading):
    """Return all that a process told before it ended; what it did not end writing it has not told."""
    with os.fdopen(reading, "rb") as pipe:
        return [json.loads(line) for line in pipe.read().split(b"\n")[:-1]]


def wait_for(number):
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


def entries(account):
    """Return what is reserved and what is committed, as the log tells."""
    return account._log.read(
        lambda now: (dict(now.account("power").reserved), dict(now.account("power").committed))
    )


def check(account, release_id, words):
    """Check what a process left behind, and that a retry ends with one charge and one noise."""
    reserved, committed = entries(account)
    if any(word == "read" for word, *_ in words):
        assert release_id in reserved, "rows were read before the cost was durable"
    given = {word[1] for word in words if word[0] == "gave"}
    if given:
        assert reserved[release_id] in committed, "a release was given out before it was durable"
    again = {released(account, release_id).noise for _ in range(2)}
    assert len(given | again) == 1, "two noises for one id"
    after, _ = entries(account)
    assert len(after) == len(reserved) + (release_id not in reserved), "charged twice"


def finish(ledger, account, count):
    """Check the whole ledger after so many ids."""
    reserved, committed = entries(account)
    assert len(reserved) == len(committed) == count
    assert abs(account.spent().epsilon - count * EPSILON) < 1e-9
    ledger.verify(ledger.head())


@contextlib.contextmanager
def opened(address, limit=1e6):
    reader.Release = Paper
    with Ledger(address, wait=60) as ledger:
        yield ledger, ledger.open("power", ledgers.SCENARIO, limit=pf.Pure(limit))


def lines(address, count, watched=LINES):
    """Kill a release before each of its lines: `count` times each, or every so many lines for a negative count."""
    told(os.open(os.devnull, os.O_WRONLY))
    with opened(address) as (ledger, account):
        released(account, "warm")

        def once(writing, line, release_id):
            tell = told(writing)
            account.spent()
            done = killed_at(line, watched)
            noise = released(account, release_id).noise
            sys.settrace(None)
            tell("gave", noise)
            tell("lines", done())

        number, reading = forked(lambda writing: once(writing, -1, "all"))
        wait_for(number)
        total = heard(reading)[-1][1]
        assert total > 30
        places = list(range(1, total + 1, max(1, -count))) * max(1, count)
        for turn, line in enumerate(places):
            number, reading = forked(
                lambda writing, line=line, turn=turn: once(writing, line, str(turn))
            )
            assert wait_for(number) == -signal.SIGKILL
            check(account, str(turn), heard(reading))
        finish(ledger, account, len(places) + 2)
        sys.stdout.write(f"{total} lines, {len(places)} kills\n")


def steps(address, count):
    """Kill a release between each two statements of the database, and around reading and drawing, so many times."""
    lines(address, count, STEPS)


def opening(address, count):
    """Kill the making of a ledger and its first account before each of its lines."""
    line, ended = 1, None
    while ended != 0:
        place = f"{address}-{line}"

        def once(writing, place=place, line=line):
            del writing
            killed_at(line, LINES)
            with Ledger(place) as ledger:
                ledger.open("power", ledgers.SCENARIO, limit=pf.Pure(1.0))
            sys.settrace(None)

        number, reading = forked(once)
        ended = wait_for(number)
        heard(reading)
        with Ledger(place) as ledger:
            assert len(ledger.accounts()) <= 1
            ledger.open("power", ledgers.SCENARIO, limit=pf.Pure(1.0))
            ledger.verify()
        line += count
    sys.stdout.write(f"{line} lines\n")


def moments(address, count):
    """Kill two processes that release under the same ids at random moments."""
    rng = random.Random(7)  # noqa: S311 - when to kill, no noise
    told(os.open(os.devnull, os.O_WRONLY))
    with opened(address) as (ledger, account):

        def many(writing, first):
            tell = told(writing)
            for turn in range(first, first + 1000):
                tell("gave", turn, released(account, str(turn)).noise)

        ids, known, kills = set(), {}, 0
        while kills < count:
            first = len(ids)
            workers = [forked(lambda writing, first=first: many(writing, first)) for _ in range(2)]
            for number, _ in workers:
                time.sleep(rng.uniform(0, 0.03))
                os.kill(number, signal.SIGKILL)
                kills += 1
            words = [
                word
                for number, reading in workers
                if wait_for(number) or True
                for word in heard(reading)
            ]
            reserved, committed = entries(account)
            read = {word[1].partition(":")[0] for word in words if word[0] == "read"}
            assert read <= {str(number) for number in reserved.values()}, (
                "read before it was durable"
            )
            for word in words:
                if word[0] == "gave":
                    assert reserved[str(word[1])] in committed, "given out before it was durable"
                    assert known.setdefault(str(word[1]), word[2]) == word[2], (
                        "two noises for one id"
                    )
            for one in reserved.keys() - ids:
                noise = released(account, one).noise
                assert known.setdefault(one, noise) == noise, "two noises for one id"
            ids |= reserved.keys()
        finish(ledger, account, len(ids))
        sys.stdout.write(f"{kills} kills, {len(ids)} ids\n")


def budget(address, count):
    """Let processes race for the last of a budget: all of it is spent, and no more."""
    fits = 10
    with opened(address, limit=EPSILON * fits) as (ledger, account):
        finish_line, inherited = time.time() + 0.2, account._log.database._engine

        def race(writing, own):
            tell = told(writing)
            assert account._log.database._engine is not inherited, "a connection of two processes"
            with contextlib.nullcontext(account) if own else Ledger(address, wait=60) as mine:
                runner = account if own else mine.account("power")
                time.sleep(max(0, finish_line - time.time()))
                with contextlib.suppress(pf.LimitReached):
                    while True:
                        tell("gave", released(runner, None).noise)

        workers = [
            forked(lambda writing, turn=turn: race(writing, turn % 2)) for turn in range(count)
        ]
        words = [word for _, reading in workers for word in heard(reading)]
        assert [wait_for(number) for number, _ in workers] == [0] * count
        given = [word[1] for word in words if word[0] == "gave"]
        assert len(set(given)) == len(given) == fits
        assert account.spent().epsilon <= account.limit.epsilon
        finish(ledger, account, fits)


def one_id(address, count):
    """Let processes race for one id after another: one noise and one charge for each."""
    with opened(address) as (ledger, account):
        finish_line = time.time() + 0.2

        def race(writing):
            tell = told(writing)
            time.sleep(max(0, finish_line - time.time()))
            for turn in range(8):
                tell("gave", turn, released(account, str(turn)).noise)

        workers = [forked(race) for _ in range(count)]
        words = [word for _, reading in workers for word in heard(reading)]
        assert [wait_for(number) for number, _ in workers] == [0] * count
        given = {tuple(word[1:]) for word in words if word[0] == "gave"}
        assert len(given) == 8
        finish(ledger, account, 8)


def first(address, count):
    """Let processes race to make one ledger and one account: they all get the same."""
    finish_line = time.time() + 0.2

    def race(writing):
        tell = told(writing)
        time.sleep(max(0, finish_line - time.time()))
        with Ledger(address, wait=60) as ledger:
            ledger.open("power", ledgers.SCENARIO, limit=pf.Pure(1.0))
            tell("head", ledger.head())

    workers = [forked(race) for _ in range(count)]
    heads = {word[1] for _, reading in workers for word in heard(reading)}
    assert [wait_for(number) for number, _ in workers] == [0] * count
    assert len(heads) == 1


class Worker:
    """A process that releases when it is told to, on a ledger that it opens with its first release.

    One that pauses does so inside of the transaction that reserves.
    """

    def __init__(self, address, wait, *, pauses=False):
        told_by, self._to = os.pipe()
        self.number, reading = forked(
            lambda writing: self._work(told_by, writing, address, wait, pauses=pauses)
        )
        self._from = os.fdopen(reading, "rb")
        os.close(told_by)

    def _work(self, told_by, writing, address, wait, *, pauses):
        ledger, tell, reserved = None, told(writing), reserving.ReservationRequest._reserve

        def paused(request, appender):
            tell("paused", appender.head.number)
            os.read(told_by, 1)
            return reserved(request, appender)

        reserving.ReservationRequest._reserve = paused if pauses else reserved
        while os.read(told_by, 1) == b"r":
            try:
                ledger = ledger or Ledger(address, wait=wait)
                tell("gave", released(ledger.account("power"), None).certificate.entry)
            except (pf.LedgerError, pf.LimitReached) as error:
                tell("refused", type(error).__name__)
        if ledger is not None:
            ledger.close()

    def ask(self):
        """Return the entry of one more release; None if it is refused, or pauses."""
        os.write(self._to, b"r")
        word = "read"
        while word == "read":
            line = self._from.readline()
            assert line, "a worker died"
            word, told_of = json.loads(line)
        return told_of if word == "gave" else None

    def end(self):
        os.write(self._to, b"e")
        assert wait_for(self.number) == 0


def gone(path):
    path.unlink(missing_ok=True)


def moved(path):
    path.rename(f"{path}.away")


def copied(path):
    beside = Path(f"{path}.copy")
    beside.write_bytes(path.read_bytes())
    beside.replace(path)


def emptied(path):
    os.truncate(path, 0)


def kept(address, given, fits):
    """Check that all that was given out is in the ledger, and that no more was than fits."""
    with Ledger(address) as ledger:
        for entry in given:
            ledger.verify(entry)
        assert {int(entry.partition(":")[0]) for entry in given} <= entries(
            ledger.account("power")
        )[1].keys()
        assert len(set(given)) == len(given) <= fits


def taken(address, count):
    """Take files away beneath processes that release by turns, or that only close: no charge is lost."""
    reader.Release = Paper
    endings, ways = (("-shm",), ("-wal",), ("-shm", "-wal")), (gone, moved, copied)
    cases = [(*case, asked) for case in itertools.product(endings, ways) for asked in (True, False)]
    if Path("/proc/self").exists():  # elsewhere the system may not let an index be emptied
        cases += [(("-shm",), emptied, True)]
    for turn, (which, how, asked) in enumerate(cases[:: max(1, count)]):
        place, fits = Path(f"{address}-{turn}"), 9
        with Ledger(place) as ledger:
            ledger.open("power", ledgers.SCENARIO, limit=pf.Pure(EPSILON * (fits + 0.5)))
        workers = [Worker(place, 5) for _ in range(3)]
        given = [worker.ask() for worker in workers[:2]]
        assert None not in given
        for ending in which:
            how(Path(f"{place}{ending}"))
        if (
            "-wal" in which and how is not copied
        ):  # what only a log had is gone with it, as a kept head tells
            given = []
        for _ in range(4):
            given += [worker.ask() for worker in (workers if asked else workers[2:])]
        for worker in reversed(workers):
            worker.end()
        sys.stdout.write(
            f"{which} {how.__name__} {'asked' if asked else 'idle'}: {len(given)} answers\n"
        )
        kept(place, [entry for entry in given if entry], fits)


def overtaken(address, count):
    """Let a process release while another is inside of a transaction, and the index with the locks is gone."""
    reader.Release = Paper
    for turn in range(count):
        place = Path(f"{address}-{turn}")
        with Ledger(place) as ledger:
            ledger.open("power", ledgers.SCENARIO, limit=pf.Pure(1.0))
        slow, other = Worker(place, 5, pauses=True), Worker(place, 0.1)
        assert slow.ask() is None
        Path(f"{place}-shm").unlink()
        given = [other.ask(), slow.ask()]
        given.append(
            next((entry for entry in (other.ask() for _ in range(50)) if entry), None)
        )  # it waits briefly
        assert given[-1] is not None
        slow.end()
        other.end()
        kept(place, [entry for entry in given if entry], 3)


STORIES = {
    story.__name__: story
    for story in (lines, steps, opening, moments, budget, one_id, first, taken, overtaken)
}

if __name__ == "__main__":
    for at in range(1, len(sys.argv), 3):
        STORIES[sys.argv[at]](sys.argv[at + 1], int(sys.argv[at + 2]))
