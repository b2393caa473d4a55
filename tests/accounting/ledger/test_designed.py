"""Designed releases of an account: every path of outputs keeps the limit, by enumeration, and the ledger counts it."""

import itertools
import math
from fractions import Fraction

import msgspec
import numpy as np
import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf
from pufferflow.accounting.exact_answers import ExactRelease, JointAnswers
from pufferflow.accounting.next_release import Past, design_next
from pufferflow.confounding import Channel
from pufferflow.published.cost import Answered, ExactSum, ExactSums

LAW = {"ill": ["no", "no", "yes", "yes"], "test": [0, 1, 0, 1], "probability": [0.3, 0.2, 0.2, 0.3]}
SCENARIO = pf.Scenario(pf.Derived("ill"), pf.Table(LAW), public=["ward"])
ROWS = pl.DataFrame({"test": [0, 1, 1], "ward": [1, 1, 2]})
LIMIT = 0.25


def batch(scenario=SCENARIO, rows=ROWS):
    return pf.protect(rows, scenario).private_sum("test", name="positive")


@pytest.fixture
def account(tmp_path):
    """An account whose limit is pure."""
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        yield ledger.open("tests", SCENARIO, limit=pf.Pure(LIMIT))


def random_table(rng, secrets=2, values=3):
    """A table of a secret and a column, with small whole weights, some 0; and its weights."""
    weights = rng.integers(1, 9, (secrets, values)) * (rng.random((secrets, values)) < 0.85)
    weights[:, 0] += 1
    cells = list(itertools.product(range(secrets), range(values)))
    masses = [Fraction(int(weights[cell]), int(weights.sum())) for cell in cells]
    columns = {"s": [s for s, _ in cells], "x": [x for _, x in cells], "probability": masses}
    return pf.Table(columns), [
        [Fraction(int(one), int(weights.sum())) for one in row] for row in weights
    ]


def worst_ratio(joint, rows, terms, likelihoods):
    """Return the largest ratio of likelihoods of one path under two secrets, by going through the rows themselves."""
    whole, totals = [sum(column) for column in zip(*joint, strict=True)], []
    for law in joint:
        total = Fraction(0)
        for values in itertools.product(range(len(law)), repeat=rows):
            chance = law[values[0]] / sum(law) * math.prod(whole[value] for value in values[1:])
            if chance:
                sums = [sum(own[value] for value in values) for own in terms]
                total += chance * math.prod(
                    one(at) for one, at in zip(likelihoods, sums, strict=True)
                )
        totals.append(total)
    if not any(totals):
        return Fraction(1)
    return math.inf if 0 in totals else max(a / b for a, b in itertools.permutations(totals, 2))


def designed(past, table, terms, rows, promise, limit=None):
    """Return a design after releases that published outputs, and the likelihoods of its outputs."""
    scenario = pf.Scenario(pf.Derived("s"), table)
    costs = [cost_of(*one) for one in past]
    asked = ExactSums(rows, "", "x", (ExactSum(terms),))
    return design_next(
        Past((scenario,), limit or promise, tuple(costs)),
        asked,
        {},
        promise,
        name="sum",
        loss="absolute",
        outputs=None,
    )


def cost_of(asked, output):
    """Return the cost of a release that published an output."""
    plan = batch().plan(pf.Pure(1.0))
    shape = msgspec.structs.replace(plan.cost.shape, exact_sums=asked)
    return msgspec.structs.replace(plan.cost, shape=shape, answered=Answered((output,)))


def likelihood_of(own, output):
    channel = Channel.from_json(own.channel)
    return lambda at: channel.probabilities[channel.place(at)][output]


