"""What adapters share: input checks, rows, scaling and held-out block as our own.

`FromFunction` is the simplest of them: a plain function as a detector. For arrays of a
model that ran elsewhere there is `from_arrays`.
"""

import random
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Floats, Ints, check_residuals
from sightline.data.arrays import Residuals as Matrix
from sightline.data.recording import Recording, Tag
from sightline.data.segments import Attack
from sightline.detectors.base import (
    DetectorCard,
    Residuals,
    Split,
    check_channels,
    detector_line,
    unlabelled,
)
from sightline.detectors.preprocessing import (
    ScaledRows,
    fit_scaling,
    forecast_windows,
    rows_to_learn,
)
from sightline.detectors.settings import BaselineSettings, resolved
from sightline.errors import SightlineError, StreamError
from sightline.files import brief
from sightline.showing import Shown


class Adapter(Shown, ABC):
    """A user's model as a detector.

    Rows are filled, down-sampled and scaled to train's range, a block of train is held
    out, and labels are removed. Random numbers that the model draws, from any
    generator, come from `seed`; the global generators are restored afterwards.

    Parameters
    ----------
    model : object
        Of the user, if there is one; it is not changed.
    kind : str
        Of the card.
    name : str, optional
        Of the detector; else the model's class.
    **settings
        Any of `BaselineSettings` by name: `every` makes one row (the median) of so many
        steps; `trim_s` are seconds left out at the beginning of train, while the plant
        settles; `validation_share` is the share of train that is held out and not
        learned from, one block, its place drawn at random; `seed` is that of the draw,
        and of a model without a seed of its own.
    """

    # Rows before a row that its residual needs.
    lags: int = 0
    # Attributes that `about` adds.
    shown: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self, model: Any, kind: str, name: str | None, settings: Mapping[str, Any]
    ) -> None:
        self.model = model
        self.card = user_card(name or type(model).__name__, kind)
        self.settings = resolved(
            BaselineSettings, "export", overrides=settings, whose=self.card.title
        )
        self.channels: tuple[str, ...] | None = None
        self.split: Split | None = None

    def _line(self) -> str:
        return detector_line(self.card, self.channels)

    @abstractmethod
    def _learn(self, train: ScaledRows, trained: Ints) -> Any:
        """Return what was learned from some rows."""

    @abstractmethod
    def _row_residuals(self, learned: Any, scaled: ScaledRows) -> Residuals:
        """Return the residuals of rows; `index` has the numbers of these rows."""

    def fit(self, recording: Recording) -> Self:
        """Learn what is normal from an attack-free recording.

        Parameters
        ----------
        recording : Recording
            Its labels are not used.

        Raises
        ------
        StreamError
            If train is too short, or the model raises.
        """
        unseen = unlabelled(recording)
        preprocessing, train, trained, held_out = rows_to_learn(
            unseen, self.settings, self.lags + 1, self.card.title
        )
        with self._called("could not learn from train"):
            learned = self._learn(train, trained)
        self.preprocessing, self.learned = preprocessing, learned
        self.split = Split(trained=train.rows[trained], held_out=train.rows[held_out])
        self.channels = unseen.channels
        return self

    def residuals(self, recording: Recording) -> Residuals:
        """Return observed minus expected, row by row.

        Parameters
        ----------
        recording : Recording
            With the channels of train in the same order; its labels are not used.
        """
        if self.channels is None:
            raise StreamError(
                f"{self.card.title} has not learned anything yet: call `fit` first."
            )
        unseen = unlabelled(recording)
        check_channels(unseen, self.channels)
        scaled = self.preprocessing.test(unseen, self.settings, np.float64)
        with self._called("could not give residuals of the recording"):
            rows = self._row_residuals(self.learned, scaled)
        if not len(rows.index):
            raise StreamError(
                f"{self.card.title} gives no residual of the recording: give a longer "
                "one."
            )
        in_space = rows.space == "observation"
        channels = tuple(unseen.channels[k] for k in self.preprocessing.kept)
        return Residuals(
            values=rows.values,
            index=scaled.rows[rows.index],
            channels=channels if in_space else rows.channels,
            space=rows.space,
            every=scaled.every,
            scale=scaled.scale if in_space else None,
            score=rows.score,
            alarms=rows.alarms,
            notices=(*scaled.notices, *rows.notices),
        )

    def about(self) -> dict[str, object]:
        """Return what is needed to make the same detector again; JSON can hold it."""
        return {
            "detector": self.card.name,
            "adapter": type(self).__name__,
            "settings": self.settings.to_dict(),
            **({} if self.model is None else {"model": self._model_name()}),
            **{name: getattr(self, name) for name in self.shown},
        }

    def _model_name(self) -> str:
        return repr(self.model)

    def _rows(self, scaled: ScaledRows) -> Ints:
        """Return the rows with enough rows before them in their run."""
        return forecast_windows(scaled.values, scaled.breaks, self.lags + 1).steps

    @contextmanager
    def _called(self, what: str) -> Iterator[None]:
        """Seed the global generators, and turn the model's error into a sentence."""
        try:
            with seeded(self.settings.seed):
                yield
        except SightlineError:
            raise
        except Exception as error:
            reason = brief(error).rstrip(".") or "without a message"
            raise StreamError(
                f"{self.card.title} {what} ({type(error).__name__}: {reason}): check "
                "that it accepts such rows by itself."
            ) from error


