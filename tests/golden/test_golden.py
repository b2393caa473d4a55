"""Behaviour, numbers, texts and stored bytes stay as they were recorded.

Only the public API is used, so that names inside may change. What is meant to change is recorded anew by
`python tests/golden/record.py --commit`, and its difference is read.
"""

import functools

import compared
import pytest
from cases import CASES, FEW, record
from readings import BITS
from thinned import nightly

TIED = {
    "laws/chain, closer, missing/": "/secrets[",
    "laws/chains between, four/": "/secrets[",
    "plan/chain, adjacent/within": "",  # whose sentences name the pair, too
}
"""Cases in which two pairs of secrets cost the same but for the last bits of a machine, and where they are named."""


def near(name):
    """Along chains searches for scales end within 1e-9, and last bits of processors decide on which side."""
    return 1e-9 if "chain" in name else compared.CLOSE


def named_by_last_bits(line):
    return any(line.startswith(case) and where in line for case, where in TIED.items())


@functools.cache
def golden():
    return compared.read()


def check(names):
    lines = [
        f"{name}{line}"
        for name in names
        for line in compared.differences(golden()[name], record(name), near(name))
    ]
    wrong = [line for line in lines if not named_by_last_bits(line)]
    assert not wrong, "\n".join(
        [*wrong[:40], "anew, if this is meant: python tests/golden/record.py --commit"]
    )


def kind(name):
    return "/".join(name.split("/")[:2])


@pytest.mark.parametrize("name", FEW)
def test_recorded_cases_stay(name):
    """Each scenario with one kind of batch, each kind of batch, and some of all else is as it was recorded."""
    check([name])


@pytest.mark.slow
@pytest.mark.parametrize(
    "of", nightly(sorted({kind(name) for name in CASES.keys() - set(FEW)}), but=0.4)
)
def test_all_recorded_cases_stay(of):
    """Every scenario with every kind of batch, every account, page, number and command is as it was recorded."""
    check([name for name in CASES if kind(name) == of and name not in FEW])


def test_every_case_is_recorded():
    """Each of the cases is recorded, and no others; those of the default tests in files that can be read."""
    assert golden().keys() == CASES.keys()
    assert len(list(compared.LEGIBLE.rglob("*.json"))) == len(FEW)


def test_floats_are_compared_closely_and_all_else_exactly():
    """Last bits may differ, also in texts, and then hashes; a billionth, a word, a name or an order may not."""
    one = {
        "scale": 2.5,
        "text": "Laplace(scale=2.922966261540034) pf1-" + "0" * 32,
        "n": 3,
        f"page {BITS}": "x",
    }
    near = {**one, "text": "Laplace(scale=2.922966261540035) pf1-" + "1" * 32, f"page {BITS}": "y"}
    assert compared.differences(one, near) == []
    for other in (
        {**one, "scale": 2.5 * (1 + 1e-9)},
        {**one, "text": one["text"].replace("2.922966261540034", "2.922966263")},
        {**one, "text": one["text"].replace("Laplace", "Laplase")},
        {**one, "text": one["text"].replace("0" * 32, "1" * 32)},
        {**one, "n": 3.0},
        {"text": one["text"], "scale": 2.5, "n": 3},
        {**one, "more": None},
    ):
        assert len(compared.differences(one, other)) == 1
    number = {"hash": "a" * 62 + "e7", "scale": 2.5}  # a hash that ends as a float does
    assert compared.differences(number, {"hash": "b" * 64, "scale": 2.5000000000000004}) == []
    named = {"0" * 64: {"scale": 2.5}, "1" * 64: {"scale": 3.0}}
    again = {"2" * 64: {"scale": 3.0000000000000004}, "3" * 64: {"scale": 2.5}}
    assert compared.differences(named, again) == []
    assert (
        len(compared.differences(named, {**again, "2" * 64: {"scale": 3.1}})) == 2
    )  # the number, and its hash
    assert list(compared.lines(one)) != list(compared.lines({**one, "scale": 2.5000000000000004}))
