"""Logistic noise goes the whole way.

In the public API, planned, released on a ledger, read back, shown, named in a job.
"""

import pytest
from ons import ROWS, SCENARIO, write_job

import pufferflow as pf

KEYS = """
noise = "logistic"
guarantee = { epsilon = 0.6 }
ledger = { account = "ons", limit = { epsilon = 6.0 } }
"""


def test_logistic_noise_is_released_kept_and_shown(tmp_path):
    """The release is read back from the ledger as it was, and pages draw the noise and name it."""
    plan = (
        pf.protect(ROWS, SCENARIO)
        .group_by("day")
        .private_sum("on", "load")
        .plan(pf.Pure(1.0), noise=pf.Logistic)
    )
    assert plan.noises["load"].scale == pytest.approx(1.0)
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        release = plan.release(ledger.open("ons", SCENARIO, limit=pf.Pure(3.0)), id="one")
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        kept = ledger.account("ons").release("one")
        assert kept.frame.equals(release.frame)
        assert kept.certificate == release.certificate
        assert ledger.account("ons").spent().epsilon == pytest.approx(1.0)
    for write in (plan.report, release.report):
        assert "logistic" in write(tmp_path / "page.html").read_text(encoding="utf-8").casefold()


def test_logistic_noise_is_named_in_a_job(tmp_path):
    """`noise = "logistic"` runs."""
    ran = pf.Job.read(write_job(tmp_path, KEYS)).run("2024-01-01")
    assert ran.release.certificate.sums[0].noise == "Logistic"
