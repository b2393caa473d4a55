"""The scripts of `.ci`, which are no package, as modules."""

import importlib.util

from page_blocks import ROOT


def ci_script(name):
    """Return a script by its name without `.py`."""
    spec = importlib.util.spec_from_file_location(name, ROOT / ".ci" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
