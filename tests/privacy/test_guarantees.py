"""The guarantees: conversions hold for the divergences of random laws, are tight where they claim it, and round up."""

import itertools
import math
import pickle
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp, ndtr, ndtri
from thinned import thinned

import pufferflow as pf

CONVERSIONS = [  # (guarantee, total delta, epsilon): M29, computed independently
    (pf.Renyi(2, 1.0), 1e-5, 11.126631103850338),
    (pf.Renyi(10, 0.5), 1e-5, 1.4180106367839718),
    (pf.Renyi(32, 0.1), 1e-6, 0.4021150002391148),
    (pf.Renyi(8, 1.0), 1e-3, 1.5562277127043775),
    (pf.Renyi(3, 0.01), 0.5, 0.0),
    (pf.ApproxRenyi(10, 0.5, 1e-3), 1e-3 + (1 - 1e-3) * 1e-3, 0.9063250605630726),
]

EXAMPLES = [
    pf.Pure(0.0),
    pf.Pure(1.0),
    pf.Approx(1.0, 0.0),
    pf.Approx(0.5, 1e-6),
    pf.Renyi(2, 0.3),
    pf.RenyiCurve([4, 2], [1.0, 0.25]),
    pf.ApproxRenyi(4, 0.3, 1e-3),
    pf.Zcdp(0.1),
    pf.Gdp(0.5),
    pf.TradeOff(1.0, 1e-3, 0.3),
    pf.TradeOff(0.5, 0.0, 1.0),
    pf.Tv(0.2),
]


@pytest.mark.parametrize(("promise", "delta", "epsilon"), CONVERSIONS)
def test_conversion_equals_reference(promise, delta, epsilon):
    """M29's values come out to 1e−12, never below, and clipped at 0."""
    converted = promise.to_approx(delta)
    assert converted.delta == delta
    assert epsilon <= converted.epsilon + 1e-16
    assert converted.epsilon == pytest.approx(epsilon, abs=1e-12)


def renyi(p, q, alpha):
    return float(logsumexp(alpha * np.log(p) + (1 - alpha) * np.log(q))) / (alpha - 1)


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


every_part = pytest.mark.parametrize("part", thinned(range(4), 0.25))
"""Each part has random pairs of its own."""


def random_pairs(part):
    rng = np.random.default_rng(7 + part)
    for _ in range(100):
        size = int(rng.integers(2, 6))
        p, q = rng.dirichlet(np.full(size, rng.choice([0.3, 1, 10])), 2) + 1e-12
        yield p / p.sum(), q / q.sum()


@every_part
def test_renyi_conversion_holds_for_random_laws(part):
    """The (ε, δ) that follows from a law pair's Rényi divergence is true of that pair."""
    for p, q in random_pairs(part):
        for alpha, delta in itertools.product((1.1, 2, 5, 40), (1e-6, 1e-2, 0.3)):
            loss = max(renyi(p, q, alpha), renyi(q, p, alpha))
            epsilon = pf.Renyi(alpha, max(loss, 0.0)).to_approx(delta).epsilon
            assert max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)) <= delta + 1e-12


@every_part
def test_pure_conversions_hold_for_random_laws(part):
    """A pair's exact pure loss implies its Rényi divergence of every order and its hockey stick at every δ."""
    for p, q in random_pairs(part):
        promise = pf.Pure(float(np.abs(np.log(p / q)).max()))
        for alpha in (1.01, 2, 7, 60):
            assert (
                max(renyi(p, q, alpha), renyi(q, p, alpha)) <= promise.renyi_epsilon(alpha) + 1e-9
            )
        for delta in (1e-6, 1e-2, 0.3):
            epsilon = promise.to_approx(delta).epsilon
            assert hockey_stick(p, q, epsilon) <= delta + 1e-12


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 4.0])
def test_pure_conversions_are_tight_for_randomised_response(epsilon):
    """Randomised response attains both conversions, so nine tenths of either would be a lie."""
    p = np.array([math.exp(epsilon), 1]) / (1 + math.exp(epsilon))
    q = p[::-1]
    promise = pf.Pure(epsilon)
    for alpha in (1.5, 2, 10):
        assert promise.renyi_epsilon(alpha) == pytest.approx(renyi(p, q, alpha), rel=1e-9)
        assert 0.9 * promise.renyi_epsilon(alpha) < renyi(p, q, alpha)
    delta = hockey_stick(p, q, epsilon / 2)
    assert promise.to_approx(delta).epsilon == pytest.approx(epsilon / 2, rel=1e-9)
    assert hockey_stick(p, q, 0.9 * promise.to_approx(delta).epsilon) > delta


