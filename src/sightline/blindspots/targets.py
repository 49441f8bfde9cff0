"""What is falsified together: a tag, or all sensors of a stage."""

from collections.abc import Sequence
from dataclasses import dataclass

from sightline.blindspots.shapes import Shape, TagFacts
from sightline.text import names


@dataclass(frozen=True, kw_only=True)
class Target:
    """What is falsified together: a tag, or all sensors of a stage.

    Parameters
    ----------
    name : str
        Name of the tag or the stage.
    tags : tuple of TagFacts
        The tags.
    shapes : tuple of Shape
        What is written into them.
    """

    name: str
    tags: tuple[TagFacts, ...]
    shapes: tuple[Shape, ...]


def targets_of(
    tags: Sequence[TagFacts], shapes: Sequence[Shape]
) -> tuple[list[Target], list[str]]:
    """Return what is falsified, and sentences about tags that are left out.

    Parameters
    ----------
    tags : sequence of TagFacts
        The tags that may be falsified.
    shapes : sequence of Shape
        The shapes.
    """
    single = [shape for shape in shapes if shape.name != "stage"]
    still = [tag.name for tag in tags if not tag.range > 0]
    targets = []
    for tag in tags:
        fitting = tuple(shape for shape in single if shape.applies_to(tag))
        if tag.range > 0 and fitting:
            targets.append(Target(name=tag.name, tags=(tag,), shapes=fitting))
    stage = [shape for shape in shapes if shape.name == "stage"]
    by_stage: dict[str, list[TagFacts]] = {}
    for tag in tags:
        if tag.stage and tag.range > 0 and stage and stage[0].applies_to(tag):
            by_stage.setdefault(tag.stage, []).append(tag)
    targets += [
        Target(name=f"stage {name}", tags=tuple(members), shapes=tuple(stage))
        for name, members in by_stage.items()
        if len(members) > 1
    ]
    notes = []
    if still:
        verb = "never moves" if len(still) == 1 else "never move"
        notes.append(
            f"{names(still, 6)} {verb} in train, so a size has no share of its range: "
            "left out."
        )
    return targets, notes
