"""Propose a plant's folder for exports that were looked at, and write it.

What is proposed is the most cautious reading that `inspect` and `run` accept: train and
test, tags with roles, step and holding time. Each choice is explained in `plant.toml`.
"""

import csv
import json
import re
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sightline.data.arrays import ATTACK, Bools, Floats
from sightline.data.record_parts import AROUND_S, N_PARTS
from sightline.data.recording import step_from
from sightline.data.segments import breaks_from_time, rows_within, run_bounds
from sightline.data.zones import iso_stamp, stamp, zone_words
from sightline.errors import FileError
from sightline.tables.lists import read_incidents
from sightline.tables.stamps import seconds_of_cell
from sightline.testbeds.base import HOLD_S
from sightline.testbeds.own_plant.look import Export, TagSeen, joined, sentences
from sightline.text import csv_cell, duration, exact, names, plural

# Train is this share of the time, unless an incident comes earlier.
TRAIN_SHARE = 0.6
_BEGINNING = f"the first {TRAIN_SHARE:.0%} of time"
_EVERYWHERE = "incidents everywhere"
# An incident before this share leaves too little to learn from.
_LEAST_TRAIN = 1 / 3
# Time between the end of train and the first incident, at most this share.
_MARGIN_SHARE, _MARGIN_S = 0.02, 3600.0
# A tag with readings in less than this share of the time outside outages is left out.
_LEAST_SHARE = 0.5
# Rows before the first reading of every tag are left out, up to this share of the time.
_LATEST_START = 0.1
# Outages that are named one by one.
_MOST_OUTAGES = 4
_STEPS = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600)
_TRAIN_NAME = re.compile(r"train|normal", re.IGNORECASE)
_TEST_NAME = re.compile(r"test|attack|incident", re.IGNORECASE)
_HEADER = "id,start,end,tags,note,uncertainty_min"


@dataclass(frozen=True, kw_only=True, eq=False)
class Proposal:
    """What a plant's folder would hold.

    Parameters
    ----------
    sources : tuple of str
        Names of the exports.
    train, test : polars frame
        The two tables.
    tags : tuple of TagSeen
        All tags.
    left_out : dict of str to str
        Tags that get the role ignore, with the reason.
    step_s : float, optional
        Seconds between rows, if not the default.
    n_in_train, n_incidents : int
        Incidents that begin in train, and all of them.
    usual_step_s : float
        The usual step between time stamps.
    timezone, time_format : str, optional
        The zone and the form of time stamps that were stated.
    date_order : str
        Which number comes first in dates of the exports, where it matters.
    is_utc : bool
        Whether time stamps are UTC, or on the plant's own clock.
    understood : dict of str to str
        What was understood, by subject.
    notices, checks : tuple of str
        What was chosen or left out, and what to check, a sentence each.
    incidents : Path, optional
        The list of incidents that was given.
    example_s : float
        A time within test, for the example of an incident.
    missing_values : tuple of float
        Numbers that mean "no value".
    parts : int
        In how many parts the record is judged, each by a model of the others.
    """

    sources: tuple[str, ...]
    train: Any
    test: Any
    tags: tuple[TagSeen, ...]
    left_out: dict[str, str]
    step_s: float | None
    usual_step_s: float
    timezone: str | None
    time_format: str | None
    is_utc: bool
    understood: dict[str, str]
    notices: tuple[str, ...]
    checks: tuple[str, ...]
    incidents: Path | None
    example_s: float
    missing_values: tuple[float, ...] = ()
    date_order: str = ""
    n_in_train: int = 0
    n_incidents: int = 0
    parts: int = 1