@pytest.mark.parametrize("seed", thinned(range(4), 0.2))
def test_every_path_of_two_designs_keeps_the_limit(seed):
    """The second knows the first one's output: at all pairs of outputs ratios are within e^ε, and reach it."""
    rng = np.random.default_rng(seed)
    table, joint = random_table(rng, secrets=2 + seed % 2)
    rows, terms, promise = (
        2 + seed % 2,
        [(0, 1, 2), (0, 1, 0) if seed % 2 else (1, 0, 0)],
        pf.Pure(0.4),
    )
    first = designed([], table, terms[0], rows, pf.Pure(0.25)).exact_sums
    one, found, channels = first.sums[0], [], set()
    for output in range(len(Channel.from_json(one.channel).outputs)):
        if not any(likelihood_of(one, output)(at) for at in Channel.from_json(one.channel).inputs):
            continue
        second = designed([(first, str(output))], table, terms[1], rows, promise).exact_sums.sums[0]
        channels.add(second.channel)
        pairs = [
            [likelihood_of(one, output), likelihood_of(second, at)]
            for at in range(len(Channel.from_json(second.channel).outputs))
        ]
        found += [worst_ratio(joint, rows, terms, pair) for pair in pairs]
    assert max(found) <= Fraction(math.exp(promise.epsilon) * (1 + 1e-15))
    assert max(found) > math.exp(
        0.9 * promise.epsilon
    )  # a limit that is a tenth too large is found out
    assert len(channels) > 1


def excess(joint, rows, terms, paths, likelihood):
    """Return Σ(P − t·Q)_+ over paths for the worst pair of secrets, by going through the rows themselves."""
    whole, laws = [sum(column) for column in zip(*joint, strict=True)], []
    for law in joint:
        known = {}
        for values in itertools.product(range(len(law)), repeat=rows):
            chance = law[values[0]] / sum(law) * math.prod(whole[value] for value in values[1:])
            for path, steps in paths.items():
                sums = [sum(terms[which][value] for value in values) for which, _ in steps]
                own = math.prod(one(at) for (_, one), at in zip(steps, sums, strict=True))
                known[path] = known.get(path, 0) + chance * own
        laws.append(known)
    return max(
        sum(max(p[at] - likelihood * q[at], 0) for at in p)
        for p, q in itertools.permutations(laws, 2)
    )


@pytest.mark.parametrize("seed", range(3))
def test_delta_is_kept_whatever_is_asked_after_each_output(seed):
    """What is asked second hangs on the first output: over all paths δ is within the limit, and hardly less alone."""
    rng = np.random.default_rng(40 + seed)
    table, joint = random_table(rng)
    limit, terms, rows = pf.Approx(0.2, 0.04), [(0, 1, 2), (1, 0, 0), (0, 1, 0)], 2
    likelihood = Fraction(math.exp(limit.epsilon) * (1 - 1e-15))
    first = designed([], table, terms[0], rows, pf.Approx(0.2, 0.02), limit).exact_sums
    one, paths, fixed = first.sums[0], {}, {1: {}, 2: {}}
    seconds = {
        which: designed([(first, "0")], table, terms[which], rows, limit).exact_sums.sums[0]
        for which in fixed
    }
    for output in range(len(Channel.from_json(one.channel).outputs)):
        for which, second in seconds.items():
            for at in range(len(Channel.from_json(second.channel).outputs)):
                steps = [(0, likelihood_of(one, output)), (which, likelihood_of(second, at))]
                fixed[which][output, at] = steps
                if which == 1 + output % 2:
                    paths[output, at] = steps
    alone = {output: path[:1] for (output, _), path in fixed[1].items()}
    spent = excess(joint, rows, terms, alone, likelihood)
    total = max(excess(joint, rows, terms, some, likelihood) for some in (paths, *fixed.values()))
    assert spent <= Fraction(0.02)
    assert total <= Fraction(limit.delta)
    tight = designed([], table, terms[0], rows, limit).exact_sums.sums[0]
    outputs = range(len(Channel.from_json(tight.channel).outputs))
    reached = excess(
        joint, rows, terms, {at: [(0, likelihood_of(tight, at))] for at in outputs}, likelihood
    )
    exact = excess(
        joint,
        rows,
        terms,
        {at: [(0, lambda sums, at=at: int(sums == at))] for at in range(5)},
        likelihood,
    )
    assert min(exact, Fraction(limit.delta) * 9 / 10) <= reached <= Fraction(limit.delta)


