"""Which column of a table is the time, the tag, the value, the quality or the label.

Names are compared without case, blanks and punctuation. The table `NAMES` holds the
headers of PI (DataLink, Web API), Wonderware, Ignition, InfluxDB and WinCC, and their
German names.
"""

import re
from collections.abc import Mapping, Sequence

# By role, the preferred name first.
NAMES: Mapping[str, tuple[str, ...]] = {
    "time": (
        *("time", "timestamp", "datetime", "date", "tstamp", "timestring"),
        *(
            "localtime",
            "timelocal",
            "timestamplocal",
            "localtimestamp",
            "datetimelocal",
        ),
        *("utctime", "timeutc", "timestamputc", "utctimestamp", "datetimeutc"),
        *("sourcetimestamp", "servertimestamp", "eventtime", "sampletime", "utc"),
        *("zeitstempel", "datumuhrzeit", "datumzeit", "datum", "zeit", "uhrzeit"),
    ),
    "tag": (
        *("tag", "tagname", "tagpath", "point", "pointname", "varname", "field"),
        *("tagid", "itemid", "variable", "signal", "sensor", "channel", "metric"),
        *("messstelle", "kanal"),
    ),
    "value": (
        *("value", "varvalue", "vvalue", "floatvalue", "intvalue", "stringvalue"),
        *("wert", "messwert"),
    ),
    "quality": (
        *("opcquality", "qualitydetail", "quality", "dataintegrity", "validity"),
        *("statuscode", "isgood", "good", "qualitycode", "status", "qualität"),
    ),
    "label": (
        *("label", "labels", "normalattack", "attack", "isattack", "attflag"),
        *("attacklabel", "anomaly", "isanomaly"),
    ),
}
# Columns of exports that hold no reading, whatever they hold.
NO_TAGS = frozenset(
    "uom units unit annotated questionable substituted annotations timems "
    "result table start stop measurement rowid id".split()
)
_UNITS = frozenset(
    "mm cm dm m km in ft mm2 cm2 m2 m² m3 m³ l ml ul gal m3/h m³/h m3/s m³/s m3/d m³/d "
    "m^3/h m3/min nm3/h nm³/h l/s l/min l/h gpm cmh mgd "
    "bar mbar barg bara pa hpa kpa mpa psi psig psia mmhg mh2o mwc mws inh2o "
    "°c ºc degc celsius k °f degf c f % %rh pct percent ppm ppb ph "
    "v mv kv a ma ka w kw mw gw va kva var kvar kwh mwh wh hz khz mhz rpm 1/min u/min "
    "s sec ms min h d kg g mg t kg/h t/h kg/s kg/m3 kg/m³ g/cm3 "
    "µs/cm us/cm ms/cm µs us ntu fnu mg/l ug/l µg/l g/l mmol/l mol/l "
    "m/s mm/s m/s2 m/s² n kn nm j kj mj deg rad ° ohm db dbm cp cst "
    "on/off 0/1 bool - 1".split()
)
# A bare letter in round brackets names a pump as often as a unit: P101 (A).
_BRACKETS = re.compile(r"^(.+?)\s*(?:\[([^\[\]]*)\]|\(([^()]{2,}|%|°)\))$")
_NOT_A_LETTER = re.compile(r"[\W_]+")


def plain(name: str) -> str:
    """Return a column's name as it is compared.

    Examples
    --------
    >>> plain("Date Time"), plain("t_stamp"), plain("_value"), plain("Normal/Attack")
    ('datetime', 'tstamp', 'value', 'normalattack')
    """
    return _NOT_A_LETTER.sub("", name).lower()


def is_unit(text: str) -> bool:
    """Return whether a text is the name of a unit, such as ``m3/h``, or of none."""
    return text.strip().strip("[]()").strip().lower() in _UNITS


def name_and_unit(name: str) -> tuple[str, str]:
    """Return the name of a column without its unit, and the unit (empty if none).

    Examples
    --------
    >>> name_and_unit("LIT101 [mm]"), name_and_unit("P101 (A)"), name_and_unit("x (%)")
    (('LIT101', 'mm'), ('P101 (A)', ''), ('x', '%'))
    """
    match = _BRACKETS.match(name.strip())
    if match is None:
        return name, ""
    unit = (match[2] if match[2] is not None else match[3]).strip()
    # Valve [1] is the first of several valves.
    return (match[1], unit) if is_unit(unit) and unit not in ("", "1") else (name, "")


def columns_called(role: str, columns: Sequence[str]) -> list[str]:
    """Return the columns whose names mean a role, the preferred one first.

    Parameters
    ----------
    role : str
        A key of `NAMES`.
    columns : sequence of str
        All columns of the table.

    Examples
    --------
    >>> columns_called("time", ["UTC time", "Timestamp", "LIT101"])
    ['Timestamp', 'UTC time']
    """
    wanted = NAMES[role]
    found = [c for c in columns if plain(name_and_unit(c)[0]) in wanted]
    return sorted(found, key=lambda c: wanted.index(plain(name_and_unit(c)[0])))