def propose(
    exports: Sequence[Export],
    *,
    timezone: str | None = None,
    time_format: str | None = None,
    incidents: Path | None = None,
    step_s: float | None = None,
    split_s: float | None = None,
) -> Proposal:
    """Return the folder to write for some exports.

    Parameters
    ----------
    exports : sequence of Export
        One export is split by time; of two the earlier is train, or the one whose name
        says so; more are joined and split.
    timezone, time_format : str, optional
        Zone and form of time stamps, as stated.
    incidents : Path, optional
        List of incidents; train ends before the first.
    step_s : float, optional
        Seconds between rows, as stated.
    split_s : float, optional
        Time at which test begins.

    Raises
    ------
    FileError
        If the exports do not go together, or are too short.
    """
    whole = joined(exports)
    first_s, spans = whole.attack_s, []
    if incidents is not None:
        read_time = partial(
            seconds_of_cell, path=incidents, zone=timezone, time_format=time_format
        )
        listed = read_incidents(
            incidents,
            lambda *cell: read_time(*cell)[0],
            has_format=time_format is not None,
        ).incidents
        spans = [incident.listed for incident in listed]
        first_s = min((start for start, _ in spans), default=None)
    elif "label" in whole.frame.columns:
        is_attack = np.asarray(whole.frame["label"].to_numpy() == ATTACK)
        for first, stop in zip(*run_bounds(is_attack), strict=True):
            spans.append((float(whole.seconds[first]), float(whole.seconds[stop - 1])))
    left_out, begin_s = _left_out(whole)
    is_train, why = _split(exports, whole, first_s, begin_s)
    parts = 1
    if why == _EVERYWHERE and split_s is None and _leave_enough(whole.seconds, spans):
        parts = N_PARTS
        why = (
            f"incidents lie everywhere, so each of {N_PARTS} parts is judged by a "
            "model of the other parts (--split TIME judges the time after it alone)"
        )
    elif why == _EVERYWHERE:
        why = f"train is {_BEGINNING}; incidents in it are left out of train"
        why += ", test is the rest"
    if split_s is not None:
        zone = (timezone or "UTC") if whole.is_utc else None
        is_train = np.asarray(whole.seconds < split_s)
        before = f"the time before {stamp(split_s, zone)}"
        why = f"train is {before}, as stated, test is the rest"
    if is_train.all() or not is_train.any():
        raise FileError(
            f"{whole.path}: is too short to be divided into train and test; give two "
            "exports."
        )
    kept = [tag for tag in whole.tags if tag.name not in left_out]
    step, usual = _step(whole, kept, step_s)
    train, test = _parts(whole, is_train, begin_s)
    sources = tuple(export.path.name for export in exports)
    return Proposal(
        sources=sources,
        train=train,
        test=test,
        tags=whole.tags,
        left_out=left_out,
        step_s=step,
        usual_step_s=usual,
        timezone=timezone,
        time_format=time_format,
        date_order=whole.date_order,
        is_utc=whole.is_utc,
        understood=_understood(whole, sources, timezone, usual, why, left_out),
        notices=whole.notices,
        checks=_checks(
            whole, timezone, left_out, begin_s, has_list=first_s is not None
        ),
        incidents=incidents,
        example_s=float(whole.seconds[~is_train].min()),
        n_incidents=len(spans),
        n_in_train=0
        if parts > 1
        else sum(start <= float(whole.seconds[is_train].max()) for start, _ in spans),
        parts=parts,
    )


def _leave_enough(seconds: Floats, spans: Sequence[tuple[float, float]]) -> bool:
    """Return whether incidents leave a third of the rows an hour or more from any."""
    is_near = np.zeros(len(seconds), np.bool_)
    for start, end in spans:
        last = start if np.isinf(end) else end
        is_near |= rows_within(seconds, (start - AROUND_S, last + AROUND_S))
    return bool((~is_near).mean() >= _LEAST_TRAIN) and len(spans) > 0


def _left_out(whole: Export) -> tuple[dict[str, str], float]:
    """Return tags to leave out with the reason, and when all others have a reading."""
    first, last = float(whole.seconds.min()), float(whole.seconds.max())
    latest = first + _LATEST_START * (last - first)
    reasons: dict[str, str] = {}
    for tag in whole.tags:
        if not tag.n_readings:
            reasons[tag.name] = "it has no reading"
        elif tag.is_text:
            reasons[tag.name] = "it holds text that is no state"
        elif tag.share < _LEAST_SHARE:
            reasons[tag.name] = f"it has readings in {tag.share:.0%} of the time"
    kept = [tag for tag in whole.tags if tag.name not in reasons]
    if not kept:
        raise FileError(
            f"{whole.path}: no tag has readings in half of the time outside outages."
        )
    # A tag that begins later is out of service until then.
    return reasons, max([t.first_s for t in kept if t.first_s <= latest], default=first)


