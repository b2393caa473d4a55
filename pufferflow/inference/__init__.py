"""The laws of an answer that secrets and priors imply; one method per file."""

from pufferflow.inference import classes as classes
from pufferflow.inference import transfer as transfer
from pufferflow.inference.implied import asked, implied
from pufferflow.inference.laws import laws

__all__ = ["asked", "implied", "laws"]
