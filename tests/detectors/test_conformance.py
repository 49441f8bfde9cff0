"""Our detectors pass every check, and every check can fail."""

import itertools
from functools import partial

import numpy as np
import pytest

from sightline.data.recording import Recording, Tag
from sightline.detectors.base import Residuals, Split
from sightline.detectors.baselines import LastValue, PCAReconstruction, TrainingMean
from sightline.detectors.conformance import (
    CHECKS,
    ConformanceError,
    DetectorTrial,
    check_detector,
    made_up_recording,
)
from sightline.detectors.fusagnet import FuSAGNet
from sightline.detectors.gdn import GDN
from sightline.detectors.nsibf import NSIBF
from sightline.detectors.tranad import TranAD
from sightline.errors import FileError, StreamError

# (id, what makes a new one)
DETECTORS = [
    ("mean", TrainingMean),
    ("mean-every-4", lambda: TrainingMean(every=4)),
    ("last-value", LastValue),
    ("last-value-stride-7", lambda: LastValue(every=7, sampling="stride")),
    ("pca", PCAReconstruction),
    ("pca-nothing-held-out", lambda: PCAReconstruction(validation_share=0.0)),
    ("pca-trimmed", lambda: PCAReconstruction(trim_s=30, every=3)),
    ("gdn", partial(GDN, epochs=1, dim=8, top_k=3)),
    ("gdn-trimmed", partial(GDN, epochs=1, dim=8, top_k=3, trim_s=30, every=3)),
    ("fusagnet", partial(FuSAGNet, epochs=1, dim=8, top_k=3)),
    ("tranad", partial(TranAD, epochs=1)),
    ("nsibf", partial(NSIBF, epochs=1, window=3, input_range=6, lstm_width=8)),
    (
        "nsibf-per-row",
        partial(NSIBF, epochs=1, window=3, input_range=6, lstm_width=8, per_row=True),
    ),
]


@pytest.mark.parametrize(("name", "make"), DETECTORS, ids=dict(DETECTORS))
def test_our_detector_passes(name, make):
    # The error names the check that failed.
    check_detector(make)


class Honest:
    """A user's own detector: nothing of ours but what it gives."""

    mean = None

    def fit(self, recording):
        if recording.n_steps < 2:
            raise StreamError("Train is too short: give two steps or more.")
        self.n_train, self.channels = recording.n_steps, recording.channels
        self.mean = self.learned(recording)
        return self

    def learned(self, recording):
        return np.nanmean(recording.values, axis=0)

    def residuals(self, recording):
        if self.mean is None:
            raise StreamError("Nothing was learned yet: call `fit` first.")
        if recording.channels != self.channels:
            raise StreamError("These are other channels than those of train.")
        return self.told(recording)

    def told(self, recording, **changes):
        fields = {
            "values": recording.values - self.mean,
            "index": np.arange(recording.n_steps),
            "channels": recording.channels,
        }
        return Residuals(**(fields | changes))

    def save(self, path):
        np.savez(path, mean=self.mean, channels=self.channels)

    @classmethod
    def load(cls, path):
        try:
            with np.load(path) as file:
                loaded = cls()
                loaded.mean, loaded.channels = file["mean"], tuple(file["channels"])
        except (OSError, ValueError) as error:
            raise FileError(f"{path}: is no honest detector.") from error
        loaded.n_train = 0
        return loaded


class GivesScaleZero(Honest):
    def told(self, recording):
        return super().told(recording, scale=np.zeros(6))


class GivesNanOnTrain(Honest):
    def told(self, recording):
        values = recording.values - self.mean
        if recording.n_steps == self.n_train:
            values[5, 2] = np.nan
        return super().told(recording, values=values)


class TurnsChannelsAround(Honest):
    def told(self, recording):
        return super().told(
            recording,
            values=(recording.values - self.mean)[:, ::-1],
            channels=recording.channels[::-1],
        )


class LeavesAChannelOut(Honest):
    def told(self, recording):
        return super().told(
            recording,
            values=(recording.values - self.mean)[:, 1:],
            channels=recording.channels[1:],
        )


class NamesAStepThereIsNot(Honest):
    def told(self, recording):
        index = np.arange(recording.n_steps)
        if recording.n_steps == self.n_train:
            index[-1] += 1
        return super().told(recording, index=index)


class ExpectedMinusObserved(Honest):
    def told(self, recording):
        return super().told(recording, values=self.mean - recording.values)


class WithoutSign(Honest):
    def told(self, recording):
        return super().told(recording, values=np.abs(recording.values - self.mean))


class TellsOneStepLate(Honest):
    """Its rows name the step after the one they are of, within the run."""

    def told(self, recording):
        values = recording.values - self.mean
        late = np.vstack([values[:1], values[:-1]])
        late[recording.breaks] = values[recording.breaks]
        return super().told(recording, values=late)


class LooksThroughGaps(Honest):
    def told(self, recording):
        values = np.diff(recording.values, axis=0, prepend=recording.values[:1])
        return super().told(recording, values=values)


