"""From exact sums to published numbers: noise on every sum, queries finished from noisy sums, and their error bars."""

from fractions import Fraction
from typing import NamedTuple

import numpy as np
import polars as pl

from pufferflow.noise import Noise
from pufferflow.noise.drawing import grid_of
from pufferflow.release.bars import Floats, ends
from pufferflow.release.clipped import limits_of, of_no_rows
from pufferflow.release.reading import Tally
from pufferflow.release.ready import Ready, unit_of


class Drawn(NamedTuple):
    """The answers, the ends of their error bars, and what is possible at all, each with the keys in front; and notes.

    Limits and notes are public: they know of rows only how many there are, and only where everybody may.
    """

    frame: pl.DataFrame
    intervals: pl.DataFrame
    limits: pl.DataFrame
    notes: tuple[str, ...]


def drawn(ready: Ready, tally: Tally) -> Drawn:
    """Return the noisy answers of a batch, with the operating system's randomness."""
    questions = ready.questions
    size = tally.rows.astype(np.float64) if questions.sized else None
    sums, scales = _noisy(ready, tally), ready.scales
    answers, bars, limits = list[pl.Series](), list[pl.Series](), list[pl.Series]()
    for query, places in zip(questions.queries, questions.places, strict=True):
        own = sums[:, list(places)]
        found = query.finish(own, size)
        low, high = ends(query, [scales[place] for place in places], own, size)
        for place, name in enumerate(query.outputs):
            answers.append(pl.Series(name, found[:, place]))
            bars += [pl.Series(f"{name}_low", low[:, place]), pl.Series(f"{name}_high", high[:, place])]
        limits += limits_of(query, size, len(sums))
    notes = tuple(of_no_rows(questions.queries, size))
    return Drawn(_frame(tally, answers), _frame(tally, bars), _frame(tally, limits), notes)


def grid_below(noise: Noise) -> Fraction:
    """Return the grid of a noisy sum of whole steps: the power of two next below scale/1024, at most one step (M13).

    So every sum is on the grid, and bringing it there costs nothing.
    """
    return min(grid_of(noise.scale), Fraction(1)) if noise.scale else Fraction(1)


def _noisy(ready: Ready, tally: Tally) -> Floats:
    """Return the sums with noise, in the units of the answers."""
    columns = list[Floats]()
    sums = iter(tally.sums.T)
    for measure, noise in zip(ready.questions.measures, ready.noises, strict=True):
        steps = tally.rows if measure is None else next(sums)
        noisy = noise.release(steps, grid=grid_below(noise))
        columns.append(noisy.values * float(unit_of(measure)))  # a power of two: exact
    return np.stack(columns, axis=1) if columns else np.zeros((len(tally.rows), 0))


def _frame(tally: Tally, columns: list[pl.Series]) -> pl.DataFrame:
    found = pl.DataFrame(columns)
    return found if tally.keys is None else pl.concat([tally.keys, found], how="horizontal")
