"""What every detector must keep to, ours and anybody's, as checks one can run.

``check_detector(MyDetector)`` fits and asks a detector on a small made-up recording and
says in one sentence what it does wrong.
"""

import json
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.data.downsampling import rows_of
from sightline.data.recording import Recording, Role, Tag
from sightline.data.segments import Attack
from sightline.detectors.base import Detector, LearnedDetector, Residuals
from sightline.errors import FileError, SightlineError

# What single precision and another batch size may change of a residual.
TOLERANCE = 1e-5
# Share of the recording that is train.
TRAIN_SHARE = 4 / 7
Make = Callable[[], Detector]
Kind = type[SightlineError]


class ConformanceError(AssertionError):
    """A detector does not keep to what is asked of every detector."""


@dataclass(frozen=True, eq=False)
class Trial:
    """A detector on trial: how it is made, and what it is fitted on and asked about."""

    make: Make
    kept: tuple[Recording, Recording]
    seed: int

    @classmethod
    def of(cls, make: Make, whole: Recording | None = None, seed: int = 0) -> "Trial":
        """Cut a recording in two; each part has a gap, also if it had none."""
        whole = whole or made_up_recording(seed)
        cut = int(whole.n_steps * TRAIN_SHARE)
        train, test = rows_of(whole, 0, cut), rows_of(whole, cut, whole.n_steps)
        return cls(make, (_with_gap(train), _with_gap(test)), seed)

    @property
    def train(self) -> Recording:
        """A copy each time, so that no check sees what a detector did to another's."""
        return _copied(self.kept[0])

    @property
    def test(self) -> Recording:
        """As `train`: a copy each time."""
        return _copied(self.kept[1])

    @cached_property
    def fitted(self) -> Detector:
        """The detector, fitted on train."""
        return self.make().fit(self.train)

    @cached_property
    def told(self) -> Residuals:
        """The residuals of test."""
        return self.fitted.residuals(self.test)


Check = Callable[[Trial], None]
CHECKS: dict[str, Check] = {}


def check_detector(
    make: Make, *, recording: Recording | None = None, seed: int = 0
) -> None:
    """Run every check; raise at the first one that a detector does not pass.

    Parameters
    ----------
    make : callable
        Returns a new detector, each time alike: the class, or a function.
    recording : Recording, optional
        Attack-free, a few hundred steps or more, to be used instead of the made-up one
        by a detector that needs certain channels.
    seed : int
        Draws the made-up recording and what is changed in it.

    Raises
    ------
    ConformanceError
        In one sentence: which check, and what the detector did.
    """
    trial = Trial.of(make, recording, seed)
    for check in CHECKS.values():
        check(trial)


def made_up_recording(seed: int = 0) -> Recording:
    """Return 700 steps of three tanks: a level and a pump each, the last one idle."""
    rng = np.random.default_rng(seed)
    gaps = np.array([0, 170, 520])
    step = np.arange(700)
    time = step + 1000.0 * (np.searchsorted(gaps, step, side="right") - 1)
    columns, tags = [], []
    for stage, period in ((1, 40), (2, 54), (3, 66)):
        phase = (time + rng.integers(period)) % period / period
        level = 500 + 400 * np.abs(phase - 0.5) + rng.normal(0, 4, len(step))
        pump = np.where(phase < 0.5, 2.0, 1.0) if stage < 3 else np.ones(len(step))
        columns += [level, pump]
        tags += [
            Tag(name=f"LIT{stage}01", role=Role.SENSOR, stage=str(stage)),
            Tag(name=f"P{stage}01", role=Role.ACTUATOR, stage=str(stage)),
        ]
    return Recording(
        values=np.column_stack(columns), tags=tuple(tags), time=time, source="made up"
    )


def _check(what: str) -> Callable[[Check], Check]:
    """File a check; whatever goes wrong in it becomes one sentence with its name."""

    def filed(check: Check) -> Check:
        def named(trial: Trial) -> None:
            try:
                check(trial)
            except Exception as error:
                text = " ".join(str(error).split())
                if not isinstance(error, ConformanceError):
                    text = f"the detector raised {type(error).__name__} ({text})."
                raise ConformanceError(f"Check {what!r} failed: {text}") from error

        CHECKS[what] = named
        return named

    return filed


