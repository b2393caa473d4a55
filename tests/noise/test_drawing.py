"""Draws: the right law, and nothing about the answer but its noisy value.

Tests of goodness of fit use seeds, so they are not flaky; the thresholds are those of a test with false alarms below
1e-3, and each is also shown to fail for a scale that is 10 % off.
"""

import os
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import pufferflow as pf
from pufferflow.noise import sampler as drawing

NOISES = {
    "laplace": pf.Laplace,
    "gaussian": pf.Gaussian,
    "cauchy": pf.GeneralizedCauchy,
    "cauchy k=4.5": pf.GeneralizedCauchy.of(k=4.5),
    "cauchy k=1.3": pf.GeneralizedCauchy.of(k=1.3),
    "staircase": pf.Staircase.of(epsilon=1.0),
}
SLOW = {"cauchy k=4.5", "cauchy k=1.3"}
every_noise = pytest.mark.parametrize(
    "family",
    [
        pytest.param(one, id=name, marks=pytest.mark.slow if name in SLOW else ())
        for name, one in NOISES.items()
    ],
)
LIGHT = ["laplace", "gaussian", "cauchy", "staircase"]  # the others' quantiles take long
every_light_noise = pytest.mark.parametrize("family", [NOISES[name] for name in LIGHT], ids=LIGHT)
DRAWS = 10**6
ALARM = 1e-3
HALF = Fraction(1, 2)


def draws_of(noise):
    """How many draws to test: those of k = 1.3 often lie where only the slow path tells them apart."""
    return DRAWS // 10 if noise == pf.GeneralizedCauchy(noise.scale, 1.3) else DRAWS


def fit(draws, noise, shift=0.0):
    """The p-value of draws (on the noise's grid) under the noise around `shift`: χ² on forty cells, both far tails."""
    grid = float(drawing.grid_of(noise.scale))
    tails = np.concatenate([[1e-4, 1e-3], np.linspace(0.02, 0.48, 18)])
    ends = noise.scale * noise.at(1.0).reach(tails)
    ends = (np.floor(np.concatenate([-ends, [0.0], ends[::-1]]) / grid) + 0.5) * grid + shift
    ends = np.unique(ends)
    counts = np.histogram(draws, np.concatenate([[-np.inf], ends, [np.inf]]))[0]
    above = np.concatenate([[1.0], noise.tail(ends - shift), [0.0]])
    return stats.chisquare(counts, -np.diff(above) * len(draws)).pvalue


@every_noise
def test_draws_follow_the_law(family):
    """A million draws fit the noise, and do not fit one whose scale is 10 % off either way."""
    noise = family(3.0)
    draws = noise.sample(draws_of(noise), np.random.default_rng(11))
    assert fit(draws, noise) > ALARM
    for wrong in (0.9, 1.1):
        assert fit(draws, noise.at(3.0 * wrong)) < ALARM


@pytest.mark.slow
@every_light_noise
@pytest.mark.parametrize("wrong", [0.9, 1.1])
def test_power_of_the_fit(family, wrong):
    """Of a hundred samples of one fortieth the size, at least 99 give away a scale 10 % off."""
    noise, size = family(1.0), DRAWS // 40
    draws = noise.at(wrong).sample((100, size), np.random.default_rng(3))
    assert sum(fit(row, noise) < ALARM for row in draws) >= 99


