"""The errors this library raises: few kinds, one base.

Every message says what was given, what is allowed and what to try, in at most five lines. It never contains a value
that came from private data. Names in it are shown by `escape_controls`, as in all texts of this library.
"""

import inspect
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Final

_HIDDEN: Final = re.compile(
    "[\\x00-\\x09\\x0b-\\x1f\\x7f-\\x9f\\xad\\u180e\\u200b\\u2028-\\u202e\\u2060-\\u206f\\ud800-\\udfff\\ufeff"
    "\\ufff9-\\ufffb\\U000e0000-\\U000e0fff]"
)
"""Controls of terminals, embeddings and overrides of the direction of reading, and invisible characters.

Ends of lines, marks of direction and joiners stay: languages need them.
"""


def escape_controls(text: str, *, one_line: bool = False) -> str:
    r"""Return a text without characters that move a cursor, change the direction of reading, or are invisible.

    >>> print(escape_controls("level\x1b[2J\u202e"), escape_controls("two\nlines", one_line=True))
    level\x1b[2J\u202e two\nlines
    """
    shown = _HIDDEN.sub(lambda sign: sign[0].encode("unicode_escape").decode(), text)
    return shown.replace("\n", "\\n") if one_line else shown


class PufferflowError(Exception):
    """Base of every error raised on purpose.

    `problem` says what was given and why it cannot be used, `allowed` what would be accepted, `instead` what to try.

    >>> print(PufferflowError("epsilon is -1.", allowed="a finite number >= 0", instead="epsilon=1.0"))
    epsilon is -1.
      allowed: a finite number >= 0
      try: epsilon=1.0
    """

    def __init__(self, problem: str, *, allowed: str = "", instead: str = "") -> None:
        self.problem, self.allowed, self.instead = (
            escape_controls(problem),
            escape_controls(allowed),
            escape_controls(instead),
        )
        lines = [self.problem]
        if allowed:
            lines.append(f"  allowed: {self.allowed}")
        if instead:
            lines.append(f"  try: {self.instead}")
        super().__init__("\n".join(lines))

    def reword(self, change: Callable[[str], str]) -> None:
        """Change what is allowed and what to try; the problem stays as it is."""
        PufferflowError.__init__(
            self, self.problem, allowed=change(self.allowed), instead=change(self.instead)
        )

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle all three parts: the default would lose keyword arguments."""
        return _restore, (type(self), self.problem, self.allowed, self.instead)


def _restore(
    kind: type[PufferflowError], problem: str, allowed: str, instead: str
) -> PufferflowError:
    return kind(problem, allowed=allowed, instead=instead)


class UsageError(PufferflowError, ValueError):
    """An argument is wrong: the message says what is allowed and what to try."""


class NoSuchCall(UsageError, TypeError):
    """A function or class was called with arguments that it does not take."""


class NoSuchAttribute(UsageError, AttributeError):
    """A value has no attribute of this name; `hasattr` and the protocols of Python see an AttributeError."""

    def __init__(
        self, problem: str, *, allowed: str = "", instead: str = "", name: str = ""
    ) -> None:
        super().__init__(problem, allowed=allowed, instead=instead)
        self.name = name
        self.obj = (
            None  # else Python keeps the value here, and adds a suggestion of its own below ours
        )


class Refused(PufferflowError):
    """The request is well formed, but no theorem of this library gives it such a guarantee."""


class LimitReached(PufferflowError):
    """The release would pass the limit of its account."""


class SourceError(PufferflowError):
    """Data could not be read; nothing was released."""


class LedgerError(PufferflowError):
    """The ledger could not be read, written or verified."""


class SinkError(PufferflowError):
    """A sink could not be read or written; the release is in its ledger, and the next run sends it."""


class UtilityWarning(UserWarning):
    """Numbers are of little use: noise hides what they should show, or a longer search would find less noise.

    It is also given if `missing` was left out, so that the value of nulls is assumed. It comes before anything is
    spent. `plan.check()` has all numbers, and a remedy. Turned into an error, the warning prevents such releases.

    >>> import warnings
    >>> warnings.simplefilter("error", UtilityWarning)  # nothing is spent on useless numbers
    >>> warnings.simplefilter("default", UtilityWarning)
    """


def warn_of_use(what: str, lines: Sequence[str], way_on: str) -> None:
    """Warn, if there are lines, at the calling line of the caller's program; filters name the warning by `what`."""
    if lines:
        text = f"{what}: {'; '.join(lines)}. {way_on}"
        warnings.warn(
            escape_controls(text, one_line=True), UtilityWarning, stacklevel=_calls_within() + 1
        )


def _calls_within() -> int:
    """Return how many calls of this library led here; the one before them is the caller's."""
    here, calls = inspect.currentframe(), 0  # warnings cannot skip files before Python 3.12
    frame = None if here is None else here.f_back
    while (
        frame is not None
        and str(frame.f_globals.get("__name__", "")).partition(".")[0] == "pufferflow"
    ):
        frame, calls = frame.f_back, calls + 1
    return calls


class InternalError(PufferflowError):
    """An invariant of the library did not hold: a bug of the library, not of the caller."""


for _kind in (PufferflowError, *PufferflowError.__subclasses__(), UtilityWarning):
    _kind.__module__ = "pufferflow"  # tracebacks show the name by which users catch the error
