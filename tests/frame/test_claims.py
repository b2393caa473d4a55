"""What is said of a batch is what it does."""

from pathlib import Path

import polars as pl

import pufferflow as pf

DOCS = Path(__file__).parents[2] / "docs"


def test_a_batch_is_no_lock():
    """Whoever holds a batch holds the frame, and the documentation says so."""
    rows = pl.DataFrame({"day": [1, 1, 2], "level": [0, 3, 2]})
    scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.Independent(), public=["day"])
    batch = pf.protect(rows, scenario).group_by("day").private_sum("level")
    assert batch.questions.frame.collect().equals(rows)
    for text in (pf.Batch.__doc__ or "", (DOCS / "asking.md").read_text(encoding="utf-8")):
        assert "batch.questions.frame" in text
        assert "no way through" not in text
