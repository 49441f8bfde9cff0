"""What a study is to do: which detectors on which testbeds, with which seeds.

A plan is written by hand as a short TOML file, or put together from the options of a
command; a key that nobody knows is refused with the nearest one that somebody does.
"""

import difflib
import inspect
import os
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from sightline.detectors import DETECTORS, detector_type
from sightline.detectors.base import LearnedDetector
from sightline.detectors.settings import PRESETS
from sightline.errors import FileError, StreamError
from sightline.files import brief, reading
from sightline.testbeds import READERS, WATERWORKS, open_testbed

# What an option of `open_testbed` that a plan may set is not.
_NOT_OPTIONS = {"name", "progress", "simulation"}
# Labels become the names of files and folders.
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


@dataclass(frozen=True, kw_only=True)
class TestbedChoice:
    """A testbed of a study: what to open, and how.

    Parameters
    ----------
    label : str
        What the study calls it.
    testbed : str
        A name of `list_testbeds`, or a folder with one's own plant.
    root : Path, optional
        Folder with its files.
    options : mapping
        Any further argument of `open_testbed`.
    """

    label: str
    testbed: str
    root: Path | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    # Not a test class, whatever pytest thinks of its name.
    __test__ = False


@dataclass(frozen=True, kw_only=True)
class DetectorChoice:
    """A detector of a study, and how it is set.

    Parameters
    ----------
    label : str
        What the study calls it.
    detector : str
        A name of `list_detectors`, or ``package.module:Class`` of one's own.
    preset : {"export", "official"}
        How it learns and looks.
    rule : str, optional
        Its own alarm rule.
    settings : mapping
        Any of its settings, on every testbed.
    on : mapping
        By a testbed's label: settings that hold there alone.
    """

    label: str
    detector: str
    preset: str = "export"
    rule: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    on: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def settings_on(self, testbed: str) -> dict[str, Any]:
        """Return the settings that hold on a testbed, by its label."""
        return {**self.settings, **self.on.get(testbed, {})}


@dataclass(frozen=True, kw_only=True)
class EvaluationChoice:
    """How every stream of a study is evaluated; see `sightline.evaluate`.

    `telemetry` is whether the plant's measurements go with each stream, without which
    nobody can tell an attack that moved nothing from one that went unseen.
    """

    guard: int = 0
    intervals: bool = True
    diagnosis: bool = True
    telemetry: bool = True
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class StudyPlan:
    """Detectors x testbeds x seeds, and how to evaluate each.

    Examples
    --------
    >>> plan = plan_of({"testbeds": {"waterworks": {}}, "detectors": {"pca": {}}})
    >>> plan.seeds
    (0,)
    """

    title: str = "Study"
    seeds: tuple[int, ...] = (0,)
    testbeds: tuple[TestbedChoice, ...] = ()
    detectors: tuple[DetectorChoice, ...] = ()
    evaluation: EvaluationChoice = field(default_factory=EvaluationChoice)


