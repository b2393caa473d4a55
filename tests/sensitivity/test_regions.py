"""Classes of tables and of latent classes: noise hides the secret under every member, and not much less would."""

import itertools

import numpy as np
import polars as pl
import pytest
from answers import largest_ratio

import pufferflow as pf
from pufferflow.models.priors.latent_class import LatentClassesNear
from pufferflow.models.priors.near import Around
from pufferflow.models.priors.table import LawsGiven, TablesNear
from pufferflow.sensitivity.table import posteriors


def corners(low, high):
    """The corners of the laws between two bounds."""
    found = []
    for free in range(len(low)):
        for chosen in itertools.product(
            *zip(np.delete(low, free), np.delete(high, free), strict=True)
        ):
            law = np.insert(np.array(chosen), free, 1 - sum(chosen))
            if low[free] - 1e-12 <= law[free] <= high[free] + 1e-12:
                found.append(law.clip(0))
    return found


def around(laws, width):
    laws = np.asarray(laws, float)
    low, high = (laws - width).clip(0), (laws + width).clip(0, 1)
    moved = np.minimum((high - laws).sum(axis=1), (laws - low).sum(axis=1))
    return Around(laws, low, high, moved)


def near_table(laws, width):
    """A class of tables of a hidden column and one that is read, with these laws given the hidden one."""
    size = len(laws[0])
    back = np.full((size, len(laws)), 1 / len(laws))
    given = (
        LawsGiven("ill", ("x",), around(laws, width)),
        LawsGiven("x", ("ill",), around(back, width)),
    )
    return TablesNear(("ill", "x"), (tuple(range(len(laws))), tuple(range(size))), given, width)


def apart(rng, size):
    """Two laws that reveal more than is guaranteed, were there no noise."""
    laws = rng.dirichlet(np.full(size, 5), 2)
    laws[0, 0], laws[1, -1] = laws[0, 0] + 1, laws[1, -1] + 1
    return laws / 2


def scale_of(secret, prior, rows, epsilon=1.0):
    scenario = pf.Scenario(secret=secret, prior=prior, within="house")
    found = pf.calibrate(pf.laws(scenario, pf.Statistic.total(rows, column="x")), pf.Pure(epsilon))
    assert isinstance(found.bound, pf.Messages)
    return found.noise.scale


def worst_of_tables(prior, scale, points):
    regions = prior.given("ill", ["x"])[1]
    tops, bottoms = (corners(regions.low[at], regions.high[at]) for at in (0, 1))
    return max(
        largest_ratio([top, bottom], [points], [scale]) for top in tops for bottom in bottoms
    )


@pytest.mark.parametrize("size", [2, 3])
def test_noise_hides_the_secret_under_every_table(size):
    """The worst two corners lose no more than is guaranteed, and more with nine tenths of the noise."""
    rng = np.random.default_rng(size)
    points = list(range(size))
    for _ in range(5):
        prior = near_table(apart(rng, size), 0.08)
        scale = scale_of(pf.Derived("ill", column="x", domain=points), prior, 3)
        assert worst_of_tables(prior, scale, points) <= 1.0 + 1e-9
        assert worst_of_tables(prior, 0.9 * scale, points) > 1.0


def test_more_slack_asks_for_more_noise():
    """Wider classes need more noise, and no width needs as much as the single table does."""
    laws = np.array([[0.7, 0.2, 0.1], [0.3, 0.4, 0.3]])
    secret = pf.Derived("ill", column="x", domain=[0, 1, 2])
    scales = [scale_of(secret, near_table(laws, width), 1) for width in (0, 0.01, 0.05, 0.2)]
    assert scales == sorted(scales)
    cells = {
        "ill": [0] * 3 + [1] * 3,
        "x": [0, 1, 2] * 2,
        "probability": (laws / 2).ravel().tolist(),
    }
    exact = pf.calibrate(
        pf.laws(
            pf.Scenario(secret=secret, prior=pf.Table(cells)), pf.Statistic.total(1, column="x")
        ),
        pf.Pure(1.0),
        bound=pf.Messages(),
    ).noise.scale
    assert scales[0] == pytest.approx(exact, rel=1e-5)


def classes_near(weights, rows, width):
    return LatentClassesNear(around([weights], width), around(rows, width), width)


def of_classes(weights, rows, count, scale, *, derived):
    """The largest loss of the noisy sum of some rows under one latent class."""
    size = len(rows[0])
    paths = np.array(list(itertools.product(range(size), repeat=count)))
    given = np.array([np.prod(law[paths], axis=1) for law in rows])
    if derived:
        return largest_ratio(given, [paths.sum(axis=1)], [scale])
    joint = weights @ given
    laws = [np.where(paths[:, 0] == point, joint, 0.0) for point in range(size)]
    return largest_ratio([law / law.sum() for law in laws], [paths.sum(axis=1)], [scale])


