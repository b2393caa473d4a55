"""A sink: one SQLite file with a row for each release, which is there once however often a job is run."""

from recipes import after, each

ROW = "a sink of jobs"
ADDED = {"database_sink.py": "pufferflow/jobs/database_sink.py"}
CHANGED = {
    "pufferflow/jobs/file.py": each(
        after(
            "from pufferflow.errors import Misuse\n",
            "from pufferflow.jobs.database_sink import DatabaseTable\n",
        ),
        after('"folder": FolderTable', ', "database": DatabaseTable'),
    ),
}
CONTRACTS = [["tests/jobs/test_sinks.py", "-k", "not with_one_kind"]]
