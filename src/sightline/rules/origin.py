"""Where a rule comes from: its stream, its detector, and how calm rows looked then."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sightline._version import __version__
from sightline.audit.record import audit_in
from sightline.data.arrays import Floats
from sightline.data.row_tables import Rows
from sightline.data.stream import ResidualStream
from sightline.energy.one_sided import FlooredRows


@dataclass(frozen=True, kw_only=True)
class CalmChannel:
    """How one channel looked when the rule was made: what drift is measured against.

    Parameters
    ----------
    channel : str
        Its name.
    mean, spread : float
        Mean and standard deviation of its residual in train; a spread of 1 where it
        was constant.
    calm_mean : float
        Mean over commissioning rows.
    calm_square : float
        Mean square of its deviation from `mean` over commissioning rows, in spreads.
    """

    channel: str
    mean: float
    spread: float
    calm_mean: float
    calm_square: float


@dataclass(frozen=True, kw_only=True)
class SavedDetector:
    """The file of the detector through which telemetry must pass before the rule.

    Parameters
    ----------
    path : str
        The file; from the folder of ``rule.json`` if it is not absolute.
    sha256 : str
        Digest of the file.
    """

    path: str
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Telemetry:
    """How the detector's recordings were prepared, so that later ones are alike.

    Parameters
    ----------
    step_s : float, optional
        Seconds a row of the recordings that the detector reads.
    sampling : str
        How faster recordings become rows of that step, such as ``"median"``.
    preset : str
        How residuals were computed: ``"export"`` or ``"official"``.
    words : mapping
        For each tag of words, the number of each word in lower case.
    roles : mapping
        The role of each tag, as in ``tags.csv``.
    """

    step_s: float | None = None
    sampling: str = "median"
    preset: str = "export"
    words: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where a rule comes from.

    Parameters
    ----------
    stream : str
        Name of the stream it was made on.
    stream_sha256 : str
        Digest of its residuals and labels.
    sightline : str
        The version that made it.
    detector, testbed : str, optional
        Names of the detector and of the plant.
    timezone : str, optional
        Zone in which alarms are listed; None for the plant's own clock.
    begins, ends : float, optional
        Seconds since 1970 of the first commissioning row, and of the last row before
        the split; rows after it are judged.
    calm : tuple of CalmChannel
        How each channel looked in commissioning rows.
    telemetry : Telemetry
        How recordings are prepared for the detector.
    saved_detector : SavedDetector, optional
        The detector's file.
    """

    stream: str
    stream_sha256: str
    sightline: str
    detector: str | None = None
    testbed: str | None = None
    timezone: str | None = None
    begins: float | None = None
    ends: float | None = None
    calm: tuple[CalmChannel, ...] = ()
    telemetry: Telemetry = Telemetry()
    saved_detector: SavedDetector | None = None


def raw_rows(rows: Rows) -> Rows:
    """Return the rows as the detector gave them, not from the floor of a score."""
    return rows.rows if isinstance(rows, FlooredRows) else rows


def stream_digest(stream: ResidualStream) -> str:
    """Return the SHA-256 of a stream's channels, residuals and labels."""
    digest = hashlib.sha256("\0".join(stream.channels).encode())
    for rows in (stream.train, stream.calibration, stream.test):
        if rows is None:
            continue
        digest.update(f"\0{rows.n_rows}".encode())
        for chunk in raw_rows(rows).chunks():
            digest.update(np.ascontiguousarray(chunk, np.float64).data)
    digest.update(stream.labels.tobytes())
    return digest.hexdigest()


def calm_channels(
    names: Sequence[str], mean: Floats, spread: Floats, blocks: Iterable[Floats]
) -> tuple[CalmChannel, ...]:
    """Return how channels look in some rows.

    Parameters
    ----------
    names : sequence of str
        Names of the channels.
    mean, spread : array of shape (p,)
        Of train.
    blocks : iterable of array of shape (n_rows, p)
        The rows.
    """
    n_rows, sums, squares = 0, np.zeros(len(names)), np.zeros(len(names))
    for block in blocks:
        deviation = (block - mean) / spread
        n_rows += len(block)
        sums += deviation.sum(axis=0)
        squares += np.square(deviation).sum(axis=0)
    n = max(n_rows, 1)
    columns = (mean, spread, mean + spread * sums / n, squares / n)
    return tuple(
        CalmChannel(
            channel=name, mean=at, spread=width, calm_mean=calm, calm_square=part
        )
        for name, at, width, calm, part in zip(
            names, *(column.tolist() for column in columns), strict=True
        )
    )


def origin_of(
    stream: ResidualStream,
    calm: tuple[CalmChannel, ...],
    ends: tuple[float, float] | None,
) -> Origin:
    """Return where a rule made on a stream comes from.

    Parameters
    ----------
    stream : ResidualStream
        It is read once, for its digest.
    calm : tuple of CalmChannel
        How channels look in commissioning rows.
    ends : pair of float, optional
        Time of the first commissioning row, and of the last row before the split.
    """
    begins, stops = ends or (None, None)
    return Origin(
        stream=stream.name,
        stream_sha256=stream_digest(stream),
        sightline=__version__,
        detector=stream.detector,
        testbed=stream.testbed,
        timezone=stream.timezone,
        begins=begins,
        ends=stops,
        calm=calm,
        telemetry=_telemetry(stream),
    )


def _telemetry(stream: ResidualStream) -> Telemetry:
    """Return how recordings were prepared, as far as the stream's `meta` says."""
    rows = stream.meta.get("rows")
    rows = rows if isinstance(rows, Mapping) else {}
    step_s = rows.get("recording_step_s")
    audit = audit_in(stream.meta)
    words = {} if audit is None else audit.recording.words
    tags = () if audit is None else audit.recording.tags
    return Telemetry(
        step_s=float(step_s) if isinstance(step_s, int | float) else None,
        sampling=str(rows.get("sampling") or "median"),
        preset=str(stream.meta.get("residuals_preset", "export")),
        words={tag: _numbers(text) for tag, text in words.items()},
        roles={tag.name: tag.role for tag in tags},
    )


def _numbers(text: str) -> dict[str, int]:
    """Return the numbers of words from text such as ``CLOSED = 0, OPEN = 1``."""
    pairs = (part.rpartition(" = ") for part in text.split(", "))
    return {word.lower(): int(n) for word, _, n in pairs if n.strip().isdigit()}
