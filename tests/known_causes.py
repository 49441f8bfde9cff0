"""Residual streams whose cause of a missed attack is known by construction.

Every attack is linear in one number, its size: ``r' = r + size * direction``. The
size is set so that the segment has a wanted coverage in the score that the repair
of its cause looks at, with thresholds, references and matched windows of the known
calm law (`IdealLadder`): the truth is what a ladder with unlimited calm data says.
Effect-free segments are never checked: what chance makes of them is part of the test.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from sightline import Attack, ResidualStream, fit_reference

CAUSES = ("detected", "threshold", "drift", "diluted", "sequential", "quiet", "none")
# How often a cause is wanted where it is possible, so that all come out alike.
WANTED = {
    "detected": 1.05,
    "threshold": 2.2,
    "drift": 2.7,
    "diluted": 0.85,
    "sequential": 1.7,
    "quiet": 0.9,
    "none": 1.05,
}
BUDGET = 0.01
CONTRAST = 0.30
NEARLY_ALL = 0.8
QUIET_SHARE = 0.6
SHORTEST_SEQUENTIAL = 80
MOST_ROWS = 120_000
MOST_VALUES = 6_000_000
IDEAL_ROWS = 20_000
# Streams of random numbers of one seed.
_SETTINGS, _LAW, _TRAIN, _TEST, _PLACES, _ATTACKS, _IDEAL, _CALM = range(8)


@dataclass(frozen=True, kw_only=True)
class PlannedSegment:
    """One attack, and why the p99 rule does or does not see it."""

    start: int
    stop: int
    intended: str
    effect: str
    size: float
    channels: tuple[int, ...]

    @property
    def length(self) -> int:
        return self.stop - self.start


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


@dataclass(frozen=True, kw_only=True, eq=False)
class KnownStream:
    """A stream, what was done to it, and as much of its calm as one likes."""

    stream: ResidualStream
    segments: tuple[PlannedSegment, ...]
    settings: dict[str, Any]
    law: CalmLaw = field(repr=False)

    def calm(self, replica: int) -> np.ndarray:
        """Return the test rows again without attacks: same schedules, other noise."""
        rng = np.random.default_rng([self.settings["seed"], _CALM, replica])
        return self.law.sample(rng)


def make_known_stream(
    seed: int, *, hard: bool = True, n_segments: int = 12, **fixed: Any
) -> KnownStream:
    """Return a stream with `n_segments` attacks of known cause.

    `fixed` pins any setting of `draw_settings`; `causes=(...)` limits the causes,
    `effects=(...)` the effect sizes.
    """
    settings = draw_settings(seed, hard=hard, n_segments=n_segments, **fixed)
    bounds, breaks, n_test = draw_places(seed, settings)
    settings["n_test"] = n_test
    train, law = draw_train_and_law(seed, settings)
    reference = fit_reference(train)
    train_p99 = float(np.quantile(Whitened.of(reference).energy(train), 1 - BUDGET))
    settings["train_p99"] = train_p99
    ladder = IdealLadder(law, reference, train_p99, seed)
    test = law.sample(np.random.default_rng([seed, _TEST]))
    segments = attack(test, bounds, ladder, seed, settings)
    labels = np.zeros(n_test, np.int8)
    for segment in segments:
        labels[segment.start : segment.stop] = 1
    channels = [f"c{j}" for j in range(settings["p"])]
    stream = ResidualStream(
        train,
        test,
        labels,
        channels=channels,
        segments=[
            Attack(id=str(i), start=s.start, stop=s.stop)
            for i, s in enumerate(segments)
        ],
        test_breaks=breaks,
        step_s=1,
        name=f"known-{seed}",
    )
    return KnownStream(stream=stream, segments=segments, settings=settings, law=law)


# --- Settings ---------------------------------------------------------------


def draw_settings(
    seed: int, *, hard: bool, n_segments: int, **fixed: Any
) -> dict[str, Any]:
    """Draw what kind of stream it is; `fixed` overrules, draws stay the same."""
    rng = np.random.default_rng([seed, _SETTINGS])
    longest = round(log_uniform(rng, 60, 2000))
    few_calm = rng.random() < 0.15
    drawn: dict[str, Any] = {
        "p": round(log_uniform(rng, 10, 150)),
        "autocorrelation": float(rng.choice([0.0, rng.uniform(0, 0.95)], p=[0.2, 0.8])),
        "tails": str(rng.choice(["gauss", "t4"])),
        "drift": str(
            rng.choice(["none", "all", "part", "growing"], p=[0.4, 0.25, 0.2, 0.15])
        ),
        "regimes": str(rng.choice(["none", "known", "unknown"], p=[0.6, 0.2, 0.2])),
        "train_tail": str(
            rng.choice(["same", "bursts", "startup"], p=[0.45, 0.35, 0.2])
        ),
        "scale_decades": 6.0,
        "drift_ratio": log_uniform(rng, 1.5, 5),
        "length": (round(log_uniform(rng, 20, longest)), longest),
        "n_train": round(log_uniform(rng, 3000, 20_000)),
        "calm_factor": log_uniform(rng, 6, 19)
        if few_calm
        else log_uniform(rng, 20, 400),
        "adjacent": 0.15,
        "causes": CAUSES,
        "effects": ("clear", "medium", "bar"),
    }
    if not hard:
        drawn |= {
            "autocorrelation": 0.0,
            "tails": "gauss",
            "regimes": "none",
            "drift": str(rng.choice(["none", "all"])),
            "scale_decades": 1.0,
            "length": (max(80, longest // 4), max(120, longest)),
            "calm_factor": max(40.0, drawn["calm_factor"]),
            "effects": ("clear",),
        }
    unknown = set(fixed) - set(drawn)
    if unknown:
        raise TypeError(f"no such settings: {sorted(unknown)}")
    settings = drawn | fixed
    if np.ndim(settings["length"]) == 0:
        settings["length"] = (int(settings["length"]), int(settings["length"]))
    if "n_train" not in fixed:  # enough rows to fit a covariance to
        phi = settings["autocorrelation"]
        least = 5 * settings["p"] * (1 + phi) / (1 - phi)
        settings["n_train"] = round(min(20_000, max(least, settings["n_train"])))
    return settings | {"seed": seed, "hard": hard, "n_segments": n_segments}


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


# --- What a ladder with unlimited calm data sees ------------------------------


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

    def energies(
        self, rows: np.ndarray, direction: np.ndarray, sizes: np.ndarray
    ) -> np.ndarray:
        """Return the energies of rows + size * direction, one column a size."""
        here = (rows - self.mean) @ self.whitening
        there = direction @ self.whitening
        square = 0.5 * np.einsum("tj,tj->t", here, here)
        cross = np.einsum("tj,tj->t", here, there)
        grown = 0.5 * np.einsum("tj,tj->t", there, there)
        return square[:, None] + np.outer(cross, sizes) + np.outer(grown, sizes**2)


@dataclass(frozen=True, kw_only=True, eq=False)
class CalmTrace:
    """Scores of calm rows (one column each), their limits, and window coverages."""

    limits: np.ndarray
    passed: np.ndarray
    n_rows: int

    @classmethod
    def of(
        cls, scores: np.ndarray, n_rows: int, limits: np.ndarray | None = None
    ) -> "CalmTrace":
        """Take replicas of `n_rows` rows each, one after the other."""
        scores = scores.reshape(len(scores), -1)
        if limits is None:
            limits = upper_quantiles(scores)
        passed = np.zeros((len(scores) + 1, scores.shape[1]), np.int32)
        np.cumsum(scores > limits, axis=0, out=passed[1:])
        return cls(limits=limits, passed=passed, n_rows=n_rows)

    def starts(self, length: int, near: int | None = None) -> np.ndarray:
        """Return where matched windows start, in the hours around a row if given."""
        last = self.n_rows - length
        first, stop = 0, last
        if near is not None:
            first, stop = max(0, near - 20 * length), min(last, near + 20 * length)
        step = max(1, length // 2, (stop - first) // 400)
        within = np.arange(first, stop + 1, step)
        n_replicas = (len(self.passed) - 1) // self.n_rows
        return (np.arange(n_replicas)[:, None] * self.n_rows + within).ravel()

    def window_coverages(self, length: int, near: int | None = None) -> np.ndarray:
        """Return the best coverage over the scores in each matched calm window."""
        starts = self.starts(length, near)
        count = self.passed[starts + length] - self.passed[starts]
        return count.max(axis=1) / length

    def bar(self, length: int, near: int | None = None) -> tuple[float, float]:
        """Return median and 95th percentile of calm windows."""
        coverages = self.window_coverages(length, near)
        return float(np.median(coverages)), float(np.quantile(coverages, 0.95))


@dataclass(frozen=True, kw_only=True)
class Sight:
    """Coverage of a segment in one score, and whether that makes it visible."""

    coverage: float
    visible: bool

    @classmethod
    def of(cls, coverage: float, bar: tuple[float, float]) -> "Sight":
        median, high = bar
        seen = coverage >= median + CONTRAST and coverage > high
        return cls(coverage=float(coverage), visible=bool(seen))


class IdealLadder:
    """The ladder with references, limits and calm windows of the law itself."""

    def __init__(
        self, law: CalmLaw, reference: Any, train_p99: float, seed: int
    ) -> None:
        self.law, self.reference = law, reference
        self.original = Whitened.of(reference)
        self.spread = np.sqrt(np.diag(reference.covariance))
        self.rng = np.random.default_rng([seed, _IDEAL])
        self.n_rows = len(law.level)
        n_replicas = max(1, min(8, round(IDEAL_ROWS / self.n_rows)))
        calm = np.concatenate([law.sample(self.rng) for _ in range(n_replicas)])
        self.energy = self.original.energy(calm)
        self.train_limit = self._trace(self.energy, np.array([train_p99]))
        self.recalibrated = self._trace(self.energy)
        moments = self._moments(law.means(), law.gains())
        self.refits = {None: self._refit(moments)}
        self.refit_energy = self.refits[None].energy(calm)
        self.refit_traces = {None: self._trace(self.refit_energy)}
        self.family = self._trace(self.focused(calm))
        self.accumulated = self._accumulators(self.energy)

    def _trace(self, scores: np.ndarray, limits: np.ndarray | None = None) -> CalmTrace:
        return CalmTrace.of(scores, self.n_rows, limits)

    def _moments(
        self, means: np.ndarray, gains: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        between = np.atleast_2d(np.cov(means.T, bias=True))
        return means.mean(axis=0), between + self.law.covariance * np.mean(gains**2)

    def _refit(self, moments: tuple[np.ndarray, np.ndarray]) -> Whitened:
        """Return the reference of the law, shrunk as much as that of train."""
        mean, covariance = moments
        shrinkage = self.reference.shrinkage
        target = shrinkage * np.trace(covariance) / self.law.p
        shrunk = (1 - shrinkage) * covariance + target * np.eye(self.law.p)
        return Whitened.fit(mean, shrunk)

    def local(self, start: int, stop: int) -> float | None:
        """Return the drift level to refit at, None where it is the same all over."""
        level = self.law.level
        if level.min() == level.max():
            return None
        at = round(float(level[start:stop].mean()), 1)
        if at not in self.refits:
            law, n_rows = self.law, IDEAL_ROWS
            mode = draw_schedule(self.rng, len(law.modes), n_rows)
            means = law.modes[mode] + at * law.shift
            gain = 1 + (law.gain - 1) * at
            refit = self._refit(self._moments(means, np.array([gain])))
            energy = refit.energy(means + gain * law.noise(self.rng, n_rows))
            self.refits[at] = refit
            self.refit_traces[at] = CalmTrace.of(energy, n_rows)
        return at

    def focused(self, rows: np.ndarray) -> np.ndarray:
        """Return energies of each channel alone and of the 2 to 5 largest."""
        alone = ((rows - self.original.mean) / self.spread) ** 2
        most = min(5, alone.shape[1])
        top = -np.partition(-alone, np.arange(most), axis=1)[:, :most]
        return np.concatenate([alone, np.cumsum(top, axis=1)[:, 1:]], axis=1)

    def _accumulators(self, energy: np.ndarray) -> CalmTrace:
        logs = np.log(energy + 1e-12)
        self.log_mean, self.log_spread = float(logs.mean()), float(logs.std())
        replicas = energy.reshape(-1, self.n_rows)
        return self._trace(np.concatenate([self.accumulate(e) for e in replicas]))

    def accumulate(self, energy: np.ndarray) -> np.ndarray:
        """Return two EWMAs and a CUSUM of log energy, started at normal."""
        logs = (np.log(energy + 1e-12) - self.log_mean) / self.log_spread
        summed = np.cumsum(logs - 0.5)
        lowest = np.minimum.accumulate(np.minimum(summed, 0))
        return np.stack([ewma(logs, 30), ewma(logs, 300), summed - lowest], axis=1)

    def detected(self, rows: np.ndarray, start: int) -> Sight:
        coverage = np.mean(self.original.energy(rows) > self.train_limit.limits)
        return Sight.of(coverage, self.train_limit.bar(len(rows), start))

    def recalibrate(self, rows: np.ndarray) -> Sight:
        coverage = np.mean(self.original.energy(rows) > self.recalibrated.limits)
        return Sight.of(coverage, self.recalibrated.bar(len(rows)))

    def rereference(self, rows: np.ndarray, start: int) -> Sight:
        """Refit on all calm rows, or on those of the same drift: the better one."""
        sights = []
        for level in {None, self.local(start, start + len(rows))}:
            trace = self.refit_traces[level]
            coverage = np.mean(self.refits[level].energy(rows) > trace.limits)
            sights.append(Sight.of(coverage, trace.bar(len(rows))))
        return max(sights, key=lambda sight: (sight.visible, sight.coverage))

    def refocus(self, rows: np.ndarray) -> Sight:
        coverage = np.mean(self.focused(rows) > self.family.limits, axis=0).max()
        return Sight.of(coverage, self.family.bar(len(rows)))

    def accumulates(self, rows: np.ndarray, before: np.ndarray) -> Sight:
        """Accumulate over the calm energies `before` the segment, and over it."""
        energy = np.concatenate([before, self.original.energy(rows)])
        scores = self.accumulate(energy)[len(before) :]
        coverage = np.mean(scores > self.accumulated.limits, axis=0).max()
        return Sight.of(coverage, self.accumulated.bar(len(rows)))

    def quiet_energies(
        self, start: int, length: int
    ) -> Iterator[tuple[Whitened, np.ndarray]]:
        """Yield a reference and mean energies of calm windows near, for each."""
        starts = self.recalibrated.starts(length, start)
        pairs = ((self.original, self.energy), (self.refits[None], self.refit_energy))
        for reference, energy in pairs:
            summed = np.concatenate([[0], np.cumsum(energy)])
            yield reference, (summed[starts + length] - summed[starts]) / length

    def is_quiet(self, rows: np.ndarray, start: int) -> bool:
        for reference, calm in self.quiet_energies(start, len(rows)):
            mean = reference.energy(rows).mean()
            if mean < calm.min() and mean < QUIET_SHARE * np.median(calm):
                return True
        return False

    def verdict(self, rows: np.ndarray, start: int, before: np.ndarray) -> str:
        """Return the cause the ladder names; `none` where no repair shows it."""
        if self.detected(rows, start).visible:
            return "detected"
        rungs = {
            "threshold": self.recalibrate(rows),
            "drift": self.rereference(rows, start),
            "diluted": self.refocus(rows),
        }
        best = max(sight.coverage for sight in rungs.values())
        for cause, sight in rungs.items():
            if sight.visible and sight.coverage >= NEARLY_ALL * best:
                return cause
        if self.accumulates(rows, before).visible:
            return "sequential"
        return "quiet" if self.is_quiet(rows, start) else "none"


# --- Attacks ----------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Place:
    """Rows of an attack, as they would have been without it, and what precedes."""

    start: int
    rows: np.ndarray
    noise: np.ndarray
    before: np.ndarray

    @property
    def stop(self) -> int:
        return self.start + len(self.rows)


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """A way to attack: rows + size * direction, and the sizes to choose from."""

    direction: np.ndarray
    sizes: np.ndarray
    channels: tuple[int, ...]


SHIFTS = np.geomspace(0.02, 400, 200)
SWELLS = np.geomspace(0.02, 40, 160)
HUSHES = np.linspace(0.02, 0.99, 120)


def attack(
    test: np.ndarray,
    bounds: Sequence[tuple[int, int]],
    ladder: IdealLadder,
    seed: int,
    settings: dict[str, Any],
) -> tuple[PlannedSegment, ...]:
    """Carry out an attack on each of the rows `bounds`, in place."""
    rng = np.random.default_rng([seed, _ATTACKS])
    law, planned, free_from = ladder.law, [], 0
    for start, stop in bounds:
        rows = test[start:stop]
        since = max(free_from, start - 3000)
        place = Place(
            start=start,
            rows=rows.copy(),
            noise=rows - law.means(slice(start, stop)),
            before=ladder.original.energy(test[since:start]),
        )
        segment, attacked = plan_segment(rng, place, ladder, settings)
        rows[:] = attacked
        planned.append(segment)
        free_from = stop
    return tuple(planned)


def plan_segment(
    rng: np.random.Generator,
    place: Place,
    ladder: IdealLadder,
    settings: dict[str, Any],
) -> tuple[PlannedSegment, np.ndarray]:
    """Return the attack, of the first wanted cause that can be had here."""
    for cause in wanted_causes(rng, place, ladder.law, settings):
        for effect in rng.permutation(settings["effects"]):
            for _ in range(2):
                found = try_attack(rng, cause, str(effect), place, ladder)
                if found is not None:
                    return found
    untouched = PlannedSegment(
        start=place.start,
        stop=place.stop,
        intended="none",
        effect="none",
        size=0.0,
        channels=(),
    )
    return untouched, place.rows


def wanted_causes(
    rng: np.random.Generator, place: Place, law: CalmLaw, settings: dict[str, Any]
) -> list[str]:
    """Return the causes possible here, in random order, none last or alone."""
    level = law.level[place.start : place.stop]
    possible = set(settings["causes"])
    if settings["train_tail"] == "same":
        possible -= {"threshold"}
    if level.min() < 0.3:
        possible -= {"drift"}
    if len(level) < SHORTEST_SEQUENTIAL:
        possible -= {"sequential"}
    order = [cause for cause in CAUSES if cause in possible]
    weights = np.array([WANTED[cause] for cause in order])
    # The exponential trick: an order drawn without replacement by weight.
    order = [order[i] for i in np.argsort(rng.exponential(size=len(order)) / weights)]
    return [] if order[:1] == ["none"] else [c for c in order if c != "none"]


def try_attack(
    rng: np.random.Generator,
    cause: str,
    effect: str,
    place: Place,
    ladder: IdealLadder,
) -> tuple[PlannedSegment, np.ndarray] | None:
    """Return the attack if its size can be had, and its cause comes out as meant."""
    plan = PLANS[cause](rng, place, ladder)
    size = SIZES[cause](rng, effect, place, plan, ladder)
    if size is None:
        return None
    attacked = place.rows + size * plan.direction
    if ladder.verdict(attacked, place.start, place.before) != cause:
        return None
    segment = PlannedSegment(
        start=place.start,
        stop=place.stop,
        intended=cause,
        effect=effect,
        size=float(size),
        channels=plan.channels,
    )
    return segment, attacked


# Ways to attack.


def plan_many(rng: np.random.Generator, place: Place, ladder: IdealLadder) -> Plan:
    """Shift, or swell the noise of, many of the channels that energy sees."""
    seen = seen_channels(ladder.law, ladder.reference)
    n_moved = max(1, round(rng.uniform(0.5, 1) * len(seen)))
    moved = np.sort(rng.choice(seen, size=n_moved, replace=False))
    return shift_or_swell(rng, place, ladder.law, moved)


def plan_few(rng: np.random.Generator, place: Place, ladder: IdealLadder) -> Plan:
    """Shift, or swell, one to three channels of little weight in the energy."""
    law = ladder.law
    weight = np.diag(law.covariance) * np.diag(ladder.reference.precision)
    light = np.argsort(weight)[: max(3, law.p // 2)]
    moved = np.sort(rng.choice(light, size=int(rng.integers(1, 4)), replace=False))
    return shift_or_swell(rng, place, law, moved)


def shift_or_swell(
    rng: np.random.Generator, place: Place, law: CalmLaw, moved: np.ndarray
) -> Plan:
    direction = np.zeros_like(place.rows)
    if rng.random() < 0.3:  # a variance-only attack
        direction[:, moved] = place.noise[:, moved]
        sizes = SWELLS
    else:
        steps = random_signs(rng, len(moved)) * rng.uniform(0.7, 1.3, len(moved))
        direction[:, moved] = steps * law.scale[moved]
        sizes = SHIFTS
    return Plan(direction=direction, sizes=sizes, channels=as_channels(moved))


def plan_under_drift(
    rng: np.random.Generator, place: Place, ladder: IdealLadder
) -> Plan:
    """Move back against the drift, which hides it, or elsewhere."""
    law = ladder.law
    if rng.random() < 0.3:
        return plan_many(rng, place, ladder)
    direction = np.tile(-law.shift, (len(place.rows), 1))
    moved = np.flatnonzero(law.shift)
    return Plan(
        direction=direction,
        sizes=np.geomspace(0.01, 3, 200),
        channels=as_channels(moved),
    )


def plan_faint(rng: np.random.Generator, place: Place, ladder: IdealLadder) -> Plan:
    """Shift all channels a little, or swell their noise a little."""
    return shift_or_swell(rng, place, ladder.law, np.arange(ladder.law.p))


def plan_quiet(rng: np.random.Generator, place: Place, ladder: IdealLadder) -> Plan:
    """Freeze the residual near its mean, or replay: shrink noise of most channels."""
    p = ladder.law.p
    direction = -place.noise
    moved = np.arange(p)
    if rng.random() < 0.3:
        direction = direction + 0.1 * place.noise[0]
        return Plan(
            direction=direction,
            sizes=HUSHES[HUSHES > 0.95],
            channels=as_channels(moved),
        )
    if not ladder.law.level.any():  # all of the residual shrinks
        direction = ladder.original.mean - place.rows
    if rng.random() < 0.3:
        n_left = round(0.15 * p)
        left = rng.choice(p, size=n_left, replace=False)
        direction[:, left] = 0
        moved = np.setdiff1d(moved, left)
    return Plan(direction=direction, sizes=HUSHES, channels=as_channels(moved))


# Sizes: the smallest with the wanted coverage in the score of the cause.


def wanted_coverage(
    rng: np.random.Generator, effect: str, bar: tuple[float, float]
) -> float:
    """Return a coverage so much above calm windows, and above nearly all of them."""
    low, high = {"clear": (0.8, 1.0), "medium": (0.5, 0.65), "bar": (0.31, 0.4)}[effect]
    wanted = bar[0] + rng.uniform(low, high)
    if effect == "clear":
        wanted = min(wanted, 0.98)
    return max(wanted, bar[1] + 0.02)


def first_reaching(
    coverages: np.ndarray, sizes: np.ndarray, wanted: float
) -> float | None:
    """Return the smallest size that reaches the wanted coverage."""
    enough = np.flatnonzero(coverages >= wanted)
    return float(sizes[enough[0]]) if len(enough) and wanted <= 1 else None


def size_detected(
    rng: np.random.Generator, effect: str, place: Place, plan: Plan, ladder: IdealLadder
) -> float | None:
    energies = ladder.original.energies(place.rows, plan.direction, plan.sizes)
    coverages = np.mean(energies > ladder.train_limit.limits, axis=0)
    bar = ladder.train_limit.bar(len(place.rows), place.start)
    size = first_reaching(coverages, plan.sizes, wanted_coverage(rng, effect, bar))
    far = rng.uniform(1, 3) if effect == "clear" else 1.0
    return None if size is None else far * size


def size_threshold(
    rng: np.random.Generator, effect: str, place: Place, plan: Plan, ladder: IdealLadder
) -> float | None:
    energies = ladder.original.energies(place.rows, plan.direction, plan.sizes)
    coverages = np.mean(energies > ladder.recalibrated.limits, axis=0)
    bar = ladder.recalibrated.bar(len(place.rows))
    return first_reaching(coverages, plan.sizes, wanted_coverage(rng, effect, bar))


def size_drift(
    rng: np.random.Generator, effect: str, place: Place, plan: Plan, ladder: IdealLadder
) -> float | None:
    level = ladder.local(place.start, place.stop)
    refit, trace = ladder.refits[level], ladder.refit_traces[level]
    energies = refit.energies(place.rows, plan.direction, plan.sizes)
    coverages = np.mean(energies > trace.limits, axis=0)
    bar = trace.bar(len(place.rows))
    return first_reaching(coverages, plan.sizes, wanted_coverage(rng, effect, bar))


def size_diluted(
    rng: np.random.Generator, effect: str, place: Place, plan: Plan, ladder: IdealLadder
) -> float | None:
    bar = ladder.family.bar(len(place.rows))
    coverages = np.zeros(len(plan.sizes))
    for j in plan.channels:
        here = place.rows[:, j] - ladder.original.mean[j]
        moved = here[:, None] + np.outer(plan.direction[:, j], plan.sizes)
        alone = (moved / ladder.spread[j]) ** 2
        coverages = np.maximum(coverages, np.mean(alone > ladder.family.limits[j], 0))
    return first_reaching(coverages, plan.sizes, wanted_coverage(rng, effect, bar))


def size_sequential(
    rng: np.random.Generator, effect: str, place: Place, plan: Plan, ladder: IdealLadder
) -> float | None:
    bar = ladder.accumulated.bar(len(place.rows))
    sizes = np.geomspace(0.02, 2, 40)
    energies = ladder.original.energies(place.rows, plan.direction, sizes)
    limits = ladder.accumulated.limits
    coverages = np.zeros(len(sizes))
    for i, energy in enumerate(energies.T):
        scores = ladder.accumulate(np.concatenate([place.before, energy]))
        coverages[i] = np.mean(scores[len(place.before) :] > limits, axis=0).max()
    return first_reaching(coverages, sizes, wanted_coverage(rng, effect, bar))


def size_quiet(
    rng: np.random.Generator, effect: str, place: Place, plan: Plan, ladder: IdealLadder
) -> float | None:
    """Return the smallest size that brings mean energy to a share of calm windows'."""
    low, high = {"clear": (0.05, 0.25), "medium": (0.3, 0.42), "bar": (0.48, 0.57)}[
        effect
    ]
    share = rng.uniform(low, high)
    margin = {"clear": 0.7, "medium": 0.85, "bar": 0.95}[effect]
    sizes = []
    for reference, calm in ladder.quiet_energies(place.start, len(place.rows)):
        energies = reference.energies(place.rows, plan.direction, plan.sizes)
        wanted = min(share * np.median(calm), margin * calm.min())
        size = first_reaching(-energies.mean(axis=0), plan.sizes, -wanted)
        sizes += [] if size is None else [size]
    return min(sizes, default=None)


PLANS: dict[str, Callable[[np.random.Generator, Place, IdealLadder], Plan]] = {
    "detected": plan_many,
    "threshold": plan_many,
    "drift": plan_under_drift,
    "diluted": plan_few,
    "sequential": plan_faint,
    "quiet": plan_quiet,
}
SIZES: dict[str, Callable[..., float | None]] = {
    "detected": size_detected,
    "threshold": size_threshold,
    "drift": size_drift,
    "diluted": size_diluted,
    "sequential": size_sequential,
    "quiet": size_quiet,
}


# --- Small mathematics --------------------------------------------------------


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def random_signs(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.choice([-1.0, 1.0], size=n)


def as_channels(moved: np.ndarray) -> tuple[int, ...]:
    return tuple(int(j) for j in moved)


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


def ewma(values: np.ndarray, span: int) -> np.ndarray:
    """Return the exponential moving average, started at 0."""
    alpha = 2 / (span + 1)
    return autoregress(alpha * values, 1 - alpha)


def upper_quantiles(scores: np.ndarray) -> np.ndarray:
    """Return the limit of each column that the budget of its rows passes."""
    at = len(scores) - 1 - int(BUDGET * len(scores))
    return np.partition(scores, at, axis=0)[at]
