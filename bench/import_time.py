"""How long do `import sightline`, its first uses and `--help` take? Best of five."""

import subprocess
import sys
import time

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


def best_run(*arguments: str) -> float:
    """Return the shortest time of a whole run of Python, its start-up included."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
        times.append(time.perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    for statement in STATEMENTS:
        goal = f" (goal {GOAL_S})" if statement == "import sightline" else ""
        print(f"{statement}: {best_seconds(statement):.3f} s{goal}")
    share = best_run("-m", "sightline", "--help") / best_run("-c", "import typer, rich")
    print(f"sightline --help: {share:.2f} times `import typer, rich` (goal 2.5)")
