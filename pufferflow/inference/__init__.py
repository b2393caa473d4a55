"""The laws of an answer that secrets and priors imply; one method per file, each of which registers its priors."""

from pufferflow.inference import classes as classes
from pufferflow.inference import mixture as mixture
from pufferflow.inference import samples as samples
from pufferflow.inference import shift as shift
from pufferflow.inference import table as table
from pufferflow.inference import transfer as transfer
from pufferflow.inference.implied import asked, implied
from pufferflow.inference.laws import laws
from pufferflow.inference.pattern import of_pattern, window
from pufferflow.inference.shorter import Shorter

__all__ = ["Shorter", "asked", "implied", "laws", "of_pattern", "window"]
