"""The rules that every detector must follow, ours and users', as checks to run.

``check_detector(MyDetector)`` fits a detector on a small made-up recording, asks for
residuals and says in one sentence what is wrong.
"""

import json
import tempfile
import zipfile
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.data.downsampling import rows_of
from sightline.data.recording import Recording, Role, Tag
from sightline.data.segments import Attack
from sightline.detectors.base import Arrays, Detector, LearnedDetector, Residuals
from sightline.errors import FileError, SightlineError

# How much single precision and another batch size may change a residual.
TOLERANCE = 1e-5
# Share of the recording that is train.
TRAIN_SHARE = 4 / 7
Make = Callable[[], Detector]
Kind = type[SightlineError]


class ConformanceError(AssertionError):
    """A detector breaks a rule that every detector must follow."""


@dataclass(frozen=True, eq=False)
class DetectorTrial:
    """A detector under test, and the recordings it is tested with.

    Parameters
    ----------
    make : callable
        Returns a new detector.
    originals : pair of Recording
        Train and test, never handed to a detector.
    seed : int
        Of what a check changes at random.
    """

    make: Make
    originals: tuple[Recording, Recording]
    seed: int

    @classmethod
    def of(
        cls, make: Make, whole: Recording | None = None, seed: int = 0
    ) -> "DetectorTrial":
        """Return the trial on a recording cut in two; each part gets a gap."""
        whole = whole or made_up_recording(seed)
        cut = int(whole.n_steps * TRAIN_SHARE)
        train, test = rows_of(whole, 0, cut), rows_of(whole, cut, whole.n_steps)
        return cls(make, (_with_gap(train), _with_gap(test)), seed)

    @property
    def train(self) -> Recording:
        """A new copy each time, so that no check sees changes made in another."""
        return deepcopy(self.originals[0])

    @property
    def test(self) -> Recording:
        """A new copy each time, as `train`."""
        return deepcopy(self.originals[1])

    @cached_property
    def fitted(self) -> Detector:
        """The detector, fitted on train."""
        return self.make().fit(self.train)

    @cached_property
    def tested(self) -> Residuals:
        """The residuals of test."""
        return self.fitted.residuals(self.test)


Check = Callable[[DetectorTrial], None]
CHECKS: dict[str, Check] = {}


def check_detector(
    make: Make, *, recording: Recording | None = None, seed: int = 0
) -> None:
    """Run every check; raise at the first one that a detector does not pass.

    Parameters
    ----------
    make : callable
        Returns a new detector, always the same: the class, or a function.
    recording : Recording, optional
        Attack-free, a few hundred steps or more, to be used instead of the made-up one
        by a detector that needs certain channels.
    seed : int
        Of the made-up recording and of what is changed in it.

    Raises
    ------
    ConformanceError
        In one sentence: which check, and what the detector did.

    Examples
    --------
    >>> from sightline.detectors import LastValue
    >>> check_detector(LastValue)
    """
    trial = DetectorTrial.of(make, recording, seed)
    for check in CHECKS.values():
        check(trial)


def made_up_recording(seed: int = 0) -> Recording:
    """Return 700 steps of three tanks: a level and a pump each, the last pump idle."""
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
    """Register a check; an error in it becomes one sentence with the check's name."""

    def register(check: Check) -> Check:
        def named(trial: DetectorTrial) -> None:
            try:
                check(trial)
            except Exception as error:
                text = " ".join(str(error).split())
                if not isinstance(error, ConformanceError):
                    text = f"the detector raised {type(error).__name__} ({text})."
                raise ConformanceError(f"Check {what!r} failed: {text}") from error

        CHECKS[what] = named
        return named

    return register


@_check("shape")
def _shape(trial: DetectorTrial) -> None:
    """Check that `fit` and `residuals` return what they must, `scale` is positive."""
    detector = trial.make()
    _demand(detector.fit(trial.train) is detector, "`fit` must return the detector.")
    tested: Any = detector.residuals(trial.test)
    _demand(isinstance(tested, Residuals), "`residuals` must return `Residuals`.")
    _demand(len(tested.values) > 0, "it gave no row for a long recording.")
    scale = np.ones(tested.values.shape[1]) if tested.scale is None else tested.scale
    _demand(
        scale.shape == tested.values.shape[1:] and bool((scale > 0).all()),
        "`scale` must be one positive number for each channel.",
    )


