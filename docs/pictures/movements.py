"""Pictures of laws and distances: what moves where, and what each bound makes of it."""

import math

import numpy as np
from sheet import Axis, Sheet, chart, curve, picture

import pufferflow as pf

MU = pf.Law([0, 1, 2, 3], [0.4, 0.3, 0.2, 0.1])
NU = pf.Law([1, 2, 3, 5], [0.35, 0.3, 0.25, 0.1])
OUTLIER = pf.Law([1, 2, 3, 9], [0.4, 0.3, 0.29, 0.01])
"""A law that is near `MU` but for a hundredth of its probability."""
FIRST, SECOND = "the answer's law if the secret is a", "the answer's law if the secret is b"


def atoms(law: pf.Law) -> list[tuple[float, float]]:
    """Return the values of a law with their probabilities."""
    return list(zip(law.values.ravel().tolist(), law.probabilities.tolist(), strict=True))


def moves_of(first: pf.Law, second: pf.Law) -> list[tuple[float, float, float]]:
    """Return from where to where the best coupling moves how much."""
    found = pf.winf(first, second, coupling=True).coupling
    starts, ends = found.left.values.ravel(), found.right.values.ravel()
    rows, columns = np.asarray(found.rows), np.asarray(found.columns)
    return list(
        zip(starts[rows].tolist(), ends[columns].tolist(), found.masses.tolist(), strict=True)
    )


def transport(sheet: Sheet, second: pf.Law, moves: list[tuple[float, float, float]]) -> None:
    """Draw one law above another, and arrows for what is moved; farther than 2 stands out."""
    x = Axis(0, 9, 60, 560)
    for atom, share in atoms(MU):
        sheet.box(x(atom) - 14, 140 - 160 * share, 28, 160 * share, "first", round_=2)
        sheet.write(x(atom), 156, f"{atom:g}", "quiet", size=12, at="middle")
    for atom, share in atoms(second):
        sheet.box(x(atom) - 14, 246, 28, 160 * share, "second", round_=2)
        sheet.write(x(atom), 240, f"{atom:g}", "quiet", size=12, at="middle")
    for start, end, share in moves:
        colour = "warn" if abs(end - start) > 1 else "quiet"
        sheet.arrow((x(start), 162), (x(end), 226), colour, wide=1 + 8 * share)
    sheet.write(600, 60, FIRST, "first", size=12, at="end")
    sheet.write(600, 330, SECOND, "second", size=12, at="end")


@picture
def farthest_movement() -> Sheet:
    """Draw what W_∞ is."""
    far = float(pf.winf(MU, NU))
    sheet = Sheet(
        f"W∞ is the farthest movement: {far:g}",
        620,
        350,
        f"Two distributions of an answer, one for each value of a secret. Arrows move one onto the other; "
        f"the farthest arrow has length {far:g}, and this is what noise has to hide.",
    )
    transport(sheet, NU, moves_of(MU, NU))
    return sheet


@picture
def near_but_for_an_outlier() -> Sheet:
    """Draw what a (z, δ)-near pair is."""
    far, near = float(pf.winf(MU, OUTLIER)), float(pf.near(MU, OUTLIER, delta=0.01))
    sheet = Sheet(
        f"W∞ is {far:g}; without 1 % of it, {near:g}",
        620,
        350,
        f"One hundredth of the probability has to move by {far:g}, all else by at most {near:g}. "
        f"A guarantee with δ = 0.01 needs noise for {near:g} only.",
    )
    transport(sheet, OUTLIER, moves_of(MU, OUTLIER))
    return sheet


@picture
def average_movement() -> Sheet:
    """Draw W_p against p: the mean, the root mean square, and at last the farthest movement."""
    orders = np.geomspace(1, 64, 25)
    found = [float(pf.wasserstein(MU, OUTLIER, p=float(p))) for p in orders]
    far = float(pf.winf(MU, OUTLIER))
    sheet = Sheet(
        "W_p counts a rare, far movement little; W∞ counts it in full",
        620,
        340,
        f"The p-Wasserstein distance of two laws with an outlier: {found[0]:.2f} at p = 1, growing towards "
        f"W∞ = {far:g}. Bounds that use a finite p need less noise where few answers move far.",
    )
    x, y = Axis(1, 64, 60, 590, log=True), Axis(0, 8, 280, 70)
    chart(
        sheet,
        x,
        y,
        across={1: "1", 2: "2", 4: "4", 8: "8", 16: "16", 32: "32", 64: "64"},
        up={0: "0", 2: "2", 4: "4", 6: "6", 8: "8"},
        names=("order p", "distance"),
    )
    sheet.line([(x(p), y(one)) for p, one in zip(orders, found, strict=True)], "first", wide=2.5)
    sheet.line([(x(1), y(far)), (x(64), y(far))], "second", dashed=True)
    sheet.write(70, y(far) - 6, f"W∞ = {far:g}", "second", size=12)
    return sheet


