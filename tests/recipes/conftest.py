"""The files of recipes are part of no test run here: `tests/test_recipes.py` runs them in a copy of the tree."""

collect_ignore_glob = ["*"]
