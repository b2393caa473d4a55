"""Learning from correlated rows: the loss of the last noisy iterate about a secret (M33, M34, M37, M38).

Noise that is added after a row was read hides it further, as long as steps do not increase the distance of iterates. So
the loss of the last iterate is far below that of all of them.

>>> import pufferflow as pf
>>> descent = pf.learning.Descent(rows=1000, step_size=0.1, noise=0.5, lipschitz=1.0, smoothness=1.0)
>>> early = descent.displacements_of([([100], [float("inf")])])
>>> pf.learning.iteration_loss(descent.iteration, early, pf.Approx.of(delta=1e-6)).promise
Approx(epsilon=0.04..., delta=1e-06)
"""

from pufferflow.learning.dependent_rows import ChainRows, GaussianRows
from pufferflow.learning.descent import Descent
from pufferflow.learning.displacements import Displacements, Marginals, Trajectories
from pufferflow.learning.iteration import Iteration
from pufferflow.learning.iteration_loss import IterationLoss, TrajectoryLaws, iteration_loss
from pufferflow.learning.model_plan import ModelPlan
from pufferflow.learning.private_models import (
    PrivateRidge,
    PrivateSGDClassifier,
    PrivateSGDRegressor,
)

__all__ = [
    "ChainRows",
    "Descent",
    "Displacements",
    "GaussianRows",
    "Iteration",
    "IterationLoss",
    "Marginals",
    "ModelPlan",
    "PrivateRidge",
    "PrivateSGDClassifier",
    "PrivateSGDRegressor",
    "Trajectories",
    "TrajectoryLaws",
    "iteration_loss",
]
