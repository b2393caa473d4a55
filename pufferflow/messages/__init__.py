"""What outputs along a Markov chain tell of a state: numbers only (M20)."""

from pufferflow.messages.chain import Chain, stationary
from pufferflow.messages.leak import Exposures, Leak, Secrets, endless, leak

__all__ = ["Chain", "Exposures", "Leak", "Secrets", "endless", "leak", "stationary"]
