"""What releases promise: pure and approximate, Rényi and concentrated, Gaussian and total-variation privacy."""

from pufferflow.guarantees.guarantee import PURE, AnyKind, Approx, Divergence, Guarantee, Kind, Pure
from pufferflow.guarantees.promise import Promise, promise_of
from pufferflow.guarantees.renyi import ApproxRenyi, Renyi, RenyiCurve, Zcdp
from pufferflow.guarantees.trade_off import Gdp, TradeOff, Tv

__all__ = [
    "PURE",
    "AnyKind",
    "Approx",
    "ApproxRenyi",
    "Divergence",
    "Gdp",
    "Guarantee",
    "Kind",
    "Promise",
    "Pure",
    "Renyi",
    "RenyiCurve",
    "TradeOff",
    "Tv",
    "Zcdp",
    "promise_of",
]
