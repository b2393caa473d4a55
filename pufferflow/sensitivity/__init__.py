"""How far answers move with a secret: the laws of an answer under a prior. Each file registers its priors."""

from pufferflow.sensitivity import hidden_markov as hidden_markov
from pufferflow.sensitivity import latent_class as latent_class
from pufferflow.sensitivity import markov as markov
from pufferflow.sensitivity import population as population
from pufferflow.sensitivity import samples as samples
from pufferflow.sensitivity import shift as shift
from pufferflow.sensitivity import table as table
