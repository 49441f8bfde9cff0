"""What a study is to do: which detectors on which testbeds, with which seeds.

A plan is a short TOML file, or is built from the options of a command. The type of each
field says what it accepts (msgspec checks it), and an unknown key is refused with the
nearest one that exists. `explain` says what a plan would run, and who states each
setting, from the plan and from the cards of testbeds and detectors.
"""

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

from msgspec import Meta

from sightline.comparison.differences import PRIMARY, checked_primary
from sightline.data.downsampling import preset as rows_of_paper
from sightline.data.recording import Prepared, slop_from
from sightline.detectors import detector_type
from sightline.detectors.base import LearnedDetector, PaperSettings
from sightline.detectors.preprocessing import left_to_do
from sightline.detectors.settings import Natural, RowSettings, checked_value, resolved
from sightline.errors import StreamError, naming
from sightline.evaluation.result import Protocol
from sightline.files import read_toml
from sightline.metrics.alarm_figures import chosen_figures
from sightline.rules.limits import Budget
from sightline.testbeds import (
    READERS,
    SIMULATED,
    list_testbeds,
    open_testbed,
    simulator,
)
from sightline.text import did_you_mean, names

# Parameters of `open_testbed` that a plan cannot set.
_NOT_OPTIONS = {"name", "progress", "simulation"}
# Labels become parts of the names of files and folders.
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_DIFFERENT = "different whole numbers, 0 or more"
_Timeout = Annotated[float, Meta(gt=0, description="a number of seconds above 0")]
_Seeds = Annotated[tuple[Natural, ...], Meta(min_length=1, description=_DIFFERENT)]

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class TestbedChoice:
    """A testbed of a study: what to open, and how.

    Parameters
    ----------
    label : str
        Its name in the study.
    testbed : str
        A name of `list_testbeds`, or a folder with a plant of the user.
    root : Path, optional
        Folder with its files.
    cache : bool
        Whether to keep Parquet copies of its files.
    options : mapping
        Further arguments of `open_testbed`.
    """

    label: str
    testbed: str
    root: Path | None = None
    cache: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)

    # Its name begins as those of test classes do; pytest must not collect it.
    __test__ = False


@dataclass(frozen=True, kw_only=True)
class DetectorChoice:
    """A detector of a study, and its settings.

    Parameters
    ----------
    label : str
        Its name in the study.
    detector : str
        A name of `list_detectors`, or ``package.module:Class`` of the user.
    preset : {"export", "official"}, optional
        How it is trained: best for a residual stream, or as published. By default the
        first; with protocol ``paper`` what the detector's card says of it.
    rule : str, optional
        Its own alarm rule, to be exported with the stream.
    settings : mapping
        Settings on every testbed.
    on : mapping
        Settings on one testbed, by its label; they replace those of `settings`.
    """

    label: str
    detector: str
    preset: Literal["export", "official"] | None = None
    rule: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    on: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def settings_on(self, testbed: str) -> Mapping[str, Any]:
        """Return the settings on one testbed, by its label.

        Examples
        --------
        >>> gdn = DetectorChoice(
        ...     label="gdn",
        ...     detector="gdn",
        ...     settings={"epochs": 30},
        ...     on={"swat": {"epochs": 3}},
        ... )
        >>> gdn.settings_on("swat"), gdn.settings_on("wadi")
        ({'epochs': 3}, {'epochs': 30})
        """
        return {**self.settings, **self.on.get(testbed, {})}


