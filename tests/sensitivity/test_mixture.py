"""Hidden classes against enumeration of every class and every row (M21), and messages on their star (M20)."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import pufferflow as pf
from pufferflow.calibration.chain_bounds import Messages
from pufferflow.distributions.lattice import BITS
from pufferflow.distributions.markov.star import others_class_leak, total_class_leak
from pufferflow.models.priors.latent_class import LatentClass
from pufferflow.models.secret import Derived, Secret
from pufferflow.queries.statistic import Statistic
from pufferflow.sensitivity import star
from pufferflow.sensitivity.convolution import Dense
from pufferflow.sensitivity.implied_laws import implied
from pufferflow.sensitivity.latent_class import StarLaws

HALF = Fraction(1, 2)


@st.composite
def fractions(draw, size):
    """A law with some zeros allowed."""
    parts = draw(st.lists(st.integers(0, 6), min_size=size, max_size=size).filter(any))
    return [Fraction(part, sum(parts)) for part in parts]


@st.composite
def groups(draw, most_answers=1):
    """A small latent class, a statistic of its rows, and the secret, whose values all occur."""
    classes, points = draw(st.integers(1, 3)), draw(st.integers(2, 3))
    rows = [draw(fractions(points)) for _ in range(classes)]
    weights = draw(fractions(classes))
    occurs = [
        sum(w * row[x] for w, row in zip(weights, rows, strict=True)) > 0 for x in range(points)
    ]
    if not all(occurs):
        rows[weights.index(max(weights))] = [Fraction(1, points)] * points
    answers, size = draw(st.integers(1, most_answers)), draw(st.integers(1, 4))
    numbers = st.sampled_from([-1.5, -1.0, 0.0, 0.1, 0.3, 1.0, 2.0])
    column = st.lists(
        st.lists(numbers, min_size=size, max_size=size), min_size=answers, max_size=answers
    )
    table = st.lists(
        st.lists(numbers, min_size=points, max_size=points), min_size=answers, max_size=answers
    )
    return (
        LatentClass(weights, rows),
        Statistic(draw(column), draw(table)),
        Secret("x", list(range(points))),
    )


def decimal(number):
    return Fraction(repr(float(number)))


def outcomes(prior, statistic, domain):
    """Every class and path of a group: its mass, the class, the path and the answers, all exact."""
    table = statistic.on(domain)
    exact = all(isinstance(one, Fraction) for one in [*prior.weights, *prior.rows[0]])
    for c, weight in enumerate(prior.weights):
        for path in itertools.product(range(len(prior.rows[0])), repeat=statistic.size):
            mass = math.prod([prior.rows[c][x] for x in path], start=weight)
            answers = tuple(
                sum(decimal(w) * decimal(table[o][x]) for w, x in zip(weights, path, strict=True))
                for o, weights in enumerate(statistic.weights)
            )
            if mass > 0:
                yield (mass if exact else float(mass)), c, path, answers


def enumerated(found, happens):
    """The law of the answers given an event, as a dict."""
    law = {}
    for mass, c, path, answers in found:
        if happens(c, path):
            law[answers] = law.get(answers, 0) + mass
    total = sum(law.values())
    return {answer: mass / total for answer, mass in law.items()}


def as_law(law):
    """The dict as a law, with float atoms on a line."""
    one = len(next(iter(law))) == 1
    return pf.Law([float(x[0]) if one else x for x in law], list(law.values()))


def wrong(prior, statistic, secret, happens):
    """What a method gets that forgets the other rows: only the secret's row moves."""
    alone = Statistic(statistic.weights[:, :1], statistic.values)
    return enumerated(list(outcomes(prior, alone, secret.domain)), happens)


@pytest.mark.slow
@given(groups(most_answers=2))
@settings(max_examples=20)
def test_laws_equal_enumeration(group):
    """The law of the answers given a row's value is that of all classes and rows, enumerated."""
    prior, statistic, secret = group
    found = list(outcomes(prior, statistic, secret.domain))
    for pair in implied(prior, statistic, secret):
        for value, law in zip(pair.secrets, pair, strict=True):
            assert law == as_law(
                enumerated(found, lambda c, path, v=value, r=pair.row: path[r] == v)  # noqa: ARG005
            )


