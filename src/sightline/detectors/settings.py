"""Settings of detectors: frozen records whose fields are checked by their types.

A field's annotation says what it accepts, range included (`Count`, `Share`, a
``Literal``). msgspec checks it when the record is made, and the error names the
setting, what it must be and what was given.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from types import MappingProxyType, NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
import numpy as np
from msgspec import Meta

from sightline.data.arrays import check_choice
from sightline.data.downsampling import Sampling
from sightline.data.recording import seconds
from sightline.errors import StreamError
from sightline.text import did_you_mean

PRESETS = ("export", "official")
NOTHING: Mapping[str, object] = MappingProxyType({})
S = TypeVar("S", bound="Settings")

Count = Annotated[int, Meta(ge=1)]
Natural = Annotated[int, Meta(ge=0)]
NonNegative = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, lt=1)]
# How a channel that is constant in train is scaled: see `PreprocessingSettings`.
Constants = Literal["unit", "ratio", "epsilon", "keep"]
_KINDS = {int: "a whole number", float: "a number", bool: "True or False", str: "text"}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a detector; each kind of detector adds its own fields.

    Values are converted to Python's own types (numpy numbers, lists for tuples), so
    that a saved detector can hold them as JSON.

    Raises
    ------
    StreamError
        If a value does not have the type or range its field asks for.

    Examples
    --------
    >>> PreprocessingSettings(every=0)
    Traceback (most recent call last):
        ...
    sightline.errors.StreamError: `every` must be a whole number, 1 or more; got 0.
    """

    def __post_init__(self) -> None:
        """Check and convert every field by its type."""
        kind: Any = type(self)
        for name, hint in _hints(kind).items():
            value = getattr(self, name)
            object.__setattr__(self, name, checked_value(name, value, hint))

    def to_dict(self) -> dict[str, object]:
        """Return all settings by name, tuples as lists, so that JSON can hold them."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    """Return the annotation of each field, with its constraints."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in fields(kind)}


def checked_value(name: str, value: object, hint: Any) -> Any:
    """Return a value converted to the type of its setting.

    Parameters
    ----------
    name : str
        The setting, for the error message.
    value : object
        What was given; numpy's numbers count as Python's.
    hint : type
        The annotation, with `msgspec.Meta` for the range.

    Raises
    ------
    StreamError
        If the value has another type, lies out of range or is not finite.

    Examples
    --------
    >>> checked_value("window", np.int64(5), Count)
    5
    """
    plain = value.item() if isinstance(value, np.generic) else value
    try:
        converted = msgspec.convert(plain, hint)
    except (msgspec.ValidationError, OverflowError) as error:
        raise _refusal(name, value, hint) from error
    parts = converted if isinstance(converted, tuple) else (converted,)
    if any(isinstance(part, float) and not math.isfinite(part) for part in parts):
        raise _refusal(name, value, hint)
    return converted


def _refusal(name: str, value: object, hint: Any) -> StreamError:
    return StreamError(f"`{name}` must be {_expected(hint)}; got {value!r}.")


def _expected(hint: Any) -> str:
    """Return in words what an annotation accepts: kind, then range."""
    if get_origin(hint) is Literal:
        return f"one of {', '.join(map(str, get_args(hint)))}"
    if get_origin(hint) in (Union, UnionType):
        return _expected(next(one for one in get_args(hint) if one is not NoneType))
    if get_origin(hint) is not Annotated:
        return _KINDS.get(hint, f"of type {hint}")
    kind, *metas = get_args(hint)
    for meta in metas:
        if meta.description:
            return str(meta.description)
    ranges = [
        text.format(bound)
        for meta in metas
        for bound, text in (
            (meta.ge, "{:g} or more"),
            (meta.gt, "more than {:g}"),
            (meta.le, "{:g} or less"),
            (meta.lt, "less than {:g}"),
        )
        if bound is not None
    ]
    return f"{_expected(kind)}, {' and '.join(ranges)}"


