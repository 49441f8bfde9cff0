"""What installed packages register by entry points, ours like anybody's.

A package says in its ``pyproject.toml`` what it offers::

    [project.entry-points."sightline.detectors"]
    middle = "my_package:Middle"

    [project.entry-points."sightline.testbeds"]
    bench = "my_package.bench"

    [project.entry-points."sightline.rules"]
    z-cusum = "my_package:Z_CUSUM"

A detector is a class with a card (`sightline.detectors.LearnedDetector`). A testbed is
a class that reads files (`sightline.testbeds.base.Reader`), or a module that simulates
a plant (``card`` and ``simulate``). A rule is a `sightline.rules.named.NamedRule`.
docs/own-detector.md has a whole example.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from sightline.errors import StreamError

T = TypeVar("T")
DETECTORS, TESTBEDS = "sightline.detectors", "sightline.testbeds"
RULES = "sightline.rules"
DISTRIBUTION = "sightline-cps"
# Equal to the entry points in pyproject.toml (tests/test_plugins.py), so that ours are
# there whatever an installed package of another version says.
OURS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        DETECTORS: {
            "gdn": "sightline.detectors.gdn:GDN",
            "fusagnet": "sightline.detectors.fusagnet:FuSAGNet",
            "tranad": "sightline.detectors.tranad:TranAD",
            "nsibf": "sightline.detectors.nsibf:NSIBF",
            "geco": "sightline.detectors.geco:GeCo",
            "var": "sightline.detectors.baselines:VectorAutoregression",
            "pca": "sightline.detectors.baselines:PCAReconstruction",
            "mean": "sightline.detectors.baselines:TrainingMean",
            "last-value": "sightline.detectors.baselines:LastValue",
            "pair": "sightline.detectors.baselines:NearAndFar",
            "kalman": "sightline.detectors.subspace:KalmanFilter",
            "pasad": "sightline.detectors.subspace:Pasad",
        },
        TESTBEDS: {
            "swat": "sightline.testbeds.swat:Swat",
            "wadi": "sightline.testbeds.wadi:Wadi",
            "hai": "sightline.testbeds.hai:Hai",
            "batadal": "sightline.testbeds.batadal:Batadal",
            "skab": "sightline.testbeds.skab:Skab",
            "waterworks": "sightline.testbeds.waterworks",
            "tep": "sightline.testbeds.tep",
            "network": "sightline.testbeds.network",
        },
        RULES: {
            "energy": "sightline.rules.named:ENERGY",
            "group": "sightline.rules.named:GROUP",
            "z": "sightline.rules.named:Z",
            "x": "sightline.rules.named:X",
            "group~": "sightline.rules.named:GROUP_AVERAGE",
            "z~": "sightline.rules.named:Z_AVERAGE",
            "x~": "sightline.rules.named:X_AVERAGE",
            "rows": "sightline.rules.named:ROWS",
            "all": "sightline.rules.named:ALL",
            "memory": "sightline.rules.named:MEMORY",
            "score": "sightline.rules.named:SCORE",
            "largest3": "sightline.rules.named:LARGEST",
            "log-energy~": "sightline.rules.named:LOG_ENERGY",
            "quiet~": "sightline.rules.named:QUIET",
            "cusum": "sightline.rules.named:CUSUM",
        },
    }
)


@cache
def registered(group: str) -> Mapping[str, EntryPoint]:
    """Return the entry points of a group by name, ours first; nothing is imported.

    A name of ours is never taken by another package; of two other packages with the
    same name the first in the alphabet has it.
    """
    ours = {name: EntryPoint(name, value, group) for name, value in OURS[group].items()}
    others = {
        entry.name: entry
        for entry in sorted(entry_points(group=group), key=_package, reverse=True)
        if _package(entry) != DISTRIBUTION
    }
    return {**ours, **{name: others[name] for name in sorted(others.keys() - ours)}}


def _package(entry: EntryPoint) -> str:
    """Return the name of the package that registered an entry point."""
    return "" if entry.dist is None else entry.dist.name.lower().replace("_", "-")


class Registry(Mapping[str, T], Generic[T]):
    """What is registered in a group, by name; imported when it is first asked for.

    Parameters
    ----------
    group : str
        Such as ``"sightline.detectors"``.
    check : callable
        From a name and the imported object to the object used; raises `TypeError` with
        a reason if the object is not what the group holds.
    takes : callable, optional
        Whether an entry point belongs here; all of the group by default.

    Examples
    --------
    >>> testbeds = Registry("sightline.testbeds", lambda name, module: module)
    >>> "swat" in testbeds, list(testbeds)[:2]
    (True, ['swat', 'wadi'])
    """

    def __init__(
        self,
        group: str,
        check: Callable[[str, Any], T],
        takes: Callable[[EntryPoint], bool] = lambda entry: True,
    ) -> None:
        self.group, self._check, self._takes = group, check, takes
        self._objects: dict[EntryPoint, T] = {}

    def _entries(self) -> dict[str, EntryPoint]:
        entries = registered(self.group)
        return {name: entry for name, entry in entries.items() if self._takes(entry)}

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries())

    def __len__(self) -> int:
        return len(self._entries())

    def __contains__(self, name: object) -> bool:
        return name in self._entries()

    def __getitem__(self, name: str) -> T:
        """Return the object of a name.

        Raises
        ------
        KeyError
            If nothing of that name is registered.
        StreamError
            If its package is broken; the sentence names it.
        """
        entry = self._entries()[name]
        if entry not in self._objects:
            try:
                self._objects[entry] = self._check(name, entry.load())
            except Exception as error:
                # Code of others may fail in any way while it is imported.
                reason = " ".join(f"{type(error).__name__}: {error}".split())
                raise StreamError(
                    f"{name!r} of {self.group}, registered as {entry.value!r} by the "
                    f"package {_package(entry) or 'sightline'}, cannot be used "
                    f"({reason}): update that package, or uninstall it."
                ) from error
        return self._objects[entry]

    def others(self) -> tuple[dict[str, T], tuple[str, ...]]:
        """Return what other packages register, and a sentence on each that is broken.

        Returns
        -------
        objects : dict
            By name, without the broken ones.
        problems : tuple of str
            Which cannot be used, and why.
        """
        objects: dict[str, T] = {}
        problems = []
        for name in [name for name in self if name not in OURS[self.group]]:
            try:
                objects[name] = self[name]
            except StreamError as problem:
                problems.append(str(problem))
        return objects, tuple(problems)