@_check("shape")
def _shape(trial: Trial) -> None:
    detector = trial.make()
    _demand(detector.fit(trial.train) is detector, "`fit` must return the detector.")
    told: Any = detector.residuals(trial.test)
    _demand(isinstance(told, Residuals), "`residuals` must return `Residuals`.")
    _demand(len(told.values) > 0, "it gave no row for a recording that is long enough.")
    scale = np.ones(told.values.shape[1]) if told.scale is None else told.scale
    _demand(
        scale.shape == told.values.shape[1:] and bool((scale > 0).all()),
        "`scale` must be one positive number for each channel.",
    )


@_check("finite")
def _finite(trial: Trial) -> None:
    for recording in (trial.train, trial.test):
        _demand_finite(trial.fitted.residuals(recording), "a recording without holes")


@_check("channels")
def _channels(trial: Trial) -> None:
    told, known = trial.told, trial.train.channels
    some = tuple(channel for channel in known if channel in told.channels)
    # An invariant is no channel of the plant and may be called anything.
    wanted = {"observation": known, "sensor": some}.get(told.space, told.channels)
    _demand(
        told.channels == wanted,
        "the channels must be the recording's, in its order (in observation space all "
        "of them, in sensor space some).",
    )


@_check("index")
def _index(trial: Trial) -> None:
    # That a row is of the very step it names is seen by "sign" and "rows to come".
    for recording in (trial.train, trial.test):
        index = trial.fitted.residuals(recording).index
        _demand(
            bool((np.diff(index) > 0).all() and 0 <= index[0])
            and int(index[-1]) < recording.n_steps,
            f"`index` must name steps of the recording, ascending; got {index[0]} ... "
            f"{index[-1]} in {recording.n_steps} steps.",
        )


@_check("sign")
def _sign(trial: Trial) -> None:
    told, spans = trial.told, np.ptp(trial.train.values, axis=0)
    # In the middle of the last run, where every detector has warmed up.
    start = (_last_gap(trial.test) + trial.test.n_steps) // 2
    row = int(np.searchsorted(told.index, start))
    _demand(row < len(told.index), f"no residual from step {start} on.")
    for column, channel in enumerate(trial.train.channels):
        if spans[column] == 0 or channel not in told.channels:
            continue
        # Only the first row: a forecast follows the shift after it.
        where = row, told.channels.index(channel)
        for way, sign in (("up", 1), ("down", -1)):
            values = trial.test.values.copy()
            values[start:, column] += sign * 5 * spans[column]
            shifted = trial.fitted.residuals(replace(trial.test, values=values))
            _demand(
                bool(sign * (shifted.values[where] - told.values[where]) > 0),
                f"{channel} was shifted {way} at step {start}, but its residual did "
                "not follow: a residual is observed minus expected, with its sign.",
            )


@_check("gaps")
def _gaps(trial: Trial) -> None:
    gap = _last_gap(trial.test)
    values = trial.test.values.copy()
    values[:gap] = values[:gap][::-1] + np.ptp(trial.train.values, axis=0)
    told = trial.fitted.residuals(replace(trial.test, values=values))
    after = trial.told.index >= gap
    _demand(bool(after.any()), f"no residual after the gap at step {gap}.")
    _demand(
        np.array_equal(told.index, trial.told.index)
        and _close(told.values[after], trial.told.values[after]),
        f"rows before the gap at step {gap} change residuals after it.",
    )


