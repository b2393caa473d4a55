"""Which states of a chain are possible: values that never are would be hidden from nobody, and are refused."""

import numpy as np
import pytest
from thinned import thinned

import pufferflow as pf
from pufferflow.models.priors.transition_kernels import possible_at_rest, possible_from

VALUES = ["working", "failing", "failed"]
WEARS = [[0.9, 0.1, 0.0], [0.0, 0.8, 0.2], [0.0, 0.0, 1.0]]
SECRET = pf.Secret("state", domain=VALUES)


def scenario(prior, secret=SECRET):
    return pf.Scenario(secret, prior, order_by="hour")


def random_chain(rng, states, turns):
    links = rng.random((turns, states, states)) < 0.4
    links[:, np.arange(states), rng.integers(0, states, states)] |= True
    kernels = links * rng.random((turns, states, states))
    return kernels / kernels.sum(axis=2, keepdims=True)


@pytest.mark.parametrize("seed", range(30))
def test_supports_are_those_of_the_marginals(seed):
    """States are possible exactly where the law of a long walk gives them a probability."""
    rng = np.random.default_rng(seed)
    states, turns = int(rng.integers(2, 6)), int(rng.integers(1, 4))
    kernels, law = (
        random_chain(rng, states, turns),
        rng.dirichlet(np.ones(states)) * (rng.random(states) < 0.5),
    )
    law = law / law.sum() if law.any() else np.eye(states)[0]
    laws = [law]
    for step in range(400):
        laws.append(laws[-1] @ kernels[step % turns])
    found = possible_from(law[None], kernels, repeated=True)
    assert (found.some == (np.array(laws) > 0).any(axis=0)).all()
    assert (found.every == (np.array(laws) > 0).all(axis=0)).all()


@pytest.mark.parametrize("seed", thinned(range(30), 0.53))
def test_states_at_rest_are_those_of_the_stationary_law(seed):
    """Of a single chain they have a weight in the law that its turns leave as it is; some other start would do, too."""
    rng = np.random.default_rng(seed)
    states, turns = int(rng.integers(2, 6)), int(rng.integers(1, 4))
    kernels = random_chain(rng, states, turns)
    found = possible_at_rest(kernels, kernels)
    laws = [rng.dirichlet(np.ones(states))]
    for step in range(4000 * turns):
        laws.append(laws[-1] @ kernels[step % turns])
    far = np.array(laws[-turns:])
    assert (found.some == (far > 1e-9).any(axis=0)).all()


@pytest.mark.parametrize("seed", range(20))
def test_no_member_of_a_class_has_more_states_at_rest(seed):
    """What a member has in its stationary law is possible for the class; what is not possible no member has."""
    rng = np.random.default_rng(seed)
    middle = random_chain(rng, 4, 1)
    low, high = middle * (rng.random(middle.shape) < 0.5) * 0.5, np.minimum(middle * 1.5, 1.0)
    found = possible_at_rest(low, high)
    for _ in range(20):
        member = np.clip(middle + (rng.random(middle.shape) - 0.5) * 0.2 * (middle > 0), low, high)
        spare = 1 - low.sum(axis=2, keepdims=True)
        room = (member - low) / np.maximum((member - low).sum(axis=2, keepdims=True), 1e-300)
        member = low + room * spare
        if (member > high + 1e-12).any():
            continue
        assert (found.some >= possible_at_rest(member, member).some).all()


def test_a_class_may_stay_where_its_members_may():
    """A state that members may leave, and need not, is possible at rest; one that all of them leave for ever is not."""
    low, high = [[0.5, 0.0], [0.0, 1.0]], [[1.0, 0.5], [0.0, 1.0]]
    assert scenario(pf.MarkovChain.between(low, high), pf.Secret("state", [0, 1])).priors
    with pytest.raises(pf.UsageError, match="state = 0 no probability at any step"):
        scenario(pf.MarkovChain.between([[0.5, 0.1], [0.0, 1.0]], high), pf.Secret("state", [0, 1]))


@pytest.mark.parametrize(
    ("prior", "secret", "value"),
    [
        (pf.MarkovChain(WEARS), SECRET, "working"),
        (pf.MarkovChain(WEARS, initial=[0, 1, 0]), SECRET, "working"),
        (
            pf.MarkovChain([WEARS] * 2, initial=[1, 0, 0]),
            pf.Secret("state", [*VALUES[:2], "scrapped"]),
            None,
        ),
        (pf.MarkovChain([WEARS], initial=[1, 0, 0]), SECRET, "failed"),
        (pf.MarkovChain(WEARS, initial=[0.5, 0.5, 0]), pf.Initial("state", VALUES), "failed"),
        (pf.MarkovChain([WEARS, np.eye(3)], period=2), SECRET, "working"),
        (pf.MarkovChain.between(WEARS, WEARS), SECRET, "working"),
    ],
)
def test_a_value_that_is_never_possible_is_refused(prior, secret, value):
    """The refusal names prior and value, and says how a chain may start instead."""
    if value is None:
        assert scenario(prior, secret).priors
        return
    with pytest.raises(pf.UsageError, match=f"gives state = '{value}' no probability") as refused:
        scenario(prior, secret)
    assert "initial='free'" in refused.value.instead


@pytest.mark.parametrize("initial", ["free", [1.0, 0.0, 0.0], [0.2, 0.3, 0.5]])
def test_what_is_possible_somewhere_is_accepted(initial):
    """The remedies of the refusal lead somewhere: a start that all may have, or a known one that leads everywhere."""
    prior = pf.MarkovChain(WEARS, initial=initial)
    assert scenario(prior).priors == (prior,)
    known = initial == [1.0, 0.0, 0.0]
    assert prior.sometimes_impossible(SECRET) == (("failing", "failed") if known else ())
