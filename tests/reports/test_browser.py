"""Pages in a real browser: quiet, alone, legible on every screen and on paper, for everybody."""

import base64
import itertools
import re
from functools import cache
from itertools import pairwise

import numpy as np
import pages
import polars as pl
import published
import pytest
from thinned import nightly

from pufferflow.reports import pages as report

pytestmark = pytest.mark.slow
"""A browser takes seconds to start."""

ALL = pages.all_pages()
USUAL = [
    "plan-usual",
    "plan-hostile",
    "release-evidence",
    "release-hostile-evidence",
    "ledger-accounts",
]
PHONE = {"width": 360, "height": 740}
SCREENS = {
    "light": {},
    "dark": {"scheme": "dark"},
    "phone": PHONE,
    "dark-phone": PHONE | {"scheme": "dark"},
}
KINDS = {
    "plan-usual": ["numbers", "signal", "models", "budget", "laws", "memory", "bounds"],
    "release-evidence": ["numbers", "signal", "models", "budget", "laws", "memory", "bounds"],
    "ledger-accounts": ["budget", "budget", "budget"],
}
written = cache(lambda name: ALL[name]())

TWICE = """const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
return ids.filter((id, i) => ids.indexOf(id) != i)"""
UNTOLD = """return [...document.querySelectorAll('figure svg')].filter(svg => svg.getAttribute('role') != 'img'
  || !svg.querySelector(':scope > title').textContent.trim() || !svg.querySelector(':scope > desc').textContent.trim()
  || svg.getAttribute('aria-labelledby').split(' ').some(id => !document.getElementById(id))).length"""
BOXES = """return [...document.querySelectorAll('figure[data-figure]')].map(f => {
  const box = (f.querySelector('svg') || f).getBoundingClientRect();
  return [f.dataset.figure, box.width, box.height] })"""
CUT = """const out = []; for (const svg of document.querySelectorAll('figure svg')) {
  const box = svg.getBoundingClientRect();
  for (const text of svg.querySelectorAll('text')) { const own = text.getBoundingClientRect();
    if (own.left < box.left - 1 || own.right > box.right + 1 || own.top < box.top - 1 || own.bottom > box.bottom + 1)
      out.push(text.textContent) } } return out"""
OVERLAPPING = """const out = []; for (const svg of document.querySelectorAll('figure svg')) {
  const all = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
  all.forEach(([one, a], i) => all.slice(i + 1).forEach(([other, b]) => {
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (wide > 1 && high > 0.3 * Math.min(a.height, b.height)) out.push(one + ' | ' + other) })) } return out"""
SMALLEST = """return Math.min(99, ...[...document.querySelectorAll('figure svg text')].map(t => {
  const svg = t.ownerSVGElement; return parseFloat(getComputedStyle(t).fontSize)
    * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width }))"""
COLOURS = """const rgb = c => c.match(/[0-9.]+/g).slice(0, 3).map(Number);
return [...new Set([...document.querySelectorAll('figure svg text')].map(t => getComputedStyle(t).fill))].map(rgb)
  .concat([rgb(getComputedStyle(document.body).backgroundColor)])"""
WIDTHS = """return [...document.querySelectorAll('table')].map(t => t.getBoundingClientRect().right)
  .filter(wide => wide > 0)"""
BESIDE_TEXT = """const text = document.querySelector('main section').getBoundingClientRect();
return [...document.querySelectorAll('table')].map(t => [t.getBoundingClientRect(), t.parentElement])
  .filter(([t, e]) => t.width > 0 && (Math.abs(t.left - text.left) > 1 || Math.abs(t.right - text.right) > 1))
  .map(([t, e]) => e.innerText)"""
HEADINGS = "return [...document.querySelectorAll('h1, h2, h3')].map(h => Number(h.tagName[1]))"


@pytest.mark.parametrize("name", USUAL)
def test_page_is_quiet_and_alone(opened, name):
    """A page writes nothing to the console, asks for nothing but itself, runs no script, and uses no id twice."""
    page = opened(written(name)).look()
    assert page.complaints() == []
    assert page.requests() == []
    assert (
        page.run(
            "return document.scripts.length + document.querySelectorAll('img, iframe, object').length"
        )
        == 0
    )
    assert page.run(TWICE) == []


@pytest.mark.parametrize("name", KINDS)
def test_figures_are_there_and_told(opened, name):
    """The named figures have a size, a title and a text that tells them, with numbers."""
    page = opened(written(name)).look()
    boxes = page.run(BOXES)
    assert [kind for kind, _, _ in boxes] == KINDS[name]
    assert all(wide > 200 and high > 80 for _, wide, high in boxes)
    assert page.run(UNTOLD) == 0
    told = page.run("return [...document.querySelectorAll('figure desc')].map(d => d.textContent)")
    assert all(re.search(r"\d", text) for text in told)


@pytest.mark.parametrize("name", USUAL)
def test_page_fits_a_telephone(opened, name):
    """At 360 pixels nothing goes over the edge, and the text in figures stays large enough and whole."""
    page = opened(written(name)).look(**PHONE)
    assert page.run("return document.documentElement.scrollWidth") <= 360
    assert page.run(SMALLEST) >= 10
    assert page.run(CUT) == []
    assert page.run(OVERLAPPING) == []


