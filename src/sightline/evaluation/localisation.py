"""Localisation of the attacks of a stream: which channels carry their evidence.

For each attack with a known target the channels are ranked by four methods, at the
first alarmed row of the p99 rule and over the whole attack. With y a row's residual
minus the normal mean and P the precision of the reference:

contribution
    ``y_j (P y)_j / 2``, the channel's part of the energy; over the attack its sum.
conditional
    ``(P y)_j^2 / P_jj``, the square of what the other channels do not explain
    (reconstruction-based contribution); over the attack the largest.
accumulated
    ``|sum of z_j| / sqrt(rows)``, z the signed conditional deviation, summed from the
    attack's start; over the attack the largest.
own
    The detector's own attribution, if it was given; over the attack its mean.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Bools, Floats, Ints, check_residuals, finite
from sightline.data.row_tables import Rows, gather_rows
from sightline.data.segments import Attack
from sightline.data.stream import ResidualStream
from sightline.energy.reference import Reference
from sightline.errors import StreamError
from sightline.metrics.localisation import LocalisationFigures, measure_localisation
from sightline.metrics.ranking import mean_ranks

# Channels listed for each attack, strongest first.
N_LEADING = 5
# Values of attack rows in memory at once; of a longer attack the first rows are used.
MOST_VALUES = 20_000_000


class Method(StrEnum):
    """By what channels are ranked."""

    CONTRIBUTION = "contribution"
    CONDITIONAL = "conditional"
    ACCUMULATED = "accumulated"
    OWN = "own"


class Moment(StrEnum):
    """Of which rows."""

    FIRST_ALARM = "first_alarm"
    ATTACK = "attack"


@dataclass(frozen=True, kw_only=True)
class LeadingChannel:
    """A channel that carries evidence of an attack.

    Parameters
    ----------
    channel : str
        Its name.
    share : float
        Its strength in units of the strongest channel's.
    """

    channel: str
    share: float


@dataclass(frozen=True, kw_only=True)
class AttackLocalisation:
    """Where the evidence of one attack points.

    Parameters
    ----------
    id : str
        The attack.
    targets : tuple of str
        Its targets that are channels of the stream.
    ranks : dict
        Rank of its best-ranked target by method and moment; None without an alarm.
    leading : dict
        The strongest channels by `conditional`, by moment.
    """

    id: str
    targets: tuple[str, ...]
    ranks: dict[str, dict[str, float | None]]
    leading: dict[str, tuple[LeadingChannel, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Localisation:
    """Whether the evidence points at the attacked tags.

    Parameters
    ----------
    n_channels : int
        Number of channels that are ranked.
    n_stages : int
        Number of stages they belong to; 0 if the stream names none.
    figures : dict
        Figures by method (`contribution`, `conditional`, `accumulated`, `own`) and
        moment (`first_alarm`, `attack`).
    attacks : tuple of AttackLocalisation
        One for each attack with a target among the channels.
    """

    n_channels: int
    n_stages: int
    figures: dict[str, dict[str, LocalisationFigures]]
    attacks: tuple[AttackLocalisation, ...]


def check_attribution(
    stream: ResidualStream, attribution: npt.ArrayLike, n_dropped: int
) -> Floats:
    """Return a detector's own attribution of the test rows to channels, checked.

    `StreamError` unless it has one finite value for each test row and channel, and no
    test row was dropped.
    """
    values = check_residuals(attribution, "attribution").astype(np.float64)
    shape = (stream.test.n_rows + n_dropped, stream.p)
    if values.shape != shape:
        raise StreamError(
            f"`attribution` must have one value for each test row and channel, shape "
            f"{shape}; got {values.shape}."
        )
    if n_dropped:
        raise StreamError(
            f"`attribution` cannot be matched to test rows of which {n_dropped} were "
            "dropped: remove the rows that are not finite from both first."
        )
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values).all(axis=1)))
        raise StreamError(f"`attribution` must be finite; row {row} is not: repair it.")
    return values


def localise(
    rows: Rows,
    channels: Sequence[str],
    reference: Reference,
    attacks: Sequence[Attack],
    alarms: Bools,
    *,
    stages: Mapping[str, str],
    attribution: Floats | None = None,
    uncertainty: bool = True,
    seed: int = 0,
) -> Localisation | None:
    """Return where the evidence of each attack points.

    Parameters
    ----------
    rows, channels : Rows, sequence of str
        The test residuals and the names of their channels.
    reference : Reference
        The normal reference.
    attacks : sequence of Attack
        The attacks, with their targets.
    alarms : array of bool, shape (n_rows,)
        Where the p99 rule is in alarm.
    stages : mapping of str to str
        The stage of each channel; may be empty.
    attribution : array of shape (n_rows, p), optional
        The detector's own attribution of each row to channels; higher is more.
    uncertainty : bool
        Whether to measure chance floors and intervals.
    seed : int
        Seed of the draws.

    Returns
    -------
    Localisation or None
        None if no attack has a target among the channels, or there is one channel.
    """
    place = {name: j for j, name in enumerate(channels)}
    known = [a for a in attacks if any(target in place for target in a.targets)]
    if len(channels) < 2 or not known:
        return None
    inside = [alarms[attack.start : attack.stop] for attack in known]
    # Counted from the attack's start.
    first = np.array([int(np.argmax(a)) if a.any() else -1 for a in inside])
    strength = _strengths(rows, reference, known, first)
    if attribution is not None:
        at_first = [
            attribution[a.start + k] if k >= 0 else np.full(len(channels), np.nan)
            for a, k in zip(known, first.tolist(), strict=True)
        ]
        over = [attribution[a.start : a.stop].mean(axis=0) for a in known]
        strength[str(Method.OWN)] = {
            str(Moment.FIRST_ALARM): np.array(at_first),
            str(Moment.ATTACK): np.array(over),
        }
    targets = [[place[t] for t in a.targets if t in place] for a in known]
    names = sorted({stages[c] for c in channels if c in stages})
    stage_of = np.array(
        [names.index(stages[c]) if c in stages else -1 for c in channels]
    )
    figures: dict[str, dict[str, LocalisationFigures]] = {}
    for method, by_moment in strength.items():
        measured = {
            moment: measure_localisation(
                values[usable := _usable(values)],
                [t for t, ok in zip(targets, usable, strict=True) if ok],
                stage_of if len(names) > 1 else None,
                uncertainty=uncertainty,
                seed=seed,
            )
            for moment, values in by_moment.items()
        }
        figures[method] = {k: v for k, v in measured.items() if v is not None}
    return Localisation(
        n_channels=len(channels),
        n_stages=len(names),
        figures=figures,
        attacks=_each_attack(known, strength, targets, channels),
    )


def _each_attack(
    attacks: Sequence[Attack],
    strength: "Strengths",
    targets: Sequence[Sequence[int]],
    channels: Sequence[str],
) -> tuple[AttackLocalisation, ...]:
    """Return ranks and leading channels of each attack."""

    def best_ranks(values: Floats) -> Floats:
        """Return the rank of the best-ranked target of each attack; nan: undefined."""
        ranks = mean_ranks(-values)
        best = np.array([ranks[i, list(t)].min() for i, t in enumerate(targets)])
        return np.where(_usable(values), best, np.nan)

    def leading(strength: Floats) -> tuple[LeadingChannel, ...]:
        """Return the strongest channels; none if strengths are undefined or 0."""
        if not np.isfinite(strength).all() or strength.max() <= 0:
            return ()
        order = np.argsort(-strength, kind="stable")[:N_LEADING]
        shares = strength / strength.max()
        return tuple(
            LeadingChannel(channel=channels[j], share=float(shares[j])) for j in order
        )

    ranks = {
        method: {moment: best_ranks(values) for moment, values in by_moment.items()}
        for method, by_moment in strength.items()
    }
    return tuple(
        AttackLocalisation(
            id=attack.id,
            targets=tuple(channels[j] for j in targets[i]),
            ranks={
                method: {moment: finite(each[i]) for moment, each in by_moment.items()}
                for method, by_moment in ranks.items()
            },
            leading={
                moment: leading(values[i])
                for moment, values in strength[Method.CONDITIONAL].items()
            },
        )
        for i, attack in enumerate(attacks)
    )


def _usable(strength: Floats) -> Bools:
    """Return the attacks of which every channel has a strength."""
    return np.asarray(np.isfinite(strength).all(axis=1), dtype=np.bool_)


Strengths = dict[str, dict[str, Floats]]


def _strengths(
    rows: Rows, reference: Reference, attacks: Sequence[Attack], first: Ints
) -> Strengths:
    """Return the strength of each channel in each attack, by method and moment."""
    p = len(reference.mean)
    methods = (Method.CONTRIBUTION, Method.CONDITIONAL, Method.ACCUMULATED)
    strength = {
        str(m): {str(moment): np.full((len(attacks), p), np.nan) for moment in Moment}
        for m in methods
    }
    scale = np.sqrt(np.diag(reference.precision))
    for i, residuals in _attack_rows(rows, attacks):
        centered = residuals - reference.mean
        # Rows beyond 1e150 overflow: such an attack is left out as undefined.
        with np.errstate(over="ignore", invalid="ignore"):
            weighed = centered @ reference.precision
            parts = 0.5 * centered * weighed
            z = weighed / scale
            square = z**2
            n_rows = np.arange(1, len(z) + 1)[:, np.newaxis]
            summed = np.abs(np.cumsum(z, axis=0)) / np.sqrt(n_rows)
            over = (parts.sum(axis=0), square.max(axis=0), summed.max(axis=0))
        for method, whole, each in zip(
            methods, over, (parts, square, summed), strict=True
        ):
            strength[method][Moment.ATTACK][i] = whole
            if 0 <= first[i] < len(each):
                strength[method][Moment.FIRST_ALARM][i] = each[first[i]]
    return strength


def _attack_rows(rows: Rows, attacks: Sequence[Attack]) -> Iterator[tuple[int, Floats]]:
    """Yield the number and the residuals of each attack, some attacks at a time."""
    most = max(MOST_VALUES // max(rows.n_channels, 1), 1)
    spans = [np.arange(a.start, min(a.stop, a.start + most)) for a in attacks]
    batch: list[int] = []
    for i in range(len(spans) + 1):
        n_rows = sum(len(spans[k]) for k in batch)
        if batch and (i == len(spans) or n_rows + len(spans[i]) > most):
            values = gather_rows(rows, np.concatenate([spans[k] for k in batch]))
            ends = np.cumsum([len(spans[k]) for k in batch])
            yield from zip(batch, np.split(values, ends[:-1]), strict=True)
            batch = []
        batch.append(i)
