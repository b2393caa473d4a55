"""Show the examples of docstrings as blocks of code on the pages of the reference.

An example begins with `>>>` and ends at an empty line. Without this, a page would take its `>>>` for quotations.
"""

from typing import Any

import griffe


class ExamplesAsCode(griffe.Extension):
    """Puts a fence around every example of a docstring."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of an object that was read."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """Return a docstring whose examples stand in fences."""
    lines, inside = list[str](), False
    for line in [*text.split("\n"), ""]:
        bare = line.lstrip()
        if not inside and bare.startswith(">>>"):
            inside, indent = True, line[: len(line) - len(bare)]
            lines += ["", f"{indent}```pycon"]
        elif inside and not bare:
            inside = False
            lines.append(f"{indent}```")
        lines.append(line)
    return "\n".join(lines[:-1])
