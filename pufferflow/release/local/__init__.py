"""Local privacy: rows published one by one, each through a random channel, and the numbers that describe channels.

`batch.private_local("level")` perturbs a column row by row, with a guarantee under the scenario (M35). The other
functions make channels for an ε and a total variation η. They also compute how much of a difference between laws of
rows a channel keeps (the TV paper, section VII).

>>> import pufferflow as pf
>>> channel = pf.local.randomized_response(["no", "yes"], epsilon=1.0)
>>> round(channel.tv, 6), round(pf.local.kl_contraction(channel.matrix), 6)
(0.462117, 0.213552)
"""

from pufferflow.noise.channel import Channel
from pufferflow.release.local.mechanisms import (
    LocalPrivacy,
    binary_erasure,
    kl_contraction,
    largest_tv,
    randomized_response,
    total_variation,
)
from pufferflow.release.local.plan import LocalBatch, LocalPlan, local_batch
from pufferflow.release.local.release import LocalRelease, read

__all__ = [
    "Channel",
    "LocalBatch",
    "LocalPlan",
    "LocalPrivacy",
    "LocalRelease",
    "binary_erasure",
    "kl_contraction",
    "largest_tv",
    "local_batch",
    "randomized_response",
    "read",
    "total_variation",
]
