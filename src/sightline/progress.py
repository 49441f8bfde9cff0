"""Progress of long work: one value, one callback type, and a bar that shows it.

Every function that takes long has a parameter ``progress``, a callable that gets a
`Step`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from threading import Lock
from time import monotonic

from sightline.text import duration, share


class StepKind(StrEnum):
    """The kinds of long work; the value is the word that people read.

    ``NOTICE`` is no work: its detail is a sentence that stays on the screen.

    Examples
    --------
    >>> StepKind.TRAINING == "Training"
    True
    """

    WAITING = "Waiting"
    READING = "Reading"
    SIMULATING = "Simulating"
    AUDITING = "Auditing"
    TRAINING = "Training"
    SEARCHING = "Searching"
    RESIDUALS = "Residuals"
    FITTING_REFERENCE = "Fitting reference"
    SCORING = "Scoring"
    DIAGNOSING = "Diagnosing"
    DRAWING_INTERVALS = "Drawing intervals"
    MEASURING_ALARMS = "Measuring alarms"
    FALSIFYING = "Falsifying"
    COMPARING = "Comparing"
    WRITING = "Writing"
    NOTICE = "Notice:"


@dataclass(frozen=True)
class Step:
    """How far one kind of long work has come.

    Parameters
    ----------
    kind : StepKind
        The kind of work. Programs decide by this alone, never by `text`.
    done, total : int
        Finished and total units of work, such as rows or epochs; a `total` of 0 means
        that it is unknown.
    detail : str
        The object of the work, for people: a file, a detector and its epoch.

    Examples
    --------
    >>> Step(StepKind.TRAINING, 3, 10, "GDN, epoch 3 of 10").text
    'Training GDN, epoch 3 of 10'
    """

    kind: StepKind
    done: int = 0
    total: int = 0
    detail: str = ""

    @property
    def text(self) -> str:
        """The kind and the detail as people read them."""
        return f"{self.kind} {self.detail}".strip()


Progress = Callable[[Step], None]


def silent(step: Step) -> None:
    """Ignore progress: the default where no callback is given."""


def one_at_a_time(progress: Progress) -> Progress:
    """Return a callback that several threads may call: each call waits for the last."""
    lock = Lock()

    def call(step: Step) -> None:
        with lock:
            progress(step)

    return call


# Shorter work has no line on where its time went, and a shorter part of it no name.
_WORTH_TELLING_S = 10.0
_LEAST_SHARE = 0.03
_MOST_PARTS = 5


@dataclass
class TimeSpent:
    """Where the time of a command goes.

    Parameters
    ----------
    seconds : dict of str to float
        Wall time of each kind of work so far; of kinds that go on together, in equal
        parts.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    _kinds: Sequence[str] = ()
    _since: float = field(default_factory=monotonic)

    def begin(self) -> None:
        """Forget earlier work."""
        self.seconds.clear()
        self._kinds, self._since = (), monotonic()

    def at(self, kinds: Sequence[str] = ()) -> None:
        """Count the time since the last call, and what goes on from now on."""
        now = monotonic()
        for kind in self._kinds or ("the rest",):
            spent = (now - self._since) / max(len(self._kinds), 1)
            self.seconds[kind] = self.seconds.get(kind, 0.0) + spent
        self._kinds, self._since = kinds, now

    @property
    def line(self) -> str:
        """Where the time went, in one line; empty if it was short.

        Examples
        --------
        >>> TimeSpent({"Training": 90.0, "Reading": 30.0, "Writing": 0.5}).line
        'Took 2 min: training 75%, reading 25%.'
        """
        total = sum(self.seconds.values())
        if total < _WORTH_TELLING_S:
            return ""
        parts = [
            f"{kind.lower()} {share(seconds / total)}"
            for kind, seconds in sorted(
                self.seconds.items(), key=lambda item: -item[1]
            )[:_MOST_PARTS]
            if seconds >= _LEAST_SHARE * total
        ]
        return f"Took {duration(total)}: {', '.join(parts)}."


# Of the command that runs; `progress_bar` and the screen of a study tell it.
TIME_SPENT = TimeSpent()


@contextmanager
def progress_bar(called: str) -> Iterator[Progress]:
    """Show a bar with the kind of work, its progress, and the time left.

    Pass the yielded callback as ``progress`` to `fit`, `residuals`, `export_stream`
    or `evaluate`. If standard error is no terminal, notices alone are shown.

    Parameters
    ----------
    called : str
        The text in front of the bar.

    Yields
    ------
    callable
        Takes a `Step` and shows it.

    Examples
    --------
    >>> from sightline import Step, StepKind, progress_bar
    >>> with progress_bar("gdn") as progress:
    ...     progress(Step(StepKind.TRAINING, 1, 10))
    """
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    from sightline.terminal import Terminal

    screen = Terminal(stderr=True)
    with RichProgress(
        TextColumn("{task.fields[stream]}: {task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
        console=screen,
        transient=True,
        disable=not screen.is_terminal,
    ) as bar:
        task = bar.add_task("Starting", total=None, stream=called)
        last = Step(StepKind.WAITING)

        def advance(step: Step) -> None:
            nonlocal last
            if step.kind is StepKind.NOTICE:
                screen.print(step.detail, soft_wrap=True)
                return
            TIME_SPENT.at([step.kind])
            if step.kind is not last.kind or step.done < last.done:
                # The time left is that of this work alone.
                bar.reset(task, total=step.total or None, completed=step.done)
            last = step
            bar.update(
                task,
                description=step.text,
                completed=step.done,
                total=step.total or None,
            )

        yield advance
    TIME_SPENT.at()
