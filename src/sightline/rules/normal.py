"""What a rule knows of normal operation, and where it comes from.

`Normal` holds mean and covariance of train and makes the views of rows from them;
`Origin` names stream and detector, and how attack-free rows looked when the rule was
made.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from sightline._version import __version__
from sightline.audit.record import audit_in
from sightline.data.arrays import Floats, Ints
from sightline.data.row_tables import Rows
from sightline.data.standing import LONGEST_S
from sightline.data.stream import ResidualStream
from sightline.data.validity import Mode
from sightline.energy.energy import Energies, FlooredRows
from sightline.energy.reference import (
    Reference,
    fit_reference,
    fold_moments,
    merged,
    scale_of,
    standardised_reference,
)
from sightline.errors import StreamError
from sightline.rules.rule import Channel, LinearView, View
from sightline.text import did_you_mean

# A level is at least this share of the unit's spread in train.
LEVEL_FLOOR: Final = 1e-3
REST: Final = "without stage"


@dataclass(frozen=True, kw_only=True, eq=False)
class Normal:
    """What rules know of normal operation.

    Parameters
    ----------
    reference : Reference
        Mean and covariance of train.
    standardised : Reference
        The same, shrunk in units of each channel's own spread.
    spread : array of shape (p,)
        Standard deviation of each channel in train; 1 where it is constant.
    channels : tuple of Channel
        Names and units.
    stages : mapping of str to sequence of str
        Channels of each stage; empty without.
    is_one_sided : bool
        Whether rows are a score, of which only large values count. Rows are then those
        of the score itself, and `floor` is where it is measured from.
    floor : float
        See `is_one_sided`.
    without : frozenset of str
        Channels that no rule looks at.
    """

    reference: Reference
    standardised: Reference
    spread: Floats
    channels: tuple[Channel, ...]
    stages: Mapping[str, Sequence[str]]
    is_one_sided: bool = False
    floor: float = 0.0
    without: frozenset[str] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the channels."""
        return tuple(channel.name for channel in self.channels)

    @property
    def has_stages(self) -> bool:
        """Whether rules by stage can be made."""
        return len(self.stages) > 1

    @property
    def train_mean(self) -> Floats:
        """Mean of each channel in train; the floor of a score."""
        return np.array([self.floor]) if self.is_one_sided else self.reference.mean

    @cached_property
    def _kept(self) -> Ints:
        """The channels that rules look at."""
        names = [channel.name for channel in self.channels]
        kept = [j for j, name in enumerate(names) if name not in self.without]
        if unknown := sorted(self.without.difference(names)):
            raise StreamError(
                f"There is no channel {unknown[0]!r} to leave out; "
                f"{did_you_mean(unknown[0], names)}"
            )
        if not kept:
            raise StreamError("A rule needs at least one channel; none is left.")
        return np.asarray(kept, np.int64)

    def view(self, kind: View) -> LinearView:
        """Return one of the views of the channels that rules look at."""
        kept, p = self._kept, len(self._kept)
        names = tuple(self.channels[j].name for j in kept)
        if kind is View.ALL:
            return self._whitened({"all channels": names}, kind)
        if kind is View.STAGE:
            rest = set(names).difference(*self.stages.values())
            stages = {
                name: inside
                for name, members in self.stages.items()
                if (inside := tuple(member for member in members if member in names))
            }
            if rest:
                stages[REST] = tuple(name for name in names if name in rest)
            return self._whitened(stages, kind)
        if kind is View.X:
            return LinearView(
                kind=kind,
                mean=self.train_mean,
                order=kept,
                weights=np.eye(p),
                first=np.arange(p),
                stop=np.arange(p) + 1,
                units=names,
                is_one_sided=self.is_one_sided,
            )
        precision = self.standardised.precision
        if p < len(self.channels):
            covariance = self.standardised.covariance[np.ix_(kept, kept)]
            precision = np.asarray(np.linalg.inv(covariance), np.float64)
        return LinearView(
            kind=kind,
            mean=self.reference.mean,
            order=kept,
            weights=np.ascontiguousarray(precision / np.sqrt(np.diag(precision))),
            first=np.zeros(p, np.int64),
            stop=np.full(p, p),
            units=names,
        )

    def floors(self, kind: View) -> Floats:
        """Return the least level of each unit of a view."""
        if kind is View.X:
            return LEVEL_FLOOR * self.spread[self._kept]
        n_units = len(self.view(kind).units) if kind is not View.SCORE else 1
        return np.full(n_units, LEVEL_FLOOR)

    def _whitened(self, units: Mapping[str, Sequence[str]], kind: View) -> LinearView:
        """Return the channels of each unit, whitened by their own covariance."""
        place = {channel.name: j for j, channel in enumerate(self.channels)}
        groups = [[place[name] for name in members] for members in units.values()]
        bounds = np.cumsum([0, *map(len, groups)])
        q = int(bounds[-1])
        weights, stop = np.zeros((q, q)), np.empty(q, np.int64)
        for group, start, end in zip(groups, bounds[:-1], bounds[1:], strict=True):
            block = self.reference.covariance[np.ix_(group, group)]
            lower = np.linalg.inv(np.linalg.cholesky(block))
            weights[start:end, start:end] = np.tril(lower).T
            stop[start:end] = end
        return LinearView(
            kind=kind,
            mean=self.train_mean,
            order=np.concatenate([np.asarray(g, np.int64) for g in groups]),
            weights=weights,
            first=np.arange(q),
            stop=stop,
            units=tuple(units),
            bounds=bounds,
            is_one_sided=self.is_one_sided,
        )


