"""Draw figures as SVG, and their axes: matplotlib makes paths, the browser sets text and colours.

A figure is drawn in sentinel colours, which become CSS variables, and with placeholders for text from outside. That is
escaped and filled in last, since matplotlib would read `$` as mathematics and lacks glyphs. No global state stays
changed, and the same values give the same bytes.
"""

import logging
import math
import re
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from io import BytesIO
from textwrap import wrap
from typing import Any, Final, cast, final

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.reports.html import ELLIPSIS, shortened, values_of, visible
from pufferflow.reports.numbers import power, ticks

WIDTH: Final = 380.0
SMALL, NORMAL, LETTER = 12.0, 13.5, 7.8
PAPER, INK, QUIET, RULE, FIRST, SECOND, WARN, CALM = (f"#0102{place:02x}" for place in range(1, 9))
_NAMES = ("paper", "ink", "quiet", "rule", "first", "second", "warn", "calm")
_COLOURS = dict(zip((PAPER, INK, QUIET, RULE, FIRST, SECOND, WARN, CALM), _NAMES, strict=True))
MISSING = (
    "Figures are missing in this report, which describes them in words: matplotlib is not installed where it was "
    "written. They come with the extra: pip install '.[report]' in a clone."
)

_one_at_a_time = threading.Lock()
_STAND_IN = re.compile(r"q(\d{5})q")
_DROPPED = re.compile(
    r"<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>|<defs>\s*</defs>", re.DOTALL
)
_REFERRED = re.compile(r'(?:href="#|url\(#)([^")]+)')
_IDS = re.compile(r' id="([^"]+)"')
_FONT = re.compile(r"font: ((?:bold|[0-9]{3}) )?([0-9.]+px) [^;\"]*")


@final
@dataclass(frozen=True)
class Words:
    """The texts of a figure; `description` gives its numbers to readers who cannot see it.

    `kind` is the kind of figure; `name` distinguishes figures of one kind in a report.
    """

    kind: str
    title: str
    description: str
    caption: str
    name: str = ""

    @property
    def anchor(self) -> str:
        """The id of the figure."""
        return f"figure-{self.name or self.kind}"


@final
@dataclass(frozen=True)
class Texts:
    """Texts from outside, by the placeholders that are drawn for them."""

    originals: list[str] = field(default_factory=list[str])

    def __call__(self, given: str, most: int = 60) -> str:
        """Return a placeholder for a text, cut to `most` characters."""
        self.originals.append(shortened(given, most))
        return f"q{len(self.originals) - 1:05d}q"


@final
@dataclass(frozen=True)
class Sheet:
    """A figure in pixels, from the upper left corner."""

    figure: Any
    height: float
    outside: Texts

    def panel(self, top: float, height: float, left: float = 0.0, right: float = 0.0) -> Any:
        """Return axes without a frame, from `top` down, between margins."""
        box = (
            left / WIDTH,
            1 - (top + height) / self.height,
            (WIDTH - left - right) / WIDTH,
            height / self.height,
        )
        axes = self.figure.add_axes(box)
        axes.set_facecolor("none")
        for side in ("top", "right", "left", "bottom"):
            axes.spines[side].set_visible(False)
        axes.tick_params(length=0, colors=QUIET, labelsize=SMALL, pad=5)
        return axes

    def write(self, x: float, top: float, words: str, **look: Any) -> None:
        """Write text of the library, with its baseline `top` pixels down."""
        look = {"fontsize": NORMAL, "color": INK, "va": "baseline"} | look
        self.figure.text(x / WIDTH, 1 - top / self.height, words, **look)

    def line(self, x: Sequence[float], top: Sequence[float], **look: Any) -> None:
        """Draw a line between points given in pixels."""
        from matplotlib.lines import Line2D

        down = [1 - y / self.height for y in top]
        self.figure.add_artist(Line2D([place / WIDTH for place in x], down, **look))


def figure(words: Words, height: float, paint: Callable[[Sheet], None]) -> str:
    """Return a figure with its caption; without matplotlib, its description."""
    drawing = _drawing(words, height, paint) if drawable() else ""
    return values_of(
        "figure.html", words=words, drawing=drawing, box=f"0 0 {WIDTH:g} {height:g}"
    ).__html__()


def drawable() -> bool:
    """Return whether figures can be drawn here."""
    return find_spec("matplotlib") is not None


def _drawing(words: Words, height: float, paint: Callable[[Sheet], None]) -> str:
    with _one_at_a_time, _quietly():
        import matplotlib as mpl
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure

        with cast(Any, mpl).rc_context():
            mpl.rcdefaults()  # without styles of the user
            mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": words.anchor})
            made = Figure(figsize=(WIDTH / 72, height / 72), dpi=72, facecolor="none")
            canvas, outside, file = cast(Any, FigureCanvasSVG(made)), Texts(), BytesIO()
            paint(Sheet(made, height, outside))
            canvas.print_svg(file, metadata={"Date": None, "Creator": None})
    return _inline(file.getvalue().decode(), words.anchor, outside.originals)


