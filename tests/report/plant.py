"""A small plant with names that would break a careless page, and its results."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from sightline import Attack, Evaluation, ResidualStream, evaluate, write_results
from sightline.judgement.verdicts import RungName, RungOutcome

SCRIPT = "<script>alert(1)</script>"
CHANNELS = (SCRIPT, "LIT101", "FIT101", "P101", "AIT&201", "MV'101\"")
NOTE = "</script><img src=x onerror=alert(2)>"
QUOTED = 'o\'det "<b>x</b>"'
PLAIN = "var"
N_TRAIN, N_TEST = 3000, 4000
SPANS = [(300, 360), (700, 820), (1200, 1300), (1700, 1740), (2300, 2420), (3000, 3100)]


def stream(
    detector: str, *, seed: int = 0, testbed: str = "works", own: bool = False
) -> ResidualStream:
    """Return residuals with strong, diluted, frozen and invisible attacks."""
    rng = np.random.default_rng([seed, len(detector), len(testbed)])
    train, test = (rng.normal(size=(n, 6)) for n in (N_TRAIN, N_TEST))
    labels = np.zeros(N_TEST, np.int8)
    attacks = []
    for k, (start, stop) in enumerate(SPANS):
        labels[start:stop] = 1
        rows = slice(start, stop)
        if k % 3 == 0:
            test[rows, 1] += 6.0
        elif k % 3 == 1:
            test[rows, 0] += 2.2
        attacks.append(
            Attack(
                id=f"A<{k + 1}>",
                start=start,
                stop=stop,
                targets=(CHANNELS[k % 6],),
                note=NOTE if k == 0 else None,
            )
        )
    telemetry = [np.cumsum(part, axis=0) for part in (train, test)]
    for part in telemetry:
        part[:, 3] = part[:, 3] > 0
    return ResidualStream(
        train,
        test,
        labels,
        channels=CHANNELS,
        segments=attacks,
        alarms=(test[:, 1] > 3.5).astype(int) if own else None,
        step_s=10.0,
        test_time=1.7e9 + 10.0 * np.arange(N_TEST),
        telemetry_train=telemetry[0],
        telemetry_test=telemetry[1],
        telemetry_channels=CHANNELS,
        name=f"{testbed}-{len(detector)}-{seed}",
        detector=detector,
        testbed=testbed,
        meta={
            "seed": seed,
            "groups": {"stage <1>": CHANNELS[:3], "stage 2": CHANNELS[3:]},
        },
    )


@cache
def evaluations() -> tuple[Evaluation, ...]:
    """Return three detectors on one testbed (one with two seeds), one on another."""
    # The calm time of so short a record allows no rule for fewer alarms a day.
    budget = "96/day,5%"
    return (
        evaluate(stream(QUOTED, own=True), budget=budget),
        evaluate(stream(PLAIN), intervals=False, budget=budget),
        evaluate(stream(PLAIN, seed=1), intervals=False, budget=budget),
        evaluate(stream("mean"), intervals=False, diagnosis=False),
        evaluate(stream(PLAIN, testbed="second"), intervals=False, budget=None),
    )


def write_crowded_plant(folder: Path) -> Path:
    """Write results with long names, and more attacks than a page shows at once."""
    base = evaluations()[1]
    tags = [
        f"PLANT_UNIT_{k:03d}_LEVEL_TRANSMITTER_LONG_TAG_NAME_SUFFIX.PV_OUT_VALUE"
        for k in range(6)
    ]
    renamed = dict(zip(CHANNELS, tags, strict=True))
    ladder = dict(base.segments[0].ladder)
    ladder[RungName.PROBE] = RungOutcome(
        coverage=0.55, calm=0.1, limit=0.62, visible=False, p_value=0.0656
    )
    segments = tuple(
        replace(
            segment,
            id=f"attack with a very long identifier number {k}",
            targets=tuple(tags),
            evidence_channels=tuple(tags[:1]),
            ladder=ladder,
        )
        for k, segment in enumerate(base.segments)
    )
    names = np.array([renamed[str(name)] for name in base.traces.channel_names])
    traces = replace(base.traces, channel_names=names, telemetry_names=names)
    made = []
    for k in range(6):
        detector = (
            f"A very long detector name with settings lr=0.001 batch=64, number {k}"
        )
        stream = replace(base.stream, name=f"long-{k}", detector=detector)
        made.append(replace(base, stream=stream, segments=segments, traces=traces))
    write_results(made, folder)
    return folder


def write_plant(folder: Path) -> Path:
    """Write the results of the plant into a folder."""
    write_results(evaluations(), folder)
    return folder
