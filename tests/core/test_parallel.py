"""Work spread over processes: the same results, the same errors, and nothing left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
import tasks
from thinned import nightly

import pufferflow as pf
from pufferflow.core import parallel as workers
from pufferflow.core.parallel import VARIABLE, Workers, cores


@pytest.fixture
def two(monkeypatch):
    """Two processes."""
    monkeypatch.setenv(VARIABLE, "2")
    with Workers() as both:
        yield both


@pytest.mark.slow
def test_tasks_are_done_elsewhere_and_objects_stay_what_they_are(two):
    """Results come in the order that is asked for; whatever came with a task is the caller's own object in them."""
    numbers = [two.give(tasks.cube, number) for number in range(20)]
    cubes, where = zip(*(task.result() for task in numbers), strict=True)
    assert cubes == tuple(number**3 for number in range(20))
    assert os.getpid() not in where
    assert len(set(where)) <= 2
    prior = pf.MarkovChain([[0.9, 0.1], [0.2, 0.8]])
    scenario = pf.Scenario(pf.Secret("on", domain=[0, 1]), prior, order_by="hour")
    second, first, (again, new) = two.give(tasks.paired, scenario, scenario.priors).result()
    assert first is scenario
    assert second is scenario.priors
    assert again is scenario
    assert new == "new"


@pytest.mark.slow
def test_what_goes_wrong_in_a_process_is_done_here(two):
    """An error of a task is raised here; a process that dies, or cannot read its task, is done without."""
    assert two.give(tasks.printing, "word").result() == "word"
    with pytest.raises(pf.Refused, match="No word"):
        two.give(tasks.refusing, "word").result()
    assert [two.give(tasks.dying, os.getpid()).result() for _ in range(3)] == ["here"] * 3
    assert two.give(lambda: "sent by no pickle").result() == "sent by no pickle"
    assert two.give(tasks.cube, 3).result() == (27, os.getpid())


@pytest.mark.slow
def test_no_process_outlives_the_work(monkeypatch):
    """Not after an error, nor after Ctrl-C while tasks wait; a task that runs is not waited for."""
    monkeypatch.setenv(VARIABLE, "2")
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), Workers() as both:  # noqa: PT012 - the block is what is tested
        pids = [both.give(tasks.sleeping, 0).result() for _ in range(2)]
        for _ in range(9):
            both.give(tasks.sleeping, 60)
        raise KeyboardInterrupt
    assert time.monotonic() - began < 30
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of another system")
def test_processes_end_with_their_caller(tmp_path):
    """If the caller is killed, and cannot end them, they end in the middle of a task; Ctrl-C does not reach them."""
    script = tmp_path / "script.py"  # without a guard for its main part, as scripts are
    script.write_text(
        f"import sys; sys.path[:] = {sys.path!r}\nimport tasks\nfrom pufferflow.core.parallel import Workers\n"
        "with Workers() as two:\n    print(two.give(tasks.sleeping, 0).result(), flush=True)\n"
        "    two.give(tasks.sleeping, 60), two.give(tasks.sleeping, 60)\n    input()\n"
    )
    with subprocess.Popen(
        [sys.executable, script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, VARIABLE: "2"},
    ) as caller:
        pid = int(caller.stdout.readline())
        os.kill(pid, signal.SIGINT)
        time.sleep(0.2)
        os.kill(pid, 0)
        caller.kill()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and _runs(pid):
        time.sleep(0.05)
    assert not _runs(pid)


def _runs(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")  # one that nobody has waited for yet has ended too
    return not (stat.exists() and " Z " in stat.read_text())


@pytest.mark.parametrize("given", ["0x2", "two", "-1", "1.5", "²", " "])
def test_the_variable_is_a_whole_number(monkeypatch, given):
    """Anything else is refused by the name of the variable, without what it says."""
    monkeypatch.setenv(VARIABLE, given)
    with pytest.raises(pf.UsageError, match=VARIABLE):
        cores()


def test_a_container_may_allow_fewer_cores(monkeypatch, tmp_path):
    """Both kinds of quotas are read, rounded up; without any, the processors that the process may use count."""
    monkeypatch.delenv(VARIABLE)
    assert 1 <= cores() <= os.cpu_count()
    assert workers._quota(tmp_path) > 1000
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    for quota, number in (("-1", 2**20), ("50000", 1), ("350000", 4)):
        (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(quota)
        assert workers._quota(tmp_path) == number
    for quota, number in (("max 100000", 2**20), ("250000 100000", 3), ("nonsense", 4)):
        (tmp_path / "cpu.max").write_text(quota)
        assert workers._quota(tmp_path) == number


def test_little_work_is_not_spread(monkeypatch):
    """Starting processes takes a second each, and one process, or one task, is no gain."""
    monkeypatch.setenv(VARIABLE, "4")
    assert Workers().pay(1.0, 10)
    assert not Workers().pay(0.01, 100)
    assert not Workers().pay(100.0, 1)
    monkeypatch.setenv(VARIABLE, "1")
    assert not Workers().pay(100.0, 100)


BETWEEN = pf.MarkovChain.between([[0.85, 0.05], [0.05, 0.85]], [[0.95, 0.15], [0.15, 0.95]])
CHAINS = [pf.MarkovChain([[stay, 1 - stay], [0.2, 0.8]]) for stay in (0.6, 0.9)]
PLANS = {"a class": (BETWEEN, pf.Pure(1.0)), "two chains, δ": (CHAINS, pf.Approx(1.0, 1e-6))}


def _plan(prior, promise):
    """A plan for meters each of which has its own gaps."""
    rows = [
        (meter, hour)
        for meter in range(6)
        for hour in range(9)
        if (hour * 7 + meter * meter) % 11 > 1
    ]
    frame = pl.DataFrame(rows, schema=["meter", "hour"], orient="row").with_columns(
        on=pl.col("hour") % 2
    )
    scenario = pf.Scenario(pf.Secret("on", domain=[0, 1]), prior, within="meter", order_by="hour")
    return pf.protect(frame, scenario).private_sum("on").plan(promise)


def _words(plan):
    """What a plan says."""
    return (
        plan.certificate.to_json(),
        repr(plan),
        str(plan.explain()),
        str(plan.summary()),
        str(plan.evidence()),
    )


CASES = [
    ("a class", "2"),
    *(
        pytest.param(*case, marks=pytest.mark.slow)
        for case in (("a class", "9"), ("two chains, δ", "2"))
    ),
    *nightly([("a class", "3"), ("two chains, δ", "3"), ("two chains, δ", "9")], unpack=True),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "number"), CASES)
def test_plans_are_the_same_whatever_the_number_of_processes(monkeypatch, name, number):
    """Noise, certificate and explanations agree to the last byte, and processes did work."""
    alone, given = _words(_plan(*PLANS[name])), []
    give = Workers.give
    with monkeypatch.context() as patch:
        patch.setattr(Workers, "give", lambda *task: given.append(task) or give(*task))
        patch.setattr(workers, "WORTH_SECONDS", 0.0)
        patch.setenv(VARIABLE, number)
        plan = _plan(*PLANS[name])
    assert _words(plan) == alone
    assert len(given) >= 4