class FromFunction(Adapter):
    """A detector whose expectation is a function.

    The function gets one run of a recording after the other, never rows from both sides
    of a gap, in the plant's units and with missing cells filled. What it returns for a
    row must not depend on later rows; `sightline.check_detector` checks it.

    Parameters
    ----------
    expected : callable
        ``expected(values)`` returns what is expected in place of `values`, in the same
        shape; nan in a row where nothing is. With `fit` it is called as
        ``expected(values, learned)``.
    fit : callable, optional
        ``fit(runs)`` returns anything learned from the runs of train, a list of
        arrays of shape (rows, channels).
    name : str, optional
        Name of the detector; else the function's name.
    **settings
        Any of `BaselineSettings` by name, as `Adapter` explains them.

    Examples
    --------
    >>> def balance(values):
    ...     return values.mean(axis=1, keepdims=True) + 0 * values
    >>> FromFunction(balance).card.name
    'balance'
    """

    def __init__(
        self,
        expected: Callable[..., Any],
        fit: Callable[[list[Floats]], Any] | None = None,
        *,
        name: str | None = None,
        **settings: Any,
    ) -> None:
        for what, given in (("expected", expected), ("fit", fit)):
            if given is not None and not callable(given):
                raise StreamError(
                    f"`{what}` must be a function; got {type(given).__name__}: for two "
                    "arrays use sightline.detectors.adapters.from_arrays."
                )
        title = str(name or getattr(expected, "__name__", type(expected).__name__))
        super().__init__(None, "function", title, settings)
        self._expected, self._fit = expected, fit

    def _learn(self, train: ScaledRows, trained: Ints) -> Any:
        if self._fit is None:
            return None
        values = _in_units(train)
        return self._fit([values[run] for run in runs_of(trained, train.breaks)])

    def _row_residuals(self, learned: Any, scaled: ScaledRows) -> Residuals:
        values = _in_units(scaled)
        extra: tuple[Any, ...] = () if self._fit is None else (learned,)
        expected = np.empty_like(values)
        for run in runs_of(np.arange(len(values)), scaled.breaks):
            # Indexing copies: the function cannot change the observed values.
            result = self._expected(values[run], *extra)
            expected[run] = check_expected(result, values[run], self.card.title)
        rows = np.flatnonzero(~np.isnan(expected).any(axis=1))
        residuals = (values[rows] - expected[rows]) / scaled.scale
        left_out = len(values) - len(rows)
        if not left_out:
            return observation(residuals, rows)
        notice = f"{left_out:,} rows were left out, where nothing is expected."
        return observation(residuals, rows, notice)


def _in_units(scaled: ScaledRows) -> Floats:
    """Return rows in the plant's units, for a function of the plant's physics.

    They are scaled first and unscaled again so that there is one way rows are made.
    """
    values = np.asarray(scaled.values, np.float64)
    return np.asarray(values * scaled.scale + scaled.offset)


def user_card(name: str, kind: str) -> DetectorCard:
    """Return the card of a user's detector."""
    return DetectorCard(name=name, title=name, paper="Of the user.", kind=kind)


def check_model(model: Any, caller: str, *methods: str) -> None:
    """Raise unless a model is an object with these methods."""
    for method in methods:
        if isinstance(model, type) or not callable(getattr(model, method, None)):
            what = model.__name__ if isinstance(model, type) else repr(model)[:60]
            raise StreamError(
                f"The model of {caller} must be an object with `{method}`; got {what}: "
                "make one first, as in FromRegressor(Ridge())."
            )


