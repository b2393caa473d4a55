"""Sinks of every kind, in a folder and on servers of the tests' own."""

import itertools

import object_store
import postgres
import pytest
import sinks

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def postgres_of_sinks():
    with postgres.for_tests() as address:
        yield address


@pytest.fixture
def postgres_server(postgres_of_sinks):
    """The address of an empty schema."""
    return postgres.database(postgres_of_sinks, f"sink_{next(_NUMBERS)}")


@pytest.fixture(scope="session")
def s3_of_sinks():
    with object_store.bucket("releases") as bucket:
        yield bucket


@pytest.fixture
def s3_server(s3_of_sinks):
    """Keys of a sink in a bucket, under a name of its own."""
    options = {name: value for name, value in s3_of_sinks.options.items() if name != "max_retries"}
    written = ", ".join(f'{name} = "{value}"' for name, value in options.items())
    return f'address = "s3://releases/sink-{next(_NUMBERS)}"\noptions = {{ {written} }}'


EVERYWHERE = {"test_a_release_is_there_as_it_was"}
"""What is tried by default of every kind; the rest of those that take their time is in the slow run."""
REPEATED = {"test_a_process_that_stops_leaves_nothing_half_written"}
"""What the slow run has in another test, with other lines of the same kinds."""


def pytest_generate_tests(metafunc):
    if "kind" in metafunc.fixturenames:
        name = metafunc.function.__name__
        later = (
            []
            if name in EVERYWHERE
            else [pytest.mark.nightly if name in REPEATED else pytest.mark.slow]
        )
        kinds = [
            pytest.param(kind, marks=[] if kind.quick else later, id=kind.name)
            for kind in sinks.KINDS
        ]
        metafunc.parametrize("kind", kinds)


@pytest.fixture(params=[kind for kind in sinks.KINDS if kind.quick], ids=lambda kind: kind.name)
def quick(request):
    """A kind that takes milliseconds."""
    return request.param


@pytest.fixture
def server(kind, request):
    """The address of the server that a kind needs."""
    return request.getfixturevalue(kind.needs) if kind.needs else ""


@pytest.fixture
def opened(kind, server, tmp_path):
    """Open the sink, anew each time, as processes do."""
    return lambda job=sinks.JOB: kind.table(server, tmp_path).open(tmp_path, job)
