"""Channels: exact ε and η, the mechanisms that attain the bounds, and the bounds against random channels."""

import math

import mpmath
import numpy as np
import pytest
from scipy import stats
from thinned import thinned

import pufferflow as pf

FS = {
    "KL": lambda t: t * math.log(t),
    "chi2": lambda t: (t - 1) ** 2,
    "TV": lambda t: max(0.0, t - 1),
    "hockey stick": lambda t: max(0.0, t - math.exp(0.4)),
    "squared Hellinger": lambda t: (math.sqrt(t) - 1) ** 2,
}
CHANNELS = {
    "two labels": pf.local.randomized_response(["no", "yes"], 1.0),
    "three labels": pf.local.randomized_response([0, 1, 2], 0.3),
    "thirty labels": pf.local.randomized_response(list(range(30)), 2.0),
    "hardly private": pf.local.randomized_response([0, 1, 2, 3], 12.0),
    "hardly open": pf.local.randomized_response([0, 1], 1e-4),
    "erasure": pf.local.binary_erasure(
        {"a": 0.7, "b": 0.2, "c": 0.1}, {"a": 0.1, "b": 0.2, "c": 0.7}, 1.0, 0.3
    ),
    "no erasure": pf.local.binary_erasure({"a": 0.7, "b": 0.3}, {"a": 0.1, "b": 0.9}, 1.5),
    "response, then erasure": pf.local.randomized_response(["x", "y", "z"], 1.0).erased(0.25),
}
ASKED = {
    "two labels": 1.0,
    "three labels": 0.3,
    "thirty labels": 2.0,
    "hardly private": 12.0,
    "hardly open": 1e-4,
}
ASKED |= {"erasure": 1.0, "no erasure": 1.5, "response, then erasure": 1.0}


def divergence(f, p, q):
    """D_f of two laws with common support."""
    return sum(b * f(a / b) for a, b in zip(p, q, strict=True) if b > 0)


def tv(p, q):
    return float(np.abs(np.asarray(p) - np.asarray(q)).sum() / 2)


