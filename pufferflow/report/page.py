"""A page for people: one HTML file, light and dark, on paper and on a telephone, without anything from a network."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files

from pufferflow.report.figures.canvas import MISSING, drawable
from pufferflow.report.markup import Section, facts, paragraph, text


def page(  # noqa: PLR0913 - a page, in parts
    kind: str,
    title: str,
    summary: Sequence[tuple[str, str]],
    sections: Sequence[Section],
    closing: str,
    *,
    about: Sequence[tuple[str, str]] = (),
) -> str:
    """Return a whole page: what it is, its title, the facts that matter, and its parts, each under a heading.

    `about` says what it is a page of: a job, a period, a data set, a date.
    """
    title = title.strip() or "Without a title"
    undrawn = any("<figure" in part.body for part in sections) and not drawable()
    missing = paragraph(MISSING, "warning") if undrawn else ""
    named = facts(about, "about") if about else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # an empty icon of its own, or a browser would ask the server for one
        f'<link rel="icon" href="data:,">\n<title>{text(f"{title} – {kind}")}</title>\n<style>\n{_style()}</style>\n'
        f'</head>\n<body>\n<header>\n<p class="kind">{text(kind)}</p>\n<h1 dir="auto">{text(title)}</h1>\n'
        f"{named}{missing}{facts(summary)}\n</header>\n{_contents(sections)}\n"
        f"<main>\n{''.join(map(_section, sections))}</main>\n"
        f"<footer><p>{text(closing)}</p></footer>\n</body>\n</html>\n"
    )


def heading(job: str, period: str, dataset: str, written: datetime | None) -> list[tuple[str, str]]:
    """Return what a page is about, as far as it is known; when it was written is said in UTC.

    >>> from datetime import UTC
    >>> heading("meters-daily", "", "meters", datetime(2026, 11, 22, 3, 0, tzinfo=UTC))
    [('Job', 'meters-daily'), ('Data set', 'meters'), ('Written', '2026-11-22 03:00 UTC')]
    """
    at = "" if written is None else f"{written.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    named = (("Job", job), ("Period", period), ("Data set", dataset), ("Written", at))
    return [(name, value) for name, value in named if value]


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
