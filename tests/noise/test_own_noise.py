"""A noise of one's own, made as CONTRIBUTING says: it is calibrated, released, stored, read again and shown."""

from dataclasses import dataclass

import numpy as np
import polars as pl
import pytest

import pufferflow as pf
from pufferflow.reports.evidence import Atoms, WorstPair
from pufferflow.reports.figures.worst_pair_laws import noise_of

ROWS = pl.DataFrame({"meter": ["a", "a", "b"], "level": [1, 3, 2]})
SCENARIO = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), prior=pf.Independent())


@dataclass(frozen=True)
class Steep(pf.Noise):
    """Laplace noise whose density falls `slope` times as fast."""

    norm = 1.0

    scale: float
    slope: float = 2.0

    @property
    def _plain(self):
        return pf.Laplace(1.0)

    def at(self, scale):
        return type(self)(scale, self.slope)

    def _renyi(self, units, alpha):
        return self._plain._renyi(units * self.slope, alpha)

    def _pure(self, units):
        return self._plain._pure(units * self.slope)

    def _delta(self, units, epsilon):
        return self._plain._delta(units * self.slope, epsilon)

    def _logpdf(self, units):
        return self._plain._logpdf(units * self.slope) + np.log(self.slope)

    def _tail(self, units):
        return self._plain._tail(units * self.slope)

    def _reach(self, tails):
        return self._plain._reach(tails) / self.slope

    def precise_tail(self, units, mp):
        return self._plain.precise_tail(units * self.slope, mp)

    def _mean_size(self):
        return 1 / self.slope

    def _mean_square(self):
        return 2 / self.slope**2


EVERY_NOISE = [
    pf.Laplace(1.5),
    pf.Gaussian(0.0),
    pf.GeneralizedCauchy(2.0, k=4),
    pf.Staircase(3.0, 0.5, 0.25),
    Steep(7.0),
]


def batch():
    return ROWS.puffer.protect(SCENARIO).private_sum("level")


def test_it_is_released_and_stored(tmp_path):
    """A ledger keeps a release with it, adds up its cost when it is opened again, and gives the release back."""
    plan = batch().plan(pf.Pure(1.0), noise=Steep)
    assert plan.noises["level_sum"] == Steep(pytest.approx(6.0))
    account = pf.Ledger(tmp_path / "ledger.db").open("power", SCENARIO, limit=pf.Pure(3.0))
    released = plan.release(account, "monday")
    again = pf.Ledger(tmp_path / "ledger.db").account("power")
    assert again.spent().epsilon == pytest.approx(1.0)
    assert again.release("monday").frame.equals(released.frame)
    assert (
        batch()
        .plan(pf.Pure(1.0), noise=Steep)
        .release(again, "monday")
        .frame.equals(released.frame)
    )


@pytest.mark.slow
def test_it_is_shown(tmp_path):
    """Words name it, and a page draws it."""
    plan = batch().plan(pf.Pure(1.0), noise=Steep)
    assert "Steep noise on every sum" in plan.explain()
    assert "cannot be drawn here" not in plan.report(tmp_path / "plan.html").read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize("noise", EVERY_NOISE, ids=repr)
def test_every_noise_is_read_back_as_it_was_stored(noise):
    """What is stored is text and numbers; they and the name are the noise."""
    assert pf.Noise.restored(noise.stored()) == noise
    assert all(isinstance(value, str | float) for value in noise.stored().values())


def test_bytes_of_stored_noises():
    """Ledgers of any age hold these names."""
    assert [noise.stored() for noise in EVERY_NOISE[:4]] == [
        {"family": "Laplace", "scale": 1.5},
        {"family": "Gaussian", "scale": 0.0},
        {"family": "GeneralizedCauchy", "scale": 2.0, "k": 4.0},
        {"family": "Staircase", "scale": 3.0, "epsilon": 0.5, "gamma": 0.25},
    ]


@pytest.mark.parametrize("noise", EVERY_NOISE[:3] + EVERY_NOISE[4:], ids=repr)
def test_pages_draw_what_they_name(noise):
    """Name, scale and shape are enough, but for the gamma of a staircase, which is then the best one."""
    point = Atoms((0.0,), (1.0,))
    assert (
        noise_of(
            WorstPair(
                "load", "0", "3", point, point, type(noise).__name__, noise.scale, noise.shape
            )
        )
        == noise
    )
    assert (
        noise_of(WorstPair("load", "0", "3", point, point, "Nameless", noise.scale, noise.shape))
        is None
    )


@pytest.mark.parametrize(
    "stored", [{"family": "Unheard", "scale": 1.0}, {"family": "Laplace", "scale": 1.0, "k": 2.0}]
)
def test_a_noise_that_is_not_known_is_not_guessed(stored):
    """A ledger of a newer version, or of somebody else's noise, adds up nothing here."""
    with pytest.raises(pf.InternalError, match="a newer pufferflow"):
        pf.Noise.restored(stored)


def test_no_name_is_given_to_two_noises():
    """A ledger stores names: a second Laplace would be read back as the first."""
    with pytest.raises(pf.UsageError, match="Two noises are called Laplace"):
        type("Laplace", (pf.Noise,), {})
