"""A command: `pufferflow convert`, with `--json`, an example that runs, and its section in the documentation."""

from recipes import after, each

ROW = "a command"
ADDED = {"convert.py": "pufferflow/cli/commands/convert.py"}
SECTION = """
## convert

```
pufferflow convert 0.5 --alpha 8
pufferflow convert 0.5 --delta 1e-9 --to-delta 1e-6
```

What a guarantee is worth as an epsilon with a delta: the least epsilon known, rounded up.

Keys: `promise`, `follows`.
"""
CHANGED = {
    "pufferflow/cli/app.py": each(
        after("\nimport typer\n\n", "from pufferflow.cli.commands.convert import convert\n"),
        lambda text: (
            f'{text}command(app, "convert", example="pufferflow convert 0.5 --alpha 8")(convert)\n'
        ),
    ),
    "docs/reference/commands.md": lambda text: text + SECTION,
}
CONTRACTS = [["tests/cli/test_documented.py", "-k", "not readme"]]
