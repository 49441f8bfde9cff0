"""What was observed and what was expected, as arrays, straight to a stream."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Residuals as Matrix
from sightline.data.arrays import check_residuals
from sightline.data.recording import Recording, Tag
from sightline.data.segments import Attack
from sightline.detectors.adapters.adapter import check_expected
from sightline.detectors.base import DetectorCard, Residuals, Split, unlabelled
from sightline.detectors.scaling import fit_scaling
from sightline.errors import StreamError


class KnownExpectation:
    """A detector that has done its work: it knows what it expects of two recordings.

    Asked about any other recording it says so. Made by `from_arrays`.
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
        self.card = DetectorCard(
            name=name, title=name, paper="Somebody's own.", kind="known"
        )
        self._known = (
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

    def fit(self, recording: Recording) -> Self:
        """Learn nothing; refuse a recording that is not train."""
        self._expected_of(recording)
        return self

    def residuals(self, recording: Recording) -> Residuals:
        """Return observed minus expected of one of the two recordings."""
        which, expected = self._expected_of(recording)
        apart = (recording.values - expected) / self.scale
        rows = np.flatnonzero(~np.isnan(apart).any(axis=1))
        if not len(rows):
            raise StreamError(
                f"No row of `{which}_expected` is all numbers: nan is for rows where "
                "nothing is expected."
            )
        left_out = len(apart) - len(rows)
        return Residuals(
            values=apart[rows],
            index=rows,
            channels=self.channels,
            scale=self.scale,
            notices=(f"{left_out:,} rows were left out, where a cell is missing.",)
            if left_out
            else (),
        )

    def about(self) -> dict[str, Any]:
        """Return what one must know to make the same again, as JSON can hold it."""
        return {"detector": self.card.name, "adapter": type(self).__name__}

    def _expected_of(self, recording: Recording) -> tuple[str, Matrix]:
        seen = unlabelled(recording)
        for which, known, expected in self._known:
            if seen.channels == known.channels and np.array_equal(
                seen.values, known.values, equal_nan=True
            ):
                return which, expected
        raise StreamError(
            f"{self.card.title} knows what it expects of two recordings, and this is "
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
    more for its unit.

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
        Names; else those of a frame's columns, else channel_0, channel_1, ...
    held_out : array of int or bool, optional
        Rows of train the model did not learn from; they become `calibration`.
    train_time, test_time : array, optional
        Seconds.
    train_breaks, test_breaks : array of int, optional
        First row of each continuous run.
    step_s : float, optional
        Seconds a row; else the median step of the time.
    attacks : sequence of Attack
        What is known of each attack in test.
    name : str
        What to call the detector.

    Examples
    --------
    >>> observed, expected = np.array([[1.0], [3.0]]), np.array([[1.5], [2.5]])
    >>> detector, train, test = from_arrays(observed, expected, observed, expected)
    >>> detector.residuals(test).values.ravel()
    array([-0.25,  0.25])
    """
    if channels is None:
        channels = getattr(train_observed, "columns", None)
    made = []
    for which, given, time, breaks in (
        ("train", train_observed, train_time, train_breaks),
        ("test", test_observed, test_time, test_breaks),
    ):
        values = check_residuals(given, f"{which}_observed")
        names = (
            [f"channel_{k}" for k in range(values.shape[1])]
            if channels is None
            else channels
        )
        made.append(
            Recording(
                values=values,
                tags=tuple(Tag(name=str(tag)) for tag in names),
                labels=labels if which == "test" else None,  # type: ignore[arg-type]
                time=time,  # type: ignore[arg-type]
                breaks=breaks,  # type: ignore[arg-type]
                step_s=step_s,
                attacks=tuple(attacks) if which == "test" else (),
                source="arrays",
            )
        )
    train, test = made
    if train.channels != test.channels:
        raise StreamError(
            f"`test_observed` must have the {len(train.channels)} channels of "
            f"`train_observed`; it has {len(test.channels)}."
        )
    expected = [
        check_expected(given, recording.values.astype(np.float64), f"`{name}_expected`")
        for name, given, recording in (
            ("train", train_expected, train),
            ("test", test_expected, test),
        )
    ]
    detector = KnownExpectation(
        train,
        expected[0],
        test,
        expected[1],
        name=name,
        split=_split(held_out, train.n_steps),
    )
    return detector, train, test


def _split(held_out: npt.ArrayLike | None, n_steps: int) -> Split | None:
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