@dataclass(frozen=True, kw_only=True)
class EvaluationChoice:
    """How every stream of a study is evaluated; see `sightline.evaluate`.

    Parameters
    ----------
    guard : int
        Rows after each attack to leave out.
    label_slop_s : float, optional
        Seconds by which labels may begin late or end early; by default what the
        testbed's card says, else 60.
    intervals, diagnosis : bool
        Whether to measure intervals and chance floors, and why attacks were missed.
    budget : str
        False alarms that are accepted, such as ``"6/day,1%"`` or ``"1/week"``; a plan
        may also have it as a key of its own.
    telemetry : bool
        Whether to store the plant's measurements with each stream. Without them an
        attack that changed nothing cannot be told from one that was missed.
    seed : int
        Seed of the bootstrap.
    metrics : str
        Alarm metrics to measure: all, none, or names separated by commas.
    protocol : Protocol
        ``sightline``, or ``paper`` for the letter of the paper.

    Raises
    ------
    StreamError
        If a name in `metrics` is no alarm metric.
    """

    guard: Natural = 0
    label_slop_s: float | None = None
    intervals: bool = True
    diagnosis: bool = True
    budget: str = str(Budget())
    telemetry: bool = True
    seed: Natural = 0
    metrics: str = "all"
    protocol: Protocol = Protocol.SIGHTLINE

    def __post_init__(self) -> None:
        """Raise `StreamError` for an unknown metric, or a budget not understood."""
        slop_from(self.label_slop_s)
        chosen_figures(self.metrics)
        Budget.parse(self.budget)


@dataclass(frozen=True, kw_only=True)
class StudyPlan:
    """Detectors x testbeds x seeds, and how to evaluate each.

    Parameters
    ----------
    title : str
        Title of the study's report.
    seeds : tuple of int
        Seeds with which each detector is trained on each testbed.
    testbeds : tuple of TestbedChoice
        At least one.
    detectors : tuple of DetectorChoice
        At least one.
    evaluation : EvaluationChoice
        The same for all streams.
    primary : str
        The figure that the detectors are judged by, named before the study runs.
    cases : tuple of str
        Attacks that the table ``attack_cases`` shows besides those chosen by rule, such
        as ``"swat:3"``. They change no result.
    only : tuple of str
        Pairs of a testbed and a detector, such as ``"swat:geco"``, to which the plan is
        restricted; all if empty.
    cell_timeout_s : float, optional
        Seconds after which a cell is ended and counts as failed; None for no limit. It
        changes no result, so it is no part of any key.

    See Also
    --------
    read_plan : Read a plan from a TOML file.

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
    primary: str = PRIMARY
    cases: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    cell_timeout_s: float | None = None

    def restricted_to(self, only: Sequence[str]) -> "StudyPlan":
        """Return the plan with some pairs of a testbed and a detector alone.

        Parameters
        ----------
        only : sequence of str
            ``testbed:detector`` by their labels; ``testbed:`` and ``:detector`` stand
            for all pairs of one.

        Raises
        ------
        StreamError
            If nothing is left, or a pair names what the plan does not have.
        """
        every = [
            (testbed.label, detector.label)
            for testbed in self.testbeds
            for detector in self.detectors
        ]
        kept: set[tuple[str, str]] = set()
        for text in only:
            testbed, colon, detector = text.partition(":")
            chosen = {
                pair
                for pair in every
                if colon and testbed in ("", pair[0]) and detector in ("", pair[1])
            }
            if not chosen:
                raise StreamError(
                    f"--only {text}: must be TESTBED:DETECTOR of this plan; testbeds: "
                    f"{names([t.label for t in self.testbeds])}; detectors: "
                    f"{names([d.label for d in self.detectors])}."
                )
            kept |= chosen
        on, by = ({pair[k] for pair in kept} for k in (0, 1))
        return replace(
            self,
            testbeds=tuple(t for t in self.testbeds if t.label in on),
            detectors=tuple(d for d in self.detectors if d.label in by),
            only=tuple(f"{t}:{d}" for t, d in every if (t, d) in kept),
        )

    @property
    def pairs(self) -> list[tuple["TestbedChoice", "DetectorChoice"]]:
        """Which detector runs on which testbed, testbed by testbed."""
        return [
            (testbed, detector)
            for testbed in self.testbeds
            for detector in self.detectors
            if not self.only or f"{testbed.label}:{detector.label}" in self.only
        ]

    def by_protocol(self, protocol: Protocol) -> "StudyPlan":
        """Return the same plan by another protocol."""
        return replace(self, evaluation=replace(self.evaluation, protocol=protocol))

    def preset_of(self, detector: DetectorChoice) -> str:
        """Return how a detector is trained under the plan's protocol."""
        return detector.preset or self._paper(detector).preset or "export"

    def settings_on(
        self, detector: DetectorChoice, testbed: str, plant: str
    ) -> Mapping[str, Any]:
        """Return the settings of a detector on a testbed under the plan's protocol.

        Parameters
        ----------
        detector : DetectorChoice
            Its own settings come first.
        testbed, plant : str
            The testbed's label in the plan, and its own name.
        """
        letter = self._paper(detector).settings.get(plant.partition("-")[0], {})
        return {**letter, **detector.settings_on(testbed)}

    def _paper(self, detector: DetectorChoice) -> PaperSettings:
        """Return what the letter of the paper asks of a detector; else nothing."""
        is_ours = ":" not in detector.detector
        if self.evaluation.protocol is not Protocol.PAPER or not is_ours:
            return PaperSettings()
        return detector_type(detector.detector).card.paper_protocol


