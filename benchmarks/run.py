"""Run every benchmark of this folder, one process each; those whose peer is missing say so and are passed over."""

import subprocess
import sys
from pathlib import Path

if __name__ == "__main__":
    here = Path(__file__).parent
    failed = [
        script.name
        for script in [*sorted(here.glob("*_*.py")), here / "years.py"]
        if subprocess.run([sys.executable, script], check=False).returncode
    ]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")
