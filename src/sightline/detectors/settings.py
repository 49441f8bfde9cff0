"""Settings of a detector: frozen, checked, and found by name or by preset."""

import difflib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

from sightline.errors import StreamError

PRESETS = ("export", "official")
S = TypeVar("S", bound="Settings")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a detector can be told; each kind of detector adds its own."""

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


def check_at_least(settings: Settings, least: float, *names: str) -> None:
    """Refuse a setting below the least it can be (or not a number at all)."""
    for name in names:
        value = getattr(settings, name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not value >= least:
            raise StreamError(f"`{name}` must be {least:g} or more; got {value!r}.")


def check_share(settings: Settings, *names: str) -> None:
    """Refuse a setting that is not a share: 0 or more and less than 1."""
    for name in names:
        value = getattr(settings, name)
        if not (isinstance(value, int | float) and 0 <= value < 1):
            raise StreamError(
                f"`{name}` must be 0 or more and less than 1; got {value!r}."
            )


def check_choice(settings: Settings, name: str, choices: tuple[Any, ...]) -> None:
    """Refuse a setting that is not one of the choices."""
    value = getattr(settings, name)
    if value not in choices:
        listed = ", ".join(str(choice) for choice in choices)
        raise StreamError(f"`{name}` must be one of {listed}; got {value!r}.")