def read_plan(
    path: str | Path, *, roots: Mapping[str, str | Path] | None = None
) -> StudyPlan:
    r"""Read a plan from a TOML file.

    Parameters
    ----------
    path : path
        The file; relative folders in it start at the folder of the file.
    roots : mapping, optional
        Folder with a testbed's files, by its label; replaces what the plan says.

    Returns
    -------
    StudyPlan
        Checked as `plan_of` does.

    Raises
    ------
    FileError
        If the file cannot be read or is not TOML.
    StreamError
        If it does not describe a study; the message names table and key.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "plan.toml")
    ...     _ = path.write_text("[testbeds.waterworks]\n[detectors.pca]\n")
    ...     [choice.label for choice in read_plan(path).detectors]
    ['pca']
    """
    path = Path(path)
    return plan_of(read_toml(path), place=str(path), folder=path.parent, roots=roots)


def plan_of(
    values: Mapping[str, Any],
    *,
    place: str = "the plan",
    folder: Path = Path(),
    roots: Mapping[str, str | Path] | None = None,
) -> StudyPlan:
    """Return the plan that plain values describe.

    Labels, keys and values are checked; files and the values of a detector's settings
    are not, until the study opens and builds them.

    Parameters
    ----------
    values : mapping
        As `tomllib` reads them: ``title``, ``seeds``, ``budget``, ``protocol``,
        ``primary``, ``cases``, ``cell_timeout_s``, and the tables ``testbeds``,
        ``detectors`` (both by label) and ``evaluation``.
    place : str
        Where the values come from, for error messages.
    folder : Path
        Where relative folders start.
    roots : mapping, optional
        Folder with a testbed's files, by its label; replaces what the plan says.

    Returns
    -------
    StudyPlan
        The plan; testbeds and detectors in the order given.

    Raises
    ------
    StreamError
        If the values do not describe a study.

    Examples
    --------
    >>> tables = {"testbeds": {"waterworks": {}}, "detectors": {"gdn": {"epoch": 3}}}
    >>> plan_of(tables)
    Traceback (most recent call last):
        ...
    sightline.errors.StreamError: the plan: [detectors.gdn]: has no 'epoch'; \
did you mean 'epochs'?
    """
    known = [f.name for f in fields(StudyPlan) if f.name != "only"]
    known += ["budget", "protocol"]
    refuse_unknown_keys(values, known, place)
    testbeds = {
        label: _testbed(label, table, at, folder)
        for label, table, at in _tables(values, "testbeds", "swat", place)
    }
    refuse_unknown_keys(roots or {}, list(testbeds), f"{place}: --root")
    for label, root in (roots or {}).items():
        testbeds[label] = replace(testbeds[label], root=Path(root))
    detectors = [
        _detector(label, table, at, list(testbeds))
        for label, table, at in _tables(values, "detectors", "gdn", place)
    ]
    at = f"{place}: [evaluation]"
    evaluation = dict(_table(values.get("evaluation", {}), at))
    for key in ("budget", "protocol"):
        if key in values:
            if key in evaluation:
                raise StreamError(f"{place}: names `{key}` twice; keep one of them.")
            evaluation[key] = values[key]
    with naming(place):
        title = checked_value("title", values.get("title", StudyPlan.title), str)
        seed = values.get("seeds", 0)
        listed = seed if isinstance(seed, list | tuple) else [seed]
        seeds: tuple[int, ...] = checked_value("seeds", listed, _Seeds)
        if len(set(seeds)) < len(seeds):
            raise StreamError(f"`seeds` must be {_DIFFERENT}; got {seed!r}.")
        primary = checked_primary(str(values.get("primary", PRIMARY)))
        cases: tuple[str, ...] = checked_value(
            "cases", list(values.get("cases", ())), tuple[str, ...]
        )
        timeout = values.get("cell_timeout_s")
        if timeout is not None:
            timeout = checked_value("cell_timeout_s", timeout, _Timeout)
    return StudyPlan(
        title=title,
        seeds=seeds,
        testbeds=tuple(testbeds.values()),
        detectors=tuple(detectors),
        evaluation=_checked(EvaluationChoice, evaluation, at),
        primary=primary,
        cases=cases,
        cell_timeout_s=timeout,
    )


