"""Task 1 of DCP: the best next release, within what the past releases leave of a guarantee (M32)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Literal, cast, final

import numpy as np

from pufferflow.confounding.joint_law import Release, as_releases, columns_read
from pufferflow.confounding.program import solved
from pufferflow.confounding.reading import ProjectedTable, named_secret, see, tables_of
from pufferflow.confounding.repair import repaired
from pufferflow.confounding.target import Target
from pufferflow.core.arrays import Array, Floats
from pufferflow.core.errors import UsageError
from pufferflow.core.rounding import float_above
from pufferflow.core.validate import finite_number, quoted
from pufferflow.models.priors.table import Values
from pufferflow.noise.channel import Channel, Drawn
from pufferflow.noise.channel_labels import columns_of, label, unwrapped
from pufferflow.privacy.guarantee import Guarantee

LossName = Literal["absolute", "squared", "zero-one"]
Loss = LossName | Callable[[Any, Any], float] | Sequence[Sequence[float]]
_LOSSES = '"absolute", "squared", "zero-one", a function of output and answer, or a row of numbers for every answer'


@final
@dataclass(frozen=True)
class Design:
    """A channel that keeps a guarantee together with the past, and its expected loss.

    `solver_loss` is the loss that the linear program finds: no channel with these outputs has a smaller one, up to the
    solver's tolerance. `expected_loss` is that of the channel after the repair that makes it keep the guarantee
    exactly.
    """

    channel: Channel
    guarantee: Guarantee
    expected_loss: float
    solver_loss: float

    def release(self, given: Sequence[Any], rng: np.random.Generator | None = None) -> Drawn:
        """Return an output of the channel for each input, and whether they may be published."""
        return self.channel.release(given, rng)

    def __repr__(self) -> str:
        return f"<Design for {self.guarantee!r}: {self.channel!r}, expected loss {self.expected_loss:.6g}>"


def design(  # noqa: PLR0913 - the data of the program, and its restrictions
    table: Any,
    past: Release | Sequence[Release],
    guarantee: Guarantee,
    loss: Loss = "absolute",
    *,
    secret: Any = None,
    query: str | Sequence[str] | None = None,
    outputs: Sequence[Any] | None = None,
    reads: str | Sequence[str] | None = None,
    published: Sequence[Any] | None = None,
) -> Design:
    """Return the channel with the least expected loss that keeps a guarantee together with past releases (M32).

    `table` and `secret` are as for `cost`; of several tables the worst counts, for the guarantee and for the loss. The
    answer is the `query`, a column (or several), by default the only one beside the secret. `loss` is a number for
    every output and answer: by name, as a function of both, or as a matrix with a row for every answer in ascending
    order. `outputs` are the answers themselves unless given. The channel may read more columns than the query: `reads`.

    If outputs of all past releases are given, `published`, a pure guarantee needs to be kept for these only; one with a
    delta is about all possible outputs. The solver's channel is repaired in whole numbers until every constraint holds
    exactly. If the past releases use up the guarantee exactly at some output, the result may be a channel that ignores
    what it reads.

    >>> import pufferflow as pf
    >>> law = {"ill": [0, 0, 0, 1, 1, 1], "x": [0, 1, 2] * 2, "probability": [0.25, 0.15, 0.1, 0.1, 0.15, 0.25]}
    >>> first = pf.confounding.Channel("x", [0, 1, 2], ["a", "b"], [[0.6, 0.4], [0.5, 0.5], [0.4, 0.6]])
    >>> best = design(pf.Table(law), [first], pf.Pure(0.5))
    >>> round(best.expected_loss, 4), best.channel.outputs, best.release([0, 2]).for_release
    (0.4064, (0, 1, 2), True)
    """
    releases = as_releases(past)
    asked, read = _columns(table, releases, secret, query, reads)
    seen = see(table, secret, list(dict.fromkeys([*columns_read(releases), *read, *asked])))
    return best_channel(seen, Target.of(seen, releases, read, guarantee, published), guarantee, asked, loss, outputs)


def best_channel(  # noqa: PLR0913, PLR0917 - the data of the program
    seen: ProjectedTable,
    target: Target,
    guarantee: Guarantee,
    asked: tuple[str, ...],
    loss: Loss,
    outputs: Sequence[Any] | None,
) -> Design:
    """Return the channel with the least expected loss that keeps a target, for answers that are columns seen."""
    read = target.reads
    answers = tuple(sorted({seen.place(asked, point) for point in seen.points}))
    grid = unwrapped(answers) if outputs is None else _read_outputs(outputs)
    each = _read_loss(loss, answers, grid)
    expected = [_expected(seen, target, asked, read, each, joint) for joint in seen.masses]
    gamma, least = solved(target, tuple(expected))
    rows, unit = repaired(target, gamma, _chances(seen, target, read))
    probabilities = [[Fraction(one, unit) for one in row] for row in rows.tolist()]
    channel = Channel(read, unwrapped(target.inputs), grid, probabilities)
    return Design(channel, guarantee, float_above(max(Fraction((own * rows).sum()) / unit for own in expected)), least)


def _columns(
    table: Any, past: Sequence[Release], secret: Any, query: Any, reads: Any
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns of the answer, and those that the channel reads."""
    known = list(dict.fromkeys(name for one in tables_of(table) for name in one.names))
    taken = columns_read(past)
    if query is None:
        hidden = named_secret(table, secret)
        unread = [name for name in known if name not in taken]
        hidden = unread[0] if hidden is None and len(unread) == 1 else hidden
        others = [name for name in known if name != hidden]
        if hidden is None or len(others) != 1:
            raise UsageError(
                f"No query is named, and the table has the columns {known[:6]}.",
                allowed="query=, the column whose values are published; left out, the only one beside the secret",
                instead=f"query={known[-1]!r}, secret={known[0]!r}",
            )
        query = others[0]
    asked = columns_of(query)
    return asked, asked if reads is None else columns_of(reads)


