"""Progress of long work: one value, one callback type, and a bar that shows it.

Every function that takes long has a parameter ``progress``, a callable that gets a
`Step`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from threading import Lock


class StepKind(StrEnum):
    """The kinds of long work; the value is the word that people read.

    ``NOTICE`` is no work: its detail is a sentence that stays on the screen.
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

        def advance(step: Step) -> None:
            if step.kind is StepKind.NOTICE:
                screen.print(step.detail, soft_wrap=True)
                return
            bar.update(
                task,
                description=step.text,
                completed=step.done,
                total=step.total or None,
            )

        yield advance