def test_approx_spends_spare_delta():
    """(ε, δ) with δ raised is the dominating pair's exact trade: ε falls, and a lower δ is refused."""
    promise = pf.Approx(1.0, 0.01)
    p = np.array([0.01, 0.99 * math.e / (1 + math.e), 0.99 / (1 + math.e), 0])
    q = p[::-1]
    raised = promise.to_approx(0.1)
    assert hockey_stick(p, q, raised.epsilon) <= 0.1
    assert hockey_stick(p, q, 0.9 * raised.epsilon) > 0.1
    with pytest.raises(pf.Refused, match="gives no finite epsilon"):
        promise.to_approx(0.001)


def test_curve_uses_its_best_order():
    """A curve converts to the least ε among its orders, each of which is a guarantee of its own."""
    curve = pf.RenyiCurve.of(lambda alpha: alpha / 8)
    single = [pf.Renyi(alpha, alpha / 8).to_approx(1e-6).epsilon for alpha in curve.alphas]
    assert curve.to_approx(1e-6).epsilon == min(single)
    assert all(curve.implies(pf.Renyi(alpha, alpha / 8)) for alpha in curve.alphas)


def test_renyi_gives_no_pure_promise():
    """A finite order bounds no single event, so δ=0 is refused."""
    with pytest.raises(pf.Refused, match="no finite epsilon at delta=0"):
        pf.Renyi(4, 1.0).to_approx(0)


@given(st.floats(0, 5), st.floats(1.01, 50), st.floats(0, 0.5))
def test_pure_implies_what_follows(epsilon, alpha, delta):
    """Pure is the strongest kind: it implies each weaker guarantee it converts to, and no stronger one."""
    pure = pf.Pure(epsilon)
    assert pure.implies(pure.to_approx(delta))
    assert pure.implies(pf.Renyi(alpha, pure.renyi_epsilon(alpha)))
    assert pure.implies(pf.ApproxRenyi(alpha, pure.renyi_epsilon(alpha), delta))
    assert not pure.implies(pf.Pure(epsilon / 2 - 1e-3)) if epsilon > 2e-3 else True


def test_implication_is_an_order():
    """Every guarantee implies itself, and implication passes on along chains of three."""
    for a, b, c in itertools.product(EXAMPLES, repeat=3):
        assert a.implies(a)
        if a.implies(b) and b.implies(c):
            assert a.implies(c)


@pytest.mark.parametrize("promise", EXAMPLES, ids=repr)
def test_promise_round_trips(promise):
    """A stored guarantee comes back equal, through JSON, pickle and its own repr, and hashes alike."""
    assert pf.Guarantee.from_json(promise.to_json()) == promise
    assert type(promise).from_json(promise.to_json()) == promise
    assert pickle.loads(pickle.dumps(promise)) == promise
    assert eval(repr(promise), vars(pf)) == promise  # noqa: S307 - our own repr
    assert hash(pf.Guarantee.from_json(promise.to_json())) == hash(promise)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: pf.Pure(-1), "epsilon is -1.0"),
        (lambda: pf.Pure(math.nan), "epsilon is nan"),
        (lambda: pf.Pure(math.inf), "epsilon is inf"),
        (lambda: pf.Pure("1"), "epsilon is of type str"),
        (lambda: pf.Pure(True), "epsilon is of type bool"),
        (lambda: pf.Approx(1, 1), "delta is 1.0"),
        (lambda: pf.Approx(1, -0.1), "delta is -0.1"),
        (lambda: pf.Renyi(1, 1), "alpha is 1.0"),
        (lambda: pf.Renyi(math.inf, 1), "alpha is inf"),
        (lambda: pf.RenyiCurve([2], [1, 2]), "1 orders and 2 epsilons"),
        (lambda: pf.RenyiCurve([], []), "0 orders and 0 epsilons"),
        (lambda: pf.ApproxRenyi(2, 1, math.nan), "delta is nan"),
        (lambda: pf.Zcdp(-1), "rho is -1.0"),
        (lambda: pf.Gdp(math.nan), "mu is nan"),
        (lambda: pf.TradeOff(1, 1.5, 0.3), "delta is 1.5"),
        (lambda: pf.TradeOff(1, 0.1, math.nan), "tv is nan"),
        (lambda: pf.TradeOff(-1, 0.1, 0.3), "epsilon is -1.0"),
        (lambda: pf.TradeOff(1, 1, 1), "both 1"),
        (lambda: pf.Tv(1), "eta is 1.0"),
        (lambda: pf.Tv("0.1"), "eta is of type str"),
        (
            lambda: pf.loss([(pf.Law.point(0), pf.Law.point(1))], pf.Laplace(1.0), pf.Tv),
            "kind is Tv",
        ),
        (lambda: pf.Pure(1).to_approx(1), "delta is 1.0"),
        (lambda: pf.Guarantee.from_json("{}"), "no stored guarantee"),
        (lambda: pf.Guarantee.from_json("not json"), "no stored guarantee"),
        (
            lambda: pf.Guarantee.from_json('{"promise":"Pure","epsilon":-3}'),
            "no stored guarantee: epsilon is -3",
        ),
        (lambda: pf.Approx.from_json(pf.Pure(1).to_json()), "kind Pure"),
    ],
)
def test_bad_numbers_are_refused(make, says):
    """Each wrong argument is named in an error of at most five lines that also says what to try."""
    with pytest.raises(pf.UsageError, match=says) as caught:
        make()
    assert "allowed:" in str(caught.value)
    assert "try:" in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 5


