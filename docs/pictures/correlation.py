"""Pictures of what correlated rows reveal about each other, and what that costs in noise."""

import math

import numpy as np
from sheet import Axis, Sheet, chart, picture

import pufferflow as pf

DEVICE = [[0.9, 0.1], [0.3, 0.7]]
"""A device that is rarely switched: off and on, from hour to hour."""
LEVELS = [0, 1, 2, 3]


def meters() -> pf.Laws:
    """Return the laws of the daily load of a meter of the tutorial."""
    return pf.laws(district(pf.examples.district_kernels()), pf.Statistic.total(24))


def district(kernels: list[list[list[float]]]) -> pf.Scenario:
    """Return the scenario of the tutorial."""
    secret = pf.Secret("level", domain=LEVELS, missing=0)
    prior = pf.MarkovChain(kernels, period=24)
    return pf.Scenario(secret, prior, order_by="hour", step="1h", within="meter")


def device(kernel: list[list[float]], **more: object) -> pf.Scenario:
    """Return the scenario of a device that is off or on."""
    return pf.Scenario(
        pf.Secret("on", domain=[0, 1], missing=0), pf.MarkovChain(kernel), order_by="hour", **more
    )  # type: ignore[arg-type]


@picture
def noise_and_protection() -> Sheet:
    """Draw the noise of three ways, and what each really keeps."""
    laws, guarantee = meters(), pf.Pure(1.0)
    noises = {
        "differential privacy": (pf.Laplace(3.0), "warn"),
        "pufferflow": (pf.calibrate(laws, guarantee).noise, "first"),
        "group privacy": (pf.calibrate(laws, guarantee, bound=pf.Group()).noise, "second"),
    }
    found = {
        name: (noise.scale * math.log(20), float(pf.loss(laws, noise, pf.Pure)), colour)
        for name, (noise, colour) in noises.items()
    }
    sheet = Sheet(
        "Daily load of 200 meters, about 5,800, at ε = 1",
        760,
        270,
        "One day of a district of meters at ε = 1. "
        + "; ".join(
            f"{name}: error bar ±{bar:.0f}, ε really kept {loss:.1f}"
            for name, (bar, loss, _) in found.items()
        )
        + ". Only the noise of differential privacy breaks its guarantee, because hours are correlated.",
    )
    sheet.write(160, 70, "error bar (95 %) of the published number", "quiet", size=12)
    sheet.write(470, 70, "ε that is really kept", "quiet", size=12)
    sheet.line([(470 + 20, 80), (490, 232)], "ink", wide=1, dashed=True)
    sheet.write(490, 250, "1, as guaranteed", "quiet", size=12, at="middle")
    for number, (name, (bar, loss, colour)) in enumerate(found.items()):
        top = 88 + 50 * number
        sheet.write(150, top + 22, name, at="end", bold=name == "pufferflow")
        sheet.box(160, top, bar, 32, colour)
        sheet.write(168 + bar, top + 21, f"± {bar:.0f}", bold=True)
        sheet.box(470, top, 20 * loss, 32, colour)
        sheet.write(
            478 + 20 * max(loss, 1),
            top + 21,
            f"{loss:.2g}" if loss < 10 else f"{loss:.1f}",
            bold=True,
        )
    return sheet


@picture
def influence_of_an_hour() -> Sheet:
    """Draw how much an hour reveals about the hours around it."""
    kernel = np.array(DEVICE)
    hours = range(-8, 9)
    shares = [[_after(kernel, abs(hour), state) for hour in hours] for state in (0, 1)]
    sheet = Sheet(
        "One hour that is known reveals the hours around it",
        620,
        340,
        "Probability that a device runs, by the hours from an hour where it is known to be on or off. "
        f"One hour away it is {100 * shares[1][7]:.0f} % or {100 * shares[0][7]:.0f} %, "
        "eight hours away both are near the mean of 25 %.",
    )
    x, y = Axis(-8, 8, 60, 590), Axis(0, 1, 280, 70)
    chart(
        sheet,
        x,
        y,
        across={hour: f"{hour:+d}" if hour else "0" for hour in range(-8, 9, 2)},
        up={0: "0", 0.25: "25 %", 0.5: "50 %", 0.75: "75 %", 1: "100 %"},
        names=("hours from the known hour", "probability that the device runs"),
    )
    for row, colour in zip(shares, ("second", "first"), strict=True):
        points = [(x(hour), y(share)) for hour, share in zip(hours, row, strict=True)]
        sheet.line(points, colour, wide=2)
        for point in points:
            sheet.dot(*point, colour)
    sheet.write(x(0) + 14, y(0.97), "known to be on", "first", size=12)
    sheet.write(x(2) + 12, y(0.04), "known to be off", "second", size=12)
    return sheet


def _after(kernel: np.ndarray, hours: int, state: int) -> float:
    return float(np.linalg.matrix_power(kernel, hours)[state, 1])