def _tables(
    values: Mapping[str, object], kind: str, example: str, place: str
) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    """Yield label, table and place of each ``[kind.label]``; there must be one."""
    tables = _table(values.get(kind, {}), f"{place}: [{kind}]")
    if not tables:
        raise StreamError(
            f"{place}: names no {kind}: add a table such as [{kind}.{example}]."
        )
    for label, table in tables.items():
        at = f"{place}: [{kind}.{label}]"
        if not _LABEL.fullmatch(label):
            raise StreamError(
                f"{at}: {label!r} becomes part of file names: use letters, digits and "
                "- _ . + only."
            )
        yield label, _table(table, at), at


def _table(value: object, place: str) -> Mapping[str, Any]:
    """Return a value that must be a table of TOML."""
    if not isinstance(value, Mapping):
        raise StreamError(f"{place} must be a table; got {value!r:.40}.")
    return value


def _checked(kind: type[T], values: Mapping[str, object], place: str) -> T:
    """Return the record of given values, each checked by the type of its field."""
    hints = get_type_hints(kind, include_extras=True)
    refuse_unknown_keys(values, list(hints), place)
    with naming(place):
        return kind(**{k: checked_value(k, v, hints[k]) for k, v in values.items()})


def _testbed(
    label: str, table: Mapping[str, Any], place: str, folder: Path
) -> TestbedChoice:
    """Return the choice of a ``[testbeds.label]``; its keys are options to open it."""
    testbed = str(table.get("testbed", label))
    options = set(inspect.signature(open_testbed).parameters) - _NOT_OPTIONS
    if testbed in SIMULATED:
        simulate = simulator(testbed).simulate
        options |= set(inspect.signature(simulate).parameters) - {"progress"}
    refuse_unknown_keys(table, ["testbed", *sorted(options)], place)
    with naming(place):
        cache = checked_value("cache", table.get("cache", True), bool)
    is_known = testbed.partition("-")[0].lower() in [*READERS, *SIMULATED]
    return TestbedChoice(
        label=label,
        testbed=testbed if is_known else str(folder / testbed),
        root=None if table.get("root") is None else folder / str(table["root"]),
        cache=cache,
        options={
            key: str(folder / value)
            # Files lie beside the plan; a network that is shipped has no ending.
            if key in ("scenario", "network")
            and isinstance(value, str)
            and Path(value).suffix
            else value
            for key, value in table.items()
            if key not in ("testbed", "root", "cache")
        },
    )


def _detector(
    label: str, table: Mapping[str, Any], place: str, testbeds: Sequence[str]
) -> DetectorChoice:
    """Return the choice of a ``[detectors.label]``.

    Keys that are not of the choice itself are settings. Their names are checked for the
    detectors of this package; a class of the user is not imported before the study
    begins.
    """
    own = ("detector", "preset", "rule", "on")
    detector = str(table.get("detector", label))
    settings = {key: value for key, value in table.items() if key not in own}
    at = f"{place.removesuffix(']')}.on"
    on = {
        testbed: _table(value, f"{at}.{testbed}]")
        for testbed, value in _table(table.get("on", {}), f"{at}]").items()
    }
    refuse_unknown_keys(on, testbeds, f"{at}]")
    for values, where in [
        (settings, place),
        *((values, f"{at}.{testbed}]") for testbed, values in on.items()),
    ]:
        if "seed" in values:
            raise StreamError(
                f"{where}: seeds are set for the whole study, by `seeds`."
            )
        if ":" not in detector:
            with naming(place):
                record = detector_type(detector).settings_type
            names = sorted({f.name for f in fields(record)} - {"seed"})
            refuse_unknown_keys(
                values, names if where != place else [*own, *names], where
            )
    values = {key: table[key] for key in ("preset", "rule") if key in table}
    choice = {"label": label, "detector": detector, "settings": settings, "on": on}
    return _checked(DetectorChoice, choice | values, place)


