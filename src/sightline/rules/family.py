"""The family of rules: names, views of the rows, and what each member is made of.

=================  ====================================================================
name               score
=================  ====================================================================
``energy``         energy of all channels
``group``          largest energy of a stage
``x``              largest deviation of a channel
``z``              largest deviation of a channel from what all others say of it
``group~`` etc.    the same of an exponentially weighted average of the rows
``rows``           joined: group, z, x
``memory``         joined: group~, z~, x~
``all``            joined: group, z, x, group~, z~, x~
``score``          the detector's own score, if it is too large
``largest3``       half the sum of the 3 (or another number) largest squared deviations,
                   each over its own level
``log-energy~``    average of the logarithm of the energy
``quiet~``         the same, if it is too small
``cusum``          largest two-sided cumulative sum of a channel
``z+x~``           any of these joined by a plus sign
=================  ====================================================================
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from sightline.data.arrays import Floats, Ints
from sightline.data.row_tables import Rows
from sightline.data.stream import ResidualStream
from sightline.energy.energy import Energies
from sightline.energy.moments import fold_moments, merged
from sightline.energy.reference import (
    Reference,
    fit_reference,
    scale_of,
    standardised_reference,
)
from sightline.errors import StreamError
from sightline.rules.rule import Channel, LinearView, Member, Memory, View
from sightline.text import did_you_mean

ROW_MEMBERS: Final = ("group", "z", "x")
MEMORY_MEMBERS: Final = ("group~", "z~", "x~")
JOINED: Final = {
    "rows": ROW_MEMBERS,
    "memory": MEMORY_MEMBERS,
    "all": (*ROW_MEMBERS, *MEMORY_MEMBERS),
}
# In the order of the table.
DEFAULT_FAMILY: Final = ("energy", *ROW_MEMBERS, *MEMORY_MEMBERS, "rows", "all")
CHOSEN: Final = "all"
# Span of the average: this many seconds, within these numbers of rows.
SPAN_S: Final = 300.0
SPAN_ROWS: Final = (6, 30)
# The cumulative sum forgives half a spread a row.
ALLOWANCE: Final = 0.5
# A level is at least this share of the unit's spread in train.
LEVEL_FLOOR: Final = 1e-3
REST: Final = "without stage"
_LARGEST = re.compile(r"largest(\d+)")
_BY_NAME: Final = ("score", "largest3", "log-energy~", "quiet~", "cusum")


def members_of(name: str, has_stages: bool) -> tuple[str, ...]:
    """Return the names of the members of a rule.

    Parameters
    ----------
    name : str
        Such as ``"all"``, ``"z~"`` or ``"z+x~"``.
    has_stages : bool
        Whether the channels have stages; without, stages are left out of joined rules.

    Raises
    ------
    StreamError
        If there is no rule of that name, or it needs stages.

    Examples
    --------
    >>> members_of("rows", has_stages=False)
    ('z', 'x')
    >>> members_of("z+z~", has_stages=True)
    ('z', 'z~')
    """
    known = (*DEFAULT_FAMILY, "memory", *_BY_NAME)
    found: list[str] = []
    for part in name.split("+"):
        if part in JOINED:
            joined = JOINED[part]
            found += [m for m in joined if has_stages or not m.startswith("group")]
        elif part in known or _LARGEST.fullmatch(part):
            found.append(part)
        else:
            raise StreamError(f"There is no rule {part!r}; {did_you_mean(part, known)}")
    if not has_stages and any(m.startswith("group") for m in found):
        raise StreamError(
            f"The rule {name!r} needs the stage of each channel: give `groups` in the "
            "stream's meta, or stages in tags.csv."
        )
    return tuple(dict.fromkeys(found))


def default_family(normal: "Normal") -> tuple[str, ...]:
    """Return the names of the default rules: of a single score only its own."""
    if normal.is_one_sided:
        return ("energy", "x", "x~", "x+x~")
    is_known = normal.has_stages
    return tuple(n for n in DEFAULT_FAMILY if is_known or not n.startswith("group"))


def blank_member(name: str, step_s: float) -> Member:
    """Return a member whose centre, levels and limit are not set yet."""
    low, high = SPAN_ROWS
    span = int(np.clip(round(SPAN_S / step_s), low, high))
    if name.endswith("~") and (view := name[:-1]) in [v.value for v in View]:
        return Member(name=name, view=View(view), memory=Memory.AVERAGE, span=span)
    if match := _LARGEST.fullmatch(name):
        return Member(name=name, view=View.X, largest=max(int(match[1]), 1))
    special = {
        "log-energy~": (View.ALL, Memory.LOG_AVERAGE),
        "quiet~": (View.ALL, Memory.QUIET),
        "cusum": (View.X, Memory.CUSUM),
    }
    view_kind, memory = special.get(name, (None, Memory.NONE))
    if view_kind is None:
        return Member(name=name, view=View(name))
    with_span = memory is not Memory.CUSUM
    return Member(
        name=name, view=view_kind, memory=memory, span=span if with_span else 0
    )


# --- Views ----------------------------------------------------------------------------


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
        """Return one of the views."""
        return {
            View.X: self._channels,
            View.Z: self._conditional,
            View.STAGE: self._by_stage,
            View.ALL: self._whitened,
        }[kind]()

    def floors(self, kind: View) -> Floats:
        """Return the least level of each unit of a view."""
        if kind is View.X:
            return LEVEL_FLOOR * self.spread[self._kept]
        n_units = len(self.view(kind).units) if kind is not View.SCORE else 1
        return np.full(n_units, LEVEL_FLOOR)

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(self.channels[j].name for j in self._kept)

    def _channels(self) -> LinearView:
        p = len(self._kept)
        each = np.arange(p)
        return LinearView(
            kind=View.X,
            mean=self.train_mean,
            order=self._kept,
            weights=np.eye(p),
            first=each,
            stop=each + 1,
            units=self._names,
            is_one_sided=self.is_one_sided,
        )

    def _conditional(self) -> LinearView:
        kept = self._kept
        p = len(kept)
        precision = self.standardised.precision
        if p < len(self.channels):
            covariance = self.standardised.covariance[np.ix_(kept, kept)]
            precision = np.asarray(np.linalg.inv(covariance), np.float64)
        return LinearView(
            kind=View.Z,
            mean=self.reference.mean,
            order=kept,
            weights=np.ascontiguousarray(precision / np.sqrt(np.diag(precision))),
            first=np.zeros(p, np.int64),
            stop=np.full(p, p),
            units=self._names,
        )

    def _whitened(self) -> LinearView:
        return self._whitened_units({"all channels": self._names}, View.ALL)

    def _by_stage(self) -> LinearView:
        names = set(self._names)
        rest = names.difference(*self.stages.values())
        stages = {
            name: inside
            for name, members in self.stages.items()
            if (inside := tuple(member for member in members if member in names))
        }
        if rest:
            stages[REST] = tuple(name for name in self._names if name in rest)
        return self._whitened_units(stages, View.STAGE)

    def _whitened_units(
        self, units: Mapping[str, Sequence[str]], kind: View
    ) -> LinearView:
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
    units = _units(stream)
    return tuple(
        Channel(
            name=name,
            unit=units.get(name),
            scale=float(scales[j]) if is_known else None,
        )
        for j, name in enumerate(stream.channels)
    )


def _units(stream: ResidualStream) -> dict[str, str]:
    """Return the engineering unit of each tag that the recording names."""
    from sightline.audit.record import audit_in

    audit = audit_in(stream.meta)
    tags = audit.recording.tags if audit is not None else ()
    return {tag.name: tag.unit for tag in tags if tag.unit}


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