@picture
def noise_by_length() -> Sheet:
    """Draw the noise for a number of hours that belong together."""
    lengths = [1, 2, 4, 8, 16, 32, 64]
    kept = {
        "group privacy": [float(n) for n in lengths],
        "messages along the chain": [_scale(n) for n in lengths],
    }
    sheet = Sheet(
        "More hours, more noise? Only as long as they reveal each other",
        620,
        340,
        f"Scale of the noise of a sum of correlated hours against their number. Group privacy grows in step with "
        f"it, up to 64; messages along the chain stop at {kept['messages along the chain'][-1]:.1f}.",
    )
    x, y = Axis(1, 64, 60, 590, log=True), Axis(0, 32, 280, 70)
    chart(
        sheet,
        x,
        y,
        across={n: str(n) for n in lengths},
        up={n: str(n) for n in (0, 8, 16, 24, 32)},
        names=("hours of one device", "scale of the noise at ε = 1"),
    )
    for (name, scales), colour in zip(kept.items(), ("second", "first"), strict=True):
        seen = [(x(n), y(scale)) for n, scale in zip(lengths, scales, strict=True) if scale <= 32]
        sheet.line(seen, colour, wide=2.5)
        sheet.write(seen[-1][0] - 8, seen[-1][1] - 8, name, colour, size=12, at="end")
    sheet.write(586, y(1) - 5, "differential privacy of a row", "warn", size=12, at="end")
    sheet.line([(x(1), y(1)), (x(64), y(1))], "warn", dashed=True)
    return sheet


def _scale(hours: int) -> float:
    laws = pf.laws(device(DEVICE), pf.Statistic.total(hours))
    return float(pf.calibrate(laws, pf.Pure(1.0)).noise.scale)


@picture
def if_the_prior_is_wrong() -> Sheet:
    """Draw what noise for one chain keeps under others."""
    noise = pf.calibrate(pf.laws(device(DEVICE), pf.Statistic.total(24)), pf.Pure(1.0)).noise
    stays = [0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99]
    kept = [_kept(stay, noise) for stay in stays]
    sheet = Sheet(
        "Noise for one prior, and what is left under another",
        620,
        340,
        f"The ε that the noise of one prior keeps if a device really stays as it is more often: {kept[0]:.2f} where "
        f"hours are independent, {kept[-1]:.1f} where it is switched once in 100 hours.",
    )
    x, y = Axis(0.5, 1, 60, 590), Axis(0, 6, 280, 70)
    chart(
        sheet,
        x,
        y,
        across={n: f"{100 * n:.0f} %" for n in (0.5, 0.6, 0.7, 0.8, 0.9, 1)},
        up={n: str(n) for n in range(0, 7, 2)},
        names=("how often the device really stays as it is", "ε that is kept"),
    )
    sheet.line(
        [(x(one), y(loss)) for one, loss in zip(stays, kept, strict=True)], "first", wide=2.5
    )
    sheet.line([(x(0.5), y(1)), (x(1), y(1))], "second", dashed=True)
    sheet.write(70, y(1) - 8, "ε = 1, as guaranteed under the prior", "second", size=12)
    return sheet


def _kept(stay: float, noise: pf.Noise) -> float:
    other = device([[stay, 1 - stay], [1 - stay, stay]])
    return float(pf.loss(pf.laws(other, pf.Statistic.total(24)), noise, pf.Pure))


@picture
def fitted_prior_against_reference() -> Sheet:
    """Draw the shares of moves in a reference, and the chain fitted from it."""
    rows = pf.examples.district(meters=60, days=14, seed=11)
    fitted = pf.MarkovChain.fit(
        pf.Reference("a public district", rows),
        "level",
        order_by="hour",
        within="meter",
        domain=LEVELS,
        period=24,
        step="1h",
    )
    truth = np.array(pf.examples.district_kernels())[:, 1, 2]
    found = np.array([[float(one) for one in np.asarray(kernel)[1]] for kernel in fitted.kernels])[
        :, 2
    ]
    sheet = Sheet(
        "A prior fitted from a public table, hour by hour",
        620,
        340,
        "How often a meter rises from level 1 to level 2, by the hour of the day: the "
        "chain fitted from 60 public meters, "
        "and the chain that made them up. Both have a peak in the morning and in the evening.",
    )
    x, y = Axis(0, 23, 60, 590), Axis(0, 0.5, 280, 70)
    chart(
        sheet,
        x,
        y,
        across={n: f"{n}:00" for n in (0, 6, 12, 18)} | {23: "23:00"},
        up={n / 10: f"{n * 10} %" for n in range(6)},
        names=("hour of the day", "share of meters that rise from level 1 to 2"),
    )
    sheet.line([(x(h), y(one)) for h, one in enumerate(truth)], "rule", wide=4)
    sheet.line([(x(h), y(one)) for h, one in enumerate(found)], "first", wide=2)
    sheet.write(590, 60, "fitted", "first", size=12, at="end")
    sheet.write(540, 60, "truth", "quiet", size=12, at="end")
    return sheet
