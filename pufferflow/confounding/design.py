"""Task 1 of DCP: the best next release, by a linear program whose channel is repaired exactly (M32).

The sparse linear program over γ(y|x) is solved by HiGHS (M32). Its variables are γ(y|x) and J_s(y_1, y) in units of its
past output. If there is a δ, they include the excess T ≥ 0 over t·J_s′. If there are several tables, they include the
largest expected loss.

The solver's γ keeps its constraints up to a tolerance. Rounded to whole numbers, it is mixed with a mechanism that
ignores what it reads. Such a mechanism reveals nothing beyond the past releases, so it keeps every constraint that the
past keeps with a margin. The violation of a mixture is at most the mixture of violations, which gives the least
sufficient share. All computations are in rational numbers, and every constraint is checked again at the end.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any, Literal, cast, final

import numpy as np
import scipy  # loads its parts when first used

from pufferflow.confounding.joint_law import (
    ProjectedTable,
    Release,
    as_releases,
    columns_read,
    named_secret,
    see,
    tables_of,
)
from pufferflow.confounding.target import Target
from pufferflow.core.arrays import Array, Floats, Indices
from pufferflow.core.errors import InternalError, Refused, UsageError
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.rounding import float_above
from pufferflow.core.validate import finite_number, quoted
from pufferflow.models.priors.table import Values
from pufferflow.noise.channel import Channel, Drawn, columns_of, label, unwrapped
from pufferflow.privacy.guarantee import Guarantee

_ROWS = 2**52
_SHARES = 2**40


def repaired(target: Target, solved: Floats, chances: Floats) -> tuple[Array, int]:
    """Return probabilities that keep every constraint, in whole numbers, and their unit; `chances` are the inputs'."""
    rows = np.stack([_whole(row) for row in np.maximum(solved, 0.0)])
    mean = chances @ np.maximum(solved, 0.0)
    still = _whole(mean / mean.sum() / 2 + 0.5 / len(mean))
    share = _share(target, rows, still)
    mixed, unit = rows * (_SHARES - share) + still[None, :] * share, _ROWS * _SHARES
    if not kept(target, mixed, unit):
        raise InternalError(
            "A repaired mechanism breaks its guarantee.", instead="reporting it to the maintainers"
        )
    common = math.gcd(unit, *mixed.ravel().tolist())
    return mixed // common, unit // common


def kept(target: Target, rows: Array, unit: int) -> bool:
    """Return whether a mechanism keeps every constraint, exactly."""
    if target.budgets:
        return all(
            bool((target.excesses(place, part @ rows, unit) <= target.budgets[place]).all())
            for place, part in enumerate(target.parts)
        )
    return all(
        laws.delta_at(target.likelihood) / unit <= target.delta
        for place, part in enumerate(target.parts)
        for _, laws in target.pairs(place, (part @ rows).reshape(len(part), -1))
    )


def _whole(row: Floats) -> Array:
    """Return a law in whole numbers, of which `_ROWS` make 1; the remainder goes to the likeliest output."""
    exact = [int(one * _ROWS) for one in (row / row.sum()).tolist()]
    exact[int(np.argmax(row))] += _ROWS - sum(exact)
    return np.array(exact, dtype=object)


def _share(target: Target, rows: Array, still: Array) -> int:
    """Return the least sufficient share of the mechanism that ignores what it reads, in parts of `_SHARES`."""
    need = Fraction(0)
    for place, part in enumerate(target.parts):
        solved, ignoring = part @ rows, part.sum(axis=2)[:, :, None] * still
        if target.budgets:
            allowed = target.budgets[place]
            over = (target.excesses(place, solved, _ROWS) - allowed).ravel().tolist()
            room = (allowed - target.excesses(place, ignoring, _ROWS)).ravel().tolist()
            need = max([need, *map(_part_of, over, room)])
            continue
        flat, calm = (one.reshape(len(part), -1) for one in (solved, ignoring))
        pairs = zip(target.pairs(place, flat), target.pairs(place, calm), strict=True)
        for (_, laws), (_, spare) in pairs:
            if target.delta > 0:
                over = laws.delta_at(target.likelihood) / _ROWS - target.delta
                room = target.delta - spare.delta_at(target.likelihood) / _ROWS
                need = max(need, _part_of(over, room))
            else:
                up, down = target.likelihood.numerator, target.likelihood.denominator
                excess, slack = laws.p * down - laws.q * up, spare.q * up - spare.p * down
                need = max(
                    [
                        need,
                        *(
                            _part_of(excess[at], slack[at])
                            for at in np.flatnonzero(excess > 0).tolist()
                        ),
                    ]
                )
    return math.ceil(need * _SHARES)