@pytest.mark.slow
def test_delta_after_noise(tmp_path):
    """After Laplace noise, all of whose outputs count, by integration; Gaussian noise is refused with a word."""
    limit = pf.Approx(0.15, 0.03)
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("tests", SCENARIO, limit=limit, methods=["pure"])
        batch().plan(pf.Pure(0.1), noise=pf.Laplace).release(account)
        best = account.design(batch(), pf.Approx(0.15, 0.02))
        (own,) = account.past().costs[0].answered.exact_sums.sums
        places = np.linspace(-60, 63, 200_001)
        density = np.exp(own.drawn_noise.logpdf(places[:, None] - np.arange(4.0)))
        others = np.array([0.25, 0.5, 0.25])
        laws = [np.convolve(law, others) for law in ([0.6, 0.4], [0.4, 0.6])]
        p, q = (np.einsum("ya,az->yz", density * law, best.channel.matrix) for law in laws)
        found = max(
            float(np.maximum(a - math.exp(0.15) * b, 0).sum()) * (places[1] - places[0])
            for a, b in ((p, q), (q, p))
        )
        assert 0.5 * 0.02 < found <= 0.02 + 1e-6
        assert account.after(best) == limit
        best.release(account)
        account.design(batch()).release(account)
        assert account.spent() == limit
        with pytest.raises(pf.Refused, match="outputs of Gaussian noise"):
            batch().plan(pf.Approx(0.05, 0.01), noise=pf.Gaussian).release(account)
        assert len(account.history()) == 3


@pytest.mark.slow
def test_no_design_after_more_outcomes_than_can_be_listed(tmp_path):
    """After four noisy releases there are 48^4 outcomes each with a share of delta: a refusal at once."""
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("tests", SCENARIO, limit=pf.Approx(0.15, 0.03), methods=["pure"])
        for _ in range(4):
            batch().plan(pf.Pure(0.02), noise=pf.Laplace).release(account)
        with pytest.raises(pf.Refused, match="further outcomes"):
            account.design(batch())
        assert len(account.history()) == 4


def test_no_design_where_other_outputs_could_use_the_same_delta(tmp_path):
    """Rows that Gaussian curves are counted for get no design later; rows that a design comes first for get more.

    At (3, 0.001624), after Laplace noise of 0.08, Gaussian noise at the upper outputs and at the lower ones a channel
    that tells a value outright in 0.00156 of all cases had the delta 0.00176 together.
    """
    scenario = pf.Scenario(
        pf.Secret("on", [0, 1]), pf.Table({"on": [0, 1], "probability": [0.5, 0.5]})
    )
    one = pf.protect(pl.DataFrame({"on": [1]}), scenario).private_sum("on")
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        noisy, fresh = (
            ledger.open(name, scenario, limit=pf.Approx(1.0, 0.31), dataset=name)
            for name in ("noisy", "fresh")
        )
        one.plan(pf.Pure(1.0)).release(noisy)
        with pytest.raises(
            pf.Refused, match="by pure losses and standard deviations of Gaussian noise since"
        ):
            noisy.design(one)
        fresh.design(one, pf.Approx(1.0, 0.1)).release(fresh)
        fresh.design(one).release(fresh)
        assert (len(noisy.history()), len(fresh.history())) == (1, 2)


@pytest.mark.parametrize(
    "noise", [pf.Laplace(1.7), pf.Gaussian(2.0), pf.GeneralizedCauchy(1.5, k=4)]
)
def test_likelihoods_of_published_noise(noise):
    """The loss at noisy outputs is that of the cells of the grid, by mpmath and the rows themselves, or hardly more."""
    import mpmath

    rng = np.random.default_rng(5)
    table, joint = random_table(rng)
    terms, outputs = [(0, 1, 2), (1, 0, 0)], ["3/4", "2"]
    sums = [ExactSums(3, "", "x", (ExactSum(own, noise=noise.stored()),)) for own in terms]
    releases = [ExactRelease(own, (output,)) for own, output in zip(sums, outputs, strict=True)]
    loss = JointAnswers.of([table], pf.Derived("s"), releases).pure
    half = mpmath.mpf(1) / 2048 / noise.scale

    def cell(output):
        def mass(at):
            away = (
                abs(mpmath.mpf(Fraction(output).numerator) / Fraction(output).denominator - at)
                / noise.scale
            )
            tails = [
                noise.at(1.0).precise_tail(away + side * half, mpmath.mp) if away else 0
                for side in (-1, 1)
            ]
            middle = 1 - 2 * noise.at(1.0).precise_tail(half, mpmath.mp)
            return Fraction(str(tails[0] - tails[1] if away else middle))

        return mass

    with mpmath.workdps(40):
        truth = math.log(worst_ratio(joint, 3, terms, [cell(one) for one in outputs]))
    assert truth - 1e-12 <= loss <= truth + 1e-6