class DividesByZero(Honest):
    def told(self, recording):
        with np.errstate(divide="ignore", invalid="ignore"):
            values = (recording.values - self.mean) / (self.mean - 1)
        values[recording.values == self.mean] = 0
        return super().told(recording, values=values)


class MindsNoNames(Honest):
    def residuals(self, recording):
        if self.mean is None:
            raise StreamError("Nothing was learned yet: call `fit` first.")
        if len(recording.channels) != len(self.channels):
            raise StreamError("These are not as many channels as train has.")
        return self.told(recording)


class BreaksOnAnExtraChannel(Honest):
    def residuals(self, recording):
        if self.mean is None:
            raise StreamError("Nothing was learned yet: call `fit` first.")
        return self.told(recording)


class SpreadsNan(Honest):
    def learned(self, recording):
        return recording.values.mean(axis=0)


class MakesInfOfNan(Honest):
    def told(self, recording):
        values = np.nan_to_num(recording.values - self.mean, nan=np.inf)
        return super().told(recording, values=values)


class FillsSilently(TrainingMean):
    def _residuals(self, recording, settings, progress):
        told = super()._residuals(recording, settings, progress)
        object.__setattr__(told, "notices", ())
        return told


class RefusesHoles(TrainingMean):
    def _learn(self, recording, progress, checkpoint):
        if np.isnan(recording.values).any():
            raise StreamError("There are missing cells: fill them first.")
        return super()._learn(recording, progress, checkpoint)


class LearnsFromNormalRows(Honest):
    def learned(self, recording):
        return np.nanmean(recording.values[recording.labels == 0], axis=0)


class IsQuietUnderAttack(Honest):
    def told(self, recording):
        values = (recording.values - self.mean) * (recording.labels != 1)[:, None]
        return super().told(recording, values=values)


class KnowsTheAttacks(Honest):
    def told(self, recording):
        values = recording.values - self.mean
        for attack in recording.attacks:
            values[attack.start : attack.stop] *= 2
        return super().told(recording, values=values)


class SetsTheClock(Honest):
    def told(self, recording):
        if recording.time is not None:
            recording.time[:] = np.arange(recording.n_steps)
        return super().told(recording)


class WritesWhatWasThere(Honest):
    def learned(self, recording):
        recording.values[0] *= 1
        return super().learned(recording)


class IsNeverTwiceTheSame(Honest):
    count = itertools.count()

    def learned(self, recording):
        return super().learned(recording) + 1e-6 * next(self.count)


class GoesOnFromLastTime(Honest):
    n_fits = 0

    def learned(self, recording):
        self.n_fits += 1
        return super().learned(recording) + 1e-6 * self.n_fits


class RemembersTrain(Honest):
    met_train = False

    def told(self, recording):
        self.met_train |= recording.n_steps == self.n_train
        values = recording.values - self.mean
        return super().told(recording, values=values + 1e-6 * self.met_train)


class CentresEachRun(Honest):
    def told(self, recording):
        runs = np.split(recording.values, recording.breaks[1:])
        values = np.vstack([run - np.nan_to_num(run).mean(axis=0) for run in runs])
        return super().told(recording, values=values)


class TellsBeforeFit(Honest):
    def residuals(self, recording):
        if self.mean is None:
            return Residuals(
                values=recording.values,
                index=np.arange(recording.n_steps),
                channels=recording.channels,
            )
        return super().residuals(recording)


class TellsAStory(Honest):
    def residuals(self, recording):
        if self.mean is None:
            raise StreamError("Nothing was learned yet.\nCall `fit` first.")
        return super().residuals(recording)


class LearnsFromOneStep(Honest):
    def fit(self, recording):
        self.n_train, self.channels = recording.n_steps, recording.channels
        self.mean = self.learned(recording)
        return self


class TellsNothingOfOneStep(Honest):
    def told(self, recording):
        if recording.n_steps > 1:
            return super().told(recording)
        return super().told(
            recording, values=np.empty((0, 6)), index=np.empty(0, np.int64)
        )


class HoldsOutWhatItLearned(Honest):
    split = Split(trained=np.arange(10), held_out=np.arange(9, 20))


class HoldsOutMoreThanThereIs(Honest):
    split = Split(trained=np.arange(10), held_out=np.array([10_000]))


class SavesHalf(Honest):
    def save(self, path):
        np.savez(path, mean=self.mean.astype(np.float32), channels=self.channels)


class LoadsWithATraceback(Honest):
    @classmethod
    def load(cls, path):
        with np.load(path) as file:
            loaded = cls()
            loaded.mean, loaded.channels = file["mean"], tuple(file["channels"])
            loaded.n_train = 0
        return loaded


class LoadsAnyFormat(TrainingMean):
    @classmethod
    def load(cls, path):
        try:
            with np.load(path) as file:
                arrays = dict(file)
        except (OSError, ValueError) as error:
            raise FileError(f"{path}: is no detector.") from error
        loaded = cls()
        loaded._restore(arrays)
        loaded.channels = made_up_recording().channels
        return loaded