def _part_of(over: Fraction | int, room: Fraction | int) -> Fraction:
    """Return the share λ with (1 − λ)·`over` ≤ λ·`room`; 1 if there is no margin."""
    if over <= 0:
        return Fraction(0)
    return Fraction(over) / (Fraction(over) + cast(Fraction, max(room, 0)))


_MOST_VARIABLES = 60_000
_MOST_ENTRIES = 6_000_000
_Blocks = list[tuple[int, Any]]
"""Blocks of a row of blocks, each with its first variable."""


def solved(target: Target, expected: tuple[Array, ...]) -> tuple[Floats, float]:
    """Return the γ of least expected loss under a guarantee, within the solver's tolerance, and that loss.

    `expected` has for every table the loss of each input (times its probability) and output; the worst table counts.
    """
    inputs, outputs = expected[0].shape
    check_size(target, outputs)
    losses = [np.array([[float(one) for one in row] for row in own.tolist()]) for own in expected]
    orbits = _reflection(target, expected)
    lift: Any = _sparse().csr_matrix((np.ones(len(orbits)), (np.arange(len(orbits)), orbits)))
    rows = _Program()
    gamma = rows.variables(lift.shape[1])
    totals = _sparse().kron(_eye(inputs), np.ones((1, outputs))) @ lift
    rows.equal([(gamma, totals)], np.ones(int(inputs)))
    for place in range(len(target.parts)):
        _keep(rows, target, place, (gamma, lift, outputs))
    objective = losses[0].ravel() @ lift
    if len(losses) > 1:
        worst = rows.variables(1)
        for own in losses:
            rows.at_most([(gamma, _row(own.ravel() @ lift)), (worst, _row([-1.0]))], np.zeros(1))
        objective = np.concatenate([np.zeros(worst), [1.0]])
    values, least = rows.solve(objective, free=len(losses) > 1)
    return (lift @ values[: lift.shape[1]]).reshape(inputs, outputs), least


def _sparse() -> Any:
    """Return the part of scipy that makes sparse matrices, loaded when first used."""
    return scipy.sparse


def check_size(target: Target, outputs: int) -> None:
    """Refuse programs that take too long, before anything is built."""
    entries = sum(int((part > 0).sum()) for part in target.parts) * outputs
    check_probabilities(len(target.inputs), outputs, entries)


def check_probabilities(inputs: int, outputs: int, entries: int = 0) -> None:
    """Refuse programs with too many probabilities, or too many entries in their constraints."""
    if inputs * outputs > _MOST_VARIABLES or entries > _MOST_ENTRIES:
        raise Refused(
            f"The linear program has {inputs * outputs} probabilities ({inputs} inputs × {outputs} outputs) and "
            f"{entries} entries.",
            allowed=f"at most {_MOST_VARIABLES} probabilities and {_MOST_ENTRIES} entries",
            instead="outputs=[…] on a coarser grid, or coarser columns",
        )


def _reflection(target: Target, expected: tuple[Array, ...]) -> Indices:
    """Return for every γ(y|x), inputs first, the number of its variable: one for a probability and its mirror image.

    This needs a program that stays the same if inputs, outputs and secrets are put in the opposite order. Secrets may
    also stay in the same order. Such a program has a solution with this symmetry: the mean of any solution and its
    mirror image, since the program is convex.
    """
    size = expected[0].size
    if target.budgets or not all(bool((own == own[::-1, ::-1]).all()) for own in expected):
        return np.arange(size)
    secrets = range(len(target.seen.values))
    orders = [list(secrets), list(secrets)[::-1]]
    if not any(_mirrors(target, order) for order in orders):
        return np.arange(size)
    both = np.minimum(np.arange(size), np.arange(size)[::-1])
    return np.unique(both, return_inverse=True)[1].astype(np.intp)


def _mirrors(target: Target, order: list[int]) -> bool:
    """Return whether the constraints stay as they are, with secrets in this order and inputs turned around."""
    turned = {(order[one], order[other]) for one, other in target.seen.pairs}
    return turned == set(target.seen.pairs) and all(
        _columns(part) == _columns(part[order][:, :, ::-1]) for part in target.parts
    )


def _columns(part: Array) -> dict[tuple[int, ...], int]:
    """Return the likelihoods of each past output, and how often they occur; their order does not matter."""
    found: dict[tuple[int, ...], int] = {}
    for at in range(part.shape[1]):
        key = tuple(part[:, at, :].ravel().tolist())
        found[key] = found.get(key, 0) + 1
    return found


