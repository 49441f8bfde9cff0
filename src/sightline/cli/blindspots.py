"""The command `blindspots`: what a detector could not see."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, BadParameter, Option

from sightline.cli.console import (
    DebugOption,
    JobsOption,
    console,
    door,
)
from sightline.cli.study import plan_for, run_plan
from sightline.errors import StreamError, naming
from sightline.progress import Progress, Step, StepKind, progress_bar
from sightline.text import span_s

if TYPE_CHECKING:
    from sightline.blindspots.result import BlindSpots
    from sightline.blindspots.search import Maker, SpotSettings
    from sightline.data.recording import Recording
    from sightline.data.stream import ResidualStream
    from sightline.detectors.base import LearnedDetector
    from sightline.rules.making import MadeRule

_DEFAULT_DETECTOR = "var"
_BUDGET = "6/day,1%"

_Place = Annotated[
    str,
    Argument(
        metavar="STUDY|PLANT|STREAM",
        help="A folder that `run` or `study` wrote, a plant's folder or testbed, or a "
        "residual stream (then in residual space).",
    ),
]
_DetectorOption = Annotated[
    str | None,
    Option(
        metavar="NAME|PATH",
        help="Detector of the study, one to train on the plant (var by default), or a "
        "saved one.",
    ),
]
_Budget = Annotated[
    str | None,
    Option(
        "--budget",
        help="Alarms that limits are set for: 6/day,1% (the default) or 1/week.",
    ),
]
_Out = Annotated[
    Path | None,
    Option(help="Folder for table and page; by default that of the study."),
]
_WhatIf = Annotated[
    Path | None,
    Option(
        "--what-if",
        metavar="FILE",
        help="Table of attacks (id, duration_s, tag, kind, value, rate): how often "
        "would each be seen?",
    ),
]
_Shapes = Annotated[
    str | None, Option(metavar="NAMES", help="Shapes, by commas: step,ramp,frozen.")
]
_OwnShapes = Annotated[
    Path | None,
    Option(metavar="FILE", help="Table of your shapes: seconds, and a column each."),
]
_Durations = Annotated[
    str | None, Option(metavar="TIMES", help="Durations, by commas: 1min,15min,4h.")
]
_Tags = Annotated[
    str | None, Option(metavar="NAMES", help="Tags to falsify, by commas; else all.")
]
_Rules = Annotated[
    str | None,
    Option(
        metavar="NAMES",
        help="Alarm rules, by commas, the one for the sentences last; by default "
        "energy, z and the chosen one.",
    ),
]
_RuleFile = Annotated[
    Path | None,
    Option(
        "--rule",
        metavar="RULE",
        help="Judge this rule (rule.json) as it is, with its detector and budget.",
    ),
]
_Places = Annotated[int, Option(min=10, help="Places of the record that are tried.")]
_Cache = Annotated[
    Path | None, Option(help="Folder of the study's finished cells; else OUT/cache.")
]


def blindspots_command(
    place: _Place,
    detector: _DetectorOption = None,
    budget: _Budget = None,
    rule: _RuleFile = None,
    out: _Out = None,
    what_if: _WhatIf = None,
    shapes: _Shapes = None,
    own_shapes: _OwnShapes = None,
    durations: _Durations = None,
    tags: _Tags = None,
    rules: _Rules = None,
    places: _Places = 40,
    seed: Annotated[int, Option(min=0, help="Seed of places and noise.")] = 0,
    cache: _Cache = None,
    jobs: JobsOption = None,
    debug: DebugOption = False,
) -> None:
    """Find what a detector with its alarm rule could not see.

    Falsifications of every tag are written into attack-free telemetry, pass through
    the detector, and are judged by alarm rules at the budget. OUT gets
    blindspots/NAME/ with the tables, and report.html shows them first where no
    incident is known. A stopped search continues where it was.

    \b
    Examples:
      sightline blindspots my-plant/ --detector var --budget 6/day --out blind
      sightline blindspots study/ --detector gdn --what-if attacks.csv
      sightline blindspots residuals.npz --budget 1/week --out blind
      sightline blindspots my-plant/ --rule rule/rule.json --out blind
    """
    if rule is not None and (rules or budget):
        raise BadParameter("--rule brings its own budget: leave --rules and --budget.")
    from sightline.blindspots.files import read_attacks, read_shapes
    from sightline.blindspots.places import DURATIONS_S
    from sightline.blindspots.search import SpotSettings
    from sightline.blindspots.shapes import SHAPES
    from sightline.show.blind_spots import terminal_tables
    from sightline.show.terminal import rendered
    from sightline.storage import read_rule

    with door(debug=debug, timed=True, writes=[_target(place, out)]):
        settings = SpotSettings(
            places=places,
            seed=seed,
            shapes=_listed(shapes) if shapes else tuple(SHAPES),
            own_shapes=read_shapes(own_shapes) if own_shapes else (),
            durations_s=_seconds(durations) if durations else DURATIONS_S,
            tags=_listed(tags) if tags else None,
            rules=_listed(rules) if rules else None,
            jobs=jobs,
        )
        settings.chosen_shapes()
        attacks = read_attacks(what_if) if what_if else ()
        made = None if rule is None else read_rule(rule)
        if made is not None and made.rule.budget is not None:
            budget = str(made.rule.budget)
        in_use = None if made is None or rule is None else (rule, made)
        search = _Search(
            settings, budget or _BUDGET, attacks, _target(place, out), cache, in_use
        )
        folder, found = search.run(place, detector)
        screen = console()
        for one in found:
            for table in terminal_tables(one):
                if table.records:
                    screen.print(rendered(table))
            for sentence in one.sentences:
                screen.print(f"- {sentence}", soft_wrap=True)
            for note in one.notes:
                screen.print(f"  {note}", soft_wrap=True, style="dim")
        screen.print(
            f"Written to {folder}/: blindspots/ and report.html.", soft_wrap=True
        )


def _listed(text: str) -> tuple[str, ...]:
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if not found:
        raise BadParameter("a list of names is empty: separate names by commas.")
    return found


def _seconds(text: str) -> tuple[float, ...]:
    """Return durations such as ``1min,4h`` in seconds."""
    try:
        return tuple(span_s(part) for part in _listed(text))
    except ValueError as error:
        raise BadParameter(f"--durations: {error}") from None


def _is_study(folder: Path) -> bool:
    return (folder / "study.json").is_file()


def _target(place: str, out: Path | None) -> Path:
    """Return the folder that is written: that of a study unless another is given."""
    folder = Path(place).expanduser()
    if out is None and not _is_study(folder):
        raise BadParameter("give --out, the folder for table and page.")
    return out or folder


@dataclass(frozen=True, eq=False)
class _Searched:
    """One detector on one record, ready to be searched.

    `result` is the folder of its evaluation; None if it is to be evaluated.
    """

    name: str
    stream: "ResidualStream"
    detector: "LearnedDetector | None"
    recordings: "tuple[Recording, Recording] | None"
    key: str
    result: Path | None = None


@dataclass(frozen=True, eq=False)
class _Search:
    """What the options say of a search."""

    settings: "SpotSettings"
    budget: str
    attacks: Sequence[Any]
    target: Path
    cache: Path | None
    rule: "tuple[Path, MadeRule] | None" = None

    def run(self, place: str, detector: str | None) -> "tuple[Path, list[BlindSpots]]":
        """Return the folder that was written, and what was found."""
        folder = Path(place).expanduser()
        # A residual stream is a file, or a folder with a test in it.
        parts = [folder / part for part in ("test", "test.state", "test.state.gz")]
        is_stream = (
            folder.suffix == ".npz"
            if folder.is_file()
            else any(part.exists() for part in parts)
        )
        if _is_study(folder):
            cells = list(self._of_study(folder, detector))
        elif is_stream:
            cells = [self._of_stream(folder, detector)]
        else:
            cells = list(self._of_plant(place, detector))
        found = [self._searched(cell) for cell in cells]
        self._report()
        return self.target, found

    def _of_plant(self, place: str, detector: str | None) -> Iterator[_Searched]:
        """Train a detector on a plant or testbed, or take a saved one, and search."""
        path = Path(detector).expanduser() if detector else None
        is_saved = path is not None and path.suffix == ".npz"
        if is_saved or (self.rule is not None and path is None):
            yield self._saved(place, path)
            return
        plan = plan_for(place, detector or _DEFAULT_DETECTOR, self.budget)
        run_plan(plan, self.target, cache=self.cache)
        yield from self._of_study(self.target, None)

    def _saved(self, place: str, path: Path | None) -> _Searched:
        """Return a plant with a saved detector, by default the one of the rule."""
        from sightline.detectors import load_detector
        from sightline.export import NO_RULE, export_stream
        from sightline.operation.telemetry import detector_of
        from sightline.rules.file import file_digest
        from sightline.rules.normal import stream_digest
        from sightline.testbeds import open_testbed

        if self.rule is not None:
            detector = detector_of(self.rule[1], self.rule[0], path)
            path = path or self.rule[0]
        else:
            assert path is not None  # noqa: S101
            detector = load_detector(path)
        with progress_bar(place) as advance:
            testbed = open_testbed(place, progress=advance)
            stream = export_stream(
                detector,
                testbed.train,
                testbed.test,
                name=path.stem,
                testbed=testbed.name,
                rule=NO_RULE,
                progress=advance,
            )
        recordings = (testbed.train, testbed.test)
        key = file_digest(path) + stream_digest(stream)
        return _Searched(path.stem, stream, detector, recordings, key)

    def _of_stream(self, path: Path, detector: str | None) -> _Searched:
        """Return a stream, searched in residual space."""
        from sightline.rules.normal import stream_digest
        from sightline.storage import read_stream

        if detector is not None:
            raise StreamError(
                f"{path}: is a residual stream, and a detector reads telemetry: give "
                "the study or the plant's folder, or leave --detector out to search in "
                "residual space."
            )
        stream = read_stream(path)
        return _Searched(stream.name, stream, None, None, stream_digest(stream))

    def _put_result(self, cell: _Searched) -> None:
        """Write the evaluation of a cell beside its blind spots.

        After the search, so that one that fails leaves nothing.
        """
        from sightline.evaluation.pipeline import evaluate
        from sightline.storage import gather_results, write_results

        if cell.result is None:
            with progress_bar(cell.name) as advance:
                made = evaluate(cell.stream, budget=self.budget, progress=advance)
                write_results([made], self.target, overwrite=True)
        elif cell.result.parent.resolve() != self.target.resolve():
            gather_results([cell.result], self.target)

    def _of_study(self, folder: Path, detector: str | None) -> Iterator[_Searched]:
        """Yield the cells of a study; of one detector, if it is named."""
        from sightline.detectors import load_detector
        from sightline.study.collect import saved_cells

        if detector is None and self.rule is not None and self.rule[1].origin:
            detector = self.rule[1].origin.detector
        for one in saved_cells(folder, detector, self.cache):
            cell, result = one.cell, folder / one.cell.result
            loaded = None if one.saved is None else load_detector(one.saved)
            yield _Searched(
                cell.result, one.stream, loaded, one.recordings, cell.key, result
            )

    def _searched(self, cell: _Searched) -> "BlindSpots":
        """Return the blind spots of one cell, written to its folder."""
        from sightline.blindspots.files import (
            FoundSoFar,
            spots_folder,
            write_blind_spots,
        )

        folder = spots_folder(self.target, cell.name)
        key = self._key(cell)
        kept = FoundSoFar(folder, key)
        with progress_bar(cell.name) as advance, naming(cell.name):
            made = self._found(cell, kept, advance)
        self._put_result(cell)
        with naming(cell.name):
            write_blind_spots(replace(made, key=cell.key), folder)
        kept.clear()
        return made

    def _found(self, cell: _Searched, kept: Any, advance: Progress) -> "BlindSpots":
        from sightline.blindspots.search import SpotArena, maker
        from sightline.rules.limits import Budget

        advance(Step(StepKind.FALSIFYING, detail="alarm rules and places"))
        budget = Budget.parse(self.budget)
        make: Maker | None = None
        if self.rule is None:
            make = maker(cell.stream, self.settings)
        rules = make(budget) if make is not None else self.rule[1]  # type: ignore[index]
        if cell.detector is None or cell.recordings is None:
            arena = SpotArena.of_stream(cell.stream, rules, budget, self.settings)
        else:
            train, test = cell.recordings
            arena = SpotArena.of_detector(
                cell.detector, test, train, rules, budget, self.settings
            )
        return arena.result(
            cell.stream.name,
            detector=cell.stream.detector,
            testbed=cell.stream.testbed,
            make=make,
            attacks=self.attacks,
            done=kept.read(),
            found=kept.add,
            progress=advance,
        )

    def _key(self, cell: _Searched) -> str:
        """Return a text that changes with all that the table depends on."""
        from sightline.rules.file import file_digest

        facts = [cell.key, self.budget, repr(replace(self.settings, jobs=None))]
        if self.rule is not None:
            facts.append(file_digest(self.rule[0]))
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    def _report(self) -> None:
        """Write the page of all results again."""
        from sightline.report import write_report
        from sightline.study.collect import REPORT, title_and_primary

        title, primary = title_and_primary([self.target])
        path = self.target / REPORT
        write_report(self.target, path, title=title, primary=primary)
