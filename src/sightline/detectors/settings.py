"""Settings of a detector: frozen, checked, and found by name or by preset."""

import difflib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np

from sightline.errors import StreamError

PRESETS = ("export", "official")
S = TypeVar("S", bound="Settings")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a detector can be told; each kind of detector adds its own."""

    def __post_init__(self) -> None:
        """Refuse anything but yes or no where that is asked."""
        for one in fields(self):
            if isinstance(one.default, bool):
                value = getattr(self, one.name)
                if not isinstance(value, bool | np.bool_):
                    raise StreamError(
                        f"`{one.name}` must be True or False; got {value!r}."
                    )
                object.__setattr__(self, one.name, bool(value))

    def to_dict(self) -> dict[str, Any]:
        """Return all settings as JSON can hold them."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }


def resolved(
    kind: type[S],
    preset: str,
    *,
    official: Mapping[str, Any],
    testbed: Mapping[str, Any],
    overrides: Mapping[str, Any],
    whose: str,
) -> S:
    """Return the settings: defaults, then preset, testbed and what was asked for."""
    if preset not in PRESETS:
        raise StreamError(
            f"`preset` must be one of {', '.join(PRESETS)}; got {preset!r}."
        )
    known = [f.name for f in fields(kind)]
    for name in overrides:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = (
                f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known)}."
            )
            raise StreamError(f"{whose} has no setting {name!r}; {hint}")
    chosen = dict(official) if preset == "official" else {}
    return kind(**(chosen | dict(testbed) | dict(overrides)))


def check_whole(settings: Settings, least: int, *names: str) -> None:
    """Refuse a setting that is no whole number, or below the least it can be."""
    for name in names:
        value = getattr(settings, name)
        is_whole = isinstance(value, Integral) and not isinstance(value, bool)
        if not is_whole or value < least:
            raise StreamError(
                f"`{name}` must be a whole number, {least} or more; got {value!r}."
            )
        object.__setattr__(settings, name, int(value))


def check_at_least(settings: Settings, least: float, *names: str) -> None:
    """Refuse a setting that is no finite number, or below the least it can be."""
    for name in names:
        value = getattr(settings, name)
        if not is_number(value) or value < least:
            raise StreamError(
                f"`{name}` must be a number, {least:g} or more; got {value!r}."
            )
        object.__setattr__(settings, name, float(value))


def check_share(settings: Settings, *names: str) -> None:
    """Refuse a setting that is not a share: 0 or more and less than 1."""
    for name in names:
        value = getattr(settings, name)
        if not is_number(value) or not 0 <= value < 1:
            raise StreamError(
                f"`{name}` must be a number, 0 or more and less than 1; got {value!r}."
            )
        object.__setattr__(settings, name, float(value))


def is_number(value: object) -> bool:
    """Tell whether a value is a finite number, of Python's kind or numpy's."""
    return (
        isinstance(value, Real)
        and not isinstance(value, bool)
        and math.isfinite(float(value))
    )


def check_choice(settings: Settings, name: str, choices: tuple[Any, ...]) -> None:
    """Refuse a setting that is not one of the choices."""
    value = getattr(settings, name)
    if value not in choices:
        listed = ", ".join(str(choice) for choice in choices)
        raise StreamError(f"`{name}` must be one of {listed}; got {value!r}.")
