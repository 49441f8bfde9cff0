"""How long does `import sightline` take beside `import numpy`? Best of five."""

import subprocess
import sys

GOAL_S = 0.3


def best_seconds(module: str) -> float:
    """Return the shortest import in a fresh interpreter, start-up left out."""
    code = (
        "import time; start = time.perf_counter(); "
        f"import {module}; print(time.perf_counter() - start)"
    )
    runs = (
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        for _ in range(5)
    )
    return min(float(run.stdout) for run in runs)


if __name__ == "__main__":
    print(
        f"import sightline: {best_seconds('sightline'):.3f} s (goal {GOAL_S}), "
        f"of which numpy {best_seconds('numpy'):.3f} s"
    )