@pytest.mark.parametrize("epsilon", [0.5, 5.0, 36.66, 200.0])
@pytest.mark.parametrize("short", [2**-53, 3 * 2**-53, 1e-9, 0.3])
def test_conversion_near_delta_one_does_not_cancel(epsilon, short):
    """For δ next to 1 the ε of a pure guarantee is not below the exact formula, in rational arithmetic."""
    delta = 1 - short
    kept = Decimal(epsilon).exp() * (1 - Decimal(delta)) - Decimal(delta)
    exact = max(0.0, float(kept.ln())) if kept > 0 else 0.0
    assert pf.Pure(epsilon).approx_epsilon(delta) >= exact * (1 - 1e-15)


def test_tiny_and_huge_promises_convert():
    """An ε of 1e−200 implies no Rényi guarantee of 0, and one of 1e200 converts without overflow."""
    assert not pf.Pure(1e-200).implies(pf.Renyi(2, 0))
    assert pf.Pure(1e-200).renyi_epsilon(2) > 0
    assert pf.Pure(1e200).renyi_epsilon(2) == 1e200
    assert pf.Pure(0).renyi_epsilon(2) == 0


def test_rational_promises_are_rounded_up():
    """A third has no float; the guarantee recorded is the float above it, never a stronger one than was given."""
    third = Fraction(1, 3)
    assert Fraction(pf.Pure(third).epsilon) >= third
    assert Fraction(pf.Approx(1, third).delta) >= third
    assert pf.Pure(0.1).epsilon == 0.1


@pytest.mark.parametrize(
    "call",
    [
        lambda: pf.Pure(1).renyi_epsilon(1),
        lambda: pf.Pure(1).renyi_epsilon(-1),
        lambda: pf.Pure(1).approx_epsilon(math.nan),
        lambda: pf.Renyi(2, 1).approx_epsilon(1.5),
        lambda: pf.Renyi(2, 1).approx_epsilon(-1),
        lambda: pf.Pure(1).implies(None),
        lambda: pf.Pure(Decimal("sNaN")),
        lambda: pf.RenyiCurve(None, 3),
        lambda: pf.Guarantee.from_json(None),
        lambda: pf.Guarantee.from_json(b"\xff"),
        lambda: pf.Guarantee.from_json("\ud800"),
        lambda: pf.Guarantee.from_json('{"promise":"Pure","epsilon":1,"delta":0.1}'),
    ],
)
def test_odd_calls_are_misuse(call):
    """Orders, δ and texts that make no sense are errors of ours; an unknown field is not ignored."""
    with pytest.raises(pf.UsageError):
        call()


def test_curves_take_any_sequence():
    """Arrays and generators give the same curve as lists."""
    expected = pf.RenyiCurve([2, 4], [0.25, 1.0])
    assert pf.RenyiCurve(np.array([2, 4]), np.array([0.25, 1.0])) == expected
    assert pf.RenyiCurve((a for a in (4, 2)), (e for e in (1.0, 0.25))) == expected


