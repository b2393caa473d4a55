"""Finite laws: what they accept, what they keep exact, and that their operations are those of random variables."""

import copy
import itertools
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import exact_laws, float_laws

import pufferflow as pf

HALF, THIRD = Fraction(1, 2), Fraction(1, 3)


def as_dict(law):
    keys = [tuple(x) if law.dimension > 1 else x for x in law.values.tolist()]
    return dict(zip(keys, law.weights.tolist(), strict=True))


def test_atoms_are_sorted_merged_and_zero_weights_dropped():
    """Equal atoms are one atom, −0.0 is 0.0, and what cannot occur is no atom."""
    law = pf.Law([3, 0.0, 1, -0.0, 7], [0.25, 0.25, 0.25, 0.25, 0.0])
    assert as_dict(law) == {0.0: 0.5, 1.0: 0.25, 3.0: 0.25}
    assert len(law) == 3


def test_fractions_stay_exact():
    """Rational weights come back as the same rational numbers, and thirds add to one."""
    law = pf.Law([0, 1, 1], [THIRD, THIRD, THIRD])
    assert law.exact
    assert as_dict(law) == {0: THIRD, 1: 2 * THIRD}
    assert sum(law.weights) == 1


def test_fraction_atoms_stay_exact():
    """A third is an atom; floats in the same column are read as the binary fractions they are."""
    law = pf.Law([THIRD, 0.5, Decimal("0.1")], [HALF, Fraction(1, 4), Fraction(1, 4)])
    assert law.values.tolist() == [Fraction(1, 10), THIRD, HALF]


@pytest.mark.parametrize("big", [2**53 + 1, 2**70, Fraction(10) ** 400])
def test_numbers_that_do_not_fit_a_float_stay_exact(big):
    """Two whole numbers that a float would make one stay two atoms."""
    law = pf.Law([big, big + 1], [HALF, HALF])
    assert law.values.tolist() == [big, big + 1]


def test_columns_are_accepted():
    """A Polars or NumPy column of any numeric kind gives its empirical law."""
    expected = {1.0: Fraction(2, 3), 2.0: THIRD}
    for column in (
        pl.Series([1, 2, 1]),
        pl.Series([1.0, 2.0, 1.0]),
        np.array([1, 2, 1], dtype=np.uint8),
        (1, 2, 1),
    ):
        assert as_dict(pf.Law.empirical(column)) == expected
    assert as_dict(pf.Law.empirical(pl.Series([True, False]))) == {0.0: HALF, 1.0: HALF}
    assert pf.Law.empirical([[0, 1], [0, 1]]) == pf.Law.point([0, 1])
    assert as_dict(pf.Law.empirical(pl.Series([1, 2]), counts=pl.Series([20, 10]))) == expected


def test_one_column_is_a_number():
    """Values of shape (n, 1) are numbers, not vectors."""
    assert pf.Law([[0], [1]], [0.5, 0.5]) == pf.Law([0, 1], [0.5, 0.5])


@pytest.mark.parametrize(
    ("values", "weights", "says"),
    [
        ([0, np.nan], [0.5, 0.5], "value is NaN or infinite"),
        ([0, np.inf], [0.5, 0.5], "value is NaN or infinite"),
        ([0, Fraction(1, 3), float("nan")], [0.5, 0.25, 0.25], "value is NaN or infinite"),
        ([], [], "shape"),
        ([[]], [1.0], "shape"),
        ([[[1.0]]], [1.0], "shape"),
        (3.0, [1.0], "shape"),
        ([[1, 2], [3]], [0.5, 0.5], "rows of different lengths"),
        (["a", "b"], [0.5, 0.5], "dtype"),
        ([None, 1], [0.5, 0.5], "value is null"),
        ([{}, 1], [0.5, 0.5], "not a number"),
        (pl.Series([1, None]), [0.5, 0.5], "a null reads as NaN"),
        (pl.DataFrame({"x": [1, 2]}), [0.5, 0.5], "are a DataFrame"),
        ({1: 0.5, 2: 0.5}, [0.5, 0.5], "are a dict"),
        ([0, 1], [Decimal("NaN"), Decimal(1)], "weight is NaN"),
        ([1j, 1], [0.5, 0.5], "dtype"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), [1.0], "dtype"),
        ([0, 1], [0.5, np.nan], "weight is NaN or infinite"),
        ([0, 1], [-0.5, 1.5], "weight is negative"),
        ([0, 1], [Fraction(-1, 2), Fraction(3, 2)], "weight is negative"),
        ([0, 1], [0.0, 0.0], "sum 0"),
        ([0, 1], [0.5, 0.4], "sum 0.9"),
        ([0, 1], [0.5, 0.5 + 2e-12], "sum 1.00000000000"),
        ([0, 1], [THIRD, THIRD], "sum 0.666"),
        ([0, 1], [3, 1], "sum 4"),
        ([0, 1], [0.5, 0.25, 0.25], "shape"),
        ([0, 1], ["a", "b"], "dtype"),
        ([0, 1], [None, 1.0], "dtype"),
        ([0, 1], [True, False], "dtype"),
    ],
)
def test_bad_laws_are_refused(values, weights, says):
    """Each fault is named, with what is allowed and what to try, by an error of ours."""
    with pytest.raises(pf.UsageError, match=says) as caught:
        pf.Law(values, weights)
    assert "allowed:" in str(caught.value)
    assert "try:" in str(caught.value)


