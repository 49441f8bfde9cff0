"""What a plan would run, and who states each setting, without data or user code.

Everything comes from the plan and from the cards of testbeds and detectors. A class of
the user is named and not imported.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from sightline.data.downsampling import preset as rows_of_paper
from sightline.data.recording import Prepared
from sightline.detectors import detector_type
from sightline.detectors.base import LearnedDetector
from sightline.detectors.preprocessing import left_to_do
from sightline.detectors.settings import RowSettings, resolved
from sightline.errors import StreamError, naming
from sightline.evaluation.protocol import Protocol
from sightline.study.plan import DetectorChoice, StudyPlan, TestbedChoice
from sightline.testbeds import list_testbeds

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
    >>> from sightline.study.plan import plan_of
    >>> tables = {"testbeds": {"swat": {}}, "detectors": {"gdn": {}}}
    >>> pair = explain(plan_of(tables))[0]
    >>> pair.rows
    'a row every 10 s, the median of 10 measured rows'
    >>> [str(one.origin) for one in pair.settings if one.name == "trim_s"]
    ['authors']
    """
    return tuple(
        _pair(plan, testbed, detector)
        for testbed in plan.testbeds
        for detector in plan.detectors
    )


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
    for testbed in plan.testbeds:
        for detector in plan.detectors:
            try:
                _pair(plan, testbed, detector)
            except StreamError as error:
                problems.append(str(error))
    return problems