@_check("finite")
def _finite(trial: DetectorTrial) -> None:
    """Check that residuals are finite where no cell is missing."""
    for recording in (trial.train, trial.test):
        _demand_finite(
            trial.fitted.residuals(recording), "a recording without missing cells"
        )


@_check("channels")
def _channels(trial: DetectorTrial) -> None:
    """Check that channels are the recording's, in its order."""
    tested, channels = trial.tested, trial.train.channels
    some = tuple(channel for channel in channels if channel in tested.channels)
    # An invariant is no channel of the plant and may have any name.
    wanted = {"observation": channels, "sensor": some}
    _demand(
        tested.channels == wanted.get(tested.space, tested.channels),
        "the channels must be the recording's, in its order (in observation space all "
        "of them, in sensor space some).",
    )


@_check("index")
def _index(trial: DetectorTrial) -> None:
    """Check that `index` names steps of the recording, ascending."""
    # "sign" and "rows to come" check that a row belongs to the step it names.
    for recording in (trial.train, trial.test):
        index = trial.fitted.residuals(recording).index
        _demand(
            bool((np.diff(index) > 0).all() and 0 <= index[0])
            and int(index[-1]) < recording.n_steps,
            f"`index` must name steps of the recording, ascending; got {index[0]} ... "
            f"{index[-1]} in {recording.n_steps} steps.",
        )


@_check("sign")
def _sign(trial: DetectorTrial) -> None:
    """Check that the residual of a shifted channel moves in the same direction."""
    tested, spans = trial.tested, np.ptp(trial.train.values, axis=0)
    # In the middle of the last run, where every detector has warmed up.
    start = (_last_gap(trial.test) + trial.test.n_steps) // 2
    row = int(np.searchsorted(tested.index, start))
    _demand(row < len(tested.index), f"no residual from step {start} on.")
    for column, channel in enumerate(trial.train.channels):
        if spans[column] == 0 or channel not in tested.channels:
            continue
        # Only the first row: a forecast follows the shift after it.
        where = row, tested.channels.index(channel)
        for direction, sign in (("up", 1), ("down", -1)):
            values = trial.test.values.copy()
            values[start:, column] += sign * 5 * spans[column]
            shifted = trial.fitted.residuals(replace(trial.test, values=values))
            _demand(
                bool(sign * (shifted.values[where] - tested.values[where]) > 0),
                f"{channel} was shifted {direction} at step {start}, but its residual "
                "did not follow: a residual is observed minus expected, with its sign.",
            )


@_check("gaps")
def _gaps(trial: DetectorTrial) -> None:
    """Check that rows before a gap do not change residuals after it."""
    gap = _last_gap(trial.test)
    values = trial.test.values.copy()
    values[:gap] = values[:gap][::-1] + np.ptp(trial.train.values, axis=0)
    residuals = trial.fitted.residuals(replace(trial.test, values=values))
    after = trial.tested.index >= gap
    _demand(bool(after.any()), f"no residual after the gap at step {gap}.")
    _demand(
        np.array_equal(residuals.index, trial.tested.index)
        and _close(residuals.values[after], trial.tested.values[after]),
        f"rows before the gap at step {gap} change residuals after it.",
    )


