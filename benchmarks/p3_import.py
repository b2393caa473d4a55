"""P3: `import pufferflow` beside `import polars`, each in a process of its own (limit 1.3)."""

import subprocess
import sys

from measure import compare, report


def importing(module: str) -> None:
    """Import a module in a fresh interpreter."""
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)


if __name__ == "__main__":
    rows = [
        compare(
            "import pufferflow",
            lambda: importing("pufferflow"),
            "import polars",
            lambda: importing("polars"),
            limit=1.3,
            rounds=11,
        )
    ]
    report("p3_import", rows)
