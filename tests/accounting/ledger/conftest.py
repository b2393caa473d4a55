"""Ledgers to test with: in a file, and on a PostgreSQL server that the tests start."""

import itertools

import postgres
import pytest

from pufferflow.accounting.ledger.ledger import Ledger

_numbers = itertools.count()


@pytest.fixture(scope="session")
def server():
    """The address of a server; without its programs tests are skipped, but not where everything has to be there."""
    with postgres.for_tests() as address:
        yield address


@pytest.fixture
def new_database(server):
    """A function that makes an empty database and returns its address."""
    return lambda: postgres.database(server, f"test_{next(_numbers)}")


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request, tmp_path):
    """Where a ledger may be made: a file, then a database."""
    if request.param == "sqlite":
        return str(tmp_path / "ledger.db")
    return request.getfixturevalue("new_database")()


@pytest.fixture(params=["sqlite", "postgresql"])
def addresses(request, tmp_path):
    """Any number of places for ledgers: files, then databases."""
    if request.param == "sqlite":
        return (str(tmp_path / f"{number}.db") for number in itertools.count())
    make = request.getfixturevalue("new_database")
    return (make() for _ in itertools.count())


@pytest.fixture
def ledger(address):
    """An empty ledger in each kind of database."""
    with Ledger(address, wait=20) as found:
        yield found


@pytest.fixture
def file(tmp_path):
    """The path of a ledger in a file."""
    return tmp_path / "ledger.db"
