"""The attack lists that ship with the package."""

from functools import cache

from sightline.data.attack_list import ListedAttack, Span
from sightline.data.recording import seconds
from sightline.testbeds.base import shipped_rows


@cache
def attack_table(name: str, *, release: str = "") -> tuple[ListedAttack, ...]:
    """Return the attack list of a testbed.

    Parameters
    ----------
    name : str
        The file's name without ending, such as ``"swat"`` or ``"hai_21.03"``.
    release : str
        Only the lines of that release, where the list has several.

    Examples
    --------
    >>> attack_table("swat")[0].targets
    ('MV101',)
    """
    return tuple(
        _listed(row)
        for row in shipped_rows(f"attack_lists/{name}.csv")
        if not release or row.get("release") == release
    )


def _listed(row: dict[str, str]) -> ListedAttack:
    """Return one line of a list."""
    is_listed = not row["attack_id"].startswith("U")
    return ListedAttack(
        id=row["attack_id"],
        listed=_span(row["start"], row["end"]) if is_listed else None,
        labelled=_span(row.get("label_start"), row.get("label_end")),
        adjusted=_span(row.get("adjusted_start"), row.get("adjusted_end")),
        targets=tuple(
            filter(None, row.get("targets_in_data", row["targets"]).split(";"))
        ),
        note=row.get("note", ""),
        has_no_impact=row.get("no_physical_impact") == "true",
        file=row.get("file", ""),
    )


def _span(start: str | None, end: str | None) -> Span | None:
    """Return two time stamps as seconds; None if one is missing."""
    return (seconds(start), seconds(end)) if start and end else None
