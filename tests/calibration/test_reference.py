"""Scales and losses computed independently of this library (RPP's examples, corrected)."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from thinned import thinned

import pufferflow as pf
from pufferflow.calibration.exact import quadrature
from pufferflow.calibration.exact.gaussian import GaussianField
from pufferflow.calibration.exact.laplace import LaplaceField
from pufferflow.calibration.exact.quadrature import PairAtoms

FIELDS = {"gauss": GaussianField, "laplace": LaplaceField}
CASES = json.loads(
    (Path(__file__).parents[1] / "reference" / "calibration.json").read_text(encoding="utf-8")
)
FAMILIES = {
    "laplace": lambda _: pf.Laplace,
    "gauss": lambda _: pf.Gaussian,
    "gcauchy": pf.GeneralizedCauchy.of,
}
BOUNDS = {"GWM": pf.GWM(), "DAGWM": pf.DAGWM(), "exact": pf.Exact()}


def law(weights):
    return pf.Law([float(atom) for atom in weights], list(weights.values()))


@pytest.mark.parametrize(
    "case",
    thinned(sorted(CASES["scales"], key=lambda case: len(case["laws"])), 0.06),
    ids=lambda case: case["id"],
)
def test_scales(case):
    """The least scale of every mechanism for RPP's examples, an outlier, a Markov chain and random laws."""
    pairs = [(law(mu), law(nu)) for mu, nu in case["laws"]]
    family = FAMILIES[case["noise"]](case["k"])
    found = pf.calibrate(
        pairs, pf.Renyi(case["alpha"], case["epsilon"]), noise=family, bound=BOUNDS[case["bound"]]
    )
    assert found.noise.scale == pytest.approx(case["value"], abs=case["tolerance"])
    assert found.loss <= case["epsilon"]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES["vectors"], ids=lambda case: case["id"])
def test_exact_losses_of_vectors(case):
    """D_α of 2-D mixtures; a scale for each coordinate is a stretching of the answer (the larger order counts)."""
    scale = np.array(case["scale"])
    laws = []
    for rows in (case["mu"], case["nu"]):
        table = np.array(rows)
        laws.append(pf.Law(table[:, :2] / scale, table[:, 2] / table[:, 2].sum()))
    noise = {"gauss": pf.Gaussian, "laplace": pf.Laplace}[case["noise"]](1.0)
    kind = pf.Renyi.of(case["alpha"])
    field = FIELDS[case["noise"]](
        PairAtoms(pf.Pair(*laws), float(pf.winf(*laws, noise.norm))), noise
    )
    forth, back = (quadrature.divergence(one, case["alpha"]) for one in (field, field.swapped()))
    assert forth == pytest.approx(case["value"], abs=case["tolerance"])
    assert pf.loss([tuple(laws)], noise, kind, bound=pf.Exact()) == max(forth, back)
    bottleneck, transport = (
        pf.loss([tuple(laws)], noise, kind, bound=bound) for bound in (pf.GWM(), pf.DAGWM())
    )
    stated = dict(
        zip(
            ["exp-OT", "bottleneck"],
            map(float, case["note"].replace(",", "").split()[1::2]),
            strict=True,
        )
    )
    assert transport == pytest.approx(stated["exp-OT"], abs=1e-5)
    # of Laplace noise a ball holds more than the shifts that occur: its worst lies along one coordinate
    assert bottleneck >= stated["bottleneck"] - 1e-5
    if case["noise"] == "gauss":
        assert bottleneck == pytest.approx(stated["bottleneck"], abs=1e-5)


@pytest.mark.slow
def test_two_releases_of_an_xor():
    """X₁ and X₂ = X₁⊕S: each release alone has loss 0, both together 1.8597 (σ = .5, α = 2)."""
    both = pf.Law([[0, 0], [1, 1]], [0.5, 0.5]), pf.Law([[0, 1], [1, 0]], [0.5, 0.5])
    assert pf.loss([both], pf.Gaussian(0.5), pf.Renyi.of(2), bound=pf.Exact()) == pytest.approx(
        1.8597440585972396, abs=1e-6
    )
    one = pf.Law([0, 1], [0.5, 0.5])
    assert pf.loss([(one, one)], pf.Gaussian(0.5), pf.Renyi.of(2), bound=pf.Exact()) == 0


