"""Releasing: noise on exact sums, numbers with error bars and certificate, and folders of them."""

from pufferflow.release.copies import Copy, entry_in, other_release, place_taken
from pufferflow.release.draw import columns_of, of_no_rows
from pufferflow.release.durable import move_file, name_beside, unfinished_in, write_whole
from pufferflow.release.files import CERTIFICATE, EVIDENCE, check_format
from pufferflow.release.folder import (
    add,
    check_free,
    check_writable,
    copies_in,
    entry_of,
    files_of,
    send,
    table_differences,
)
from pufferflow.release.publication import CostAccount, Reservable, Reservation, certified, check_account, publish
from pufferflow.release.release import Release, put_text, written

__all__ = [
    "CERTIFICATE",
    "EVIDENCE",
    "Copy",
    "CostAccount",
    "Release",
    "Reservable",
    "Reservation",
    "add",
    "certified",
    "check_account",
    "check_format",
    "check_free",
    "check_writable",
    "columns_of",
    "copies_in",
    "entry_in",
    "entry_of",
    "files_of",
    "move_file",
    "name_beside",
    "of_no_rows",
    "other_release",
    "place_taken",
    "publish",
    "put_text",
    "send",
    "table_differences",
    "unfinished_in",
    "write_whole",
    "written",
]
