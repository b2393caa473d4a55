"""Pictures of accounts: what many releases about correlated rows reveal together."""

import numpy as np
from correlation import DEVICE, device
from sheet import Axis, Sheet, chart, picture

import pufferflow as pf

DAYS = (1, 2, 3, 5, 7, 10, 14, 21, 28)
SCALE = 10.0


def totals(days: int, noise: pf.Noise) -> dict[str, float]:
    """Return what daily sums cost together, by three ways of counting."""
    alone = float(pf.loss(pf.laws(device(DEVICE), pf.Statistic.total(24)), noise, pf.Pure))
    exposure = 1 / noise.scale
    messages = float(pf.temporal_leakage(DEVICE, exposure, steps=24 * days))
    return {
        "group privacy": 24 * days * exposure,
        "losses added up": alone * days,
        "messages along the chain": messages,
    }


@picture
def a_month_of_days() -> Sheet:
    """Draw the total of daily releases against their number."""
    found = [totals(days, pf.Laplace(SCALE)) for days in DAYS]
    names = list(found[0])
    sheet = Sheet(
        "A release every day: what it costs in total",
        620,
        340,
        f"Total loss of daily releases against the number of days. After four weeks group privacy counts "
        f"{found[-1][names[0]]:.0f}, adding up {found[-1][names[1]]:.1f}, messages along "
        f"the chain {found[-1][names[2]]:.2f}: only these "
        f"converge.",
    )
    x, y = Axis(1, 28, 60, 590), Axis(0, 12, 280, 70)
    chart(
        sheet,
        x,
        y,
        across={n: str(n) for n in (1, 7, 14, 21, 28)},
        up={n: str(n) for n in (0, 3, 6, 9, 12)},
        names=("days", "total ε"),
    )
    for name, colour in zip(names, ("second", "third", "first"), strict=True):
        points = [
            (x(day), y(one[name])) for day, one in zip(DAYS, found, strict=True) if one[name] <= 12
        ]
        sheet.line(points, colour, wide=2.5)
        sheet.write(
            min(points[-1][0] + 6, 584),
            points[-1][1] - 8,
            name,
            colour,
            size=12,
            at="start" if points[-1][0] < 400 else "end",
        )
    return sheet


@picture
def endless_schedule() -> Sheet:
    """Draw what an hour is exposed to by a schedule without end."""
    hours = list(range(1, 49))
    sheet = Sheet(
        "Hours that are far away add nothing more",
        620,
        340,
        "What all releases together reveal of one hour, against how many hours before and after it are published too. "
        "Each further hour adds less; the total stops growing, so a schedule without end has a finite cost.",
    )
    x, y = Axis(1, 48, 60, 590), Axis(0, 1, 280, 70)
    chart(
        sheet,
        x,
        y,
        across={n: str(n) for n in (1, 12, 24, 36, 48)},
        up={n / 4: f"{n / 4:g}" for n in range(5)},
        names=("hours that are published", "total ε for one hour"),
    )
    for stay, colour in ((0.6, "third"), (0.8, "first"), (0.9, "second")):
        kernel = [[stay, 1 - stay], [1 - stay, stay]]
        losses = [float(pf.temporal_leakage(kernel, 0.1, steps=n)) for n in hours]
        sheet.line([(x(n), y(one)) for n, one in zip(hours, losses, strict=True)], colour, wide=2.5)
        sheet.write(
            x(48) - 4,
            y(losses[-1]) - 8,
            f"stays as it is in {100 * stay:.0f} % of hours",
            colour,
            size=12,
            at="end",
        )
    return sheet


@picture
def budget_of_an_account() -> Sheet:
    """Draw an account that refuses what would pass its limit."""
    sheet = Sheet(
        "An account refuses what would pass its limit",
        620,
        250,
        "An account with limit 2: three releases are charged in turn, a fourth would "
        "pass the limit and is refused before "
        "a private row is read.",
    )
    x, charges = Axis(0, 2.4, 40, 600), (0.8, 0.6, 0.4, 0.5)
    at, colours = 0.0, ("first", "first", "first", "warn")
    for number, (cost, colour) in enumerate(zip(charges, colours, strict=True), start=1):
        sheet.box(
            x(at) + 1, 80, x(at + cost) - x(at) - 2, 54, colour if colour == "first" else "panel"
        )
        words = f"release {number}" if colour == "first" else "refused"
        sheet.write(
            x(at + cost / 2),
            160,
            words,
            "ink" if colour == "first" else "warn",
            size=12,
            at="middle",
        )
        sheet.write(x(at + cost / 2), 176, f"ε = {cost:g}", "quiet", size=12, at="middle")
        at += cost
    sheet.line([(x(2), 60), (x(2), 150)], "ink", wide=2)
    sheet.write(x(2), 54, "limit: 2", at="middle", bold=True)
    sheet.line([(x(0), 200), (x(2.4), 200)], "quiet", wide=1)
    for tick in np.arange(0, 2.5, 0.5):
        sheet.write(x(tick), 218, f"{tick:g}", "quiet", size=12, at="middle")
    sheet.write(
        x(1.2),
        238,
        "total ε of everything that was published about the same rows",
        "quiet",
        size=12,
        at="middle",
    )
    return sheet
