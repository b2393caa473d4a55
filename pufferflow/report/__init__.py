"""Figures and HTML reports, made from plain values.

Plans and accounts fill these values whether or not a report is written, so the reports load at the first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from pufferflow.report.numbers import SPENT as SPENT
from pufferflow.report.numbers import at_most as at_most
from pufferflow.report.numbers import counted as counted
from pufferflow.report.numbers import downwards as downwards
from pufferflow.report.numbers import plain as plain
from pufferflow.report.numbers import promise_in_words as promise_in_words
from pufferflow.report.numbers import upwards as upwards

if TYPE_CHECKING:
    from pufferflow.report.belief_page import BeliefRow as BeliefRow
    from pufferflow.report.belief_page import beliefs_page as beliefs_page
    from pufferflow.report.pages import ledger_page as ledger_page
    from pufferflow.report.pages import plan_block as plan_block
    from pufferflow.report.pages import plan_page as plan_page
    from pufferflow.report.pages import release_block as release_block
    from pufferflow.report.pages import release_page as release_page

_BELIEFS = ("BeliefRow", "beliefs_page")
_PAGES = ("ledger_page", "plan_block", "plan_page", "release_block", "release_page")


def __getattr__(name: str) -> object:
    """Load the reports at their first use (PEP 562)."""
    if name in _BELIEFS:
        return getattr(import_module("pufferflow.report.belief_page"), name)
    if name not in _PAGES:
        raise AttributeError(f"module 'pufferflow.report' has no attribute {name!r}")
    return getattr(import_module("pufferflow.report.pages"), name)
