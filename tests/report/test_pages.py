"""Pages as text: complete, escaped, the same for the same values, and without matplotlib still a page."""

import re
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser

import pages
import polars as pl
import published
import pytest

from pufferflow import report
from pufferflow.report.figures import canvas

ALL = pages.all_pages()
VOID = {"meta", "link", "br", "img", "use"}
SECTIONS = ["sentence", "numbers", "signal", "worst", "bounds", "budget", "assumptions", "certificate"]


class Read(HTMLParser):
    """A page's elements, and whether each is closed where it should be."""

    def __init__(self, html):
        super().__init__()
        self.open, self.elements, self.sections, self.words = [], [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag == "section":
            self.sections.append(dict(attrs)["id"])
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "title"} & set(self.open):
            self.words.append(data)


@pytest.mark.parametrize("name", sorted(ALL))
def test_page_is_whole_and_needs_nothing_else(name):
    """Every element is closed, every id occurs once and is there if referred to, and nothing points outside."""
    html = ALL[name]()
    found = Read(html)
    assert found.open == []
    ids = [attrs["id"] for _, attrs in found.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    links = [attrs[key] for tag, attrs in found.elements for key in ("href", "src") if key in attrs and tag != "link"]
    assert {link[1:] for link in links} <= set(ids)
    assert set(re.findall(r"url\(#([^)]+)\)", html)) <= set(ids)
    assert not {"script", "img", "iframe"} & {tag for tag, _ in found.elements}
    assert not [attrs for _, attrs in found.elements if any(key.startswith("on") for key in attrs)]
    assert "http" not in html
    assert not re.search(r"#0102[0-9a-f]{2}|matplotlib\.org|<metadata|<!--", html)


@pytest.mark.parametrize("name", ["plan-usual", "release-evidence", "ledger-accounts"])
def test_same_values_give_the_same_page(name):
    """A page made twice has the same bytes, also by another process."""
    script = f"import pages, sys; sys.stdout.buffer.write(pages.all_pages()[{name!r}]().encode())"
    command = [sys.executable, "-W", "error", "-c", script]
    path = str(pages.__file__).rpartition("/")[0]
    other = subprocess.run(command, capture_output=True, check=True, env={"PYTHONPATH": path, "PYTHONHASHSEED": "7"})
    assert other.stderr == b""
    assert ALL[name]() == ALL[name]() == other.stdout.decode()


@pytest.mark.parametrize("given", published.HOSTILE)
def test_hostile_text_is_text(given):
    """Whatever a name is, a reader sees it as it is, in tables, in figures and in what figures say."""
    html = report.plan_page(pages.hostile())
    seen = " ".join("".join(Read(html).words).split())
    kept = given.replace("\x00", "\N{REPLACEMENT CHARACTER}").replace("\x1b", "\N{REPLACEMENT CHARACTER}")
    assert " ".join(kept.split()) in seen


def test_parts_are_in_order():
    """A plan's page has all parts, in the order of the table of contents."""
    found = Read(report.plan_page(pages.evidence()))
    assert found.sections == SECTIONS
    contents = [attrs["href"][1:] for tag, attrs in found.elements if tag == "a"]
    assert contents == SECTIONS


def test_what_is_not_known_is_said():
    """Without evidence, account, pair or error bars a page says so."""
    bare = report.plan_page(pages.bare())
    release = report.release_page(*published.days(), pages.ROWS)
    empty = report.release_page(*(part.clear() for part in published.days()), pages.ROWS)
    for page, words in (
        (bare, ["Nobody is counting", "pair of secrets is not known", "No other bounds", "not known beforehand"]),
        (bare, ["No sentence was kept", "nobody can tell how large the noise is"]),
        (release, ["No evidence of the plan was kept"]),
        (empty, ["The release has no numbers"]),
    ):
        assert all(text in page for text in words)


def test_without_matplotlib_there_is_a_page(monkeypatch):
    """Without matplotlib every figure says what it would show and what to install; tables are there."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    html = report.plan_page(pages.evidence())
    assert Read(html).open == []
    assert html.count("<figure") == html.count("pip install &#x27;pufferflow[report]&#x27;") == 5
    assert "<svg" not in html
    assert "312.9" in html


def test_nothing_global_is_left_changed():
    """Drawing leaves matplotlib's settings as they were, draws in its own, and does not start pyplot."""
    import matplotlib as mpl

    page = ALL["plan-usual"]()
    with mpl.rc_context({"font.size": 30.0, "axes.grid": True, "lines.linewidth": 9.0}):
        before = dict(mpl.rcParams)
        assert ALL["plan-usual"]() == page
        assert dict(mpl.rcParams) == before
    script = "import pages, sys; pages.all_pages()['plan-usual'](); print('matplotlib.pyplot' in sys.modules)"
    path = str(pages.__file__).rpartition("/")[0]
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, env={"PYTHONPATH": path})
    assert ran.stdout == b"False\n"


def test_pages_can_be_made_side_by_side():
    """Threads that make pages at the same time make the pages that one alone makes."""
    names = ["plan-usual", "release-days", "ledger-accounts", "plan-cauchy"]
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda name: ALL[name](), names))
    assert made == [ALL[name]() for name in names]


def test_matplotlib_is_loaded_late():
    """Importing the room of reports does not load matplotlib."""
    script = "import pufferflow.report, sys; print('matplotlib' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert ran.stdout == b"False\n"


def test_no_text_is_measured_by_glyphs():
    """Text that the font of matplotlib has no glyphs for is drawn without a warning."""
    words = canvas.Words("numbers", "t", "1", "c")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        html = canvas.figure(words, 50, lambda sheet: sheet.write(0, 20, sheet.outside("漢字 🐡 $x_1$ <b>")))
    assert "漢字 🐡 $x_1$ &lt;b&gt;</text>" in html


def test_notebook_blocks_are_escaped():
    """Plans and releases in a notebook are tables and words, with nothing in them that runs."""
    summary = pl.DataFrame({"query": [published.HOSTILE[0]], "scale": [104.4213]})
    for block in (
        report.plan_block(published.HOSTILE[1], summary),
        report.release_block(*published.hostile_names(), published.HOSTILE[0]),
    ):
        found = Read(block)
        assert found.open == []
        assert not {"script", "img"} & {tag for tag, _ in found.elements}