def row_count(value: object, name: str) -> int:
    """Return a number of rows; raise if it is none, or less than 1."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise StreamError(f"`{name}` must be 1 or more rows; got {value!r}.")
    return int(value)


def observation(values: Floats, index: Ints, *notices: str) -> Residuals:
    """Return residuals of all channels, which the caller names."""
    numbers = tuple(str(k) for k in range(values.shape[1]))
    return Residuals(values=values, index=index, channels=numbers, notices=notices)


def runs_of(rows: Ints, breaks: Ints) -> list[Ints]:
    """Return rows cut where one is missing or a run of the recording begins.

    Examples
    --------
    >>> runs_of(np.array([0, 1, 2, 5, 6]), np.array([0, 6]))
    [array([0, 1, 2]), array([5]), array([6])]
    """
    run = np.searchsorted(breaks, rows, side="right")
    cuts = np.flatnonzero((np.diff(run) > 0) | (np.diff(rows) > 1)) + 1
    return np.split(rows, cuts)


def check_expected(expected: object, observed: Floats, whose: str) -> Floats:
    """Return expected rows as an array; raise if their shape is not the observed."""
    array = np.asarray(expected, np.float64)
    if array.shape != observed.shape:
        raise StreamError(
            f"{whose} must give one row of {observed.shape[1]} channels for each row "
            f"given; it gave shape {array.shape} for {observed.shape}: where it "
            "expects nothing it may give nan."
        )
    return array


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed every global generator inside, and restore them afterwards.

    Models without a seed of their own draw from these.
    """
    torch = sys.modules.get("torch")
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    torch_state = None if torch is None else torch.get_rng_state()
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    if torch is not None:
        torch.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        if torch is not None:
            torch.set_rng_state(torch_state)


class KnownExpectation(Shown):
    """A detector whose expectation of two recordings is given; see `from_arrays`.

    It raises for any other recording.

    Parameters
    ----------
    train, test : Recording
        The two recordings.
    train_expected, test_expected : array of shape (n_steps, n_channels)
        What is expected of them; nan where nothing is.
    name : str
        Name of the detector.
    split : Split, optional
        Steps of train that were learned from, and those held out.
    """

    def __init__(
        self,
        train: Recording,
        train_expected: Matrix,
        test: Recording,
        test_expected: Matrix,
        *,
        name: str = "own",
        split: Split | None = None,
    ) -> None:
        self.card = user_card(name, "known")
        self._expectations = (
            ("train", train, train_expected),
            ("test", test, test_expected),
        )
        finite = train.values[np.isfinite(train.values).all(axis=1)]
        if not len(finite):
            raise StreamError(
                "`train_observed` has no row without a missing cell: fill them first."
            )
        self.scale = fit_scaling(finite).scale
        self.channels, self.split = train.channels, split

    def _line(self) -> str:
        return detector_line(self.card, self.channels)

    def fit(self, recording: Recording) -> Self:
        """Learn nothing; raise for a recording that is not one of the two."""
        self._expected_of(recording)
        return self

    def residuals(self, recording: Recording) -> Residuals:
        """Return observed minus expected of one of the two recordings."""
        which, expected = self._expected_of(recording)
        residuals = (recording.values - expected) / self.scale
        rows = np.flatnonzero(~np.isnan(residuals).any(axis=1))
        if not len(rows):
            raise StreamError(
                f"Every row of `{which}_expected` has a nan: use nan only for rows "
                "where nothing is expected."
            )
        left_out = len(residuals) - len(rows)
        return Residuals(
            values=residuals[rows],
            index=rows,
            channels=self.channels,
            scale=self.scale,
            notices=(f"{left_out:,} rows were left out, where a cell is missing.",)
            if left_out
            else (),
        )

    def about(self) -> dict[str, object]:
        """Return name and adapter; JSON can hold them."""
        return {"detector": self.card.name, "adapter": type(self).__name__}

    def _expected_of(self, recording: Recording) -> tuple[str, Matrix]:
        """Return which of the two recordings it is, and what is expected of it."""
        unseen = unlabelled(recording)
        for which, given, expected in self._expectations:
            if unseen.channels == given.channels and np.array_equal(
                unseen.values, given.values, equal_nan=True
            ):
                return which, expected
        raise StreamError(
            f"{self.card.title} has expectations of two recordings, and this is "
            "neither: give one that `from_arrays` returned."
        )