@pytest.mark.parametrize(
    "promise",
    [pf.Approx(1, 0.6), pf.ApproxRenyi(2, 1, 0.6), pf.RenyiCurve.of(lambda a: a / 8)],
    ids=repr,
)
def test_suggested_deltas_work(promise):
    """The call that a refusal suggests can be typed, and the refusal is short."""
    with pytest.raises(pf.Refused) as caught:
        promise.to_approx(0)
    assert len(str(caught.value)) < 300
    assert eval(f"promise.{caught.value.instead}").epsilon >= 0  # noqa: S307 - our own words


# Concentrated, Gaussian and trade-off guarantees


ORDERS = 1 + np.logspace(-4, 3, 400)[:, None]


def concentrated(p, q):
    """Return the largest D_α/α of both directions over many orders: what zCDP's ρ has to be at least."""
    sums = [
        logsumexp(ORDERS * np.log(a) + (1 - ORDERS) * np.log(b), axis=1)
        for a, b in ((p, q), (q, p))
    ]
    return float((np.maximum(*sums) / ((ORDERS - 1) * ORDERS)[:, 0]).max())


def gaussian_mu(p, q):
    """Return the largest Φ⁻¹(1−α) − Φ⁻¹(β) over all tests of two laws: what GDP's μ has to be at least."""
    largest = 0.0
    for first, second in ((p, q), (q, p)):
        order = np.argsort(-first / second)
        power, size = np.cumsum(first[order])[:-1], np.cumsum(second[order])[:-1]
        largest = max(largest, float((ndtri(np.minimum(power, 1)) - ndtri(size)).max(initial=0.0)))
    return largest


@every_part
def test_pure_privacy_gives_concentrated_and_gaussian_privacy_of_random_laws(part):
    """The ρ and the μ that follow from a pair's pure loss are no less than its own, of all orders and of all tests."""
    for p, q in random_pairs(part):
        promise = pf.Pure(float(np.abs(np.log(p / q)).max()))
        assert concentrated(p, q) <= promise.zcdp_rho() + 1e-9
        assert gaussian_mu(p, q) <= promise.gdp_mu() + 1e-9


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 0.3, 1.0, 2.5, 30.0, 900.0])
def test_concentrated_and_gaussian_losses_of_randomised_response_are_exact(epsilon):
    """ρ is ε·tanh(ε/2) and μ is 2Φ⁻¹(e^ε/(1+e^ε)), in many digits: never below, and not a relative 1e−12 above."""
    with mpmath.workdps(60 + int(epsilon / 2)):
        exact = mpmath.mpf(epsilon)
        tail = 1 / (1 + mpmath.exp(exact))
        rho, mu = exact * mpmath.tanh(exact / 2), mpmath.mpf(pf.Pure(epsilon).gdp_mu())
        assert rho <= pf.Pure(epsilon).zcdp_rho() <= rho * (1 + mpmath.mpf("1e-12"))
        assert mpmath.erfc(mu / 2 / mpmath.sqrt(2)) / 2 <= tail
        assert mpmath.erfc(mu * (1 - mpmath.mpf("1e-12")) / 2 / mpmath.sqrt(2)) / 2 > tail


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 6.0])
def test_concentrated_and_gaussian_conversions_are_tight(epsilon):
    """Randomised response attains both: nine tenths of either would be a lie."""
    p = np.array([math.exp(epsilon), 1]) / (1 + math.exp(epsilon))
    assert concentrated(p, p[::-1]) > 0.999 * pf.Pure(epsilon).zcdp_rho()
    assert gaussian_mu(p, p[::-1]) > 0.999999 * pf.Pure(epsilon).gdp_mu()
    assert pf.Pure(epsilon).zcdp_rho() <= epsilon**2 / 2
    assert not pf.Zcdp(pf.Pure(0.05).zcdp_rho()).implies(pf.Tv(0.99 * math.tanh(0.025)))


@pytest.mark.parametrize("rho", [1e-6, 0.01, 0.5, 8.0, 300.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.01, 0.4])
def test_concentrated_privacy_converts_by_its_best_order(rho, delta):
    """The ε is that of the best of very many orders, never above ρ + 2√(ρ log(1/δ)), and true of the Gaussian pair."""
    epsilon = pf.Zcdp(rho).approx_epsilon(delta)
    orders = 1 + np.logspace(-5, 9, 40_000)
    every = rho * orders + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
    assert epsilon <= max(float(every.min()), 0.0) * (1 + 1e-9)
    assert epsilon <= rho + 2 * math.sqrt(rho * math.log(1 / delta))
    mu = math.sqrt(2 * rho)
    assert epsilon >= pf.Gdp(mu).approx_epsilon(delta) * (1 - 1e-9)


