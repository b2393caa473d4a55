"""Pages as text: complete, escaped, the same for the same values, and without matplotlib still a page."""

import json
import re
import subprocess
import sys
import tomllib
import warnings
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pages
import polars as pl
import published
import pytest
from msgspec import structs
from strict import STRICT
from thinned import thinned

import pufferflow as pf
from pufferflow.reports import pages as report
from pufferflow.reports.evidence import Evidence, ValueDistances
from pufferflow.reports.figures import canvas
from pufferflow.reports.figures.square import square_figure
from pufferflow.reports.sections import anchor_of

ALL = pages.all_pages()
VOID = {"meta", "link", "br", "img", "use"}
ANALYST = ["numbers", "signal", "next", "models", "budget"]
AUDITOR = ["sentence", "glance", "assumptions", "worst", "memory", "bounds", "glossary"]
SECTIONS = [*ANALYST, *AUDITOR, "certificate"]


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


@pytest.mark.parametrize("name", thinned(sorted(ALL), 0.04))
def test_page_is_whole_and_needs_nothing_else(name):
    """Every element is closed, every id occurs once and is there if referred to, and nothing points outside."""
    html = ALL[name]()
    found = Read(html)
    assert found.open == []
    ids = [attrs["id"] for _, attrs in found.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    links = [
        attrs[key]
        for tag, attrs in found.elements
        for key in ("href", "src")
        if key in attrs and tag != "link"
    ]
    assert {link[1:] for link in links} <= set(ids)
    assert set(re.findall(r"url\(#([^)]+)\)", html)) <= set(ids)
    assert not {"script", "img", "iframe"} & {tag for tag, _ in found.elements}
    assert not [attrs for _, attrs in found.elements if any(key.startswith("on") for key in attrs)]
    assert "http" not in html
    assert not re.search(r"#0102[0-9a-f]{2}|matplotlib\.org|<metadata|<!--", html)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ledger-accounts", "plan-usual", "release-evidence"])
def test_same_values_give_the_same_page(name):
    """A page made twice has the same bytes, also by another process."""
    script = f"import pages, sys; sys.stdout.buffer.write(pages.all_pages()[{name!r}]().encode())"
    command = [sys.executable, *STRICT, "-c", script]
    path = str(pages.__file__).rpartition("/")[0]
    other = subprocess.run(
        command, capture_output=True, check=True, env={"PYTHONPATH": path, "PYTHONHASHSEED": "7"}
    )
    assert other.stderr == b""
    assert ALL[name]() == ALL[name]() == other.stdout.decode()


@pytest.mark.parametrize("given", thinned(published.HOSTILE, 0.2))
def test_hostile_text_is_text(given):
    """Whatever a name is, a reader sees it as it is, in tables, in figures and in what figures say."""
    html = report.plan_page(pages.hostile())
    seen = " ".join("".join(Read(html).words).split())
    kept = given.replace("\x00", "\N{REPLACEMENT CHARACTER}").replace(
        "\x1b", "\N{REPLACEMENT CHARACTER}"
    )
    assert " ".join(kept.split()) in seen


@pytest.mark.slow
def test_parts_are_in_order():
    """A plan's page has all parts, in the order of the table of contents."""
    found = Read(report.plan_page(pages.evidence()))
    assert found.sections == SECTIONS
    html = report.plan_page(pages.evidence())
    contents = re.findall(r'href="#([^"]+)"', html[html.index("<nav") : html.index("</nav>")])
    assert contents == ["analyst", *ANALYST, "auditor", *AUDITOR, "certificate"]


WRITTEN = datetime(2026, 11, 22, 4, 5, tzinfo=timezone(timedelta(hours=1)))


@pytest.mark.slow
def test_heading_says_what_a_page_is_of():
    """Job, period, data set and the date in UTC stand above all else, of a plan and of a release with or without it."""
    shown, numbers = pages.evidence(), (*published.days(), pages.ROWS)
    for html, named in (
        (report.plan_page(shown, WRITTEN), ["meters-daily", "2026-11-20", "meters"]),
        (report.release_page(*numbers, shown, WRITTEN), ["meters-daily", "2026-11-20", "meters"]),
        (
            report.release_page(*numbers, None, WRITTEN, job="hourly", period="2026"),
            ["hourly", "2026"],
        ),
    ):
        heading = html[html.index("<h1") : html.index("<nav")]
        assert [f">{name}</dd>" in heading for name in (*named, "2026-11-22 03:05 UTC")] == [
            True
        ] * (len(named) + 1)
    assert "Written</dt>" not in report.plan_page(pages.bare())


@pytest.mark.slow
def test_a_page_has_a_line_to_sign():
    """A plan and a release have a place for a name, a date and a signature on the first screen, and none without."""
    sign = '<p class="sign"><span>Name</span><span>Date</span><span>Signature</span></p>'
    for html in (ALL[name]() for name in ("plan-usual", "release-evidence")):
        assert html.count(sign) == 1
        assert html.index("How well") < html.index(sign) < html.index("<nav")
    for html in (ALL["plan-bare"](), report.release_page(*published.days(), pages.ROWS)):
        assert sign not in html


@pytest.mark.slow
def test_a_promise_stands_in_words_before_python():
    """The first thing that a page says of a guarantee are words; how it is typed comes after them."""
    html = ALL["plan-usual"]()
    words = "epsilon 1 for all answers together: the odds change at most 2.72-fold"
    assert html.index(words) < html.index("Pure(epsilon=1)")
    assert f"{words}. In Python: Pure(epsilon=1)" in html


@pytest.mark.slow
def test_names_of_bounds_lead_to_what_they_mean():
    """Every bound that a page names has a link to one plain sentence on the same page."""
    html = ALL["plan-usual"]()
    for name in (
        "Messages()",
        "Quilt(approximate=False)",
        "GWM(norm=None)",
        "Exact()",
        "GAWM(delta=1e-06)",
    ):
        assert html.count(f'<a href="#{anchor_of(name)}">') >= 1
        assert html.count(f'<dt id="{anchor_of(name)}">') == 1
    for name in ("group privacy", "differential privacy (rows independent)"):
        assert f'<a href="#{anchor_of(name)}">{name}</a>' in html
    assert f'<b>Proof:</b> <a href="#{anchor_of("Messages()")}">Messages</a>, which' in html
    assert "docs/reference/noise.md" in html


@pytest.mark.parametrize(
    "bound", [pf.GWM, pf.DAGWM, pf.Exact, pf.Group, pf.Messages, pf.Quilt, pf.Kantorovich]
)
def test_every_bound_is_explained(bound):
    """Whichever bound carries a plan, its name has an explanation."""
    assert anchor_of(repr(bound()))
    assert anchor_of(repr(pf.GAWM(0.1)))


@pytest.mark.slow
def test_remarks_stand_in_their_section():
    """Further lines come last in the section that they belong to, under their own title."""
    html = ALL["plan-usual"]()
    numbers = html[html.index('<section id="numbers"') : html.index('<section id="signal"')]
    assert re.search(r"<h4>How values are read</h4>\s*<ul>", numbers)
    assert "nulls of load are read as 0" in numbers


@pytest.mark.parametrize("field", thinned(["findings", "too_noisy"], 0.5))
def test_numbers_that_say_nothing_are_named_first(field):
    """The section on use begins with the outputs of which the noise leaves nothing; that of older evidence too."""
    lines = ("load says nothing: noise of ± 40 hides a difference of 24", "peaks says nothing")
    html = report.plan_page(pages.evidence(**{field: lines}))
    signal = html[html.index('<section id="signal"') : html.index('<section id="next"')]
    assert all(f'class="warning">{line}.' in signal for line in lines)
    assert signal.index(lines[1]) < signal.index("<li")


@pytest.mark.slow
def test_pages_show_how_far_laws_lie_apart():
    """As a figure and a table of the pairs that lie farthest apart, with what is computed by whom."""
    chain = pf.MarkovChain([[0.9, 0.1], [0.3, 0.7]])
    scenario = pf.Scenario(pf.Secret("on", domain=[0, 1], missing=0), chain, order_by="hour")
    batch = pf.protect(pl.DataFrame({"hour": range(20), "on": [0, 1] * 10}), scenario).private_sum(
        "on"
    )
    plan = batch.plan(pf.Approx(1.0, 1e-6))
    evidence, every = plan.evidence(), plan.sensitivities()
    assert evidence.more_distances == every.height - len(evidence.distances) == 8
    (deciding,) = [row for row in evidence.distances if row.decides]
    own = every.row(by_predicate=pl.col("decides"), named=True)
    for name in ("position", "w_inf", "w_1", "w_2", "near", "gwm", "gawm", "dagwm"):
        assert getattr(deciding, name) == pytest.approx(own[name]), name
    html = report.plan_page(evidence)
    section = html[html.index('<section id="distances"') : html.index('<section id="bounds"')]
    for text in (
        "W_∞",
        "DAGWM",
        "POT",
        "may not decide",
        "8 more pairs",
        "0 against 1",
        ", decides",
    ):
        assert text in section
    assert section.count("<tr") == 13
    without = report.plan_page(structs.replace(evidence, distances=()))
    assert '<section id="distances"' not in without


def levels(
    pairs="all", values=(0, 1, 2), kernel=((0.8, 0.2, 0.0), (0.1, 0.8, 0.1), (0.0, 0.3, 0.7))
):
    """Return the plan of a daily sum along a chain of a few states."""
    secret = pf.Secret("level", domain=list(values), pairs=pairs, missing=0)
    prior = pf.MarkovChain(np.array(kernel), initial="stationary")
    scenario = pf.Scenario(secret, prior, order_by="hour")
    frame = pl.DataFrame({"hour": range(24), "level": [0] * 24})
    return pf.protect(frame, scenario).private_sum("level").plan(pf.Pure(1.0))


@pytest.mark.parametrize("pairs", thinned(["adjacent", "all"], 0.5))
def test_pages_show_distances_by_value(pairs):
    """A square has W_∞ for every two values, that of `sensitivities()`; a dash where values are not paired."""
    plan = levels(pairs)
    evidence = plan.evidence()
    square = evidence.by_value
    assert square.values == ("0", "1", "2")
    every = plan.sensitivities().filter(pl.col("position") == square.position)
    for a, first in enumerate(square.values):
        for b, second in enumerate(square.values):
            rows = every.filter(first=first, second=second)["w_inf"].to_list()
            if a < b:
                assert square.w_inf[a][b] == (rows[0] if rows else None) == square.w_inf[b][a]
    drawn = square_figure(square)
    assert "2 against 0: " in drawn or pairs == "adjacent"
    assert ("A dash" in drawn) == (pairs == "adjacent")
    assert drawn in report.plan_page(evidence)


@pytest.mark.slow
def test_squares_are_left_out_where_they_would_say_nothing():
    """Two values have one pair; intervals have no values; very many have no room; equal laws have no distance."""
    two = levels(values=(0, 1), kernel=((0.8, 0.2), (0.3, 0.7))).evidence()
    assert two.distances
    assert two.by_value is None
    many = levels(values=range(13), kernel=np.full((13, 13), 1 / 13)).evidence()
    assert many.by_value is None
    interval = pf.Scenario(pf.Secret("x", pf.Interval(0, 9), missing=0), pf.Independent())
    plan = pf.protect(pl.DataFrame({"x": [1.0]}), interval).private_sum("x").plan(pf.Pure(1.0))
    assert plan.evidence().by_value is None
    assert not square_figure(ValueDistances(("a", "b"), ((None, 0.0), (0.0, None))))
    with pytest.raises(ValueError, match="a row and a column for each value"):
        ValueDistances(("a", "b"), ((None, 0.0),))


@pytest.mark.slow
def test_bounds_that_were_not_worked_out_are_no_bad_ones():
    """They have neither a bar nor a row, and their reason is said once for all of them."""
    html = ALL["plan-usual"]()
    bounds = html[html.index('<section id="bounds"') : html.index('<section id="glossary"')]
    aside = bounds[bounds.index("Bounds that were not computed here") :]
    named = [f'<a href="#{anchor_of(name)}">{name[:-2]}</a>' for name in ("GWM()", "Exact()")]
    assert f"{', '.join(named)}: by movement alone." in " ".join(aside.split())
    assert "GWM" not in bounds.replace(aside, "").replace("GAWM", "")
    assert html.count("by movement alone") == 1


@pytest.mark.slow
def test_the_record_does_not_say_things_twice():
    """What the sentence and the assumptions say is left out of the record, which says so; all else is there."""
    said = pages.SENTENCE.split("\n")[1]
    rows = [*pages.ROWS, ("", said), ("assumed", "the prior is declared")]
    with_evidence = report.release_page(*published.days(), rows, pages.evidence())
    assert (
        "".join(Read(with_evidence).words).count(
            "the value of &#x27;level&#x27;".replace("&#x27;", "'")
        )
        == 2
    )
    assert with_evidence.count('<li dir="auto">the prior is declared</li>') == 1
    assert with_evidence.count(">the prior is declared<") == 1
    assert "are not repeated here" in with_evidence
    assert "grid 1/1048576" in with_evidence
    without = report.release_page(*published.days(), rows)
    assert "The certificate in full" in without
    assert "are not repeated" not in without


@pytest.mark.slow
def test_older_evidence_is_read():
    """Evidence that was stored before it had headings, memories and remarks still makes a page."""
    stored = json.loads(pages.evidence().to_json())
    new = (
        "job",
        "period",
        "dataset",
        "promise_in_words",
        "too_noisy",
        "findings",
        "counts",
        "memory",
        "remarks",
        "first",
        "verdicts",
    )
    for name in new:
        del stored[name]
    for row in stored["bounds"]:
        del row["worked_out"]
    found = Evidence.from_json(json.dumps(stored))
    html = report.plan_page(found)
    assert Read(html).sections == [name for name in SECTIONS if name != "memory"]
    assert "Pure(epsilon=1): the odds change at most 2.72-fold" in html
    assert "the odds between two such secrets change at most 2.72-fold. A guess" in html
    assert "is right in at most 73.2" in html


def test_what_is_not_known_is_said():
    """Without evidence, account, pair or error bars a page says so."""
    bare = report.plan_page(pages.bare())
    release = report.release_page(*published.days(), pages.ROWS)
    empty = report.release_page(*(part.clear() for part in published.days()), pages.ROWS)
    for page, words in (
        (
            bare,
            [
                "No account counts this",
                "pair of secrets is not known",
                "No other bounds",
                "not known beforehand",
            ],
        ),
        (bare, ["No explanation was kept", "how large the noise is against"]),
        (release, ["The plan of this release is not available"]),
        (empty, ["The release has no numbers"]),
    ):
        assert all(text in page for text in words)


def test_without_matplotlib_there_is_a_page(monkeypatch):
    """Without matplotlib every figure says what it would show; what to install is said once; tables are there."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    html = report.plan_page(pages.evidence())
    assert Read(html).open == []
    assert html.count("<figure") == 7
    assert html.count("pip install &#39;.[report]&#39;") == html.count("Figures are missing") == 1
    assert html.index("Figures are missing") < html.index("<main ")
    assert "a later one is 80\xa0% after 1 hour" in html
    assert "<svg" not in html
    assert "312.9" in html


def test_the_readme_says_how_figures_are_installed():
    """The extra that a page names is there, and the first page that people read names it too."""
    root = Path(__file__).parents[2]
    extras = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    assert any(one.startswith("matplotlib") for one in extras["report"])
    assert "pip install '.[report]'" in canvas.MISSING
    assert "pip install '.[report]'" in (root / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
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
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, env={"PYTHONPATH": path}
    )
    assert ran.stdout == b"False\n"


@pytest.mark.slow
def test_pages_can_be_made_side_by_side():
    """Threads that make pages at the same time make the pages that one alone makes."""
    names = ["plan-usual", "release-days", "ledger-accounts", "plan-cauchy"]
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda name: ALL[name](), names))
    assert made == [ALL[name]() for name in names]


@pytest.mark.slow
def test_matplotlib_is_loaded_late():
    """Importing the package of reports does not load matplotlib."""
    script = "import pufferflow.reports, sys; print('matplotlib' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert ran.stdout == b"False\n"


def test_no_text_is_measured_by_glyphs():
    """Text that the font of matplotlib has no glyphs for is drawn without a warning."""
    words = canvas.Words("numbers", "t", "1", "c")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        html = canvas.figure(
            words, 50, lambda sheet: sheet.write(0, 20, sheet.outside("漢字 🐡 $x_1$ <b>"))
        )
    assert "漢字 🐡 $x_1$ &lt;b&gt;</text>" in html
