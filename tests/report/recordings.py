"""Made-up facts about a recording, with names that would break a careless page."""

import numpy as np
from report.plant import CHANNELS, SCRIPT

from sightline.audit.record import (
    Finding,
    RecordingFacts,
    Severity,
    TableFacts,
    TagFacts,
    TagSummary,
)

N_MORE_TAGS = 40


def summary(rng, *, step=0.01, missing=0.0):
    """Return a tag that wanders, in 60 stretches."""
    level = np.cumsum(rng.normal(size=600)).reshape(60, 10)
    ends = np.stack([level.min(axis=1), level.max(axis=1)], axis=1).round(4)
    return TagSummary(
        lowest=float(ends.min()),
        highest=float(ends.max()),
        spread=float(level.std()),
        resolution=step,
        missing=missing,
        outline=tuple((float(low), float(high)) for low, high in ends),
    )


def finding(code, severity, **known):
    return Finding(
        code=code,
        severity=severity,
        text=f"{code}: AIT&201 has two values, {SCRIPT}, at 2023-11-15 08:12:00.",
        effect="Figures of this tag mean little.",
        remedy='Write missing = ["-9999"] into plant.toml.',
        **known,
    )


def findings():
    """Return an error, two warnings and many notes, in another order."""
    notes = [finding(f"SL29{k}", Severity.NOTE) for k in range(9)]
    serious = [
        finding("SL280", Severity.WARNING, table="train", tags=("LIT101", "TAG_001")),
        finding(
            "SL281",
            Severity.ERROR,
            tags=("AIT&201",),
            cells=("row 17 (2023-11-15 08:12:00)", "row 18"),
        ),
        finding("SL282", Severity.WARNING),
    ]
    return (*notes, *serious)


def recording_facts(plant="Secret works <b>", timezone="Europe/Berlin"):
    """Return facts with many tags, words and notices."""
    rng = np.random.default_rng(0)
    names = [*CHANNELS, *(f"TAG_{k:03d}" for k in range(N_MORE_TAGS))]
    tags = [
        TagFacts(
            name=name,
            role="sensor" if k % 3 else "actuator",
            stage=("stage <1>", "stage 2", None)[k % 3],
            unit=("m³/h", "mm", None)[k % 3],
            train=summary(rng, step=0.0001 if k == 1 else 0.01),
            test=summary(rng, missing=0.034 if k == 2 else 0.0),
        )
        for k, name in enumerate(names)
    ]
    constant = TagSummary(
        lowest=1.0, highest=1.0, spread=0.0, resolution=None, missing=0.0,
        outline=((1.0, 1.0),),
    )  # fmt: skip
    empty = TagSummary(
        lowest=None, highest=None, spread=None, resolution=None, missing=1.0
    )
    tags.append(
        TagFacts(
            name="EMPTY", role="other", stage=None, unit=None,
            train=constant, test=empty,
        )
    )  # fmt: skip
    return RecordingFacts(
        plant=plant,
        timezone=timezone,
        tables=(
            TableFacts(
                name="secret_train.csv",
                part="train",
                rows=3000,
                first="2023-11-01 00:00:00",
                last="2023-11-01 08:19:50",
                gaps=2,
            ),
            TableFacts(
                name="secret_test.csv",
                part="test",
                rows=4000,
                expected=4001,
                first="2023-11-14 23:13:20",
                last="2023-11-15 10:19:50",
            ),
        ),
        tags=tuple(tags),
        words={"P101": "OFF = 0, ON = 1", "MV'101\"": "CLOSED = 0, OPEN = 1"},
        notices=tuple(
            f"secret_test.csv: {k} cells of LIT101 were held until 2023-11-15 09:00:00."
            for k in range(8)
        ),
    )
