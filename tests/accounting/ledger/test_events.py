"""What events owe: they read back as they were written, by one text each, and cost as much as what they stand for."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledgers import ready

import pufferflow as pf
from pufferflow.accounting.ledger import events
from pufferflow.accounting.ledger.events import (
    EMPTY,
    Committed,
    Head,
    Opened,
    Reserved,
    StoredCost,
    Superseded,
)
from pufferflow.published.cost import Cost, Region

FINITE = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
PROMISES = st.one_of(
    st.builds(pf.Pure, st.floats(0, 1e300)),
    st.builds(pf.Approx, st.floats(0, 9), st.floats(0, 0.9)),
    st.builds(pf.Renyi, st.floats(1.001, 1e9), st.floats(0, 9)),
    st.builds(pf.RenyiCurve, st.just([2, 4]), st.lists(st.floats(0, 9), min_size=2, max_size=2)),
    st.builds(pf.ApproxRenyi, st.floats(1.001, 99), st.floats(0, 9), st.floats(0, 0.9)),
)
REGIONS = st.builds(
    Region, st.just("number"), labels=st.lists(FINITE | st.none(), max_size=3).map(tuple)
)
WHOLE = st.integers(-(2**53), 2**53)
COSTS = st.builds(
    StoredCost,
    TEXTS,
    WHOLE,
    st.none() | st.tuples(WHOLE, WHOLE),
    st.none() | FINITE,
    st.dictionaries(TEXTS, REGIONS, max_size=2),
    TEXTS,
)
COMMON = {"number": st.integers(1, 2**53), "account": TEXTS, "at": TEXTS}
EVENTS = st.one_of(
    st.builds(
        Opened,
        **COMMON,
        dataset=TEXTS,
        separate=st.booleans(),
        limit=PROMISES,
        scenario=TEXTS,
        fingerprint=TEXTS,
    ),
    st.builds(Superseded, **COMMON, scenario=TEXTS, fingerprint=TEXTS),
    st.builds(
        Reserved,
        **COMMON,
        release=TEXTS,
        plan=TEXTS,
        fingerprint=TEXTS,
        promise=PROMISES,
        asked=st.lists(TEXTS, max_size=2).map(tuple),
        certainty=TEXTS,
        cost=COSTS,
        total=FINITE,
        rule=TEXTS,
        method=st.none() | TEXTS,
    ),
    st.builds(Committed, **COMMON, entry=st.integers(1, 2**53), payload=TEXTS),
)


@pytest.mark.slow
@settings(max_examples=150)
@given(EVENTS)
def test_every_event_reads_back(event):
    """An event reads back as the same, from one text only, with its keys in order; briefly it says no less."""
    body = events.encode(event)
    assert events.decode(body) == event
    assert events.decode_all([body, body]) == [event, event]
    assert list(json.loads(body)) == sorted(json.loads(body))
    assert events.decode(body.replace(b":", b": ", 1)) is None
    (brief,) = events.summarize([body])
    assert all(getattr(brief, name) == getattr(event, name) for name in brief.__struct_fields__)


def test_a_cost_is_stored_whole():
    """What events keep of a cost is all of it, but for what was published, which stands in the release."""
    kept = [field.name for field in msgspec.structs.fields(StoredCost)]
    assert [*kept, "answered"] == [field.name for field in msgspec.structs.fields(Cost)]
    region = {"day": Region("number", labels=(1,))}
    cost = msgspec.structs.replace(
        ready().cost, offset=7, steps_seen=(1, 9), start=-3.5, regions=region, clock="hour"
    )
    assert StoredCost.of(cost).with_shape(cost.shape) == cost


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"kind":"commit"}', "\udcff", "}{"])
def test_texts_that_are_no_events(text):
    """What is no event is none."""
    body = text.encode(errors="surrogatepass")
    assert events.decode(body) is None
    assert events.summarize([body]) is None
    assert events.decode_all([body]) is None


def test_no_two_texts_make_one():
    """Several texts are as many events: none can pass for two."""
    body = events.encode(Committed(1, "a", "", 1, "x"))
    assert events.summarize([body + b"," + body]) is None
    assert events.decode_all([b"", b""]) is None


def test_heads():
    """A head is a number and a hash, and depends on everything before it."""
    one, other = EMPTY.after(b"a"), EMPTY.after(b"b")
    assert one.number == other.number == 1
    assert one.after(b"c") != other.after(b"c")
    assert events.read_head(str(one)) == one
    assert events.read_head(str(EMPTY)) == Head(0, "0" * 64)
