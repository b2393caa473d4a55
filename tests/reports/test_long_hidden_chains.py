"""The worst pair of a long chain: its laws take time that grows with the square of its rows, so they are left out."""

import polars as pl
import pytest

import pufferflow as pf
from pufferflow.release.explain import worst_pair

STAY, SHOWS = [[0.9, 0.1], [0.08, 0.92]], [[0.75, 0.2, 0.05], [0.2, 0.45, 0.35]]
OF_VALUES = [[0.9, 0.08, 0.02], [0.08, 0.82, 0.1], [0.1, 0.1, 0.8]]
HIDDEN = (pf.Derived("home", column="x", domain=[0, 1, 2]), pf.HiddenMarkov(STAY, SHOWS))
SHOWN = (pf.Secret("x", domain=[0, 1, 2]), pf.MarkovChain(OF_VALUES))


def _evidence(rows, secret, prior):
    frame = pl.DataFrame({"t": range(rows), "x": [0, 1, 2, 1] * (rows // 4)})
    table = pf.protect(frame, pf.Scenario(secret, prior, order_by="t", step=1))
    return table.private_histogram("x").plan(pf.Pure(1.0)).evidence()


@pytest.mark.slow
@pytest.mark.parametrize("believed", [HIDDEN, SHOWN], ids=["hidden", "shown"])
def test_the_laws_of_a_long_chain_are_left_out_in_words(believed, monkeypatch):
    """None is computed for 24,000 rows, and the evidence says why."""
    monkeypatch.setattr(worst_pair, "_with_hidden", None)
    monkeypatch.setattr(worst_pair, "_along_a_chain", None)
    found = _evidence(24_000, *believed)
    assert found.pair is None
    assert "rows take too long to list for a figure" in found.pair_note


@pytest.mark.parametrize("believed", [HIDDEN, SHOWN], ids=["hidden", "shown"])
def test_the_laws_of_a_short_chain_are_shown(believed):
    """The limit leaves out nothing that takes little time."""
    assert _evidence(40, *believed).pair is not None