@every_part
def test_concentrated_privacy_of_random_laws_is_true_as_odds(part):
    """Whatever (ε, δ) and total variation follow from a pair's own ρ, over all orders, hold for the pair."""
    for p, q in random_pairs(part):
        promise = pf.Zcdp(concentrated(p, q) * (1 + 1e-4))
        for delta in (1e-6, 1e-2, 0.3):
            epsilon = promise.approx_epsilon(delta)
            assert max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)) <= delta + 1e-9


@pytest.mark.parametrize("mu", [1e-3, 0.3, 1.0, 4.0])
def test_gaussian_privacy_is_what_two_normal_laws_keep(mu):
    """The ε at a δ is where the exact hockey stick of N(μ, 1) and N(0, 1) is δ; ρ is μ²/2; nothing gives it back."""
    promise = pf.Gdp(mu)
    for delta in (1e-9, 1e-4, 0.05):
        epsilon = promise.approx_epsilon(delta)
        exact = ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
        assert exact <= delta * (1 + 1e-9)
        assert epsilon == 0 or exact >= delta * (1 - 1e-5)
    assert promise.zcdp_rho() == pytest.approx(mu * mu / 2, rel=1e-15)
    assert promise.renyi_epsilon(3) == pytest.approx(3 * mu * mu / 2, rel=1e-15)
    assert pf.Zcdp(mu * mu / 2).gdp_mu() == math.inf
    assert not pf.Zcdp(1e-9).implies(pf.Gdp(100.0))


def dominating(epsilon, delta, tv):
    """Return M26's pair of laws with (ε, δ) and total variation tv, which all others are worked out of."""
    share = (tv - delta) / math.expm1(epsilon)
    p = np.array(
        [delta, share * math.exp(epsilon), 1 - delta - share * (1 + math.exp(epsilon)), share, 0.0]
    )
    return p, p[::-1]


@pytest.mark.parametrize(
    ("epsilon", "delta", "tv"), [(1.0, 0.0, 0.32348), (0.2, 1e-3, 0.05), (3.0, 0.1, 0.6)]
)
def test_trade_off_conversions_are_those_of_the_dominating_pair(epsilon, delta, tv):
    """Hockey sticks of the pair with three pieces are attained at every δ, its Rényi divergences at every order."""
    promise, (p, q) = pf.TradeOff(epsilon, delta, tv), dominating(epsilon, delta, tv)
    for share in (0.1, 0.5, 0.97):
        wanted = delta + share * (tv - delta)
        found = promise.approx_epsilon(wanted)
        assert hockey_stick(p, q, found) <= wanted * (1 + 1e-12)
        assert hockey_stick(p, q, 0.99 * found) > wanted
        assert found < pf.Approx(epsilon, delta).approx_epsilon(wanted)
    inside = (p[1:-1] / (1 - delta), q[1:-1] / (1 - delta))
    for alpha in (1.01, 2.0, 17.0):
        assert promise.renyi_epsilon(alpha, delta) == pytest.approx(renyi(*inside, alpha), rel=1e-7)
        assert promise.renyi_epsilon(alpha, delta) >= renyi(*inside, alpha) * (1 - 1e-9)
    assert promise.approx_epsilon(tv) == 0
    assert promise.implies(pf.Tv(tv))
    assert promise.implies(pf.Approx(epsilon, delta))
    assert not promise.implies(pf.Tv(0.9 * tv))


@every_part
def test_trade_off_conversions_hold_for_random_laws(part):
    """The (ε, δ) at every δ that follow from a pair's own ε, δ and total variation are true of the pair."""
    for p, q in random_pairs(part):
        epsilon = float(np.abs(np.log(p / q)).max()) / 2
        delta = max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))
        promise = pf.TradeOff(epsilon, delta, hockey_stick(p, q, 0.0) + 1e-15)
        for wanted in (delta, 0.2, 0.5):
            found = promise.approx_epsilon(max(wanted, promise.delta))
            assert (
                max(hockey_stick(p, q, found), hockey_stick(q, p, found))
                <= max(wanted, delta) + 1e-12
            )


