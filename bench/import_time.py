"""How long do `import sightline` and its first uses take? Best of five."""

import subprocess
import sys

GOAL_S = 0.3
STATEMENTS = (
    "import sightline",
    "import numpy",
    "from sightline import ResidualStream",
    "from sightline import evaluate",
)


def best_seconds(statement: str) -> float:
    """Return the shortest time in a fresh interpreter, without its start-up."""
    code = (
        "import time; start = time.perf_counter(); "
        f"{statement}; print(time.perf_counter() - start)"
    )
    runs = (
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        for _ in range(5)
    )
    return min(float(run.stdout) for run in runs)


if __name__ == "__main__":
    for statement in STATEMENTS:
        goal = f" (goal {GOAL_S})" if statement == "import sightline" else ""
        print(f"{statement}: {best_seconds(statement):.3f} s{goal}")