@pytest.mark.parametrize("counts", [[1], [1, -1], [0, 0], [1.5, 1], ["a", "b"]])
def test_bad_counts_are_refused(counts):
    """Counts are whole numbers, one for each value."""
    with pytest.raises(pf.UsageError, match="counts"):
        pf.Law.empirical([0, 1], counts=counts)


def test_sums_within_rounding_are_normalised():
    """A sum that misses 1 by less than 1e−12 is divided out, so that both tails are measured alike."""
    law = pf.Law([0, 1], [0.5, 0.5 + 5e-13])
    assert abs(law.weights.sum() - 1) < 1e-15


def test_laws_are_frozen():
    """Neither fields nor arrays can be changed, and laws can be keys."""
    law = pf.Law([0, 1], [0.5, 0.5])
    with pytest.raises(AttributeError):
        law.values = np.zeros(2)
    with pytest.raises(ValueError, match="read-only"):
        law.values[0] = 7
    assert {law: 1}[pf.Law([1, 0], [0.5, 0.5])] == 1


def test_caller_keeps_his_arrays():
    """The law does not freeze or share the caller's arrays."""
    values, weights = np.array([0.0, 1.0]), np.array([0.5, 0.5])
    law = pf.Law(values, weights)
    values[0], weights[0] = 9, 9
    assert as_dict(law) == {0.0: 0.5, 1.0: 0.5}


@pytest.mark.slow
@given(exact_laws())
def test_laws_survive_copies(law):
    """Pickled and copied laws are equal, hash alike and stay exact."""
    for twin in (pickle.loads(pickle.dumps(law)), copy.deepcopy(law)):
        assert twin == law
        assert hash(twin) == hash(law)
        assert twin.exact


@pytest.mark.slow
@given(exact_laws())
def test_repr_can_be_typed(law):
    """What a short law prints is what makes it."""
    assert eval(repr(law), {"Law": pf.Law, "Fraction": Fraction}) == law  # noqa: S307 - our own repr


def combined(left, right, how):
    """The law of how(X, Y) for independent X and Y, by enumeration."""
    law = {}
    for (x, p), (y, q) in itertools.product(as_dict(left).items(), as_dict(right).items()):
        law[how(x, y)] = law.get(how(x, y), 0) + p * q
    return law


@pytest.mark.slow
@given(exact_laws(), exact_laws())
def test_exact_operations_equal_enumeration(left, right):
    """Sum, joint law, mixture, shift and image of exact laws are exact and equal enumeration."""
    assert as_dict(left.convolve(right)) == combined(
        left, right, lambda x, y: Fraction(x) + Fraction(y)
    )
    assert as_dict(left.product(right)) == combined(left, right, lambda x, y: (x, y))
    mixed = {x: THIRD * w for x, w in as_dict(left).items()}
    for x, w in as_dict(right).items():
        mixed[x] = mixed.get(x, 0) + 2 * THIRD * w
    assert as_dict(pf.Law.mixture([left, right], [THIRD, 2 * THIRD])) == mixed
    assert as_dict(left.shift(Fraction(1, 7))) == {
        Fraction(x) + Fraction(1, 7): w for x, w in as_dict(left).items()
    }
    squares = {}
    for x, w in as_dict(left).items():
        squares[x * x] = squares.get(x * x, 0) + w
    assert as_dict(left.map(lambda x: x * x)) == squares


@pytest.mark.slow
@given(exact_laws(atoms=st.integers(-30, 30)), exact_laws(atoms=st.integers(-30, 30)))
def test_lattice_sums_equal_outer_sums(left, right):
    """Sums of whole numbers, done without an outer product, are the same law; also with float weights."""
    assert as_dict(left.convolve(right)) == combined(left, right, lambda x, y: x + y)
    floats = [pf.Law(law.values, law.probabilities) for law in (left, right)]
    summed = floats[0].convolve(floats[1])
    np.testing.assert_allclose(summed.weights, left.convolve(right).probabilities, rtol=1e-14)


