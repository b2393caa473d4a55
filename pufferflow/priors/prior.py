"""What every prior owes: words for people, plain values for the fingerprint, and where it comes from."""

import abc
import hashlib
from dataclasses import dataclass, field
from typing import Any, final

from pufferflow.errors import Misuse
from pufferflow.priors.origin import Origin
from pufferflow.secrets import AnySecret, Domain
from pufferflow.secrets.domain import Label


@final
@dataclass(frozen=True)
class Provenance:
    """Where a prior comes from: declared by a person, or fitted on a named public reference."""

    reference: str | None = None
    rows: int = 0
    digest: str = ""
    notes: tuple[str, ...] = field(default=())
    origin: Origin | None = field(default=None, compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy without the origin, which is a matter of this process."""
        return Provenance, (self.reference, self.rows, self.digest, self.notes)

    def describe(self) -> str:
        """Say in words where the prior comes from, and what fitting found wrong with it."""
        return "; ".join([self.origin_in_words, *self.notes])

    @property
    def origin_in_words(self) -> str:
        """Where the prior comes from."""
        if self.reference is None:
            return "declared"
        return f"fitted on {self.rows} rows of the public reference {self.reference!r}"

    def stored(self) -> dict[str, Any]:
        """Return all fields as plain values."""
        return {"reference": self.reference, "rows": self.rows, "digest": self.digest, "notes": list(self.notes)}


DECLARED = Provenance()


class Prior(abc.ABC):
    """What an adversary may believe of the rows of one correlated group, before seeing any answer.

    To add one, write a frozen dataclass with these methods in a file of its own, give it a place in `restored_prior`,
    and teach one method of `pufferflow.inference` to derive the laws it implies, if none covers it yet.

    >>> import pufferflow as pf
    >>> isinstance(pf.Independent(), Prior)
    True
    """

    provenance: Provenance = DECLARED

    @abc.abstractmethod
    def describe(self) -> str:
        """Say in words what an adversary may believe."""

    @abc.abstractmethod
    def stored(self) -> dict[str, Any]:
        """Return the prior as plain values, with its `kind`, for JSON and the fingerprint."""

    def fingerprint(self) -> Any:
        """Return plain values that equal priors share; what `stored` gives, if the prior can be stored."""
        return self.stored()

    def check(self, secret: AnySecret) -> None:
        """Refuse a secret that the prior says nothing about; called when a scenario is made."""
        del secret

    def sometimes_impossible(self, secret: AnySecret) -> tuple[Label, ...]:
        """Return the values of a secret that have no probability at some positions: there they need not be hidden.

        A value that has none at any position is refused by `check`: it would be hidden from nobody anywhere.
        """
        del secret
        return ()

    @property
    def columns(self) -> dict[str, Domain]:
        """The columns of private data that the prior itself speaks of, with the values they can have."""
        return {}

    @property
    def ordered(self) -> bool:
        """Whether the rows form a sequence, so that a scenario has to name `order_by`."""
        return False

    @property
    def repeats(self) -> int | None:
        """By multiples of how many steps all positions may be shifted without changing any law; None: by none.

        The laws then do not depend on where a sequence began. 1 where rows have no order.
        """
        return None if self.ordered else 1

    @property
    def alone(self) -> bool:
        """Whether the rows of a group tell nothing of each other, so that the values of one row move nothing else."""
        return False


def belief_in_words(prior: Prior) -> str:
    """Return what a prior says, without where it comes from.

    >>> import pufferflow as pf
    >>> belief_in_words(pf.Independent())
    'rows are independent of each other'
    """
    return prior.describe().removesuffix(f"; {prior.provenance.describe()}")


def stored_provenance(prior: Prior) -> dict[str, Any]:
    """Return the provenance to store, if there is any to speak of."""
    return {} if prior.provenance == DECLARED else {"provenance": prior.provenance.stored()}


def restored_provenance(fields: dict[str, Any]) -> Provenance:
    """Take the provenance out of stored fields."""
    stored = fields.pop("provenance", None)
    if stored is None:
        return DECLARED
    return Provenance(stored["reference"], stored["rows"], stored["digest"], tuple(stored["notes"]))


def digest(content: bytes) -> str:
    """Return a short fingerprint of a reference."""
    return hashlib.sha256(content).hexdigest()[:16]


def wrong_secret(prior: str, secret: AnySecret, *, allowed: str, instead: str) -> Misuse:
    """Return the error for a secret that a prior cannot speak of."""
    return Misuse(f"The prior {prior} with the secret pf.{type(secret).__name__}.", allowed=allowed, instead=instead)
