"""Templates escape whatever they print: text from outside is text in every field of every page and block."""

import re
from html.parser import HTMLParser
from itertools import count
from pathlib import Path

import jinja2
import msgspec
import pages
import polars as pl
import pytest

import pufferflow as pf
from pufferflow.reports import pages as report
from pufferflow.reports.evidence import Distances, Remarks, ValueDistances, WhatIf
from pufferflow.reports.html import environment, visible

PACKAGE = Path(pf.__file__).parent
HOSTILE = (
    "\"'><script>alert(1)</script><img src=x onerror=y> </title></style></svg> & &lt; "
    "{{ 7 * 7 }} {% raw %} {# $x$ q00000q \x1b[2J\x00\x9b31m\u202e\u200b "
)
HARMLESS = re.sub(r"\S", "a", HOSTILE)
"""A text of the same lengths, so that pages with either have the same elements."""
KEPT = {"noise", "section"}
"""Fields that decide what a page shows."""


class Elements(HTMLParser):
    """The elements of a page with the names of their attributes, and its words."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.words = [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, [name for name, _ in attrs], dict(attrs).get("class")))

    def handle_endtag(self, tag):
        self.elements.append(f"/{tag}")

    def handle_comment(self, data):
        self.elements.append("comment")

    def handle_data(self, data):
        self.words.append(data)


def filled(value, text, number=None):
    """Return a value with a text of its own, as long as any other, in every field of texts."""
    number = count(100) if number is None else number
    if isinstance(value, str):
        return f"{text}{next(number)}"
    if isinstance(value, tuple):
        return tuple(filled(one, text, number) for one in value)
    if isinstance(value, msgspec.Struct):
        fields = {
            name: getattr(value, name) for name in value.__struct_fields__ if name not in KEPT
        }
        return msgspec.structs.replace(
            value, **{name: filled(one, text, number) for name, one in fields.items()}
        )
    return value


def evidence():
    """Return evidence with something in every field."""
    far = Distances(
        "0",
        "1",
        "a prior",
        3.0,
        2.0,
        1.0,
        1.5,
        1.0,
        2.0,
        2.1,
        2.2,
        1.9,
        decides=True,
        note="a note",
    )
    account = msgspec.structs.replace(
        pages.budget(),
        what_if=(WhatIf("if a prior is wrong", "less"),),
        why="for a reason",
        note="a note",
    )
    return pages.evidence(
        distances=(far, msgspec.structs.replace(far, prior="another", decides=False)),
        more_distances=3,
        distances_unit="in kWh",
        by_value=ValueDistances(("0", "1"), ((None, 2.0), (2.0, None)), "a prior", 3.0),
        readings=("as they are",),
        too_noisy=("a finding",),
        findings=tuple(f"finding {place}" for place in range(8)),
        pair_note="a note",
        remarks=(Remarks("worst", "a title", ("a line", "another")),),
        budget=account,
    )


def written(text):
    """Return every kind of page and block, by its name, with a text in all fields."""
    texts = (f"{text}{number}" for number in count(100))
    frame = pl.DataFrame({next(texts): [next(texts), next(texts)]})
    outputs = [next(texts) for _ in range(4)]
    frame = frame.with_columns(pl.Series(name, [1.0, 20.0]) for name in outputs)
    intervals = pl.DataFrame(
        {f"{name}_{end}": [2.0, 30.0] for name in outputs for end in ("low", "high")}
    )
    rows = [(next(texts), next(texts)) for _ in range(3)]
    given, ledger = filled(evidence(), text), filled(pages.ledger(), text)
    undrawn = msgspec.structs.replace(
        given, pair=msgspec.structs.replace(given.pair, scale=0.0, noise=next(texts))
    )
    empty = dict.fromkeys(
        ("bounds", "what_if", "assumptions", "cells", "findings", "too_noisy", "verdicts"), ()
    )
    beliefs = [
        report.BeliefRow(next(texts), 1.0, 2.0, [next(texts), next(texts)], ""),
        report.BeliefRow(next(texts), 3.0, None, [], next(texts)),
    ]
    return {
        "plan": report.plan_page(given),
        "plan without noise": report.plan_page(undrawn),
        "plan without much": report.plan_page(
            msgspec.structs.replace(undrawn, pair=None, budget=None, **empty)
        ),
        "release": report.release_page(frame, intervals, rows, given),
        "release alone": report.release_page(
            frame, intervals, rows, job=next(texts), period=next(texts)
        ),
        "release of nothing": report.release_page(frame.clear(), intervals.clear(), rows),
        "ledger": report.ledger_page(
            msgspec.structs.replace(ledger, sound=False, fault=next(texts))
        ),
        "ledger of nothing": report.ledger_page(msgspec.structs.replace(ledger, accounts=())),
        "beliefs": report.beliefs_page(next(texts), next(texts), next(texts), beliefs),
    }


@pytest.fixture(scope="module")
def hostile():
    """All pages with hostile text, and the templates that they took."""
    environment().cache.clear()
    made = written(HOSTILE)
    return made, {name for _, name in environment().cache.keys()}  # noqa: SIM118 - no dictionary


@pytest.mark.slow
def test_every_template_takes_part(hostile):
    """No template is left out of what is tested here."""
    assert hostile[1] == set(environment().list_templates(extensions=["css", "html"]))


@pytest.mark.slow
def test_hostile_text_makes_no_element(hostile):
    """Whatever stands in a field, a page has the elements, attributes and classes that harmless text gives it."""
    harmless = written(HARMLESS)
    for name, html in hostile[0].items():
        assert Elements(html).elements == Elements(harmless[name]).elements, name


@pytest.mark.slow
def test_hostile_text_is_seen_as_it_is(hostile):
    """A reader sees each character; those that move a cursor or turn the direction are replaced or named."""
    seen = " ".join(visible(HOSTILE).split())
    for name, html in hostile[0].items():
        assert seen in " ".join("".join(Elements(html).words).split()), name
        assert not [sign for sign in html if sign not in "\n\t\xa0" and not sign.isprintable()], (
            name
        )


def test_nothing_is_marked_as_safe():
    """Escaping is on, no template turns it off, and one file alone makes markup: that which draws."""
    assert environment().autoescape is True
    for name in environment().list_templates():
        assert not re.search(
            r"\|\s*safe|autoescape|Markup", environment().loader.get_source(environment(), name)[0]
        )
    makers = [
        path.name
        for path in PACKAGE.rglob("*.py")
        if re.search(r"\bMarkup\(", path.read_text(encoding="utf-8"))
    ]
    assert makers == ["canvas.py"]


@pytest.mark.parametrize("value", [None, 1, 0.1])
def test_text_alone_is_printed(value):
    """A template that forgets to say how a number is written, or prints nothing, fails."""
    with pytest.raises(AttributeError):
        environment().from_string("{{ value }}").render(value=value)


def test_a_name_that_is_not_given_fails():
    """A template with a misspelled name makes no page with a gap."""
    for template in ("{{ nmae }}", "{{ part.nmae }}", "{% if nmae %}{% endif %}"):
        with pytest.raises(jinja2.UndefinedError):
            environment().from_string(template).render(part=pages.pair())
