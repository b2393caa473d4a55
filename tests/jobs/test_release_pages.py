"""The page and the evidence beside a release: of the plan that was released, not of the job as it is today."""

import json
import re

import polars as pl
import pytest

import pufferflow as pf
from pufferflow.jobs.sink import PAGE
from pufferflow.published.files import EVIDENCE

DAY = "2026-10-20"


@pytest.mark.slow
def test_a_page_tells_of_the_release_and_not_of_todays_job(make):
    """After the job was edited, the page of a release that is kept has no evidence of another guarantee."""
    job = make()
    job.run(DAY)
    text = (
        job.path.read_text()
        .replace("epsilon = 0.5", "epsilon = 0.25")
        .replace("report = false", "report = true")
    )
    job.path.write_text(text)
    ran = pf.Job.read(job.path).run(DAY)
    assert ran.state == "kept"
    assert any(
        "Pure(epsilon=0.5), before the job had Pure(epsilon=0.25)" in note for note in ran.notes
    )
    assert any("no evidence" in note for note in ran.notes)
    assert not (ran.folder / EVIDENCE).exists()
    assert "epsilon=0.25" not in (ran.folder / PAGE).read_text()


@pytest.mark.slow
def test_evidence_is_of_the_plan_that_was_released(make):
    """The page's evidence has the guarantee, the scenario and the noise of the certificate."""
    ran = make(report="true").run(DAY)
    evidence = json.loads((ran.folder / EVIDENCE).read_text())
    certificate = ran.release.certificate
    assert evidence["scenario"] == certificate.hidden
    assert evidence["promise"] == repr(certificate.promise)
    assert evidence["cells"][0]["scale"] == pytest.approx(certificate.sums[0].scale)
    other = make().plan(DAY).evidence()
    wrong = type(other)(
        **{name: getattr(other, name) for name in other.__struct_fields__}
        | {"promise": "Pure(0.1)"}
    )
    with pytest.raises(pf.UsageError, match="another plan"):
        ran.release.report(ran.folder / "other.html", wrong)
    assert re.search(r"data-figure=\"laws\"", (ran.folder / PAGE).read_text())
    assert pl.read_parquet(ran.folder / "release.parquet").equals(ran.release.frame)
