"""Channels: mechanisms with finitely many outputs, as frozen values with exact probabilities.

One class covers rows that are published one by one (`pf.local`), and releases that are analysed or designed on a table
(`pf.confounding`).
"""

from pufferflow.channels.cells import cell_masses
from pufferflow.channels.channel import ERASED, Channel, Drawn
from pufferflow.channels.labels import columns_of, label, unwrapped

__all__ = ["ERASED", "Channel", "Drawn", "cell_masses", "columns_of", "label", "unwrapped"]
