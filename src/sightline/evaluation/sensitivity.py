"""How much headline figures depend on choices that a paper rarely states.

Each choice is changed alone. Units matter only where an estimator shrinks: OAS is tried
in standardised units too, and of Ledoit-Wolf that is an estimator of its own. Without
intervals, judgement and rules a setting is one pass over the rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final, cast

import numpy as np

from sightline.data.arrays import Floats, Residuals
from sightline.data.row_tables import CutRows, OverRows, Rows
from sightline.data.stream import ResidualStream
from sightline.energy.reference import ESTIMATORS, fold_moments, merged, scale_of
from sightline.errors import MissingExtraError, StreamError
from sightline.evaluation.pipeline import evaluate
from sightline.evaluation.result import FigureRange, Protocol
from sightline.figures import FIGURES, Better, Figure
from sightline.progress import Progress, Step, StepKind, silent
from sightline.text import names

GUARDS_S: Final = (30, 60, 120)
SLOPS_S: Final = (0, 30, 120)
HEADLINES: Final = (
    Figure.ROC_AUC,
    Figure.PAUC_1,
    Figure.AVERAGE_PRECISION,
    Figure.MEAN_SEGMENT_AUC,
    Figure.P_FULL,
    Figure.F1,
    Figure.RECALL,
    Figure.HITS,
    Figure.FALSE_ALARM_RATE,
    Figure.D_DRIFT_ROBUST,
    Figure.COMPACTNESS,
)


@dataclass(frozen=True)
class _DividedRows(OverRows):
    """Rows with each channel divided by a number."""

    rows: Rows
    by: Floats

    def chunks(self) -> Iterator[Residuals]:
        """Yield the divided rows of each chunk."""
        for chunk in self.rows.chunks():
            yield np.asarray(chunk / self.by)

    def between(self, first: int, stop: int) -> "_DividedRows":
        """Return the rows [first, stop)."""
        return _DividedRows(cast(CutRows, self.rows).between(first, stop), self.by)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One way to evaluate a stream.

    Parameters
    ----------
    choice, value : str
        What is changed, and to what; "default" for all as by default.
    options : mapping
        Arguments of `evaluate`.
    is_standardised : bool
        Whether each channel is divided by its spread in train.
    """

    choice: str
    value: str
    options: Mapping[str, Any]
    is_standardised: bool = False

    @property
    def name(self) -> str:
        """How it is called in tables."""
        has_own_name = self.choice in ("default", "reference")
        return self.value if has_own_name else f"{self.choice} {self.value}"


def settings_for(step_s: float | None) -> list[Setting]:
    """Return the settings that are tried; guards need seconds a row."""
    found = [Setting(choice="default", value="default", options={})]
    for estimator in ESTIMATORS[1:]:
        for units in ("", ", standardised") if estimator == "oas" else ("",):
            found.append(
                Setting(
                    choice="reference",
                    value=estimator + units,
                    options={"estimator": estimator},
                    is_standardised=bool(units),
                )
            )
    if step_s is not None:
        found += [
            Setting(
                choice="guard", value=f"{s} s", options={"guard": round(s / step_s)}
            )
            for s in GUARDS_S
            if round(s / step_s) > 0
        ]
        found += [
            Setting(choice="label slop", value=f"{s} s", options={"label_slop_s": s})
            for s in SLOPS_S
        ]
    paper = {"protocol": Protocol.PAPER}
    return [*found, Setting(choice="protocol", value="paper", options=paper)]