def normal_of(stream: ResidualStream, scored: Energies) -> Normal:
    """Return what rules know of normal operation, from train.

    Parameters
    ----------
    stream : ResidualStream
        As it is judged (`as_judged`).
    scored : Energies
        Its reference and moments.
    """
    one_sided = stream.one_sided is True
    standardised = (
        scored.reference
        if one_sided
        else standardised_reference(scored.moments, scored.train.scaled_fourth)
    )
    return Normal(
        reference=scored.reference,
        standardised=standardised,
        spread=scale_of(scored.moments),
        channels=channels_of(stream),
        stages=stages_of(stream),
        is_one_sided=one_sided,
        floor=float(getattr(stream.train, "floor", 0.0)) if one_sided else 0.0,
    )


def refitted(normal: Normal, rows: Rows) -> Normal:
    """Return the same with the reference fitted on commissioning rows."""
    moments = merged(fold_moments(rows, n_folds=1))
    estimator = "ledoit-wolf-standardised"
    return replace(
        normal,
        reference=fit_reference(rows, moments=moments),
        standardised=fit_reference(rows, estimator=estimator, moments=moments),
    )


def channels_of(stream: ResidualStream) -> tuple[Channel, ...]:
    """Return the channels with units and scales, as far as the stream knows them."""
    scales: Any = stream.meta.get("scale")
    is_known = isinstance(scales, Sequence) and len(scales) == stream.p
    audit = audit_in(stream.meta)
    tags = audit.recording.tags if audit is not None else ()
    units = {tag.name: tag.unit for tag in tags if tag.unit}
    return tuple(
        Channel(
            name=name,
            unit=units.get(name),
            scale=float(scales[j]) if is_known else None,
        )
        for j, name in enumerate(stream.channels)
    )


def stages_of(stream: ResidualStream) -> dict[str, tuple[str, ...]]:
    """Return the channels of each stage; empty where fewer than two are known."""
    groups = stream.meta.get("groups")
    if not isinstance(groups, Mapping):
        return {}
    known = set(stream.channels)
    stages = {
        str(name): tuple(dict.fromkeys(str(m) for m in members if m in known))
        for name, members in groups.items()
        if isinstance(members, Iterable)
    }
    stages = {name: members for name, members in stages.items() if members}
    return stages if len(stages) > 1 else {}


