"""Figures of the worst pair of secrets: two laws of an answer, their noisy densities, and the ratio of these (M2)."""

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy import special

from pufferflow.core.arrays import Floats
from pufferflow.core.errors import PufferflowError
from pufferflow.noise.base import Noise
from pufferflow.reports.evidence import Atoms, WorstPair
from pufferflow.reports.figures.canvas import (
    CALM,
    FIRST,
    INK,
    QUIET,
    SECOND,
    WARN,
    Sheet,
    Words,
    axis_lines,
    axis_name,
    figure,
    number_axis,
)
from pufferflow.reports.html import said
from pufferflow.reports.numbers import fold, plain

_POINTS, _MOST_ATOMS = 481, 400
_COVERED = 0.98


@final
@dataclass(frozen=True, eq=False)
class Curves:
    """The logarithms of both noisy densities at the places `at`."""

    at: Floats
    first: Floats
    second: Floats

    @property
    def ratio(self) -> Floats:
        """The log of the ratio of the densities: what one noisy number reveals."""
        return self.first - self.second

    @property
    def largest(self) -> float:
        """The largest absolute log ratio."""
        return float(np.abs(self.ratio).max())


def curves_of(pair: WorstPair) -> Curves | None:
    """Return the noisy laws of a pair; None where there is no noise, or one of an unknown name."""
    noise = noise_of(pair)
    mu, nu = atoms_of(pair.mu), atoms_of(pair.nu)
    if noise is None or not (
        math.isfinite(pair.scale) and pair.scale > 0 and len(mu[0]) and len(nu[0])
    ):
        return None
    values = np.concatenate([mu[0], nu[0]])
    reach = min(noise.interval(_COVERED)[1], 8 * noise.scale)  # the range of most of the noise
    low, high = float(values.min()) - reach, float(values.max()) + reach
    at = np.unique(np.concatenate([np.linspace(low, high, _POINTS), values]))
    if not np.isfinite(at).all() or at[0] == at[-1]:
        return None
    return Curves(at, _noisy_densities(noise, mu, at), _noisy_densities(noise, nu, at))


def noise_of(pair: WorstPair) -> Noise | None:
    """Return the noise of a pair by its name; None if there is none of this name.

    >>> point = Atoms((0.0,), (1.0,))
    >>> noise_of(WorstPair("load", "0", "3", point, point, "GeneralizedCauchy", 2.0, 4.0))
    GeneralizedCauchy(scale=2.0, k=4.0)
    """
    try:
        return Noise.named(pair.noise).shaped(pair.scale, pair.shape, pair.epsilon)
    except PufferflowError:
        return None


def atoms_of(law: Atoms) -> tuple[Floats, Floats]:
    """Return the possible values of a law and their probabilities; very many are binned."""
    values, weights = (
        np.array(law.values, dtype=np.float64),
        np.array(law.weights, dtype=np.float64),
    )
    possible = (weights > 0) & np.isfinite(values)
    values, weights = values[possible], weights[possible]
    if len(values) <= _MOST_ATOMS:
        return values, weights
    edges = np.linspace(float(values.min()), float(values.max()), _MOST_ATOMS + 1)
    slots = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, _MOST_ATOMS - 1)
    gathered: Floats = np.bincount(slots, weights, _MOST_ATOMS).astype(np.float64)
    return ((edges[1:] + edges[:-1]) / 2)[gathered > 0], gathered[gathered > 0]


def _noisy_densities(noise: Noise, law: tuple[Floats, Floats], at: Floats) -> Floats:
    values, weights = law
    logs = noise.logpdf((at[:, None] - values[None, :]).ravel()).reshape(len(at), len(values))
    return np.asarray(special.logsumexp(logs + np.log(weights)[None, :], axis=1), dtype=np.float64)


_LEFT = 66.0
_KEY, _LAWS, _NOISY, _RATIO, _GAP = 52.0, 84.0, 150.0, 120.0, 50.0
_DASHED = (0, (3.5, 1.6))


def laws_figure(pair: WorstPair, curves: Curves) -> str:
    """Return three panels: answers without noise, with noise and the guaranteed band, and the ratio of both laws."""
    names = axis_lines(pair.answer, 42)

    def paint(sheet: Sheet) -> None:
        _paint_key(sheet, pair)
        top = _KEY + 22
        _paint_laws(sheet, pair, curves, top)
        top += _LAWS + _GAP
        _paint_noisy(sheet, pair, curves, top)
        top += _NOISY + _GAP
        _paint_ratio(sheet, pair, curves, top)
        for place, name in enumerate(names):
            axis_name(sheet, top + _RATIO + 38 + 16 * place, sheet.outside(name, 44), x=_LEFT)

    height = _KEY + _LAWS + _NOISY + _RATIO + 2 * _GAP + 48 + 16 * len(names)
    title = (
        f"{pair.answer[:1].upper()}{pair.answer[1:]} under the two secrets that are hardest to hide"
    )
    return figure(
        Words("laws", title, _describe(pair, curves), said("caption_of_laws", pair)), height, paint
    )