def _split(
    exports: Sequence[Export], whole: Export, attack_s: float | None, begin_s: float
) -> tuple[Bools, str]:
    """Return which rows are train, and why, in words."""
    seconds = whole.seconds
    if len(exports) == 2:
        early, late = sorted(exports, key=lambda export: float(export.seconds.min()))
        is_early = np.arange(len(seconds)) < len(early.seconds)
        for train, test, rows in ((early, late, is_early), (late, early, ~is_early)):
            names_fit = _TRAIN_NAME.search(train.path.stem) and _TEST_NAME.search(
                test.path.stem
            )
            if names_fit:
                files = f"train is {train.path.name}, test is {test.path.name}"
                return rows, f"{files}, by name"
        if early.seconds.max() >= late.seconds.min():
            raise FileError(
                f"{early.path} and {late.path} overlap in time: give one export, or "
                "two of which one follows the other, or name them train and test."
            )
        files = f"train is {early.path.name}, the earlier, test is {late.path.name}"
        return is_early, files
    first, last = begin_s, float(seconds.max())
    cut = first + TRAIN_SHARE * (last - first)
    why = _BEGINNING
    if attack_s is not None and attack_s < cut:
        margin = min(_MARGIN_S, _MARGIN_SHARE * (last - first))
        if attack_s - margin < first + _LEAST_TRAIN * (last - first):
            return np.asarray(seconds < cut), _EVERYWHERE
        cut, why = attack_s - margin, "the time before the first incident"
    return np.asarray(seconds < cut), f"train is {why}, test is the rest"


def _step(
    whole: Export, kept: Sequence[TagSeen], stated: float | None
) -> tuple[float | None, float]:
    """Return the step to write, or None for the default, and the usual step."""
    usual = step_from(None, np.unique(whole.seconds))
    if usual is None:
        raise FileError(f"{whole.path}: needs two different time stamps.")
    if stated is not None:
        return stated, stated
    if not whole.is_long:
        return None, usual
    steps = [tag.step_s for tag in kept if tag.step_s > 0 and tag.n_readings >= 10]
    fastest = min(steps, default=usual)
    if fastest != round(fastest):
        fastest = float(max([s for s in _STEPS if s <= fastest], default=fastest))
    return fastest, fastest


def _parts(whole: Export, is_train: Bools, begin_s: float) -> tuple[Any, Any]:
    """Return the rows of train and of test.

    Both begin with the last value of every tag, so that a tag that changes rarely is
    known from the first row on.
    """
    import polars as pl

    parts = []
    known = None
    order = np.argsort(whole.seconds, kind="stable")
    for rows in (is_train, ~is_train):
        chosen = order[rows[order] & (whole.seconds[order] >= begin_s)]
        before = order[rows[order] & (whole.seconds[order] < begin_s)]
        frame = whole.frame[chosen]
        if len(before):
            known = _last_known(whole.frame[before], whole.is_long)
        if known is not None and frame.height:
            start = frame["time"].min()
            if whole.is_long:
                present = frame.filter(pl.col("time") == start)["tag"]
                missing = known.filter(~pl.col("tag").is_in(present.implode()))
                missing = missing.with_columns(pl.lit(start).alias("time"))
                frame = pl.concat([missing, frame])
            else:
                filled = frame[:1].with_columns(
                    pl.col(c).fill_null(known[c][0])
                    for c in known.columns
                    if known[c][0] is not None
                )
                frame = pl.concat([filled, frame[1:]])
        parts.append(frame)
        if frame.height:
            known = _last_known(frame, whole.is_long)
    return parts[0], parts[1]


def _last_known(frame: Any, is_long: bool) -> Any:
    """Return the last reading of each tag of a part, in one row or one for each tag."""
    import polars as pl

    if is_long:
        return frame.unique("tag", keep="last", maintain_order=True)
    tags = pl.exclude("time", "label")
    return frame.select(tags.drop_nulls().last())


