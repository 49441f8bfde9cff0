"""Residuals of several models, each of another part of one record, as one stream."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sightline.data.arrays import Floats
from sightline.data.row_tables import Rows, gather_rows
from sightline.data.stream import PARTS_KEY, ResidualStream
from sightline.energy.energy import as_judged
from sightline.energy.reference import fit_reference
from sightline.errors import StreamError
from sightline.text import names, plural


def joined_parts(
    whole: ResidualStream, parts: Sequence[ResidualStream], begins: Sequence[float]
) -> ResidualStream:
    """Return the parts of a record as one test, on the scale of one model.

    Row r of part k becomes ``m + (r - m_k) (L L_k^-1)'``, where m_k and L_k L_k' are
    mean and covariance of the residuals that model k learned from, and m and L L' those
    of the model of all rows. So the energy of the row is that by model k's own
    reference, which has not seen the part, and alarm limits of all parts can be
    compared.

    Parameters
    ----------
    whole : ResidualStream
        Of the model of all parts; only its train is used.
    parts : sequence of ResidualStream
        Of the model of the other parts, in order of time.
    begins : sequence of float
        When each part begins; rows before are left out.

    Returns
    -------
    ResidualStream
        Without the detector's own score, which has another scale in each part.

    Raises
    ------
    StreamError
        If models have other channels, or no time stamps.
    """
    differ = {c for part in parts for c in {*part.channels} ^ {*whole.channels}}
    if differ or any(part.test_time is None for part in parts):
        raise StreamError(
            f"The models of the parts have different channels ({names(sorted(differ))})"
            ": leave `parts` out of plant.toml, or use another detector."
        )
    mean, lower = _scale(whole)
    columns: dict[str, list[Any]] = {"test": [], "labels": [], "test_time": []}
    telemetry, alarms, segments, breaks = [], [], [], []
    notices, n_rows = [*whole.notices], 0
    for k, (part, begin) in enumerate(zip(parts, begins, strict=True), start=1):
        own_mean, own_lower = _scale(part)
        time = np.asarray(part.test_time)
        first = int(np.searchsorted(time, begin))
        rows = np.arange(first, len(time))
        turned = np.linalg.solve(own_lower, (gather_rows(part.test, rows) - own_mean).T)
        columns["test"].append(mean + (lower @ turned).T)
        columns["labels"].append(part.labels[rows])
        columns["test_time"].append(time[rows])
        if part.telemetry_test is not None:
            telemetry.append(gather_rows(part.telemetry_test, rows))
        if part.alarms is not None:
            alarms.append(part.alarms[rows])
        later = part.test_breaks[part.test_breaks > first]
        breaks.append(n_rows + np.append(0, later - first))
        segments += [
            replace(
                attack,
                start=n_rows + max(attack.start - first, 0),
                stop=n_rows + attack.stop - first,
            )
            for attack in part.segments
            if attack.stop > first
        ]
        notices += [f"part {k}: {n}" for n in part.notices if n not in whole.notices]
        n_rows += len(rows)
    if whole.score is not None:
        notices.append("own rule: its score is left out; each part has another scale.")
    notices.insert(
        0,
        f"Each of {plural(len(parts), 'part')} of the record is judged by a model of "
        "the other parts, and by limits that were set on them; a model of all parts is "
        "saved for operation.",
    )
    return whole.replace(
        **{name: np.concatenate(arrays) for name, arrays in columns.items()},
        test_breaks=np.concatenate(breaks),
        segments=segments,
        telemetry_test=np.concatenate(telemetry) if telemetry else None,
        telemetry_train=whole.telemetry_train if telemetry else None,
        alarms=np.concatenate(alarms) if len(alarms) == len(parts) else None,
        score=None,
        step_s=whole.step_s,
        meta={**whole.meta, PARTS_KEY: list(map(float, begins))},
        notices=notices,
    )


def _scale(stream: ResidualStream) -> tuple[Floats, Floats]:
    """Return where residuals of train lie, and the lower factor of their covariance.

    Of a score the floor from which it is measured, and its mean square.
    """
    judged = as_judged(stream)
    if judged is stream:
        reference = fit_reference(stream.train, channels=stream.channels)
        lower = np.linalg.cholesky(reference.covariance)
        return reference.mean, np.asarray(lower, np.float64)
    rows: Rows = judged.train
    values = gather_rows(rows, np.arange(rows.n_rows))
    floor = float(getattr(rows, "floor", 0.0))
    return np.array([floor]), np.sqrt(np.mean(np.square(values), axis=0))[:, None]