def _inline(svg: str, name: str, originals: list[str]) -> str:
    """Return a drawing as a part of a report: ids of its own, colours as variables, escaped text."""
    from markupsafe import Markup, escape

    body = svg[svg.index(">", svg.index("<svg")) + 1 : svg.rindex("</svg>")]
    body = _DROPPED.sub("", body).replace("xlink:href", "href")
    used = set(_REFERRED.findall(body))
    body = _IDS.sub(lambda match: f' id="{name}-{match[1]}"' if match[1] in used else "", body)
    body = _REFERRED.sub(lambda match: match[0].replace(match[1], f"{name}-{match[1]}"), body)
    body = _FONT.sub(
        lambda match: f"font-size: {match[2]}" + "; font-weight: 650" * bool(match[1]), body
    )
    for colour, variable in _COLOURS.items():
        body = body.replace(colour, f"var(--{variable})")
    body = re.sub(r"\s*\n\s*", "\n", body)
    # last: no step changes these texts
    return Markup(_STAND_IN.sub(lambda match: escape(visible(originals[int(match[1])])), body))  # noqa: S704 - drawn here, its texts escaped


@contextmanager
def _quietly() -> Generator[None]:
    """Keep matplotlib from logging about its font cache: a scheduled report leaves standard error empty."""
    logger = logging.getLogger("matplotlib")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


LARGEST = 1e290
"""Beyond this differences of floats overflow: drawn as unbounded."""


def bounded(values: Floats) -> Floats:
    """Return the numbers that can be drawn."""
    return values[np.isfinite(values) & (np.abs(values) < LARGEST)]


def room(values: Floats, share: float = 0.06) -> tuple[float, float]:
    """Return the ends of an axis that holds all values with a margin, from 0 if that is not far away."""
    values = bounded(values)
    if not len(values):
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    if 0 < low < 0.6 * high:
        low = 0.0
    if 0.6 * low < high < 0:
        high = 0.0
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        size = abs(high) or 1.0
        return low - size / 2, high + size / 2
    edge = (high - low) * share
    return low - edge * (low != 0), high + edge * (high != 0)


def number_axis(  # noqa: PLR0913 - an axis, in parts
    axes: Any,
    *,
    across: bool,
    limits: tuple[float, float],
    most: int = 5,
    zero: bool = True,
    whole: bool = False,
) -> None:
    """Set limits, few round marks (`whole` for counts), and thin lines at these, with a stronger one at 0."""
    from matplotlib.ticker import MaxNLocator

    low, high = limits
    places = MaxNLocator(
        nbins=most, steps=[1, 2, 5, 10] if whole else [1, 2, 2.5, 5, 10], integer=whole
    )
    slack = (high - low) * 1e-9
    inside = [
        mark
        for mark in map(float, places.tick_values(low, high))
        if low - slack <= mark <= high + slack
    ]
    marks = [mark for mark in inside if not whole or mark.is_integer()]
    (axes.set_xlim if across else axes.set_ylim)(low, high)
    (axes.set_xticks if across else axes.set_yticks)(marks, labels=ticks(marks))
    axes.grid(visible=True, axis="x" if across else "y", color=RULE, linewidth=0.8)
    axes.set_axisbelow(True)
    if zero and low < 0 < high:
        (axes.axvline if across else axes.axhline)(0, color=CALM, linewidth=0.8)


def ratio_axis(axes: Any, values: Floats) -> None:
    """Make a logarithmic axis for positive numbers, marked at powers of ten; it begins below the least."""
    positive = bounded(values)
    positive = positive[positive > 0]
    low = math.floor(math.log10(float(positive.min())) - 0.3)
    high = math.log10(float(positive.max())) + 0.1
    axes.set_xscale("log")
    axes.set_xlim(10.0**low, 10.0**high)
    step = max(round((high - low) / 5), 1)
    exponents = range(low, math.floor(high) + 1, step)
    axes.set_xticks([10.0**exponent for exponent in exponents], labels=list(map(power, exponents)))
    axes.minorticks_off()
    axes.grid(visible=True, axis="x", color=RULE, linewidth=0.8)
    axes.set_axisbelow(True)


def named_bar(sheet: Sheet, top: float, name: str, value: str, colour: str = INK) -> None:
    """Write a name at the left and a number at the right, above a bar; long names are cut."""
    most = max(int((WIDTH - LETTER * len(value) - 24) / LETTER), 8)
    sheet.write(0, top, sheet.outside(name, most), color=INK)
    sheet.write(WIDTH, top, value, color=colour, ha="right")


def axis_name(sheet: Sheet, top: float, words: str, x: float = 0.0, **look: Any) -> None:
    """Write the label of an axis."""
    sheet.write(x, top, words, **({"fontsize": SMALL, "color": QUIET} | look))


def axis_lines(words: str, most: int) -> list[str]:
    """Return the label of an axis on one line, or on two if it is long.

    >>> axis_lines("what the rows of one meter add to load", 24)
    ['what the rows of one', 'meter add to load']
    """
    return wrap(words, most, max_lines=2, placeholder=ELLIPSIS) or [""]


def spread(values: Floats) -> bool:
    """Return whether positive numbers differ so much that they need a logarithmic axis."""
    positive = values[(values > 0) & np.isfinite(values)]
    return (
        bool(len(positive))
        and math.log10(float(positive.max())) - math.log10(float(positive.min())) > 1.5
    )