@pytest.mark.parametrize(
    ("name", "screen"),
    [
        *[("plan-usual", "light"), ("plan-usual", "dark")],
        *[
            ("release-hostile-evidence", "dark-phone"),
            ("ledger-accounts", "light"),
            ("ledger-accounts", "dark-phone"),
        ],
    ],
)
def test_page_is_for_everybody(opened, axe, name, screen):
    """axe-core finds nothing serious, in light and in dark, and headings go down one step at a time."""
    page = opened(written(name)).look(**SCREENS[screen])
    assert page.violations(axe) == []
    levels = page.run(HEADINGS)
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


READ_FIRST = ["plan-usual", "release-evidence"]
SHEET = "return [...document.querySelectorAll('header .sheet dt')].map(e => e.textContent)"
BOTTOM = "return document.querySelector('.sign').getBoundingClientRect().bottom + window.scrollY"
ORDER = """const places = ['h1', '.sheet', '.sign', 'nav', '#analyst', '#auditor', 'footer'];
return places.map(p => document.querySelector(p).getBoundingClientRect().top)"""
LIGHTS = """const rgb = c => c.match(/[0-9.]+/g).slice(0, 3).map(Number);
return [...document.querySelectorAll('.light')].map(e => { const own = getComputedStyle(e);
  return [e.innerText.trim(), rgb(own.color), rgb(own.backgroundColor)] })"""
FOCUSED = """const e = document.activeElement, box = e.getBoundingClientRect(), own = getComputedStyle(e);
return [e.tagName, e.className, box.left, box.top, box.right, parseFloat(own.outlineWidth), own.outlineStyle, e.id]"""


@pytest.mark.parametrize("name", READ_FIRST)
def test_what_is_signed_fits_the_first_screen(opened, name):
    """On a desktop all that is signed is seen at once, with the line to sign; a telephone needs three screens."""
    page = opened(written(name)).look(width=1280, height=900)
    assert page.run(SHEET) == [
        *("Published, of whom", "Protected", "From whom", "How well", "How exact"),
        *("If the prior is wrong", "Evidence against the prior", "Not protected", "Spent"),
    ]
    assert page.run(BOTTOM) <= 900
    assert page.look(**PHONE).run(BOTTOM) <= 3 * PHONE["height"]


@pytest.mark.parametrize("screen", SCREENS)
def test_readers_come_one_after_the_other(opened, screen):
    """The page has the first screen, the contents, the analyst's part and the auditor's, from top to bottom."""
    places = opened(written("release-evidence")).look(**SCREENS[screen]).run(ORDER)
    assert places == sorted(places)


@pytest.mark.parametrize("screen", ["light", "dark"])
def test_no_verdict_is_a_colour_alone(opened, screen):
    """Each light has a sign and a word, which stand out from its colour; and the three colours differ."""
    lights = opened(written("plan-usual")).look(**SCREENS[screen]).run(LIGHTS)
    assert {words[0] for words, _, _ in lights} == {"✓", "!", "✗"}
    assert all(re.fullmatch(r". \w[\w ]+", words) for words, _, _ in lights)
    assert len({tuple(paper) for _, _, paper in lights}) == 3
    assert all(_contrast(ink, paper) >= 4.5 for _, ink, paper in lights)


def test_the_keyboard_goes_everywhere(opened):
    """The first key leads past the first screen, and whatever has the focus is seen to have it."""
    from selenium.webdriver.common.keys import Keys

    page = opened(written("release-evidence")).look(width=1280, height=900)
    body = page.driver.find_element("tag name", "body")
    body.send_keys(Keys.TAB)
    tag, kind, left, top, right, outline, style, _ = page.run(FOCUSED)
    assert (tag, kind) == ("A", "skip")
    assert left >= 0 <= top
    assert right <= 1280
    page.driver.switch_to.active_element.send_keys(Keys.ENTER)
    assert page.run(FOCUSED)[-1] == "details"
    page.driver.switch_to.active_element.send_keys(Keys.TAB)
    tag, kind, *_, outline, style, _ = page.run(FOCUSED)
    assert (tag, kind.split()[0]) == ("DIV", "scroll")
    assert outline >= 2
    assert style == "solid"


@pytest.mark.parametrize("name", READ_FIRST)
def test_what_is_signed_fits_one_sheet(opened, name):
    """On paper the first sheet has all that is signed, its verdicts in ink, and the rest begins on a new sheet."""
    page = opened(written(name)).look(width=680, height=990, media="print")
    assert page.run(BOTTOM) <= 940
    assert page.run("return getComputedStyle(document.querySelector('main')).breakBefore") == "page"
    for hidden in ("nav", ".skip"):
        assert page.run(f"return document.querySelector('{hidden}').offsetHeight") == 0
    assert all(_contrast(ink, [255, 255, 255]) >= 4.5 for _, ink, _ in page.run(LIGHTS))
    filled = "return getComputedStyle(document.querySelector('.light')).backgroundColor"
    assert page.run(filled) == "rgba(0, 0, 0, 0)"