@_check("constant channels")
def _constant_channels(trial: Trial) -> None:
    values = trial.test.values.copy()
    values[len(values) // 2 :, np.ptp(trial.train.values, axis=0) == 0] += 1
    moved = replace(trial.test, values=values)
    _demand_finite(trial.fitted.residuals(moved), "a constant channel that moves")


@_check("other channels")
def _other_channels(trial: Trial) -> None:
    values, tags = trial.test.values, (*trial.test.tags, Tag(name="sightline-extra"))
    wide = np.hstack([values, values[:, :1]]).astype(np.float64)
    last = len(tags) - 1
    for what, columns in (
        ("lacks a channel", range(1, last)),
        ("has a channel more", range(last + 1)),
        ("has its channels in another order", range(last - 1, -1, -1)),
    ):
        other = replace(
            trial.test, values=wide[:, columns], tags=tuple(tags[k] for k in columns)
        )
        _refused(f"a recording that {what}", trial.fitted.residuals, other)


@_check("missing cells")
def _missing_cells(trial: Trial) -> None:
    # Ours fill holes and say so; others may refuse them, or give nan from there on.
    rng = np.random.default_rng(trial.seed)
    first = trial.test.n_steps // 4
    train, test = trial.train.values.copy(), trial.test.values.copy()
    train[rng.random(train.shape) < 0.02] = np.nan
    test[first:][rng.random(test[first:].shape) < 0.02] = np.nan
    detector = trial.make()
    is_ours = isinstance(detector, LearnedDetector)
    try:
        detector.fit(replace(trial.train, values=train))
        told = detector.residuals(replace(trial.test, values=test))
    except SightlineError as error:
        _demand(not is_ours, f"missing cells were refused ({error}).")
        _demand_sentence(error)
        return
    before = told.values[told.index + told.every <= first]
    _demand(
        bool(np.isfinite(before).all()) and not np.isinf(told.values).any(),
        "with missing cells residuals must be finite, or nan after the first one.",
    )
    if is_ours:
        _demand_finite(told, "a recording with missing cells")
        _demand(
            len(told.notices) > len(trial.told.notices),
            "`notices` must say what became of missing cells.",
        )


@_check("labels")
def _labels(trial: Trial) -> None:
    rng = np.random.default_rng(trial.seed)

    def labelled(recording: Recording, low: int, high: int) -> Recording:
        labels = rng.integers(low, high, recording.n_steps, np.int8, endpoint=True)
        attack = Attack(id="1", start=20, stop=60, targets=recording.channels[:1])
        return replace(recording, labels=labels, attacks=(attack,))

    told = trial.make().fit(labelled(trial.train, -1, 1)).residuals(trial.test)
    _demand_same(told, trial.told, "labels and attacks of train")
    for low, high in ((-1, 1), (0, 0), (1, 1)):
        told = trial.fitted.residuals(labelled(trial.test, low, high))
        _demand_same(told, trial.told, "labels and attacks of test")


@_check("input unchanged")
def _input_unchanged(trial: Trial) -> None:
    for is_writable in (True, False):
        train, test = trial.train, trial.test
        for array in (*_arrays(train).values(), *_arrays(test).values()):
            array.flags.writeable = is_writable
        trial.make().fit(train).residuals(test)
        for used, kept in zip((train, test), trial.kept, strict=True):
            for name, array in _arrays(kept).items():
                _demand(
                    np.array_equal(array, _arrays(used)[name]),
                    f"it changed `{name}` of the recording it was given.",
                )


@_check("fitting again")
def _fitting_again(trial: Trial) -> None:
    detector = trial.make()
    for what in ("making and fitting another one", "fitting it twice"):
        told = detector.fit(trial.train).residuals(trial.test)
        _demand_same(told, trial.told, what)


@_check("asking again")
def _asking_again(trial: Trial) -> None:
    detector = trial.make().fit(trial.train)
    first = detector.residuals(trial.test)
    detector.residuals(trial.train)
    _demand_same(detector.residuals(trial.test), first, "what else was asked before")


@_check("rows to come")
def _rows_to_come(trial: Trial) -> None:
    cut = trial.test.n_steps // 2
    told = trial.fitted.residuals(rows_of(trial.test, 0, cut))
    whole, n_rows = trial.told, len(told.index)
    n_due = int((whole.index <= cut - whole.every).sum())
    _demand(
        n_rows >= n_due
        and np.array_equal(told.index, whole.index[:n_rows])
        and _close(told.values[:n_due], whole.values[:n_due]),
        f"rows from step {cut} on change residuals of the steps before.",
    )


@_check("before fit")
def _before_fit(trial: Trial) -> None:
    _refused("`residuals` before `fit`", trial.make().residuals, trial.test)


@_check("too short")
def _too_short(trial: Trial) -> None:
    _refused("train of one step", trial.make().fit, rows_of(trial.train, 0, 1))
    try:
        told = trial.fitted.residuals(rows_of(trial.test, 0, 1))
    except SightlineError as error:
        _demand_sentence(error)
    else:
        _demand(len(told.index) == 1, "one step must give one residual or be refused.")


@_check("split")
def _split(trial: Trial) -> None:
    split = getattr(trial.fitted, "split", None)
    if split is None:
        return
    steps = np.sort(np.concatenate([split.trained, split.held_out]))
    _demand(len(split.trained) > 0, "`split.trained` is empty.")
    _demand(
        bool((np.diff(steps) > 0).all() and 0 <= steps[0])
        and int(steps[-1]) < trial.train.n_steps,
        "`split.trained` and `split.held_out` must be steps of train, none in both.",
    )


@_check("saving")
def _saving(trial: Trial) -> None:
    detector: Any = trial.fitted
    if not (hasattr(detector, "save") and hasattr(type(detector), "load")):
        return
    load = type(detector).load
    with tempfile.TemporaryDirectory() as folder:
        path, other = Path(folder) / "detector.npz", Path(folder) / "other.npz"
        detector.save(path)
        told = load(path).residuals(trial.test)
        _demand_same(told, trial.told, "saving and loading")
        _refused("a file that is not there", load, other, FileError)
        other.write_text("not a detector")
        _refused("a file of text", load, other, FileError)
        if _renumber(path, other):
            _refused("a file of an unknown format", load, other, FileError)


def _renumber(path: Path, other: Path) -> bool:
    """Copy a detector saved by Sightline under a format number there is not."""
    if not zipfile.is_zipfile(path):
        return False
    with np.load(path, allow_pickle=False) as file:
        arrays: dict[str, Any] = dict(file)
    about = json.loads(str(arrays.pop("about_json", "{}"))) | {"format": 10**6}
    np.savez(other, about_json=np.array(json.dumps(about)), **arrays)
    return "sightline" in about


def _with_gap(recording: Recording) -> Recording:
    """Return a recording with a gap: its own, else one put at two fifths of it."""
    if _last_gap(recording):
        return recording
    return replace(recording, breaks=np.array([0, 2 * recording.n_steps // 5]))


def _last_gap(recording: Recording) -> int:
    return int(np.asarray(recording.breaks)[-1])


def _arrays(recording: Recording) -> dict[str, Any]:
    names = ("values", "labels", "time", "breaks")
    arrays = {name: getattr(recording, name) for name in names}
    return {name: array for name, array in arrays.items() if array is not None}


def _copied(recording: Recording) -> Recording:
    arrays = _arrays(recording)
    return replace(recording, **{name: arrays[name].copy() for name in arrays})


def _close(values: npt.NDArray[Any], others: npt.NDArray[Any]) -> bool:
    if values.shape != others.shape:
        return False
    size = np.abs(others).max(initial=0.0)
    return np.allclose(values, others, rtol=TOLERANCE, atol=TOLERANCE * size)


def _demand(is_met: bool, sentence: str) -> None:
    if not is_met:
        raise ConformanceError(sentence)


def _demand_finite(told: Residuals, what: str) -> None:
    is_finite = bool(np.isfinite(told.values).all())
    _demand(is_finite, f"{what} gave residuals of nan or inf.")


def _demand_same(told: Residuals, before: Residuals, what: str) -> None:
    _demand(
        told.channels == before.channels
        and np.array_equal(told.index, before.index)
        and told.values.dtype == before.values.dtype
        and np.array_equal(told.values, before.values, equal_nan=True),
        f"{what} must not change residuals in the last bit.",
    )


def _demand_sentence(error: SightlineError) -> None:
    is_sentence = "\n" not in str(error) and str(error).endswith(".")
    _demand(is_sentence, f"an error must be one sentence; got {str(error)!r}.")


def _refused(
    what: str, call: Callable[..., Any], given: Any, kind: Kind = SightlineError
) -> None:
    """Demand that a call raises one of our errors, with one sentence."""
    got = "nothing was raised"
    try:
        call(given)
    except kind as error:
        _demand_sentence(error)
        return
    except Exception as error:
        got = f"got {type(error).__name__}"
    raise ConformanceError(f"{what} must be refused with a {kind.__name__}; {got}.")
