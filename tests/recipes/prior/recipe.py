"""A prior: rows that are copies of one another or independent, whose laws are those of a hidden class."""

from recipes import after, each, instead, with_public_name

ROW = "a prior"
ADDED = {"clones.py": "pufferflow/models/priors/clones.py"}
METHOD = """@implied.register
def _(prior: Clones, statistic: Statistic, secret: AnySecret) -> Laws:
    prior.check(secret)
    return implied(prior.classes, statistic, secret)


"""
CHANGED = {
    **with_public_name("models.priors.clones", "Clones", "priors"),
    "pufferflow/models/priors/__init__.py": after(
        "\n\n", "from pufferflow.models.priors import clones as clones\n"
    ),
    "pufferflow/sensitivity/latent_class.py": each(
        after(
            "from pufferflow.models.priors.latent_class import LatentClass\n",
            "from pufferflow.models.priors.clones import Clones\n",
        ),
        instead("def _star(prior: LatentClass", f"{METHOD}def _star(prior: LatentClass"),
    ),
    "tests/sensitivity/test_contract.py": after(
        '    "table": (pf.Derived("ill"), pf.Table(ROWS)),\n',
        '    "clones": (VALUES, pf.Clones(0.2, [0.5, 0.3, 0.2])),\n',
    ),
}
CONTRACTS = [
    ["pufferflow/models/priors/clones.py", "tests/test_public_names.py"],
    ["tests/sensitivity/test_contract.py", "-k", "clones"],
]
