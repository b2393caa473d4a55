"""Draw pictures as SVG without a library: boxes, lines, arrows, words, and charts with axes.

A picture is one small file. It has its own background, follows the reader's light or dark mode, carries its text as
text, and describes itself in its `title`. The same numbers give the same bytes: places are rounded to a tenth.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

COLOURS = {
    "paper": ("#ffffff", "#1e2129"),
    "panel": ("#f1f4f6", "#2a2e38"),
    "ink": ("#1b1f24", "#e6e9ee"),
    "quiet": ("#5b6570", "#a3adb9"),
    "rule": ("#cfd6dc", "#464d5a"),
    "first": ("#00796b", "#4db6ac"),
    "second": ("#bf4a0d", "#ff9d66"),
    "third": ("#5142a8", "#b0a4ff"),
    "warn": ("#b3261e", "#ff8a80"),
}
"""The colours in light and in dark mode; each is readable on `paper` and `panel`."""
PICTURES: dict[str, Callable[[], "Sheet"]] = {}
"""What draws each picture, by the name of its file."""


def picture(draw: Callable[[], "Sheet"]) -> Callable[[], "Sheet"]:
    """List a function that draws a picture; the file has its name."""
    PICTURES[draw.__name__.replace("_", "-")] = draw
    return draw


def style() -> str:
    """Return the rules that give every class its colour in both modes."""

    def rules(mode: int) -> str:
        return "".join(
            f".{name}{{fill:{both[mode]}}}.s-{name}{{stroke:{both[mode]}}}"
            for name, both in COLOURS.items()
        )

    words = "text{font-family:system-ui,sans-serif}"
    return f"<style>{words}{rules(0)}@media(prefers-color-scheme:dark){{{rules(1)}}}</style>"


def place(number: float) -> str:
    """Return a place or a length as it is written."""
    return f"{number:.1f}".removesuffix(".0").replace("-0", "0") if number else "0"


@dataclass
class Sheet:
    """A picture in pixels, from the upper left corner, with its title and the text that describes it."""

    title: str
    width: float
    height: float
    description: str
    parts: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        """Write the title."""
        self.write(20, 30, self.title, bold=True, size=14)

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        colour: str = "panel",
        *,
        round_: float = 4,
    ) -> None:
        """Fill a rectangle."""
        self.parts.append(
            f'<rect class="{colour}" x="{place(x)}" y="{place(y)}" width="{place(max(width, 0.5))}" '
            f'height="{place(max(height, 0.5))}" rx="{place(round_)}"/>'
        )

    def line(
        self,
        points: Iterable[tuple[float, float]],
        colour: str = "ink",
        *,
        wide: float = 1.5,
        dashed: bool = False,
    ) -> None:
        """Draw a line through points."""
        path = "L".join(f"{place(x)} {place(y)}" for x, y in points)
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(
            f'<path class="s-{colour}" d="M{path}" fill="none" stroke-width="{place(wide)}" '
            f'stroke-linejoin="round" stroke-linecap="round"{dash}/>'
        )

    def area(
        self, points: Iterable[tuple[float, float]], colour: str, *, opacity: float = 0.25
    ) -> None:
        """Fill what a line goes round."""
        path = "L".join(f"{place(x)} {place(y)}" for x, y in points)
        self.parts.append(f'<path class="{colour}" d="M{path}Z" opacity="{opacity:g}"/>')

    def dot(
        self, x: float, y: float, colour: str = "ink", *, size: float = 3.5, opacity: float = 1
    ) -> None:
        """Draw a filled circle."""
        self.parts.append(
            f'<circle class="{colour}" cx="{place(x)}" cy="{place(y)}" r="{place(size)}" opacity="{opacity:g}"/>'
        )

    def arrow(
        self,
        start: tuple[float, float],
        end: tuple[float, float],
        colour: str = "quiet",
        *,
        wide: float = 1.5,
    ) -> None:
        """Draw an arrow from one point to another."""
        turn = math.atan2(end[1] - start[1], end[0] - start[0])
        self.line([start, end], colour, wide=wide)
        wings = [
            (end[0] - 8 * math.cos(turn + side), end[1] - 8 * math.sin(turn + side))
            for side in (0.45, -0.45)
        ]
        self.area([wings[0], end, wings[1]], colour, opacity=1)

    def write(
        self,
        x: float,
        y: float,
        words: str,
        colour: str = "ink",
        *,
        size: float = 13,
        at: str = "start",
        bold: bool = False,
    ) -> None:
        """Write a line of text with its baseline at `y`; `at` is the end of it that `x` names."""
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text class="{colour}" x="{place(x)}" y="{place(y)}" font-size="{place(size)}" '
            f'text-anchor="{at}"{weight}>{escape(words, quote=False)}</text>'
        )

    def labelled_box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        words: Sequence[str],
        colour: str = "panel",
    ) -> None:
        """Draw a box with a bold first line and quiet further ones, in its middle."""
        self.box(x, y, width, height, colour, round_=6)
        top = y + height / 2 - 8.5 * (len(words) - 1) + 4.5
        for number, line in enumerate(words):
            look = ("quiet", 12) if number else ("ink", 13)
            self.write(
                x + width / 2,
                top + 17 * number,
                line,
                look[0],
                size=look[1],
                at="middle",
                bold=not number,
            )

    def svg(self) -> str:
        """Return the picture as a file has it."""
        box = f"0 0 {place(self.width)} {place(self.height)}"
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" width="{place(self.width)}" role="img">'
        ground = f'<rect class="paper" width="{place(self.width)}" height="{place(self.height)}" rx="8"/>'
        title = f"<title>{escape(self.description, quote=False)}</title>"
        return "\n".join([head, title, style(), ground, *self.parts, "</svg>\n"])


@dataclass(frozen=True)
class Axis:
    """A scale from numbers to pixels: from `low` at pixel `start` to `high` at pixel `end`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, number: float) -> float:
        """Return the pixel of a number."""
        low, high, here = (
            map(math.log, (self.low, self.high, number))
            if self.log
            else (self.low, self.high, number)
        )
        return self.start + (here - low) / (high - low) * (self.end - self.start)


def chart(
    sheet: Sheet,
    x: Axis,
    y: Axis,
    *,
    across: dict[float, str],
    up: dict[float, str],
    names: tuple[str, str],
) -> None:
    """Draw the grid, the ticks and the names of two axes."""
    for number, words in up.items():
        sheet.line([(x.start, y(number)), (x.end, y(number))], "rule", wide=1)
        sheet.write(x.start - 8, y(number) + 4, words, "quiet", size=12, at="end")
    for number, words in across.items():
        sheet.write(x(number), y.start + 18, words, "quiet", size=12, at="middle")
    sheet.line([(x.start, y.start), (x.end, y.start)], "quiet", wide=1)
    sheet.write((x.start + x.end) / 2, y.start + 38, names[0], "quiet", size=12, at="middle")
    sheet.write(x.start - 8, y.end - 12, names[1], "quiet", size=12)


def curve(
    sheet: Sheet,
    x: Axis,
    y: Axis,
    of: Callable[[float], float],
    over: Iterable[float],
    colour: str,
    *,
    dashed: bool = False,
) -> None:
    """Draw a function over some numbers."""
    sheet.line([(x(one), y(of(one))) for one in over], colour, wide=2, dashed=dashed)
