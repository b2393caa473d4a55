"""Task 1 of DCP as a sparse linear program over γ(y|x), solved by HiGHS (M32).

Variables are γ(y|x), J_s(y_1, y) in units of its past output, its excess T ≥ 0 over t·J_s′ if there is a δ, and the
largest expected loss if there are several tables.
"""

from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
import scipy  # loads its parts when first used

from pufferflow.confounding.target import Target
from pufferflow.core.arrays import Array, Floats, Indices
from pufferflow.core.errors import InternalError, Refused

_MOST_VARIABLES = 60_000
_MOST_ENTRIES = 6_000_000
_Blocks = list[tuple[int, Any]]
"""Blocks of a row of blocks, each with its first variable."""


def solved(target: Target, expected: tuple[Array, ...]) -> tuple[Floats, float]:
    """Return the γ of least expected loss under a guarantee, within the solver's tolerance, and that loss.

    `expected` has for every table the loss of each input, times its probability, and output; the worst table counts.
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

    A program that is the same for inputs, outputs and secrets in the opposite order (or secrets in the same one) has a
    solution with this symmetry: the mean of any solution and of its mirror image, since the program is convex.
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
    rows.equal([(gamma, spread), (joint, -_eye(secrets * past * outputs))], np.zeros(int(secrets * past * outputs)))
    first, second = (_places(secrets, past * outputs, side) for side in zip(*target.seen.pairs, strict=True))
    count: int = first.shape[0]
    blocks: _Blocks = [(joint, first - float(target.likelihood) * second)]
    if target.delta > 0:
        excess = rows.variables(count)
        blocks.append((excess, -_eye(count)))
        pairs = len(target.seen.pairs)
        if target.budgets:
            allowed = np.array([[float(one) for one in row] for row in target.budgets[place].tolist()]) / units
            each = _sparse().kron(_eye(pairs * past), np.ones((1, outputs)))
            rows.at_most([(excess, each)], allowed.ravel())
            rows.at_most(blocks, np.zeros(count))
            return
        each = np.repeat(units, outputs)[None, :]
        rows.at_most([(excess, _sparse().kron(_eye(pairs), each))], np.full(pairs, float(target.delta)))
    rows.at_most(blocks, np.zeros(count))


def _scaled(part: Array) -> tuple[Floats, Floats]:
    """Return the likelihoods of the inputs in units of the largest of each past output, and these units."""
    sums = part.sum(axis=2)
    largest = np.maximum(sums.max(axis=0), 1).tolist()  # another table's outputs may be impossible here
    scaled = [[[one / unit for one in row] for row, unit in zip(rows, largest, strict=True)] for rows in part.tolist()]
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
        """Return the first of so many new variables."""
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
                f"The linear program was not solved: {found.message}", instead="reporting it to the maintainers"
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