@pytest.mark.parametrize(
    ("mu", "nu", "exact", "gwm"),
    [
        ({1: 0.375, 2: 0.625}, {0: 0.625, 1: 0.375}, 1.232094871125636, 2.0),
        ({0: 0.2, 1: 0.5, 4: 0.3}, {0: 0.1, 2: 0.6, 7: 0.3}, 2.9227589403935097, 3.0),
    ],
)
def test_pure_laplace(mu, nu, exact, gwm):
    """The atom check of M6, and W_∞/b."""
    pair = law(mu), law(nu)
    assert pf.loss([pair], pf.Laplace(1), pf.Pure, bound=pf.Exact()) == pytest.approx(
        exact, abs=1e-9
    )
    assert pf.loss([pair], pf.Laplace(1), pf.Pure, bound=pf.GWM()) == gwm


def test_exact_cauchy_of_example_1():
    """Example 1 with ρ = .25: D_2 = .478583 with Cauchy noise of scale 1."""
    pair = law({1: 0.375, 2: 0.625}), law({0: 0.625, 1: 0.375})
    assert pf.loss(
        [pair], pf.GeneralizedCauchy(1), pf.Renyi.of(2), bound=pf.Exact()
    ) == pytest.approx(0.478582627661698, abs=1e-7)


def test_cauchy_calibration():
    """k = 6, α = 2, ε = 1, Δ = 1: λ = 1.68933."""
    pair = pf.Law.point(0), pf.Law.point(1)
    found = pf.calibrate(
        [pair], pf.Renyi(2, 1.0), noise=pf.GeneralizedCauchy.of(k=6), bound=pf.GWM()
    )
    assert found.noise.scale == pytest.approx(1.6893299789742835, abs=1e-8)


OUTLIER = law({0: 0.5, 1: 0.5}), law({0: 0.4, 1: 0.597, 50: 0.003})


@pytest.mark.parametrize(("delta", "scale"), [(0.0, 49.0), (0.003, 1.0), (0.11, 0.0)])
def test_gawm_leaves_out_what_is_rare(delta, scale):
    """(1, δ)-privacy with Laplace noise: Δ_δ = 49, 1 and 0, without a further term (M4)."""
    found = pf.calibrate([OUTLIER], pf.Approx(1.0, delta), noise=pf.Laplace, bound=pf.GAWM(delta))
    assert found.noise.scale == pytest.approx(scale, abs=1e-9)
    renyi = pf.calibrate(
        [OUTLIER], pf.ApproxRenyi(4, 1.0, delta), noise=pf.Laplace, bound=pf.GAWM(delta)
    )
    alone = pf.calibrate(
        [(pf.Law.point(0), pf.Law.point(scale))], pf.Renyi(4, 1.0), noise=pf.Laplace, bound=pf.GWM()
    )
    assert renyi.noise.scale == pytest.approx(alone.noise.scale, rel=1e-9)


def test_gawm_as_printed_is_looser():
    """RPP Theorem 4.3 adds α/(α−1)·log(1/(1−δ)); M4 shows that it need not."""
    kind = pf.ApproxRenyi.of(alpha=4, delta=0.003)
    tight = pf.loss([OUTLIER], pf.Laplace(1), kind, bound=pf.GAWM(0.003))
    printed = pf.loss([OUTLIER], pf.Laplace(1), kind, bound=pf.GAWM(0.003, as_printed=True))
    assert printed == pytest.approx(tight + 4 / 3 * math.log(1 / 0.997), rel=1e-12)
    scales = [
        pf.calibrate(
            [OUTLIER],
            pf.Approx(1.0, 0.003),
            noise=pf.Laplace,
            bound=pf.GAWM(0.003, as_printed=option),
        )
        for option in (False, True)
    ]
    assert scales[0].noise.scale == 1.0
    assert scales[1].noise.scale == pytest.approx(1 / (1 - math.log(1 / 0.997)), rel=1e-9)


