"""Pictures and pages for people, from plain values.

Plans and accounts fill these values whether or not a page is wanted; so pages load when they are first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pufferflow.report.blocks import plan_block as plan_block
    from pufferflow.report.blocks import release_block as release_block
    from pufferflow.report.ledgers import ledger_page as ledger_page
    from pufferflow.report.plans import plan_page as plan_page
    from pufferflow.report.releases import release_page as release_page

_FILE_OF = {
    "plan_block": "blocks",
    "release_block": "blocks",
    "ledger_page": "ledgers",
    "plan_page": "plans",
    "release_page": "releases",
}


def __getattr__(name: str) -> object:
    """Load a page when it is first asked for (PEP 562)."""
    if name not in _FILE_OF:
        raise AttributeError(f"module 'pufferflow.report' has no attribute {name!r}")
    return getattr(import_module(f"pufferflow.report.{_FILE_OF[name]}"), name)
