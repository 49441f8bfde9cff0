"""What every testbed gives: a train recording, a test recording, and what was done."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sightline.data.recording import Recording


@dataclass(frozen=True, kw_only=True)
class TestbedCard:
    """What a testbed is, and where one gets it."""

    name: str
    title: str
    what: str
    channels: str
    attacks: str
    licence: str
    where: str
    releases: tuple[str, ...] = ()

    # Not a test class, whatever pytest thinks of its name.
    __test__ = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Testbed:
    """One testbed as read: its recordings and a word on all that was done to them.

    Parameters
    ----------
    name, release : str
        Which plant and which edition of its files, such as ``"wadi"``, ``"A1"``.
    train, test : Recording
        Attack-free rows to learn from; rows with attacks to be judged on.
    notices : tuple of str
        One sentence for everything left out, held, filled or chosen, and for known
        errors of the files that were left as they are.
    digests : mapping
        SHA-256 of each file read, by its path below the root: the data's revision.
    """

    name: str
    release: str
    train: Recording
    test: Recording
    notices: tuple[str, ...] = ()
    digests: dict[str, str] = field(default_factory=dict)

    __test__ = False

    @property
    def revision(self) -> str:
        """Name and release in one word, such as ``"wadi-A1"``."""
        return f"{self.name}-{self.release}" if self.release else self.name


@dataclass(frozen=True, kw_only=True)
class Expected:
    """How many rows a file must have, how many of them in how many attacks, and gaps.

    None where nobody has counted.
    """

    rows: int | None = None
    attack_rows: int | None = None
    attack_runs: int | None = None
    gaps: int | None = None


def listed(names: Sequence[object], most: int = 4) -> str:
    """Return names in a sentence, the first few of many.

    Examples
    --------
    >>> listed(["P101", "P102"])
    'P101, P102'
    >>> listed(range(9))
    '0, 1, 2, 3 and 5 more'
    """
    shown = ", ".join(str(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
