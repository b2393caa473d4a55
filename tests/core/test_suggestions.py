"""Near names are found, and calls that do not fit are told from calls that fail."""

import pickle

import pytest

import pufferflow as pf
from pufferflow.core.errors import NoSuchAttribute, NoSuchCall
from pufferflow.core.suggestions import HelpfulAttributes, did_you_mean, nearest, suggests_arguments

NAMES = ["district", "meter", "hour", "level", "level_sum"]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("distrct", "district"),
        ("District", "district"),
        ("metre", "meter"),
        ("levelsum", "level_sum"),
        ("salary", None),
    ],
)
def test_the_nearest_name(given, found):
    """A letter too few, too many, twisted or in another case is the name; what is not near is none."""
    assert nearest(given, NAMES) == ([found] if found else [])
    assert did_you_mean(given, NAMES) == (f" Did you mean {found!r}?" if found else "")


@pytest.mark.parametrize("given", [None, 3, ["level"], b"level"])
def test_what_is_no_name_is_near_to_nothing(given):
    """Only texts are misspelt."""
    assert nearest(given, NAMES) == []


def test_errors_are_those_of_python_and_of_the_library():
    """A wrong call is a TypeError and a missing name an AttributeError; both are pf.UsageError, and can be pickled."""
    with pytest.raises(TypeError) as call:
        pf.Pure(eps=1.0)
    with pytest.raises(AttributeError) as name:
        _ = pf.Secrt
    for caught, kind in ((call, NoSuchCall), (name, NoSuchAttribute)):
        assert isinstance(caught.value, pf.UsageError)
        restored = pickle.loads(pickle.dumps(caught.value))
        assert type(restored) is kind
        assert str(restored) == str(caught.value)


def test_an_error_about_a_name_keeps_no_value():
    """Python would keep the batch, and with it the frame, in the error."""

    class Asked(HelpfulAttributes):
        pass

    with pytest.raises(AttributeError) as caught:
        _ = Asked().collect
    assert (caught.value.name, caught.value.obj) == ("collect", None)


def test_arguments_are_told_from_failures():
    """Only what Python says of the arguments themselves is answered; all else passes."""

    @suggests_arguments
    def half(number, *, exact=False):
        return int(number) if exact else number / 2

    assert half(3) == 1.5
    with pytest.raises(NoSuchCall, match=r"has no argument 'exct'\. Did you mean 'exact'"):
        half(3, exct=True)
    with pytest.raises(NoSuchCall, match="missing 1 required"):
        half()
    with pytest.raises(TypeError) as caught:
        half("3")
    assert not isinstance(caught.value, NoSuchCall)


def test_imports_of_missing_names():
    """`from pufferflow import x` fails as in every module."""
    with pytest.raises(ImportError):
        exec("from pufferflow import Secrt")  # noqa: S102 - the statement is what is tested
