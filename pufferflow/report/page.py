"""A page for people: one HTML file, light and dark, on paper and on a telephone, without anything from a network."""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from pufferflow.report.markup import Section, facts, text


def page(kind: str, title: str, summary: Sequence[tuple[str, str]], sections: Sequence[Section], closing: str) -> str:
    """Return a whole page: what it is, its title, the facts that matter, and its parts, each under a heading."""
    title = title.strip() or "Without a title"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # an empty icon of its own, or a browser would ask the server for one
        f'<link rel="icon" href="data:,">\n<title>{text(f"{title} – {kind}")}</title>\n<style>\n{_style()}</style>\n'
        f'</head>\n<body>\n<header>\n<p class="kind">{text(kind)}</p>\n<h1 dir="auto">{text(title)}</h1>\n'
        f"{facts(summary)}\n</header>\n{_contents(sections)}\n<main>\n{''.join(map(_section, sections))}</main>\n"
        f"<footer><p>{text(closing)}</p></footer>\n</body>\n</html>\n"
    )


def _contents(sections: Sequence[Section]) -> str:
    rows = "".join(f'<li><a href="#{part.anchor}">{text(part.title)}</a></li>' for part in sections)
    return f'<nav aria-labelledby="contents"><h2 id="contents">Contents</h2><ol>{rows}</ol></nav>'


def _section(part: Section) -> str:
    return (
        f'<section id="{part.anchor}" aria-labelledby="{part.anchor}-title">\n'
        f'<h2 id="{part.anchor}-title">{text(part.title)}</h2>\n{part.body}\n</section>\n'
    )


@cache
def _style() -> str:
    return (files("pufferflow.report") / "page.css").read_text(encoding="utf-8")
