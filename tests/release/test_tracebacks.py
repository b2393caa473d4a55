"""Whatever stops a release, no error that leaves it leads to a number without noise."""

import functools
import gc
import sys
import types
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from thinned import nightly

import pufferflow as pf
from pufferflow.core import sandbox
from pufferflow.core.errors import PufferflowError
from pufferflow.engines import polars_engine as engine
from pufferflow.release.mechanisms import additive as releasing

PART, ROWS = 329_218_107, 3
SUM = PART * ROWS
"""The sum without noise: a number that is nowhere else."""
PACKAGE = str(Path(pf.__file__).parent)
FAILURES = [KeyboardInterrupt, SystemExit, MemoryError, ValueError, pf.Refused]
ENDS = types.ModuleType | type | types.BuiltinFunctionType | types.CodeType | str | bytes


def batch(frame=None, prior=None):
    """A sum and a count, by day, of houses that are tied."""
    rows = (
        pl.DataFrame({"house": [1, 1, 2], "day": [1] * ROWS, "level": [PART] * ROWS})
        if frame is None
        else frame
    )
    secret = pf.Secret(
        "level", domain=[0, PART, 2 * PART]
    )  # so that what is possible at most is no exact sum
    scenario = pf.Scenario(secret, prior or pf.AnyCorrelation(), within="house")
    found = pf.protect(rows, scenario)
    return found.private_sum("level").private_histogram("level")


def parts_of(value):
    """What a value leads to: variables of frames, cells of closures, parts of containers, fields, and other errors."""
    match value:
        case types.FrameType():
            return list(value.f_locals.values())
        case types.TracebackType():
            return [value.tb_frame, value.tb_next]
        case types.FunctionType():
            return [*(value.__closure__ or ()), value.__defaults__, value.__kwdefaults__]
        case types.GeneratorType():
            return [value.gi_frame]
        case BaseException():
            own = value.__traceback__, value.__cause__, value.__context__
            return [*own, value.args, vars(value), getattr(value, "exceptions", None)]
        case _:
            return gc.get_referents(value)


def is_exact(value):
    """Whether a value is the sum, or holds it where the garbage collector does not look."""
    match value:
        case np.ndarray():
            return bool((value == SUM).any())
        case pl.Series():
            return value.dtype.is_numeric() and bool((value == SUM).any())
        case pl.DataFrame():
            return any(is_exact(column) for column in value)
        case int() | float():
            return value == SUM
        case _:
            return (
                not isinstance(value, type)
                and isinstance(value, np.generic)
                and is_exact(value.item())
            )


def leaks(error, own):
    """How an error leads to the sum, but for the frames of the test and what is its `own`; nothing if it does not."""
    waiting = [(part, ()) for part in (error.__cause__, error.__context__, error.args, vars(error))]
    trace, seen = error.__traceback__, {id(error)}
    while trace is not None and not trace.tb_frame.f_code.co_filename.startswith(PACKAGE):
        trace = trace.tb_next
    waiting.append((trace, ()))
    kept = []  # so that no id is used twice
    while waiting:
        value, way = waiting.pop()
        if value is None or id(value) in seen or isinstance(value, ENDS) or value is own:
            continue
        seen.add(id(value))
        kept.append(value)
        if is_exact(value):
            return [*way, type(value)]
        waiting += [(part, (*way, type(value))) for part in parts_of(value)]
    return []


class Stopping:
    """Raises an error at a line of the package, once the private rows were read; without a line, lists these lines."""

    def __init__(self, monkeypatch, line=None, failure=None):
        self.line, self.failure, self.lines, self.read = line, failure, {}, False
        true = engine.collect

        def collect(frame, what):
            found = true(frame, what)
            self.read |= what == engine.PRIVATE
            return found

        monkeypatch.setattr(engine, "collect", collect)

    def __call__(self, frame, event, _):
        file = Path(frame.f_code.co_filename)
        if PACKAGE not in str(file) or (file.parent.name == "ledger" and file.name != "reserve.py"):
            return None  # a ledger's own transactions are stopped in tests of their own
        place = frame.f_code.co_filename, frame.f_lineno
        if event == "line" and self.read:
            self.lines[place] = None
            if place == self.line:
                self.read = False
                raise self.failure("stopped")
        return self

    def watch(self, work):
        before = sys.gettrace()
        sys.settrace(self)
        try:
            return work()
        finally:
            sys.settrace(before)


@pytest.fixture
def release(tmp_path):
    """A release on an account, each time anew."""
    plan = batch().plan(pf.Pure(1000.0))
    with pf.Ledger(str(tmp_path / "ledger.db")) as ledger:
        account = ledger.open("levels", plan.request.scenario, limit=pf.Pure(1e9))
        yield lambda: plan.release(account)


def stopped(monkeypatch, release, line, failure):
    """The error that a release ends with if it is stopped at a line; None if that is not the end of it."""
    with monkeypatch.context() as patch:
        stopping = Stopping(patch, line, failure)
        try:
            stopping.watch(release)
        except BaseException as error:  # noqa: BLE001 - a person who stops, too
            return error
    return None


def lines_of(monkeypatch, release):
    """All lines of the package that a release runs after its rows were read."""
    with monkeypatch.context() as patch:
        stopping = Stopping(patch)
        stopping.watch(release)
    return list(stopping.lines)


def check(monkeypatch, release, line, failure):
    error = stopped(monkeypatch, release, line, failure)
    if error is not None:
        assert not leaks(error, release), (line, failure)
        passes = issubclass(failure, KeyboardInterrupt | SystemExit | PufferflowError)
        assert not passes or isinstance(error, failure), (line, error)


