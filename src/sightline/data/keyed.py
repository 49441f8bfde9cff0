"""Access to a record's fields by key, until every caller reads attributes."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any


class Keyed(Mapping[str, Any]):
    """A frozen dataclass whose fields that are not None can also be read by key."""

    def __getitem__(self, key: str) -> Any:
        """Return a field by its name; KeyError if it is None or unknown."""
        value = getattr(self, key, None)
        if value is None:
            raise KeyError(key)
        return value

    def __iter__(self) -> Iterator[str]:
        """Return the names of the fields that are not None."""
        named = (field.name for field in fields(self))  # type: ignore[arg-type]
        return (name for name in named if getattr(self, name) is not None)

    def __len__(self) -> int:
        """Return the number of fields that are not None."""
        return sum(1 for _ in self)

    def __or__(self, other: Mapping[str, Any]) -> Any:
        """Return a copy with some fields replaced."""
        return replace(self, **other)  # type: ignore[type-var]