# --- Where a rule comes from ----------------------------------------------------------


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
    roles, units : mapping
        The role and the unit of each tag, as in ``tags.csv``.
    ranges : mapping
        The least and the largest possible reading of each tag that has them.
    holds : mapping
        Seconds for which a reading of a tag is held, where they are not the default.
    mode : Mode, optional
        When the plant runs; the rest of the time is not watched.
    date_order : {"", "day", "month"}
        Which number comes first in dates of exports, where that is known.
    longest_s : mapping
        The longest time for which each tag stood still before the rule was made; only
        of tags that were never still for longer than `LONGEST_S`.
    constant : mapping
        The only value of each tag that had one, and its resolution.
    """

    step_s: float | None = None
    sampling: str = "median"
    preset: str = "export"
    words: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float | None, float | None]] = field(
        default_factory=dict
    )
    holds: Mapping[str, float] = field(default_factory=dict)
    mode: Mode | None = None
    date_order: str = ""
    longest_s: Mapping[str, float] = field(default_factory=dict)
    constant: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class EarlierRule:
    """A rule in whose place this one was made.

    Parameters
    ----------
    name : str
        Its name.
    limit : float
        Its limit.
    sha256 : str
        Digest of its file.
    begins, ends : float, optional
        Time of its first commissioning row, and of the last before the split.
    """

    name: str
    limit: float
    sha256: str
    begins: float | None = None
    ends: float | None = None


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
    history : tuple of EarlierRule
        The rules before it, the first one first; see `sightline recommission`.
    advice : str
        The decision on this stream, and what came true, when the rule was made.
    label_slop_s : float, optional
        Label slop of the stream, for records that state none of their own.
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
    history: tuple[EarlierRule, ...] = ()
    advice: str = ""
    label_slop_s: float | None = None


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
        The rows; a cell without a value counts nowhere.
    """
    n_known, sums, squares = np.zeros((3, len(names)))
    for block in blocks:
        deviation = (block - mean) / spread
        is_known = ~np.isnan(deviation)
        deviation[~is_known] = 0.0
        n_known += is_known.sum(axis=0)
        sums += deviation.sum(axis=0)
        squares += np.square(deviation).sum(axis=0)
    n = np.maximum(n_known, 1)
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
    # How recordings were prepared, as far as the stream's `meta` says.
    rows = stream.meta.get("rows")
    rows = rows if isinstance(rows, Mapping) else {}
    step_s = rows.get("recording_step_s")
    audit = audit_in(stream.meta)
    words = {} if audit is None else audit.recording.words
    tags = () if audit is None else audit.recording.tags
    stillness = {} if audit is None else audit.recording.stillness
    constant = {
        tag: (value, still.resolution)
        for tag, still in stillness.items()
        if (value := still.value_until(stops)) is not None
    }
    telemetry = Telemetry(
        step_s=float(step_s) if isinstance(step_s, int | float) else None,
        sampling=str(rows.get("sampling") or "median"),
        preset=str(stream.meta.get("residuals_preset", "export")),
        words={tag: _numbers(text) for tag, text in words.items()},
        roles={tag.name: tag.role for tag in tags},
        units={tag.name: tag.unit for tag in tags if tag.unit},
        ranges={
            tag.name: (tag.low, tag.high)
            for tag in tags
            if not tag.low is tag.high is None
        },
        holds={} if audit is None else audit.recording.holds,
        mode=None if audit is None else audit.recording.mode,
        date_order="" if audit is None else audit.recording.date_order,
        longest_s={
            tag: longest
            for tag, still in stillness.items()
            if tag not in constant
            and (longest := still.longest_until(stops)) <= LONGEST_S
        },
        constant=constant,
    )
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
        telemetry=telemetry,
        label_slop_s=stream.label_slop_s,
    )


def _numbers(text: str) -> dict[str, int]:
    """Return the numbers of words from text such as ``CLOSED = 0, OPEN = 1``."""
    pairs = (part.rpartition(" = ") for part in text.split(", "))
    return {word.lower(): int(n) for word, _, n in pairs if n.strip().isdigit()}