@pytest.mark.slow
@given(groups())
@settings(max_examples=20)
def test_movements_equal_enumeration(group):
    """W_∞, nearness and the span are those of the enumerated laws, over all rows and pairs."""
    prior, statistic, secret = group
    found = list(outcomes(prior, statistic, secret.domain))
    laws = implied(prior, statistic, secret)
    assert isinstance(laws, StarLaws)
    true = {
        (row, value): enumerated(found, lambda c, path, v=value, r=row: path[r] == v)  # noqa: ARG005
        for row in range(statistic.size)
        for value in secret.domain.points
    }
    pairs = [
        (true[row, a], true[row, b])
        for row in range(statistic.size)
        for a, b in secret.value_pairs()
    ]
    exact = [
        tuple(pf.Law([x for (x,) in law], list(law.values())) for law in pair) for pair in pairs
    ]
    assert laws.winf(1).length == max(pf.winf(*pair) for pair in exact)
    assert laws.near(0.1, 1).length == max(pf.near(*pair, 0.1) for pair in exact)
    assert laws.span(1).length >= max(abs(x - y) for mu, nu in pairs for (x,) in mu for (y,) in nu)
    assert laws.span(1).length == pytest.approx(
        float(max(abs(x - y) for mu, nu in pairs for (x,) in mu for (y,) in nu)), rel=1e-15
    )


@given(groups())
@settings(max_examples=12)
def test_floats_agree_with_fractions(group):
    """Float probabilities give the same laws up to rounding, and a W_∞ that is that of the Fractions."""
    prior, statistic, secret = group
    floats = LatentClass(
        [float(w) for w in prior.weights], [[float(x) for x in row] for row in prior.rows]
    )
    exact, rough = implied(prior, statistic, secret), implied(floats, statistic, secret)
    for one, other in zip(exact, rough, strict=True):
        for mu, nu in zip(one, other, strict=True):
            assert (mu.values == nu.values).all()
            assert mu.probabilities == pytest.approx(nu.probabilities, rel=1e-12)
    assert rough.winf(1).length == exact.winf(1).length


def test_the_class_as_the_secret():
    """Given the class the rows are independent: a count is binomial, and classes that cannot occur are no secret."""
    prior = LatentClass([HALF, HALF, 0], [[Fraction(9, 10), Fraction(1, 10)], [HALF, HALF], [1, 0]])
    (pair,) = implied(prior, Statistic.total(3), Derived("kind", column="x", domain=[0, 1]))
    assert pair.secrets == (0, 1)
    assert pair.mu == pf.Law([0, 1, 2, 3], [Fraction(x, 1000) for x in (729, 243, 27, 1)])
    assert pair.nu == pf.Law([0, 1, 2, 3], [Fraction(x, 8) for x in (1, 3, 3, 1)])
    with pytest.raises(pf.UsageError, match="never produces"):
        implied(
            prior,
            Statistic.total(3),
            Derived("kind", ["rare", "even", "never"], column="x", domain=[0, 1]),
        )


def test_other_rows_and_the_posterior_matter():
    """Forgetting the other rows, or taking the class's marginal law for its posterior, would under-protect."""
    prior = LatentClass(
        [HALF, HALF], [[Fraction(9, 10), Fraction(1, 10)], [Fraction(2, 10), Fraction(8, 10)]]
    )
    secret, statistic = Secret("x", [0, 1]), Statistic.total(5)
    laws = implied(prior, statistic, secret)
    alone = [
        as_law(wrong(prior, statistic, secret, lambda c, path, v=v: path[0] == v))  # noqa: ARG005
        for v in (0, 1)
    ]
    rest = as_law(
        enumerated(list(outcomes(prior, Statistic.total(4), secret.domain)), lambda c, path: True)  # noqa: ARG005
    )
    assert laws.winf(1).length == 4 > pf.winf(*alone) == pf.winf(rest, rest.shift(1)) == 1


def noisy_ratio(mu, nu, scale):
    """The largest log ratio of two laws with Laplace noise in every coordinate: at a corner of the atoms."""
    left, right = (np.array(list(law), dtype=float) for law in (mu, nu))
    axes = [np.unique(np.concatenate([left[:, o], right[:, o]])) for o in range(left.shape[1])]
    corners = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    densities = [
        np.exp(-np.abs(corners[:, None] - atoms[None]).sum(axis=2) / scale)
        @ np.array(list(law.values()), dtype=float)
        for atoms, law in ((left, mu), (right, nu))
    ]
    return float(np.abs(np.log(densities[0] / densities[1])).max())


