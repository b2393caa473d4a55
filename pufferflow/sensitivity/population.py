"""Rows drawn from one law of several, which is the secret: a star whose hidden class is the secret itself (M59).

Rows are independent given the law, so what they reveal about it adds up, whichever rows they are. For rows of two
values, and sums whose terms have one sign, the total is exact.
"""

import numpy as np

from pufferflow.calibration.laws import Laws
from pufferflow.models.population import Population
from pufferflow.models.priors.base import wrong_secret
from pufferflow.models.priors.population import IndependentGiven
from pufferflow.models.secret import AnySecret
from pufferflow.queries.statistic import Statistic, column_and_domain
from pufferflow.sensitivity.implied_laws import implied
from pufferflow.sensitivity.latent_class import StarLaws
from pufferflow.sensitivity.star import Given, Star


@implied.register
def _(prior: IndependentGiven, statistic: Statistic, secret: AnySecret) -> Laws:
    if not isinstance(secret, Population):
        raise wrong_secret(
            "IndependentGiven", secret, allowed="pf.Population", instead="pf.Population"
        )
    _, domain = column_and_domain(prior, statistic, secret)
    return StarLaws(star_of_population(prior, secret), statistic, domain)


def star_of_population(prior: IndependentGiven, secret: Population) -> Star:
    """Return the star whose class is the secret: each of its values is one class for certain.

    >>> star = star_of_population(IndependentGiven(), Population.share("ill", [0.1, 0.2]))
    >>> star.of_group, star.rows.tolist()
    (True, [[0.9, 0.1], [0.8, 0.2]])
    """
    rows = secret.arrays
    certain = np.eye(len(rows), dtype=np.intp).astype(rows.dtype)
    given = {name: Given(certain[c], None) for c, name in enumerate(secret.values)}
    return Star(rows, given, secret.value_pairs(), prior)
