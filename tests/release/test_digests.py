"""What names a plan in a ledger stays as it is: an id that was paid for belongs to its plan in every later version."""

import json

import msgspec
import polars as pl
import pytest

import pufferflow as pf

FRAME = pl.DataFrame({"k": [1, 1, 2], "x": [0, 1, 2], "u": [1, 2, 3]})
SECRETS = {
    "a list": (
        pf.Secret("x", domain=[0, 1, 2]),
        None,
        "8ff3ee903f31036b711183e68e6b46f2caea317b5d97aeee7a682703a126ff11",
    ),
    "an interval": (
        pf.Secret("x", domain=pf.Interval(0, 2), missing=1),
        [0, 1, 2],
        "0b0ef1d244fbfa29d944b09326a7ae4eee88993affefbb37500b7161eddb5dab",
    ),
    "presence": (
        pf.Presence("u", column="x", domain=[0, 1, 2], rows=2),
        None,
        "e920ddda737a9a46946fb2ce8b0f0134586c6bca25db4b03998f73e99f2eedf9",
    ),
}


def plan(name):
    secret, bins, _ = SECRETS[name]
    x, keys = pl.col("x"), [1, 2] if isinstance(secret, pf.Presence) else None
    batch = pf.protect(FRAME, pf.Scenario(secret, pf.Independent(), public=["k"])).group_by("k", keys=keys)
    batch = batch.private_sum("x").private_mean("x").private_count(x > 1).private_variance("x")
    batch = batch.private_quantile("x", 0.5, bins=bins).private_histogram("x", bins=bins)
    return batch.plan(pf.Pure(1.0))


@pytest.mark.parametrize("name", SECRETS)
def test_digests_of_plans(name):
    """The digest of a plan of every query is the one that ledgers have had since the first version."""
    assert plan(name).certificate.digest == SECRETS[name][2]


@pytest.mark.parametrize("name", SECRETS)
def test_older_certificates_are_written_as_they_were(name):
    """One without what was added later is read, and written again, to the byte."""
    fields = msgspec.to_builtins(plan(name).certificate)
    del fields["readings"], fields["ordinary"]
    written = msgspec.json.encode(fields).decode()
    assert pf.Certificate.from_json(written).to_json() == written
    assert "readings" in json.loads(plan(name).certificate.to_json())
