"""What names a plan in a ledger stays as it is: an id that was paid for belongs to its plan in every later version."""

import json
from pathlib import Path

import msgspec
import polars as pl
import pytest

import pufferflow as pf

FRAME = pl.DataFrame({"k": [1, 1, 2], "x": [0, 1, 2], "u": [1, 2, 3]})
SECRETS = {
    "a list": (
        pf.Secret("x", domain=[0, 1, 2]),
        None,
        "c10b41861cd3a8e274465ac05823fca1eddc08e3c9f99b2ac0c3848985e3e9d3",
    ),
    "an interval": (
        pf.Secret("x", domain=pf.Interval(0, 2), missing=1),
        [0, 1, 2],
        "202e3fc96fde24959550e78e7bca186bab84ff470d8c930e6aa2c9e6059d2dcd",
    ),
    "presence": (
        pf.Presence("u", column="x", domain=[0, 1, 2], rows=2),
        None,
        "0b7aaaa5b74b08ca8d5388e593b270007676ed76b8aa54dfa74d6601808b93c2",
    ),
}


def plan(name, *, equal_sums=False):
    secret, bins, _ = SECRETS[name]
    x, keys = pl.col("x"), [1, 2] if isinstance(secret, pf.Presence) else None
    batch = pf.protect(FRAME, pf.Scenario(secret, pf.Independent(), public=["k"])).group_by(
        "k", keys=keys
    )
    if equal_sums:
        batch = batch.private_sum("x").private_mean("x").private_count(x > 1).private_variance("x")
        return (
            batch.private_quantile("x", 0.5, bins=bins)
            .private_histogram("x", bins=bins)
            .plan(pf.Pure(1.0))
        )
    batch = batch.private_mean("x").private_count(x > 0).private_variance("x")
    return batch.private_quantile("x", 0.5, bins=bins).plan(pf.Pure(1.0))


@pytest.mark.parametrize("name", SECRETS)
def test_digests_of_plans(name):
    """The digest of a plan whose sums all differ is the one that ledgers have had since the first version."""
    assert plan(name).certificate.digest == SECRETS[name][2]


@pytest.mark.parametrize("name", ["a_list", "presence"])
def test_older_certificates_of_equal_sums_are_known(name):
    """The first version made noise for every name of a sum; `older` holds certificates that it wrote of such plans."""
    older = pf.Certificate.from_json(
        (Path(__file__).parent / "older" / f"{name}.json").read_text(encoding="utf-8")
    )
    same = plan(name.replace("_", " "), equal_sums=True).certificate
    assert len(older.sums) > len(same.sums)
    assert older.asks_as(same)
    for other in (
        msgspec.structs.replace(same, groups=()),
        msgspec.structs.replace(same, promise=pf.Pure(0.5)),
        msgspec.structs.replace(same, where=("k == 1",)),
        plan(name.replace("_", " ")).certificate,
    ):
        assert not older.asks_as(other)


@pytest.mark.parametrize("name", SECRETS)
def test_older_certificates_are_written_as_they_were(name):
    """One without what was added later is read, and written again, to the byte."""
    fields = msgspec.to_builtins(plan(name).certificate)
    for later in (
        "readings",
        "ordinary",
        "sources",
        "engine",
        "quieter",
        "keys",
        "correlations",
        "answered",
        "period",
    ):
        del fields[later]
    written = msgspec.json.encode(fields).decode()
    assert pf.Certificate.from_json(written).to_json() == written
    assert "readings" in json.loads(plan(name).certificate.to_json())
