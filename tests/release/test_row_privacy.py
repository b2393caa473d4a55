"""Noise is never below what one row alone needs: every release is ordinarily differentially private as well.

The check knows nothing of laws or floors: it changes one row of the data to every other value, reads the exact sums of
both frames, and asks the noise itself what it reveals about the difference, were all other rows known.
"""

import functools
import itertools

import numpy as np
import polars as pl
import pytest
from thinned import nightly, thinned

import pufferflow as pf
from pufferflow.engines.one_pass import tally
from pufferflow.engines.polars_engine import collect

TURNS = [[0.0, 1.0], [1.0, 0.0]]
"""A row tells all of the next: two neighbours add up to 1, and an even number of rows always to the same sum."""
ABSORBING = [[0.9, 0.1], [0.0, 1.0]]
HOURS = 6
rows = pl.DataFrame(
    {"unit": [1] * HOURS + [2] * HOURS, "hour": [*range(HOURS)] * 2, "day": [0, 0, 0, 1, 1, 1] * 2}
)
LEVEL = pl.Series("level", [0, 1, 1, 0, 1, 0, 1, 1, 0, 0, 0, 1])
LABELS = [0, 1]
_STEP = 1e-4


def chain(domain, transition, **options):
    return pf.Secret("level", domain), pf.MarkovChain(transition, **options)


def three_states(row):
    return [row, [0.1, 0.6, 0.3], [0.0, 0.0, 1.0]]


BELIEFS = {
    "rows that take turns": chain(LABELS, TURNS),
    "opposites": chain(LABELS, [[0.3, 0.7], [0.7, 0.3]]),
    "a state that is never left": chain(LABELS, ABSORBING, initial=[1.0, 0.0]),
    "a state that is only passed": chain(
        [0, 1, 2], three_states([0.5, 0.5, 0.0]), initial=[1.0, 0.0, 0.0]
    ),
    "phases with one state each": chain(LABELS, [[[0.0, 1.0]] * 2, [[1.0, 0.0]] * 2], period=2),
    "a class of chains": (
        pf.Secret("level", LABELS),
        pf.MarkovChain.between([[0.1, 0.7], [0.7, 0.1]], [[0.3, 0.9], [0.9, 0.3]]),
    ),
    "a hidden class": (
        pf.Secret("level", LABELS),
        pf.LatentClass([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]]),
    ),
    "a table": (
        pf.Secret("level", LABELS),
        pf.Table(
            {
                "ill": ["n", "n", "y", "y"],
                "level": [0, 1, 0, 1],
                "probability": [0.4, 0.1, 0.1, 0.4],
            }
        ),
    ),
    "opposite numbers": (pf.Secret("level", pf.Interval(0, 2)), pf.GaussianPrior(pf.AR1(-0.9))),
    "numbers that hardly depend": (
        pf.Secret("level", pf.Interval(0, 2)),
        pf.GaussianPrior(pf.Exchangeable(0.1)),
    ),
    "weak dependence": (pf.Secret("level", pf.Interval(0, 2)), pf.WeaklyDependent(0.0)),
    "independent rows": (pf.Secret("level", LABELS), pf.Independent()),
    "any correlation": (pf.Secret("level", LABELS), pf.AnyCorrelation()),
}
BELIEFS["neighbouring values"] = (
    pf.Secret("level", [0, 1, 2], pairs="adjacent"),
    pf.MarkovChain([[0.2, 0.6, 0.2], [0.4, 0.2, 0.4], [0.2, 0.6, 0.2]]),
)
ASKED = {
    "a sum": lambda batch: batch.private_sum("level"),
    "sums by hour": lambda batch: batch.group_by("hour").private_sum("level"),
    "counts and means by day": lambda batch: (
        batch.group_by("day").private_count(pl.col("level") == 0).private_mean("level")
    ),
    "a variance and a square": lambda batch: batch.private_variance("level").private_sum(
        (pl.col("level") * 2 - 1) ** 2, name="square"
    ),
    "some hours": lambda batch: batch.filter(pl.col("hour").is_between(2, 3)).private_sum("level"),
}
PROMISES = {
    "pure": (pf.Pure(0.5), {}),
    "pure, exactly": (pf.Pure(0.5), {"bound": pf.Exact()}),
    "pure, Cauchy": (pf.Pure(0.5), {"noise": pf.GeneralizedCauchy}),
    "pure, staircase": (pf.Pure(0.5), {"noise": pf.Staircase}),
    "approximate": (pf.Approx(0.5, 1e-3), {}),
    "approximate, Gaussian": (pf.Approx(0.5, 1e-3), {"noise": pf.Gaussian}),
    "Rényi": (pf.Renyi(4, 0.5), {}),
    "accuracy": (None, {"accuracy": pf.Within(30.0)}),
}


