"""Hard residual streams whose truth is known: by construction, and by an oracle.

A stream has several causes at once: drift in part of the time, regimes, autocorrelation
up to 0.95, heavy tails, scales over six decades, attacks of 20 to 2,000 rows, frozen
and replayed signals, adjacent attacks, attacks at the onset only, aftermath, an alarm
that never stops, and segments without any effect. Labels may be jittered: each end
moved by up to a number of rows, at most half of the attack.

`make_spiky_stream` has what these lack: attacks that are one row of one tag, steps that
decay within seconds before and after the label, tags that never move, and episodes in
attack-free time that no label explains. `make_long_stream` has attacks ten times as
long as the longest attack-free stretch.

The truth of a segment is what an oracle says that knows the law of calm rows, the
attacked channels, and as much calm time as it likes (`Oracle`): which repair shows it.
It shares the words of the judgement (coverage of a limit, compared with calm stretches
of the same length and place) and none of its estimates. Sizes are set so that a rule
that watches all channels, with limits of the law itself, covers a wanted share.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.signal import lfilter

from sightline import Attack, ResidualStream, fit_reference
from sightline.judgement.verdicts import SINGLED_OUT, SegmentDiagnosis, Verdict

MOST_ROWS = 120_000
MOST_VALUES = 6_000_000
BUDGET = 0.01
EFFECT, MEMORY_EFFECT = 0.30, 0.40
NEARLY_ALL, HALF, QUIET_SHARE = 0.75, 0.5, 0.6
SPANS = (30, 300)
# How often each kind of attack is drawn where it is possible.
KINDS = {
    "many": 2.2,
    "few": 1.5,
    "faint": 0.7,
    "one-faint": 1.4,
    "under-drift": 1.6,
    "hush": 1.0,
    "frozen": 0.35,
    "onset": 0.5,
    "late": 0.5,
    "ramp": 0.4,
    "replay": 0.4,
    "none": 2.4,
    "aftermath": 0.6,
}
# The causes that are built into each kind; drift and threshold come with the stream.
BUILT_IN = {
    "many": {"threshold"},
    "few": {"diluted"},
    "faint": {"sequential"},
    "one-faint": {"sequential", "diluted"},
    "under-drift": {"drift"},
    "hush": {"quiet", "sequential"},
    "frozen": {"quiet", "sequential"},
    "onset": {"threshold"},
    "late": {"threshold"},
    "ramp": {"sequential", "threshold"},
    "aftermath": {"threshold"},
}
# The repair by whose coverage each kind is sized.
SIZED_BY = {
    "many": ("rule", "threshold"),
    "few": ("diluted",),
    "faint": ("sequential",),
    "one-faint": ("sequential",),
    "under-drift": ("drift",),
    "late": ("rule", "threshold"),
    "ramp": ("sequential", "threshold"),
    "aftermath": ("rule",),
}
# Coverage above that of calm stretches, by level.
LEVELS = {"clear": (0.8, 1.0), "medium": (0.5, 0.65), "bar": (0.33, 0.42)}
HUSHES = {"clear": (0.05, 0.25), "medium": (0.3, 0.42), "bar": (0.45, 0.57)}
# Streams of random numbers of one seed.
_LAW, _TRAIN, _PLACES, _SETTINGS, _TEST, _ATTACKS = 1, 2, 4, 100, 101, 102
_JITTER, _SPIKY, _LONG = 103, 104, 105


@dataclass(frozen=True, kw_only=True)
class Sight:
    """How one repair shows a segment, to the oracle."""

    by_coverage: bool
    by_peak: bool = False
    coverage: float = 0.0
    calm: float = 0.0

    @property
    def is_shown(self) -> bool:
        return self.by_coverage or self.by_peak


@dataclass(frozen=True, kw_only=True)
class PlannedSegment:
    """One attack: what was done, the truth, and every answer that is right."""

    start: int
    stop: int
    kind: str
    level: str
    truth: str
    right: frozenset[str]
    channels: tuple[int, ...]
    sights: dict[str, Sight] = field(repr=False)

    @property
    def is_effect_free(self) -> bool:
        return self.kind in ("none", "replay")


@dataclass(frozen=True, kw_only=True, eq=False)
class HardStream:
    """A stream and what was done to it."""

    stream: ResidualStream
    segments: tuple[PlannedSegment, ...]
    settings: dict[str, Any]


# --- The law of calm rows -----------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class CalmLaw:
    """The law of attack-free test rows: noise, modes of operation, and drift.

    Row t is ``modes[mode_t] + level_t * shift + gain_t * noise_t``; the noise has
    covariance `covariance`, and gain_t goes from 1 to `gain` as level_t from 0 to 1.
    """

    scale: np.ndarray
    loadings: np.ndarray
    own: np.ndarray
    autocorrelation: float
    tails: str
    modes: np.ndarray
    mode: np.ndarray
    level: np.ndarray
    shift: np.ndarray
    gain: float

    @property
    def p(self) -> int:
        return len(self.scale)

    @cached_property
    def covariance(self) -> np.ndarray:
        standard = self.loadings @ self.loadings.T + np.diag(self.own**2)
        return standard * np.outer(self.scale, self.scale)

    def noise(self, rng: np.random.Generator, n_rows: int) -> np.ndarray:
        """Return correlated, autocorrelated noise in the units of the channels."""
        warm_up = round(20 / (1 - self.autocorrelation)) if self.autocorrelation else 0
        n_all = n_rows + warm_up
        values = unit_noise(rng, (n_all, self.p), self.tails) * self.own
        shape = (n_all, self.loadings.shape[1])
        values += unit_noise(rng, shape, self.tails) @ self.loadings.T
        values = autoregress(values, self.autocorrelation)[warm_up:]
        return values * (self.scale * np.sqrt(1 - self.autocorrelation**2))

    def means(self, rows: slice = slice(None)) -> np.ndarray:
        """Return the mean of each test row: its mode, and the drift of its time."""
        return self.modes[self.mode[rows]] + np.outer(self.level[rows], self.shift)

    def gains(self, rows: slice = slice(None)) -> np.ndarray:
        return 1 + (self.gain - 1) * self.level[rows]

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """Return attack-free test rows on the one schedule of modes and drift."""
        noise = self.noise(rng, len(self.level))
        noise *= self.gains()[:, None]
        noise += self.modes[self.mode]
        if self.level.any():
            noise += np.outer(self.level, self.shift)
        return noise


def draw_settings(seed: int) -> dict[str, Any]:
    """Draw what kind of stream it is."""
    rng = np.random.default_rng([seed, _SETTINGS])
    longest = round(log_uniform(rng, 60, 2000))
    few_calm = rng.random() < 0.15
    phi = float(rng.choice([0.0, rng.uniform(0, 0.95)], p=[0.2, 0.8]))
    drawn: dict[str, Any] = {
        "seed": seed,
        "p": round(log_uniform(rng, 8, 70)),
        "autocorrelation": phi,
        "tails": str(rng.choice(["gauss", "t4"])),
        "drift": str(
            rng.choice(["none", "all", "part", "growing"], p=[0.45, 0.22, 0.2, 0.13])
        ),
        "regimes": str(rng.choice(["none", "known", "unknown"], p=[0.6, 0.25, 0.15])),
        "train_tail": str(
            rng.choice(["same", "bursts", "startup"], p=[0.45, 0.35, 0.2])
        ),
        "scale_decades": 6.0,
        "drift_ratio": log_uniform(rng, 1.5, 5),
        "length": (round(log_uniform(rng, 20, longest)), longest),
        "n_train": round(log_uniform(rng, 3000, 20_000)),
        "calm_factor": log_uniform(rng, 8, 19)
        if few_calm
        else log_uniform(rng, 20, 400),
        "adjacent": 0.15,
        "n_segments": 10,
        "standing": bool(rng.random() < 0.06),
    }
    # Enough rows to fit a covariance to.
    least = 5 * drawn["p"] * (1 + phi) / (1 - phi)
    drawn["n_train"] = round(min(20_000, max(least, drawn["n_train"])))
    return drawn


def draw_places(
    seed: int, settings: dict[str, Any]
) -> tuple[list[tuple[int, int]], list[int], int]:
    """Return rows of the attacks, breaks between touching ones, and n_test."""
    rng = np.random.default_rng([seed, _PLACES])
    n, (shortest, longest) = settings["n_segments"], settings["length"]
    lengths = [round(log_uniform(rng, shortest, longest)) for _ in range(n)]
    most = min(MOST_ROWS, MOST_VALUES // settings["p"]) - sum(lengths)
    n_calm = int(max(1500, min(settings["calm_factor"] * longest, most)))
    gaps = np.full(n + 1, -1)
    for i in range(1, n):
        if rng.random() < settings["adjacent"]:
            gaps[i] = rng.choice([0, rng.integers(5, 51)])
    free = gaps < 0
    shares = rng.dirichlet(np.full(free.sum(), 2.0))
    left = n_calm - gaps[~free].sum()
    gaps[free] = np.maximum(60, np.floor(shares * left)).astype(int)
    bounds, breaks, row = [], [0], 0
    for length, gap in zip(lengths, gaps[:-1], strict=True):
        row += int(gap)
        if gap == 0:
            breaks.append(row)
        bounds.append((row, row + length))
        row += length
    return bounds, breaks, row + int(gaps[-1])


# --- The calm law -----------------------------------------------------------


def draw_train_and_law(
    seed: int, settings: dict[str, Any]
) -> tuple[np.ndarray, CalmLaw]:
    """Return train residuals, and the law of calm test rows with its drift."""
    rng = np.random.default_rng([seed, _LAW])
    p, n_test = settings["p"], settings["n_test"]
    n_factors = int(rng.integers(1, min(6, p // 3) + 1))
    common = rng.uniform(0.0, 0.6, size=(p, 1))  # share of variance of the factors
    loadings = rng.normal(size=(p, n_factors))
    loadings *= np.sqrt(common) / np.linalg.norm(loadings, axis=1, keepdims=True)
    half = settings["scale_decades"] / 2
    scale = 10 ** rng.uniform(-half, half, size=p)
    modes = draw_modes(rng, settings["regimes"], scale)
    known = len(modes) - (settings["regimes"] == "unknown")
    static = {
        "scale": scale,
        "loadings": loadings,
        "own": np.sqrt(1 - common[:, 0]),
        "autocorrelation": settings["autocorrelation"],
        "tails": settings["tails"],
        "modes": modes,
    }
    n_train = settings["n_train"]
    train_law = CalmLaw(
        **static,
        mode=draw_schedule(rng, known, n_train),
        level=np.zeros(n_train),
        shift=np.zeros(p),
        gain=1.0,
    )
    train = draw_train(seed, train_law, settings["train_tail"])
    shift, gain = draw_drift(rng, train, train_law, settings)
    law = CalmLaw(
        **static,
        mode=draw_schedule(rng, len(modes), n_test),
        level=drift_schedule(rng, settings["drift"], n_test),
        shift=shift,
        gain=gain,
    )
    return train, law


def draw_modes(rng: np.random.Generator, regimes: str, scale: np.ndarray) -> np.ndarray:
    """Return the mean of each mode of operation; the first is zero."""
    p = len(scale)
    if regimes == "none":
        return np.zeros((1, p))
    modes = np.zeros((int(rng.integers(2, 4)), p))
    for mode in modes[1:]:
        moved = rng.choice(p, size=max(2, p // 4), replace=False)
        mode[moved] = random_signs(rng, len(moved)) * rng.uniform(1, 3, len(moved))
    return modes * scale


def draw_schedule(rng: np.random.Generator, n_modes: int, n_rows: int) -> np.ndarray:
    """Return the mode of each row; modes last a few hundred rows, and take turns."""
    mode = np.zeros(n_rows, np.intp)
    row, now = 0, 0
    while n_modes > 1 and row < n_rows:
        lasts = int(rng.integers(150, 601))
        mode[row : row + lasts] = now
        now = (now + 1) % n_modes
        row += lasts
    return mode


def drift_schedule(rng: np.random.Generator, drift: str, n_rows: int) -> np.ndarray:
    """Return how much of the drift each test row has, 0 to 1."""
    level = np.zeros(n_rows)
    if drift == "all":
        level[:] = 1
    elif drift == "part":
        share, where = rng.uniform(0.35, 0.65), rng.random()
        start = round((1 - share) * where * n_rows)
        level[start : start + round(share * n_rows)] = 1
    elif drift == "growing":
        start = round(rng.uniform(0, 0.4) * n_rows)
        level[start:] = np.linspace(0, 1, n_rows - start)
    elif drift != "none":
        raise ValueError(f"no such drift: {drift!r}")
    return level


def draw_train(seed: int, law: CalmLaw, tail: str) -> np.ndarray:
    """Return train residuals, some louder where their tail is to be heavier."""
    rng = np.random.default_rng([seed, _TRAIN])
    n_rows = len(law.level)
    noise = law.noise(rng, n_rows)
    loud = np.zeros(n_rows, np.bool_)
    if tail == "startup":
        loud[: round(rng.uniform(0.03, 0.06) * n_rows)] = True
    elif tail == "bursts":
        n_bursts, share = int(rng.integers(4, 12)), rng.uniform(0.03, 0.05)
        lasts = max(10, round(share * n_rows / n_bursts))
        for start in rng.integers(0, n_rows - lasts, size=n_bursts):
            loud[start : start + lasts] = True
    elif tail != "same":
        raise ValueError(f"no such train_tail: {tail!r}")
    noise[loud] *= rng.uniform(3, 6)
    return noise + law.means()


def draw_drift(
    rng: np.random.Generator,
    train: np.ndarray,
    law: CalmLaw,
    settings: dict[str, Any],
) -> tuple[np.ndarray, float]:
    """Return shift and gain that bring calm energy to `drift_ratio` of train's."""
    reference = fit_reference(train)
    whitened = Whitened.of(reference)
    ratio, p = settings["drift_ratio"], law.p
    gain = min(rng.uniform(1.2, 2), np.sqrt(1 + 0.5 * (ratio - 1)))
    seen = seen_channels(law, reference)
    moved = rng.choice(p, size=max(1, p // 3), replace=False)
    moved[0] = rng.choice(seen)
    shift = np.zeros(p)
    shift[moved] = random_signs(rng, len(moved)) * rng.uniform(0.5, 1.5, len(moved))
    shift *= law.scale
    if settings["drift"] == "none":
        return np.zeros(p), 1.0
    wanted = ratio * whitened.energy(train).mean()
    loud = 0.5 * gain**2 * np.sum(reference.precision * law.covariance)
    missing = max(wanted - loud, 0.1 * wanted)
    return shift * np.sqrt(missing / whitened.energy_of_shift(shift)), float(gain)


def seen_channels(law: CalmLaw, reference: Any) -> np.ndarray:
    """Return the channels that shrinkage to one common variance does not drown."""
    share = np.diag(law.covariance) / np.diag(reference.covariance)
    return np.flatnonzero(share >= min(0.4, np.sort(share)[-3]))


# --- The oracle ---------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Whitened:
    """A reference: energy is half the squared norm of (r - mean) @ whitening."""

    mean: np.ndarray
    whitening: np.ndarray

    @classmethod
    def of(cls, reference: Any) -> "Whitened":
        return cls(mean=reference.mean, whitening=reference.whitening)

    @classmethod
    def fit(cls, mean: np.ndarray, covariance: np.ndarray) -> "Whitened":
        scale = np.sqrt(np.diag(covariance))
        factor = np.linalg.cholesky(covariance / np.outer(scale, scale))
        return cls(mean=mean, whitening=np.linalg.inv(factor).T / scale[:, None])

    def energy(self, rows: np.ndarray) -> np.ndarray:
        whitened = (rows - self.mean) @ self.whitening
        return 0.5 * np.einsum("tj,tj->t", whitened, whitened)

    def energy_of_shift(self, shift: np.ndarray) -> float:
        return 0.5 * float(np.sum((shift @ self.whitening) ** 2))


def averaged(values: np.ndarray, span: int, axis: int) -> np.ndarray:
    """Return the EWMA from zero, divided by how far it has grown."""
    w = 2 / (span + 1)
    n = values.shape[axis]
    grown = np.sqrt(1 - (1 - w) ** (2 * np.arange(1, n + 1)))
    shape = [1] * values.ndim
    shape[axis] = n
    return lfilter([w], [1, w - 1], values, axis=axis) / grown.reshape(shape)


class Oracle:
    """Knows the law, the attacked channels, and calm time without end at one place."""

    def __init__(
        self,
        law: CalmLaw,
        reference: Any,
        limit: float,
        bounds: tuple[int, int],
        rng: np.random.Generator,
        *,
        is_standing: bool,
    ) -> None:
        start, stop = bounds
        self.law, self.limit, self.is_standing = law, limit, is_standing
        n_rows, p = stop - start, law.p
        n_calm = int(np.clip(60_000 // n_rows, 60, 300))
        rows = slice(start, stop)
        mode = np.zeros(n_calm * n_rows, np.intp)
        noise = law.noise(rng, n_calm * n_rows).reshape(n_calm, n_rows, p)
        if len(law.modes) > 1:
            schedule = draw_schedule(rng, len(law.modes), n_calm * n_rows + 600)
            mode = schedule[rng.integers(0, 600) :][: n_calm * n_rows]
        shift = np.outer(law.level[rows], law.shift)
        gains = law.gains(rows)
        self.calm = noise * gains[:, None] + shift
        self.calm += law.modes[mode].reshape(n_calm, n_rows, p)
        self.centre = law.modes.mean(axis=0) + shift
        between = np.zeros((p, p))
        if len(law.modes) > 1:
            between = np.cov(law.modes.T, bias=True).reshape(p, p)
        self.covariance = law.covariance * np.mean(gains**2) + between
        shrinkage = reference.shrinkage
        target = shrinkage * np.trace(self.covariance) / p * np.eye(p)
        self.local = Whitened.fit(
            np.zeros(p), (1 - shrinkage) * self.covariance + target
        )
        self.original = Whitened.of(reference)
        moved = self.centre.mean(axis=0) - reference.mean
        self.has_moved = self.original.energy_of_shift(moved) > np.sqrt(p / 2)
        self.energy = self._of_calm(self.original, self.calm)
        self.local_energy = self._of_calm(self.local, self.calm - self.centre)

    def _of_calm(self, whitened: Whitened, rows: np.ndarray) -> np.ndarray:
        return whitened.energy(rows.reshape(-1, self.law.p)).reshape(rows.shape[:2])

    def sight(
        self,
        own: np.ndarray,
        calm: np.ndarray,
        *,
        limit: float | None = None,
        effect: float = EFFECT,
        has_peaks: bool = False,
    ) -> Sight:
        """Compare a score with that of calm stretches at the same place."""
        limit = float(np.quantile(calm, 1 - BUDGET)) if limit is None else limit
        usual = float(np.median(calm))
        coverage, coverages = np.mean(own > limit), np.mean(calm > limit, axis=1)
        median, rare = np.median(coverages), np.quantile(coverages, 0.95)
        by_peak = False
        if has_peaks and limit > usual:
            u, calm_u = (
                (own - usual) / (limit - usual),
                (calm - usual) / (limit - usual),
            )
            for n in [len(own), 10][: 2 if len(own) > 20 else 1]:
                peak = np.sort(u[:n])[-3:].mean()
                peaks = np.sort(calm_u[:, :n], axis=1)[:, -3:].mean(axis=1)
                by_peak |= bool(peak >= 2 and peak >= 2 * np.quantile(peaks, 0.95))
        return Sight(
            by_coverage=bool(coverage >= median + effect and coverage > rare),
            by_peak=by_peak,
            coverage=float(coverage),
            calm=float(median),
        )

    def watched(self, rows: np.ndarray, repair: str) -> float:
        """Return the coverage above calm of a rule that watches every channel."""
        spread = np.sqrt(np.diag(self.covariance))
        own, calm = (rows - self.centre) / spread, (self.calm - self.centre) / spread
        if repair == "diluted":
            limits = np.quantile(calm.reshape(-1, calm.shape[2]) ** 2, 0.99, axis=0)
            coverages = np.mean(calm**2 > limits, axis=1).max(axis=1)
            best = np.mean(own**2 > limits, axis=0).max()
            return float(best - np.median(coverages))
        sights = [
            self.sight(
                np.abs(averaged(own, span, 0)).max(axis=1),
                np.abs(averaged(calm, span, 1)).max(axis=2),
            )
            for span in SPANS
        ]
        return max(s.coverage - s.calm for s in sights)

    def sights(self, rows: np.ndarray, effect: np.ndarray) -> dict[str, Sight]:
        """Return how each repair shows attacked rows; `effect` is what was added."""
        energy = self.original.energy(rows)
        rule = Sight(by_coverage=False)
        if not self.is_standing:
            rule = self.sight(energy, self.energy, limit=self.limit, has_peaks=True)
            rule = Sight(by_coverage=False) if rule.calm >= 0.5 else rule
        found = {
            "rule": rule,
            "threshold": self.sight(energy, self.energy, has_peaks=True),
        }
        own = rows - self.centre
        local = self.local.energy(own)
        if self.has_moved:
            found["drift"] = self.sight(local, self.local_energy, has_peaks=True)
        strength = np.sqrt(np.mean(effect**2, axis=0) / np.diag(self.covariance))
        if strength.max() > 0:
            found["diluted"] = _best(self._in_few(own, strength))
            found["sequential"] = _best(
                self._accumulated(own, energy, effect, strength)
            )
        pairs = [(energy, self.energy)]
        pairs += [(local, self.local_energy)] if self.has_moved else []
        found["quiet"] = Sight(
            by_coverage=any(
                one.mean() < calm.mean(axis=1).min()
                and one.mean() < QUIET_SHARE * np.median(calm.mean(axis=1))
                for one, calm in pairs
            )
        )
        return found

    def _in_few(self, own: np.ndarray, strength: np.ndarray) -> Iterator[Sight]:
        order = np.argsort(-strength)
        calm = self.calm - self.centre
        for size in (1, 2, 3, 5):
            group = order[:size]
            if size < self.law.p and strength[group[-1]] > 0:
                within = np.linalg.inv(self.covariance[np.ix_(group, group)])
                scores = [
                    0.5 * np.einsum("...i,ij,...j->...", part, within, part)
                    for part in (own[:, group], calm[..., group])
                ]
                yield self.sight(*scores)

    def _accumulated(
        self,
        own: np.ndarray,
        energy: np.ndarray,
        effect: np.ndarray,
        strength: np.ndarray,
    ) -> Iterator[Sight]:
        calm = self.calm - self.centre
        logs, calm_logs = np.log(energy + 1e-300), np.log(self.energy + 1e-300)
        usual = np.median(calm_logs)
        is_signed = bool(np.abs(effect.mean(axis=0)).max() > 0)
        for span in SPANS:
            yield self.sight(
                averaged(logs - usual, span, 0),
                averaged(calm_logs - usual, span, 1),
                effect=MEMORY_EFFECT,
            )
            for j in np.argsort(-strength)[: 3 if is_signed else 0]:
                yield self.sight(
                    np.abs(averaged(own[:, j], span, 0)),
                    np.abs(averaged(calm[..., j], span, 1)),
                    effect=MEMORY_EFFECT,
                )
            group = np.flatnonzero(strength > 0)
            if is_signed and len(group) > 1:
                within = self.covariance[np.ix_(group, group)]
                whitening = np.linalg.inv(np.linalg.cholesky(within)).T
                yield self.sight(
                    np.sum(averaged(own[:, group] @ whitening, span, 0) ** 2, axis=1),
                    np.sum(
                        averaged(calm[..., group] @ whitening, span, 1) ** 2, axis=2
                    ),
                    effect=MEMORY_EFFECT,
                )


def _best(sights: Iterator[Sight]) -> Sight:
    return max(
        sights,
        key=lambda sight: (sight.by_coverage, sight.coverage),
        default=Sight(by_coverage=False),
    )


def answer_of(found: SegmentDiagnosis) -> str:
    """Return the verdict; what the rule singles out is one answer, caught or not."""
    return str(Verdict.DETECTED if found.verdict in SINGLED_OUT else found.verdict)


def truth_of(
    sights: dict[str, Sight], built_in: set[str]
) -> tuple[str, frozenset[str]]:
    """Return the verdict of the oracle, and every answer that is right.

    Of a segment with several built-in causes any is right whose repair shows it.
    """
    if sights["rule"].is_shown:
        return "detected", frozenset(["detected"])
    nothing = Sight(by_coverage=False)

    def of(cause: str) -> Sight:
        return sights.get(cause, nothing)

    memory = of("sequential").coverage if of("sequential").by_coverage else 0.0
    repairs = [
        cause
        for cause in ("threshold", "drift", "diluted")
        if of(cause).by_coverage and of(cause).coverage >= HALF * memory
    ]
    best = max((of(cause).coverage for cause in repairs), default=0.0)
    order = [cause for cause in repairs if of(cause).coverage >= NEARLY_ALL * best]
    order += ["sequential"] if of("sequential").by_coverage else []
    order += [cause for cause in ("threshold", "drift") if of(cause).by_peak]
    order += ["quiet"] if of("quiet").by_coverage else []
    if not order:
        return "weak-evidence", frozenset(["weak-evidence"])
    right = {order[0]}
    if len(built_in) > 1:
        right |= {cause for cause in built_in if of(cause).is_shown}
    return order[0], frozenset(right)


# --- Attacks ------------------------------------------------------------------------


def make_hard_stream(seed: int, jitter: int = 0) -> HardStream:
    """Return a stream with ten attacks of known truth.

    Labels begin and end up to `jitter` rows too early or too late.
    """
    settings = draw_settings(seed)
    bounds, breaks, n_test = draw_places(seed, settings)
    settings["n_test"] = n_test
    train, law = draw_train_and_law(seed, settings)
    reference = fit_reference(train)
    limit = float(np.quantile(Whitened.of(reference).energy(train), 1 - BUDGET))
    test = law.sample(np.random.default_rng([seed, _TEST]))
    labels = np.zeros(n_test, np.int8)
    for start, stop in bounds:
        labels[start:stop] = 1
    rng = np.random.default_rng([seed, _ATTACKS])
    segments = []
    for start, stop in bounds:
        oracle = Oracle(
            law,
            reference,
            limit,
            (start, stop),
            rng,
            is_standing=settings["standing"],
        )
        kind = draw_kind(rng, law, labels, start, stop)
        level = str(rng.choice(list(LEVELS)))
        effect = plan(rng, kind, level, start, oracle, test[start:stop], reference)
        test[start:stop] += effect
        segments.append(
            planned(kind, level, start, oracle, test[start:stop], effect, settings)
        )
        if kind == "aftermath":
            add_aftermath(test, labels, stop, effect)
    stream = ResidualStream(
        train,
        test,
        labels,
        channels=[f"c{j}" for j in range(settings["p"])],
        segments=[
            Attack(id=str(i), start=s.start, stop=s.stop)
            for i, s in enumerate(segments)
        ],
        test_breaks=breaks,
        alarms=np.ones(n_test, np.int8) if settings["standing"] else None,
        step_s=1,
        name=f"hard-{seed}",
    )
    made = HardStream(stream=stream, segments=tuple(segments), settings=settings)
    return with_jitter(made, jitter)


def with_jitter(made: HardStream, jitter: int) -> HardStream:
    """Return a stream whose labels are moved by up to so many rows at both ends."""
    if not jitter:
        return made
    rng = np.random.default_rng([made.settings["seed"], _JITTER])
    labels, moved = np.zeros(made.stream.test.n_rows, np.int8), []
    edges = [0, *(row for s in made.segments for row in (s.start, s.stop)), len(labels)]
    for k, segment in enumerate(made.segments):
        length = segment.stop - segment.start
        rooms = segment.start - edges[2 * k], edges[2 * k + 3] - segment.stop
        most = [min(jitter, length // 2, room // 2) for room in rooms]
        start = segment.start + int(
            rng.integers(-most[0], min(jitter, length // 2) + 1)
        )
        stop = segment.stop + int(rng.integers(-min(jitter, length // 2), most[1] + 1))
        start, stop = min(start, stop - 1), max(stop, start + 1)
        if most[0] == 0 and k and made.segments[k - 1].stop == segment.start:
            start = segment.start
        labels[start:stop] = 1
        moved.append(replace(segment, start=start, stop=stop))
    attacks = [
        Attack(id=str(k), start=s.start, stop=s.stop) for k, s in enumerate(moved)
    ]
    stream = made.stream.replace(labels=labels, segments=attacks)
    return replace(made, stream=stream, segments=tuple(moved))


# --- Spikes, and long attacks -------------------------------------------------------

# A single row shows it: any answer that says so is right.
BY_ROWS = frozenset(["detected", "threshold", "diluted"])
SPIKY = ("spike", "spike", "decay", "decay", "none", "none")


def make_spiky_stream(seed: int, jitter: int = 0) -> HardStream:
    """Return a stream whose attacks are a moment of a tag, or nothing.

    A spike is one row of one tag at 15 to 250 times its largest attack-free row, in an
    attack of 1 to 600 rows; a decaying step begins up to 20 rows before or after its
    label, at 15 to 60 spreads of one to three tags, and lasts some seconds.
    """
    rng = np.random.default_rng([seed, _SPIKY])
    p, n_train = round(log_uniform(rng, 6, 60)), 6000
    n_still = int(rng.integers(0, p // 3 + 1))
    places, row = [], 0
    for _ in range(12):
        row += int(rng.integers(600, 2500))
        length = 1 if rng.random() < 0.3 else round(log_uniform(rng, 5, 600))
        places.append((row, row + length))
        row += length
    n_test = row + int(rng.integers(600, 2500))
    phi, tails = float(rng.uniform(0, 0.9)), str(rng.choice(["gauss", "t4"]))
    values = unit_noise(rng, (n_train + n_test, p), tails)
    values = autoregress(values, phi) * np.sqrt(1 - phi**2)
    values[:, :n_still] = 0.0  # tags that never move
    train, test = values[:n_train], values[n_train:]
    is_free = np.ones(n_test, np.bool_)
    for start, stop in places:
        is_free[max(start - 120, 0) : stop + 120] = False
    for _ in range(int(rng.integers(0, 4))):
        # An episode that no label explains.
        at = int(rng.choice(np.flatnonzero(is_free)))
        lasts, group = int(rng.integers(5, 80)), rng.choice(p, 3)
        size = rng.uniform(5, 15)
        test[at : at + lasts, group] += size * is_free[at : at + lasts, None]
    largest = np.abs(test[is_free]).max(axis=0)
    segments = []
    for start, stop in places:
        kind = str(rng.choice(SPIKY))
        moving = np.arange(n_still, p)
        right = BY_ROWS
        if kind == "spike":
            j, at = int(rng.choice(moving)), int(rng.integers(start, stop))
            test[at, j] += log_uniform(rng, 15, 250) * largest[j]
        elif kind == "decay":
            group = rng.choice(moving, int(rng.integers(1, 4)))
            at = max(start + int(rng.integers(-20, 21)), 0)
            at = min(at, stop - 1) if stop - start > 1 else start
            fade = np.exp(-np.arange(60) / rng.uniform(2, 8))[: n_test - at]
            test[at : at + 60, group] += fade[:, None] * rng.uniform(15, 60)
        else:
            right = frozenset(["weak-evidence"])
        segments.append(
            PlannedSegment(
                start=start,
                stop=stop,
                kind=kind,
                level="clear",
                truth="one-moment" if kind != "none" else "weak-evidence",
                right=right,
                channels=(),
                sights={},
            )
        )
    return with_jitter(hard_stream_of(seed, train, test, segments, "spiky"), jitter)


def make_long_stream(seed: int, jitter: int = 0) -> HardStream:
    """Return a stream whose attacks are ten times its longest attack-free stretch.

    An attack moves 2 to 4 tags by 2 to 4 spreads all the time, or does nothing; between
    any two the plant is attack-free for a short while.
    """
    rng = np.random.default_rng([seed, _LONG])
    p, n_train = round(log_uniform(rng, 6, 40)), 5000
    longest = int(rng.integers(150, 300))
    places, row = [], 0
    for k in range(24):
        row += int(rng.integers(longest // 2, longest + 1))
        length = 10 * longest if k % 5 == 2 else int(rng.integers(40, 120))
        places.append((row, row + length))
        row += length
    n_test = row + longest
    phi = float(rng.uniform(0, 0.8))
    values = unit_noise(rng, (n_train + n_test, p), "gauss")
    values = autoregress(values, phi) * np.sqrt(1 - phi**2)
    train, test = values[:n_train], values[n_train:]
    segments = []
    for start, stop in places:
        is_long = stop - start == 10 * longest
        moves = is_long and rng.random() < 0.6
        if moves:
            group = rng.choice(p, int(rng.integers(2, 5)), replace=False)
            test[start:stop, group] += rng.uniform(2, 4)
        if not is_long:
            continue
        right = frozenset(["weak-evidence", "undecided"])
        causes = frozenset(["detected", "threshold", "diluted", "sequential"])
        segments.append(
            PlannedSegment(
                start=start,
                stop=stop,
                kind="long" if moves else "none",
                level="clear",
                truth="long-shift" if moves else "weak-evidence",
                right=causes if moves else right,
                channels=(),
                sights={},
            )
        )
    labels = np.zeros(n_test, np.int8)
    for start, stop in places:
        labels[start:stop] = 1
    made = hard_stream_of(seed, train, test, segments, "long")
    made = replace(made, stream=made.stream.replace(labels=labels))
    return made if jitter == 0 else with_jitter_of_labels(made, jitter)


def with_jitter_of_labels(made: HardStream, jitter: int) -> HardStream:
    """Return a stream in which the ends of the planned attacks alone are moved."""
    rng = np.random.default_rng([made.settings["seed"], _JITTER])
    labels, moved = made.stream.labels.copy(), []
    for segment in made.segments:
        late, early = rng.integers(0, jitter + 1, 2).tolist()
        labels[segment.start : segment.start + late] = 0
        labels[segment.stop - early : segment.stop] = 0
        moved.append(
            replace(segment, start=segment.start + late, stop=segment.stop - early)
        )
    stream = made.stream.replace(labels=labels, segments=[])
    return replace(made, stream=stream, segments=tuple(moved))


def hard_stream_of(
    seed: int,
    train: np.ndarray,
    test: np.ndarray,
    segments: list[PlannedSegment],
    name: str,
) -> HardStream:
    """Return a stream of rows with attacks, at one row a second."""
    labels = np.zeros(len(test), np.int8)
    for segment in segments:
        labels[segment.start : segment.stop] = 1
    stream = ResidualStream(train, test, labels, step_s=1, name=f"{name}-{seed}")
    return HardStream(stream=stream, segments=tuple(segments), settings={"seed": seed})


MAKERS = {
    "hard": make_hard_stream,
    "spiky": make_spiky_stream,
    "long": make_long_stream,
}


def draw_kind(
    rng: np.random.Generator, law: CalmLaw, labels: np.ndarray, start: int, stop: int
) -> str:
    """Draw a kind of attack that is possible at a place."""
    n_rows = stop - start
    weights = dict(KINDS)
    impossible = []
    if law.level[start:stop].min() < 0.3:
        impossible += ["under-drift"]
    if n_rows < 80:
        impossible += ["faint", "one-faint"]
    if n_rows < 60:
        impossible += ["onset", "late", "ramp"]
    if n_rows < 100 or labels[min(len(labels) - 1, stop + 5 * n_rows)]:
        impossible += ["aftermath"]
    for kind in impossible:
        weights.pop(kind, None)
    shares = np.array(list(weights.values()))
    return str(rng.choice(list(weights), p=shares / shares.sum()))


def planned(
    kind: str,
    level: str,
    start: int,
    oracle: Oracle,
    rows: np.ndarray,
    effect: np.ndarray,
    settings: dict[str, Any],
) -> PlannedSegment:
    """Return an attack with its truth."""
    built_in = set(BUILT_IN.get(kind, ()))
    built_in |= {"drift"} if oracle.has_moved else set()
    built_in |= {"threshold"} if settings["train_tail"] != "same" else set()
    sights = {"rule": Sight(by_coverage=False)}
    if kind not in ("none", "replay"):
        sights = oracle.sights(rows, effect)
    truth, right = truth_of(sights, built_in)
    return PlannedSegment(
        start=start,
        stop=start + len(rows),
        kind=kind,
        level=level,
        truth=truth,
        right=right,
        channels=tuple(np.flatnonzero(np.abs(effect).sum(axis=0) > 0).tolist()),
        sights=sights,
    )


def add_aftermath(
    test: np.ndarray, labels: np.ndarray, stop: int, effect: np.ndarray
) -> None:
    """Let the end of an attack decay over twice its length, in place."""
    n_rows = len(effect)
    end = min(stop + 2 * n_rows, len(test))
    following = np.flatnonzero(labels[stop:end] == 1)
    end = stop + int(following[0]) if len(following) else end
    decay = np.exp(-np.arange(end - stop) / (0.4 * n_rows))
    test[stop:end] += np.outer(decay, effect[-max(5, n_rows // 20) :].mean(axis=0))


def plan(
    rng: np.random.Generator,
    kind: str,
    level: str,
    start: int,
    oracle: Oracle,
    rows: np.ndarray,
    reference: Any,
) -> np.ndarray:
    """Return what an attack adds to its rows."""
    law, (n_rows, p) = oracle.law, rows.shape
    means = law.means(slice(start, start + n_rows))
    zero = np.zeros((n_rows, p))
    if kind == "none":
        return zero
    if kind == "replay":
        gains = law.gains(slice(start, start + n_rows))[:, None]
        return law.noise(rng, n_rows) * gains + means - rows
    if kind == "hush":
        kept = np.sqrt(rng.uniform(*HUSHES[level]))
        has_base = law.level.any() or rng.random() < 0.5
        return (kept - 1) * (rows - (means if has_base else reference.mean))
    if kind == "frozen":
        group = rng.choice(p, max(1, round(rng.uniform(0.5, 1) * p)), replace=False)
        held = means[0, group] + 0.3 * (rows[0, group] - means[0, group])
        zero[:, group] = held - rows[:, group]
        return zero
    if kind == "onset":
        seen = seen_channels(law, reference)
        group = rng.choice(
            seen, max(1, round(rng.uniform(0.1, 0.5) * len(seen))), replace=False
        )
        step = random_signs(rng, len(group)) * rng.uniform(8, 20) * law.scale[group]
        zero[: int(rng.integers(2, 6)), group] = step
        return zero
    direction, sizes = draw_direction(rng, kind, law, reference, rows - means)
    return sized(rng, kind, level, oracle, rows, direction, sizes)


def draw_direction(
    rng: np.random.Generator, kind: str, law: CalmLaw, reference: Any, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return what an attack of size 1 adds, and the sizes to choose from."""
    n_rows, p = noise.shape
    seen = seen_channels(law, reference)
    groups = {
        "few": lambda: rng.choice(p, int(rng.integers(1, 4)), replace=False),
        "one-faint": lambda: rng.choice(p, 1),
        "faint": lambda: rng.choice(
            p, max(2, round(rng.uniform(0.2, 1) * p)), replace=False
        ),
        "under-drift": lambda: np.flatnonzero(law.shift),
    }
    many = max(1, round(rng.uniform(0.4, 1) * len(seen)))
    group = groups.get(kind, lambda: rng.choice(seen, many, replace=False))()
    direction, sizes = np.zeros((n_rows, p)), np.geomspace(0.05, 60, 34)
    if kind == "under-drift" and rng.random() < 0.7:
        direction[:], sizes = -law.shift, np.geomspace(0.02, 3, 30)
    elif kind in ("many", "few") and rng.random() < 0.25:
        direction[:, group], sizes = noise[:, group], np.geomspace(0.05, 30, 30)
    else:
        steps = random_signs(rng, len(group)) * rng.uniform(0.7, 1.3, len(group))
        direction[:, group] = steps * law.scale[group]
    profile = np.ones(n_rows)
    if kind == "late":
        profile[: round(0.75 * n_rows)] = 0
    elif kind == "ramp":
        profile = np.linspace(0, 1, n_rows)
    return direction * profile[:, None], sizes


def sized(
    rng: np.random.Generator,
    kind: str,
    level: str,
    oracle: Oracle,
    rows: np.ndarray,
    direction: np.ndarray,
    sizes: np.ndarray,
) -> np.ndarray:
    """Return the attack of the smallest size that covers what is wanted."""
    options = SIZED_BY[kind]
    repair = options[0] if len(options) == 1 or rng.random() < 0.5 else options[1]
    repair = "threshold" if oracle.is_standing and repair == "rule" else repair
    wanted = rng.uniform(*LEVELS[level])
    if kind == "late" and repair != "sequential":
        wanted = min(wanted, 0.24)
    wanted = 0.95 if kind == "aftermath" else wanted

    def coverage(k: int) -> float:
        attacked = rows + sizes[k] * direction
        if repair in ("diluted", "sequential"):
            return oracle.watched(attacked, repair)
        sight = oracle.sights(attacked, sizes[k] * direction).get(repair)
        return -1.0 if sight is None else sight.coverage - sight.calm

    low, high = 0, len(sizes) - 1
    if coverage(high) < wanted:
        return sizes[high] * direction
    while high - low > 1:
        middle = (low + high) // 2
        if coverage(middle) >= wanted:
            high = middle
        else:
            low = middle
    further = rng.uniform(1, 2.5) if level == "clear" else 1.0
    return further * sizes[high] * direction


# --- Small mathematics --------------------------------------------------------------


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def random_signs(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.choice([-1.0, 1.0], size=n)


def unit_noise(
    rng: np.random.Generator, shape: tuple[int, int], tails: str
) -> np.ndarray:
    """Return independent noise of variance 1: normal, or t with 4 degrees."""
    noise = rng.standard_normal(shape)
    if tails == "t4":
        halves = rng.standard_exponential(shape) + rng.standard_exponential(shape)
        noise /= np.sqrt(halves)  # chi-squared of 4 is twice that; t4 has variance 2
    elif tails != "gauss":
        raise ValueError(f"no such tails: {tails!r}")
    return noise


def autoregress(values: np.ndarray, phi: float) -> np.ndarray:
    """Return x_t = phi x_(t-1) + values_t, from x = 0 before the first row.

    1 / (1 - phi L) = (1 + phi L) (1 + phi^2 L^2) (1 + phi^4 L^4) ...
    """
    out = values.copy()
    lag, weight = 1, phi
    while lag < len(out) and weight > 1e-9:
        out[lag:] += weight * out[:-lag]
        lag, weight = 2 * lag, weight**2
    return out
