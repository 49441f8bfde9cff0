"""Trim, fill gaps and down-sample recordings; the conventions of published papers.

Everything is a named option of `Preparation`; `preset` returns what the published code
of a paper does on a testbed.

`train_rounded_like` brings the values of train to the resolution of test. A historian
that exported train with nine decimals and test with two gives a detector two different
signals: in train a tag moves by less than the rounding step of test, so every rounded
value of test is a surprise. Train rounded like test removes that.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import (
    ATTACK,
    IGNORED,
    NORMAL,
    Bools,
    Floats,
    Ints,
    Labels,
    Residuals,
    check_choice,
)
from sightline.data.recording import Recording, Role, expanded_rows, seconds
from sightline.data.segments import Attack, breaks_kept
from sightline.data.validity import Codes
from sightline.errors import StreamError
from sightline.text import names

Sampling = Literal["median", "mean", "stride", "first", "last", "by-role"]
LabelRule = Literal["any", "majority", "first"]
# Blocks whose medians are computed at a time, to bound memory.
_BLOCKS_AT_ONCE = 16_384


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """What is done to recordings after they are read; nothing by default.

    Parameters
    ----------
    trim_s : float
        Seconds to leave out at the beginning of train, while the plant settles.
    train_rows : int, optional
        How many rows of train to keep (after trimming); all by default.
    test_until : str, optional
        Last time stamp of test to keep.
    fill_gap_s : float
        The longest gap, in seconds, that is filled with the row before it.
    every : int
        How many rows become one.
    sampling : {"median", "mean", "stride", "first", "last", "by-role"}
        How a block of `every` rows becomes one: its median or mean; its first row, also
        of a last block that is not full ("stride"); its first or last row; "by-role"
        takes the median of sensors and the last value of all other channels.
    label_rule : {"any", "majority", "first"}
        A block is an attack if any of its rows is, if more than half are, or if its
        first row is.
    across_breaks : bool
        Count blocks through gaps, as some papers do; else the first block of a run
        begins with the run.

    Raises
    ------
    StreamError
        If a value is not among the choices, or a number is out of range.

    Examples
    --------
    >>> Preparation(every=10, trim_s=3600).notices()[0]
    'The first 3600 s of train were left out.'
    """

    trim_s: float = 0.0
    train_rows: int | None = None
    test_until: str | None = None
    fill_gap_s: float = 0.0
    every: int = 1
    sampling: Sampling = "median"
    label_rule: LabelRule = "any"
    across_breaks: bool = False

    def __post_init__(self) -> None:
        """Refuse unknown choices and numbers out of range."""
        if not isinstance(self.every, int) or self.every < 1:
            raise StreamError(
                f"`every` must be a whole number of rows, 1 or more; got {self.every}."
            )
        for name, value, choices in (
            ("sampling", self.sampling, get_args(Sampling)),
            ("label_rule", self.label_rule, get_args(LabelRule)),
        ):
            check_choice(name, value, choices)
        for name in ("trim_s", "fill_gap_s"):
            if not getattr(self, name) >= 0:
                raise StreamError(
                    f"`{name}` must be 0 or more seconds; got {getattr(self, name)}."
                )

    def with_options(self, **options: object) -> "Preparation":
        """Return a copy with the options replaced that are not None."""
        given = {name: value for name, value in options.items() if value is not None}
        return replace(self, **given)  # type: ignore[arg-type]

    def notices(self) -> list[str]:
        """Return a sentence for each change that is made."""
        texts = []
        if self.fill_gap_s:
            texts.append(
                f"Gaps of up to {self.fill_gap_s:g} s were filled with the row before."
            )
        if self.trim_s:
            texts.append(f"The first {self.trim_s:g} s of train were left out.")
        if self.train_rows is not None:
            texts.append(f"Only {self.train_rows:,} rows of train were kept.")
        if self.test_until is not None:
            texts.append(f"Test was cut after {self.test_until}.")
        if self.every > 1:
            start = "through gaps" if self.across_breaks else "from the start of a run"
            texts.append(
                f"Each row is made of {self.every} rows ({self.sampling}; label: "
                f"{self.label_rule}), counted {start}"
                + (
                    "."
                    if self.sampling == "stride"
                    else "; blocks that are not full were left out."
                )
            )
        return texts

    def train(self, recording: Recording) -> Recording:
        """Return a prepared train recording.

        Gaps are filled first, then rows are trimmed, then blocks are formed.

        Raises
        ------
        StreamError
            If trimming leaves no row.
        """
        filled = fill_gaps(recording, self.fill_gap_s)
        if self.trim_s:
            filled = _trimmed(filled, self.trim_s)
        if self.train_rows is not None:
            filled = rows_of(filled, 0, min(self.train_rows, filled.n_steps))
        return self._sampled(filled)

    def test(self, recording: Recording) -> Recording:
        """Return a prepared test recording: gaps filled, cut off, blocks formed.

        Raises
        ------
        StreamError
            If nothing is left before `test_until`.
        """
        filled = fill_gaps(recording, self.fill_gap_s)
        if self.test_until is not None and filled.time is not None:
            is_within = filled.time <= seconds(self.test_until)
            if not is_within.any():
                raise StreamError(
                    f"`test_until` {self.test_until} leaves no row of test."
                )
            filled = rows_of(filled, 0, int(is_within.sum()))
        return self._sampled(filled)

    def _sampled(self, recording: Recording) -> Recording:
        """Return one row for each block."""
        return downsampled(
            recording,
            every=self.every,
            sampling=self.sampling,
            label_rule=self.label_rule,
            across_breaks=self.across_breaks,
        )


RAW = Preparation()
# By preset, then testbed; "" holds for every testbed. Sources: docs/testbeds.md.
PRESETS: dict[str, dict[str, Preparation]] = {
    "raw": {"": RAW},
    "gdn": {
        name: Preparation(trim_s=21_600, every=10, across_breaks=True)
        for name in ("swat", "wadi")
    },
    "nsibf": {
        "swat": Preparation(every=5, sampling="by-role"),
        "wadi": Preparation(
            every=5, sampling="by-role", test_until="2017-10-10 15:48:24"
        ),
    },
    "tranad": {
        "wadi": Preparation(
            trim_s=996,
            train_rows=200_000,
            every=10,
            sampling="stride",
            label_rule="first",
            across_breaks=True,
        )
    },
    "geco": {
        "swat": Preparation(fill_gap_s=120),
        "wadi": RAW,
        "hai": RAW,
        "batadal": RAW,
    },
}


def preset(name: str, testbed: str) -> Preparation:
    """Return a paper's convention for a testbed.

    Parameters
    ----------
    name : {"raw", "gdn", "nsibf", "tranad", "geco"}
        The paper; "raw" does nothing.
    testbed : str
        Name of the testbed.

    Raises
    ------
    StreamError
        If the preset is unknown, or its paper says nothing about the testbed.

    Examples
    --------
    >>> preset("gdn", "swat").every
    10
    """
    check_choice("preset", name, PRESETS)
    by_testbed = PRESETS[name]
    if testbed not in by_testbed and "" not in by_testbed:
        raise StreamError(
            f"`preset` {name!r} says nothing about {testbed}: its authors published a "
            f"convention for {names(list(by_testbed))} only. Use 'raw' and give every, "
            "sampling, label_rule and trim_s as you need them."
        )
    return by_testbed.get(testbed, by_testbed.get("", RAW))


def with_trim(recording: Recording, trim_s: float) -> Recording:
    """Return a recording that knows of further seconds left out at its beginning."""
    done = recording.prepared
    return replace(recording, prepared=replace(done, trim_s=done.trim_s + trim_s))


def _trimmed(recording: Recording, trim_s: float) -> Recording:
    """Return train without its first seconds."""
    if recording.time is not None:
        # A time stamp far out of order must not cut from the middle.
        is_later = recording.time >= recording.time[0] + trim_s
        first = int(np.argmax(is_later)) if is_later.any() else recording.n_steps
    elif recording.step_s is not None:
        first = round(trim_s / recording.step_s)
    else:
        raise StreamError(
            f"`trim_s` is {trim_s:g} s, but the recording has neither `time` nor "
            "`step_s`: give one of them, or set `trim_s` to 0."
        )
    if first >= recording.n_steps:
        raise StreamError(f"`trim_s` of {trim_s:g} s leaves no row of train: lower it.")
    return with_trim(rows_of(recording, first, recording.n_steps), trim_s)


def rows_of(recording: Recording, start: int, stop: int) -> Recording:
    """Return rows [start, stop) of a recording, with the attacks inside them."""
    if start == 0 and stop == recording.n_steps:
        return recording
    rows = slice(start, stop)
    _, breaks = _filled_in(recording)
    inside = breaks[(breaks > start) & (breaks < stop)]
    return _taken(
        recording,
        rows,
        breaks=np.append(0, inside - start),
        attacks=_moved(
            recording.attacks,
            lambda row: max(row - start, 0),
            lambda row: min(row, stop) - start,
        ),
    )


def without_shared_time(train: Recording, test: Recording) -> Recording:
    """Return train without the rows whose time stamps occur in test.

    Train is returned as it is if one of the recordings has no time.
    """
    if train.time is None or test.time is None:
        return train
    return rows_selected(train, ~np.isin(train.time, test.time))


def without_attacks(train: Recording) -> tuple[Recording, list[str]]:
    """Return train without the rows labelled as attacks or ignored, and notices.

    Raises
    ------
    StreamError
        If no normal row is left.
    """
    labels, _ = _filled_in(train)
    is_normal = labels == NORMAL
    left_out = int((~is_normal).sum())
    if not left_out:
        return train, []
    if not is_normal.any():
        raise StreamError(
            "All rows of train are labelled as attacks or ignored: nothing normal is "
            "left to learn from."
        )
    return rows_selected(train, is_normal), [
        f"{left_out:,} rows of train are labelled as attacks or ignored and were left "
        "out of it."
    ]


def rows_selected(recording: Recording, is_kept: Bools) -> Recording:
    """Return some rows, without attacks; a break stands where rows were left out."""
    _, breaks = _filled_in(recording)
    after = np.flatnonzero(~is_kept[:-1] & is_kept[1:]) + 1
    return _taken(
        recording,
        is_kept,
        breaks=breaks_kept(np.union1d(breaks, after), is_kept),
        attacks=(),
    )


def fill_gaps(recording: Recording, longest_s: float) -> Recording:
    """Return a recording with short gaps filled by the row before them.

    Parameters
    ----------
    recording : Recording
        Returned as it is if its time or step is unknown.
    longest_s : float
        The longest gap to fill, in seconds; 0 fills none.
    """
    if not longest_s or recording.time is None or recording.step_s is None:
        return recording
    jumps = np.diff(recording.time)
    lost = np.rint(jumps / recording.step_s).astype(np.int64) - 1
    lost[(lost < 1) | (jumps - recording.step_s > longest_s)] = 0
    if not lost.any():
        return recording
    row, since = expanded_rows(lost)
    place = np.flatnonzero(since == 0)
    _, breaks = _filled_in(recording)
    remaining = breaks[(breaks == 0) | (lost[np.maximum(breaks, 1) - 1] == 0)]
    return _taken(
        recording,
        row,
        time=recording.time[row] + since * recording.step_s,
        breaks=place[remaining],
        attacks=_moved(
            recording.attacks,
            lambda row: int(place[row]),
            lambda row: int(place[row - 1]) + 1,
        ),
    )


def downsampled(
    recording: Recording,
    *,
    every: int,
    sampling: Sampling = "median",
    label_rule: LabelRule = "any",
    across_breaks: bool = False,
) -> Recording:
    """Return one row for each block of `every` rows; see `Preparation`.

    The step grows by the same factor; attacks keep the blocks they touch.

    Raises
    ------
    StreamError
        If no continuous run has `every` rows.

    Examples
    --------
    >>> from sightline import Recording, Tag
    >>> recording = Recording(
    ...     values=np.array([[1.0], [5.0], [2.0], [8.0]]),
    ...     tags=(Tag(name="LIT101"),),
    ...     step_s=1.0,
    ... )
    >>> half = downsampled(recording, every=2)
    >>> half.values.ravel(), half.step_s
    (array([3., 5.]), 2.0)
    """
    if every == 1:
        return recording
    labels, breaks = _filled_in(recording)
    starts, ends = sampled_blocks(
        recording, every=every, sampling=sampling, across_breaks=across_breaks
    )
    begins = np.searchsorted(starts, breaks)
    return replace(
        recording,
        values=_sampled(recording, starts, every, sampling),
        validity=None
        if recording.validity is None
        else block_codes(
            recording.validity, starts, 1 if sampling in ("stride", "first") else every
        ),
        labels=_labels(labels, starts, ends, label_rule),
        time=None
        if recording.time is None
        else recording.time[starts + (every - 1 if sampling == "last" else 0)],
        step_s=None if recording.step_s is None else recording.step_s * every,
        prepared=replace(
            recording.prepared,
            every=recording.prepared.every * every,
            sampling=sampling,
        ),
        breaks=begins[begins < len(starts)],
        attacks=_moved(
            recording.attacks,
            lambda row: int(np.searchsorted(ends, row, side="right")),
            lambda row: int(np.searchsorted(starts, row)),
        ),
    )


def sampled_blocks(
    recording: Recording, *, every: int, sampling: Sampling, across_breaks: bool
) -> tuple[Ints, Ints]:
    """Return the first row of each block, and the row after its last.

    Blocks that are not full are left out, unless `sampling` is "stride".
    """
    _, breaks = _filled_in(recording)
    runs = np.zeros(1, np.int64) if across_breaks else breaks
    stops = np.append(runs[1:], recording.n_steps)
    by_run = [np.arange(*run, every) for run in zip(runs, stops, strict=True)]
    starts = np.concatenate(by_run)
    ends = np.minimum(starts + every, np.repeat(stops, [len(s) for s in by_run]))
    if sampling != "stride":
        is_full = ends - starts == every
        starts, ends = starts[is_full], ends[is_full]
    if not len(starts):
        raise StreamError(
            f"`every` is {every} rows, but no continuous run is that long: lower it."
        )
    return starts, ends


def _sampled(
    recording: Recording, starts: Ints, every: int, sampling: Sampling
) -> npt.NDArray[np.floating]:
    """Return the values of each block as one row."""
    values = recording.values
    if sampling in ("stride", "first"):
        return values[starts]
    last = values[starts + every - 1]
    if sampling == "last":
        return last
    columns = np.arange(values.shape[1])
    middle = np.mean if sampling == "mean" else np.median
    if sampling == "by-role":
        columns = np.flatnonzero([tag.role is Role.SENSOR for tag in recording.tags])
    for first in range(0, len(starts), _BLOCKS_AT_ONCE):
        rows = slice(first, first + _BLOCKS_AT_ONCE)
        blocks = values[starts[rows, None] + np.arange(every)][:, :, columns]
        last[rows, columns] = middle(blocks, axis=1)
    return last


def block_codes(codes: Codes, starts: Ints, every: int) -> Codes:
    """Return one code for each block: the worst that at least half of its rows reach.

    Examples
    --------
    >>> block_codes(np.array([[0], [4], [4], [0]], np.int8), np.array([0]), 4)
    array([[4]], dtype=int8)
    """
    rows = np.minimum(starts[:, None] + np.arange(every), len(codes) - 1)
    # In rising order, the first of the upper half.
    return np.asarray(np.sort(codes[rows], axis=1)[:, every // 2], np.int8)


def sampled_column(
    blocks: Floats, sampling: Sampling, *, is_sensor: bool = True
) -> Floats:
    """Return one value for each block of one channel, as `downsampled` makes it.

    Parameters
    ----------
    blocks : array of shape (n_blocks, every)
        The steps of each block.
    sampling : str
        How a block becomes one row.
    is_sensor : bool
        Whether the channel is a sensor, for ``"by-role"``.

    Examples
    --------
    >>> sampled_column(np.array([[1.0, 5.0, 2.0]]), "median")
    array([2.])
    """
    if sampling in ("stride", "first"):
        return blocks[:, 0]
    if sampling == "last" or (sampling == "by-role" and not is_sensor):
        return blocks[:, -1]
    if sampling == "mean":
        return np.asarray(blocks.mean(axis=1))
    n = blocks.shape[1]
    ordered = np.sort(blocks, axis=1)
    return np.asarray((ordered[:, (n - 1) // 2] + ordered[:, n // 2]) / 2)


def _labels(labels: Labels, starts: Ints, ends: Ints, rule: LabelRule) -> Labels:
    """Return one label for each block; an attack outweighs rows to be ignored."""
    if rule == "first":
        return labels[starts]
    attacked, ignored = (
        counts[ends] - counts[starts]
        for counts in (
            np.concatenate([[0], np.cumsum(labels == code)])
            for code in (ATTACK, IGNORED)
        )
    )
    least = np.ones(len(starts)) if rule == "any" else (ends - starts) // 2 + 1
    chosen = np.full(len(starts), NORMAL, np.int8)
    chosen[attacked + ignored >= least] = IGNORED
    chosen[attacked >= least] = ATTACK
    return chosen


def _taken(
    recording: Recording, rows: slice | Bools | Ints, **changes: Any
) -> Recording:
    """Return some rows of a recording; `changes` are what does not go by rows."""
    for name in ("values", "validity", "labels", "time"):
        array = getattr(recording, name)
        changes.setdefault(name, None if array is None else array[rows])
    return replace(recording, **changes)


def _moved(
    attacks: tuple[Attack, ...],
    start_of: Callable[[int], int],
    stop_of: Callable[[int], int],
) -> tuple[Attack, ...]:
    """Return attacks by new row numbers; an attack without a row is left out."""
    moved = [(a, start_of(a.start), stop_of(a.stop)) for a in attacks]
    return tuple(
        replace(attack, start=start, stop=stop)
        for attack, start, stop in moved
        if start < stop
    )


def _filled_in(recording: Recording) -> tuple[Labels, Ints]:
    """Return labels and breaks, which every recording has after its construction."""
    labels, breaks = recording.labels, recording.breaks
    assert labels is not None  # noqa: S101
    assert breaks is not None  # noqa: S101
    return labels, breaks


# Values with more decimals than these are taken as not rounded.
MOST_DECIMALS = 9
# A column with fewer different values says little about its decimals: a closed valve
# is 0 in every row, whatever the format.
_FEWEST_VALUES = 10
# How many tags a notice names before it counts the rest.
_MOST_NAMES = 4


class TrainDecimals(StrEnum):
    """With how many decimals train is read.

    ``AS_TEST``
        Rounded to the decimals of test, where test has fewer.
    ``RAW``
        As it is in the files.
    """

    AS_TEST = "as-test"
    RAW = "raw"


def decimals_of(values: Residuals) -> Ints:
    """Return how many decimals are needed to write the values of each column.

    Parameters
    ----------
    values : array of shape (n_rows, n_channels)
        Values that are not finite do not count.

    Returns
    -------
    array of shape (n_channels,)
        0 for whole numbers and for columns without a finite value;
        ``MOST_DECIMALS + 1`` for values that are not rounded.

    Examples
    --------
    >>> decimals_of(np.array([[1.0, 0.25, 1 / 3], [2.0, 0.5, np.nan]]))
    array([ 0,  2, 10])
    """
    tolerance = 1e-6 if values.dtype == np.float32 else 1e-13
    decimals = np.zeros(values.shape[1], np.int64)
    for k in range(values.shape[1]):
        column = values[:, k].astype(np.float64)
        rest = np.unique(column[np.isfinite(column)])
        while len(rest) and decimals[k] <= MOST_DECIMALS:
            error = np.abs(np.round(rest, int(decimals[k])) - rest)
            rest = rest[error > tolerance * np.abs(rest)]
            decimals[k] += bool(len(rest))
    return decimals


def rounded_like(train: Residuals, test: Residuals) -> tuple[Residuals, Ints]:
    """Return train with the decimals of test, column by column.

    A column with fewer than ten different values in test takes the largest number of
    decimals of all columns of test: it may be a valve that did not move.

    Parameters
    ----------
    train, test : array of shape (n_rows, n_channels)
        The same channels in the same order.

    Returns
    -------
    rounded : array of shape (n_rows, n_channels)
        A copy of `train`, or `train` itself if no column has more decimals than test.
    decimals : array of shape (n_channels,)
        To how many decimals a column was rounded; -1 where it was not.

    Examples
    --------
    >>> train = np.array([[1.23456, 3.0], [1.33333, 4.0]])
    >>> test = np.column_stack([np.arange(20) / 100, np.ones(20)])
    >>> rounded, decimals = rounded_like(train, test)
    >>> rounded, decimals
    (array([[1.23, 3.  ],
            [1.33, 4.  ]]), array([ 2, -1]))
    """
    decimals = decimals_of(test)
    n_different = [len(np.unique(column)) for column in test.T]
    is_short = np.array(n_different, np.int64) < _FEWEST_VALUES
    decimals[is_short] = decimals.max(initial=0)
    is_finer = (decimals_of(train) > decimals) & (decimals <= MOST_DECIMALS)
    decimals = np.where(is_finer, decimals, -1)
    if not is_finer.any():
        return train, decimals
    rounded = train.copy()
    for k in np.flatnonzero(is_finer):
        rounded[:, k] = np.round(train[:, k], int(decimals[k]))
        # Adding zero turns a negative zero into a plain one.
        rounded[:, k] += 0.0
    return rounded, decimals


def train_rounded_like(
    train: Recording, test: Recording
) -> tuple[Recording, tuple[str, ...]]:
    """Return train with the decimals of test, and a notice about it.

    Parameters
    ----------
    train, test : Recording
        Of the same plant.

    Returns
    -------
    rounded : Recording
        `train` itself if there was nothing to round; see `rounded_like`.
    notices : tuple of str
        One sentence: how many tags were rounded, and in which of them train varies
        by less than the last decimal of test. Empty if there was nothing to round.

    Examples
    --------
    >>> from sightline.data.recording import Tag
    >>> tags = [Tag(name="P_J280")]
    >>> train = Recording(values=[[2.974052906], [2.983], [2.961]], tags=tags)
    >>> test = Recording(values=[[2.97], [2.98], [2.96]], tags=tags)
    >>> rounded, notices = train_rounded_like(train, test)
    >>> notices[0][:60]
    '1 of 1 tags of train was rounded to the 2 decimals of test, '
    """
    values, decimals = rounded_like(train.values, test.values)
    columns = {k: d for k, d in enumerate(decimals.tolist()) if d >= 0}
    if not columns:
        return train, ()
    spreads = {k: float(np.nanstd(train.values[:, k])) for k in columns}
    narrow = [
        f"{train.channels[k]} (standard deviation {spreads[k]:.2g})"
        for k, digits in columns.items()
        if spreads[k] < 10.0**-digits
    ]
    coarse = "; train varies by less than the last of them in "
    coarse += names(narrow, _MOST_NAMES)
    notice = (
        f"{len(columns)} of {len(decimals)} tags of train "
        f"{'was' if len(columns) == 1 else 'were'} rounded to the "
        f"{' or '.join(map(str, sorted(set(columns.values()))))} decimals of test, so "
        "that a detector does not take the rounding of test for deviations"
        f"{coarse if narrow else ''}: read train as it is with "
        f"train_decimals='{TrainDecimals.RAW}'."
    )
    return replace(train, values=values), (notice,)
