"""Pictures of what ε means, and of what attacks find."""

import math

import numpy as np
from correlation import DEVICE, device, district, meters
from sheet import Axis, Sheet, chart, picture

import pufferflow as pf

LEVELS = (0.1, 0.5, 1.0, 2.0, 3.0)


def odds(epsilon: float) -> float:
    """Return the largest posterior probability from even odds."""
    return 1 / (1 + math.exp(-epsilon))


@picture
def epsilon_as_odds() -> Sheet:
    """Draw what an adversary can know at most, in a hundred cases."""
    sheet = Sheet(
        "From even odds, how often can a reader of the numbers be right?",
        760,
        260,
        "Fields of 100 dots for five values of ε. From even odds, an adversary is right in at most "
        + ", ".join(f"{math.ceil(100 * odds(e))} of 100 cases at ε = {e:g}" for e in LEVELS)
        + ".",
    )
    for field, epsilon in enumerate(LEVELS):
        left, right = 30 + 145 * field, math.ceil(100 * odds(epsilon))
        for number in range(100):
            colour = "second" if 50 <= number < right else "first" if number < 50 else "rule"
            sheet.dot(left + 6 + 11.5 * (number % 10), 66 + 11.5 * (number // 10), colour, size=4.4)
        sheet.write(left + 58, 200, f"ε = {epsilon:g}", at="middle", bold=True)
        sheet.write(left + 58, 218, f"at most {right} of 100", "quiet", size=12, at="middle")
    sheet.write(30, 246, "50 by guessing", "first", size=12)
    sheet.write(150, 246, "gained from the published numbers", "second", size=12)
    return sheet


@picture
def posterior_by_prior() -> Sheet:
    """Draw the largest posterior against the prior."""
    sheet = Sheet(
        "How far can a suspicion grow?",
        620,
        340,
        "The probability of a secret after the numbers were seen, against that before, "
        "for ε = 0.5, 1 and 3. At ε = 0.5 "
        "the curve stays near the diagonal; at ε = 3 a suspicion of 20 % can become 84 %.",
    )
    x, y = Axis(0, 1, 60, 590), Axis(0, 1, 280, 70)
    shares = {n / 4: f"{25 * n} %" for n in range(5)}
    chart(
        sheet,
        x,
        y,
        across=shares,
        up=shares,
        names=("probability before", "largest probability after"),
    )
    over = np.linspace(0, 1, 101)
    sheet.line([(x(0), y(0)), (x(1), y(1))], "quiet", dashed=True)
    for epsilon, colour in ((0.5, "first"), (1.0, "third"), (3.0, "second")):
        factor = math.exp(epsilon)
        sheet.line([(x(p), y(p * factor / (p * factor + 1 - p))) for p in over], colour, wide=2.5)
        sheet.write(
            580, y(0.07 + 0.09 * math.ceil(epsilon * 1.3)), f"ε = {epsilon:g}", colour, at="end"
        )
    return sheet


@picture
def attack_on_two_noises() -> Sheet:
    """Draw what a test between two secrets finds, against what was guaranteed."""
    laws, rng = pf.laws(device(DEVICE), pf.Statistic.total(24)), np.random.default_rng(3)
    noises = {
        "differential privacy": pf.Laplace(1.0),
        "pufferflow": pf.calibrate(laws, pf.Pure(1.0)).noise,
    }
    pairs = laws
    found = {
        name: float(
            pf.audit.attack(noise, pairs, promise=pf.Pure(1.0), trials=20_000, rng=rng).lower
        )
        for name, noise in noises.items()
    }
    kept = {name: float(pf.loss(laws, noise, pf.Pure)) for name, noise in noises.items()}
    sheet = Sheet(
        "Guaranteed was ε = 1. What does an attack prove?",
        620,
        230,
        "An attack on the noise of a day of a device, guaranteed ε = 1. "
        + "; ".join(
            f"{name}: the attack proves at least {found[name]:.2f}, the true loss is {kept[name]:.2f}"
            for name in noises
        )
        + ".",
    )
    x = Axis(0, 4.8, 170, 570)
    sheet.line([(x(1), 50), (x(1), 190)], "ink", dashed=True, wide=1)
    sheet.write(x(1), 212, "guaranteed: 1", "quiet", size=12, at="middle")
    for number, (name, colour) in enumerate(zip(noises, ("warn", "first"), strict=True)):
        top = 62 + 64 * number
        sheet.write(160, top + 24, name, at="end")
        sheet.box(x(0), top, x(kept[name]) - x(0), 40, "rule")
        sheet.box(x(0), top + 6, x(found[name]) - x(0), 28, colour)
        sheet.write(x(kept[name]) + 8, top + 18, f"attack ≥ {found[name]:.2f}", size=12, bold=True)
        sheet.write(x(kept[name]) + 8, top + 34, f"true {kept[name]:.2f}", "quiet", size=12)
    return sheet


@picture
def error_against_epsilon() -> Sheet:
    """Draw the error bar of a day, a week and four weeks against ε."""
    sheet = Sheet(
        "Longer periods are relatively more exact",
        620,
        340,
        "Half-width of the error bar of a total of 200 meters, in percent of the total, "
        "against ε, for a day, a week and "
        "four weeks. Longer periods have smaller relative errors: noise stays, the total grows.",
    )
    x, y = Axis(0.2, 4, 60, 590, log=True), Axis(0.01, 20, 280, 70, log=True)
    epsilons = [0.2, 0.5, 1, 2, 4]
    chart(
        sheet,
        x,
        y,
        across={e: f"{e:g}" for e in epsilons},
        up={0.01: "0.01 %", 0.1: "0.1 %", 1: "1 %", 10: "10 %"},
        names=("ε", "error bar, in percent of the total"),
    )
    day = meters()
    for days, name, colour in (
        (1, "a day", "second"),
        (7, "a week", "third"),
        (28, "four weeks", "first"),
    ):
        bars = [_bar(day, days, epsilon) for epsilon in epsilons]
        sheet.line(
            [(x(e), y(bar)) for e, bar in zip(epsilons, bars, strict=True)], colour, wide=2.5
        )
        sheet.write(x(0.2) + 8, y(bars[0]) - 8, name, colour, size=12)
    return sheet


def _bar(day: pf.Laws, days: int, epsilon: float) -> float:
    laws = (
        day
        if days == 1
        else pf.laws(district(pf.examples.district_kernels()), pf.Statistic.total(24 * days))
    )
    scale = float(pf.calibrate(laws, pf.Pure(epsilon)).noise.scale)
    return 100 * scale * math.log(20) / (5_830 * days)


@picture
def trade_off_of_errors() -> Sheet:
    """Draw the errors of the best test between two secrets."""
    sheet = Sheet(
        "What the best detective still gets wrong",
        460,
        380,
        "The best test between two secrets: its rate of false alarms against its rate of "
        "misses. Without the numbers the "
        "two add up to 1; at ε = 1 the curve lies a little below, at ε = 3 near the corner where both are 0.",
    )
    x, y = Axis(0, 1, 60, 430), Axis(0, 1, 320, 70)
    shares = {n / 4: f"{25 * n} %" for n in range(5)}
    chart(sheet, x, y, across=shares, up=shares, names=("false alarms", "misses"))
    over = np.linspace(0, 1, 101)
    sheet.line([(x(0), y(1)), (x(1), y(0))], "quiet", dashed=True)
    for epsilon, colour in ((1.0, "first"), (3.0, "second")):
        grow = math.exp(epsilon)
        points = [(x(a), y(max(0.0, 1 - grow * a, (1 - a) / grow))) for a in over]
        sheet.line(points, colour, wide=2.5)
        sheet.write(
            x(1 / (1 + grow)) + 10, y(1 / (1 + grow)) - 6, f"ε = {epsilon:g}", colour, size=12
        )
    return sheet