def _understood(
    whole: Export,
    sources: Sequence[str],
    timezone: str | None,
    step_s: float,
    why: str,
    left_out: Mapping[str, str],
) -> dict[str, str]:
    """Return what was understood of the exports, by subject."""
    zone = (timezone or "UTC") if whole.is_utc else None
    n_tags = len(whole.tags)
    begin, end = float(whole.seconds.min()), float(whole.seconds.max())
    lengths = [stop - start for start, stop in whole.outages]
    hours = (end - begin) / 3600
    kept = (
        f"Understood: {n_tags - len(left_out)} of {plural(n_tags, 'tag')}, "
        f"{hours - sum(lengths) / 3600:,.1f} of {hours:,.1f} hours, from "
        f"{plural(len(sources), 'file')} ({names(sources, 2)})."
    )
    if lengths:
        outages = names([duration(length) for length in lengths], _MOST_OUTAGES)
        kept += f" {plural(len(lengths), 'outage')}, not watched: {outages}."
    first, last = (stamp(t, zone) for t in (begin, end))
    form = "wide: one column for each tag"
    if whole.is_long:
        form = "long: one row for each reading"
    steps = sorted(t.step_s for t in whole.tags if t.step_s > 0)
    step = duration(step_s)
    if whole.is_long and steps and steps[-1] > 1.5 * steps[0]:
        step += (
            f"; tags are written every {duration(steps[0])} to {duration(steps[-1])}, "
            "so this is an export of changes"
        )
    n_gaps = len(breaks_from_time(np.unique(whole.seconds), step_s)) - 1
    about = sentences(whole.tags)
    return {
        "kept": kept,
        "form": f"{form}; {len(whole.seconds):,} rows, "
        f"{plural(len(whole.tags), 'tag')}; {whole.form}",
        "time": f"{whole.time_words}; {first} to {last}, {zone_words(zone)}",
        "step": step if whole.is_long else f"{step}; {plural(n_gaps, 'gap')}",
        **{name: text for name, text in about.items() if text},
        "split": why,
    }


def _checks(
    whole: Export,
    timezone: str | None,
    left_out: dict[str, str],
    begin_s: float,
    *,
    has_list: bool,
) -> tuple[str, ...]:
    """Return what a person who knows the plant should check."""
    checks = []
    if not whole.is_utc:
        checks.append(
            "Time stamps carry no zone: state it with --timezone or in plant.toml if "
            "clocks changed within the export."
        )
    if left_out:
        reasons = [f"{tag} ({why})" for tag, why in left_out.items()]
        checks.append(f"Left out by the role ignore in tags.csv: {names(reasons, 6)}.")
    lost = begin_s - float(whole.seconds.min())
    if lost > 0:
        checks.append(
            f"The first {duration(lost)} were left out, because not every tag has a "
            "value there yet."
        )
    if not has_list:
        checks.append(
            "Write what happened into incidents.csv; until then all of test counts as "
            "normal, and incidents in train would be learned as normal."
        )
    checks.append("Check the roles, stages and units in tags.csv: they are guessed.")
    return tuple(checks)