def _paint_key(sheet: Sheet, pair: WorstPair) -> None:
    sheet.line([0, 26], [10, 10], color=FIRST, linewidth=2.2)
    sheet.write(34, 15, sheet.outside(f"secret: {pair.first}", 42))
    sheet.line([0, 26], [31, 31], color=SECOND, linewidth=2.2, linestyle=_DASHED)
    sheet.write(34, 36, sheet.outside(f"secret: {pair.second}", 42))


def _answer_panel(
    sheet: Sheet, pair: WorstPair, curves: Curves, title: str, place: tuple[float, float]
) -> Any:
    """Return axes with a title over the range of the answer, with whole marks for counts."""
    top, height = place
    sheet.write(0, top - 9, title, color=INK)
    axes = sheet.panel(top, height, left=_LEFT, right=6)
    whole = all(value.is_integer() for law in (pair.mu, pair.nu) for value in law.values)
    number_axis(
        axes,
        across=True,
        limits=(float(curves.at[0]), float(curves.at[-1])),
        zero=False,
        whole=whole,
    )
    return axes


def _paint_laws(sheet: Sheet, pair: WorstPair, curves: Curves, top: float) -> None:
    """Draw the first law upwards and the second downwards, so that neither hides the other."""
    axes = _answer_panel(
        sheet, pair, curves, "Without noise: how likely each answer would be", (top, _LAWS)
    )
    largest = 0.0
    for law, sign, colour in ((pair.mu, 1, FIRST), (pair.nu, -1, SECOND)):
        values, weights = atoms_of(law)
        axes.vlines(
            values, 0, sign * weights, color=colour, linewidth=2.4 if len(values) < 60 else 1.0
        )
        largest = max(largest, float(weights.max()))
    axes.axhline(0, color=CALM, linewidth=0.8)
    axes.set_xticklabels([])
    axes.set_ylim(-1.08 * largest, 1.08 * largest)
    axes.set_yticks([])


def _paint_noisy(sheet: Sheet, pair: WorstPair, curves: Curves, top: float) -> None:
    inside = (
        pair.epsilon is not None
        and not pair.delta
        and curves.largest <= pair.epsilon * (1 + 1e-6) + 1e-9
    )
    title = (
        "With noise: the dashed curve stays in the band" if inside else "With noise: the two curves"
    )
    axes = _answer_panel(sheet, pair, curves, title, (top, _NOISY))
    first, second = np.exp(curves.first), np.exp(curves.second)
    highest = 1.12 * float(max(first.max(), second.max()))
    if pair.epsilon is not None:
        with np.errstate(over="ignore"):
            low, high = (
                np.exp(curves.first - pair.epsilon),
                np.minimum(np.exp(curves.first + pair.epsilon), highest),
            )
        axes.fill_between(curves.at, low, high, color=FIRST, alpha=0.16, linewidth=0)
    axes.plot(curves.at, first, color=FIRST, linewidth=1.8)
    axes.plot(curves.at, second, color=SECOND, linewidth=1.8, linestyle=_DASHED)
    axes.set_xticklabels([])
    axes.set_ylim(0, highest)
    axes.set_yticks([])


def _paint_ratio(sheet: Sheet, pair: WorstPair, curves: Curves, top: float) -> None:
    axes = _answer_panel(sheet, pair, curves, "How much the number changes the odds", (top, _RATIO))
    edge = pair.epsilon or curves.largest or 1.0
    reach = 1.25 * max(edge, min(curves.largest, 3 * edge))
    if pair.epsilon:
        axes.axhspan(-edge, edge, color=FIRST, alpha=0.16, linewidth=0)
        for height in (-edge, edge):
            axes.axhline(height, color=WARN, linewidth=1.2)
    axes.plot(curves.at, np.clip(curves.ratio, -reach, reach), color=INK, linewidth=1.8)
    axes.axhline(0, color=CALM, linewidth=0.8)
    axes.set_ylim(-reach, reach)
    axes.set_yticks([-edge, 0, edge], labels=[f"÷ {fold(edge)}", "same", f"× {fold(edge)}"])
    axes.tick_params(axis="y", labelcolor=WARN if pair.epsilon else QUIET)


def _describe(pair: WorstPair, curves: Curves) -> str:
    means = [float(np.dot(*atoms_of(law))) for law in (pair.mu, pair.nu)]
    promised = "" if pair.epsilon is None else f"; guaranteed are at most {fold(pair.epsilon)}-fold"
    return (
        f"Without noise {pair.answer} is {plain(means[0])} on average for the secret “{pair.first}”, and "
        f"{plain(means[1])} for “{pair.second}”. With {pair.noise} noise of scale {plain(pair.scale)} the two curves "
        f"overlap: their ratio is at most {fold(curves.largest)}-fold{promised}."
    )
