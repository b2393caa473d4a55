"""A noise: the logistic law, which keeps pure guarantees as Laplace noise does, and is smooth at 0."""

from recipes import after, each, instead, with_public_name

ROW = "a noise"
ADDED = {"logistic.py": "pufferflow/noise/logistic.py"}
CHANGED = {
    **with_public_name("noise.logistic", "Logistic", "noises"),
    "pufferflow/noise/__init__.py": after(
        "\n\n", "from pufferflow.noise import logistic as logistic\n"
    ),
    "pufferflow/noise/names.py": each(
        after(
            "from pufferflow.noise.laplace import Laplace\n",
            "from pufferflow.noise.logistic import Logistic\n",
        ),
        after('Literal["laplace", "gaussian"', ', "logistic"'),
        after('"gaussian": Gaussian', ', "logistic": Logistic'),
    ),
    "tests/noise/test_contract.py": after(
        '    "gaussian": pf.Gaussian,\n', '    "logistic": pf.Logistic,\n'
    ),
    "tests/noise/test_drawing.py": after(
        '    "gaussian": pf.Gaussian,\n', '    "logistic": pf.Logistic,\n'
    ),
    "tests/support/noisy.py": each(
        instead(
            "        case pf.Gaussian(sigma):\n            return",
            "        case pf.Logistic(s):\n            return stats.logistic.logpdf(x, scale=s)\n"
            "        case pf.Gaussian(sigma):\n            return",
        ),
        instead(
            "        case pf.Gaussian(sigma):\n            known =",
            "        case pf.Logistic(s):\n            known = stats.logistic(scale=s)\n"
            "        case pf.Gaussian(sigma):\n            known =",
        ),
        after('"Laplace": 60.0', ', "Logistic": 60.0'),
    ),
}
CONTRACTS = [
    ["pufferflow/noise/logistic.py", "tests/test_public_names.py"],
    ["tests/noise/test_contract.py", "tests/noise/test_drawing.py", "-k", "logistic"],
    ["tests/test_every_noise_and_guarantee.py", "-k", "Logistic"],
]
