"""The truth, found slowly: transport of small laws by methods that share nothing with the library's.

Laws are dicts {atom: Fraction}; atoms are numbers or tuples of numbers.
"""

import itertools
import math
from collections import deque
from fractions import Fraction

import numpy as np
from scipy.optimize import linprog


def length(x, y, norm=2):
    """‖x − y‖, as a Fraction where that is possible (squared for the Euclidean norm of vectors)."""
    if not isinstance(x, tuple):
        return abs(Fraction(x) - Fraction(y))
    steps = [abs(Fraction(a) - Fraction(b)) for a, b in zip(x, y, strict=True)]
    if norm == 1:
        return sum(steps)
    return max(steps) if norm == math.inf else sum(step * step for step in steps)


def winf(mu, nu, norm=2):
    """W_∞ as `near` with δ=0, by augmenting paths."""
    return near(mu, nu, Fraction(0), norm)


def near(mu, nu, delta, norm=2):
    """The smallest z with all but δ matched within z; squared for vectors in the Euclidean norm."""
    costs = {(x, y): length(x, y, norm) for x in mu for y in nu}
    levels = sorted(set(costs.values()) | {Fraction(0)})
    low, high = 0, len(levels) - 1
    while low < high:
        middle = (low + high) // 2
        if (
            1 - matched(mu, nu, {pair for pair, cost in costs.items() if cost <= levels[middle]})
            <= delta
        ):
            high = middle
        else:
            low = middle + 1
    return levels[high]


def matched(mu, nu, pairs):
    """The most mass that allowed pairs can match: Edmonds and Karp, in Fractions."""
    room = {("s", ("x", x)): w for x, w in mu.items()} | {(("y", y), "t"): w for y, w in nu.items()}
    room |= {(("x", x), ("y", y)): Fraction(1) for x, y in pairs}
    room |= {(head, tail): Fraction(0) for tail, head in list(room)}
    out = {}
    for tail, head in room:
        out.setdefault(tail, []).append(head)
    total = Fraction(0)
    while True:
        before, queue = {"s": None}, deque(["s"])
        while queue and "t" not in before:
            tail = queue.popleft()
            for head in out.get(tail, ()):
                if head not in before and room[tail, head] > 0:
                    before[head] = tail
                    queue.append(head)
        if "t" not in before:
            return total
        path, at = [], "t"
        while before[at] is not None:
            path.append((before[at], at))
            at = before[at]
        amount = min(room[edge] for edge in path)
        for tail, head in path:
            room[tail, head] -= amount
            room[head, tail] += amount
        total += amount


def wasserstein(mu, nu, p, norm=2):
    """W_p by a linear program."""
    xs, ys = list(mu), list(nu)
    costs = np.array([[_metric(x, y, norm) ** p for y in ys] for x in xs])
    rows = [np.repeat(np.eye(len(xs))[i], len(ys)) for i in range(len(xs))]
    rows += [np.tile(np.eye(len(ys))[j], len(xs)) for j in range(len(ys))]
    sides = [float(w) for w in itertools.chain(mu.values(), nu.values())]
    scale = costs.max() or 1.0
    solution = linprog(costs.ravel() / scale, A_eq=np.array(rows), b_eq=sides, method="highs")
    assert solution.status == 0
    return (max(solution.fun, 0.0) * scale) ** (1 / p)


def _metric(x, y, norm):
    value = length(x, y, norm)
    return math.sqrt(value) if isinstance(x, tuple) and norm == 2 else float(value)