@dataclass(frozen=True, kw_only=True)
class Tried:
    """The headline figures of one stream by one setting.

    Parameters
    ----------
    stream : str
        Name of the stream.
    setting : Setting
        How it was evaluated.
    figures : mapping of str to float, optional
        By key; None where a figure is undefined.
    """

    stream: str
    setting: Setting
    figures: Mapping[str, float | None]


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """What `sensitivity` found.

    Parameters
    ----------
    tried : tuple of Tried
        Every stream by every setting.
    notices : tuple of str
        Settings that could not be tried, and why.
    """

    tried: tuple[Tried, ...]
    notices: tuple[str, ...] = ()

    @property
    def ranges(self) -> list[FigureRange]:
        """The range of each figure of each stream, figure by figure."""
        found = []
        for figure in HEADLINES:
            for stream in dict.fromkeys(one.stream for one in self.tried):
                values = {
                    one.setting.name: value
                    for one in self.tried
                    if one.stream == stream
                    and (value := one.figures[figure]) is not None
                }
                if not values:
                    continue
                low_by = min(values, key=lambda name: values[name])
                high_by = max(values, key=lambda name: values[name])
                found.append(
                    FigureRange(
                        stream=stream,
                        figure=figure,
                        default=values.get("default"),
                        low=values[low_by],
                        high=values[high_by],
                        low_by=low_by,
                        high_by=high_by,
                    )
                )
        return found

    def badness(self, figure: str, setting: str) -> dict[str, float]:
        """Return a figure of each stream under a setting; the least is the best."""
        sign = {Better.HIGHER: -1, Better.LOWER: 1}.get(FIGURES[figure].better)
        return {
            one.stream: abs(value) if sign is None else sign * value
            for one in self.tried
            if one.setting.name == setting
            and (value := one.figures[figure]) is not None
        }

    @property
    def changed_rankings(self) -> dict[str, tuple[str, ...]]:
        """The settings under which two streams change places, by figure.

        Streams that tie, or that a setting could not be tried on, change no places. Of
        figures that are neither good nor bad nothing is said.
        """
        settings = list(dict.fromkeys(one.setting.name for one in self.tried))

        def swaps(figure: str, setting: str) -> bool:
            old, new = (self.badness(figure, s) for s in ("default", setting))
            pairs = combinations(old.keys() & new.keys(), 2)
            return any((old[a] - old[b]) * (new[a] - new[b]) < 0 for a, b in pairs)

        return {
            figure: changed
            for figure in HEADLINES
            if FIGURES[figure].better is not Better.NEITHER
            and (changed := tuple(s for s in settings if swaps(figure, s)))
        }

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values, for JSON."""
        return {
            "ranges": [vars(one) for one in self.ranges],
            "changed_rankings": {k: list(v) for k, v in self.changed_rankings.items()},
            "tried": [
                {
                    "stream": one.stream,
                    "setting": one.setting.name,
                    **{str(key): value for key, value in one.figures.items()},
                }
                for one in self.tried
            ],
            "notices": list(self.notices),
        }


def sensitivity(
    streams: Sequence[ResidualStream], progress: Progress = silent
) -> Sensitivity:
    """Evaluate streams under many settings, and return how figures and ranks move.

    Parameters
    ----------
    streams : sequence of ResidualStream
        Of one recording, if their rankings are to mean something.
    progress : callable, optional
        Called with a `Step` before each setting.

    Raises
    ------
    StreamError
        If two streams have the same name, or one cannot be evaluated by default.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> train, test = rng.normal(size=(500, 3)), rng.normal(size=(300, 3))
    >>> labels = np.zeros(300, int)
    >>> labels[100:120] = 1
    >>> test[100:120, 0] += 4.0
    >>> found = sensitivity([ResidualStream(train, test, labels, name="mine")])
    >>> [str(one.figure) for one in found.ranges][:2]
    ['roc_auc', 'pauc_1']
    """
    called = [stream.name for stream in streams]
    if len(set(called)) < len(called):
        raise StreamError(
            f"Two streams are called the same ({', '.join(called)}): rename one."
        )
    tried: list[Tried] = []
    refused: dict[str, list[str]] = {}
    plans = [(s, one) for s in streams for one in settings_for(s.step_s)]
    for k, (stream, setting) in enumerate(plans):
        progress(Step(StepKind.SCORING, k, len(plans), setting.name))
        try:
            given = _standardised(stream) if setting.is_standardised else stream
            found = evaluate(
                given,
                intervals=False,
                diagnosis=False,
                metrics="none",
                budget=None,
                **setting.options,
            )
        except (StreamError, MissingExtraError) as error:
            if setting.choice == "default":
                raise
            refused.setdefault(f"{setting.name}: {error}", []).append(stream.name)
            continue
        figures = {str(figure): FIGURES[figure].of(found) for figure in HEADLINES}
        tried.append(Tried(stream=stream.name, setting=setting, figures=figures))
    notices = [f"Not tried on {names(on)}: {why}" for why, on in refused.items()]
    return Sensitivity(tried=tuple(tried), notices=tuple(notices))


def _standardised(stream: ResidualStream) -> ResidualStream:
    """Return a stream with each channel in units of its own spread in train."""
    by = scale_of(merged(fold_moments(stream.train, channels=stream.channels)))
    parts = {name: getattr(stream, name) for name in ("train", "test", "calibration")}
    return stream.replace(
        **{name: _DividedRows(rows, by) for name, rows in parts.items() if rows}
    )