IMPOSSIBLE = """return [...document.querySelectorAll('#numbers tbody tr')].map(r =>
  [...r.querySelectorAll('.remark')].map(e => e.textContent))"""


def test_a_number_outside_its_bar_says_so(opened):
    """A number that is impossible, or that noise alone could have made, has a word below it, also on a telephone."""
    frame, intervals = published.with_bars(
        pl.DataFrame({"day": [1, 2, 3, 4], "n": [-4.0, 6.0, 40.0, 111.0]}), n=10.0
    )
    cut = intervals.with_columns(pl.all().clip(0, 100))
    html = report.release_page(frame, intervals, pages.ROWS, possible=cut)
    page = opened(html).look(**PHONE)
    assert page.run(IMPOSSIBLE) == [
        ["impossible: below 0"],
        ["may be 0"],
        [],
        ["impossible: above 100"],
    ]
    seen = "return [...document.querySelectorAll('.remark')].every(e => e.getBoundingClientRect().right <= 360)"
    assert page.run(seen)


@pytest.mark.parametrize("screen", ["light", "dark"])
def test_text_in_figures_stands_out(opened, screen):
    """Every colour of text in a figure has a contrast of 4.5 or more against the page, which is dark in the dark."""
    page = opened(written("plan-usual")).look(**SCREENS[screen])
    *texts, paper = [_luminance(colour) for colour in page.run(COLOURS)]
    assert len(texts) >= 4
    assert (paper < 0.1) == (screen == "dark")
    assert all((max(text, paper) + 0.05) / (min(text, paper) + 0.05) >= 4.5 for text in texts)


@pytest.mark.parametrize("name", ["plan-usual", "release-evidence", "ledger-accounts"])
def test_tables_are_as_wide_as_the_text(opened, name):
    """On a wide screen every table goes from the left to the right edge of the text, and no farther."""
    page = opened(written(name)).look()
    assert page.run(BESIDE_TEXT) == []


def test_page_can_be_printed(opened):
    """On paper a plan has several pages, light ones, and a place for a name, a date and a signature."""
    page = opened(written("plan-usual")).look(scheme="dark", media="print")
    assert (
        page.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    )
    assert page.run("return document.querySelector('.sign').getBoundingClientRect().height") > 5
    assert page.run("return document.querySelector('.sign').innerText").split() == [
        "Name",
        "Date",
        "Signature",
    ]
    pdf = base64.b64decode(page.printed())
    assert pdf.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) >= 3
    assert (
        page.look().run("return document.querySelector('.sign').getBoundingClientRect().height") > 5
    )


def test_nothing_is_cut_on_paper(opened):
    """No table of many outputs and groups is wider than a sheet, on which each output has a table of its own."""
    keys = {"street": [f"a street with quite a long name {place}" for place in range(60)]}
    outputs = {f"number_{place}": np.linspace(1e5, 1e6, 60) for place in range(6)}
    frame, intervals = published.with_bars(
        pl.DataFrame(keys | outputs), **dict.fromkeys(outputs, 5000.0)
    )
    page = opened(report.release_page(frame, intervals, pages.ROWS)).look(
        width=680, height=990, media="print"
    )
    assert page.run("return document.documentElement.scrollWidth") <= 680
    assert max(page.run(WIDTHS)) <= 680
    assert len(page.run(WIDTHS)) == 6
    assert all(high < 990 for _, _, high in page.run(BOXES))
    page.look()
    assert len(page.run(WIDTHS)) == 1
    assert page.run("return document.documentElement.scrollWidth") <= 1200


PLACES = [(name, screen) for name in sorted(ALL) for screen in SCREENS]
TURNS = dict(zip(sorted(ALL), itertools.cycle(SCREENS), strict=False))
"""The screen of each page in the slow run."""
SEEN = [place for place in PLACES if TURNS[place[0]] == place[1]]


@pytest.mark.parametrize(
    ("name", "screen"),
    [*SEEN, *nightly([place for place in PLACES if place not in SEEN], unpack=True)],
)
def test_every_page_on_every_screen(opened, axe, name, screen):
    """Whatever a page shows, it is quiet, alone, whole and for everybody on every screen."""
    page = opened(written(name)).look(**SCREENS[screen])
    assert (page.complaints(), page.requests(), page.run(TWICE), page.run(UNTOLD)) == (
        [],
        [],
        [],
        0,
    )
    assert page.run("return document.documentElement.scrollWidth <= window.innerWidth")
    assert (page.run(CUT), page.run(OVERLAPPING)) == ([], [])
    assert page.violations(axe) == []


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_page_can_be_printed(opened, name):
    """Every page prints, and no figure is higher than a sheet of paper."""
    page = opened(written(name)).look(width=680, height=990, media="print")
    assert all(high < 990 for _, _, high in page.run(BOXES))
    assert base64.b64decode(page.printed()).startswith(b"%PDF")


def _contrast(one, other):
    less, more = sorted(map(_luminance, (one, other)))
    return (more + 0.05) / (less + 0.05)


def _luminance(colour):
    parts = [part / 255 for part in colour]
    red, green, blue = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
