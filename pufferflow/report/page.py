"""Pages for people: self-contained HTML from plain values, light and dark, without anything from a network."""

from collections.abc import Iterable
from html import escape

import polars as pl

_MOST_ROWS = 200
_STYLE = """
:root { color-scheme: light dark; --line: #8884; --quiet: #666; }
@media (prefers-color-scheme: dark) { :root { --quiet: #aaa; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .7rem; text-align: left; white-space: nowrap; }
td.number, th.number { text-align: right; } pre { white-space: pre-wrap; font: inherit; }
caption { text-align: left; color: var(--quiet); padding-bottom: .3rem; }
@media print { body { margin: 0; max-width: none; } }
"""


def plan_page(explanation: str, summary: pl.DataFrame, comparison: pl.DataFrame) -> str:
    """Return the page of a plan."""
    return _page(
        "What would be released",
        [
            _section("The sentence to sign", _text(explanation)),
            _section("Noise in every cell", _table(summary, "one row for each number that would be published")),
            _section("The same promise under every bound", _table(comparison, "noise is measured against the plan's")),
        ],
    )


def release_page(frame: pl.DataFrame, intervals: pl.DataFrame, certificate: str) -> str:
    """Return the page of a release."""
    return _page(
        "Release",
        [
            _section("Numbers", _table(frame, "noise included")),
            _section("Error bars", _table(intervals, "95 % intervals for what would be without noise")),
            _section("Certificate", _text(certificate)),
        ],
    )


def plan_block(explanation: str, summary: pl.DataFrame) -> str:
    """Return a plan for a notebook."""
    return f"<div>{_text(explanation)}{_table(summary, 'one row for each number that would be published')}</div>"


def release_block(frame: pl.DataFrame, intervals: pl.DataFrame, certificate: str) -> str:
    """Return a release for a notebook."""
    bars = _table(intervals, "95 % intervals for what would be without noise")
    return f"<div>{_table(frame, 'noise included')}{bars}{_text(certificate)}</div>"


def _page(title: str, sections: Iterable[str]) -> str:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>'
        f"<body><main><h1>{escape(title)}</h1>{''.join(sections)}</main></body></html>"
    )


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def _text(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def _table(frame: pl.DataFrame, caption: str) -> str:
    numeric = [dtype.is_numeric() for dtype in frame.dtypes]
    head = "".join(_cell("th", name, number=is_number) for name, is_number in zip(frame.columns, numeric, strict=True))
    rows = "".join(
        f"<tr>{''.join(_cell('td', _shown(v), number=n) for v, n in zip(row, numeric, strict=True))}</tr>"
        for row in frame.head(_MOST_ROWS).iter_rows()
    )
    more = f" (the first {_MOST_ROWS} of {frame.height} rows)" if frame.height > _MOST_ROWS else ""
    return (
        f'<div class="scroll"><table><caption>{escape(caption + more)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _cell(tag: str, text: str, *, number: bool) -> str:
    kind = ' class="number"' if number else ""
    return f"<{tag}{kind}>{escape(text)}</{tag}>"


def _shown(value: object) -> str:
    if value is None:
        return "—"
    return f"{value:,.4g}" if isinstance(value, float) else str(value)
