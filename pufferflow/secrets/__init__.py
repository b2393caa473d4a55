"""What must stay hidden, and which of its values must look alike."""

from pufferflow.secrets.domain import Bins, Domain, Interval
from pufferflow.secrets.pairs import Closer
from pufferflow.secrets.secret import AnySecret, Derived, Initial, Presence, Secret, read_name, restored_secret

__all__ = [
    "AnySecret",
    "Bins",
    "Closer",
    "Derived",
    "Domain",
    "Initial",
    "Interval",
    "Presence",
    "Secret",
    "read_name",
    "restored_secret",
]
