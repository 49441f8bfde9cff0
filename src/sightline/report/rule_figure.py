"""The picture of a commissioning: attacks raised against alarms a day."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.metrics.alarm_load import MANAGEABLE_PER_DAY, MOST_PER_DAY
from sightline.report import print_style as style
from sightline.rules.judging import CommissioningFacts, Curve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Rates below this are drawn at the left edge.
_LEAST_PER_DAY = 0.1


def write_rule_figure(facts: CommissioningFacts, folder: Path) -> list[Path]:
    """Write the curves of all rules as PDF, SVG and PNG, and return the paths.

    Parameters
    ----------
    facts : CommissioningFacts
        The table and the curves; without attacks nothing is written.
    folder : Path
        Gets ``curve.pdf``, ``curve.svg`` and ``curve.png``.
    """
    if not facts.n_attacks or not facts.judged_days:
        return []
    with style.styled():
        return style.save(rule_figure(facts), folder, "curve")


def rule_figure(facts: CommissioningFacts) -> "Figure":
    """Return attacks raised against alarms a day, for each rule.

    A line shows the most attacks that any limit of a rule raises on the judged rows
    within that many alarms; a filled mark is the limit that commissioning set. Rules in
    use have a hollow mark.
    """
    from matplotlib.ticker import MaxNLocator

    figure = style.new_figure(style.TWO_COLUMNS, 3.6)
    axis = figure.add_subplot()
    axis.set_xscale("log")
    for k, curve in enumerate(facts.curves):
        _draw_curve(axis, curve, facts, k)
    for k, row in enumerate(facts.present):
        at = max(row.load.alarms_per_day or 0.0, _LEAST_PER_DAY)
        axis.plot(
            [at],
            [row.attacks.raised],
            marker=style.marker(k),
            color=style.SOFT,
            markerfacecolor="white",
            linestyle="none",
            label=f"{style.label(row.name)} (in use)",
            clip_on=False,
        )
    budget = facts.accepted.per_day
    axis.axvline(
        budget, color=style.TAU, lw=0.8, ls="--", label=f"budget {facts.budget}"
    )
    for rate in (MANAGEABLE_PER_DAY, MOST_PER_DAY):
        axis.axvline(rate, color=style.SOFT, lw=0.5, ls=":")
    axis.set_xlim(_LEAST_PER_DAY, max(2 * MOST_PER_DAY, 4 * budget, _most(facts)))
    axis.set_ylim(0, facts.n_attacks)
    axis.yaxis.set_major_locator(MaxNLocator(integer=True))
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_xlabel(
        f"false alarms a day on {facts.judged_days:.1f} attack-free days after the "
        "split (log scale; dotted: 144 and 288, ISA-18.2)"
    )
    axis.set_ylabel(f"attacks raised, of {facts.n_attacks}")
    figure.legend(loc="outside right upper")
    return figure


def _most(facts: CommissioningFacts) -> float:
    rates = [row.load.alarms_per_day or 0.0 for row in facts.present]
    return 1.2 * max(rates, default=0.0)


def _draw_curve(axis: Any, curve: Curve, facts: CommissioningFacts, k: int) -> None:
    """Draw one rule: what its limits could raise, and the limit that was set."""
    row, is_chosen = facts.row(curve.name), curve.name == facts.chosen
    colour = style.TRAIN if is_chosen else style.colour(k)
    name = style.label(curve.name) + (" (chosen)" if is_chosen else "")
    rates, raised = best_within(curve)
    axis.step(
        [max(rate, _LEAST_PER_DAY) for rate in rates],
        raised,
        where="post",
        color=colour,
        ls="-" if is_chosen else style.DASHES[k % len(style.DASHES)],
        lw=2.2 if is_chosen else 0.8,
        label=name,
        zorder=3 if is_chosen else 2,
    )
    at = max(row.load.alarms_per_day or 0.0, _LEAST_PER_DAY)
    axis.plot(
        [at],
        [row.attacks.raised],
        marker="o" if is_chosen else style.marker(k),
        color=colour,
        markersize=7 if is_chosen else 4,
        linestyle="none",
        clip_on=False,
        zorder=4,
    )


def best_within(curve: Curve) -> tuple[list[float], list[int]]:
    """Return for rising rates the most attacks that any limit within them raises.

    A lower limit may raise fewer attacks, where alarms grow together: the curve by
    limits would turn back.

    Examples
    --------
    >>> best_within(
    ...     Curve(
    ...         name="x",
    ...         limits=(3, 2, 1),
    ...         alarms_per_day=(0.0, 9.0, 4.0),
    ...         raised=(2, 5, 3),
    ...     )
    ... )
    ([0.0, 4.0, 9.0], [2, 3, 5])
    """
    order = sorted(zip(curve.alarms_per_day, curve.raised, strict=True))
    rates: list[float] = []
    best: list[int] = []
    for rate, raised in order:
        rates.append(rate)
        best.append(max(raised, best[-1] if best else 0))
    return rates, best
