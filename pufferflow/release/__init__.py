"""Releasing: the only room that reads private rows."""

from pufferflow.release.certificate import Certificate
from pufferflow.release.cleaning import check_column
from pufferflow.release.release import Account, Release, Reservation, written

__all__ = ["Account", "Certificate", "Release", "Reservation", "check_column", "written"]
