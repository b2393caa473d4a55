"""What all charts share: Altair, which is an extra, texts from outside, titles, descriptions and colours.

A chart is written as Vega-Lite, which Altair checks. Its fields have fixed names: names from outside are values.
"""

import math
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Union

from pufferflow.core.errors import UsageError
from pufferflow.reports.html import shortened, visible

if TYPE_CHECKING:
    import altair as alt

Chart: TypeAlias = Union["alt.LayerChart", "alt.VConcatChart"]
Spec = dict[str, Any]
"""A panel of a chart, as Vega-Lite has it; or panels below each other, `apart` if each has colours of its own."""

FIRST, SECOND, WARN, CALM = "#1b5a8f", "#a3460a", "#a11a2b", "#8d897f"
COLOURS: Final = (FIRST, SECOND, "#3f7d4e", "#7a4b94", "#b08900", "#2b8a99", CALM, WARN, "#555555")
WIDTH: Final = 480
ROW: Final = 20
"""The height of a row of names, in pixels."""
_LETTERS: Final = 90
_LIKE_LESS: Final = "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}"


def missing(library: str, what: str) -> UsageError:
    """Return the error about a library of the extra `notebook` that is not installed."""
    return UsageError(
        f"{what} need {library}, which is not installed.",
        allowed=f"an environment with {library}; it comes with the extra `notebook`",
        instead='pip install ".[notebook]"',
    )


def chart(title: str, lines: Sequence[str], description: str, body: Spec) -> Any:
    """Return a chart with a title, lines below the title, and a description for readers who cannot see it.

    >>> dot = {"mark": "point", "encoding": {"x": {"field": "n", "type": "ordinal"}}}
    >>> body = {"data": {"values": [{"n": 1}]}, "layer": [dot]}
    >>> drawn = chart("One number", ["of one row"], "The number is 1.", body)
    >>> drawn.to_dict()["title"]["text"], drawn.description
    ('One number', 'The number is 1.')
    """
    try:
        import altair as alt
    except ImportError as error:
        raise missing("altair", "Charts") from error
    below = [part for line in lines for part in wrap(text(line, 600), _LETTERS)]
    titles = alt.TitleParams(text(title), subtitle=below, anchor="start")
    return _drawn(alt, body).properties(title=titles, description=text(description, 2000))


def _drawn(alt: Any, body: Spec) -> Any:
    """Return a chart of a body; its data are set last, since Altair takes seconds to read them as Vega-Lite."""
    if "vconcat" in body:
        drawn = alt.vconcat(*(_drawn(alt, part) for part in body["vconcat"]))
        return drawn.resolve_scale(color="independent") if body.get("apart") else drawn
    drawn = alt.LayerChart.from_dict({name: part for name, part in body.items() if name != "data"})
    drawn.data = alt.InlineData(values=body["data"]["values"])
    return drawn


def text(given: str, most: int = 120) -> str:
    """Return a text from outside for a chart, on one line.

    Altair writes charts into scripts of pages as they are, so that no text may end a script: "<" becomes "‹".

    >>> text("</script>")
    '‹/script>'
    """
    return shortened(visible(given), most).replace("<", _LIKE_LESS)


def number(value: float | None) -> float | None:
    """Return a number as JSON has it; None if it is unknown or has no end."""
    return value if value is not None and math.isfinite(value) else None


def quantity(field: str, title: str, **options: Any) -> Spec:
    """Return the encoding of a field of numbers, with the title of its axis."""
    return {"field": field, "type": "quantitative", "title": title, **options}


def names(field: str, title: str | None, **options: Any) -> Spec:
    """Return the encoding of a field of names in the order of the data; without a title its axis has none."""
    axis = {"labelLimit": 240, **({"labels": True} if title else {"title": None})}
    return {
        "field": field,
        "type": "nominal",
        "title": title,
        "sort": None,
        "axis": axis,
        **options,
    }


def colours(field: str, title: str | None, meanings: Mapping[str, str]) -> Spec:
    """Return the encoding of a field whose few values have the given colours."""
    scale = {"domain": list(meanings), "range": list(meanings.values())}
    legend = {"labelLimit": 300, "orient": "bottom", "columns": 2}
    return {"field": field, "type": "nominal", "title": title, "scale": scale, "legend": legend}


def tooltip(**titles: str) -> list[Spec]:
    """Return the encoding for what a pointer shows: the titles of fields of text."""
    return [{"field": field, "type": "nominal", "title": title} for field, title in titles.items()]
