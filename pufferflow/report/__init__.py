"""Pictures and pages for people, from plain values."""

from pufferflow.report.blocks import plan_block, release_block
from pufferflow.report.ledgers import ledger_page
from pufferflow.report.plans import plan_page
from pufferflow.report.releases import release_page

__all__ = ["ledger_page", "plan_block", "plan_page", "release_block", "release_page"]
