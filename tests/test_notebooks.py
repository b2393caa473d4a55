"""What notebooks show: a card of every public value, safe and small, light and dark; and loads of extras."""

import inspect
import re
import subprocess
import sys
from html.parser import HTMLParser

import polars as pl
import pytest

import pufferflow as pf
from pufferflow.core.notebook import MOST_ROWS, Card, first_line

PACKAGES = ("audit", "confounding", "granularity", "learning", "local", "tradeoff")
HOSTILE = "<img src=x onerror=alert(1)></style></div><script>alert(1)</script>\x1b[2J\x9b31m\u202e\u200b\na"
REASONS = {
    "PufferflowError": "an error is shown as a traceback",
    "UtilityWarning": "a warning is shown as text",
    "Certainty": "a text, which shows itself",
    "confounding.PastOutcomes": "a tuple of arrays, which Python shows",
}


def public_classes():
    """Return every public class with its name."""
    found = {name: getattr(pf, name) for name in pf.__all__}
    for package in PACKAGES:
        module = getattr(pf, package)
        names = getattr(module, "__all__", None) or dir(module)
        found |= {f"{package}.{name}": getattr(module, name) for name in names if name[0] != "_"}
    return {name: kind for name, kind in found.items() if inspect.isclass(kind)}


class Read(HTMLParser):
    """The elements of a card, the values of their attributes, and its words."""

    def __init__(self, html, *, closed=True):
        super().__init__()
        self.closed = closed
        self.tags, self.open, self.attributes, self.words = [], [], [], ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.open.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag or not self.closed

    def handle_data(self, data):
        self.words += data


def batch():
    """Return a batch about made-up rows, grouped by day."""
    scenario = pf.Scenario(pf.Secret("on", domain=[0, 1]), pf.Independent(), public=["day"])
    rows = pl.DataFrame({"day": [1, 1, 2], "on": [0, 1, 1]})
    return pf.protect(rows, scenario).group_by("day").private_sum("on", name="load")


def test_every_public_value_has_a_card():
    """A class without one has a reason here; no reason is left over."""
    without = {name for name, kind in public_classes().items() if not hasattr(kind, "_repr_html_")}
    exempt = {
        name
        for name, kind in public_classes().items()
        if name in REASONS
        or (issubclass(kind, pf.PufferflowError) and "PufferflowError" in REASONS)
    }
    assert without == exempt
    assert set(REASONS) <= without


def test_every_class_has_a_line_for_its_card():
    """The first line of a docstring stands on the card: one sentence without markup."""
    for name, kind in public_classes().items():
        assert 5 < len(first_line(kind)) < 400, name
        assert "`" not in first_line(kind), name


def values(tmp_path):
    """Return public values of many kinds."""
    made, law = batch(), pf.Law([0, 1], [0.5, 0.5])
    plan = made.plan(pf.Pure(1.0))
    release = plan.release()
    ledger = pf.Ledger(tmp_path / "ledger.db")
    account = ledger.open("power", made.request.scenario, limit=pf.Pure(2.0))
    plan.release(account, id="monday")
    chain = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    yield from (made, plan, release, release.certificate, release.clipped())
    yield from (made.request.scenario, made.request.scenario.secret, chain, pf.Interval(0, 3))
    yield from (ledger, account, account.history()[0], account.forecast(plan, every=1))
    yield from (law, pf.GaussianLaw(0.0, 1.0), pf.winf(law, pf.Law.point(3)), plan.calibration)
    yield from (pf.Pure(1.0), pf.Approx(20.0, 1e-6), pf.Zcdp(0.5), pf.Laplace(1.0), pf.GWM())
    yield from (pf.Laplace(1.0).release([1.0]), ledger.verify(), pf.tradeoff.Profile(1.0, tv=0.3))
    ledger.close()