def plan_of(belief, asked, promise, **more):
    secret, prior = BELIEFS[belief]
    scenario = pf.Scenario(secret, prior, order_by="hour", within="unit", public=["day"])
    guarantee, options = PROMISES[promise]
    batch = ASKED[asked](pf.protect(rows.with_columns(LEVEL), scenario))
    return batch.plan(guarantee, **{**options, **more})


@functools.cache
def movements(belief, asked):
    """Return how far every change of one row moves all exact sums of a batch: an array of (changes, cells, sums)."""
    plan = plan_of(belief, asked, "pure", bound=pf.Group())
    secret = plan.request.scenario.secret
    points = secret.domain.points if secret.domain.finite else (0.0, 0.7, 2.0)
    pairs = (
        itertools.pairwise(points)
        if secret.pairs == "adjacent"
        else itertools.combinations(points, 2)
    )
    changes = [
        (row, *pair) for pair in pairs for row in range(HOURS)
    ]  # the units are indistinguishable
    return np.array([exact_sums(plan, row, a) - exact_sums(plan, row, b) for row, a, b in changes])


def exact_sums(plan, row, value):
    """Return the exact sums behind the answers if one row has this value, in their own units."""
    questions = plan.request
    frame = rows.with_columns(LEVEL.cast(pl.Float64).scatter(row, value)).lazy()
    for predicate in questions.filters:
        frame = frame.filter(predicate)
    found = tally(frame, questions.by, questions.keys, questions.measures, collect)
    return found.sums.astype(float) * [float(measure.values.unit) for measure in questions.measures]


def loss_of_one_row(plan, belief, asked):
    """Return the most that the noise reveals about one row whose neighbours are known, over what is guaranteed."""
    scales, moved = independent(plan, movements(belief, asked))
    assert ((scales > 0) | (moved == 0).all(axis=(0, 1))).all()
    flat = (moved / np.where(scales > 0, scales, 1.0)).reshape(len(moved), -1)
    return max(
        _over(plan.calibration.noise.at(1.0), plan.guarantee, one)
        for one in np.unique(flat, axis=0)
    )


def independent(plan, moved):
    """Return the scales of the noises that are drawn, and how far the sums with them move, or combinations (M28)."""
    made = plan.mechanism.noise
    if made.basis.transform.one_by_one:
        return np.array([noise.scale for noise in made.noises_in_units]), np.abs(moved)
    steps = moved / [float(measure.values.unit) for measure in plan.request.measures]
    factors = np.array(made.basis.transform.factors, dtype=float)
    return np.array([noise.scale for noise in made.noises]), np.abs(steps @ factors.T)


def _over(noise, promise, moved):
    match promise:
        case pf.Pure(epsilon):
            return float(np.sum(noise.pure(moved))) / epsilon
        case pf.Renyi(alpha, epsilon):
            return float(np.sum(noise.renyi(moved, alpha))) / epsilon
        case pf.Approx(epsilon, delta) if isinstance(noise, pf.Gaussian):
            return float(noise.delta(np.linalg.norm(moved), epsilon)) / delta
        case pf.Approx(epsilon, delta):
            return delta_of_laplace(moved, epsilon) / delta


def delta_of_laplace(moved, epsilon):
    """Return the δ of Laplace noise of scale 1 on several sums, from their privacy losses, rounded down by a hair."""
    losses, masses = np.zeros(1), np.ones(1)
    for shift in moved[moved > 0]:
        middle = (np.arange(4000) + 0.5) / 4000 * shift
        own = np.concatenate([[shift], shift - 2 * middle, [-shift]])
        weights = np.concatenate(
            [[0.5], 0.5 * np.exp(-middle) * shift / 4000, [0.5 * np.exp(-shift)]]
        )
        losses = (losses[:, None] + own[None]).ravel()
        places = np.floor(losses / _STEP).astype(int)
        masses = np.bincount(places - places.min(), (masses[:, None] * weights[None]).ravel())
        losses = (np.arange(len(masses)) + places.min()) * _STEP
        losses, masses = losses[masses > 0], masses[masses > 0]
    return float((masses * np.maximum(0, 1 - np.exp(epsilon - losses))).sum())


