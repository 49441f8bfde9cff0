"""What `plant.toml` may say about a plant of your own."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import numpy as np
from msgspec import Meta

from sightline.data.arrays import Floats
from sightline.data.downsampling import TrainDecimals
from sightline.data.recording import Role
from sightline.data.validity import SETTLE_S
from sightline.errors import FileError, StreamError
from sightline.files import read_toml
from sightline.tables.stamps import check_zone
from sightline.testbeds.base import HOLD_S, in_file, record_from
from sightline.text import did_you_mean

_FOREVER = "forever"
_Seconds = Annotated[float, Meta(gt=0, le=1e12, description="positive seconds")]
_Text = Annotated[str, Meta(description="text")]
_TextOrTwo = Annotated[
    str | tuple[str, str], Meta(description="a column, or a list of date and time")
]
_Texts = Annotated[tuple[str, ...], Meta(description="a list of texts")]


@dataclass(frozen=True, kw_only=True)
class ColumnNames:
    """The section ``[columns]``: which column is what, where names do not say it.

    Parameters
    ----------
    time : str or (str, str), optional
        The column of time stamps, or those of date and time of day.
    tag, value, quality, label : str, optional
        Names of columns; the names in `sightline.tables.cells` by default.
    ignore : tuple of str
        Columns that are not read.
    """

    time: _TextOrTwo | None = None
    tag: _Text | None = None
    value: _Text | None = None
    quality: _Text | None = None
    label: _Text | None = None
    ignore: _Texts = ()


@dataclass(frozen=True, kw_only=True)
class PlantSettings:
    """What `plant.toml` may say.

    Parameters
    ----------
    timezone : str, optional
        Zone of time stamps without an offset; else the plant's own clock.
    time_format : str, optional
        Format of time stamps; by default it is found.
    date_order : {"day", "month"}, optional
        Which number comes first in dates such as 05/11/2026, in tables where no number
        above 12 tells; a rule remembers it.
    step_s : float, optional
        Seconds between rows; by default the usual step of the table.
    hold_s : float
        How long a value stays valid when no other follows.
    missing_values : tuple of float
        Numbers that mean "no value", such as -9999.
    trim_start_s : float
        How many seconds to leave out at the start of train.
    train_decimals : {"raw", "as-test"}
        Whether train is rounded to the decimals of test.
    mode_tag : str, optional
        The tag that says whether the plant runs; the rest of the time is not watched.
    mode_running : tuple of str or float
        Its words or numbers while the plant runs.
    mode_settle_s : float
        How many seconds to leave out after it has changed.
    parts : int
        In how many parts train and test are judged as one record, each by a model of
        the others; 1 for a train that comes before the test.
    accept : tuple of str
        Codes of findings, such as ``"SL202"``, that are known and accepted.
    columns : ColumnNames
        Which column is what.
    other_holds : mapping of str to float
        How long the values of a role or of a tag stay valid, where that differs from
        `hold_s`; infinite for "forever". A tag goes before its role.
    """

    timezone: _Text | None = None
    time_format: _Text | None = None
    date_order: Annotated[
        str, Meta(pattern="^(day|month)?$", description="'day' or 'month'")
    ] = ""
    step_s: _Seconds | None = None
    hold_s: _Seconds = HOLD_S
    missing_values: Annotated[
        tuple[float, ...], Meta(description="a list of numbers")
    ] = ()
    trim_start_s: Annotated[
        float, Meta(ge=0, le=1e12, description="0 or more seconds")
    ] = 0.0
    train_decimals: Annotated[TrainDecimals, Meta(description="'raw' or 'as-test'")] = (
        TrainDecimals.RAW
    )
    mode_tag: _Text | None = None
    mode_running: Annotated[
        tuple[str | float, ...], Meta(description="a list of words or numbers")
    ] = ()
    mode_settle_s: Annotated[
        float, Meta(ge=0, le=1e12, description="0 or more seconds")
    ] = SETTLE_S
    parts: Annotated[
        int, Meta(ge=1, le=50, description="a whole number from 1 to 50")
    ] = 1
    accept: _Texts = ()
    columns: ColumnNames = field(default_factory=ColumnNames)
    other_holds: Mapping[str, float] = field(default_factory=dict)

    def holds_of(self, tags: Sequence[str], roles: Mapping[str, str]) -> Floats:
        """Return for each tag how many seconds its value stays valid.

        Parameters
        ----------
        tags : sequence of str
            Names of the tags.
        roles : mapping of str to str
            The role of each tag; a tag without one is a sensor.
        """
        by_role = [
            self.other_holds.get(roles.get(tag) or Role.SENSOR, self.hold_s)
            for tag in tags
        ]
        pairs = zip(tags, by_role, strict=True)
        return np.array(
            [self.other_holds.get(tag, hold) for tag, hold in pairs], np.float64
        )

    def check_holds(self, tags: Collection[str], path: Path) -> None:
        """Refuse a name in ``[hold_s]`` that is neither a role nor a tag."""
        for name in self.other_holds:
            if name not in tags and name not in [*Role]:
                raise FileError(
                    f"{path}: [hold_s] names {name!r}, which is neither a role nor a "
                    f"tag; {did_you_mean(name, [*tags, *Role])}"
                )


def read_settings(path: Path) -> PlantSettings:
    """Return what plant.toml says; the defaults if there is none.

    Raises
    ------
    FileError
        If it is no TOML, or a key or value is unknown.
    """
    if not path.is_file():
        return PlantSettings()
    values = read_toml(path)
    columns, stated = values.pop("columns", {}), values.get("hold_s")
    holds: dict[str, float] = {}
    if isinstance(stated, dict):
        values.pop("hold_s")
        for name, value in stated.items():
            try:
                holds[name] = (
                    np.inf
                    if value == _FOREVER
                    else record_from({"hold_s": value}, PlantSettings).hold_s
                )
            except StreamError as error:
                raise FileError(
                    f"{path}: [hold_s] {name} must be positive seconds or "
                    f"{_FOREVER!r}; got {value!r:.40}."
                ) from error
    if not isinstance(columns, dict):
        raise FileError(f"{path}: columns must be a section: write [columns] above it.")
    with in_file(path):
        if "other_holds" in values:
            raise StreamError("has an unknown key 'other_holds'; use hold_s.")
        settings = record_from(values, PlantSettings)
        if (settings.mode_tag is None) != (not settings.mode_running):
            raise StreamError(
                "mode_tag and mode_running go together: name the tag, and its words or "
                "numbers while the plant runs."
            )
    with in_file(f"{path}: [columns]"):
        named = record_from(columns, ColumnNames)
    if settings.timezone is not None:
        check_zone(settings.timezone, path)
    default = holds.pop("default", settings.hold_s)
    return replace(settings, columns=named, other_holds=holds, hold_s=default)
