"""Any outlier detector (PyOD, aeon, scikit-learn) by its reconstruction or score."""

import copy
import inspect
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from sightline.data.arrays import Floats, Ints, require
from sightline.detectors.adapters.adapter import (
    Adapter,
    adapter_settings,
    check_expected,
    observation,
    runs_of,
)
from sightline.detectors.base import Residuals
from sightline.detectors.preprocessing import Scaled
from sightline.detectors.scaling import Scaling
from sightline.errors import SightlineError, StreamError
from sightline.files import brief

Ask = Callable[[Any, Floats], Any]
# PyOD adds so much to deviations before it divides by them.
_PYOD_EPSILON = 1e-8
# A reconstruction nearer than this to what is given leaves nothing to see.
_IDENTICAL = 1e-9
# Rows reconstructed at a time, so that a long recording needs little memory.
_ROWS_AT_ONCE = 16_384


class _Learned(NamedTuple):
    model: Any
    reconstruct: Ask | None
    score: Ask | None
    notices: tuple[str, ...]


class FromOutlierDetector(Adapter):
    """A detector that takes what an outlier detector expects, else how odd it scores.

    *Reconstruction* where the model has one: PyOD's AutoEncoder and VAE (decoded from
    the mean of the code, without drawing), PyOD's PCA with fewer components than
    channels, and any model with `transform` and `inverse_transform`. Residuals are then
    one a channel, observed minus reconstructed.

    *Score* otherwise: one number a row, space ``"score"``, named after the model. A
    score is no residual, and `notices` says so, and also if it is one-sided, never
    negative on train. PyOD's `decision_function`
    and aeon's `predict` are high where a row is odd; scikit-learn's `score_samples` is
    low there, and its sign is turned.

    A model that looks at windows (aeon's, PyOD's time series models) is asked run by
    run and learns from the longest run of train, so that no window crosses a gap. Most
    of these score a row by windows that end after it; `sightline.check_detector` finds
    out.

    Parameters
    ----------
    model : object
        With ``fit(X)``; it is copied and not changed.
    use : {"reconstruction", "score"}
        Take the score also where there is a reconstruction.
    reconstruct : callable, optional
        ``reconstruct(model, values)`` returns what the fitted model expects in place
        of scaled rows, for a model that is not known here.
    score : callable, optional
        ``score(model, values)`` returns one number a row, high where it is odd.
    every : int
        Make one row (the median) of so many.
    trim_s : float
        Seconds left out at the beginning of train, while the plant settles.
    validation_share : float
        Share of train that is held out: one block, its place drawn, not learned from.
    seed : int
        Draws the place of the block, and what the model draws without a seed of its
        own.
    name : str, optional
        What to call it; else the model's class.

    Examples
    --------
    >>> from sklearn.ensemble import IsolationForest
    >>> FromOutlierDetector(IsolationForest(random_state=0)).card.name
    'IsolationForest'
    """

    def __init__(
        self,
        model: Any,
        *,
        use: Literal["reconstruction", "score"] = "reconstruction",
        reconstruct: Ask | None = None,
        score: Ask | None = None,
        every: int = 1,
        trim_s: float = 0.0,
        validation_share: float = 0.2,
        seed: int = 0,
        name: str | None = None,
    ) -> None:
        if isinstance(model, type) or not callable(getattr(model, "fit", None)):
            raise StreamError(
                f"A model must be an object with `fit`; got {model!r:.60}: make one "
                "first, as in FromOutlierDetector(IsolationForest())."
            )
        if use not in ("reconstruction", "score"):
            raise StreamError(f"`use` must be reconstruction or score; got {use!r}.")
        settings = adapter_settings(every, trim_s, validation_share, seed)
        super().__init__(name or type(model).__name__, "outlier", settings)
        self.model, self._use = model, use
        self._reconstruct, self._score = reconstruct, score

    def _learn(self, train: Scaled, trained: Ints, scaling: Scaling) -> _Learned:
        model, values = copy.deepcopy(self.model), np.asarray(train.values, np.float64)
        rows = trained
        notices: list[str] = []
        if _looks_at_windows(model):
            rows = max(runs_of(trained, train.breaks), key=len)
        if _learns_nothing(model):
            notices.append(
                f"{self.card.title} learns nothing from train: it judges each run "
                "against the run itself, which looks ahead."
            )
        else:
            if len(rows) < len(trained):
                notices.append(
                    f"{self.card.title} learned from the longest run of train, "
                    f"{len(rows):,} of {len(trained):,} rows, for it looks at windows."
                )
            how = {"axis": 0} if _takes_axis(model, "fit") else {}
            model.fit(values[rows], **how)
        reconstruct = self._way_to_reconstruct(model, values[rows], notices)
        if reconstruct is not None:
            return _Learned(model, reconstruct, None, tuple(notices))
        ask = self._score or _way_to_score(model, self.card.title)
        scores = self._scores(model, ask, values[rows])
        notices.append(
            f"{self.card.title} gives one score a row and no expectation of each "
            "channel: what is taken for a residual is this score, high where a row is "
            "odd, so read raw_roc_auc, which ranks the score itself."
        )
        if np.isin(scores, (0, 1)).all():
            notices.append(
                f"{self.card.title} says only yes or no of each row of train, which "
                "is an alarm more than a score."
            )
        # A comparison with nan is false: a row without a score is no objection.
        if not (scores < 0).any():
            notices.append(
                f"The score of {self.card.title} is one-sided, never negative on "
                "train: energy counts a very low score as odd too, and it is not."
            )
        return _Learned(model, None, ask, tuple(notices))

    def _told(self, learned: _Learned, seen: Scaled, scaling: Scaling) -> Residuals:
        values = np.asarray(seen.values, np.float64)
        rows = np.arange(len(values))
        if learned.reconstruct is not None:
            expected = self._reconstructed(learned.model, learned.reconstruct, values)
            return observation(values - expected, rows, *learned.notices)
        ask = learned.score or _way_to_score(learned.model, self.card.title)
        scores = np.full(len(values), np.nan)
        untold: list[str] = []
        runs = [rows]
        if _looks_at_windows(learned.model):
            runs = runs_of(rows, seen.breaks)
        for run in runs:
            try:
                scores[run] = self._scores(learned.model, ask, values[run])
            except SightlineError:
                raise
            except Exception as error:
                # Most often a run is shorter than a window; others may not be.
                if len(untold) + 1 == len(runs):
                    raise
                untold.append(
                    f"{self.card.title} tells nothing of a run of {len(run):,} rows "
                    f"({brief(error).rstrip('.')})."
                )
        notices = [*learned.notices, *untold]
        # An infinite score stays: nobody may take the oddest row for one without.
        is_told = ~np.isnan(scores)
        if left_out := int((~is_told).sum()):
            notices.append(f"{left_out:,} rows were left out, which have no score.")
        return Residuals(
            values=scores[is_told, np.newaxis],
            index=rows[is_told],
            channels=(self.card.name,),
            space="score",
            notices=tuple(notices),
        )

    def _way_to_reconstruct(
        self, model: Any, values: Floats, notices: list[str]
    ) -> Ask | None:
        """Return how to reconstruct, unless that gives back all that is given."""
        if self._reconstruct is not None:
            return self._reconstruct
        if self._use == "score" or self._score is not None:
            return None
        ways = (_by_inverse, _by_components, _by_decoder)
        found = next((way for way in ways if _can(way, model)), None)
        if found is None:
            return None
        apart = values - self._reconstructed(model, found, values)
        if np.abs(apart).max() > _IDENTICAL:
            return found
        notices.append(
            f"{self.card.title} reconstructs every row as it is (it keeps as many "
            "components as there are channels), so that its score is taken."
        )
        return None

    def _reconstructed(self, model: Any, ask: Ask, values: Floats) -> Floats:
        expected = np.empty_like(values)
        for start in range(0, len(values), _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            made = ask(model, values[rows].copy())
            expected[rows] = check_expected(made, values[rows], self.card.title)
        return expected

    def _scores(self, model: Any, ask: Ask, values: Floats) -> Floats:
        scores = np.asarray(ask(model, values.copy()), np.float64)
        if scores.shape not in ((len(values),), (len(values), 1)):
            raise StreamError(
                f"{self.card.title} must give one score for each of {len(values):,} "
                f"rows; it gave shape {scores.shape}: give `score`, a function of the "
                "model and rows that does."
            )
        return scores.ravel()

    def _about(self) -> dict[str, Any]:
        return {"model": repr(self.model)}


def _looks_at_windows(model: Any) -> bool:
    """Tell whether a model scores series and not rows: aeon's, PyOD's ts models."""
    return _takes_axis(model, "predict") or hasattr(model, "window_size")


def _takes_axis(model: Any, method: str) -> bool:
    try:
        return "axis" in inspect.signature(getattr(model, method)).parameters
    except (AttributeError, TypeError, ValueError):
        return False


def _learns_nothing(model: Any) -> bool:
    """Tell whether aeon says that `fit` does nothing."""
    if not (_takes_axis(model, "predict") and hasattr(model, "get_tag")):
        return False
    return bool(model.get_tag("fit_is_empty"))


def _way_to_score(model: Any, title: str) -> Ask:
    """Return how to score a fitted model so that high is odd; never guess the sign."""
    if _takes_axis(model, "predict"):
        return lambda asked, values: asked.predict(values, axis=0)
    # PyOD keeps the scores of train; scikit-learn's have the other sign.
    if hasattr(model, "decision_function") and hasattr(model, "decision_scores_"):
        return lambda asked, values: asked.decision_function(values)
    if hasattr(model, "score_samples"):
        return lambda asked, values: -np.asarray(asked.score_samples(values))
    raise StreamError(
        f"{title} has no score whose direction is known (decision_function of PyOD, "
        "predict of aeon, score_samples of scikit-learn): give `score`, a function of "
        "the model and rows that is high where a row is odd."
    )


def _can(way: Ask, model: Any) -> bool:
    if way is _by_inverse:
        return hasattr(model, "transform") and hasattr(model, "inverse_transform")
    if way is _by_components:
        return hasattr(model, "components_") and hasattr(
            getattr(model, "detector_", None), "inverse_transform"
        )
    network = getattr(model, "model", None)
    is_scaled = hasattr(model, "X_mean") and hasattr(model, "X_std")
    return (
        hasattr(network, "encoder")
        and hasattr(network, "decoder")
        and (is_scaled or getattr(model, "preprocessing", True) is False)
    )


def _by_inverse(model: Any, values: Floats) -> Any:
    return model.inverse_transform(model.transform(values))


def _by_components(model: Any, values: Floats) -> Any:
    """Reconstruct by PyOD's PCA, which keeps a scaler and scikit-learn's PCA."""
    scaler = getattr(model, "scaler_", None)
    inner = values if scaler is None else scaler.transform(values)
    made = model.detector_.inverse_transform(model.detector_.transform(inner))
    return made if scaler is None else scaler.inverse_transform(made)


def _by_decoder(model: Any, values: Floats) -> Any:
    """Reconstruct by PyOD's networks; they give their distance only, we the rows."""
    torch = require("torch", extra="detectors", caller=type(model).__name__)
    mean, deviation = np.zeros(values.shape[1]), np.ones(values.shape[1])
    if getattr(model, "preprocessing", False):
        mean, deviation = model.X_mean, model.X_std + _PYOD_EPSILON
    network = model.model
    network.eval()
    with torch.no_grad():
        rows = torch.as_tensor(
            (values - mean) / deviation, dtype=torch.float32, device=model.device
        )
        # A variational code has a mean and a deviation: no noise is to be drawn.
        code = network.encode(rows) if hasattr(network, "encode") else None
        if isinstance(code, tuple):
            code = code[0]
        made = network.decoder(network.encoder(rows) if code is None else code)
    return made.cpu().numpy().astype(np.float64) * deviation + mean