@pytest.mark.slow
@given(float_laws(), float_laws())
def test_float_operations_keep_every_atom(left, right):
    """No float operation loses an atom, and weights still sum to 1."""
    for law in (
        left.convolve(right),
        left.product(right),
        pf.Law.mixture([left, right], [1e-17, 1.0]),
    ):
        assert law.weights.min() > 0
        assert law.weights.sum() == pytest.approx(1, abs=1e-13)
    assert len(left.product(right)) == len(left) * len(right)


def test_underflow_keeps_atoms():
    """A product of masses too small for a float leaves the smallest mass there is, not none."""
    rare = pf.Law([0, 1], [1.0, 1e-200])
    twice = rare.convolve(rare)
    assert twice.values.tolist() == [0, 1, 2]
    assert twice.weights[2] == 5e-324


def test_exact_sums_of_many_rows_stay_exact():
    """A binomial law with p=1/3 and 300 rows is exact, far beyond machine integers."""
    row = pf.Law([0, 1], [2 * THIRD, THIRD])
    total = row
    for _ in range(299):
        total = total.convolve(row)
    assert total.weights[300] == THIRD**300
    assert sum(total.weights) == 1


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_large_whole_counts(size):
    """Counts beyond machine integers keep their ratios."""
    big = 2**61
    law = pf.Law.empirical(range(size), counts=[big] * size)
    assert law == pf.Law.empirical(range(size))


def test_a_million_atoms():
    """Laws of a million atoms are made, shifted and mapped without a Python loop."""
    rng = np.random.default_rng(0)
    weights = rng.random(10**6)
    law = pf.Law(rng.normal(size=10**6), weights / weights.sum())
    assert len(law.shift(1).map(np.round)) < 20


def test_mismatched_operations_are_refused():
    """Dimensions, lengths and sizes that do not fit are named."""
    line, plane = pf.Law([0, 1], [0.5, 0.5]), pf.Law([[0, 0], [1, 1]], [0.5, 0.5])
    with pytest.raises(pf.UsageError, match="dimensions 1 and 2"):
        line.convolve(plane)
    with pytest.raises(pf.UsageError, match="dimensions"):
        pf.Law.mixture([line, plane], [0.5, 0.5])
    with pytest.raises(pf.UsageError, match="No laws"):
        pf.Law.mixture([], [])
    with pytest.raises(pf.UsageError, match="laws are of type Law"):
        pf.Law.mixture(line, [1])
    with pytest.raises(pf.UsageError, match="function is of type int"):
        line.map(5)
    with pytest.raises(pf.UsageError, match="failed on the array of all atoms"):
        line.map(lambda x: 1 if x > 0 else 0)
    with pytest.raises(pf.UsageError, match="shift has shape"):
        plane.shift(1)
    with pytest.raises(pf.UsageError, match="1 values for 2 atoms"):
        line.map(lambda x: x[:1])
    with pytest.raises(pf.UsageError, match="NaN"):
        line.map(lambda x: x * np.nan)
    with pytest.raises(pf.UsageError, match="sum of two atoms"):
        pf.Law([1e308, 0], [0.5, 0.5]).convolve(pf.Law([1e308, 0], [0.5, 0.5]))
    wide = pf.Law.empirical(np.arange(10**4) + 0.5)
    with pytest.raises(pf.Refused, match="pairs of atoms do not fit"):
        wide.product(wide)


def test_vectors_shift_and_add():
    """The operations work coordinate by coordinate on R^d."""
    law = pf.Law([[0, 0], [1, 2]], [0.5, 0.5])
    assert law.shift([1, -1]) == pf.Law([[1, -1], [2, 1]], [0.5, 0.5])
    assert law.convolve(law) == pf.Law([[0, 0], [1, 2], [2, 4]], [0.25, 0.5, 0.25])
    assert law.map(lambda x: x.sum(axis=1)) == pf.Law([0, 3], [0.5, 0.5])


def test_decimal_weights_are_exact():
    """Decimals are rational numbers, as weights as well as as atoms."""
    law = pf.Law([0, 1], [Decimal("0.1"), Decimal("0.9")])
    assert as_dict(law) == {0: Fraction(1, 10), 1: Fraction(9, 10)}


@given(float_laws(most=6))
def test_float_repr_can_be_typed(law):
    """A short float law prints every digit that it takes to make it again."""
    assert eval(repr(law), {"Law": pf.Law}) == law  # noqa: S307 - our own repr