def test_designs_are_no_worse_than_noise_on_the_same_grid(account):
    """Of all scales of rounded Laplace noise that keep the limit after what was published, none has less error."""
    batch().plan(pf.Pure(0.1)).release(account)
    best = account.design(batch())
    (own,), past = best.cost.shape.exact_sums.sums, account.past()
    inputs, before = list(best.channel.inputs), past.about(best.cost.shape.exact_sums, {})
    chances = np.array([math.comb(3, at) / 8 for at in inputs])
    kept = []
    for scale in np.geomspace(0.2, 50, 24):
        channel = Channel.of_noise("positive", inputs, inputs, pf.Laplace(float(scale)))
        asked = ExactSums(3, "", "test", (ExactSum(own.terms, channel=channel.to_json()),))
        loss = JointAnswers.of(
            [pf.Table(LAW)], pf.Derived("ill"), [*before, ExactRelease(asked)]
        ).pure
        distance = np.abs(np.subtract.outer(inputs, inputs))
        kept += (
            [float((chances[:, None] * channel.matrix * distance).sum())] if loss <= LIMIT else []
        )
    assert best.expected_loss <= min(kept) + 1e-9
    assert best.expected_loss == pytest.approx(best.solver_loss, abs=1e-6)


@pytest.mark.slow
def test_the_ledger_counts_designed_releases_by_what_they_published(tmp_path):
    """Charged, stored, given back under its id, followed by noise and another design, verified, and read anew."""
    place = tmp_path / "ledger.db"
    with pf.Ledger(place) as ledger:
        account = ledger.open("tests", SCENARIO, limit=pf.Pure(LIMIT))
        best = account.design(batch(), pf.Pure(0.15))
        assert account.after(best).epsilon <= 0.15 < account.limit.epsilon
        stale = account.design(batch())
        release = best.release(account, id="one")
        spent = account.spent()
        assert best.release(account, id="one").frame.equals(release.frame)
        assert release.frame["positive"].item() in best.channel.outputs
        assert spent.epsilon <= account.history()[0].at_most <= 0.15
        noisy = batch().plan(pf.Pure(0.05))
        assert spent.epsilon <= account.after(noisy).epsilon <= spent.epsilon + 0.05 + 1e-9
        noisy.release(account, id="two")
        last = account.design(batch())
        last.release(account, id="three")
        assert account.spent().epsilon <= LIMIT
        assert [entry.state for entry in account.history()] == ["committed"] * 3
        total, history = account.spent(), [entry.total for entry in account.history()]
        assert account.after(stale).epsilon >= total.epsilon
    with pf.Ledger(place) as ledger:
        account = ledger.account("tests")
        assert account.spent() == total
        assert [entry.total for entry in account.history()] == history
        assert ledger.verify().entries == 7
        stored = account.release("three")
        assert stored.certificate == msgspec.structs.replace(
            last.certificate, entry=stored.certificate.entry, answered=stored.certificate.answered
        )
        page = stored.report(tmp_path / "page.html").read_text(encoding="utf-8")
        assert "after what was published" in page


def test_plans_made_before_others_published_are_counted_anew(account):
    """A design for the whole limit after another path: refused, or counted within the limit, and nothing is charged."""
    stale, other = account.design(batch()), account.design(batch())
    other.release(account)
    try:
        stale.release(account)
    except pf.LimitReached:
        assert len(account.history()) == 1
    assert account.spent().epsilon <= LIMIT


def test_what_a_failed_release_may_have_published_counts(account):
    """Of a channel that is reserved and not committed all outputs count; of noise there is nothing on record."""
    first = account.design(batch(), pf.Pure(0.15))
    account.reserve(first, "lost")
    best = account.design(batch())
    assert account.after(best).epsilon <= LIMIT
    best.release(account)
    first.release(account, id="lost")
    assert account.spent().epsilon <= LIMIT
    account.reserve(batch().plan(pf.Pure(1e-3)), "noisy")
    with pytest.raises(pf.UsageError, match="'noisy' is reserved and not committed"):
        account.design(batch())


