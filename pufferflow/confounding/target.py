"""The constraints on the next release: the likelihoods of what it reads, jointly with every past output (M32).

J_s(y_1, y) = Σ_x A_s(y_1, x)·γ(y|x) with A_s(y_1, x) = P(x, y_1 | s), which the past and the table fix. Past outputs
whose likelihoods are proportional are equivalent and count as one. A pure guarantee constrains only the published
outputs, if these are given: the ratio at an output involves only the releases on its path (M23).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple, cast, final

import numpy as np

from pufferflow.confounding.additive import (
    Additive,
    count_of_steps,
    laplace_cells,
    log_stairs,
    staircase_cells,
)
from pufferflow.confounding.cost import read_target
from pufferflow.confounding.joint_law import Outcomes, ProjectedTable, Release, check_size
from pufferflow.confounding.law_pairs import ExactPair, likelihood_below
from pufferflow.confounding.tied import CopulaNoise
from pufferflow.core.arrays import Array, Indices
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.rounding import UNIT, log_above
from pufferflow.core.validate import finite_number, quoted
from pufferflow.models.priors.table import Values
from pufferflow.noise.channel import Channel
from pufferflow.noise.laplace import Laplace
from pufferflow.noise.staircase import Staircase
from pufferflow.privacy.guarantee import Guarantee

_KNOTS = 48
_ROUNDING = 2e-12
"""The most by which the cost of noisy answers may be rounded up, so that `cost` finds the guarantee kept as well."""


@final
@dataclass(frozen=True, eq=False)
class Target(InNotebooks):
    """A guarantee as constraints: J_s ≤ t·J_s′ for all outputs, or Σ(J_s − t·J_s′)_+ ≤ δ, exactly.

    `parts` has an array for every table, of shape (values of the secret, past outputs, inputs), in whole numbers of
    which `totals` make 1.
    """

    seen: ProjectedTable
    reads: tuple[str, ...]
    """The columns that the next release reads; `inputs` are their values."""
    inputs: tuple[Values, ...]
    parts: tuple[Array, ...]
    totals: tuple[int, ...]
    likelihood: Fraction
    delta: Fraction
    budgets: tuple[Array, ...] = ()
    """For every table the part of δ that each pair may use at each past output: Σ_y(J_s − t·J_s′)_+ ≤ b(y_1).

    It is given in place of their sum, so that the next release may be chosen after seeing y_1.
    """

    @classmethod
    def of(
        cls,
        seen: ProjectedTable,
        past: Sequence[Release],
        reads: tuple[str, ...],
        guarantee: Guarantee,
        published: Sequence[Any] | None,
    ) -> "Target":
        """Return the constraints of a guarantee; refuse it if the past releases have broken it."""
        _, delta = read_target(guarantee)
        if published is not None and delta > 0:
            raise UsageError(
                "published is given with a guarantee that has a delta.",
                allowed="published outputs for pure guarantees: delta is about all possible outputs (M23)",
                instead="leaving published out",
            )
        return cls.after(seen, _past_outcomes(seen, past, published), reads, guarantee, published)

    @classmethod
    def sharing(
        cls,
        seen: ProjectedTable,
        past: "PastOutcomes",
        reads: tuple[str, ...],
        likelihood: Fraction,
        budgets: tuple[Array, ...],
    ) -> "Target":
        """Return the constraints of a likelihood and, at every past output, of the part of δ that it may use."""
        inputs, parts = _parts(seen, past, reads)
        totals = tuple(total * past.unit for _, total in seen.laws)
        return cls(seen, reads, inputs, parts, totals, likelihood, Fraction(1), budgets)

    @classmethod
    def after(
        cls,
        seen: ProjectedTable,
        past: "PastOutcomes",
        reads: tuple[str, ...],
        guarantee: Guarantee,
        published: Sequence[Any] | None = None,
    ) -> "Target":
        """Return the constraints of a guarantee after known outcomes; refuse it if these have broken it."""
        (epsilon, delta), (_, unit, off) = read_target(guarantee), past
        inputs, parts = _parts(seen, past, reads)
        likelihood = likelihood_below(epsilon) * (1 - 4 * off)
        allowed = Fraction(delta) * (1 - 4 * off)
        totals = tuple(total * unit for _, total in seen.laws)
        target = cls(seen, reads, inputs, parts, totals, likelihood, allowed)
        least = [laws.least_likelihood(allowed) for _, laws in target.of_past()]
        if None in least or max(cast(list[Fraction], least)) > likelihood:
            if off or None in least or log_above(max(cast(list[Fraction], least))) > epsilon:
                raise target.broken(guarantee, published)
            return replace(
                target, likelihood=max(cast(list[Fraction], least))
            )  # the past is at exactly ε
        return target

    def pairs(self, place: int, joint: Array) -> "list[tuple[tuple[int, int], ExactPair]]":
        """Return the laws under both secrets of every pair, from joint masses (values of the secret, outcomes)."""
        total = self.totals[place]
        return [
            (pair, ExactPair(joint[pair[0]], joint[pair[1]], total)) for pair in self.seen.pairs
        ]

    def excesses(self, place: int, joint: Array, unit: int) -> Array:
        """Return Σ_y(J_s − t·J_s′)_+ for every pair and past output, from masses (secrets, past outputs, outputs)."""
        over, under = self.likelihood.numerator, self.likelihood.denominator
        rows = [
            np.maximum(joint[one] * under - joint[other] * over, 0).sum(axis=1)
            for one, other in self.seen.pairs
        ]
        whole = self.totals[place] * unit * under
        return np.array(
            [[Fraction(int(each), whole) for each in row] for row in rows], dtype=object
        )

    def of_past(self) -> "list[tuple[tuple[int, int], ExactPair]]":
        """Return the laws of past outputs alone, for every pair and table."""
        return [
            pair
            for place, part in enumerate(self.parts)
            for pair in self.pairs(place, part.sum(axis=2))
        ]

    def broken(self, guarantee: Guarantee, published: Sequence[Any] | None) -> Refused:
        """Return the refusal of a guarantee that the past has broken, with a guarantee that it has kept."""
        every = self.of_past()
        epsilon, delta = read_target(guarantee)
        least = max(laws.epsilon(delta) for _, laws in every)
        share = max(laws.delta(epsilon) for _, laws in every)
        names = self.seen.values
        if math.isinf(least) and published is not None:
            (one, other), _ = next(item for item in every if math.isinf(item[1].pure))
            return Refused(
                f"The published output {shown_outputs(published)} cannot occur under {names[other]!r}, and can under "
                f"{names[one]!r}: no pure guarantee is left for this pair.",
                allowed="a guarantee about other pairs, or with delta",
                instead="pf.Approx(epsilon, delta) for all outputs that were possible",
            )
        pair = max(every, key=lambda item: item[1].delta_at(self.likelihood))[0]
        words = f"{names[pair[0]]!r} and {names[pair[1]]!r}"
        costs = (
            f"epsilon {least:.6g}"
            if not delta
            else f"epsilon {least:.6g} at this delta, or delta {share:.6g}"
        )
        above = (
            f"{least - epsilon:.6g} more than the guarantee's"
            if math.isfinite(least)
            else "there is no finite one"
        )
        return Refused(
            f"The past alone distinguishes {words} by {costs}: {above}.",
            allowed="a guarantee that the past has kept",
            instead=_feasible(epsilon, delta, least, share),
        )


def _feasible(epsilon: float, delta: float, least: float, share: float) -> str:
    if math.isfinite(least):
        return (
            f"pf.Approx({least!r}, {delta!r}), or more" if delta else f"pf.Pure({least!r}), or more"
        )
    return (
        f"pf.Approx({epsilon!r}, {share!r}), or more"
        if share < 1
        else "another secret: the past reveals it fully"
    )


def shown_outputs(published: Sequence[Any]) -> str:
    """Return outputs for an error: they are public."""
    return ", ".join(
        repr(cast(Any, one)) if isinstance(one, tuple) else quoted(one) for one in published
    )


def _parts(
    seen: ProjectedTable, past: "PastOutcomes", reads: tuple[str, ...]
) -> tuple[tuple[Values, ...], tuple[Array, ...]]:
    """Return what the next release reads, and for every table A_s(y_1, x)."""
    inputs = tuple(sorted({seen.place(reads, point) for point in seen.points}))
    places = [inputs.index(seen.place(reads, point)) for point in seen.points]
    check_size(len(seen.values) * past.masses.size, f"{past.masses.shape[1]} past outputs")
    parts: list[Array] = []
    for laws, _ in seen.laws:
        part = np.zeros((len(laws), past.masses.shape[1], len(inputs)), dtype=object)
        for at, place in enumerate(places):
            part[:, :, place] += laws[:, at][:, None] * past.masses[at][None, :]
        parts.append(part)
    return inputs, tuple(parts)


class PastOutcomes(NamedTuple):
    """The likelihoods of past outputs at every point, in whole numbers, their unit, and their relative error."""

    masses: Array
    unit: int
    off: Fraction

    @classmethod
    def of_nothing(cls, points: int) -> "PastOutcomes":
        """Return the one outcome of no release."""
        return cls(np.ones((points, 1), dtype=object), 1, Fraction(0))

    def followed_by(self, step: "PastOutcomes", values: int) -> "tuple[PastOutcomes, Indices]":
        """Return the outcomes that are possible after one more step, and the place of the earlier one of each.

        Outcomes are refused if enumerating them for all `values` of the secret takes too long.
        """
        size = step.masses.shape[1]
        check_size(self.masses.size * size * values, f"{size} further outcomes")
        masses = (self.masses[:, :, None] * step.masses[:, None, :]).reshape(len(self.masses), -1)
        possible = np.flatnonzero((masses != 0).any(axis=0))
        return PastOutcomes(
            masses[:, possible], self.unit * step.unit, self.off + step.off
        ), possible // size


def _past_outcomes(
    seen: ProjectedTable, past: Sequence[Release], published: Sequence[Any] | None
) -> PastOutcomes:
    """Return the outcomes of releases: the published ones, or all."""
    if published is not None:
        return _published(seen, past, published)
    channels: list[Channel] = []
    off = 0.0
    for one in past:
        channel, error = (one, 0.0) if isinstance(one, Channel) else _told_by(seen, one)
        channels.append(channel)
        off += error
    outcomes = Outcomes.of(seen, channels)
    return PastOutcomes(merged(outcomes.masses), outcomes.total, Fraction(off))


def merged(masses: Array) -> Array:
    """Return the columns of masses, proportional ones added: they are equivalent."""
    classes: dict[tuple[int, ...], Array] = {}
    for column in masses.T:
        common = math.gcd(*column.tolist())
        key = tuple(one // common for one in column.tolist())
        classes[key] = classes[key] + column if key in classes else column
    return np.stack(list(classes.values()), axis=1)


def _told_by(seen: ProjectedTable, release: Additive | CopulaNoise) -> tuple[Channel, float]:
    """Return a channel that reveals at least as much as a noisy release, and the error of its probabilities."""
    read = list(dict.fromkeys(seen.place(release.reads, point) for point in seen.points))
    if isinstance(release, Additive) and release.noise.scale == 0:
        return Channel.revealing(release.reads, read), 0.0
    if (
        isinstance(release, CopulaNoise)
        or not isinstance(release.noise, Laplace | Staircase)
        or len(release.reads) > 1
    ):
        noise = "tied" if isinstance(release, CopulaNoise) else type(release.noise).__name__
        raise Refused(
            f"A past release with {noise} noise on {len(release.reads)} columns, all of whose outputs constrain the "
            "next one.",
            allowed="channels, Laplace or staircase noise on one column; for a pure guarantee also published outputs",
            instead="published=[…], or Channel.of_noise(reads, inputs, outputs, noise), on a grid",
        )
    exact = [
        Fraction(finite_number(one[0], "An answer", allowed="numbers", instead="a channel"))
        for one in read
    ]
    rows, off = bin_edges(exact, release.noise)
    return Channel(release.reads, read, list(range(len(rows[0]))), rows), off


def bin_edges(
    answers: Sequence[Fraction], noise: Laplace | Staircase
) -> tuple[list[list[Fraction]], float]:
    """Return a channel that reveals at least as much of answers as such noise on them, and its error."""
    scaled = [(one - min(answers)) / Fraction(noise.scale) for one in answers]
    if isinstance(noise, Staircase):
        check_size(
            count_of_steps(scaled) * len(answers),
            f"{count_of_steps(scaled)} pieces between jumps of staircases",
        )
        cells = staircase_cells(noise, scaled)
    else:
        cells = laplace_cells(np.array([float(one) for one in scaled]), max(_KNOTS, len(answers)))
    rows = [[Fraction(one) for one in row] for row in cells.masses.tolist()]
    return [[one / sum(row) for one in row] for row in rows], 2 * cells.off + _ROUNDING


def _published(
    seen: ProjectedTable, past: Sequence[Release], published: Sequence[Any]
) -> PastOutcomes:
    """Return the likelihoods of published outputs: for channels exactly, for noise by its density."""
    if not isinstance(cast(object, published), list | tuple) or len(published) != len(past):
        raise UsageError(
            "published does not have an output for every past release.",
            allowed="a list with the output of each past release, in order",
            instead="without published, for all possible outputs",
        )
    likelihoods = [Fraction(1)] * len(seen.points)
    off = Fraction(0)
    for one, output in zip(past, published, strict=True):
        for at, point in enumerate(seen.points):
            given = seen.place(one.reads, point)
            likelihoods[at] *= (
                one.probability(given, output)
                if isinstance(one, Channel)
                else _density(one, given, output)
            )
        off += 0 if isinstance(one, Channel) else Fraction(256 * UNIT * (1 + len(one.reads)))
    total = math.lcm(*(one.denominator for one in likelihoods))
    if not any(likelihoods):
        raise UsageError(
            "The published outputs are impossible under the table.",
            allowed="outputs that are possible",
        )
    whole = [one.numerator * (total // one.denominator) for one in likelihoods]
    return PastOutcomes(np.array(whole, dtype=object)[:, None], total, off)


def _density(release: Additive | CopulaNoise, given: Values, output: Any) -> Fraction:
    """Return the density of a noisy answer at an output, in rational numbers."""
    outputs = cast(Sequence[Any], output) if isinstance(output, list | tuple) else (output,)
    if (
        isinstance(release, CopulaNoise)
        or release.noise.scale == 0
        or release.correlation
        or len(outputs) != len(release.reads)
    ):
        raise Refused(
            "A published output is of a release without noise, has correlated noise, or has other coordinates.",
            allowed="published outputs of channels, and of independent noise: a number for every column",
            instead="pf.confounding.Channel.revealing(reads, inputs) for what was published without noise",
        )
    logs = 0.0
    for value, number in zip(given, outputs, strict=True):
        at = finite_number(
            number, "An output", allowed="finite numbers", instead="the number that was published"
        )
        if isinstance(release.noise, Staircase):
            logs += log_stairs(release.noise, Fraction(at) - Fraction(cast(float, value)))
        else:
            logs += float(release.noise.logpdf(at - cast(float, value)))
    if logs < -600:
        raise Refused(
            "The published output lies too far from every answer.",
            allowed="outputs within some 30 scales",
            instead="leaving published out",
        )
    return Fraction(math.exp(logs))
