"""The section "Unexplained episodes": the strongest alarms of a record without attacks.

Each comes with a small picture of the rule's score around it, as an SVG path.
"""

from dataclasses import dataclass
from typing import Final

from sightline.report import encoding
from sightline.report.encoding import Clock
from sightline.report.entries import Entry
from sightline.rules.episodes import Episode, EpisodePicture
from sightline.text import names, row_span

# Size of a picture, in units of its drawing.
WIDTH: Final = 240.0
HEIGHT: Final = 48.0


@dataclass(frozen=True, kw_only=True)
class EpisodeRow:
    """One episode as the page shows it.

    Parameters
    ----------
    began, lasted, peak, tags : str
        When it began, how long it lasted, its peak in times the alarm limit, and the
        channels that carry it.
    order : int
        Its place among all by peak, the strongest first, from 1.
    path : str
        SVG path of the score in a drawing of `WIDTH` by `HEIGHT`; empty without a
        picture.
    limit : float
        Height of the alarm limit in that drawing, from its top.
    left, width : float
        Where the episode itself lies in it.
    shown : str
        How much time the picture shows.
    """

    began: str
    lasted: str
    peak: str
    tags: str
    order: int
    path: str = ""
    limit: float = 0.0
    left: float = 0.0
    width: float = 0.0
    shown: str = ""


@dataclass(frozen=True, kw_only=True)
class Unexplained:
    """The episodes of one detector.

    Parameters
    ----------
    rule, budget : str
        The rule whose alarms they are, and the budget of its limit.
    rows : tuple of EpisodeRow
        In the order of time.
    command : str
        The command that writes the review list.
    """

    rule: str
    budget: str
    rows: tuple[EpisodeRow, ...]
    command: str


def unexplained(entry: Entry, clock: Clock | None = None) -> Unexplained | None:
    """Return the unexplained episodes of a detector.

    Parameters
    ----------
    entry : Entry
        The detector.
    clock : Clock, optional
        The clock shared with other detectors; by default the entry's best.

    Returns
    -------
    Unexplained, optional
        None for a record with attacks, and where no alarm rule could be made.
    """
    evaluation = entry.evaluation
    if evaluation.episodes is None or evaluation.rules is None:
        return None
    by_peak = sorted(evaluation.episodes, key=lambda one: -one.peak)
    return Unexplained(
        rule=evaluation.rules.chosen,
        budget=evaluation.rules.budget,
        rows=tuple(
            _row(entry, one, by_peak.index(one) + 1, clock)
            for one in evaluation.episodes
        ),
        command="sightline episodes STREAM --out review.csv "
        f"--budget {evaluation.rules.budget}",
    )


def _row(entry: Entry, episode: Episode, order: int, clock: Clock | None) -> EpisodeRow:
    """Return one episode as the page shows it."""
    step_s = entry.evaluation.stream.step_s
    picture = {} if episode.picture is None else _drawn(episode, episode.picture)
    n_shown = 0
    if episode.picture is not None:
        n_shown = episode.picture.step * len(episode.picture.values)
    return EpisodeRow(
        began=encoding.time_text(entry, episode.start, clock),
        lasted=row_span(episode.stop - episode.start, step_s),
        peak=peak_words(episode.peak),
        tags=names(episode.tags),
        order=order,
        path=str(picture.get("path", "")),
        limit=float(picture.get("limit", 0.0)),
        left=float(picture.get("left", 0.0)),
        width=float(picture.get("width", 0.0)),
        shown=row_span(n_shown, step_s) if n_shown else "",
    )


def peak_words(peak: float) -> str:
    """Return how far a score is above its limit.

    Examples
    --------
    >>> peak_words(1.234), peak_words(56.7), peak_words(1234567.0)
    ('1.2 times', '57 times', 'over 10,000 times')
    """
    if peak >= 10_000:
        return "over 10,000 times"
    return f"{peak:.1f} times" if peak < 10 else f"{peak:,.0f} times"


def _drawn(episode: Episode, picture: EpisodePicture) -> dict[str, float | str]:
    """Return the path of a picture, the limit's height and the episode's place.

    Examples
    --------
    >>> picture = EpisodePicture(first=10, step=5, values=(0.0, 2.0))
    >>> _drawn(Episode(start=15, stop=20, peak=2.0, tags=()), picture)["path"]
    'M0 48.0H120.0V0.0H240.0V48H0Z'
    """
    n_columns = len(picture.values)
    top = max(*picture.values, 1.25, 0.0)
    column = WIDTH / n_columns
    steps = [
        f"{'M0 ' if k == 0 else 'V'}{HEIGHT * (1 - value / top):.1f}"
        f"H{column * (k + 1):.1f}"
        for k, value in enumerate(picture.values)
    ]
    scale = column / picture.step
    return {
        "path": "".join(steps) + f"V{HEIGHT:.0f}H0Z",
        "limit": round(HEIGHT * (1 - 1 / top), 1),
        "left": round((episode.start - picture.first) * scale, 1),
        "width": round(max((episode.stop - episode.start) * scale, 1.0), 1),
    }