def from_arrays(
    train_observed: npt.ArrayLike,
    train_expected: npt.ArrayLike,
    test_observed: npt.ArrayLike,
    test_expected: npt.ArrayLike,
    *,
    labels: npt.ArrayLike | None = None,
    channels: Sequence[str] | None = None,
    held_out: npt.ArrayLike | None = None,
    train_time: npt.ArrayLike | None = None,
    test_time: npt.ArrayLike | None = None,
    train_breaks: npt.ArrayLike | None = None,
    test_breaks: npt.ArrayLike | None = None,
    step_s: float | None = None,
    attacks: Sequence[Attack] = (),
    name: str = "own",
) -> tuple[KnownExpectation, Recording, Recording]:
    """Return a detector and two recordings, which is what `export_stream` takes.

    Residuals are in units of each channel's range over train, so that no channel counts
    more because of its unit.

    Parameters
    ----------
    train_observed, train_expected : array of shape (n_train, n_channels)
        Attack-free rows, and what the model expects in their place; nan in a row
        where it expects nothing, such as the first rows of a forecast.
    test_observed, test_expected : array of shape (n_test, n_channels)
        The same of the rows to be judged on.
    labels : array of shape (n_test,), optional
        1 attack, 0 normal, -1 ignore.
    channels : sequence of str, optional
        Names; else the column names of a data frame, else channel_0, channel_1, ...
    held_out : array of int or bool, optional
        Rows of train that the model did not learn from; they become `calibration`.
    train_time, test_time : array, optional
        Seconds.
    train_breaks, test_breaks : array of int, optional
        First row of each continuous run.
    step_s : float, optional
        Seconds from row to row; else the median step of the time.
    attacks : sequence of Attack
        The attacks in test.
    name : str
        Name of the detector.

    Returns
    -------
    detector : KnownExpectation
    train, test : Recording

    Raises
    ------
    StreamError
        If shapes do not agree, or no row of train is without a missing cell.

    Examples
    --------
    >>> observed, expected = np.array([[1.0], [3.0]]), np.array([[1.5], [2.5]])
    >>> detector, train, test = from_arrays(observed, expected, observed, expected)
    >>> detector.residuals(test).values.ravel()
    array([-0.25,  0.25])
    """
    if channels is None:
        channels = getattr(train_observed, "columns", None)

    def recording(
        which: str, values: npt.ArrayLike, time: Any, breaks: Any, **more: Any
    ) -> Recording:
        rows = check_residuals(values, f"{which}_observed")
        names = channels
        if names is None:
            names = [f"channel_{k}" for k in range(rows.shape[1])]
        return Recording(
            values=rows,
            tags=tuple(Tag(name=str(name)) for name in names),
            time=time,
            breaks=breaks,
            step_s=step_s,
            source="arrays",
            **more,
        )

    train = recording("train", train_observed, train_time, train_breaks)
    of_test = {"labels": labels, "attacks": tuple(attacks)}
    test = recording("test", test_observed, test_time, test_breaks, **of_test)
    if train.channels != test.channels:
        raise StreamError(
            f"`test_observed` must have the {len(train.channels)} channels of "
            f"`train_observed`; it has {len(test.channels)}."
        )
    expected = [
        check_expected(
            given, recording.values.astype(np.float64), f"`{which}_expected`"
        )
        for which, given, recording in (
            ("train", train_expected, train),
            ("test", test_expected, test),
        )
    ]
    split = _split(held_out, train.n_steps)
    detector = KnownExpectation(
        train, expected[0], test, expected[1], name=name, split=split
    )
    return detector, train, test


def _split(held_out: npt.ArrayLike | None, n_steps: int) -> Split | None:
    """Return which steps were learned from; None if nothing is known of it."""
    if held_out is None:
        return None
    steps = np.arange(n_steps)
    chosen = np.asarray(held_out)
    is_mask = chosen.dtype == np.bool_ and chosen.shape == (n_steps,)
    is_rows = (
        chosen.dtype.kind in "iu"
        and chosen.ndim == 1
        and bool(((chosen >= 0) & (chosen < n_steps)).all())
    )
    if not (is_mask or is_rows):
        raise StreamError(
            f"`held_out` must be row numbers of train, 0 to {n_steps - 1}, or one bool "
            f"a row; got type {chosen.dtype} of shape {chosen.shape}."
        )
    out = np.unique(steps[chosen])
    return Split(trained=np.setdiff1d(steps, out), held_out=out)
