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

Then: `pf.Ledger("ledger.db")` counts what many releases reveal together, under a limit; `pf.suggest` says which prior a
public reference supports; `plan.report("plan.html")` and `release.report("release.html")` write reports for people;
`pf.Job` and the command `pufferflow job init` publish on a schedule; `pf.audit.attack(plan)` attacks a plan.

`dir(pf)` lists all names, and `help(pf.protect)`, `help(pf.Batch)`, `help(pf.Scenario)` and `help(pf.Ledger)` say more.
They load when first used, so that importing the library takes no time. Errors are `pf.PufferflowError`; each says what
was given, what is allowed and what to try.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from pufferflow import namespace as _namespace  # registers `.puffer` on frames

del _namespace

if TYPE_CHECKING:
    from pufferflow import audit as audit
    from pufferflow import confounding as confounding
    from pufferflow import granularity as granularity
    from pufferflow import learning as learning
    from pufferflow import local as local
    from pufferflow import tradeoff as tradeoff
    from pufferflow.beliefs import Suggestion as Suggestion
    from pufferflow.beliefs import Suggestions as Suggestions
    from pufferflow.beliefs import suggest as suggest
    from pufferflow.bounds import DAGWM as DAGWM
    from pufferflow.bounds import GAWM as GAWM
    from pufferflow.bounds import GWM as GWM
    from pufferflow.bounds import Bound as Bound
    from pufferflow.bounds import Calibration as Calibration
    from pufferflow.bounds import Exact as Exact
    from pufferflow.bounds import Group as Group
    from pufferflow.bounds import JointCalibration as JointCalibration
    from pufferflow.bounds import Kantorovich as Kantorovich
    from pufferflow.bounds import Laws as Laws
    from pufferflow.bounds import Messages as Messages
    from pufferflow.bounds import Pair as Pair
    from pufferflow.bounds import Quilt as Quilt
    from pufferflow.bounds import calibrate as calibrate
    from pufferflow.bounds import calibrate_joint as calibrate_joint
    from pufferflow.bounds import loss as loss
    from pufferflow.bounds import robustness as robustness
    from pufferflow.composition import AccountForecast as AccountForecast
    from pufferflow.composition import Composed as Composed
    from pufferflow.composition import compare_accounting as compare_accounting
    from pufferflow.composition import compose as compose
    from pufferflow.composition import temporal_leakage as temporal_leakage
    from pufferflow.engine import table as table
    from pufferflow.errors import InternalError as InternalError
    from pufferflow.errors import LedgerError as LedgerError
    from pufferflow.errors import LimitReached as LimitReached
    from pufferflow.errors import PufferflowError as PufferflowError
    from pufferflow.errors import Refused as Refused
    from pufferflow.errors import SinkError as SinkError
    from pufferflow.errors import SourceError as SourceError
    from pufferflow.errors import UsageError as UsageError
    from pufferflow.errors import UtilityWarning as UtilityWarning
    from pufferflow.frame import Batch as Batch
    from pufferflow.frame import protect as protect
    from pufferflow.guarantees import Approx as Approx
    from pufferflow.guarantees import ApproxRenyi as ApproxRenyi
    from pufferflow.guarantees import Gdp as Gdp
    from pufferflow.guarantees import Guarantee as Guarantee
    from pufferflow.guarantees import Pure as Pure
    from pufferflow.guarantees import Renyi as Renyi
    from pufferflow.guarantees import RenyiCurve as RenyiCurve
    from pufferflow.guarantees import TradeOff as TradeOff
    from pufferflow.guarantees import Tv as Tv
    from pufferflow.guarantees import Zcdp as Zcdp
    from pufferflow.inference import laws as laws
    from pufferflow.jobs import Job as Job
    from pufferflow.jobs import JobRun as JobRun
    from pufferflow.jobs import Period as Period
    from pufferflow.law import GaussianLaw as GaussianLaw
    from pufferflow.law import Law as Law
    from pufferflow.ledger import Account as Account
    from pufferflow.ledger import Ledger as Ledger
    from pufferflow.noise import Gaussian as Gaussian
    from pufferflow.noise import GeneralizedCauchy as GeneralizedCauchy
    from pufferflow.noise import JointGaussian as JointGaussian
    from pufferflow.noise import Laplace as Laplace
    from pufferflow.noise import Noise as Noise
    from pufferflow.noise import Noisy as Noisy
    from pufferflow.noise import Staircase as Staircase
    from pufferflow.plan import Plan as Plan
    from pufferflow.planning import Certificate as Certificate
    from pufferflow.planning import Within as Within
    from pufferflow.queries import Statistic as Statistic
    from pufferflow.release import Release as Release
    from pufferflow.scenario import Bins as Bins
    from pufferflow.scenario import Derived as Derived
    from pufferflow.scenario import Initial as Initial
    from pufferflow.scenario import Interval as Interval
    from pufferflow.scenario import Presence as Presence
    from pufferflow.scenario import Scenario as Scenario
    from pufferflow.scenario import Secret as Secret
    from pufferflow.scenario import WithinDistance as WithinDistance
    from pufferflow.scenario.fitting import Reference as Reference
    from pufferflow.scenario.priors import AR1 as AR1
    from pufferflow.scenario.priors import AnyCorrelation as AnyCorrelation
    from pufferflow.scenario.priors import Diffusion as Diffusion
    from pufferflow.scenario.priors import Empirical as Empirical
    from pufferflow.scenario.priors import Exchangeable as Exchangeable
    from pufferflow.scenario.priors import GaussianMixture as GaussianMixture
    from pufferflow.scenario.priors import GaussianPrior as GaussianPrior
    from pufferflow.scenario.priors import Independent as Independent
    from pufferflow.scenario.priors import Kernel as Kernel
    from pufferflow.scenario.priors import LatentClass as LatentClass
    from pufferflow.scenario.priors import MarkovChain as MarkovChain
    from pufferflow.scenario.priors import Prior as Prior
    from pufferflow.scenario.priors import Simulator as Simulator
    from pufferflow.scenario.priors import Table as Table
    from pufferflow.scenario.priors import WeaklyDependent as WeaklyDependent
    from pufferflow.transport import AffineCoupling as AffineCoupling
    from pufferflow.transport import Certainty as Certainty
    from pufferflow.transport import Coupling as Coupling
    from pufferflow.transport import Distance as Distance
    from pufferflow.transport import near as near
    from pufferflow.transport import wasserstein as wasserstein
    from pufferflow.transport import winf as winf