def random_channels(count, inputs, outputs, seed=5):
    """Channels of all degrees of privacy."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        rows = rng.dirichlet(np.full(outputs, rng.uniform(0.5, 20)), inputs)
        yield (rows + 0.01) / (rows + 0.01).sum(axis=1, keepdims=True), rng


def setting_of(rows):
    """The ε and η of a channel, by going through all pairs."""
    epsilon = float(np.log(rows[:, None] / rows[None]).max())
    return pf.local.LocalPrivacy(epsilon, max(tv(p, q) for p in rows for q in rows))


@pytest.mark.parametrize("name", CHANNELS)
def test_no_chance_is_more_private_than_it_says(name):
    """The exact ratio of chances is at most e^ε for the ε that was asked for, and nearly attains it; so is η."""
    channel = CHANNELS[name]
    columns = zip(*channel.probabilities, strict=True)
    ratio = max(max(column) / min(column) for column in columns)
    with mpmath.workdps(40):
        exact = mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator)
        assert exact <= mpmath.mpf(ASKED[name])
        assert exact <= channel.epsilon <= exact * (1 + mpmath.mpf(10) ** -14)
    assert channel.epsilon == pytest.approx(ASKED[name], rel=1e-4)
    rows = channel.matrix
    assert channel.tv == max(tv(p, q) for p in rows for q in rows)
    assert (
        pf.local.LocalPrivacy(channel.epsilon, channel.tv).tv == channel.tv
    )  # tanh(ε/2) does not cut it


def test_channels_of_random_tables_say_what_they_are():
    """ε and η of a table of probabilities are those of its chances, however small or odd these are."""
    for rows, _ in random_channels(40, 3, 4):
        channel = pf.local.Channel.of([0, 1, 2], list("abcd"), rows.tolist())
        assert channel.epsilon == pytest.approx(setting_of(rows).epsilon, rel=1e-6)
        assert (
            channel.epsilon >= float(np.log(channel.matrix[:, None] / channel.matrix).max()) - 1e-15
        )
        assert np.abs(channel.matrix - rows).max() < 1e-15
        assert channel.tv == pytest.approx(setting_of(rows).tv, rel=1e-12)
    tiny = pf.local.Channel.of([0, 1], [0, 1], [[1e-12, 1 - 1e-12], [0.5, 0.5]])
    assert tiny.epsilon == pytest.approx(math.log(0.5e12))
    assert pf.local.Channel.of([0, 1], [0, 1], [[0, 1], [0.5, 0.5]]).epsilon == math.inf


@pytest.mark.parametrize("name", FS)
def test_no_channel_has_more_divergence_than_the_dominating_one(name):
    """D_f of two rows of any (ε, η)-private channel is at most the closed form, which the dominating pair attains."""
    f = FS[name]
    closest = 0.0
    for rows, _ in random_channels(300, 2, 3):
        setting = setting_of(rows)
        bound, (top, bottom) = setting.divergence(f), setting.dominating()
        assert divergence(f, *rows) <= bound * (1 + 1e-12)
        assert divergence(f, top, bottom) == pytest.approx(bound, rel=1e-9, abs=1e-12)
        closest = max(closest, divergence(f, *rows) / bound if bound else 0.0)
    assert closest > 0.93  # so that a bound a tenth too small is seen


def test_numbers_of_the_paper():
    """Values of Theorems 4, 5 and 6 that were worked out elsewhere, and the largest η the right way up."""
    setting = pf.local.LocalPrivacy(1.0, 0.3)
    e = math.e
    assert setting.divergence(FS["chi2"]) == pytest.approx(0.7051207161862809, rel=1e-12)
    assert setting.divergence(FS["KL"]) == pytest.approx(0.3, rel=1e-12)
    assert setting.divergence(FS["TV"]) == pytest.approx(0.3, rel=1e-12)
    assert setting.chi2_bound(1.0) == pytest.approx(2.820482864745123, rel=1e-12)
    assert setting.kl_contraction == pytest.approx(0.3 * math.tanh(0.5), rel=1e-12)
    assert pf.local.LocalPrivacy(1.0).tv == pytest.approx((e - 1) / (e + 1), rel=1e-12)
    assert pf.local.LocalPrivacy(1.0, 0.9) == pf.local.LocalPrivacy(1.0)  # cut, not refused


def test_binary_erasure_tells_two_laws_apart_best():
    """TV(M0, M1) = η·TV(P0, P1) for binary erasure; of no (ε, η)-private channel more."""
    rng = np.random.default_rng(2)
    for _ in range(60):
        old, new = rng.dirichlet(np.ones(4), 2)
        epsilon, share = rng.uniform(0.1, 3), rng.uniform(0.2, 1)
        setting = pf.local.LocalPrivacy(epsilon, share * math.tanh(epsilon / 2))
        laws = [dict(enumerate(law / law.sum())) for law in (old, new)]
        channel = pf.local.binary_erasure(*laws, epsilon, setting.tv)
        assert channel.epsilon <= epsilon
        assert channel.tv <= setting.tv
        best = tv(old @ channel.matrix, new @ channel.matrix)
        assert best == pytest.approx(setting.tv_bound(tv(old, new)), rel=1e-6)
    for rows, own in random_channels(200, 4, 3):
        old, new = own.dirichlet(np.ones(4), 2)
        assert tv(old @ rows, new @ rows) <= setting_of(rows).tv_bound(tv(old, new)) * (1 + 1e-12)


@pytest.mark.slow
def test_contraction_of_kl_is_the_largest_that_laws_attain():
    """No two laws keep more of their KL than the coefficient says; laws near two points keep nearly all of it."""
    attained = []
    for rows, rng in random_channels(80, 3, 3):
        coefficient = pf.local.kl_contraction(rows)
        setting = setting_of(rows)
        assert coefficient <= setting.kl_contraction * (1 + 1e-9)
        best = 0.0
        pairs = [(a, b) for a in range(3) for b in range(a)]
        laws = [rng.dirichlet(np.ones(3), 2) for _ in range(20)]
        for a, b in pairs:
            for beta in np.linspace(0.02, 0.98, 49):
                law = np.full(3, 1e-9)
                law[[a, b]] = beta, 1 - beta
                near = law.copy()
                near[[a, b]] += 1e-3 * min(beta, 1 - beta) * np.array([1, -1])
                laws.append(np.array([law / law.sum(), near / near.sum()]))
        for old, new in laws:
            through, whole = (
                divergence(FS["KL"], old @ rows, new @ rows),
                divergence(FS["KL"], old, new),
            )
            assert through <= whole * coefficient * (1 + 1e-4) + 1e-14
            best = max(best, through / whole)
            size = tv(old, new)
            assert divergence(FS["chi2"], old @ rows, new @ rows) <= setting.chi2_bound(size) * (
                1 + 1e-12
            )
            assert through <= setting.kl_bound(size) * (1 + 1e-12)
        attained.append(best / coefficient)
    assert min(attained) > 0.97


@pytest.mark.parametrize("labels", [2, 3, 7])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_contraction_of_randomised_response(labels, epsilon):
    """(e^ε − 1)²/((e^ε + k − 1)(e^ε + 1)) for k labels; the dominating channel attains η·tanh(ε/2)."""
    e = math.exp(epsilon)
    channel = pf.local.randomized_response(list(range(labels)), epsilon)
    known = (e - 1) ** 2 / ((e + labels - 1) * (e + 1))
    assert pf.local.kl_contraction(channel.matrix) == pytest.approx(known, rel=1e-6)
    setting = pf.local.LocalPrivacy(epsilon, 0.4 * math.tanh(epsilon / 2))
    assert pf.local.kl_contraction(setting.dominating()) == pytest.approx(
        setting.kl_contraction, rel=1e-9
    )


def test_erasing_trades_total_variation():
    """Erasing after any channel takes the same share of η and of every divergence, and leaves ε (Theorem 7)."""
    for rows, rng in random_channels(30, 3, 3):
        channel = pf.local.Channel.of([0, 1, 2], [0, 1, 2], rows.tolist())
        share = float(rng.uniform(0.05, 0.9))
        thinner = channel.erased(share)
        assert thinner.epsilon <= channel.epsilon
        assert thinner.tv == pytest.approx(channel.tv * (1 - share), rel=1e-6)
        for f in FS.values():
            for a, b in [(0, 1), (2, 0)]:
                whole = divergence(f, channel.matrix[a], channel.matrix[b])
                part = divergence(f, thinner.matrix[a], thinner.matrix[b])
                assert part == pytest.approx((1 - share) * whole, rel=1e-5, abs=1e-8)
    setting = pf.local.LocalPrivacy(1.0, 0.2)
    assert setting.share == pytest.approx(0.2 / math.tanh(0.5), rel=1e-12)


def test_binary_erasure_has_its_share_of_the_best_kl():
    """KL of binary erasure is at least the share (41) of what any channel with its ε and η can have."""
    rng = np.random.default_rng(3)
    for _ in range(40):
        old, new = rng.dirichlet(np.ones(3), 2)
        setting = pf.local.LocalPrivacy(rng.uniform(0.05, 3), rng.uniform(0.05, 0.9))
        laws = [dict(enumerate(law / law.sum())) for law in (old, new)]
        channel = pf.local.binary_erasure(*laws, setting.epsilon, setting.tv)
        own = divergence(FS["KL"], old @ channel.matrix, new @ channel.matrix)
        assert own >= setting.erasure_share * setting.kl_bound(tv(old, new)) * (1 - 1e-6)


@pytest.mark.parametrize(
    "name", thinned(["three labels", "thirty labels", "response, then erasure", "erasure"], 0.5)
)
def test_draws_have_the_chances_that_are_told(name):
    """A million draws fit the channel's own table, and do not fit one that is a tenth less private."""
    channel, rng = CHANNELS[name], np.random.default_rng(8)
    places = rng.integers(0, len(channel.inputs), 10**6)
    drawn = channel.draw(places, rng.bytes)
    counts = np.zeros((len(channel.inputs), len(channel.outputs)))
    np.add.at(counts, (places, drawn), 1)

    def misfit(table):
        expected = counts.sum(axis=1, keepdims=True) * table
        return stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), counts.size - len(counts))

    assert misfit(channel.matrix) > 1e-3
    assert misfit(channel.at(channel.epsilon * 1.1).matrix) < 1e-12
    assert misfit(channel.at(channel.epsilon * 0.9).matrix) < 1e-12


