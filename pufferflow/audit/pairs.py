"""Pairs of laws and one noise for all coordinates: what `pf.calibrate` calibrates, drawn."""

import numpy as np

from pufferflow.audit.worlds import Duel, Mechanism, world_of
from pufferflow.bounds import Laws, Pair
from pufferflow.bounds.laws import read_laws
from pufferflow.errors import Misuse
from pufferflow.law import GaussianLaw, Law
from pufferflow.noise import Noise
from pufferflow.rounding import UNIT
from pufferflow.transport import winf

MOST_PAIRS = 64


def duels_of_pairs(noise: Noise, laws: object) -> list[Duel]:
    """Return the pairs to tell apart: of many only those that lie farthest apart."""
    noise.check_drawable()
    pieces = read_laws(laws)
    found = [(pair, piece.movement_only) for piece in pieces for pair in _pairs(piece, noise)]
    if len(found) > MOST_PAIRS:
        found = sorted(found, key=lambda one: -_apart(one[0]))[:MOST_PAIRS]
    many = len(found) > 1
    duels = [
        _duel(noise, pair, place if many else None, stands_in=stands_in)
        for place, (pair, stands_in) in enumerate(found)
    ]
    if len({len(duel.mechanism.noises) for duel in duels}) > 1:
        raise Misuse(
            "The laws have several dimensions.", allowed="laws of one dimension", instead="one attack for each"
        )
    return duels


def _pairs(piece: Laws, noise: Noise) -> list[Pair]:
    """Return all pairs; where one stands for a movement, no farther apart than that is."""
    if not piece.movement_only:
        return list(piece)
    return [at_most(pair, piece.winf(noise.norm).length, noise.norm) for pair in piece]


def at_most(pair: Pair, length: float, norm: float) -> Pair:
    """Return two points as far apart as a movement is long: on vectors, a pair goes as far in each coordinate.

    What stands in must not move farther than the answers do, so its length is rounded down.
    """
    start, end = (np.atleast_1d(np.asarray(law.values[0], dtype=np.float64)) for law in pair if isinstance(law, Law))
    whole = float(np.linalg.norm(end - start, norm))
    share = 1.0 if whole <= length else length / whole * (1 - 8 * len(start) * UNIT)
    moved = share * (end - start)
    origin, moved = (np.zeros(1)[0], moved[0]) if pair.dimension == 1 else (np.zeros(len(start)), moved)
    return Pair(Law.point(origin), Law.point(moved), pair.prior, pair.secrets, pair.row)


def in_words(length: float, scale: float) -> str:
    """Say that two points stand for laws."""
    apart = f"{length / scale:.6g} times the noise's scale" if scale > 0 else f"{length:.6g}"
    return f"two points {apart} apart stand for the secrets, since no more is known than how far answers move"


def names_of(secrets: tuple[object, object] | None, place: int | None = None) -> tuple[str, str]:
    """Return the secrets in words."""
    if secrets is not None:
        return repr(secrets[0]), repr(secrets[1])
    of_pair = "" if place is None else f" of pair {place + 1}"
    return f"the first law{of_pair}", f"the second law{of_pair}"


def believing(prior: object) -> str:
    """Say what is believed."""
    describe = getattr(prior, "describe", None)
    return f", believing that {describe()}" if callable(describe) else ""


def _duel(noise: Noise, pair: Pair, place: int | None, *, stands_in: bool) -> Duel:
    mechanism = Mechanism.of(noise, pair.dimension)
    note = _note(pair, noise) if stands_in else ""
    worlds = world_of(pair.mu), world_of(pair.nu)
    return Duel(worlds, mechanism, names_of(pair.secrets, place), believing(pair.prior), note)


def _note(pair: Pair, noise: Noise) -> str:
    start, end = (np.atleast_1d(np.asarray(law.values[0], dtype=np.float64)) for law in pair if isinstance(law, Law))
    return in_words(float(np.linalg.norm(end - start, noise.norm)), noise.scale)


def _apart(pair: Pair) -> float:
    """Return how far apart two laws lie; of vectors and Gaussian laws, their means."""
    mu, nu = pair
    if isinstance(mu, Law) and isinstance(nu, Law) and mu.dimension == 1:
        return float(winf(mu, nu))
    return float(np.linalg.norm(_mean(mu) - _mean(nu)))


def _mean(law: Law | GaussianLaw) -> np.ndarray:
    if isinstance(law, GaussianLaw):
        return law.mean
    return law.probabilities @ law.values.reshape(len(law), -1).astype(np.float64)