def test_this_test_sees_what_leaks():
    """The search finds the sum in variables, closures, generators, arrays, frames and errors of a traceback."""

    def numbers(total):
        yield from (total, total)

    started = numbers(SUM)
    next(started)
    found = (
        np.array([[SUM]]),
        pl.DataFrame({"sum": [SUM]}),
        (lambda total=SUM: total),
        started,
        {"deep": [{SUM}]},
    )
    fields = (
        types.SimpleNamespace(sum=SUM),
        zip([1], [SUM], strict=True),
        functools.partial(int, SUM),
        ValueError(SUM),
    )
    for hidden in (*found, *fields):
        error = ValueError()
        error.__cause__ = KeyError([hidden])
        assert leaks(error, None), hidden
    assert not leaks(ValueError(), None)


@pytest.mark.slow
def test_a_release_is_stopped_anywhere(monkeypatch, release):
    """Stopped at any line after the rows were read, by a person or by a failure, a release leaves no sum behind."""
    lines = lines_of(monkeypatch, release)
    files = {Path(file).name for file, _ in lines}
    assert {
        "one_pass.py",
        "column_measures.py",
        "sampler.py",
        "additive.py",
        "release.py",
        "public_metadata.py",
        "reserve.py",
    } <= files
    for place, line in enumerate(lines[::16]):
        check(monkeypatch, release, line, FAILURES[place % len(FAILURES)])


@pytest.mark.slow
@pytest.mark.parametrize("failure", nightly(FAILURES, but=0.2))
def test_a_release_is_stopped_everywhere(failure, monkeypatch, release):
    """The same at every line, with every kind of error."""
    for line in lines_of(monkeypatch, release):
        check(monkeypatch, release, line, failure)


@pytest.mark.parametrize("late", [False, True])
def test_a_person_who_stops_twice(late, monkeypatch, release):
    """A second Ctrl-C, while the frames of the first are let go, leaves no sum behind either, and is a Ctrl-C."""
    true, calls = sandbox.drop_frames, []

    def drop_frames(error):
        calls.append(1)
        if late:
            true(error)
        if len(calls) == 1:
            raise KeyboardInterrupt
        true(error)

    monkeypatch.setattr(sandbox, "drop_frames", drop_frames)
    line = next(line for line in lines_of(monkeypatch, release) if line[0].endswith("additive.py"))
    error = stopped(monkeypatch, release, line, KeyboardInterrupt)
    assert isinstance(error, KeyboardInterrupt)
    assert len(calls) == 2
    assert not leaks(error, release)


def test_rows_that_changed_while_they_were_read(monkeypatch):
    """A refusal that comes after the rows were read leads to none of the sums, nor to another error."""
    house = np.array([1, 1, 2])
    frame = pl.DataFrame([pl.Series("house", house), pl.Series("level", [PART] * ROWS)])
    plan, true = batch(frame).plan(pf.Pure(1.0)), engine.collect

    def collect(query, what):
        house[:] = 3 if what == engine.PRIVATE else house
        return true(query, what)

    monkeypatch.setattr(engine, "collect", collect)
    with pytest.raises(pf.SourceError) as caught:
        plan.release()
    assert not leaks(caught.value, frame)
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    "failure", [KeyboardInterrupt, MemoryError, OverflowError(SUM), KeyError(SUM)]
)
def test_an_error_that_names_the_sum(failure, monkeypatch):
    """What fails while noise is drawn is named by its class alone, whatever it says; a Ctrl-C stays one."""

    def draw(*_, **__):
        try:
            raise failure
        finally:
            held = np.array([SUM])
            del held

    monkeypatch.setattr(pf.Laplace, "release", draw)
    with pytest.raises(
        KeyboardInterrupt if failure is KeyboardInterrupt else pf.InternalError
    ) as caught:
        batch().plan(pf.Pure(1.0), noise=pf.Laplace).release()
    assert not leaks(caught.value, None)
    assert str(SUM) not in str(caught.value)


def test_noise_that_cannot_be_drawn_costs_nothing(tmp_path, monkeypatch):
    """A noise whose draws leave the floats is refused before anything is reserved or read."""
    plan = batch(prior=pf.Independent()).plan(pf.Pure(1.0), noise=pf.GeneralizedCauchy.of(k=1.05))
    monkeypatch.setattr(releasing, "read_exact_sums", pytest.fail)
    with pf.Ledger(str(tmp_path / "ledger.db")) as ledger:
        account = ledger.open("levels", plan.request.scenario, limit=pf.Pure(9.0))
        with pytest.raises(pf.Refused, match="beyond the largest float"):
            plan.release(account)
        assert account.history() == ()


def test_an_error_is_let_go_with_its_group():
    """Notes, earlier errors and the members of a group are let go with it."""
    member, group = ValueError(), BaseExceptionGroup("stopped", [KeyboardInterrupt(), ValueError()])
    member.__context__ = group.__cause__ = KeyError(SUM)
    group.add_note(str(SUM))
    found = BaseExceptionGroup("stopped", [member, group])
    assert leaks(found, None)
    sandbox.drop_frames(found)
    assert not leaks(found, None)
    assert not hasattr(group, "__notes__")


def test_outcomes_are_given_back():
    """Work that ends well gives what it gives, None too."""
    assert sandbox.capture(lambda: 3).get() == 3
    assert sandbox.capture(lambda: None).get() is None
