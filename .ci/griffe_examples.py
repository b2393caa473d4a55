"""A Griffe extension: the examples of docstrings are blocks of code on the API pages, where they would be quotations.

Markdown reads a line that begins with `>>>` as a quotation in a quotation in a quotation.
"""

from typing import Any

import griffe

FENCE = "```"


class Examples(griffe.Extension):
    """Puts a fence around every example of a docstring, when its object is loaded."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite the docstring of an object, if it has one."""
        if obj.docstring is not None:
            obj.docstring.value = with_blocks(obj.docstring.value)


def with_blocks(text: str) -> str:
    """Return a docstring in which every paragraph that begins with `>>>` is a block of code."""
    lines, inside = list[str](), False
    for line in [*text.split("\n"), ""]:
        starts = line.lstrip().startswith(">>>")
        if starts and not inside:
            lines += ["", f"{FENCE}pycon"]
            inside = True
        elif inside and not line.strip():
            lines += [FENCE]
            inside = False
        lines.append(line)
    return "\n".join(lines[:-1])