def test_cards_are_small_and_need_nothing_else(tmp_path):
    """A card is one element of our class, with its style, without scripts, links or handlers."""
    for value in values(tmp_path):
        html = value._repr_html_()
        read = Read(html)
        assert read.open == []
        assert html.startswith('<div class="pufferflow">')
        assert not {"script", "img", "link", "iframe", "a"} & set(read.tags), type(value)
        assert set(read.attributes) <= {"class", "dir", "scope"}
        assert not re.search(r"url\(|@import|https?:", html)
        assert len(html.encode()) < 12_000, type(value)


def test_a_card_has_both_themes():
    """Colours follow the system, and a notebook's own theme wins over it; none is left to the page."""
    html = pf.Pure(1.0)._repr_html_()
    for mark in (
        "prefers-color-scheme: dark",
        '[data-jp-theme-light="false"]',
        '[data-jp-theme-light="true"]',
        ".vscode-dark",
        ".vscode-light",
        "background: var(--paper); color: var(--ink)",
    ):
        assert mark in html


def test_hostile_names_stay_text():
    """Names with markup, controls and turned directions make no element, and move no cursor."""
    scenario = pf.Scenario(
        pf.Secret(HOSTILE, domain=[0, 1]), pf.Independent(), public=[f"{HOSTILE}day"]
    )
    rows = pl.DataFrame({HOSTILE: [0, 1], f"{HOSTILE}day": [HOSTILE, "x"]})
    made = pf.protect(rows, scenario).group_by(f"{HOSTILE}day").private_sum(HOSTILE)
    plan = made.plan(epsilon=1.0)
    release = plan.release()
    for value in (made, plan, plan.certificate, release, scenario, scenario.secret):
        html = value._repr_html_()
        assert not [sign for sign in html if sign not in "\n\t\xa0" and not sign.isprintable()]
        assert not {"script", "img"} & set(Read(html).tags)
    for table in (plan.style, release.style):
        assert not {"script", "img"} & set(Read(table.as_raw_html(), closed=False).tags)


def test_a_card_shows_the_first_rows_of_many():
    """Of a long table a card has the first rows, and says how many there are."""
    html = Card("Numbers", head=("n",), rows=[(str(row),) for row in range(100)]).html()
    assert Read(html).tags.count("tr") == MOST_ROWS + 1
    assert f"The first {MOST_ROWS} of 100 rows." in html


def test_a_card_of_a_batch_or_plan_has_no_private_value():
    """The rows hold a number that occurs nowhere else; what is shown before a release never has it."""
    scenario = pf.Scenario(
        pf.Secret("kw", domain=pf.Interval(0, 99_999), missing=0), pf.Independent()
    )
    made = pf.protect(pl.DataFrame({"kw": [73_512.25, 73_512.25]}), scenario).private_sum("kw")
    plan = made.plan(pf.Pure(1.0))
    shown = [value._repr_html_() for value in (made, plan, plan.certificate, plan.calibration)]
    shown += [str(plan.plot("noise").to_dict()), plan.style.as_raw_html()]
    assert not [text for text in shown if "73512" in text.replace(",", "")]


def test_a_closed_ledger_is_shown_as_it_prints(tmp_path):
    """No card raises: a notebook would show a traceback in place of the value."""
    ledger = pf.Ledger(tmp_path / "ledger.db")
    account = ledger.open("power", batch().request.scenario, limit=pf.Pure(2.0))
    ledger.close()
    assert "Account" in account._repr_html_()
    assert "Ledger" in ledger._repr_html_()


@pytest.mark.slow
def test_importing_loads_no_library_of_notebooks():
    """Neither the import nor a release loads Altair or great_tables."""
    code = (
        "import sys, polars as pl, pufferflow as pf\n"
        "s = pf.Scenario(pf.Secret('on', domain=[0, 1]), pf.Independent())\n"
        "pf.protect(pl.DataFrame({'on': [0, 1]}), s).private_sum('on').release(epsilon=9.0)\n"
        "print([name for name in ('altair', 'great_tables', 'matplotlib') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert ran.stdout.strip() == b"[]"
