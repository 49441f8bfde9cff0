"""Observed and expected values as arrays: a detector that is already fitted."""

from collections.abc import Sequence
from typing import Self

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Residuals as Matrix
from sightline.data.arrays import check_residuals
from sightline.data.recording import Recording, Tag
from sightline.data.segments import Attack
from sightline.detectors.adapters.adapter import check_expected, user_card
from sightline.detectors.base import Residuals, Split, detector_line, unlabelled
from sightline.detectors.preprocessing import fit_scaling
from sightline.errors import StreamError
from sightline.showing import Shown


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
    train = Recording(
        values=check_residuals(train_observed, "train_observed"),
        tags=_tags(train_observed, channels),
        time=train_time,  # type: ignore[arg-type]
        breaks=train_breaks,  # type: ignore[arg-type]
        step_s=step_s,
        source="arrays",
    )
    test = Recording(
        values=check_residuals(test_observed, "test_observed"),
        tags=_tags(test_observed, channels),
        labels=labels,  # type: ignore[arg-type]
        time=test_time,  # type: ignore[arg-type]
        breaks=test_breaks,  # type: ignore[arg-type]
        step_s=step_s,
        attacks=tuple(attacks),
        source="arrays",
    )
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


def _tags(values: npt.ArrayLike, channels: Sequence[str] | None) -> tuple[Tag, ...]:
    """Return a tag for each channel; they are numbered if they have no names."""
    if channels is None:
        columns = np.shape(values)[1:2] or (0,)
        channels = [f"channel_{k}" for k in range(columns[0])]
    return tuple(Tag(name=str(name)) for name in channels)


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
