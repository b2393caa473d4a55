"""Every noise and guarantee of the public API is calibrated, planned, released, kept, shown and scheduled.

Both are found in the public API, so that a new one is held to this by being there.
"""

import functools
import inspect
import itertools
import json
import re

import pytest
from commands import run_command
from ons import ROWS, SCENARIO, write_job
from thinned import thinned

import pufferflow as pf


def concrete(base):
    """Return the classes in the public API below one of them that can be made."""
    found = [getattr(pf, name) for name in dir(pf)]
    return [
        one
        for one in found
        if inspect.isclass(one) and issubclass(one, base) and not inspect.isabstract(one)
    ]


NOISES = [one for one in concrete(pf.Noise) if one is not pf.Noise]
PROMISES = [one for one in concrete(pf.Guarantee) if one is not pf.Guarantee]
NUMBERS = {"alpha": 4.0, "delta": 1e-4, "tv": 0.28, "alphas": (2.0, 8.0), "epsilons": (0.6, 2.0)}
OWN = {"k": 4.0, "epsilon": 1.0}
"""What guarantees and families of noise take beside an epsilon and a scale."""
UNNAMED_PROMISES = {"RenyiCurve"}
"""Those that job files have no words for: they take numbers of their own."""
PAIR = pf.Law.point(0), pf.Law.point(1)
KEYS = """
{noise}
guarantee = {promise}
ledger = {{ account = "ons", limit = {limit} }}
sink = {{ report = false }}
"""


def guarantee_of(kind, epsilon=0.6):
    """Return a guarantee of a kind, each of its numbers by its name."""
    return kind(**numbers_of(kind, epsilon))


def numbers_of(kind, epsilon):
    names = list(inspect.signature(kind).parameters)
    found = {name: NUMBERS.get(name, epsilon) for name in names}
    found |= {
        name: tuple(epsilon / 0.6 * one for one in NUMBERS[name])
        for name in names
        if name == "epsilons"
    }
    return found | {name: min(epsilon / 0.6 * NUMBERS[name], 0.9) for name in names if name == "tv"}


@functools.cache
def family_of(noise, kind):
    """Return how a noise is asked for, so that it keeps a guarantee of a kind; or the error that says why it cannot."""
    ways, errors = [noise], []
    if hasattr(noise, "of"):
        needed = [
            name
            for name, one in inspect.signature(noise.of).parameters.items()
            if one.default is one.empty
        ]
        ways.append(noise.of(**{name: OWN.get(name, 1.0) for name in needed}))
    for way in ways:
        try:
            pf.calibrate([PAIR], guarantee_of(kind), noise=way)
        except pf.PufferflowError as error:
            errors.append(error)
        else:
            return way, None
    return None, errors[0]


def is_slow(noise, kind):
    """Staircase noise has numeric losses but for pure guarantees."""
    return noise is pf.Staircase and kind is not pf.Pure


every_pair = pytest.mark.parametrize(
    ("noise", "kind"),
    thinned(
        [
            pytest.param(
                one,
                other,
                id=f"{one.__name__}-{other.__name__}",
                marks=[pytest.mark.slow] * is_slow(one, other),
            )
            for one in NOISES
            for other in PROMISES
        ],
        0.34,
        unpack=True,
    ),
)


def batch():
    return pf.protect(ROWS, SCENARIO).private_sum("on", "load")


def test_what_is_at_the_door_is_found():
    """Laplace noise and pure guarantees are among what was found, and nothing below them was left out."""
    assert pf.Laplace in NOISES
    assert pf.Pure in PROMISES
    for base, known in ((pf.Noise, NOISES), (pf.Guarantee, PROMISES)):
        below = [one for one in base.__subclasses__() if one.__module__.startswith("pufferflow")]
        assert {one for one in below if not inspect.isabstract(one)} <= set(known)


@pytest.mark.parametrize("noise", thinned(NOISES, 0.8))
def test_every_noise_keeps_some_promise(noise):
    """No noise in the public API is refused for every guarantee."""
    assert any(family_of(noise, kind)[1] is None for kind in PROMISES)


@pytest.mark.parametrize("kind", PROMISES)
def test_every_promise_is_kept_by_some_noise(kind):
    """No guarantee in the public API is refused for every noise, and one is found where none is named."""
    assert any(family_of(noise, kind)[1] is None for noise in NOISES)
    assert type(batch().plan(guarantee_of(kind)).guarantee) is kind


@every_pair
def test_every_noise_with_every_promise_is_released_kept_and_shown(noise, kind, tmp_path):
    """A pair that mathematics allows is planned, released, read back from its ledger and shown; others are refused."""
    way, refusal = family_of(noise, kind)
    promise = guarantee_of(kind)
    if way is None:
        assert_helpful(refusal)
        with pytest.raises(pf.PufferflowError) as error:
            batch().plan(promise, noise=noise)
        assert_helpful(error.value)
        return
    plan = batch().plan(promise, noise=way)
    assert type(plan.noises["load"]) is noise
    assert repr(promise) in repr(plan)
    assert noise.__name__ in plan.summary()["noise"].item()
    assert_kept(plan, promise, noise, tmp_path)


