"""Detectors: from a recording to residuals. Importing this does not import torch."""

from pathlib import Path
from typing import Any

from sightline import plugins
from sightline.detectors.base import (
    Detector,
    DetectorCard,
    LearnedDetector,
    Residuals,
    Split,
    read_saved,
)
from sightline.detectors.baselines import (
    LastValue,
    PCAReconstruction,
    TrainingMean,
    VectorAutoregression,
)
from sightline.detectors.conformance import ConformanceError, check_detector
from sightline.detectors.fusagnet import FuSAGNet
from sightline.detectors.gdn import GDN
from sightline.detectors.geco import GeCo
from sightline.detectors.nsibf import NSIBF
from sightline.detectors.tranad import TranAD
from sightline.errors import FileError, StreamError
from sightline.plugins import Registry
from sightline.text import did_you_mean

__all__ = [
    "GDN",
    "NSIBF",
    "ConformanceError",
    "Detector",
    "DetectorCard",
    "FuSAGNet",
    "GeCo",
    "LastValue",
    "LearnedDetector",
    "PCAReconstruction",
    "Residuals",
    "Split",
    "TrainingMean",
    "TranAD",
    "VectorAutoregression",
    "check_detector",
    "detector_type",
    "list_detectors",
    "load_detector",
    "make_detector",
]


def _checked(name: str, kind: Any) -> type[LearnedDetector]:
    """Return a registered detector's class; `TypeError` if it is none."""
    if not isinstance(kind, type) or not issubclass(kind, LearnedDetector):
        raise TypeError("it is no subclass of sightline.detectors.LearnedDetector")
    if kind.card.name != name:
        raise TypeError(f"its card is that of {kind.card.name!r}")
    return kind


DETECTORS: Registry[type[LearnedDetector]] = Registry(plugins.DETECTORS, _checked)


def list_detectors() -> tuple[DetectorCard, ...]:
    """Return the cards of all detectors, those of other packages last.

    A detector of another package that cannot be imported is left out; asked for by
    name, it says why.

    Returns
    -------
    tuple of DetectorCard
        What each is, its paper, what is as published, and its settings by testbed.

    Examples
    --------
    >>> [card.name for card in list_detectors()][:3]
    ['gdn', 'fusagnet', 'tranad']
    """
    ours = [DETECTORS[name] for name in plugins.OURS[plugins.DETECTORS]]
    return tuple(kind.card for kind in (*ours, *DETECTORS.others()[0].values()))


def detector_type(name: str) -> type[LearnedDetector]:
    """Return the class of a detector by its name.

    Raises
    ------
    StreamError
        If there is no such detector, where the message names the nearest one, or the
        package that registers it is broken.
    """
    if name not in DETECTORS:
        raise StreamError(
            f"There is no detector called {name!r}; "
            f"{did_you_mean(name.lower(), DETECTORS)}"
        )
    return DETECTORS[name]


def make_detector(
    name: str, preset: str = "export", *, testbed: str | None = None, **settings: Any
) -> LearnedDetector:
    """Return a detector that is yet to be fitted.

    Parameters
    ----------
    name : str
        One of `list_detectors`, such as ``"gdn"``.
    preset : {"export", "official"}
        As suits a stream to be evaluated, or exactly as published.
    testbed : str, optional
        Use the card's settings for this testbed.
    **settings : optional
        Any of its settings by name.

    Returns
    -------
    LearnedDetector
        With `fit`, `residuals` and `save`.

    Raises
    ------
    StreamError
        If the detector or a setting does not exist, or a setting has a wrong value.

    Examples
    --------
    >>> make_detector("mean").card.title
    'Training mean'
    """
    return detector_type(name)(preset, testbed=testbed, **settings)


def load_detector(path: str | Path) -> LearnedDetector:
    """Return a detector as it was saved; the file says which one it is.

    Parameters
    ----------
    path : path
        Written by the `save` of a detector.

    Returns
    -------
    LearnedDetector
        Gives the same residuals as the one that was saved.

    Raises
    ------
    FileError
        If the file holds no detector of this version of Sightline.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from sightline import Recording, Tag
    >>> tags = [Tag(name="LIT101")]
    >>> recording = Recording(values=[[1.0], [3.0], [2.0]], tags=tags)
    >>> detector = make_detector("mean").fit(recording)
    >>> with TemporaryDirectory() as folder:
    ...     detector.save(f"{folder}/mean.npz")
    ...     again = load_detector(f"{folder}/mean.npz")
    >>> before, after = detector.residuals(recording), again.residuals(recording)
    >>> before.values.tolist() == after.values.tolist()
    True
    """
    about, _ = read_saved(Path(path))
    if about.get("detector") not in DETECTORS:
        raise FileError(
            f"{path}: holds {about.get('detector') or about.get('kind')!r}, which is "
            f"no detector of this Sightline; it has {', '.join(DETECTORS)}."
        )
    return detector_type(about["detector"]).load(path)