def read_plan(
    path: str | Path, *, roots: Mapping[str, str | Path] | None = None
) -> StudyPlan:
    """Read a plan from a TOML file.

    Parameters
    ----------
    path : path
        The file; folders it names are relative to where it lies.
    roots : mapping, optional
        By a testbed's label: where its files are, whatever the plan says.
    """
    path = Path(path)
    with reading(path):
        text = path.read_bytes()
    try:
        values = tomllib.loads(text.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileError(f"{path}: is not a TOML file ({brief(error)}).") from error
    return plan_of(values, place=str(path), folder=path.parent, roots=roots)


def plan_of(
    values: Mapping[str, Any],
    *,
    place: str = "the plan",
    folder: Path = Path(),
    roots: Mapping[str, str | Path] | None = None,
) -> StudyPlan:
    """Return the plan that plain values describe, checked as far as can be."""
    known = [f.name for f in fields(StudyPlan)]
    _refuse_unknown(values, known, place)
    testbeds = tuple(
        _testbed(label, _table(given, f"{place}: [testbeds.{label}]"), place, folder)
        for label, given in _table(
            values.get("testbeds", {}), f"{place}: [testbeds]"
        ).items()
    )
    detectors = tuple(
        _detector(label, _table(given, f"{place}: [detectors.{label}]"), place)
        for label, given in _table(
            values.get("detectors", {}), f"{place}: [detectors]"
        ).items()
    )
    for what, chosen in (("testbeds", testbeds), ("detectors", detectors)):
        if not chosen:
            raise StreamError(
                f"{place}: names no {what}: add a table such as "
                f"[{what}.{'swat' if what == 'testbeds' else 'gdn'}]."
            )
    title = values.get("title", StudyPlan.title)
    if not isinstance(title, str):
        raise StreamError(f"{place}: title must be a text; got {title!r}.")
    plan = StudyPlan(
        title=title,
        seeds=_seeds(values.get("seeds", [0]), place),
        testbeds=_rooted(testbeds, roots or {}, place),
        detectors=detectors,
        evaluation=_evaluation(values.get("evaluation", {}), place),
    )
    labels = [testbed.label for testbed in plan.testbeds]
    for detector in plan.detectors:
        _refuse_unknown(
            detector.on, labels, f"{place}: [detectors.{detector.label}.on]"
        )
    return plan


def _testbed(
    label: str, given: Mapping[str, Any], place: str, folder: Path
) -> TestbedChoice:
    at = f"{place}: [testbeds.{label}]"
    _check_label(label, at)
    testbed = str(given.get("testbed", label))
    options = set(inspect.signature(open_testbed).parameters) - _NOT_OPTIONS
    if testbed == WATERWORKS.name:
        from sightline.testbeds.waterworks import simulate

        options |= set(inspect.signature(simulate).parameters) - {"progress"}
    _refuse_unknown(given, ["testbed", *sorted(options)], at)
    is_known = testbed.partition("-")[0].lower() in [*READERS, WATERWORKS.name]
    return TestbedChoice(
        label=label,
        testbed=testbed if is_known else str(folder / testbed),
        root=None if given.get("root") is None else folder / str(given["root"]),
        options={
            key: str(folder / value)
            if key == "scenario" and isinstance(value, str)
            else value
            for key, value in given.items()
            if key not in ("testbed", "root")
        },
    )


def _detector(label: str, given: Mapping[str, Any], place: str) -> DetectorChoice:
    at = f"{place}: [detectors.{label}]"
    _check_label(label, at)
    detector = str(given.get("detector", label))
    own = {f.name for f in fields(DetectorChoice)} - {"label", "settings"}
    if ":" not in detector:
        try:
            known = sorted(
                f.name
                for f in fields(detector_type(detector).settings_type)
                if f.name != "seed"
            )
        except StreamError as error:
            raise StreamError(f"{at}: {error}") from error
        _refuse_seed(given, at)
        _refuse_unknown(given, [*sorted(own), *known], at)
    on = {
        testbed: _table(settings, f"{place}: [detectors.{label}.on.{testbed}]")
        for testbed, settings in _table(
            given.get("on", {}), f"{place}: [detectors.{label}.on]"
        ).items()
    }
    preset = str(given.get("preset", "export"))
    if preset not in PRESETS:
        raise StreamError(
            f"{at}: preset must be one of {', '.join(PRESETS)}; got {preset!r}."
        )
    settings = {key: value for key, value in given.items() if key not in own}
    _refuse_seed(settings, at)
    for testbed, more in on.items():
        there = f"{place}: [detectors.{label}.on.{testbed}]"
        _refuse_seed(more, there)
        if ":" not in detector:
            _refuse_unknown(more, known, there)
    return DetectorChoice(
        label=label,
        detector=detector,
        preset=preset,
        rule=None if given.get("rule") is None else str(given["rule"]),
        settings=settings,
        on=on,
    )


def _refuse_seed(settings: Mapping[str, Any], place: str) -> None:
    if "seed" in settings:
        raise StreamError(f"{place}: seeds are set for the whole study, by `seeds`.")


def _evaluation(given: object, place: str) -> EvaluationChoice:
    at = f"{place}: [evaluation]"
    table = _table(given, at)
    kinds = {f.name: f.type for f in fields(EvaluationChoice)}
    _refuse_unknown(table, list(kinds), at)
    for key, value in table.items():
        is_flag = isinstance(value, bool)
        if is_flag != (kinds[key] is bool) or not isinstance(value, int) or value < 0:
            wanted = (
                "true or false" if kinds[key] is bool else "a whole number, 0 or more"
            )
            raise StreamError(f"{at}: {key} must be {wanted}; got {value!r}.")
    return replace(EvaluationChoice(), **table)


def _seeds(given: object, place: str) -> tuple[int, ...]:
    seeds = given if isinstance(given, list | tuple) else [given]
    is_whole = all(isinstance(s, int) and not isinstance(s, bool) for s in seeds)
    if not seeds or not is_whole or min(seeds) < 0 or len(set(seeds)) < len(seeds):
        raise StreamError(
            f"{place}: seeds must be different whole numbers, 0 or more; got {given!r}."
        )
    return tuple(seeds)


def _rooted(
    testbeds: Sequence[TestbedChoice], roots: Mapping[str, str | Path], place: str
) -> tuple[TestbedChoice, ...]:
    """Return the testbeds with the folders that were named beside the plan."""
    _refuse_unknown(roots, [testbed.label for testbed in testbeds], f"{place}: --root")
    return tuple(
        replace(testbed, root=Path(roots[testbed.label]))
        if testbed.label in roots
        else testbed
        for testbed in testbeds
    )


def _table(given: object, place: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise StreamError(f"{place} must be a table; got {given!r:.40}.")
    return given


def _check_label(label: str, place: str) -> None:
    if not _LABEL.fullmatch(label):
        raise StreamError(
            f"{place}: {label!r} becomes part of file names: use letters, digits and "
            "- _ . + only."
        )


def _refuse_unknown(given: Mapping[str, Any], known: Sequence[str], place: str) -> None:
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
            hint = (
                f"did you mean {near[0]!r}?"
                if near
                else f"it knows {', '.join(known)}."
            )
            raise StreamError(f"{place}: has no {key!r}; {hint}")


def detector_class(detector: str) -> type[Any]:
    """Return the class of a detector: one of ours, or ``package.module:Class``."""
    if ":" not in detector:
        return detector_type(detector)
    import importlib

    # The current folder counts too, as it does for the processes that cells run in.
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    module, _, name = detector.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise StreamError(
            f"There is no {detector!r} to import ({brief(error)}): give "
            "package.module:Class of something installed or in the current folder."
        ) from error
    except Exception as error:
        # A stranger's file may be broken in any way.
        raise StreamError(
            f"{detector!r} cannot be imported ({type(error).__name__}: {brief(error)})."
        ) from error
    if not callable(found) or not hasattr(found, "fit"):
        raise StreamError(f"{detector!r} is not a class with `fit` and `residuals`.")
    kind: type[Any] = found
    return kind


def made_detector(
    detector: str, preset: str, testbed: str, seed: int, settings: Mapping[str, Any]
) -> Any:
    """Return a detector that has yet to learn.

    One of one's own is given the seed, if it takes one, and the settings, nothing else.
    """
    kind = detector_class(detector)
    if issubclass(kind, LearnedDetector):
        return kind(preset, testbed=testbed, seed=seed, **settings)
    takes = inspect.signature(kind).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in takes.values())
    given = dict(settings)
    if "seed" in takes or takes_any:
        given["seed"] = seed
    if not takes_any:
        _refuse_unknown(given, list(takes), detector)
    return kind(**given)


def code_version(detector: str) -> str:
    """Return what changes whenever a detector's residuals may: part of a cell's key.

    Our own detectors count their versions; of one's own the file's text decides.
    """
    kind = detector_class(detector)
    if detector in DETECTORS:
        return str(kind.card.version)
    import hashlib

    source = inspect.getsourcefile(kind)
    text = b"" if source is None else Path(source).read_bytes()
    return hashlib.sha256(text).hexdigest()
