"""Releasing: the only room that reads private rows."""

from pufferflow.release.certificate import Certificate
from pufferflow.release.cleaning import check_column
from pufferflow.release.release import Account, Release, Reservation, put_text, written

__all__ = ["Account", "Certificate", "Release", "Reservation", "check_column", "put_text", "written"]
