"""The reference pages say what the library has: the tables of names, the keys of certificates, and cited statements."""

import collections
import json
import re

import msgspec.inspect as types
import pytest
from ci_scripts import ci_script
from page_blocks import ROOT

import pufferflow as pf
from pufferflow.core.tables import SourceVersion
from pufferflow.published import certificate as stored
from pufferflow.published import cost

REFERENCE = ROOT / "docs" / "reference"
STRUCTS = [
    *(stored.Certificate, stored.AskedQuery, stored.NoisySum, stored.QuieterGroups),
    *(stored.ChosenKeys, stored.CoveredPeriod, SourceVersion, cost.Cost, cost.Shape, cost.Rows),
    *(cost.Part, cost.Region, cost.Answered, cost.ExactSums, cost.ExactSum),
]
PLAIN = {
    types.StrType: "text",
    types.FloatType: "number",
    types.IntType: "whole number",
    types.BoolType: "true or false",
    types.DictType: "object",
    types.NoneType: "null",
}


@pytest.fixture(scope="module")
def api():
    """The script that writes the tables of the API pages."""
    return ci_script("api")


@pytest.mark.parametrize(
    "page", sorted((REFERENCE / "api").glob("*.md")), ids=lambda page: page.stem
)
def test_the_tables_of_names_are_those_of_the_docstrings(api, page):
    """Who changes a docstring or adds a name runs `make map`."""
    text = page.read_text(encoding="utf-8")
    assert api.START in text
    assert api.with_tables(text) == text, "run make map, or python .ci/api.py"


def test_a_page_with_an_older_docstring_is_found(api):
    """A table that somebody changed by hand is written anew."""
    text = (REFERENCE / "api" / "audit.md").read_text(encoding="utf-8")
    assert api.with_tables(text.replace("| what it is |", "| something |", 1)) == text
    assert api.public("pufferflow.confounding.cost.cost") == "pf.confounding.cost"


def in_words(kind):
    """Return the type of a stored field as the page has it."""
    if isinstance(kind, types.UnionType):
        names = list(dict.fromkeys(in_words(one) for one in kind.types))
        plain = [name for name in names if name != "null"]
        shown = "value" if len(plain) > 2 else " or ".join(plain)
        return f"{shown} or null" if len(plain) < len(names) else shown
    if isinstance(kind, types.StructType):
        return "guarantee" if issubclass(kind.cls, pf.Guarantee) else kind.cls.__name__
    if isinstance(kind, types.VarTupleType):
        return f"list of {in_words(kind.item_type)}".replace(
            "list of value or null", "list of value"
        )
    if isinstance(kind, types.TupleType):
        return f"[{', '.join(in_words(one) for one in kind.item_types)}]"
    return PLAIN[type(kind)]


def fields_of(struct):
    """Return the stored keys of a struct with their types, and a mark for those that are left out while empty."""
    later = stored._ADDED_LATER if struct is stored.Certificate else ()
    omitted = struct.__struct_config__.omit_defaults
    fields = {}
    for field in types.type_info(struct).fields:
        mark = field.name in later or (omitted and not field.required)
        fields[field.encode_name] = in_words(field.type) + " °" * mark
    return fields


def documented(struct):
    """Return the keys and types of a struct as the page has them; each has a meaning."""
    page = (REFERENCE / "certificate.md").read_text(encoding="utf-8")
    table = page.partition(f"<!-- keys of {struct.__name__} -->\n")[2].lstrip().partition("\n\n")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]
    ]
    assert all(len(meaning.split()) > 1 for _, _, meaning in rows)
    return {key.strip("`"): kind for key, kind, _ in rows}


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_every_key_of_a_certificate_is_documented(struct):
    """The page has the keys of the stored form, in their order, with their types."""
    want = fields_of(struct)
    got = documented(struct)
    assert list(got) == list(want)
    assert got == want


def recorded_certificates():
    """Yield the certificates among the golden values, and those that earlier versions wrote."""
    for file in sorted((ROOT / "tests/golden/recorded/plan").glob("*.json")):
        recorded = json.loads(file.read_text(encoding="utf-8"))["recorded"]
        if "certificate" in recorded:
            yield json.loads(recorded["certificate"]["json"])
    for file in sorted((ROOT / "tests/published/older").glob("*.json")):
        yield json.loads(file.read_text(encoding="utf-8"))


def test_recorded_certificates_have_documented_keys():
    """What was stored once is what the page describes; most keys occur."""
    seen, known = set(), documented(stored.Certificate)
    for certificate in recorded_certificates():
        assert certificate.keys() <= known.keys()
        assert certificate.keys() >= {key for key, kind in known.items() if "°" not in kind}
        assert certificate["cost"].keys() <= documented(cost.Cost).keys()
        assert certificate["cost"]["shape"].keys() <= documented(cost.Shape).keys()
        seen |= certificate.keys()
    assert len(seen) >= len(known) - 7


def test_every_cited_statement_has_its_text():
    """A number such as M20 in a docstring or on a page leads to a statement."""
    page = (REFERENCE / "statements.md").read_text(encoding="utf-8")
    there = set(re.findall(r"^\*\*(M\d+)\*\*", page, re.MULTILINE))
    cited = collections.defaultdict(set)
    folders = [
        ("pufferflow", "*.py"),
        ("pufferflow", "*.html"),
        ("pufferflow", "*.txt"),
        ("docs", "*.md"),
    ]
    for folder, ending in folders:
        for file in (ROOT / folder).rglob(ending):
            for number in re.findall(r"\bM[1-9]\d?\b", file.read_text(encoding="utf-8")):
                cited[number].add(str(file.relative_to(ROOT)))
    missing = {number: sorted(files)[:3] for number, files in cited.items() if number not in there}
    assert not missing
