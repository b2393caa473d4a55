"""The errors: one base, told apart by kind, whole after pickling."""

import pickle

import pytest

import pufferflow as pf

KINDS = [
    pf.UsageError,
    pf.Refused,
    pf.LimitReached,
    pf.SourceError,
    pf.LedgerError,
    pf.InternalError,
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_a_pufferflow_error(kind):
    """A caller can catch everything of ours by one name, and each kind by its own."""
    with pytest.raises(pf.PufferflowError) as caught:
        raise kind("this was given", allowed="that", instead="those")
    assert type(caught.value) is kind
    assert str(caught.value) == "this was given\n  allowed: that\n  try: those"


def test_misuse_is_a_value_error():
    """Code that guards against bad values in general also catches ours; refusals are no such thing."""
    assert issubclass(pf.UsageError, ValueError)
    assert not issubclass(pf.Refused, ValueError)


@pytest.mark.parametrize("kind", KINDS)
def test_errors_survive_pickling(kind):
    """An error from a worker process arrives with its three parts."""
    error = pickle.loads(pickle.dumps(kind("a", allowed="b", instead="c")))
    assert (type(error), error.problem, error.allowed, error.instead) == (kind, "a", "b", "c")


@pytest.mark.parametrize("part", ["problem", "allowed", "instead"])
def test_no_part_of_an_error_moves_a_cursor(part):
    """Names from outside may have characters that a terminal obeys; they are escaped in every part of an error."""
    texts = {"problem": "No.", "allowed": "a", "instead": "b", part: "red\x1b[31m \u202e"}
    error = pf.UsageError(texts["problem"], allowed=texts["allowed"], instead=texts["instead"])
    for text in (getattr(error, part), str(error), str(pickle.loads(pickle.dumps(error)))):
        assert "\\x1b[31m \\u202e" in text
        assert "\x1b" not in text