def refuse_unknown_keys(
    values: Mapping[str, object], names: Sequence[str], place: str
) -> None:
    """Raise `StreamError` at the first key that is not among `names`.

    Examples
    --------
    >>> refuse_unknown_keys({"seed": 1}, ["title", "seeds"], "plan.toml")
    Traceback (most recent call last):
        ...
    sightline.errors.StreamError: plan.toml: has no 'seed'; did you mean 'seeds'?
    """
    for key in values:
        if key not in names:
            raise StreamError(f"{place}: has no {key!r}; {did_you_mean(key, names)}")


# ---- what a plan would run, without data or user code --------------------------------

# Options of a testbed that make its rows.
_ROW_OPTIONS = ("trim_s", "every", "sampling", "label_rule", "across_breaks")


class SettingOrigin(StrEnum):
    """Who states a setting."""

    AUTHORS = "authors"
    PAPER = "paper"
    OURS = "ours"
    PLAN = "plan"


@dataclass(frozen=True, kw_only=True)
class StatedSetting:
    """A setting, its value, and who states it.

    Parameters
    ----------
    name : str
        Of the setting, or ``preset``.
    value : object
        Its value.
    origin : SettingOrigin
        The detector's authors, the paper's tables, ourselves, or the plan.
    """

    name: str
    value: object
    origin: SettingOrigin


@dataclass(frozen=True, kw_only=True)
class ExplainedPair:
    """A detector on a testbed: its rows and settings.

    Parameters
    ----------
    testbed, detector : str
        Labels in the plan.
    rows : str
        In words: how long a row is and how it is made; empty for user code.
    trimming : str
        In words: which rows of train are learned from, which fit the reference, and
        where test ends; empty for user code.
    settings : tuple of StatedSetting
        Everything that is not a default of the detector.
    sources : tuple of str
        Where the authors' and the paper's settings come from, in words.
    """

    testbed: str
    detector: str
    rows: str = ""
    trimming: str = ""
    settings: tuple[StatedSetting, ...] = ()
    sources: tuple[str, ...] = ()


def explain(plan: StudyPlan) -> tuple[ExplainedPair, ...]:
    """Return what a plan would run, testbed by testbed and detector by detector.

    Parameters
    ----------
    plan : StudyPlan
        Neither its files are opened nor its user code imported.

    Raises
    ------
    StreamError
        If a setting does not exist, or a testbed's options contradict a detector's
        settings.

    Examples
    --------
    >>> tables = {"testbeds": {"swat": {}}, "detectors": {"gdn": {}}}
    >>> pair = explain(plan_of(tables))[0]
    >>> pair.rows
    'a row every 10 s, the median of 10 measured rows'
    >>> [str(one.origin) for one in pair.settings if one.name == "trim_s"]
    ['authors']
    """
    return tuple(_pair(plan, testbed, detector) for testbed, detector in plan.pairs)


def plant_name(choice: TestbedChoice) -> str:
    """Return the name by which a testbed selects settings, without its release."""
    return choice.testbed.rpartition("/")[2].partition("-")[0].lower()


def prepared_by(choice: TestbedChoice) -> Prepared:
    """Return what the options of a testbed do to its rows."""
    rows = rows_of_paper(str(choice.options.get("preset", "raw")), plant_name(choice))
    rows = rows.with_options(**{k: choice.options.get(k) for k in _ROW_OPTIONS})
    sampling = rows.sampling if rows.every > 1 else ""
    return Prepared(every=rows.every, sampling=sampling, trim_s=rows.trim_s)


