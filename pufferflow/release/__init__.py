"""Releasing: the only room that reads private rows."""

from pufferflow.release.certificate import Certificate
from pufferflow.release.release import Account, Release, Reservation

__all__ = ["Account", "Certificate", "Release", "Reservation"]
