"""The names of bounds and other words of a page, explained in one plain sentence each, and where to read more."""

import re
from collections.abc import Iterable
from typing import Final

from pufferflow.report.evidence import GROUP_PRIVACY, ORDINARY
from pufferflow.report.markup import Section, paragraph, text

_BOUNDS: Final = {
    "Messages": (
        "Follows what the noisy answers can tell of one row from row to row along the chain; each step lets through "
        "only what rows do not forget (M20)."
    ),
    "Quilt": (
        "Hides a stretch of rows around the secret with noise, and adds what the rows beyond its ends still tell of "
        "it: the published method for chains, which mostly needs more noise than Messages (M19)."
    ),
    "Kantorovich": (
        "Moves the answer's law under one secret to that under the other, and counts for each answer where its "
        "probability comes from, not only the farthest way (pure promises)."
    ),
    "GWM": (
        "The general Wasserstein mechanism: hides the farthest way that any part of the answer's law has to move if "
        "the secret changes (M3)."
    ),
    "GAWM": "Like GWM, but for a share delta of the probability, which may move farther (M4).",
    "DAGWM": "Like GWM, but each movement counts by how likely it is, so that rare long ones cost little (M5).",
    "Exact": "Works the loss of the two noisy laws out itself: no noise of this kind can be smaller for them (M6).",
    "Group": (
        "Hides that all rows which belong together change at once, whatever they have to do with each other: the most "
        "noise, and nothing to believe (M7)."
    ),
}
_MODELS: Final = {
    GROUP_PRIVACY: _BOUNDS["Group"],
    ORDINARY: (
        "Hides one row as if no other row told anything of it: what most libraries promise, and less than it seems "
        "where rows hang together."
    ),
}
_CLASS: Final = re.compile(r"(\w+)\(")
_MORE: Final = (
    "Bounds are explained in docs/noise.md and docs/scenarios.md of pufferflow; numbers such as M20 are statements in "
    "docs/statements.md."
)


def anchor_of(bound: str) -> str:
    """Return the id of a bound's explanation on the page, given as it is called or as it is written; "" if none.

    >>> anchor_of("Quilt(approximate=True)"), anchor_of("group privacy"), anchor_of("unheard-of")
    ('word-quilt', 'word-group-privacy', '')
    """
    found = _CLASS.match(bound)
    name = found[1] if found else bound
    return f"word-{re.sub(r'[^a-z]+', '-', name.lower()).strip('-')}" if name in _BOUNDS | _MODELS else ""


def glossary(bounds: Iterable[str]) -> Section | None:
    """Return the explanations of the bounds that a page names; None if it names none that is known."""
    anchors = set(map(anchor_of, bounds))
    known = {name: words for name, words in (_BOUNDS | _MODELS).items() if anchor_of(name) in anchors}
    if not known:
        return None
    rows = "".join(
        f'<div><dt id="{anchor_of(name)}">{text(name[:1].upper() + name[1:])}</dt><dd>{text(words)}</dd></div>'
        for name, words in known.items()
    )
    return Section(
        "glossary", "What these names mean", f'<dl class="record words">{rows}</dl>{paragraph(_MORE, "quiet")}'
    )