@pytest.mark.slow
@given(groups(most_answers=2), st.sampled_from([0.3, 1.0, 4.0]), st.booleans())
@settings(max_examples=25)
def test_messages_are_never_below_brute_force(group, scale, of_class):
    """What messages on the star charge is at least the exact loss, for a row's value and for the class."""
    prior, statistic, secret = group
    found = list(outcomes(prior, statistic, secret.domain))
    if of_class and sum(w > 0 for w in prior.weights) > 1:
        asked = Derived("class", column="x", domain=secret.domain)
        known = [c for c, w in enumerate(prior.weights) if w > 0]
        if len(known) < len(prior.weights):
            return
        given = [[enumerated(found, lambda c, path, v=v: c == v) for v in known]]  # noqa: ARG005
    else:
        asked = secret
        given = [
            [
                enumerated(found, lambda c, path, v=v, r=row: path[r] == v)  # noqa: ARG005
                for v in secret.domain.points
            ]
            for row in range(statistic.size)
        ]
    truth = max(
        noisy_ratio(mu, nu, scale) for laws in given for mu, nu in itertools.combinations(laws, 2)
    )
    loss = pf.loss(implied(prior, statistic, asked), pf.Laplace(scale), pf.Pure, bound=Messages())
    assert truth <= loss * (1 + 1e-12) + 1e-12
    assert loss <= pf.loss(
        implied(prior, statistic, asked), pf.Laplace(scale), pf.Pure, bound=pf.Group()
    ) * (1 + 1e-9)


def test_messages_are_exact_for_a_count_of_two_classes():
    """For one count over two classes the messages cost what the exact laws do, and the count's group far more."""
    prior = LatentClass([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]])
    for size in (1, 5, 30, 100):
        laws = implied(prior, Statistic.total(size), Secret("x", [0, 1]))
        exact, messages = (
            pf.loss(laws, pf.Laplace(10.0), pf.Pure, bound=b) for b in (pf.Exact(), Messages())
        )
        assert exact <= messages * (1 + 1e-10) == pytest.approx(exact, rel=1e-9)


def test_messages_of_many_different_weights_round_up(monkeypatch):
    """Where weights are too many to look at one by one, the loss is a little above that of the weights themselves."""
    prior, secret = LatentClass([0.4, 0.6], [[0.7, 0.3], [0.2, 0.8]]), Secret("x", [0, 1])
    weights = np.random.default_rng(1).random(100)

    def loss():
        return pf.loss(
            implied(prior, Statistic(weights), secret), pf.Laplace(30.0), pf.Pure, bound=Messages()
        )

    rough = loss()
    monkeypatch.setattr(star, "_MOST_KINDS", 1000)
    assert loss() <= rough <= 1.05 * loss()


def test_leaving_one_row_out_is_no_difference():
    """What the others tell is summed without the row itself, also where that row's loss is infinite."""
    told = np.zeros((2, 2, 2))
    told[0, 0, 1], told[1, 0, 1] = math.inf, 0.25
    others = others_class_leak(told, np.array([1, 3]))
    assert others[0, 0, 1] == pytest.approx(0.75)
    assert others[1, 0, 1] == math.inf
    assert total_class_leak(told[1:], np.array([3]))[0, 1] == pytest.approx(0.75)


@pytest.mark.parametrize("size", [300, 5000])
def test_far_tails_are_not_lost(size):
    """W_∞ of a mean over thousands of rows is that of a table of exact tails; listing is refused where floats end."""
    prior, secret = LatentClass([0.5, 0.5], [[0.999, 0.001], [0.75, 0.25]]), Secret("x", [0, 1])
    exact = LatentClass(
        [HALF, HALF], [[Fraction(999, 1000), Fraction(1, 1000)], [Fraction(3, 4), Fraction(1, 4)]]
    )
    laws = implied(prior, Statistic.mean(size), secret)
    if size == 300:
        assert laws.winf(1).length == implied(exact, Statistic.mean(size), secret).winf(1).length
        return
    assert laws.winf(1).certainty == "exact"
    assert 0 < laws.least(0, 1) <= laws.winf(1).length
    assert (
        laws.near(1e-9, 1).length
        <= laws.winf(1).length
        <= laws.span(1).length
        == pytest.approx(1.0)
    )
    with pytest.raises(pf.Refused, match="below 1e-290"):
        laws[0]


