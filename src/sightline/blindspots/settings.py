"""What a user may choose of a search for blind spots."""

from dataclasses import dataclass

from sightline.blindspots.places import DURATIONS_S, N_PLACES
from sightline.blindspots.shapes import SHAPES, Shape, shape_named


@dataclass(frozen=True, kw_only=True)
class SpotSettings:
    """What a user may choose of a search.

    Parameters
    ----------
    places, seed : int
        Places, and the seed of their draw and of the noise.
    shapes : tuple of str
        Names of shapes; all by default.
    own_shapes : tuple of Shape
        Shapes of the user, always used.
    durations_s : tuple of float
        How long falsifications last.
    tags : tuple of str, optional
        The tags to falsify; all by default.
    rules : tuple of str, optional
        Names of rules of a commissioning, the one for the sentences last; by default
        the energy, the largest conditional z, and the chosen one.
    jobs : int, optional
        Threads; by default one for each core.
    """

    places: int = N_PLACES
    seed: int = 0
    shapes: tuple[str, ...] = tuple(SHAPES)
    own_shapes: tuple[Shape, ...] = ()
    durations_s: tuple[float, ...] = DURATIONS_S
    tags: tuple[str, ...] | None = None
    rules: tuple[str, ...] | None = None
    jobs: int | None = None

    def chosen_shapes(self) -> tuple[Shape, ...]:
        """Return the shapes; refuse unknown names."""
        named = [shape_named(name, self.own_shapes) for name in self.shapes]
        return tuple(dict.fromkeys((*named, *self.own_shapes)))
