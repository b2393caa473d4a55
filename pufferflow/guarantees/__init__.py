"""What releases guarantee: pure and approximate, Rényi and concentrated, Gaussian and total-variation privacy."""

from typing import TYPE_CHECKING

from pufferflow.guarantees.guarantee import (
    PURE,
    AnyGuaranteeFamily,
    Approx,
    Divergence,
    Guarantee,
    GuaranteeFamily,
    Pure,
    every_promise,
)
from pufferflow.guarantees.promise import promise_of
from pufferflow.guarantees.renyi import ApproxRenyi, Renyi, RenyiCurve, Zcdp
from pufferflow.guarantees.trade_off import Gdp, TradeOff, Tv

if TYPE_CHECKING:
    Promise = Guarantee
else:  # msgspec has to be given every struct that it may decode
    Promise = every_promise()

__all__ = [
    "PURE",
    "AnyGuaranteeFamily",
    "Approx",
    "ApproxRenyi",
    "Divergence",
    "Gdp",
    "Guarantee",
    "GuaranteeFamily",
    "Promise",
    "Pure",
    "Renyi",
    "RenyiCurve",
    "TradeOff",
    "Tv",
    "Zcdp",
    "promise_of",
]