def check(belief, asked, promise):
    try:
        plan = plan_of(belief, asked, promise)
    except pf.Refused:
        return  # a bound or an accuracy that does not exist for these laws
    assert loss_of_one_row(plan, belief, asked) <= 1 + 1e-9, (belief, asked, promise)
    assert plan.ordinary.epsilon <= plan.guarantee.epsilon * (1 + 1e-9)


@pytest.mark.parametrize("belief", thinned(BELIEFS, 0.07))
def test_a_change_of_one_row_is_hidden_as_well_as_promised(belief):
    """Whatever a prior says of a row's neighbours, answers reveal at most the guarantee about one row alone."""
    for asked in ("a sum", "sums by hour"):
        check(belief, asked, "pure")
    check(belief, "a sum", "approximate, Gaussian")


@pytest.mark.slow
@pytest.mark.parametrize("promise", nightly(PROMISES, but=0.34))
@pytest.mark.parametrize("belief", BELIEFS)
def test_a_change_of_one_row_is_hidden_whatever_is_asked(belief, promise):
    """The same for every prior with every guarantee, bound and noise, and two batches in turn."""
    turn = list(BELIEFS).index(belief) + list(PROMISES).index(promise)
    for place in (turn, turn + 2):
        check(belief, list(ASKED)[place % len(ASKED)], promise)


@pytest.mark.nightly
@pytest.mark.parametrize("promise", PROMISES)
@pytest.mark.parametrize("belief", BELIEFS)
def test_a_change_of_one_row_is_hidden_whatever_is_asked_of_all(belief, promise):
    """The same for every batch."""
    for asked in ASKED:
        check(belief, asked, promise)


CANCELLING = {
    "rows that take turns": ("a sum", "pure"),
    "phases with one state each": ("sums by hour", "approximate, Gaussian"),
    "opposites": ("some hours", "pure, exactly"),
}


@pytest.mark.parametrize("belief", CANCELLING)
def test_the_check_finds_noise_without_a_floor(belief, monkeypatch):
    """The check leaves no room: a tenth less noise fails it, and so does what the prior alone would need."""
    asked, promise = CANCELLING[belief]
    assert loss_of_one_row(plan_of(belief, asked, promise), belief, asked) > 0.89
    monkeypatch.setattr("pufferflow.release.planning.choose_noise.row_laws", lambda *_: None)
    assert loss_of_one_row(plan_of(belief, asked, promise), belief, asked) > 1.1


def test_the_floor_is_what_independent_rows_need():
    """Where a prior needs no noise, the scale is that of the same batch under pf.Independent(), for every sum."""
    scenario = pf.Scenario(
        pf.Secret("level", LABELS), pf.Independent(), order_by="hour", within="unit", public=["day"]
    )
    batch = pf.protect(rows.with_columns(LEVEL), scenario)
    for asked in ("a sum", "a variance and a square"):
        alone = ASKED[asked](batch).plan(pf.Pure(0.5))
        assert plan_of("rows that take turns", asked, "pure").noises == alone.noises


def test_lowering_the_floor_is_said():
    """row_privacy=False makes noise for the prior alone; sentence, certificate and comparison say what is kept."""
    plan = plan_of("rows that take turns", "a sum", "pure", row_privacy=False)
    scale = plan.noises["level_sum"].scale
    assert scale < 0.01
    assert plan.ordinary.epsilon == pytest.approx(1 / scale, rel=1e-6)
    (note,) = [note for note in plan.certificate.notes if "row_privacy=False" in note]
    assert "for one row alone it keeps Pure(epsilon=" in note
    assert note in plan.explain()
    assert plan.certificate.ordinary == plan.ordinary
    row = (
        plan.compare()
        .filter(pl.col("bound") == "differential privacy (rows independent)")
        .row(0, named=True)
    )
    assert row["scale"] == pytest.approx(2.0)


