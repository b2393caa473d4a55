"""Publish statistics of correlated data with a guarantee that holds although rows depend on each other.

What to do first, on rows of your own:

    >>> import polars as pl, pufferflow as pf
    >>> rows = pl.DataFrame({"hour": range(48), "on": [0, 0, 1, 1] * 12})    # or pl.scan_parquet("power.parquet")
    >>> secret = pf.Secret("on", domain=[0, 1])                  # 1. what must stay hidden: the value of each row
    >>> prior = pf.MarkovChain([[0.9, 0.1], [0.3, 0.7]])         # 2. the prior of an adversary; or pf.Independent()
    >>> scenario = pf.Scenario(secret, prior, order_by="hour")
    >>> batch = pf.protect(rows, scenario).private_sum("on")     # 3. the queries; nothing is read yet
    >>> plan = batch.plan(pf.Pure(1.0))                          # 4. how noisy, at which epsilon; no private row read
    >>> scale, words = plan.noises["on_sum"].scale, plan.explain()
    >>> release = plan.release()                                 # 5. the numbers, with error bars and a certificate
    >>> release.frame.columns, release.intervals.columns
    (['on_sum'], ['on_sum_low', 'on_sum_high'])

Then:

- `pf.Ledger("ledger.db")` counts what many releases reveal together, under a limit
- `pf.suggest` says which prior a public reference supports
- `plan.report("plan.html")` and `release.report("release.html")` write reports for people
- `pf.Job` and the command `pufferflow job init` publish on a schedule
- `pf.audit.attack(plan)` attacks a plan

`dir(pf)` lists all names, and `help(pf.protect)`, `help(pf.Batch)`, `help(pf.Scenario)` and `help(pf.Ledger)` say more.
They load when first used, so that importing the library takes no time. Errors are `pf.PufferflowError`; each says what
was given, what is allowed and what to try.
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import Final

from pufferflow import namespace as _namespace  # registers `.puffer` on frames

del _namespace

_STUB: Final = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
_MODULES: Final = {
    alias.name: node.module or ""
    for node in _STUB.body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}
"""The module of each public name, as the stub lists them."""

__all__ = list(_MODULES)  # pyright: ignore[reportUnsupportedDunderAll] - the stub is the list of names


def __getattr__(name: str) -> object:
    """Load a name from its module when it is first used (PEP 562)."""
    if name == "__version__":
        from importlib.metadata import version  # takes longer to load than all of this file

        return version("pufferflow")
    if name not in _MODULES:
        from pufferflow.core.suggestions import no_public_name

        raise no_public_name(name, __all__)
    module = _MODULES[name]
    is_package = Path(__file__).parents[1].joinpath(*module.split("."), name).is_dir()
    value = (
        import_module(f"{module}.{name}") if is_package else getattr(import_module(module), name)
    )
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the names in the public API."""
    return sorted(__all__)
