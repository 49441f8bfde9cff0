"""Figures of the ladder on one made-up stream, with labels taken as they are.

    python tests/golden_ladder.py

wrote ``golden/ladder.json`` with the code before label slop was known. The old rungs
must give them to the last bit where the slop is 0 and no attack is longer than its
windows.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from judged_streams import calm_stream, with_test

from sightline import ResidualStream, evaluate

PATH = Path(__file__).parent / "golden" / "ladder.json"
OLD = ("own-rule", "probe", "evidence", "reference", "space", "memory", "quiet")


def golden_stream(**known: Any) -> ResidualStream:
    """Return a stream with one attack for most rungs, and drift in its second half."""
    places = ((700, 800), (1400, 1460), (2300, 2420), (3200, 3260), (4400, 4500))
    alarms = np.zeros(6000, np.int8)
    alarms[[300, 1410, 2500, *range(720, 760)]] = 1
    stream = calm_stream(*places, seed=5, alarms=alarms, **known)

    def change(test: np.ndarray) -> None:
        test[3000:] += 0.8
        test[700:800] *= 2.5
        test[1400:1404] += 9.0
        test[2300:2420, 3] += 0.9
        test[3200:3260] *= 0.3
        test[4400:4500] -= 1.2

    return with_test(stream, change)


def figures(stream: ResidualStream) -> list[dict[str, Any]]:
    """Return what the old rungs say of each attack."""
    found = []
    for segment in evaluate(stream, intervals=False, metrics="none").segments:
        rungs = {
            name: [
                one.coverage,
                one.calm,
                one.limit,
                one.p_value,
                one.peak,
                one.onset,
                list(one.by),
            ]
            for name, one in (segment.ladder or {}).items()
            if name in OLD
        }
        figures = [segment.auc, segment.coverage, segment.d_eff, segment.first_alarm]
        found.append({"ladder": rungs, "figures": figures})
    return found


if __name__ == "__main__":
    PATH.write_text(json.dumps(figures(golden_stream()), indent=1) + "\n")
