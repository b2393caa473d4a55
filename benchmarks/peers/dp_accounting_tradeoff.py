"""Composition of different releases with dp-accounting's privacy loss distributions, rounded pessimistically.

It reads the releases (ε, η) of a JSON file, and the width of its grid; it composes them one after the other, as its
accountant does, and prints ε at δ = 10⁻⁶, δ at a given ε, and the seconds of processor time.
"""

import json
import math
import sys
import time
from pathlib import Path

from dp_accounting.pld import privacy_loss_distribution


def of_release(
    epsilon: float, tv: float, width: float
) -> privacy_loss_distribution.PrivacyLossDistribution:
    """Return the losses of the worst release that is ε-private with a total variation."""
    share = tv / math.tanh(epsilon / 2)
    low = share / (1 + math.exp(epsilon))
    upper = {0: math.log(low) + epsilon, 1: math.log1p(-share), 2: math.log(low)}
    lower = {0: upper[2], 1: upper[1], 2: upper[0]}
    return privacy_loss_distribution.from_two_probability_mass_functions(
        lower, upper, value_discretization_interval=width, symmetric=True
    )


def main() -> None:
    """Compose the releases of a file."""
    releases, width = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), float(sys.argv[2])
    start = time.process_time()
    total = privacy_loss_distribution.identity(value_discretization_interval=width)
    for epsilon, tv in releases:
        total = total.compose(of_release(epsilon, tv, width))
    found = total.get_epsilon_for_delta(1e-6)
    delta = total.get_delta_for_epsilon(float(sys.argv[3]))
    print(json.dumps({"epsilon": found, "delta": delta, "seconds": time.process_time() - start}))


if __name__ == "__main__":
    main()
