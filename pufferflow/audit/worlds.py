"""Two worlds: the answers under either value of a secret, drawn one by one, and the noise of a real release on them."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol, final

import numpy as np
import numpy.typing as npt

from pufferflow.errors import Misuse
from pufferflow.law import GaussianLaw, Law
from pufferflow.noise import Noise
from pufferflow.noise.drawing import Noisy

Floats = npt.NDArray[np.float64]
Generator = np.random.Generator
_WHOLE = 2.0**53
_POINTS = 256


class World(Protocol):
    """The law of an answer without noise, of which answers can be drawn."""

    def draw(self, count: int, rng: Generator) -> Sequence[npt.NDArray[Any]]:
        """Return answers, an array of numbers for each coordinate."""
        ...

    def points(self) -> tuple[Floats, Floats]:
        """Return points of shape (m, d) and weights that are about the law: only what is likely depends on them."""
        ...


@final
@dataclass(frozen=True, eq=False)
class Finite:
    """Answers of a finite law."""

    law: Law

    def draw(self, count: int, rng: Generator) -> Sequence[npt.NDArray[Any]]:
        """Return atoms as they are: whole numbers, floats or Fractions."""
        places = np.searchsorted(self._cumulated, rng.random(count), side="right")
        return [column[places] for column in self._columns]

    def points(self) -> tuple[Floats, Floats]:
        """Return the atoms."""
        return self.law.values.reshape(len(self.law), -1).astype(np.float64), self.law.probabilities

    @cached_property
    def _cumulated(self) -> Floats:
        total = np.cumsum(self.law.probabilities)
        return total[:-1] / total[-1]

    @cached_property
    def _columns(self) -> list[npt.NDArray[Any]]:
        return [plain(column) for column in self.law.values.reshape(len(self.law), -1).T]


@final
@dataclass(frozen=True, eq=False)
class Normal:
    """Answers of a Gaussian law."""

    law: GaussianLaw

    def draw(self, count: int, rng: Generator) -> Sequence[npt.NDArray[Any]]:
        """Return floats."""
        return list((rng.standard_normal((count, len(self._root))) @ self._root.T + self.law.mean).T)

    def points(self) -> tuple[Floats, Floats]:
        """Return quantiles of equal weight; of vectors, draws that are always the same."""
        if len(self.law.mean) == 1:
            from scipy import special

            units = special.ndtri((np.arange(_POINTS) + 0.5) / _POINTS)[:, None]
        else:
            units = np.random.default_rng(1).standard_normal((_POINTS, len(self.law.mean)))
        return units @ self._root.T + self.law.mean, np.full(_POINTS, 1 / _POINTS)

    @cached_property
    def _root(self) -> Floats:
        sizes, directions = np.linalg.eigh(self.law.covariance)
        return directions * np.sqrt(np.maximum(sizes, 0.0))


@final
@dataclass(frozen=True, eq=False)
class Mechanism:
    """The noise of each coordinate, and its grid; None for the one that the noise chooses itself (M13)."""

    noises: tuple[Noise, ...]
    grids: tuple[Fraction | None, ...]

    @classmethod
    def of(cls, noise: Noise, dimension: int) -> "Mechanism":
        """Return one noise in every coordinate."""
        return cls((noise,) * dimension, (None,) * dimension)

    def release(self, answers: Sequence[npt.NDArray[Any]], rng: Generator | None) -> Floats:
        """Return answers with noise, of shape (n, d), drawn as a release draws them."""
        parts = zip(self.noises, self.grids, answers, strict=True)
        noisy: list[Noisy] = [noise.release(column, rng, grid) for noise, grid, column in parts]
        return np.stack([one.values for one in noisy], axis=1)


@final
@dataclass(frozen=True, eq=False)
class Duel:
    """Two worlds that a mechanism has to make look alike: `names` of both secrets, and what is special about them."""

    worlds: tuple[World, World]
    mechanism: Mechanism
    names: tuple[str, str]
    prior: str = ""
    note: str = ""

    def draw(self, side: int, count: int, rng: Generator | None) -> Floats:
        """Return noisy answers of one world; without `rng`, noise is the operating system's randomness."""
        own = np.random.default_rng() if rng is None else rng  # which is seeded by the operating system
        return self.mechanism.release(self.worlds[side].draw(count, own), rng)

    def words(self, first: int) -> str:
        """Say which secret stands against which."""
        return f"{self.names[first]} against {self.names[1 - first]}{self.prior}"


def world_of(law: Law | GaussianLaw) -> World:
    """Return the world with this law of the answer."""
    return Finite(law) if isinstance(law, Law) else Normal(law)


def plain(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return numbers as integers where all of them are, which are released fastest."""
    floats = column.astype(np.float64)
    whole = bool((column == np.floor(floats)).all()) and float(np.abs(floats).max(initial=0.0)) < _WHOLE
    return floats.astype(np.int64) if whole else column


def read_rng(rng: object) -> Generator | None:
    """Return the generator, if it is one."""
    if rng is None or isinstance(rng, Generator):
        return rng
    raise Misuse(
        f"rng is of type {type(rng).__name__}.",
        allowed="None for the operating system's randomness, or a numpy.random.Generator for tests",
        instead="rng=numpy.random.default_rng(1)",
    )
