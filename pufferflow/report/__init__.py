"""Pictures and pages for people, from plain values."""

from pufferflow.report.page import plan_block, plan_page, release_block, release_page

__all__ = ["plan_block", "plan_page", "release_block", "release_page"]