def resolved(
    kind: type[S],
    preset: str,
    *,
    overrides: Mapping[str, object],
    whose: str,
    official: Mapping[str, object] = NOTHING,
    testbed: Mapping[str, object] = NOTHING,
) -> S:
    """Return settings: the defaults, then preset, testbed and overrides, in this order.

    Parameters
    ----------
    kind : type
        The record to make.
    preset : {"export", "official"}
        With "official" the values of `official` replace the defaults.
    overrides : mapping
        Settings by name, which replace those of `testbed`.
    whose : str
        Title of the detector, for the error messages.
    official, testbed : mapping
        Settings by name; those of `testbed` replace those of `official`.

    Raises
    ------
    StreamError
        If the preset or the name of an override does not exist; the message names the
        nearest setting.
    """
    check_choice("preset", preset, PRESETS)
    names = [field.name for field in fields(kind)]
    for name in overrides:
        if name not in names:
            raise StreamError(
                f"{whose} has no setting {name!r}; {did_you_mean(name, names)}"
            )
    chosen: dict[str, Any] = dict(official) if preset == "official" else {}
    return kind(**(chosen | dict(testbed) | dict(overrides)))


@dataclass(frozen=True, kw_only=True)
class RowSettings(Settings):
    """Which rows a detector learns from, and which become its stream.

    They count measured rows and time. What a testbed's options did already is not done
    again: see `sightline.detectors.preprocessing.left_to_do`.

    Parameters
    ----------
    every, sampling, across_breaks
        Make one row of `every` steps, and how: see `sightline.data.downsampling`.
    trim_s : float
        Seconds left out at the beginning of train, while the plant settles.
    reference_trim_s : float, optional
        Seconds at the beginning of train whose rows do not fit the reference. By
        default the reference is fitted on the rows learned from; with this setting on
        all rows of train from that second on, but for those held out.
    test_until : str, optional
        Last time stamp of test that becomes part of the stream, on the plant's clock.
    """

    every: Count = 1
    sampling: Sampling = "median"
    across_breaks: bool = False
    trim_s: NonNegative = 0.0
    reference_trim_s: NonNegative | None = None
    test_until: str | None = None

    def __post_init__(self) -> None:
        """Check every field, and that `test_until` is a time stamp."""
        super().__post_init__()
        if self.test_until is not None:
            try:
                seconds(self.test_until)
            except ValueError as error:
                raise StreamError(
                    "`test_until` must be a time stamp such as 2017-10-10 15:48:24; "
                    f"got {self.test_until!r}."
                ) from error


@dataclass(frozen=True, kw_only=True)
class PreprocessingSettings(RowSettings):
    """What is done to a recording before a detector sees it, besides `RowSettings`.

    Parameters
    ----------
    scale_before_trim : bool
        Take the range of each channel from all of train; else from what is left.
    constant_channels : {"unit", "ratio", "epsilon", "keep", "drop"}
        What becomes of a channel that is constant in train. "unit" subtracts its
        value; "ratio" divides by it (a channel of zeros stays); "epsilon" divides by
        `range_epsilon`; "keep" leaves it as it is; "drop" leaves it out.
    range_epsilon : float
        Added to every range.
    scaler : {"range", "spread"}
        Bring each channel's range in train to 0 ... 1, or its mean and standard
        deviation to 0 and 1.
    clip : pair of float, optional
        Low and high bound of scaled values.
    missing : {"hold", "mean"}
        A missing cell takes the last value before it (else train's mean), or the mean
        of the same recording, which looks ahead.
    test_scaling : {"train", "own"}
        Scale a recording by train's range, or by its own, which looks ahead.
    cross_gaps : bool
        Let windows run through gaps, as published code does.
    round_raw : bool
        Round values to single precision before anything else, as some published code
        does.
    """

    scale_before_trim: bool = False
    constant_channels: Literal["unit", "ratio", "epsilon", "keep", "drop"] = "unit"
    range_epsilon: NonNegative = 0.0
    scaler: Literal["range", "spread"] = "range"
    clip: Annotated[
        tuple[float, float] | None, Meta(description="a low and a high number")
    ] = None
    missing: Literal["hold", "mean"] = "hold"
    test_scaling: Literal["train", "own"] = "train"
    cross_gaps: bool = False
    round_raw: bool = False

    def __post_init__(self) -> None:
        """Check every field, and that `clip` ascends."""
        super().__post_init__()
        if self.clip is not None and self.clip[0] >= self.clip[1]:
            raise StreamError(
                f"`clip` must be a low and a high number; got {self.clip!r}."
            )