def test_no_mass_underflows():
    """After eleven doublings of a fair coin the ends of the law have a mass of 2^−2048, and the law is called faint."""
    law = Dense.of(np.array([0, 1]), np.array([0.5, 0.5]))
    for _ in range(11):
        law = law.convolve(law)
    (plane,) = np.flatnonzero(law.planes[:, 0])
    assert np.log2(law.planes[plane, 0]) - BITS * plane == -2048
    assert (law.faint, len(law)) == (True, 2049)
    assert law.most().probabilities.sum() == pytest.approx(1.0, rel=1e-13)


@pytest.mark.parametrize(
    ("shares", "rates"), [([0.6, 0.4], [0.3, 0.05]), ([1.0, 1e-200], [0.5, 0.99])]
)
def test_far_tails_against_logarithms(shares, rates):
    """W_∞ of a count of 3,000 rows is the least shift at which all tails compare, on logarithms of binomial tails.

    A class of probability 1e-200 counts: given the rarer value of a row it is 99 times as likely.
    """
    size, shares, rates = 3000, np.array(shares), np.array(rates)
    laws = implied(
        LatentClass(shares, [[1 - p, p] for p in rates]), Statistic.total(size), Secret("x", [0, 1])
    )
    tails = []
    for value, own in ((0, 1 - rates), (1, rates)):
        post = np.log(shares * own / (shares * own).sum())
        logs = [
            w + stats.binom(size - 1, p).logpmf(np.arange(size + 1) - value)
            for w, p in zip(post, rates, strict=True)
        ]
        mass = np.logaddexp(*logs)
        tails.append((np.logaddexp.accumulate(mass), np.logaddexp.accumulate(mass[::-1])[::-1]))

    def reaches(mu, nu, z):
        """Whether F_μ(x) ≤ F_ν(x + z) for all x, in the smaller tail."""
        below, above = mu[0][: size - z] - nu[0][z:size], nu[1][z + 1 :] - mu[1][1 : size - z + 1]
        return (np.where(mu[0][: size - z] < -1, below, above) <= 1e-8).all()

    def holds(z):
        return reaches(*tails, z) and reaches(*tails[::-1], z)

    found = int(laws.winf(1).length)
    assert holds(found)
    assert not holds(found - 1)
    assert found > 400


@pytest.mark.slow
def test_what_cannot_be_listed_is_refused_with_a_way_out():
    """Arbitrary weights make too many sums: listing is refused, the span and the messages stay."""
    weights = np.sqrt(np.arange(1, 61))
    laws = implied(
        LatentClass([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]]), Statistic(weights), Secret("x", [0, 1])
    )
    with pytest.raises(pf.Refused, match="too many atoms"):
        laws[0]
    assert laws.span(1).length == pytest.approx(weights.sum(), rel=1e-12)
    best = pf.calibrate(laws, pf.Pure(1.0), bound=[pf.GWM(), pf.Group(), Messages()])
    assert best.noise.scale < laws.span(1).length / 2


def test_the_span_knows_the_row():
    """Where only neighbouring values are secret, a row alone spans their distance, and others their own range."""
    prior = LatentClass([1], [[HALF, Fraction(1, 4), Fraction(1, 4)]])
    for size, span in ((1, 1.0), (3, 5.0)):
        laws = implied(prior, Statistic.total(size), Secret("x", [0, 1, 2], pairs="adjacent"))
        assert (laws.span(1).length, pf.loss(laws, pf.Laplace(1.0), pf.Pure, bound=pf.Group())) == (
            span,
            span,
        )


def test_histograms_equal_enumeration_and_share_their_span():
    """A histogram of a group moves by no more than two per row, and its laws are multinomial mixtures."""
    prior = LatentClass([HALF, HALF], [[HALF, HALF, 0], [0, HALF, HALF]])
    secret, statistic = Secret("x", ["a", "b", "c"]), Statistic.histogram(4, 3)
    laws = implied(prior, statistic, secret)
    found = list(outcomes(prior, statistic, secret.domain))
    assert laws[0].mu == as_law(enumerated(found, lambda c, path: path[laws[0].row] == 0))  # noqa: ARG005
    assert laws.span(1).length == pytest.approx(8.0, rel=1e-12)
    assert laws.winf(1).length <= 8