def assert_kept(plan, promise, noise, folder):
    """Release a plan on an account, and find all of it again after the ledger was closed."""
    with pf.Ledger(folder / "ledger.db") as ledger:
        account = opened(ledger, promise)
        release = plan.release(account, id="one")
        assert account.after(plan).loss > account.spent().loss
    with pf.Ledger(folder / "ledger.db") as ledger:
        account, kept = ledger.account("ons"), ledger.account("ons").release("one")
        assert ledger.verify().entries == 3
        assert kept.frame.equals(release.frame)
        assert kept.certificate == release.certificate
        assert kept.certificate.promise == promise
        assert kept.certificate.sums[0].noise == noise.__name__
        assert plan.release(account, id="one").frame.equals(release.frame)
        spent = account.spent()
        if type(account.limit) is type(promise):
            assert spent.loss == pytest.approx(promise.loss, rel=1e-9)
        assert account.limit.implies(spent) or spent.loss < account.limit.loss
    assert pf.Certificate.from_json(release.certificate.to_json()) == release.certificate
    assert pf.Guarantee.from_json(promise.to_json()) == promise
    assert pf.Release.read(release.write_csv(folder / "one")).frame.equals(release.frame)


def opened(ledger, promise):
    """Return an account whose limit is of the kind of a guarantee, or an (epsilon, delta) limit if it can be none."""
    try:
        return ledger.open("ons", SCENARIO, limit=guarantee_of(type(promise), epsilon=6.0))
    except pf.PufferflowError as error:
        assert_helpful(error)
        return ledger.open("ons", SCENARIO, limit=pf.Approx(9.0, 1e-4))


@pytest.mark.slow
@pytest.mark.parametrize("one", [*NOISES, *(kind for kind in PROMISES if kind is not pf.Pure)])
def test_every_noise_and_every_promise_is_shown_on_pages(one, tmp_path):
    """The pages of the plan and of the release name the noise and the guarantee, that of the ledger the account."""
    noises, kinds = (
        ([one], sorted(PROMISES, key=lambda kind: len(numbers_of(kind, 1.0))))
        if one in NOISES
        else ([pf.Laplace, *NOISES], [one])
    )
    noise, kind = next(
        pair for pair in itertools.product(noises, kinds) if family_of(*pair)[1] is None
    )
    plan = batch().plan(guarantee_of(kind), noise=family_of(noise, kind)[0])
    word = re.sub("([a-z])([A-Z])", r"\1 \2", noise.__name__).casefold()
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        release = plan.release(opened(ledger, plan.guarantee), id="one")
        texts = [
            write(tmp_path / "page.html").read_text(encoding="utf-8")
            for write in (plan.report, release.report, ledger.report)
        ]
    for text in texts[:2]:
        assert word in text.casefold() or noise.__name__ in text
    assert kind.__name__ in texts[1]
    assert "ons" in texts[2]


def assert_helpful(error):
    """A refusal is one of mathematics or of use, says what is allowed and what to try, and is no bug of ours."""
    assert isinstance(error, pf.Refused | pf.UsageError)
    assert error.allowed or error.instead


# Job files


@pytest.fixture(scope="module")
def schema(tmp_path_factory):
    """The schema of job files, as the command line writes it."""
    path = tmp_path_factory.mktemp("schema") / "job.schema.json"
    assert run_command(["job", "schema", "-o", str(path)])[0] == 0
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture
def job(tmp_path, monkeypatch):
    """Return a function that writes a job with a noise and a guarantee, runs it, and returns the document."""
    monkeypatch.chdir(tmp_path)

    def run(promise, limit, noise="auto"):
        named = "" if noise == "auto" else f'noise = "{noise}"'
        write_job(tmp_path, KEYS.format(noise=named, promise=promise, limit=limit))
        code, out, _ = run_command(["run", "job.toml", "--period", "2024-01-01", "--json"])
        return code, json.loads(out)

    return run


def table(kind, epsilon=0.6):
    """Return a guarantee as job files write it."""
    numbers = {
        name: list(one) if isinstance(one, tuple) else one
        for name, one in numbers_of(kind, epsilon).items()
    }
    return "{ " + ", ".join(f"{name} = {number}" for name, number in numbers.items()) + " }"


def names_in(schema):
    """Return the names of noises that a job file may have."""
    return {
        name
        for kind in schema["$defs"]["JobFile"]["properties"]["noise"]["anyOf"]
        for name in kind.get("enum", ())
    }


@pytest.mark.parametrize("noise", thinned(NOISES, 0.5))
def test_every_noise_is_named_in_job_files(noise, schema, job):
    """`noise = "…"` runs with every noise."""
    name = noise.__name__.lower().removeprefix("generalized")
    kinds = [kind for kind in PROMISES if kind.__name__ not in UNNAMED_PROMISES]
    kind = next(kind for kind in kinds if family_of(noise, kind)[1] is None)
    code, document = job(table(kind), table(kind, 6.0), name)
    assert name in names_in(schema)
    assert code == 0, document
    assert [one["noise"] for one in document["runs"][0]["noise"]] == [noise.__name__]


@pytest.mark.parametrize("kind", thinned(PROMISES, 0.4))
def test_every_promise_is_named_in_job_files(kind, job):
    """`[guarantee]` and the account's limit take every guarantee of an epsilon, and the run keeps and shows it."""
    code, document = job(table(kind), table(kind, 6.0))
    if kind.__name__ in UNNAMED_PROMISES:
        assert (code, document["error"]["kind"]) == (2, "UsageError")
        assert "epsilon" in document["error"]["allowed"]
        return
    assert code == 0, document
    assert document["runs"][0]["promise"] == {"promise": kind.__name__, **numbers_of(kind, 0.6)}
    assert document["runs"][0]["state"] == "released"
    code, shown, _ = run_command(["ledger", "show", "ledger.db", "--json"])
    assert code == 0
    assert json.loads(shown)["accounts"][0]["spent"][kind.measure] == pytest.approx(0.6, rel=1e-9)
