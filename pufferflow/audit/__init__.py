"""Attacks on the library's own guarantees: lower bounds on epsilon that hold with a stated confidence.

Noise is calibrated from upper bounds that theorems prove. This package uses none of these theorems: it draws noisy
answers with the sampler of releases, searches for an event that distinguishes the two secrets, and counts. A lower
bound above the guarantee shows an error somewhere; one below it proves nothing.

>>> import pufferflow as pf
>>> audit = pf.audit.attack(pf.Laplace(1.0), [(pf.Law.point(0), pf.Law.point(1))], promise=pf.Pure(1.0), trials=20_000)
>>> audit.broken, audit.lower > 0.8
(False, True)
"""

from pufferflow.audit.attack import Attack, attack

__all__ = ["Attack", "attack"]