def test_trade_off_numbers_are_cut_to_what_they_can_be():
    """A total variation above its limit is cut to it, a δ above it lowered, and so are those of what follows."""
    limit = 0.01 + 0.99 * math.tanh(0.5)
    assert pf.TradeOff(1.0, 0.01, 1.0).tv == pytest.approx(limit, rel=1e-14)
    assert pf.TradeOff(1.0, 0.01, 1.0).tv >= limit
    assert pf.TradeOff(1.0, 0.5, 0.1) == pf.TradeOff(1.0, 0.1, 0.1)
    assert pf.TradeOff(1.0, 1.0, 0.1).delta == 0.1
    assert pf.TradeOff(0.0, 0.0, 0.5) == pf.TradeOff(0.0, 0.0, 0.0)
    assert pf.TradeOff(3.0, 0.0, 0.4).kind.at(0.1).tv == pytest.approx(math.tanh(0.05))
    assert pf.TradeOff(3.0, 0.0, 0.4).kind.at(0.1).kind.at(3.0).tv == pytest.approx(math.tanh(0.05))
    assert pf.TradeOff.of(0.0, 1.0).at(2.0).implies(pf.Pure(2.0))


def test_a_total_variation_that_says_nothing_costs_nothing():
    """A pure loss has the ε of its own trade-off guarantee, whose total variation says nothing: no rounding."""
    for epsilon in np.linspace(0.01, 4, 100).tolist():
        promise = pf.TradeOff(epsilon, 0.0, 1.0)
        assert promise.kind.loss_from(pf.Pure(epsilon)) == epsilon
        assert promise.kind.loss_from(pf.Pure(1.01 * epsilon)) == math.inf
        assert pf.TradeOff(9.0, 0.0, 1.0).kind.loss_from(pf.Pure(epsilon)) == epsilon


def test_tv_is_an_approximate_promise():
    """`pf.Tv(eta)` is `pf.Approx(0, eta)` and nothing else."""
    assert pf.Tv(0.25) == pf.Approx(0.0, 0.25)
    assert pf.Guarantee.from_json(pf.Tv(0.25).to_json()) == pf.Approx(0.0, 0.25)
    assert pf.Zcdp(0.02).implies(pf.Tv(0.1001))
    assert pf.Gdp(0.1).implies(pf.Tv(0.03988))


@every_part
def test_stretched_promises_hold_for_laws_that_are_off(part):
    """If every likelihood is off by a factor, the stretched ρ and the stretched trade-off hold for the new laws."""
    rng = np.random.default_rng(part)
    for p, q in random_pairs(part):
        ratio = float(rng.choice([1e-3, 0.1, 1.0]))
        new = [law * np.exp(rng.uniform(-ratio / 2, ratio / 2, len(law))) for law in (p, q)]
        new = [law / law.sum() for law in new]
        rho = pf.Zcdp(concentrated(p, q)).under_model_error(ratio).rho
        assert concentrated(*new) <= rho + 1e-9
        epsilon = float(np.abs(np.log(p / q)).max()) / 2
        delta = min(max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)), 0.2)
        if delta < 0.2:
            old = pf.TradeOff(epsilon, delta, hockey_stick(p, q, 0.0) + 1e-15)
            left = old.under_model_error(ratio)
            assert hockey_stick(*new, 0.0) <= left.tv + 1e-12
            assert hockey_stick(*new, left.epsilon) <= left.delta + 1e-12


def test_a_stretched_rho_is_never_rounded_down():
    """(√ρ + √Δ)² + Δ in exact numbers: what is left of a float result squares to at least 4ρΔ."""
    rng = np.random.default_rng(0)
    for rho, ratio in 10.0 ** rng.uniform([-300, -250], [1, 0], (2000, 2)):
        left = (
            Fraction(pf.Zcdp(rho).under_model_error(ratio).rho)
            - Fraction(rho)
            - 2 * Fraction(ratio)
        )
        assert left >= 0
        assert left**2 >= 4 * Fraction(rho) * Fraction(ratio)


@pytest.mark.parametrize("ratio", [0.5, 699.0, 720.0, 2000.0])
def test_a_stretched_delta_is_never_rounded_down(ratio):
    with mpmath.workdps(50):
        for delta in (0.0, 5e-324, 1e-320, 1e-310, 1e-300, 1e-30):
            truth = mpmath.mpf(delta) * mpmath.exp(ratio)
            if truth >= 1:
                with pytest.raises(pf.Refused, match="grows to 1"):
                    pf.Approx(0.5, delta).under_model_error(ratio)
                assert pf.TradeOff(0.5, 0.0, delta).under_model_error(ratio).tv == 1
            else:
                assert (
                    truth
                    <= pf.Approx(0.5, delta).under_model_error(ratio).delta
                    <= max(truth * (1 + 1e-12), truth + 1e-323)
                )
