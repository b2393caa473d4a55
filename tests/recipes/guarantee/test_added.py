"""χ²-privacy goes the whole way.

In the public API, planned, released on a ledger with such a limit, read back, shown.
"""

import numpy as np
import polars as pl
import pytest

import pufferflow as pf

SCENARIO = pf.Scenario(pf.Secret("on", domain=[0, 1]), pf.Independent(), public=["day"])
ROWS = pl.DataFrame({"day": [1, 2, 1, 2], "on": [0, 1, 1, 1]})


def test_the_noise_keeps_the_promise():
    """The χ² divergence of two noisy answers, integrated, is the guarantee's number."""
    scale = pf.calibrate([(pf.Law.point(0), pf.Law.point(1))], pf.ChiSquared(0.5)).noise.scale
    x, width = np.linspace(-60, 61, 2_000_001, retstep=True)
    p, q = (np.exp(-np.abs(x - shift) / scale) / (2 * scale) for shift in (1, 0))
    assert (p**2 / q).sum() * width - 1 == pytest.approx(0.5, rel=1e-4)


def test_it_is_released_kept_and_shown(tmp_path):
    """The release is read back from the ledger as it was, the limit counts in the same kind, and pages name it."""
    plan = (
        pf.protect(ROWS, SCENARIO)
        .group_by("day")
        .private_sum("on", "load")
        .plan(pf.ChiSquared(0.5))
    )
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        release = plan.release(ledger.open("ons", SCENARIO, limit=pf.ChiSquared(3.0)), id="one")
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.account("ons")
        assert account.release("one").certificate == release.certificate
        assert account.spent().chi2 == pytest.approx(0.5, rel=1e-6)
        assert account.limit == pf.ChiSquared(3.0)
        assert account.forecast(plan, every=1).fits >= 1
        with pytest.raises(pf.LimitReached):
            [plan.release(account) for _ in range(4)]
        assert "ons" in ledger.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "ChiSquared" in release.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "chi-squared" in plan.report(tmp_path / "page.html").read_text(encoding="utf-8")