def _keep(rows: "_Program", target: Target, place: int, known: tuple[int, Any, int]) -> None:
    """Add the constraints of a table: J = A·γ, J_s − t·J_s′ ≤ T, ΣT ≤ δ for every pair, or a share at each output."""
    gamma, lift, outputs = known
    scaled, units = _scaled(target.parts[place])
    secrets, past, inputs = scaled.shape
    joint = rows.variables(secrets * past * outputs)
    spread = _sparse().kron(_sparse().csr_matrix(scaled.reshape(-1, inputs)), _eye(outputs)) @ lift
    rows.equal(
        [(gamma, spread), (joint, -_eye(secrets * past * outputs))],
        np.zeros(int(secrets * past * outputs)),
    )
    first, second = (
        _places(secrets, past * outputs, side) for side in zip(*target.seen.pairs, strict=True)
    )
    count: int = first.shape[0]
    blocks: _Blocks = [(joint, first - float(target.likelihood) * second)]
    if target.delta > 0:
        excess = rows.variables(count)
        blocks.append((excess, -_eye(count)))
        pairs = len(target.seen.pairs)
        if target.budgets:
            allowed = (
                np.array([[float(one) for one in row] for row in target.budgets[place].tolist()])
                / units
            )
            each = _sparse().kron(_eye(pairs * past), np.ones((1, outputs)))
            rows.at_most([(excess, each)], allowed.ravel())
            rows.at_most(blocks, np.zeros(count))
            return
        each = np.repeat(units, outputs)[None, :]
        rows.at_most(
            [(excess, _sparse().kron(_eye(pairs), each))], np.full(pairs, float(target.delta))
        )
    rows.at_most(blocks, np.zeros(count))


def _scaled(part: Array) -> tuple[Floats, Floats]:
    """Return the likelihoods of the inputs in units of the largest of each past output, and these units."""
    sums = part.sum(axis=2)
    largest = np.maximum(
        sums.max(axis=0), 1
    ).tolist()  # another table's outputs may be impossible here
    scaled = [
        [[one / unit for one in row] for row, unit in zip(rows, largest, strict=True)]
        for rows in part.tolist()
    ]
    total = int(sums[0].sum())
    return np.array(scaled), np.array([one / total for one in largest])


def _places(secrets: int, outcomes: int, chosen: tuple[int, ...]) -> Any:
    """Return the matrix that picks J of a value of the secret for every pair."""
    picked = _sparse().csr_matrix(
        (np.ones(len(chosen)), (np.arange(len(chosen)), chosen)), shape=(len(chosen), secrets)
    )
    return _sparse().kron(picked, _eye(outcomes), format="csr")


def _eye(size: int) -> Any:
    return _sparse().eye_array(size, format="csr")


def _row(numbers: Any) -> Any:
    return _sparse().csr_matrix(np.asarray(numbers)[None, :])