_ROOMS = {
    "errors": (
        *("PufferflowError", "UsageError", "Refused", "LimitReached", "SourceError", "LedgerError", "SinkError"),
        "UtilityWarning",
        "InternalError",
    ),
    "guarantees": (
        "Guarantee",
        "Pure",
        "Approx",
        "Renyi",
        "RenyiCurve",
        "ApproxRenyi",
        "Zcdp",
        "Gdp",
        "TradeOff",
        "Tv",
    ),
    "law": ("Law", "GaussianLaw"),
    "transport": ("winf", "wasserstein", "near", "Distance", "Certainty", "Coupling", "AffineCoupling"),
    "noise": ("Noise", "Laplace", "Gaussian", "GeneralizedCauchy", "Staircase", "JointGaussian", "Noisy"),
    "bounds": (
        *("Bound", "GWM", "GAWM", "DAGWM", "Exact", "Group", "Kantorovich", "Messages", "Quilt", "Pair", "Laws"),
        *("calibrate", "calibrate_joint", "loss", "Calibration", "JointCalibration", "robustness"),
    ),
    "scenario": ("Scenario", "Secret", "Initial", "Presence", "Derived", "Interval", "Bins", "WithinDistance"),
    "scenario.priors": (
        *("Prior", "Independent", "MarkovChain", "GaussianPrior", "Exchangeable", "AR1", "Kernel", "LatentClass"),
        *("GaussianMixture", "Table", "Empirical", "Diffusion", "WeaklyDependent", "Simulator", "AnyCorrelation"),
    ),
    "scenario.fitting": ("Reference",),
    "queries": ("Statistic",),
    "inference": ("laws",),
    "engine": ("table",),
    "composition": ("compose", "Composed", "AccountForecast", "temporal_leakage", "compare_accounting"),
    "ledger": ("Ledger", "Account"),
    "plan": ("Plan",),
    "planning": ("Certificate", "Within"),
    "release": ("Release",),
    "frame": ("protect", "Batch"),
    "jobs": ("Job", "Period", "JobRun"),
    "beliefs": ("suggest", "Suggestion", "Suggestions"),
}
_WHOLE_ROOMS = ("audit", "confounding", "granularity", "learning", "local", "tradeoff")
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}
_NAMES = (*_ROOM_OF, *_WHOLE_ROOMS)

__all__ = list(_NAMES)  # pyright: ignore[reportUnsupportedDunderAll] - one list of names, kept above


def __getattr__(name: str) -> object:
    """Load a name from its module when it is first used (PEP 562)."""
    if name == "__version__":
        from importlib.metadata import version  # takes longer to load than all of this file

        return version("pufferflow")
    if name in _WHOLE_ROOMS:
        return import_module(f"pufferflow.{name}")
    if name not in _ROOM_OF:
        from pufferflow.suggestions import no_name_at_the_door

        raise no_name_at_the_door(name, _NAMES)
    value = getattr(import_module(f"pufferflow.{_ROOM_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the names in the public API."""
    return sorted(__all__)
