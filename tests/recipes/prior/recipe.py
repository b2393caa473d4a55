"""A prior: rows that are copies of one another or independent, whose laws are those of a hidden class."""

from recipes import after, at_the_door, each, instead

ROW = "a prior"
ADDED = {"clones.py": "pufferflow/scenario/priors/clones.py"}
METHOD = """@implied.register
def _(prior: Clones, statistic: Statistic, secret: AnySecret) -> Laws:
    prior.check(secret)
    return implied(prior.classes, statistic, secret)


"""
CHANGED = {
    **at_the_door("scenario.priors", "Clones"),
    "pufferflow/scenario/priors/__init__.py": each(
        after('together."""\n\n', "from pufferflow.scenario.priors.clones import Clones\n"),
        after('    "ChainsBetween",\n', '    "Clones",\n'),
    ),
    "pufferflow/inference/mixture.py": each(
        instead("priors import LatentClass", "priors import Clones, LatentClass"),
        instead("def _star(prior: LatentClass", f"{METHOD}def _star(prior: LatentClass"),
    ),
    "tests/inference/test_contract.py": after(
        '    "table": (pf.Derived("ill"), pf.Table(ROWS)),\n',
        '    "clones": (VALUES, pf.Clones(0.2, [0.5, 0.3, 0.2])),\n',
    ),
}
CONTRACTS = [
    ["pufferflow/scenario/priors/clones.py", "tests/test_door.py"],
    ["tests/inference/test_contract.py", "-k", "clones"],
]