def worst_of_classes(prior, count, scale, *, derived):
    weights, rows = prior.regions
    choices = [
        corners(part.low[at], part.high[at]) for part in (weights, rows) for at in range(len(part))
    ]
    return max(
        of_classes(shares, np.array(laws), count, scale, derived=derived)
        for shares, *laws in itertools.product(*choices)
    )


@pytest.mark.parametrize("derived", [False, True])
@pytest.mark.parametrize("size", [2, 3])
def test_noise_hides_a_row_and_the_class_under_every_member(size, derived):
    """All corners of weights and rows lose no more than is guaranteed; those of a class more with nine tenths of it.

    About a row the class is bounded by its own region, whose corners no single member has for both values.
    """
    rng = np.random.default_rng(10 + size)
    domain = list(range(size))
    secret = (
        pf.Derived("kind", column="x", domain=domain) if derived else pf.Secret("x", domain=domain)
    )
    for _ in range(3):
        prior = classes_near(rng.dirichlet([3, 3]), apart(rng, size), 0.03)
        scale = scale_of(secret, prior, 3)
        assert worst_of_classes(prior, 3, scale, derived=derived) <= 1.0 + 1e-9
        less = 0.9 if derived else 0.75
        assert worst_of_classes(prior, 3, less * scale, derived=derived) > 1.0


def test_a_class_without_slack_is_the_single_prior():
    """With no width the noise is that of the latent class itself."""
    weights, rows = [0.4, 0.6], [[0.7, 0.2, 0.1], [0.2, 0.3, 0.5]]
    for secret in (
        pf.Secret("x", domain=[0, 1, 2]),
        pf.Derived("kind", column="x", domain=[0, 1, 2]),
    ):
        scenario = pf.Scenario(secret=secret, prior=pf.LatentClass(weights, rows), within="house")
        laws = pf.laws(scenario, pf.Statistic.total(4))
        exact = pf.calibrate(laws, pf.Pure(1.0), bound=pf.Messages()).noise.scale
        assert scale_of(secret, classes_near(weights, rows, 0.0), 4) == pytest.approx(
            exact, rel=1e-5
        )


def test_posteriors_hold_those_of_every_member():
    """The class given a value, under random members of weights and rows, lies in its region."""
    rng = np.random.default_rng(3)
    prior = classes_near(rng.dirichlet([2, 2, 2]), rng.dirichlet([2] * 4, 3), 0.05)
    weights, rows = prior.regions
    found = posteriors(weights, rows)
    for _ in range(50):
        chosen = [
            choices[int(rng.integers(len(choices)))]
            for choices in (
                corners(part.low[at], part.high[at])
                for part in (weights, rows)
                for at in range(len(part))
            )
        ]
        joint = (chosen[0][:, None] * np.array(chosen[1:])).T
        law = joint / joint.sum(axis=1, keepdims=True)
        assert (found.low - 1e-12 <= law).all()
        assert (law <= found.high + 1e-12).all()


def test_a_batch_is_planned_and_said_under_a_class():
    """From a reference to a release: the plan repeats the reference and the slack, and lists no laws."""
    rng = np.random.default_rng(1)
    public = pl.DataFrame(
        {"house": np.repeat(np.arange(300), 3), "kind": np.repeat(rng.integers(0, 2, 300), 3)}
    )
    public = public.with_columns(x=pl.col("kind") + pl.Series(rng.integers(0, 2, 900)))
    prior = pf.LatentClass.fit(
        pf.Reference("a census", public), "x", "kind", "house", slack="confidence"
    )
    scenario = pf.Scenario(
        secret=pf.Secret("x", domain=[0, 1, 2]), prior=prior, within="house", public=["area"]
    )
    private = pl.DataFrame(
        {"house": np.repeat(np.arange(20), 3), "area": [0, 1] * 30, "x": [0, 1, 2] * 20}
    )
    plan = (
        pf.protect(private, scenario)
        .group_by("area")
        .private_sum("x")
        .private_mean("x")
        .plan(pf.Pure(1.0))
    )
    said = plan.explain()
    assert "in joint 95 % confidence regions" in said
    assert "'a census'" in said
    with pytest.raises(pf.Refused, match="infinitely many members"):
        list(pf.laws(scenario, pf.Statistic.total(3)))
    gaussian = (
        pf.protect(private, scenario).private_sum("x").plan(pf.Renyi(4, 1.0), noise=pf.Gaussian)
    )
    assert gaussian.summary()["scale"][0] > 0
