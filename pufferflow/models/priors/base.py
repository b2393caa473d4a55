"""The base of priors with their source."""

import abc
from typing import Any

from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.notebook import Card
from pufferflow.models.domain import Domain, Label, Product
from pufferflow.models.reference import Provenance
from pufferflow.models.secret import AnySecret
from pufferflow.models.stored import Stored

DECLARED = Provenance()


class Prior(Stored, abc.ABC, family="prior"):
    """What an adversary may assume about the rows of one correlated group before seeing any answer.

    To add a prior, write a frozen dataclass with its `kind` in a file of its own. List it in `priors/__init__.py` and
    in the public API. Register one method of `pufferflow.sensitivity` that derives the laws it implies.

    >>> import pufferflow as pf
    >>> isinstance(pf.Independent(), Prior)
    True
    """

    provenance: Provenance = DECLARED
    ordered: bool = False
    """Whether the rows form a sequence, so that a scenario has to name `order_by`."""
    independent_rows: bool = False
    """Whether the value of one row is independent of every other row, so that it moves nothing else."""
    any_law: bool = False
    """Whether rows are independent, and their laws may be any."""
    any_correlation: bool = False
    """Whether the rows of a group may depend on each other in any way (M7)."""
    coupled: bool = False
    """Whether its laws are known through one coupling of whole data sets, so that losses of releases add (M1, M24)."""
    shared_class: bool = False
    """Whether the rows of a group share a hidden class and are independent given it (M21)."""
    joint_laws: bool = False
    """Whether joint laws of many answers are listed value by value, which takes long."""
    allows_presence: bool = False
    """Whether it is a prior about units whose presence is the secret, `pf.Presence`."""
    allows_weights: bool = False
    """Whether the loss about rows is known for each public weight, and grows with it."""
    allows_tuples: bool = False
    """Whether its values may be the tuples of several columns, in the order of their domain."""
    allows_functions: bool = False
    """Whether the secret may be a linear function of a row's columns (`pf.Derived(…, of=)`)."""
    allows_missing: bool = False
    """Whether null may be one of its values, the last of the domain."""

    def _card(self) -> Card:
        says = f"An adversary whose prior is that {self.describe()}."
        return Card(f"Prior: {type(self).__name__}", lines=[says], code=repr(self))

    @abc.abstractmethod
    def describe(self) -> str:
        """Describe the prior of an adversary in words."""

    @classmethod
    def unknown(cls, kind: object) -> UsageError:
        return UsageError(
            f"The stored prior is of kind {kind!r}.",
            allowed=f"one of {sorted(cls.kinds)}",
            instead="a newer pufferflow",
        )

    @property
    def source_in_words(self) -> str:
        """The source of a prior that was not declared, for the end of its description."""
        return "" if self.provenance == DECLARED else f"; {self.provenance.describe()}"

    def check(self, secret: AnySecret) -> None:
        """Refuse a secret for which the prior gives no law; called when a scenario is made."""

    def about_tuples(self, domain: Product) -> "Prior":
        """Return the prior of a column of tuples; a prior that names its own columns gets one that joins them.

        A prior that says nothing about tuples is refused.
        """
        if not self.allows_tuples or not (domain.finite or self.independent_rows or self.coupled):
            lists = "" if domain.finite else ", some of which are intervals,"
            raise Refused(
                f"The prior pf.{type(self).__name__} has no known laws for several secret columns{lists}.",
                allowed="pf.Independent() or pf.AnyCorrelation(); on lists of values and pf.Bins also pf.MarkovChain, "
                "pf.LatentClass and pf.Table; on intervals alone pf.GaussianPrior with across=",
                instead=_in_classes(domain),
            )
        return self

    def of_population(self) -> "Prior":
        """Return the prior of the rows given a secret about the whole data set; most priors are refused."""
        raise Refused(
            f"The prior pf.{type(self).__name__} with the secret pf.Population: how rows depend on each other, given "
            "the law that they are drawn from, is not accounted for.",
            allowed="pf.Independent(), rows drawn one by one; or pf.AnyCorrelation(), for which all may change",
            instead="prior=pf.Independent()",
        )

    def check_missing(self, domain: Domain) -> None:
        """Refuse a state for missing values where the prior says nothing about it."""
        if self.allows_missing and (domain.finite or self.independent_rows or self.coupled):
            return
        if domain.finite:
            raise Refused(
                f'missing="skip" with the prior pf.{type(self).__name__}, which has no state for missing values.',
                allowed="pf.Independent(), pf.AnyCorrelation(), pf.LatentClass, or pf.MarkovChain with a state more",
                instead=f"missing={domain.present.points[0]!r}, or a value of the domain that stands for missing ones",
            )
        raise Refused(
            f'missing="skip" on an interval with the prior pf.{type(self).__name__}: what is missing is no number.',
            allowed="pf.Independent() or pf.AnyCorrelation(); on lists of values and pf.Bins also pf.MarkovChain",
            instead="missing= with a number of the interval, or pf.Bins(edges, values) as the domain",
        )

    def sometimes_impossible(self, secret: AnySecret) -> tuple[Label, ...]:
        """Return the values of a secret that have probability 0 at some position, where they need not be hidden.

        A value with probability 0 at every position is refused by `check`.
        """
        return ()

    def least_probability(self, secret: AnySecret) -> float:
        """Return a number not above the probability of any value that a row can have; 0 if none is known."""
        del secret
        return 0.0

    @property
    def columns(self) -> dict[str, Domain]:
        """The columns of private data that the prior itself describes, with the values they can have."""
        return {}

    @property
    def repeats(self) -> int | None:
        """The period of the laws: shifting all positions by a multiple of it changes no law; None without a period.

        With a period the laws do not depend on where a sequence began. It is 1 where rows have no order.
        """
        return None if self.ordered else 1


def _in_classes(domain: Product) -> str:
    """Return how a column that fills an interval can be declared in classes, or what else to do."""
    for column, own in zip(domain.columns, domain.domains, strict=True):
        if not own.finite:
            low, high = own.numbers.tolist()
            edges = [low, (low + high) / 2, high]
            values = f"[{(edges[0] + edges[1]) / 2:g}, {(edges[1] + edges[2]) / 2:g}]"
            classes = f"pf.Bins([{', '.join(f'{edge:g}' for edge in edges)}], values={values})"
            return (
                f"pf.Secret({column!r}, domain={classes}), or more classes: tuples are states then"
            )
    return f"a scenario for each column, or pf.MarkovChain with {len(domain.points)} states"


def belief_in_words(prior: Prior) -> str:
    """Describe a prior in words, without its source.

    >>> import pufferflow as pf
    >>> belief_in_words(pf.Independent())
    'rows are independent of each other'
    """
    return prior.describe().removesuffix(prior.source_in_words)


def stored_provenance(stored: dict[str, Any]) -> Provenance:
    """Return the provenance among the stored fields of a prior."""
    fields = stored.get("provenance")
    return DECLARED if fields is None else Provenance.restored(fields)


def wrong_secret(prior: str, secret: AnySecret, *, allowed: str, instead: str) -> UsageError:
    """Return the error for a secret to which a prior gives no law."""
    return UsageError(
        f"The prior {prior} does not work with the secret pf.{type(secret).__name__}.",
        allowed=allowed,
        instead=instead,
    )
