"""How far answers move with a secret: the laws of an answer under a prior. Each file registers its priors."""

from pufferflow.sensitivity import enumeration as enumeration
from pufferflow.sensitivity import latent_class as latent_class
from pufferflow.sensitivity import law_classes as law_classes
from pufferflow.sensitivity import markov as markov
from pufferflow.sensitivity import samples as samples
from pufferflow.sensitivity import shift as shift