@pytest.mark.slow
@every_light_noise
def test_false_alarms_are_rare(family):
    """Of two hundred right samples no more than two are called wrong."""
    noise = family(1.0)
    draws = noise.sample((200, DRAWS // 200), np.random.default_rng(8))
    assert sum(fit(row, noise) < ALARM for row in draws) <= 2


@every_noise
def test_the_operating_systems_randomness_has_the_same_law(family):
    """What is used for releases fits too (at a threshold that chance passes once in a million runs)."""
    noise = family(0.3)
    assert fit(noise.sample(draws_of(noise) // 20), noise) > 1e-6


@pytest.mark.slow
@every_light_noise
@pytest.mark.parametrize("scale", [1.0, 0.9, 1.1])
def test_neighbouring_answers_look_alike_as_promised(family, scale):
    """Answers one grid step and one scale apart give outputs whose laws are shifts of each other: no more, no less."""
    noise = family(1.0)
    grid = float(drawing.grid_of(1.0))
    for shift in (grid, 1.0):
        drawn = (
            noise.at(scale).release(np.full(DRAWS // 20, shift), np.random.default_rng(21)).values
        )
        assert (fit(drawn, noise, shift) > ALARM) == (scale == 1.0)


def test_draws_do_not_repeat():
    """Two releases of one answer share no noise, and one seed gives one result."""
    noise = pf.Laplace(1.0)
    assert (noise.sample(1000) != noise.sample(1000)).any()
    assert (
        noise.sample(5, np.random.default_rng(1)).tolist()
        == noise.sample(5, np.random.default_rng(1)).tolist()
    )


@pytest.mark.parametrize(
    "answers", [(0.0, 0.1), (3, 10**15), (-1e-9, 1e6), (Fraction(1, 3), Fraction(2, 3))]
)
def test_possible_outputs_do_not_depend_on_the_answer(answers):
    """Every output is a multiple of one grid, which the scale alone decides; dtype and shape are the same too."""
    noise = pf.Laplace(5.0)
    first, second = (noise.release([answer] * 400) for answer in answers)
    assert first.grid == second.grid == drawing.grid_of(5.0) == Fraction(1, 256)
    for noisy in (first, second):
        assert noisy.values.dtype == np.float64
        assert all(Fraction(value) % noisy.grid == 0 for value in noisy.values.tolist())
        assert all(isinstance(step, int) for step in noisy.steps.tolist())
        residues = np.array([step % 16 for step in noisy.steps.tolist()])
        assert len(np.unique(residues)) == 16  # no residue of the grid is favoured by the answer


def test_large_answers_keep_their_noise():
    """Where floats are coarser than the grid, the exact steps still carry noise; the float is their rounding."""
    noise = pf.Laplace(1.0)
    noisy = noise.release([10**18] * 200)
    assert len(set(noisy.steps.tolist())) > 150
    assert all(
        float(step * noisy.grid) == value
        for step, value in zip(noisy.steps, noisy.values, strict=True)
    )


def test_answers_are_rounded_to_the_grid():
    """The answer moves by no more than half a step, which a calibration counts as one."""
    noise = pf.Laplace(1.0)
    for answer in (0.1, 1 / 3, 1e-9):
        noisy = noise.release([answer] * 3, np.random.default_rng(4))
        pure = noise.release([0.0] * 3, np.random.default_rng(4))
        assert np.abs(noisy.values - pure.values - answer).max() <= float(noisy.grid) / 2


def test_a_given_grid_is_used():
    """Any rational width up to scale/1024 will do, so that answers that are multiples of it cost nothing."""
    noisy = pf.Laplace(200.0).release([Fraction(7, 10), 3], grid=Fraction(1, 10))
    assert noisy.grid == Fraction(1, 10)
    assert [Fraction(step, 10) for step in noisy.steps] == [
        Fraction(repr(value)) for value in noisy.values.tolist()
    ]
    for grid in (0, -1, "fine", None.__class__):
        with pytest.raises(pf.UsageError):
            pf.Laplace(1.0).release(0, grid=grid)


WHOLE = {
    "int64": np.random.default_rng(5).integers(-(10**6), 10**6, (20, 5)),
    "int8": np.array([-128, -1, 0, 1, 127], dtype=np.int8),
    "uint64": np.array([0, 1, 2**63, 2**64 - 1], dtype=np.uint64),
    "longest": np.array([-(2**63), 2**63 - 1, 0]),
    "about a quarter": np.array([2**61, -(2**61), 2**61 + 1]),
    "single": np.array(-7),
    "none": np.zeros(0, dtype=np.int64),
    "other bytes": np.array([5, -6], dtype=">i8"),
}
every_array = pytest.mark.parametrize("answers", WHOLE.values(), ids=WHOLE.keys())


@every_array
@pytest.mark.parametrize("grid", [None, 1, 12, Fraction(1, 4)], ids=str)
def test_integer_arrays_are_released_as_their_numbers_are(answers, grid):
    """An array of integers gives the steps, floats, shape and types that a list of the same numbers gives."""
    noise = pf.Laplace(12400.0)
    fast = noise.release(answers, np.random.default_rng(9), grid)
    slow = noise.release(np.asarray(answers).tolist(), np.random.default_rng(9), grid)
    assert fast.steps.tolist() == slow.steps.tolist()
    assert fast.values.tobytes() == slow.values.tobytes()
    for one, other in ((fast.steps, slow.steps), (fast.values, slow.values)):
        assert (type(one), one.dtype, one.shape) == (type(other), other.dtype, other.shape)
    assert all(type(step) is int for step in fast.steps.ravel().tolist())


def test_what_a_mask_hides_is_not_released():
    with pytest.raises(pf.UsageError, match="masked array"):
        pf.Laplace(1.0).release(np.ma.masked_equal([5, 6], 6))


@every_array
@pytest.mark.parametrize(
    "width",
    [
        Fraction(2),
        Fraction(1, 10),
        Fraction(12, 7),
        Fraction(1, 2**61),
        Fraction(1, 2**1000),
        Fraction(2**80),
    ],
)
def test_answers_move_to_the_nearest_step_exactly(answers, width):
    """Where int64 is too short Python's integers take over; halves go to the even step either way."""
    plain = np.asarray(answers)
    moves = np.random.default_rng(4).integers(-(2**62) + 1, 2**62, plain.shape)
    pairs = zip(plain.ravel().tolist(), moves.ravel().tolist(), strict=True)
    exact = [round(value / width) + move for value, move in pairs]
    assert drawing._add_steps(plain, moves, width).ravel().tolist() == exact
    assert drawing._add_steps(plain, moves.astype(object), width).ravel().tolist() == exact


@pytest.mark.parametrize(
    "width", [Fraction(1, 1024), Fraction(2), Fraction(1, 2**1074), Fraction(2**1000)], ids=str
)
def test_steps_become_floats_in_one_rounding(width):
    """Whole numbers of steps, as long as int64 goes, show as the nearest float of the exact product."""
    steps = np.concatenate(
        [np.random.default_rng(6).integers(-(2**63), 2**63 - 1, 200), [2**53 + 1, -(2**54) - 2, 0]]
    )
    exact = [drawing._as_float(step * width) for step in steps.tolist()]
    assert drawing._floats(steps, width).tolist() == exact
    assert drawing._floats(steps.astype(object), width).tolist() == exact


def test_seeded_draws_say_that_they_are_not_for_release():
    """A result from a given generator carries that with it, in a field and in what it shows."""
    seeded = pf.Gaussian(1.0).release(5, np.random.default_rng(0))
    assert not seeded.for_release
    assert "NOT FOR RELEASE" in repr(seeded)
    real = pf.Gaussian(1.0).release(5)
    assert real.for_release
    assert "NOT" not in repr(real)
    assert real.values.shape == ()


@pytest.mark.parametrize("answer", [float("nan"), float("inf"), None, "9.5", [1.0, None]])
def test_unusable_answers_are_refused_without_showing_them(answer):
    """What is no finite number is refused, and the message does not repeat it."""
    with pytest.raises(pf.UsageError, match="An answer is not a finite number") as refusal:
        pf.Laplace(1.0).release(answer)
    assert "9.5" not in str(refusal.value)


class Stream:
    """Bits that are given, and after them the operating system's."""

    def __init__(self, given):
        self.given = given

    def __call__(self, count):
        head, self.given = self.given[:count], self.given[count:]
        return head + os.urandom(count - len(head))


@every_noise
def test_the_slow_path_agrees_with_the_fast_one(family):
    """On the same bits mpmath finds the steps that floats found."""
    noise = family(1.0)
    step = drawing.grid_of(1.0)
    words = np.random.default_rng(2).integers(1 << 60, 1 << 64, 40, dtype=np.uint64)
    words = np.concatenate([words, np.array([2**63, 2**57 + 12345, 2**64 - 1], dtype=np.uint64)])
    fast = drawing._draw_chunk(
        noise, len(words), step, Stream(words.astype("<u8").tobytes() + bytes(8))
    )
    slow = [drawing._draw_precisely(noise, int(word), step, HALF, Stream(b"")) for word in words]
    assert fast.tolist() == slow


@every_noise
def test_the_farthest_tail_is_drawn_too(family):
    """The rarest 64 bits (all 0) do not stop at a largest value: more bits decide how far beyond it is."""
    noise = family(1.0)
    step = drawing.grid_of(1.0)
    end = float(noise.reach(np.array([2.0**-65]))[0])
    sizes = {drawing._draw_precisely(noise, 0, step, HALF, Stream(b"")) for _ in range(6)}
    assert len(sizes) > 1
    assert min(sizes) * float(step) >= end * 0.999
    (deep,) = {
        drawing._draw_precisely(noise, 0, step, HALF, Stream(bytes(7) + b"\x01" + bytes(200)))
        for _ in range(2)
    }
    assert noise.precise_tail(deep * step, __import__("mpmath").mp) < 2.0**-66


def test_grids_depend_on_the_scale_alone():
    """The width is a power of two, at most scale/1024, at least half of that."""
    for scale in (5e-324, 1e-300, 0.1, 1.0, 1023.9, 1024.0, 1e300):
        grid = drawing.grid_of(scale)
        assert grid <= Fraction(scale) / 1024 < 2 * grid
        assert pf.Laplace(scale).sample(3).shape == (3,)


RANGES = [pf.Laplace(37.0), pf.Gaussian(37.0), pf.GeneralizedCauchy(37.0, k=3)]


@pytest.mark.slow
@pytest.mark.parametrize("noise", RANGES, ids=["laplace", "gaussian", "cauchy"])
def test_sizes_that_are_drawn_range_by_range_have_the_law(noise, monkeypatch):
    """Ranges of 16 or 32 sizes, within which chances fall by half: many proposals are put back."""
    monkeypatch.setattr(drawing, "_COARSE_BITS", 1)
    monkeypatch.setattr(drawing, "_MOST_EXTRA", 0)
    drawn = drawing._draw(noise, 6_000, Fraction(1), np.random.default_rng(2).bytes).astype(
        np.int64
    )
    edges = np.arange(-60, 60, 5)
    inside = [np.sum((drawn >= low) & (drawn < low + 5)) for low in edges]
    tails = noise.tail(np.append(edges, 60) - 0.5)
    chances = -np.diff(tails)
    seen, chances = np.append(inside, 6_000 - sum(inside)), np.append(chances, 1 - chances.sum())
    assert stats.chisquare(seen, 6_000 * chances).pvalue > ALARM
    wrong = -np.diff(noise.at(1.1 * noise.scale).tail(np.append(edges, 60) - 0.5))
    assert stats.chisquare(seen, 6_000 * np.append(wrong, 1 - wrong.sum())).pvalue < ALARM
    alone = np.sum(drawn == 0), 6_000 * (noise.tail(-0.5) - noise.tail(0.5))
    assert abs(alone[0] - alone[1]) < 4 * np.sqrt(alone[1])


@pytest.mark.parametrize("family", [pf.Laplace, pf.Gaussian, pf.GeneralizedCauchy])
def test_a_grid_far_below_the_floats_is_drawn_by_floats(family, monkeypatch):
    """Draws on steps of 2^-70 scales: hardly one needs mpmath, and the last bits are those of chance."""
    asked = []
    precisely = drawing._draw_precisely
    monkeypatch.setattr(
        drawing, "_draw_precisely", lambda *given: asked.append(0) or precisely(*given)
    )
    noise = family(2.0**70)
    drawn = drawing._draw(noise, 20_000, Fraction(1), np.random.default_rng(3).bytes)
    assert len(asked) < 200
    assert stats.kstest(noise.tail(drawn.astype(np.float64)), "uniform").pvalue > ALARM
    assert stats.chisquare(np.bincount([int(size) % 16 for size in drawn])).pvalue > ALARM