@picture
def bounds_on_one_pair() -> Sheet:
    """Draw the noise that each bound needs, on one pair of laws, under two guarantees."""
    asked = {
        "(ε, δ) = (1, 0.02)": (
            pf.Approx(1.0, 0.02),
            {"GWM": pf.GWM(), "GAWM": pf.GAWM(0.01), "exact": pf.Exact()},
        ),
        "Rényi, α = 4, ε = 1": (
            pf.Renyi(4, 1.0),
            {"GWM": pf.GWM(), "DAGWM": pf.DAGWM(), "exact": pf.Exact()},
        ),
    }
    sheet = Sheet(
        "One pair, two guarantees: the noise that each bound needs",
        620,
        340,
        "The scale of Laplace noise that GWM, GAWM, DAGWM and the exact bound need for "
        "one pair of laws with an outlier: "
        "GWM hides the farthest movement and needs most, the exact bound least.",
    )
    top = 62
    for words, (guarantee, bounds) in asked.items():
        sheet.write(20, top, words, "quiet", size=12)
        for name, bound in bounds.items():
            scale = float(
                pf.calibrate([(MU, OUTLIER)], guarantee, noise=pf.Laplace, bound=bound).noise.scale
            )
            sheet.write(90, top + 27, name, at="end")
            sheet.box(100, top + 10, 420 * scale / 9, 24, "second" if name == "GWM" else "first")
            sheet.write(108 + 420 * scale / 9, top + 27, f"{scale:.2f}", bold=True)
            top += 32
        top += 36
    return sheet


@picture
def noise_over_two_answers() -> Sheet:
    """Draw the densities of a noisy answer under two secrets."""
    noise = pf.calibrate([(MU, NU)], pf.Pure(1.0)).noise
    ratio = math.exp(float(pf.loss([(MU, NU)], noise, pf.Pure)))
    sheet = Sheet(
        f"With noise, no answer is more than {ratio:.2f} times as likely under one secret",
        620,
        340,
        f"Two curves: the density of the noisy answer if the secret is a, and if it is b. Nowhere is one more "
        f"than {ratio:.2f} times the other.",
    )
    x, y = Axis(-8, 12, 60, 590), Axis(0, 0.25, 280, 70)
    chart(
        sheet,
        x,
        y,
        across={n: str(n) for n in (-8, -4, 0, 4, 8, 12)},
        up={0: "0", 0.1: "0.1", 0.2: "0.2"},
        names=("published number", "density"),
    )
    over = np.linspace(-8, 12, 200)
    for law, colour in ((MU, "first"), (NU, "second")):
        curve(
            sheet,
            x,
            y,
            lambda at, law=law: sum(
                share * math.exp(-abs(at - atom) / noise.scale) / (2 * noise.scale)
                for atom, share in atoms(law)
            ),
            over,
            colour,
        )
    sheet.write(70, 90, "if the secret is a", "first", size=12)
    sheet.write(580, 90, "if the secret is b", "second", size=12, at="end")
    return sheet


@picture
def families_of_noise() -> Sheet:
    """Draw the families of noise at one loss."""
    pair, guarantee = [(pf.Law.point(0), pf.Law.point(1))], pf.Approx(1.0, 1e-3)
    families = {
        "Laplace": (pf.Laplace, "first"),
        "Gaussian": (pf.Gaussian, "second"),
        "staircase": (pf.Staircase, "third"),
    }
    found = {
        name: (pf.calibrate(pair, guarantee, noise=family).noise, colour)
        for name, (family, colour) in families.items()
    }
    sheet = Sheet(
        "Three families of noise that hide a movement of 1 equally well",
        620,
        340,
        "Densities of Laplace, Gaussian and staircase noise that hide a movement of 1 under (1, 0.001): the Gaussian "
        "is wide in the middle with short tails, Laplace has a peak, the staircase has steps.",
    )
    x, y = Axis(-6, 6, 60, 590), Axis(0, 0.6, 280, 70)
    chart(
        sheet,
        x,
        y,
        across={n: str(n) for n in (-6, -3, 0, 3, 6)},
        up={0: "0", 0.2: "0.2", 0.4: "0.4", 0.6: "0.6"},
        names=("noise", "density"),
    )
    over = np.linspace(-6, 6, 481)
    for number, (name, (noise, colour)) in enumerate(found.items()):
        curve(sheet, x, y, lambda at, noise=noise: math.exp(float(noise.logpdf(at))), over, colour)
        sheet.write(580, 84 + 18 * number, name, colour, size=12, at="end")
    return sheet
