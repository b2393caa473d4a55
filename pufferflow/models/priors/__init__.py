"""The priors of an adversary, one family per file. All are loaded, so that stored ones can be read."""

from pufferflow.models.priors import correlations as correlations
from pufferflow.models.priors import gaussian as gaussian
from pufferflow.models.priors import gaussian_mixture as gaussian_mixture
from pufferflow.models.priors import hidden_markov as hidden_markov
from pufferflow.models.priors import latent_class as latent_class
from pufferflow.models.priors import markov as markov
from pufferflow.models.priors import population as population
from pufferflow.models.priors import simple as simple
from pufferflow.models.priors import simulator as simulator
from pufferflow.models.priors import table as table
