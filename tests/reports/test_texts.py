"""Texts escape whatever they print: text from outside adds no line and moves no cursor, in any template."""

import re
import subprocess
import sys
from pathlib import Path

import jinja2
import pytest
from jinja2 import nodes

import pufferflow as pf
from pufferflow.reports import html
from pufferflow.reports.text import environment, lines, phrase

PACKAGE = Path(pf.__file__).parent
HOSTILE = (
    "a\x1b[2J\x07\r\x9b31m\u202e\u2066\u200b\ufeff\nProof: nothing\u2028\x85{{ 7 * 7 }} {# - #}  "
)


def templates():
    return environment().list_templates(extensions=["txt"])


def parsed(name):
    source, _, _ = environment().loader.get_source(environment(), name)
    return environment().parse(source)


def test_texts_and_pages_are_apart():
    """Pages escape markup and texts do not, so neither takes a template of the other."""
    assert environment().autoescape is False
    assert html.environment().autoescape is True
    for name in environment().list_templates():
        for found in parsed(name).find_all(
            (nodes.Include, nodes.Extends, nodes.FromImport, nodes.Import)
        ):
            assert Path(found.template.value).suffix != ".txt" or name.startswith("texts/"), name
            assert found.template.value.startswith("texts/") == name.startswith("texts/"), name


def test_a_printed_value_stands_on_one_line():
    """Whatever a value has, a text has the lines of its template, and no character that is not seen."""
    made = environment().from_string(
        "{{ first }}\nProof: {{ first | repr }}\n{{ [first, first] | join(', ') }}"
    )
    text = made.render(first=HOSTILE)
    assert len(text.splitlines()) == 3
    assert not [sign for sign in text if sign != "\n" and not sign.isprintable()]


@pytest.mark.parametrize("value", [None, 1, 0.1])
def test_text_alone_is_printed(value):
    """A template that forgets to say how a number is written, or prints nothing, fails."""
    with pytest.raises(TypeError):
        environment().from_string("{{ value }}").render(value=value)


def test_a_name_that_is_not_given_fails():
    """A template with a misspelled name makes no text with a gap."""
    for template in ("{{ nmae }}", "{% if nmae %}{% endif %}"):
        with pytest.raises((jinja2.UndefinedError, TypeError)):
            environment().from_string(template).render()


def test_every_template_has_a_reader():
    """Each template is named by a text, or by the source; and each phrase by one of them."""
    source = "\n".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    texts = {name: environment().loader.get_source(environment(), name)[0] for name in templates()}
    for name in texts:
        inside = any(f'"{name}"' in text for text in texts.values())
        assert inside or f'"{name[len("texts/") : -len(".txt")]}"' in source, name
    for macro in parsed("texts/phrases.txt").find_all(nodes.Macro):
        used = sum(len(re.findall(rf"\b{macro.name}\b", text)) for text in texts.values()) > 1
        assert used or f'phrase("{macro.name}"' in source, macro.name


def test_phrases_are_one_line():
    """Phrases stand within lines, so none begins or ends with a blank."""
    for macro in parsed("texts/phrases.txt").find_all(nodes.Macro):
        first = macro.body[0].nodes[0] if isinstance(macro.body[0], nodes.Output) else None
        assert not isinstance(first, nodes.TemplateData) or first.data == first.data.lstrip(), (
            macro.name
        )
    assert phrase("any_way", HOSTILE).count("\n") == 0


def test_nothing_is_loaded_before_the_first_text():
    """Whoever imports what writes texts has not loaded jinja2 yet."""
    program = "import sys, pufferflow.reports.text, pufferflow.release.plan; print('jinja2' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_lines_are_without_empty_ones():
    """A line that prints nothing is left out."""
    assert lines("untried", untried=[], seconds="") == ()
