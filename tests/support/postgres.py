"""A PostgreSQL server of the tests' own: in a folder that goes away, on a socket there, run without rights."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
import sqlalchemy as sa

PLACES = "/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/bin", "/usr/local/bin"
OTHERS = "postgres", "nobody"
"""Who runs the server if the tests are run by root, which PostgreSQL refuses."""


def binaries():
    """Return where `initdb` and `postgres` are; None if they are nowhere."""
    paths = [Path(place) for place in os.get_exec_path()]
    found = [
        place for pattern in PLACES for place in sorted(Path("/").glob(pattern[1:]), reverse=True)
    ]
    for place in [*found, *paths]:
        if (place / "initdb").exists() and (place / "postgres").exists():
            return place
    return None


@contextlib.contextmanager
def for_tests():
    """Start a server; without its programs tests are skipped, but not where everything has to be there."""
    place = binaries()
    if place is None:
        reason = "there is no PostgreSQL here (initdb, postgres): `make system` installs it"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with server(place, "fsync=off", "max_connections=60") as address:
        yield address


CREATE = (
    "CREATE DATABASE {name} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
)


@contextlib.contextmanager
def server(place, *settings):
    """Start a server and yield its address; end it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="pufferflow-"))
    who = _somebody(folder)
    try:
        data = str(folder / "data")
        command = [
            place / "initdb",
            "-D",
            data,
            "-U",
            "ledger",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-sync",
        ]
        subprocess.run(command, check=True, capture_output=True, cwd=folder, **who)
        options = [f"unix_socket_directories={folder}", "listen_addresses=", *settings]
        command = [
            place / "postgres",
            "-D",
            data,
            *(word for option in options for word in ("-c", option)),
        ]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, **who)
        try:
            yield _ready(f"postgresql+psycopg://ledger@/postgres?host={folder}", process)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def database(address, name):
    """Make an empty schema, which is as good as a database and quicker made; return its address."""
    engine = sa.create_engine(address, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE SCHEMA {name}")
    return f"{address}&options=-csearch_path%3D{name}"


def _somebody(folder):
    if os.getuid() != 0:
        return {}
    names = [name for name in OTHERS if any(one.pw_name == name for one in pwd.getpwall())]
    shutil.chown(folder, names[0])
    return {"user": names[0], "group": pwd.getpwnam(names[0]).pw_gid, "extra_groups": []}


def _ready(address, process, seconds=60):
    engine = sa.create_engine(address, poolclass=sa.NullPool)
    deadline = time.monotonic() + seconds
    while True:
        try:
            with engine.connect():
                return address
        except sa.exc.OperationalError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