def write_plant(
    proposal: Proposal,
    folder: Path,
    *,
    remedies: Sequence[str] = (),
    resolutions: Mapping[str, float] | None = None,
) -> None:
    """Write the files of a plant's folder, which must exist.

    Parameters
    ----------
    proposal : Proposal
        What to write.
    folder : Path
        Where to write it.
    remedies : sequence of str
        Comments for `plant.toml` about findings of the audit.
    resolutions : mapping of str to float, optional
        The smallest step of each tag that has one.
    """
    for name in ("train", "test"):
        path = folder / f"{name}.parquet"
        if not path.exists():
            getattr(proposal, name).write_parquet(path)
    with open(folder / "tags.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["tag", "role", "stage", "unit", "resolution"])
        stages = {tag.stage for tag in proposal.tags if tag.stage}
        for tag in proposal.tags:
            role = "ignore" if tag.name in proposal.left_out else str(tag.role)
            stage = tag.stage if len(stages) > 1 else ""
            step = (resolutions or {}).get(tag.name)
            step_text = "" if step is None else exact(float(f"{step:.6g}"))
            cells = (tag.name, role, stage, tag.unit, step_text)
            writer.writerow([csv_cell(cell) for cell in cells])
    if proposal.incidents is not None:
        name = f"incidents{proposal.incidents.suffix.lower()}"
        shutil.copyfile(proposal.incidents, folder / name)
    else:
        zone = (proposal.timezone or "UTC") if proposal.is_utc else None
        start, end = (
            iso_stamp(proposal.example_s + s, zone).replace("T", " ") for s in (0, 600)
        )
        example = f"# A1,{start},{end},{proposal.tags[0].name},what happened,5"
        text = f"{_HEADER}\n# One line for each incident, such as:\n{example}\n"
        (folder / "incidents.csv").write_text(text, encoding="utf-8")
    (folder / "plant.toml").write_text(_toml(proposal, remedies), encoding="utf-8")


def _toml(proposal: Proposal, remedies: Sequence[str]) -> str:
    """Return the text of plant.toml: each setting with what was understood."""
    understood = proposal.understood
    lines = [
        *_comment(
            f"What `sightline start` understood of {names(proposal.sources, 4)}. "
            "Change what is wrong, then run `sightline inspect` on this folder. Every "
            "line is optional; a line that begins with # is not read."
        ),
        "",
        *_comment(f"Form: {understood['form']}."),
        *_comment(f"Split: {understood['split']}."),
        "",
        *_comment(
            f"Time stamps: {understood['time']}. The tables here hold them as dates; "
            "time_format is that of the list of incidents, by default found."
        ),
        f'time_format = "{proposal.time_format}"'
        if proposal.time_format
        else '# time_format = "%d/%m/%Y %H:%M:%S"',
        *_zone_lines(proposal),
        "",
        *_comment(f"Seconds between rows. Understood: {understood['step']}."),
        _setting("step_s", proposal.step_s, proposal.usual_step_s),
        "",
        *_comment("Numbers that mean 'no value':"),
        f"missing_values = [{', '.join(map(exact, proposal.missing_values))}]"
        if proposal.missing_values
        else "# missing_values = [-9999, 32767]",
        *_comment("Seconds to leave out at the start of train, such as a start-up:"),
        "# trim_start_s = 3600",
        *_comment("Round train to the decimals of test, if that has fewer:"),
        '# train_decimals = "as-test"',
        *_comment(
            "Judge train and test as one record, each part by a model of the others:"
        ),
        f"parts = {proposal.parts}" if proposal.parts > 1 else f"# parts = {N_PARTS}",
        *_comment(
            "The tag that says whether the plant runs, and its words then: only that "
            "time is learned from and watched."
        ),
        '# mode_tag = "P_01 Status"',
        '# mode_running = ["ON"]',
        *_comment("Findings of `sightline inspect` that you know and accept:"),
        '# accept = ["SL228"]',
    ]
    if remedies:
        lines += ["", *_comment("What the audit found, and what to do:")]
        lines += [line for remedy in remedies for line in _comment(f"- {remedy}")]
    holds = []
    for tag in proposal.tags:
        if tag.hold_s and tag.name not in proposal.left_out:
            step = proposal.usual_step_s
            is_long = np.isfinite(tag.hold_s)
            held = f"{np.ceil(tag.hold_s / step) * step:g}" if is_long else '"forever"'
            holds.append(f"{json.dumps(tag.name, ensure_ascii=False)} = {held}")
    mark = "" if holds else "# "
    lines += [
        "",
        *_comment(
            "Seconds for which a reading stays valid when no other follows; what the "
            "source calls bad is never held."
        ),
        f"{mark}[hold_s]",
        f"{mark}default = {HOLD_S:g}",
        *holds,
    ]
    return "\n".join(lines) + "\n"


def _comment(text: str) -> list[str]:
    """Return a sentence as lines of comment."""
    return textwrap.wrap(
        text, 86, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
    )


def _zone_lines(proposal: Proposal) -> list[str]:
    """Return the lines of plant.toml about the time zone, and the order of dates."""
    order = []
    if proposal.date_order:
        order = [
            *_comment("The first number of dates in exports; rules remember it:"),
            f'date_order = "{proposal.date_order}"',
        ]
    if proposal.timezone is not None:
        return [
            *order,
            *_comment("Stamps without offset were read in this zone, which is shown:"),
            f'timezone = "{proposal.timezone}"',
        ]
    if proposal.is_utc:
        why = (
            "They are UTC. The zone in which times are shown, and in which times of "
            "incidents.csv without an offset are read:"
        )
    else:
        why = (
            "They carry no offset from UTC and are on the plant's own clock. State the "
            "zone if clocks changed within the export:"
        )
    return [*order, *_comment(why), '# timezone = "Europe/Berlin"']


def _setting(name: str, value: float | None, default: float) -> str:
    """Return one line of plant.toml; a comment if the default is meant."""
    stated = default if value is None else value
    text = f"{name} = {int(stated) if stated == int(stated) else stated}"
    return f"# {text}" if value is None else text