def test_draws_hit_every_step_of_the_chances():
    """At the words around each cumulative weight the output changes, on both ways of drawing."""
    for channel in (CHANNELS["three labels"], CHANNELS["thirty labels"], CHANNELS["erasure"]):
        for place in (0, len(channel.inputs) - 1):
            steps = (np.cumsum(channel.matrix[place]) * 2**32).astype(int)
            words = np.unique(
                np.clip([step + off for step in (0, *steps) for off in (-1, 0)], 0, 2**32 - 1)
            )
            expected = np.searchsorted(steps, words, side="right")
            bits = words.astype("<u4").tobytes()
            assert (
                channel.draw(np.full(len(words), place), lambda _, bits=bits: bits) == expected
            ).all()


WRONG = {
    "labels that are none": (lambda: pf.local.randomized_response("yes", 1.0), "labels is 'yes'"),
    "one label": (lambda: pf.local.randomized_response(["yes"], 1.0), "1 labels"),
    "a label twice": (lambda: pf.local.randomized_response(["a", "a"], 1.0), "not different"),
    "NaN as a label": (lambda: pf.local.randomized_response([math.nan, 1.0], 1.0), "not different"),
    "a list as a label": (lambda: pf.local.randomized_response([[1], [2]], 1.0), "no label"),
    "an infinite output": (
        lambda: pf.local.Channel.of([0, 1], [math.inf, 0], [[0.7, 0.3], [0.3, 0.7]]),
        "is inf",
    ),
    "a number that no float is": (
        lambda: pf.local.randomized_response([2**53 + 1, 0.5], 1.0),
        "one column",
    ),
    "a number beyond all floats": (
        lambda: pf.local.randomized_response([10**400, 0.5], 1.0),
        "one column",
    ),
    "a number beyond all columns": (
        lambda: pf.local.randomized_response([10**400, 0], 1.0),
        "one column",
    ),
    "very many labels": (
        lambda: pf.local.randomized_response(list(range(1000)), 1.0),
        "1000 labels",
    ),
    "epsilon 0": (lambda: pf.local.randomized_response([0, 1], 0.0), "epsilon is 0"),
    "a large epsilon": (lambda: pf.local.randomized_response([0, 1], 1e9), "epsilon is 1e"),
    "epsilon NaN": (lambda: pf.local.randomized_response([0, 1], math.nan), "epsilon is nan"),
    "no chance of it": (lambda: pf.local.randomized_response([0, 1, 2], 1e-12), "so small"),
    "no law": (
        lambda: pf.local.binary_erasure([0.5, 0.5], {"a": 1.0}, 1.0),
        "first is of type list",
    ),
    "no probabilities": (
        lambda: pf.local.binary_erasure({"a": 1.5, "b": -0.5}, {"a": 1, "b": 0}, 1.0),
        "no law",
    ),
    "other labels": (
        lambda: pf.local.binary_erasure({"a": 1, "b": 0}, {"a": 1, "c": 0}, 1.0),
        "different labels",
    ),
    "tv 0": (
        lambda: pf.local.binary_erasure({"a": 1, "b": 0}, {"a": 0, "b": 1}, 1.0, 0.0),
        "tv is 0",
    ),
    "rows that add up to 2": (
        lambda: pf.local.Channel.of([0, 1], [0, 1], [[1, 1], [0, 1]]),
        "the sum 2",
    ),
    "a chance of NaN": (lambda: pf.local.Channel.of([0, 1], [0], [[math.nan], [1]]), "is nan"),
    "a ragged table": (
        lambda: pf.local.Channel.of([0, 1], [0, 1], [[1.0], [0.5, 0.5]]),
        "2 rows of",
    ),
    "a custom one for another epsilon": (
        lambda: pf.local.Channel.of([0, 1], [0], [[1], [1]]).at(1.0),
        "cannot be made for another guarantee",
    ),
    "all erased": (lambda: CHANNELS["two labels"].erased(1.0), "share is 1"),
    "an unknown value": (lambda: CHANNELS["two labels"].sample(["maybe"]), "not an input"),
    "tv above 1": (lambda: pf.local.LocalPrivacy(1.0, 1.5), "tv is 1.5"),
    "a negative epsilon": (lambda: pf.local.LocalPrivacy(-1.0), "epsilon is -1"),
    "a distance above 1": (lambda: pf.local.LocalPrivacy(1.0).tv_bound(2.0), "distance is 2"),
}


@pytest.mark.parametrize("name", WRONG)
def test_bad_input_is_refused(name):
    """Each error names what was given."""
    call, problem = WRONG[name]
    with pytest.raises(pf.PufferflowError, match=problem):
        call()
