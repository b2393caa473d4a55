"""Losses of linear models on scaled rows, with constants that follow from declared bounds alone (M33).

A row is (z, y): features within [−1, 1], with a 1 for the intercept, of length at most B; a target in [−1, 1], or −1
and 1 for two classes. Weights are in the ball of radius W. Each loss is convex and β-smooth; its gradient has at most
the length `lipschitz` and changes by at most `by_features`·‖z − z′‖ + `by_target`·|y − y′| with the row.

A gradient is a slope times z, so cutting its length to c cuts the slope to c/‖z‖. That is still a slope that rises with
w·z: of a loss that becomes linear, as Huber's does. So it stays convex and as smooth, and the cut gradient is the
projection of the gradient onto a ball, which does not increase distances.
"""

import math
from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.core.rounding import UNIT

Name = Literal["squared", "huber", "logistic"]
_SLACK = 1 + 16 * UNIT


@final
@dataclass(frozen=True)
class Objective:
    """A loss by its name, for rows of the given `length` and weights up to `radius`; Huber's is linear beyond `width`.

    Gradients are cut to the length `clip`; no row is shorter than `shortest`, which is 1 with an intercept.

    >>> Objective("logistic", length=2.0, radius=5.0).smoothness
    1.0
    """

    name: Name
    length: float
    radius: float
    width: float = 0.5
    clip: float = math.inf
    shortest: float = 0.0

    @property
    def lipschitz(self) -> float:
        """The longest gradient."""
        return min(self._slope * self.length, self.clip) * _SLACK

    @property
    def smoothness(self) -> float:
        """β: how fast gradients change with the weights."""
        return (self.length**2 / 4 if self.name == "logistic" else self.length**2) * (
            _SLACK if self.length != 2.0 else 1.0
        )

    @property
    def by_features(self) -> float:
        """The change of gradients with the features: those that are not cut have a slope of `clip` over a length."""
        bend = 0.25 if self.name == "logistic" else 1.0
        steepest = min(self._slope, self.clip / self.shortest) if self.shortest else self._slope
        return (steepest + bend * self.length * self.radius) * _SLACK

    @property
    def by_target(self) -> float:
        """The change of gradients with the target: from −1 to 1 a logistic one by z."""
        if self.name == "logistic":
            return self.length / 2 * _SLACK
        return self.length * _SLACK

    @property
    def _slope(self) -> float:
        """The largest |derivative| of the loss in w·z."""
        reach = self.length * self.radius
        if self.name == "logistic":
            return 1 / (1 + math.exp(-min(reach, 700.0)))
        return min(reach + 1, self.width) if self.name == "huber" else reach + 1

    def derivatives(self, scores: Floats, targets: Floats, lengths: Floats | float = 0.0) -> Floats:
        """Return the derivative of each row's loss in w·z, cut if gradients of such rows would be too long."""
        if self.name == "logistic":
            slopes = -targets / (1 + np.exp(np.clip(targets * scores, -700, 700)))
        else:
            slopes = scores - targets
        if self.name == "huber":
            slopes = np.clip(slopes, -self.width, self.width)
        return slopes if self.clip == math.inf else slopes / np.maximum(np.abs(slopes) * lengths / self.clip, 1.0)

    def moved(self, features: Floats, targets: Floats) -> Floats:
        """Return how far the gradient of a row moves with it, at most."""
        most = 2 * self.lipschitz
        return np.minimum(self.by_features * features + self.by_target * targets, most) * _SLACK
