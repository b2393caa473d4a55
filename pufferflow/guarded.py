"""What becomes of an engine that fails, and of work on private numbers that does not come to its end.

Nothing that an engine says is passed on, since its messages can quote data. A traceback keeps the error it came from,
and frames their variables. So the error that is raised instead comes from outside of the handler, and names no more
than a class of Polars or of Python itself; and whatever is raised while exact sums are about is raised anew where
nothing leads back to them, a person's Ctrl-C too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar, cast, final

from pufferflow.errors import PufferflowError, SourceFailed

T = TypeVar("T")
_KNOWN = ("builtins", "polars", "pyo3_runtime", "pyarrow")


def source_failed(kind: str) -> PufferflowError:
    """Return the error for a source that could not be read."""
    return SourceFailed(
        f"The data could not be read: the engine stopped with {kind}. Nothing was released.",
        allowed="a source that can be read to its end",
        instead="frame.head().collect() on a copy that may be looked at, to see what is wrong",
    )


def guarded(work: Callable[[], T], failed: Callable[[str], PufferflowError] = source_failed) -> T:
    """Return what work gives, or say that it failed; errors of this library pass, and so does a person who stops.

    >>> guarded(lambda: 3)
    3
    """
    kind = ""
    try:
        return work()
    except (PufferflowError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - a panic of the engine is no Exception
        whose = type(error)
        kind = whose.__name__ if whose.__module__.partition(".")[0] in _KNOWN else "an error of its own"
    raise failed(kind)


@final
@dataclass(frozen=True, eq=False)
class Outcome(Generic[T]):
    """What work gave, or the error that it raised, which leads to no frame and to no other error."""

    value: T | None
    error: BaseException | None = None

    def get(self) -> T:
        """Return the value, or raise the error from here."""
        if self.error is not None:
            raise self.error
        return cast(T, self.value)


def outcome_of(work: Callable[[], T]) -> Outcome[T]:
    """Run work that has private numbers in its frames, and return what comes of it without any of these frames.

    >>> outcome_of(lambda: 3).get()
    3
    """
    outer = _outcome_of(lambda: _outcome_of(work))  # a second Ctrl-C may come while the frames of the first are let go
    return Outcome(None, outer.error) if outer.value is None else outer.value


def _outcome_of(work: Callable[[], T]) -> Outcome[T]:
    try:
        return Outcome(work())
    except BaseException as error:  # noqa: BLE001 - raised again by whoever asks, a person who stops too
        drop_frames(error)
        return Outcome(None, error)


def drop_frames(error: BaseException) -> None:
    """Take from an error what leads to frames, which keep their variables, and to the errors before it.

    Those go too: what one of them says can be a private number.
    """
    error.__traceback__ = error.__cause__ = error.__context__ = None
    vars(error).pop("__notes__", None)
    for member in getattr(error, "exceptions", ()):
        drop_frames(member)