@final
@dataclass(eq=False)
class _Program:
    """Rows of a linear program, as they are added."""

    width: int = 0
    equals: list[tuple[_Blocks, Floats]] = field(default_factory=list[tuple[_Blocks, Floats]])
    limits: list[tuple[_Blocks, Floats]] = field(default_factory=list[tuple[_Blocks, Floats]])

    def variables(self, count: int) -> int:
        """Return the first of that many new variables."""
        self.width += count
        return self.width - count

    def equal(self, blocks: _Blocks, right: Floats) -> None:
        """Add equations."""
        self.equals.append((blocks, right))

    def at_most(self, blocks: _Blocks, right: Floats) -> None:
        """Add upper limits."""
        self.limits.append((blocks, right))

    def solve(self, objective: Floats, *, free: bool) -> tuple[Floats, float]:
        """Return the variables with the least objective, all ≥ 0 but for the last one if it is free."""
        costs = np.zeros(self.width)
        costs[: len(objective)] = objective
        lows = np.zeros(self.width)
        lows[-1] = -np.inf if free else 0.0
        linprog: Any = scipy.optimize.linprog
        (above, tops), (same, rights) = self._stacked(self.limits), self._stacked(self.equals)
        found = linprog(
            costs,
            A_ub=above,
            b_ub=tops,
            A_eq=same,
            b_eq=rights,
            bounds=np.stack([lows, np.full(self.width, np.inf)], axis=1),
            method="highs",
            options={"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9},
        )
        if found.x is None:
            raise InternalError(
                f"The linear program was not solved: {found.message}",
                instead="reporting it to the maintainers",
            )
        return np.asarray(found.x, dtype=np.float64), float(found.fun)

    def _stacked(self, rows: list[tuple[_Blocks, Floats]]) -> tuple[Any, Floats]:
        whole = [_sparse().vstack([self._beside(blocks) for blocks, _ in rows], format="csr")]
        return whole[0], np.concatenate([right for _, right in rows])

    def _beside(self, blocks: _Blocks) -> Any:
        """Return blocks side by side over all variables."""
        parts: list[Any] = []
        at, height = 0, blocks[0][1].shape[0]
        for start, block in [*blocks, (self.width, _sparse().csr_matrix((height, 0)))]:
            parts += [_sparse().csr_matrix((height, start - at)), block]
            at = start + block.shape[1]
        return _sparse().hstack([one for one in parts if one.shape[1]], format="csr")


LossName = Literal["absolute", "squared", "zero-one"]
Loss = LossName | Callable[[Any, Any], float] | Sequence[Sequence[float]]
_LOSSES = '"absolute", "squared", "zero-one", a function of output and answer, or a row of numbers for every answer'


@final
@dataclass(frozen=True)
class Design(InNotebooks):
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

    `table` and `secret` are as for `cost`. With several tables the worst counts, for the guarantee and for the loss.
    The answer is the `query`, a column (or several), by default the only one beside the secret. `loss` is a number for
    every output and answer: by name, as a function of both, or as a matrix with a row for every answer in ascending
    order. `outputs` are by default the answers themselves. The channel may read more columns than the query: `reads`.

    `published` gives the outputs of all past releases. A pure guarantee then needs to be kept for these only; one with
    a delta is about all possible outputs. The solver's channel is repaired in whole numbers until every constraint
    holds exactly. If the past releases use up the guarantee exactly at some output, the result may be a channel that
    ignores what it reads.

    >>> import pufferflow as pf
    >>> law = {"ill": [0, 0, 0, 1, 1, 1], "x": [0, 1, 2] * 2, "probability": [0.25, 0.15, 0.1, 0.1, 0.15, 0.25]}
    >>> first = pf.confounding.Channel("x", [0, 1, 2], ["a", "b"], [[0.6, 0.4], [0.5, 0.5], [0.4, 0.6]])
    >>> best = design(pf.Table(law), [first], pf.Pure(0.5))
    >>> round(best.expected_loss, 4), best.channel.outputs, best.release([0, 2]).for_release
    (0.4064, (0, 1, 2), True)
    """
    releases = as_releases(past)
    asked, read = _columns_read(table, releases, secret, query, reads)
    seen = see(table, secret, list(dict.fromkeys([*columns_read(releases), *read, *asked])))
    return best_channel(
        seen, Target.of(seen, releases, read, guarantee, published), guarantee, asked, loss, outputs
    )


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
    return Design(
        channel,
        guarantee,
        float_above(max(Fraction((own * rows).sum()) / unit for own in expected)),
        least,
    )


def _columns_read(
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
        listed = tuple(
            label(one, "An output")
            for one in (given.tolist() if hasattr(given, "tolist") else given)
        )
    except TypeError:
        raise UsageError(
            f"outputs is {quoted(given)}.", allowed="a list of outputs", instead="outputs=[0, 1, 2]"
        ) from None
    if not listed or len(set(listed)) < len(listed):
        raise UsageError(
            "outputs is empty, or has a value twice.",
            allowed="different values",
            instead="outputs=[0, 1, 2]",
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
        rows = (
            [list(row) for row in (loss.tolist() if hasattr(loss, "tolist") else loss)]
            if _is_matrix(loss)
            else []
        )
    if len(rows) != len(plain) or any(len(row) != len(outputs) for row in rows):
        raise UsageError(
            f"loss lacks a row for each of {len(plain)} answers and a number for each of {len(outputs)} outputs.",
            allowed=_LOSSES,
            instead='"absolute"',
        )
    read = [
        [
            Fraction(finite_number(one, "A loss", allowed="finite numbers", instead='"absolute"'))
            for one in row
        ]
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
            f"The {loss} loss needs numbers, and the answers or outputs are labels.",
            allowed="numbers for answers and outputs",
            instead='"zero-one", or a function',
        )
    return abs(output - answer) if loss == "absolute" else (output - answer) ** 2


def _expected(  # noqa: PLR0913, PLR0917 - one table, and the query
    seen: ProjectedTable,
    target: Target,
    asked: tuple[str, ...],
    read: tuple[str, ...],
    each: Array,
    joint: Array,
) -> Array:
    """Return Σ P(x, f)·loss(y, f) for every input x and output y, in rational numbers."""
    answers = sorted({seen.place(asked, point) for point in seen.points})
    expected = np.zeros((len(target.inputs), each.shape[1]), dtype=object)
    total = int(joint.sum())
    for at, point in enumerate(seen.points):
        chance = Fraction(int(joint[:, at].sum()), total)
        expected[target.inputs.index(seen.place(read, point))] += (
            chance * each[answers.index(seen.place(asked, point))]
        )
    return expected


def _chances(seen: ProjectedTable, target: Target, read: tuple[str, ...]) -> Floats:
    """Return the probabilities of the inputs, on the average of all tables."""
    chances = np.zeros(len(target.inputs))
    for joint in seen.masses:
        total = int(joint.sum())
        for at, point in enumerate(seen.points):
            chances[target.inputs.index(seen.place(read, point))] += int(joint[:, at].sum()) / total
    return chances / chances.sum()