@pytest.mark.parametrize(
    ("values", "scale", "distance"),
    [
        ((1, 2), 0.5, 0.5),
        ((1, 100), 0.5, 49.5),
        ((2, 100), 0.5, 49.0),
        ((1, 100), 1, 99.0),
        ((2, 100), 1, 98.0),
    ],
)
def test_example_2_has_nothing_to_gain_from_gawm(values, scale, distance):
    """The mean and the sum of two salaries: W_∞ and Δ_{.003} are the same (the printed 98 and 1 are wrong)."""
    other = law({1: 0.5, 2: 0.499, 100: 0.001})
    pair = tuple(other.shift(value).map(lambda x: x * scale) for value in values)
    for bound in (pf.GWM(), pf.GAWM(0.003)):
        found = pf.calibrate([pair], pf.Approx(1.0, 0.003), noise=pf.Laplace, bound=bound)
        assert found.sensitivity == pytest.approx(distance, abs=1e-9)
    assert pf.calibrate(
        [pair], pf.Pure(1.0), noise=pf.Laplace, bound=pf.GWM()
    ).noise.scale == pytest.approx(distance)


def test_gaussian_attribute():
    """M15: X^j given X^i, Σ = [[2, .6], [.6, 1]], movement 3, σ = .5, α = 8: 3.028 exactly, 12.96 by GWM."""
    slope, rest = 0.6 / 2, 1 - 0.6**2 / 2
    pair = pf.GaussianLaw(0, rest), pf.GaussianLaw(3 * slope, rest)
    noise, kind = pf.Gaussian(0.5), pf.Renyi.of(8)
    assert pf.loss([pair], noise, kind, bound=pf.Exact()) == pytest.approx(
        3.028037383177569, abs=1e-9
    )
    for bound in (pf.GWM(), pf.DAGWM()):
        assert pf.loss([pair], noise, kind, bound=bound) == pytest.approx(
            12.959999999999997, abs=1e-9
        )


def test_subsampling_gains_nothing():
    """Rows that are all one secret: an answer from a tenth of them has the loss of the whole."""
    copies = pf.Law.point(0), pf.Law.point(1)
    assert pf.loss([copies], pf.Laplace(1), pf.Pure, bound=pf.Exact()) == pytest.approx(
        1.0, abs=1e-12
    )


# The Markov table: two states, transition [[1−q, q], [1−p, p]], T = 100, stationary, a count; Laplace, pure ε


def chain_laws(q, p, length, at):
    """The exact laws of Σ X_t given X_at = 0 and 1: steps run forward from `at`, and backward by the reversed chain.

    A two-state chain is reversible, so both directions use the same kernel.
    """
    kernel = np.array([[1 - q, q], [1 - p, p]])

    def spread(start, steps):
        counts = np.zeros((2, steps + 1))
        counts[start, 0] = 1.0
        for _ in range(steps):
            moved = kernel.T @ counts
            moved[1] = np.concatenate([[0.0], moved[1, :-1]])
            counts = moved
        return counts.sum(axis=0)

    laws = []
    for start in (0, 1):
        weights = np.convolve(spread(start, at), spread(start, length - 1 - at))
        kept = weights > 0
        laws.append(pf.Law((np.arange(len(weights)) + start)[kept], weights[kept] / weights.sum()))
    return tuple(laws)


TABLE = [
    (0.4, 0.6, 0.2, 7.4931, 10),
    (0.4, 0.6, 1, 1.4673, 2),
    (0.4, 0.6, 5, 0.23778, 0.4),
    (0.3, 0.7, 1, 2.2572, 3),
    (0.1, 0.9, 0.2, 44.925, 50),
    (0.1, 0.9, 5, 0.79393, 2),
]


@pytest.mark.parametrize(("q", "p", "epsilon", "least", "gwm"), thinned(TABLE, 0.2, unpack=True))
def test_markov_table(q, p, epsilon, least, gwm):
    """`Exact` finds b* within .1 % over all positions, GWM finds W_∞/ε."""
    pairs = [chain_laws(q, p, 100, at) for at in range(50)]  # the other half mirrors this one
    exact = pf.calibrate(pairs, pf.Pure(epsilon), noise=pf.Laplace, bound=pf.Exact())
    assert exact.noise.scale == pytest.approx(least, rel=1e-3)
    wide = pf.calibrate(pairs, pf.Pure(epsilon), noise=pf.Laplace, bound=pf.GWM())
    assert wide.noise.scale == pytest.approx(gwm, rel=1e-12)
    assert (
        exact.noise.scale
        <= pf.calibrate(pairs, pf.Pure(epsilon), noise=pf.Laplace).noise.scale
        <= wide.noise.scale
    )
