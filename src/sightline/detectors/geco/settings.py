"""What GeCo can be told, and what its authors told it for each testbed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sightline.data.downsampling import Sampling
from sightline.detectors.geco.candidates import MOST_INPUTS
from sightline.detectors.preprocessing import PreprocessingSettings
from sightline.detectors.settings import (
    Settings,
    check_at_least,
    check_choice,
    check_share,
    check_whole,
    is_number,
)
from sightline.errors import StreamError

_SEARCHES = ("closed form", "curve_fit")
_PRECISIONS = ("float64", "float32")
# What is handed on to the common preprocessing; nothing is ever scaled.
_PREPROCESSING = (
    "every",
    "sampling",
    "across_breaks",
    "trim_s",
    "missing",
    "cross_gaps",
)


@dataclass(frozen=True, kw_only=True)
class GeCoSettings(Settings):
    """What GeCo can be told; values stay in the plant's units.

    Parameters
    ----------
    ignore : tuple of str
        Channels that are neither told nor told from.
    max_inputs : int
        How many other channels a formula may have: 0 to 3.
    fit_share : float
        Share of train, from its beginning, that formulas are fitted on.
    threshold_factor, cusum_factor : float
        Of the native alarm: its level in multiples of train's largest CUSUM, and how
        far above the CUSUM may grow, in multiples of the drift.
    search : {"closed form", "curve_fit"}
        From inner products, or each candidate by scipy's optimiser as published.
    precision : {"float64", "float32"}
        Of the inner products of products while searching.
    every, sampling, across_breaks
        Make one row of so many, and how: see `sightline.data.downsampling`.
    trim_s : float
        Seconds left out at the beginning of train, while the plant settles.
    missing : {"hold", "mean"}
        A missing cell takes the last value before it (else train's mean), or the mean
        of the very recording, which looks ahead.
    cross_gaps : bool
        Take steps through a gap for ordinary ones, as published code does.
    seed : int
        Nothing is drawn; taken so that every detector can be told one.
    """

    ignore: tuple[str, ...] = ()
    max_inputs: int = MOST_INPUTS
    fit_share: float = 0.8
    threshold_factor: float = 1.1
    cusum_factor: float = 2.0
    search: Literal["closed form", "curve_fit"] = "closed form"
    precision: Literal["float64", "float32"] = "float64"
    every: int = 1
    sampling: Sampling = "median"
    across_breaks: bool = False
    trim_s: float = 0.0
    missing: Literal["hold", "mean"] = "hold"
    cross_gaps: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what is not an option."""
        names = (self.ignore,) if isinstance(self.ignore, str) else self.ignore
        if not isinstance(names, tuple | list) or not all(
            isinstance(name, str) for name in names
        ):
            raise StreamError(f"`ignore` must be names of channels; got {names!r}.")
        object.__setattr__(self, "ignore", tuple(names))
        check_whole(self, 0, "max_inputs", "seed")
        if self.max_inputs > MOST_INPUTS:
            raise StreamError(
                f"`max_inputs` must be {MOST_INPUTS} or less, for the search goes no "
                f"further; got {self.max_inputs}."
            )
        check_at_least(self, 0, "threshold_factor", "cusum_factor")
        if not is_number(self.fit_share) or self.fit_share != 1:
            check_share(self, "fit_share")
        object.__setattr__(self, "fit_share", float(self.fit_share))
        check_choice(self, "search", _SEARCHES)
        check_choice(self, "precision", _PRECISIONS)
        checked = self.preprocessing()
        for name in _PREPROCESSING:
            object.__setattr__(self, name, getattr(checked, name))

    def preprocessing(self) -> PreprocessingSettings:
        """Return what the common preprocessing is to do."""
        return PreprocessingSettings(
            **{name: getattr(self, name) for name in _PREPROCESSING}
        )


# Settings other than the defaults, by testbed.
TESTBED_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "swat": {
        "ignore": ("P201", "AIT201", "AIT202", "AIT203"),
        "threshold_factor": 1.4178738316276462,
        "cusum_factor": 5.982371851051667,
    },
    "wadi": {
        "ignore": (
            "2_P_001_STATUS",
            "2_P_002_STATUS",
            "2_LS_002_AL",
            "2_LS_001_AL",
            "2B_AIT_002_PV",
            "2_PIC_003_SP",
            "1_MV_002_STATUS",
            "1_MV_003_STATUS",
        ),
        "threshold_factor": 1.3226690286735276,
        "cusum_factor": 9.744812178582787,
    },
    "hai": {
        "ignore": (
            "P1_PCV02Z",
            "P2_SIT01",
            "P2_SIT02",
            "P2_VT01",
            "P2_VXT02",
            "P2_VXT03",
            "P2_VYT02",
        ),
        "threshold_factor": 8.02147642080159,
        "cusum_factor": 1.4376682451456457,
    },
    "waterworks": {},
    "batadal": {
        "ignore": ("P_J280",),
        "threshold_factor": 1.3889344396681091,
        "cusum_factor": 2.161863031600805,
    },
}
# Where they come from.
TESTBED_SOURCES: Mapping[str, str] = {
    "swat": "the authors' published model file",
    "wadi": "the authors' published model file (14 days, new version)",
    "hai": "the authors' published model file (version 21.03)",
    "waterworks": "no published setting: the defaults (our choice)",
    "batadal": "the authors' published model file",
}