@_check("constant channels")
def _constant_channels(trial: DetectorTrial) -> None:
    """Check that a channel constant in train may change in test."""
    values = trial.test.values.copy()
    values[len(values) // 2 :, np.ptp(trial.train.values, axis=0) == 0] += 1
    moved = replace(trial.test, values=values)
    _demand_finite(trial.fitted.residuals(moved), "a constant channel that moves")


@_check("other channels")
def _other_channels(trial: DetectorTrial) -> None:
    """Check that missing, additional and reordered channels are refused."""
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
def _missing_cells(trial: DetectorTrial) -> None:
    """Check that missing cells are filled and reported, refused, or give nan."""
    # Ours fill missing cells and say so; others may refuse them, or return nan.
    rng = np.random.default_rng(trial.seed)
    first = trial.test.n_steps // 4
    train, test = trial.train.values.copy(), trial.test.values.copy()
    train[rng.random(train.shape) < 0.02] = np.nan
    test[first:][rng.random(test[first:].shape) < 0.02] = np.nan
    detector = trial.make()
    is_ours = isinstance(detector, LearnedDetector)
    try:
        detector.fit(replace(trial.train, values=train))
        residuals = detector.residuals(replace(trial.test, values=test))
    except SightlineError as error:
        _demand(not is_ours, f"missing cells were refused ({error}).")
        _demand_sentence(error)
        return
    before = residuals.values[residuals.index + residuals.every <= first]
    _demand(
        bool(np.isfinite(before).all()) and not np.isinf(residuals.values).any(),
        "with missing cells residuals must be finite, or nan after the first one.",
    )
    if is_ours:
        _demand_finite(residuals, "a recording with missing cells")
        _demand(
            len(residuals.notices) > len(trial.tested.notices),
            "`notices` must say what became of missing cells.",
        )


@_check("labels")
def _labels(trial: DetectorTrial) -> None:
    """Check that labels and attacks of train and test change nothing."""
    rng = np.random.default_rng(trial.seed)

    def labelled(recording: Recording, low: int, high: int) -> Recording:
        labels = rng.integers(low, high, recording.n_steps, np.int8, endpoint=True)
        attack = Attack(id="1", start=20, stop=60, targets=recording.channels[:1])
        return replace(recording, labels=labels, attacks=(attack,))

    residuals = trial.make().fit(labelled(trial.train, -1, 1)).residuals(trial.test)
    _demand_same(residuals, trial.tested, "labels and attacks of train")
    for low, high in ((-1, 1), (0, 0), (1, 1)):
        residuals = trial.fitted.residuals(labelled(trial.test, low, high))
        _demand_same(residuals, trial.tested, "labels and attacks of test")


@_check("input unchanged")
def _input_unchanged(trial: DetectorTrial) -> None:
    """Check that recordings are not changed, and may be read-only."""
    for is_writable in (True, False):
        train, test = trial.train, trial.test
        for array in (*_arrays(train).values(), *_arrays(test).values()):
            array.flags.writeable = is_writable
        trial.make().fit(train).residuals(test)
        for used, original in zip((train, test), trial.originals, strict=True):
            for name, array in _arrays(original).items():
                _demand(
                    np.array_equal(array, _arrays(used)[name]),
                    f"it changed `{name}` of the recording it was given.",
                )


@_check("fitting again")
def _fitting_again(trial: DetectorTrial) -> None:
    """Check that fitting again gives the same bits."""
    detector = trial.make()
    for what in ("making and fitting another one", "fitting it twice"):
        residuals = detector.fit(trial.train).residuals(trial.test)
        _demand_same(residuals, trial.tested, what)


@_check("asking again")
def _asking_again(trial: DetectorTrial) -> None:
    """Check that earlier calls of `residuals` change nothing."""
    detector = trial.make().fit(trial.train)
    first = detector.residuals(trial.test)
    detector.residuals(trial.train)
    _demand_same(detector.residuals(trial.test), first, "earlier calls of `residuals`")


@_check("rows to come")
def _rows_to_come(trial: DetectorTrial) -> None:
    """Check that later rows do not change residuals of earlier steps."""
    cut = trial.test.n_steps // 2
    residuals = trial.fitted.residuals(rows_of(trial.test, 0, cut))
    whole, n_rows = trial.tested, len(residuals.index)
    n_due = int((whole.index <= cut - whole.every).sum())
    _demand(
        n_rows >= n_due
        and np.array_equal(residuals.index, whole.index[:n_rows])
        and _close(residuals.values[:n_due], whole.values[:n_due]),
        f"rows from step {cut} on change residuals of the steps before.",
    )


@_check("before fit")
def _before_fit(trial: DetectorTrial) -> None:
    """Check that `residuals` before `fit` is refused."""
    _refused("`residuals` before `fit`", trial.make().residuals, trial.test)


@_check("too short")
def _too_short(trial: DetectorTrial) -> None:
    """Check that one step is refused, or gives one residual."""
    _refused("train of one step", trial.make().fit, rows_of(trial.train, 0, 1))
    try:
        residuals = trial.fitted.residuals(rows_of(trial.test, 0, 1))
    except SightlineError as error:
        _demand_sentence(error)
    else:
        _demand(
            len(residuals.index) == 1, "one step must give one residual or be refused."
        )


@_check("split")
def _split(trial: DetectorTrial) -> None:
    """Check that `split` names steps of train, none both trained and held out."""
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
def _saving(trial: DetectorTrial) -> None:
    """Check that saving changes nothing, and that damaged files are refused."""
    detector: Any = trial.fitted
    if not (hasattr(detector, "save") and hasattr(type(detector), "load")):
        return
    load = type(detector).load
    with tempfile.TemporaryDirectory() as folder:
        path, other = Path(folder) / "detector.npz", Path(folder) / "other.npz"
        detector.save(path)
        residuals = load(path).residuals(trial.test)
        _demand_same(residuals, trial.tested, "saving and loading")
        _refused("a file that is not there", load, other, FileError)
        other.write_text("not a detector")
        _refused("a file of text", load, other, FileError)
        if not zipfile.is_zipfile(path):
            return
        with np.load(path, allow_pickle=False) as file:
            arrays: Arrays = dict(file)
        about = json.loads(str(arrays.pop("about_json", "{}"))) | {"format": 10**6}
        page = np.array(json.dumps(about))
        np.savez(other, about_json=page, **arrays)  # type: ignore[arg-type]
        if "sightline" in about:  # a file of ours
            _refused("a file of an unknown format", load, other, FileError)


def _with_gap(recording: Recording) -> Recording:
    """Return a recording with a gap: as it has, else one at two fifths of it."""
    if _last_gap(recording):
        return recording
    return replace(recording, breaks=np.array([0, 2 * recording.n_steps // 5]))


def _last_gap(recording: Recording) -> int:
    """Return the first row of the last run."""
    return int(np.asarray(recording.breaks)[-1])


def _arrays(recording: Recording) -> Arrays:
    """Return the arrays of a recording by name."""
    names = ("values", "labels", "time", "breaks")
    arrays = {name: getattr(recording, name) for name in names}
    return {name: array for name, array in arrays.items() if array is not None}


def _close(values: npt.NDArray[Any], others: npt.NDArray[Any]) -> bool:
    """Return whether arrays agree up to single precision."""
    if values.shape != others.shape:
        return False
    size = np.abs(others).max(initial=0.0)
    return np.allclose(values, others, rtol=TOLERANCE, atol=TOLERANCE * size)


def _demand(is_met: bool, sentence: str) -> None:
    """Raise `ConformanceError` with a sentence unless a condition is met."""
    if not is_met:
        raise ConformanceError(sentence)


def _demand_finite(residuals: Residuals, what: str) -> None:
    is_finite = bool(np.isfinite(residuals.values).all())
    _demand(is_finite, f"{what} gave residuals of nan or inf.")


def _demand_same(residuals: Residuals, before: Residuals, what: str) -> None:
    _demand(
        residuals.channels == before.channels
        and np.array_equal(residuals.index, before.index)
        and residuals.values.dtype == before.values.dtype
        and np.array_equal(residuals.values, before.values, equal_nan=True),
        f"{what} must not change residuals in the last bit.",
    )


def _demand_sentence(error: SightlineError) -> None:
    # As it was raised: as text, an error escapes its line breaks.
    told = str(error.args[0]) if error.args else ""
    is_sentence = "\n" not in told and told.endswith(".")
    _demand(is_sentence, f"an error must be one sentence; got {str(error)!r}.")


def _refused(
    what: str, call: Callable[..., Any], given: Any, kind: Kind = SightlineError
) -> None:
    """Check that a call raises one of our errors, with one sentence."""
    got = "nothing was raised"
    try:
        call(given)
    except kind as error:
        _demand_sentence(error)
        return
    except Exception as error:
        got = f"got {type(error).__name__}"
    raise ConformanceError(f"{what} must raise a {kind.__name__}; {got}.")