def test_what_one_row_keeps_is_said():
    """The sentence, the certificate and the comparison say what a release is as ordinary differential privacy."""
    plan = plan_of("any correlation", "a sum", "pure")
    assert plan.ordinary == pf.Pure(plan.certificate.ordinary.epsilon)
    assert plan.ordinary.epsilon == pytest.approx(0.5 / HOURS, rel=1e-9)
    too = "One row alone: if everything but one row were known, this would be differential privacy: epsilon 0.0833334"
    assert too in plan.explain()
    row = (
        plan.compare()
        .filter(pl.col("bound") == "differential privacy (rows independent)")
        .row(0, named=True)
    )
    assert (row["scale"], row["note"]) == (pytest.approx(2.0), "would keep epsilon 3 here")
    assert ("one row", f"differential privacy too: {plan.ordinary!r}") in plan.certificate.rows()


def test_pairs_that_are_not_all_are_named():
    """Where only neighbouring values must be indistinguishable, ordinary privacy is claimed for these alone."""
    assert (
        "differential privacy for the pairs of values above"
        in plan_of("neighbouring values", "a sum", "pure").explain()
    )


def test_row_privacy_is_true_or_false():
    """Anything else is refused before planning."""
    with pytest.raises(pf.UsageError, match="row_privacy is of type str"):
        plan_of("independent rows", "a sum", "pure", row_privacy="rows")


def first_value(initial, **options):
    frame = pl.DataFrame({"hour": range(180), "level": [0, 1] * 90})
    prior = pf.MarkovChain([[0.6, 0.4], [0.3, 0.7]], initial=initial)
    return pf.protect(
        frame, pf.Scenario(pf.Initial("level", LABELS), prior, order_by="hour", start=0, **options)
    )


@pytest.mark.slow
def test_first_values_have_a_floor_where_they_are_asked_about():
    """pf.Initial is ordinarily private for first rows, and claims nothing where none is among the rows."""
    batch = first_value([0.5, 0.5])
    first, later = (
        batch.private_sum("level"),
        batch.filter(pl.col("hour") >= 170).private_sum("level"),
    )
    assert first.plan(pf.Pure(1.0)).ordinary.epsilon <= 1.0
    assert "the first row of a sequence" in first.plan(pf.Pure(1.0)).explain()
    plan = later.plan(pf.Pure(1.0))
    assert plan.ordinary is None
    assert "no first row is among the queried rows" in plan.explain()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("promise", "options"),
    [
        (pf.Pure(1.0), {}),
        (pf.Pure(1.0), {"noise": pf.GeneralizedCauchy}),
        (pf.Pure(1.0), {"noise": pf.Staircase}),
        (pf.Approx(1.0, 1e-6), {"noise": pf.Gaussian}),
        (pf.Renyi(4, 1.0), {}),
        (pf.RenyiCurve([2, 4], [0.5, 1.0]), {}),
        (pf.Pure(1.0), {"row_privacy": False}),
    ],
)
def test_some_noise_is_left_where_nothing_is_to_be_hidden(promise, options, tmp_path):
    """A start that is long forgotten needs no noise; a little stays, and an account goes on counting releases."""
    batch = first_value([0.5, 0.5])
    plan = batch.filter(pl.col("hour") >= 170).private_sum("level").plan(promise, **options)
    assert plan.noises["level_sum"].scale >= 1 / 4096
    if isinstance(promise, pf.Pure):
        with pf.Ledger(tmp_path / "ledger.db") as ledger:
            account = ledger.open("starts", batch.request.scenario, limit=pf.Pure(2.0))
            for _ in range(3):
                plan.release(account)
            assert account.spent().epsilon <= 1e-6


STAIRS = pf.Staircase, pf.Staircase.of(epsilon=1.0)


