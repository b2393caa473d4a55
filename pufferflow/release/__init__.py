"""Releasing: noise on exact sums, numbers with error bars and certificate, and folders of them."""

from pufferflow.release.draw import grid_below, of_no_rows
from pufferflow.release.durable import write_whole
from pufferflow.release.files import CERTIFICATE, OURS, check
from pufferflow.release.folder import add, differences, entry_of, send
from pufferflow.release.publication import CostAccount, Reservation, publish
from pufferflow.release.release import Release, put_text, written

__all__ = [
    "CERTIFICATE",
    "OURS",
    "CostAccount",
    "Release",
    "Reservation",
    "add",
    "check",
    "differences",
    "entry_of",
    "grid_below",
    "of_no_rows",
    "publish",
    "put_text",
    "send",
    "write_whole",
    "written",
]