def test_rows_of_other_filters_do_not_matter(account):
    """Releases about rows that no filter passes both of reveal nothing about each other; about some of them.

    Refused.
    """
    wards = [
        pf.protect(ROWS, SCENARIO).filter(pl.col("ward") == ward).private_sum("test", name="n")
        for ward in (1, 2)
    ]
    account.design(wards[0]).release(account)
    best = account.design(wards[1])
    assert best.expected_loss == pytest.approx(account.design(wards[1]).expected_loss)
    best.release(account)
    assert account.spent().epsilon <= LIMIT
    with pytest.raises(pf.Refused, match="selected in another way"):
        account.design(batch())


def test_values_that_the_table_holds_impossible(tmp_path):
    """Data that the prior excludes are published like the nearest possible answer, and no error reveals about them."""
    law = {"ill": [0, 0, 1, 1], "test": [0, 1, 0, 1], "probability": [0.5, 0, 0.25, 0.25]}
    scenario = pf.Scenario(pf.Secret("ill", [0, 1]), pf.Table(law))
    rows = pl.DataFrame({"ill": [0, 0], "test": [7, None]})
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("tests", scenario, limit=pf.Pure(2.0))
        best = account.design(batch(scenario, rows), outputs=[0, 1, 2])
        assert best.release(account).frame["positive"].item() in {0, 1, 2}


WIDE = pl.DataFrame({"test": [0] * 2000, "ward": [1] * 2000})
REFUSALS = {
    "two queries": (
        lambda one: one.design(batch().private_count(pl.col("test") < 1, name="n")),
        pf.Refused,
        "can be designed for",
    ),
    "a mean": (
        lambda one: one.design(pf.protect(ROWS, SCENARIO).private_mean("test")),
        pf.Refused,
        "private_sum",
    ),
    "groups": (
        lambda one: one.design(pf.protect(ROWS, SCENARIO).group_by("ward").private_sum("test")),
        pf.Refused,
        "in groups",
    ),
    "No rows are selected": (
        lambda one: one.design(pf.protect(ROWS, SCENARIO).filter(ward=9).private_sum("test")),
        pf.Refused,
        "No rows are selected",
    ),
    "too many rows": (lambda one: one.design(batch(rows=WIDE)), pf.Refused, "probabilities"),
    "labels": (
        lambda one: one.design(batch(), outputs=["a", "b"]),
        pf.UsageError,
        "no finite number",
    ),
    "twice": (lambda one: one.design(batch(), outputs=[1, 1]), pf.UsageError, "no finite number"),
    "no loss": (lambda one: one.design(batch(), loss="manhattan"), pf.UsageError, "loss is"),
    "an equal loss": (
        lambda one: one.design(batch(), loss=lambda *_: 1.0),
        pf.UsageError,
        "same for every output",
    ),
    "another kind": (lambda one: one.design(batch(), pf.Approx(0.1, 1e-6)), pf.UsageError, "limit"),
    "above the limit": (lambda one: one.design(batch(), pf.Pure(9.0)), pf.LimitReached, "above"),
    "no account": (
        lambda one: one.design(batch()).release(None),
        pf.UsageError,
        "without its account",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(account, case):
    """What cannot be designed is refused with a word, before anything is charged."""
    ask, kind, words = REFUSALS[case]
    with pytest.raises(kind, match=words):
        ask(account)
    assert not account.history()


def test_a_past_that_costs_more_than_the_promise(account):
    """The error says by how much, and which guarantee is left."""
    batch().plan(pf.Pure(0.2)).release(account)
    with pytest.raises(pf.Refused, match=r"more than the guarantee's") as error:
        account.design(batch(), pf.Pure(1e-6))
    assert "pf.Pure(" in str(error.value)


def test_a_design_with_a_share_of_delta_claims_the_limit_of_its_account(tmp_path):
    """A share of δ is kept by all releases together, so the certificate names the account's limit, not the share."""
    limit = pf.Approx(0.15, 0.03)
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("tests", SCENARIO, limit=limit)
        plan = account.design(batch(), pf.Approx(0.15, 0.01))
        assert plan.guarantee == plan.certificate.promise == limit