def _pair(
    plan: StudyPlan, testbed: TestbedChoice, detector: DetectorChoice
) -> ExplainedPair:
    """Return one detector on one testbed."""
    if ":" in detector.detector:
        given = detector.settings_on(testbed.label)
        return ExplainedPair(
            testbed=testbed.label,
            detector=detector.label,
            settings=tuple(
                StatedSetting(name=k, value=v, origin=SettingOrigin.PLAN)
                for k, v in given.items()
            ),
            sources=(f"{detector.detector} is user code and was not imported",),
        )
    kind, plant = detector_type(detector.detector), plant_name(testbed)
    preset = plan.preset_of(detector)
    with naming(f"[detectors.{detector.label}] on {testbed.label}"):
        settings = resolved(
            kind.settings_type,
            preset,
            official=kind.official,
            testbed=kind.card.settings.get(plant, {}),
            overrides=plan.settings_on(detector, testbed.label, plant),
            whose=kind.card.title,
        )
        done = prepared_by(testbed)
        left_to_do(settings, done)
    trim_s = settings.trim_s or done.trim_s
    used = f"train without its first {trim_s:g} s" if trim_s else "train from its start"
    if settings.reference_trim_s is not None:
        used += f"; reference without the first {settings.reference_trim_s:g} s"
    if settings.test_until is not None:
        used += f"; test until {settings.test_until}"
    sources = []
    if source := kind.card.sources.get(plant):
        sources.append(f"authors and ours: {source}")
    if plan.evaluation.protocol is Protocol.PAPER:
        if source := kind.card.paper_protocol.sources.get(plant):
            sources.append(f"paper: {source}")
    return ExplainedPair(
        testbed=testbed.label,
        detector=detector.label,
        rows=_rows(settings, done, plant),
        trimming=used,
        settings=_stated(plan, kind, detector, testbed, settings),
        sources=tuple(sources),
    )


def _rows(settings: RowSettings, done: Prepared, plant: str) -> str:
    """Return how long a row is and how it is made."""
    every = max(settings.every, done.every)
    sampling = settings.sampling if settings.every > 1 else done.sampling
    cards = {card.name: card for card in list_testbeds()}
    measured = cards[plant].step_s if plant in cards else None
    step = f"{every * measured:g} s" if measured else f"{every} measured rows"
    how = {
        "median": f"the median of {every} measured rows",
        "stride": f"every {every}th measured row",
        "by-role": f"of {every} measured rows the median of sensors, else the last",
    }.get(sampling, f"the {sampling} of {every} measured rows")
    text = f"a row every {step}, " + ("as measured" if every == 1 else how)
    window = getattr(settings, "window", 1)
    if hasattr(settings, "per_row") and not settings.per_row and measured:
        text += f"; a residual every {every * measured * window:g} s"
    return text


def _stated(
    plan: StudyPlan,
    kind: type[LearnedDetector],
    detector: DetectorChoice,
    testbed: TestbedChoice,
    settings: Any,
) -> tuple[StatedSetting, ...]:
    """Return the settings that are not defaults, and who states each of them."""
    plant, card = plant_name(testbed), kind.card
    ours, own = card.ours.get(plant, ()), detector.settings_on(testbed.label)
    by_paper: Mapping[str, Any] = {}
    if plan.evaluation.protocol is Protocol.PAPER:
        by_paper = card.paper_protocol.settings.get(plant, {})
    official = kind.official if plan.preset_of(detector) == "official" else {}

    def origin(name: str) -> SettingOrigin | None:
        if name in own:
            return SettingOrigin.PLAN
        if name in by_paper:
            return SettingOrigin.PAPER
        if name in card.settings.get(plant, {}):
            return SettingOrigin.OURS if name in ours else SettingOrigin.AUTHORS
        return SettingOrigin.AUTHORS if name in official else None

    stated = [
        StatedSetting(name=field.name, value=getattr(settings, field.name), origin=one)
        for field in fields(settings)
        if (one := origin(field.name)) is not None
    ]
    preset = plan.preset_of(detector)
    if preset != "export":
        whose = SettingOrigin.PLAN if detector.preset else SettingOrigin.PAPER
        stated.insert(0, StatedSetting(name="preset", value=preset, origin=whose))
    return tuple(stated)


def check_rows(plan: StudyPlan) -> list[str]:
    """Return for each contradiction between testbeds and detectors what is wrong."""
    problems = []
    for testbed, detector in plan.pairs:
        try:
            _pair(plan, testbed, detector)
        except StreamError as error:
            problems.append(str(error))
    return problems
