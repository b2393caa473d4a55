"""Releases without data for ledgers: a cost, a certificate and noise, as a plan has them, made quickly."""

import math
import os
import types

import polars as pl

import pufferflow as pf
from pufferflow.published.certificate import AskedQuery, Certificate
from pufferflow.published.cost import Cost, Shape, digest_of

SECRET = pf.Secret("level", domain=[0, 1, 2, 3])
SCENARIO = pf.Scenario(SECRET, pf.AnyCorrelation())
OTHER_PRIOR = pf.Scenario(SECRET, pf.Independent())


def ready(epsilon=1.0, scenario=SCENARIO, question="sum of level"):
    """Return what a plan hands over, of a release that costs about epsilon whatever depend on each other."""
    promise = pf.Pure(epsilon)
    priors = tuple(digest_of(prior) for prior in scenario.priors)
    noise = pf.Laplace(1 / epsilon * (1 + 1e-12)).stored()
    shape = Shape(
        promise=promise,
        setting=scenario.setting,
        priors=priors,
        stored_noise=noise,
        dimension=1,
        group_movement=1.0,
    )
    certificate = Certificate(
        scenario=scenario.fingerprint,
        hidden="levels",
        promise=promise,
        loss=epsilon,
        queries=(AskedQuery(question, ("level_sum",), (0,)),),
        sums=(),
        groups=(),
        bound="GWM()",
        sensitivity=1.0,
        sensitivity_unit="",
        witness="",
        certainty="exact",
        composition="",
        assumptions=(),
        cost=Cost(shape),
        library="tests",
    )
    made = types.SimpleNamespace(
        cost=certificate.cost, certificate=certificate, name=certificate.digest
    )
    source = types.SimpleNamespace(verify_unchanged=lambda: source)
    made.mechanism = types.SimpleNamespace(source=source, request=None, check_drawable=lambda: None)
    made.with_cost = lambda _: made
    return made


def plan(epsilon=1.0, scenario=SCENARIO):
    """Return as much of a plan as accounts look at."""
    return types.SimpleNamespace(
        cost=ready(epsilon, scenario).cost, request=types.SimpleNamespace(scenario=scenario)
    )


def drawn(made, entry):
    """Return a release with noise of its own."""
    import msgspec

    frame = pl.DataFrame({"level_sum": [int.from_bytes(os.urandom(6), "big") / 7]})
    intervals = pl.DataFrame({"level_sum_low": [0.0], "level_sum_high": [math.inf]})
    return pf.Release(frame, intervals, msgspec.structs.replace(made.certificate, entry=entry))


def release(account, made, release_id=None):
    """Reserve, draw, commit: as a plan's release does."""
    reservation = account.reserve(made, release_id)
    if reservation.stored is not None:
        return reservation.stored
    return reservation.commit(drawn(made, reservation.entry))


def answer(found):
    """Return the noisy number of a release."""
    return found.frame["level_sum"][0]