@dataclass(frozen=True, kw_only=True)
class BaselineSettings(PreprocessingSettings):
    """Settings of a baseline and of an adapter, besides the preprocessing.

    Parameters
    ----------
    validation_share : float
        Share of train that is held out and not learned from: one block, its place
        drawn at random.
    seed : int
        Seed of that draw.
    """

    validation_share: Share = 0.2
    seed: Natural = 0


@dataclass(frozen=True, kw_only=True)
class TrainedSettings(PreprocessingSettings):
    """Settings of the training loop.

    Parameters
    ----------
    epochs, batch_size, learning_rate, betas, weight_decay
        Of the optimiser, Adam.
    adam_eps, keras_adam
        What is added to the root of the squares, and whether it is added before the
        correction for the bias of the first steps, as Keras does.
    decoupled_decay : bool
        Decay weights directly (AdamW) rather than through the gradient.
    lr_factor, lr_every
        Multiply the learning rate by `lr_factor` after every `lr_every` epochs.
    validation_share : float
        Share of the windows held out, one block; 0 for none.
    purge : bool
        Leave windows out of training that overlap the held-out block.
    patience : int, optional
        Stop after this number of epochs in a row without a lower held-out loss.
    keep_best : bool
        Keep the weights of the epoch with the lowest held-out loss; else the last.
    weigh_windows : bool
        Let each window of the held-out block weigh the same in its loss, as Keras does;
        else each batch, so that those of a short last batch weigh more.
    stride : int
        Use every `stride`-th training window.
    shuffle : bool
        Draw a new order of the windows in each epoch.
    seed, threads : int
        Seed of everything drawn at random; number of threads torch may use in training
        (residuals are computed on all cores, and do not depend on their number).
    device : str
        ``"auto"``, ``"cpu"``, ``"cuda"`` or any other device of torch.
    dtype : {"float32", "float64"}
        Precision of data and network.
    """

    epochs: Count = 30
    batch_size: Count = 32
    learning_rate: NonNegative = 1e-3
    betas: Annotated[
        tuple[Share, Share], Meta(description="two numbers from 0 to below 1")
    ] = (0.9, 0.999)
    weight_decay: NonNegative = 0.0
    adam_eps: NonNegative = 1e-8
    keras_adam: bool = False
    decoupled_decay: bool = False
    lr_factor: NonNegative = 1.0
    lr_every: Count = 5
    validation_share: Share = 0.2
    purge: bool = False
    patience: Count | None = None
    keep_best: bool = True
    weigh_windows: bool = False
    stride: Count = 1
    shuffle: bool = True
    seed: Natural = 0
    threads: Count = 1
    device: str = "auto"
    dtype: Literal["float32", "float64"] = "float32"

    @property
    def precision(self) -> type[np.floating]:
        """The numpy type of data and network."""
        return np.float32 if self.dtype == "float32" else np.float64

    def learning_rate_in(self, epoch: int) -> float:
        """Return the learning rate of an epoch; epochs count from 1.

        Examples
        --------
        >>> TrainedSettings(learning_rate=0.1, lr_factor=0.5).learning_rate_in(6)
        0.05
        """
        passed = (epoch - 1) // self.lr_every
        return float(self.learning_rate * self.lr_factor**passed)


@dataclass(frozen=True, kw_only=True)
class GraphSettings(TrainedSettings):
    """Settings of networks on a graph of channels: GDN and FuSAGNet.

    Parameters
    ----------
    window : int
        Rows a forecast is made from.
    dim : int
        Length of a channel's embedding.
    top_k : int
        How many channels each channel receives from.
    head_layers, head_width : int
        Layers of the head, and their width where there are several.
    dropout : float
        Share of features dropped before the head in training.
    """

    window: Count = 5
    dim: Count = 64
    top_k: Count = 15
    head_layers: Count = 1
    head_width: Count = 64
    dropout: Share = 0.2
