"""An engine: tables of SQLite, by the example as it is written, but for its last lines, which run it as a script."""

from recipes import after, each, instead

ROW = "an engine"
PLACE = "connectors/pufferflow_connectors/sqlite.py"
ADDED = {"../../../examples/sqlite_engine.py": PLACE}
CHANGED = {
    PLACE: each(
        lambda text: text.partition('\n\nif __name__ == "__main__":')[0],
        instead("import pufferflow as pf\n", ""),
    ),
    "pyproject.toml": after(
        '[project.entry-points."pufferflow.engines"]\n',
        'sqlite = "pufferflow_connectors.sqlite:connect"\n',
    ),
    "tests/engines/conftest.py": each(
        after('WIDEST = {"sqlite", ', '"adopted", '),
        after('MACHINES = [\n    "polars",\n', '    "adopted",\n'),
        instead(
            '    elif machine == "spark":\n',
            '    elif machine == "adopted":\n'
            "        from pufferflow_connectors.sqlite import connect\n"
            '        file = request.getfixturevalue("database_file")\n'
            "        yield lambda frame: connect(sqlite_rows.written(file, frame))\n"
            '    elif machine == "spark":\n',
        ),
    ),
}
CONTRACTS = [["tests/engines/test_differential.py", "-k", "adopted"]]
