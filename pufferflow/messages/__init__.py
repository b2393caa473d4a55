"""What outputs along a Markov chain, or a class of them, tell of a state: numbers only (M20)."""

from pufferflow.messages.chain import Chain, stationary
from pufferflow.messages.classes import Chains
from pufferflow.messages.leak import Exposures, Leak, Secrets, continued, endless, leak
from pufferflow.messages.windows import Window, exposures_of

__all__ = [
    "Chain",
    "Chains",
    "Exposures",
    "Leak",
    "Secrets",
    "Window",
    "continued",
    "endless",
    "exposures_of",
    "leak",
    "stationary",
]