# (the one check it does not pass, the detector)
WRONG = [
    ("shape", GivesScaleZero),
    ("finite", GivesNanOnTrain),
    ("channels", TurnsChannelsAround),
    ("channels", LeavesAChannelOut),
    ("index", NamesAStepThereIsNot),
    ("sign", ExpectedMinusObserved),
    ("sign", WithoutSign),
    ("sign", TellsOneStepLate),
    ("gaps", LooksThroughGaps),
    ("constant channels", DividesByZero),
    ("other channels", MindsNoNames),
    ("other channels", BreaksOnAnExtraChannel),
    ("missing cells", SpreadsNan),
    ("missing cells", MakesInfOfNan),
    ("missing cells", FillsSilently),
    ("missing cells", RefusesHoles),
    ("labels", LearnsFromNormalRows),
    ("labels", IsQuietUnderAttack),
    ("labels", KnowsTheAttacks),
    ("input unchanged", SetsTheClock),
    ("input unchanged", WritesWhatWasThere),
    ("fitting again", GoesOnFromLastTime),
    ("asking again", RemembersTrain),
    ("rows to come", CentresEachRun),
    ("before fit", TellsBeforeFit),
    ("before fit", TellsAStory),
    ("too short", LearnsFromOneStep),
    ("too short", TellsNothingOfOneStep),
    ("split", HoldsOutWhatItLearned),
    ("split", HoldsOutMoreThanThereIs),
    ("saving", SavesHalf),
    ("saving", LoadsWithATraceback),
    ("saving", LoadsAnyFormat),
]


def failing(make):
    """Return the checks a detector does not pass, each tried on a fresh one."""
    failed = {}
    for name, check in CHECKS.items():
        try:
            check(DetectorTrial.of(make))
        except ConformanceError as error:
            failed[name] = str(error)
    for name, sentence in failed.items():
        assert sentence.startswith(f"Check {name!r} failed: ")
        assert sentence.endswith(".")
        assert "\n" not in sentence
    return list(failed)


def test_a_users_own_honest_detector_passes():
    check_detector(Honest)


@pytest.mark.parametrize(
    ("check", "make"), WRONG, ids=[make.__name__ for _, make in WRONG]
)
def test_each_check_finds_the_detector_that_breaks_it_and_no_other_does(check, make):
    found = failing(make)
    if check == "input unchanged":
        # Recordings are read-only: what writes into one fails wherever it tries.
        assert check in found
    else:
        assert found == [check]


def test_every_check_has_a_detector_that_breaks_it():
    assert {check for check, _ in WRONG} == set(CHECKS)


def test_chance_in_fit_is_seen_wherever_one_fits_anew():
    assert failing(IsNeverTwiceTheSame) == ["labels", "fitting again"]


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        ({"fit": lambda self, recording: None}, "`fit` must return the detector"),
        (
            {"residuals": lambda self, recording: recording.values},
            "`residuals` must return `Residuals`",
        ),
        (
            {
                "told": lambda self, recording: Residuals(
                    values=np.empty((0, 6)), index=[], channels=recording.channels
                )
            },
            "it gave no row",
        ),
        ({"told": lambda self, recording: {}["a"]}, "the detector raised KeyError"),
    ],
)
def test_the_first_failure_is_told_in_one_sentence(broken, sentence):
    make = type("Broken", (Honest,), broken)
    with pytest.raises(ConformanceError, match=f"^Check 'shape' failed: {sentence}"):
        check_detector(make)


def test_residuals_of_invariants_may_have_any_names():
    class Invariants(Honest):
        def told(self, recording):
            values = (recording.values - self.mean).sum(axis=1, keepdims=True)
            return Residuals(
                values=values,
                index=np.arange(recording.n_steps),
                channels=("mass balance",),
                space="invariant",
            )

    check_detector(Invariants)


def test_a_users_own_recording_needs_no_gap_no_time_and_no_constant_channel():
    rng = np.random.default_rng(3)
    tags = (Tag(name="flow"), Tag(name="valve", role="actuator"))
    recording = Recording(values=rng.normal(size=(300, 2)), tags=tags)
    check_detector(Honest, recording=recording)
    check_detector(PCAReconstruction, recording=recording, seed=4)


@pytest.mark.parametrize(
    "name",
    [
        *("mean", "last-value", "pca", "gdn"),
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("fusagnet", "tranad", "nsibf", "nsibf-per-row")
        ),
    ],
)
def test_a_users_own_recording_may_be_single_precision(name):
    whole = made_up_recording(1)
    recording = Recording(
        values=whole.values.astype(np.float32), tags=whole.tags, time=whole.time
    )
    check_detector(dict(DETECTORS)[name], recording=recording)


def test_the_made_up_recording_is_as_promised():
    recording = made_up_recording()
    assert recording.values.shape == (700, 6)
    assert recording.step_s == 1.0
    assert recording.breaks.tolist() == [0, 170, 520]
    assert [tag.stage for tag in recording.tags] == ["1", "1", "2", "2", "3", "3"]
    assert {tag.role for tag in recording.tags} == {"sensor", "actuator"}
    assert np.flatnonzero(np.ptp(recording.values, axis=0) == 0).tolist() == [5]
    again, other = made_up_recording(), made_up_recording(1)
    assert np.array_equal(recording.values, again.values)
    assert not np.array_equal(recording.values, other.values)