def _read_outputs(given: Any) -> tuple[Any, ...]:
    try:
        listed = tuple(label(one, "An output") for one in (given.tolist() if hasattr(given, "tolist") else given))
    except TypeError:
        raise UsageError(
            f"outputs is {quoted(given)}.", allowed="a list of outputs", instead="outputs=[0, 1, 2]"
        ) from None
    if not listed or len(set(listed)) < len(listed):
        raise UsageError(
            "outputs is empty, or has a value twice.", allowed="different values", instead="outputs=[0, 1, 2]"
        )
    return listed


def _read_loss(loss: Any, answers: tuple[Values, ...], outputs: tuple[Any, ...]) -> Array:
    """Return the loss of every answer and output in rational numbers."""
    plain = unwrapped(answers)
    if isinstance(loss, str):
        rows = [[_named(loss, output, answer) for output in outputs] for answer in plain]
    elif callable(loss):
        rows = [[loss(output, answer) for output in outputs] for answer in plain]
    else:
        rows = [list(row) for row in (loss.tolist() if hasattr(loss, "tolist") else loss)] if _is_matrix(loss) else []
    if len(rows) != len(plain) or any(len(row) != len(outputs) for row in rows):
        raise UsageError(
            f"loss has not a row for each of {len(plain)} answers and a number for each of {len(outputs)} outputs.",
            allowed=_LOSSES,
            instead='"absolute"',
        )
    read = [
        [Fraction(finite_number(one, "A loss", allowed="finite numbers", instead='"absolute"')) for one in row]
        for row in rows
    ]
    if len({one for row in read for one in row}) == 1:
        raise UsageError(
            "The loss is the same for every output and answer, so no mechanism is better than another.",
            allowed=_LOSSES,
            instead='"absolute"',
        )
    matrix = np.empty((len(plain), len(outputs)), dtype=object)
    matrix[:] = read
    return matrix


def _is_matrix(loss: Any) -> bool:
    listed = loss.tolist() if hasattr(loss, "tolist") else loss
    return isinstance(listed, list | tuple) and all(
        isinstance(row, list | tuple) for row in cast(Sequence[Any], listed)
    )


def named_loss(name: str) -> Callable[[Any, Any], float]:
    """Return a loss by its name.

    >>> named_loss("squared")(3, 1)
    4
    """
    return partial(_named, name)


def _named(loss: str, output: Any, answer: Any) -> float:
    if loss == "zero-one":
        return 0.0 if output == answer else 1.0
    if loss not in {"absolute", "squared"}:
        raise UsageError(f"loss is {quoted(loss)}.", allowed=_LOSSES, instead='"absolute"')
    if not all(isinstance(one, int | float) for one in (output, answer)):
        raise UsageError(
            f"The {loss} loss of labels.",
            allowed="numbers for answers and outputs",
            instead='"zero-one", or a function',
        )
    return abs(output - answer) if loss == "absolute" else (output - answer) ** 2


def _expected(  # noqa: PLR0913, PLR0917 - one table, and the query
    seen: ProjectedTable, target: Target, asked: tuple[str, ...], read: tuple[str, ...], each: Array, joint: Array
) -> Array:
    """Return Σ P(x, f)·loss(y, f) for every input x and output y, in rational numbers."""
    answers = sorted({seen.place(asked, point) for point in seen.points})
    expected = np.zeros((len(target.inputs), each.shape[1]), dtype=object)
    total = int(joint.sum())
    for at, point in enumerate(seen.points):
        chance = Fraction(int(joint[:, at].sum()), total)
        expected[target.inputs.index(seen.place(read, point))] += chance * each[answers.index(seen.place(asked, point))]
    return expected


def _chances(seen: ProjectedTable, target: Target, read: tuple[str, ...]) -> Floats:
    """Return the probabilities of the inputs, on the average of all tables."""
    chances = np.zeros(len(target.inputs))
    for joint in seen.masses:
        total = int(joint.sum())
        for at, point in enumerate(seen.points):
            chances[target.inputs.index(seen.place(read, point))] += int(joint[:, at].sum()) / total
    return chances / chances.sum()
