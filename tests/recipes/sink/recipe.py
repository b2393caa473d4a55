"""A sink: one SQLite file with a row for each release, which is there once however often a job is run."""

from recipes import after

ROW = "a sink of jobs"
ADDED = {"database_sink.py": "connectors/pufferflow_connectors/sinks/database_sink.py"}
CHANGED = {
    "pyproject.toml": after(
        'folder = "pufferflow.jobs.sink:FolderTable"\n',
        'database = "pufferflow_connectors.sinks.database_sink:DatabaseTable"\n',
    ),
    "tests/support/sinks.py": after(
        "KINDS = [\n", '    SinkKind("database", \'file = "published.db"\', quick=True),\n'
    ),
}
CONTRACTS = [["tests/jobs/test_sinks.py"], ["tests/sinks/test_contract.py", "-k", "database"]]