@pytest.mark.parametrize(
    ("promise", "noise", "hour"),
    thinned(
        [
            *((pf.Pure(0.5), noise, hour) for noise in STAIRS for hour in (20, 400)),
            (pf.Renyi(4, 0.5), STAIRS[1], 20),
            (pf.RenyiCurve([2, 4], [0.5, 1]), STAIRS[1], 20),
        ],
        0.33,
        unpack=True,
    ),
)
def test_noise_whose_losses_may_rise_again_has_the_floor_too(promise, noise, hour):
    """A start that fades, and is not forgotten yet, leaves no stairs of 1e-308: what there is is proven as well."""
    prior = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    scenario = pf.Scenario(pf.Initial("level", [0, 1]), prior, order_by="hour", start=0)
    frame = pl.DataFrame({"hour": range(hour, hour + 4), "level": [0] * 4})
    plan = pf.protect(frame, scenario).private_sum("level").plan(promise, noise=noise)
    assert plan.noises["level_sum"].scale >= 1 / 4096
    kind = promise.kind
    if kind is not None:
        weight = plan.mechanism.noise.weights.item()
        drawn = plan.noises["level_sum"]
        assert (
            pf.loss(plan.mechanism.noise.laws, drawn.at(drawn.scale * weight), kind)
            <= promise.epsilon
        )


@pytest.mark.parametrize(
    "promise", thinned([pf.Approx(0.5, 1e-6), pf.Renyi(4, 0.5), pf.ApproxRenyi(4, 0.5, 1e-6)], 0.33)
)
@pytest.mark.parametrize("stay", [0.6, 0.9])
def test_first_values_keep_one_family(promise, stay):
    """Whatever is forgotten by then: an account that began with a family can count every later day."""
    prior = pf.MarkovChain([[stay, 1 - stay], [1 - stay, stay]])
    scenario = pf.Scenario(pf.Initial("level", [0, 1]), prior, order_by="hour", start=0)
    frames = (
        pl.DataFrame({"hour": range(hour, hour + 4), "level": [0] * 4}) for hour in (0, 4, 40, 400)
    )
    plans = [pf.protect(frame, scenario).private_sum("level").plan(promise) for frame in frames]
    assert {type(plan.noises["level_sum"]) for plan in plans} == {pf.Laplace}


def test_units_and_derived_secrets_claim_no_row():
    """Presence is a floor of its own; a derived secret is no value of a row, and no text claims privacy of rows."""
    presence = pf.Scenario(pf.Presence("unit", "level", [0, 1], rows=6), pf.Independent())
    plan = pf.protect(rows.with_columns(LEVEL), presence).private_sum("level").plan(pf.Pure(1.0))
    assert plan.ordinary is None
    assert "too" not in plan.explain().split("One row alone: ")[1].split("\n")[0]
    table = pf.Table(
        {"ill": ["n", "n", "y", "y"], "level": [0, 1, 0, 1], "probability": [0.4, 0.1, 0.1, 0.4]}
    )
    derived = pf.Scenario(pf.Derived("ill", column="level", domain=[0, 1]), table)
    plan = pf.protect(rows.with_columns(LEVEL), derived).private_sum("level").plan(pf.Pure(1.0))
    assert plan.ordinary is None
    assert "this is no differential privacy of a row" in plan.explain()


def test_presence_has_no_floor_to_lower():
    """Where the guarantee is differential privacy already, row_privacy=False changes nothing and says nothing."""
    presence = pf.Scenario(pf.Presence("unit", "level", [0, 1], rows=6), pf.Independent())
    batch = pf.protect(rows.with_columns(LEVEL), presence).private_sum("level")
    lowered = batch.plan(pf.Pure(1.0), row_privacy=False)
    assert lowered.noises == batch.plan(pf.Pure(1.0)).noises
    assert not any("floor" in note for note in lowered.certificate.notes)


def test_less_than_promised_is_not_called_differential_privacy_too():
    """If one row alone keeps less than the guarantee, the sentence says so in these words."""
    text = plan_of("rows that take turns", "a sum", "pure", row_privacy=False).explain()
    assert (
        "One row alone: if everything but one row were known, less than the guarantee would be left"
        in text.replace(";", ",")
    )
    assert "privacy too" not in text


def test_a_bound_that_needs_less_than_one_row_says_so():
    """A plan has more noise than its bound needs if one row alone needs more; the comparison names these bounds."""
    names = ("bound", "scale", "note")
    floor = pl.col("note").str.contains("one row alone needs more")
    plan = plan_of("opposites", "a sum", "pure")
    noted = plan.compare().filter(floor).select(names)
    assert "Exact()" in noted["bound"].to_list()
    assert noted["scale"].max() < plan.noises["level_sum"].scale
    assert plan.compare().filter(~floor)["scale"].min() >= plan.noises["level_sum"].scale
    assert plan_of("any correlation", "a sum", "pure").compare().filter(floor).is_empty()
