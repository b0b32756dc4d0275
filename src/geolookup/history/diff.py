"""What changed from one kept generation to another: rows as they were pulled, and answers as lookups gave them."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from geolookup.history.impact import Comparison, Impact, impact
from geolookup.state.current import Published
from geolookup.state.directory import StateDirectory
from geolookup.state.generations.cache_compare import RowDifferences, row_differences
from geolookup.state.generations.kept import Generations, Reference


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """Two kept generations, open."""

    directory: StateDirectory
    old: Published
    new: Published

    def rows(self, *, top: int | None, blocks: bool) -> RowDifferences:
        """How the service's lists differ; see `row_differences`."""
        old, new = (self.directory.cache(side.current.generation).path for side in (self.old, self.new))
        return row_differences(old, new, top=top, blocks=blocks)

    def impact(self) -> Impact:
        """How many addresses had another answer, the local edits of each time included."""
        return impact((self.old.base, self.old.overlay), (self.new.base, self.new.overlay))

    def comparison(self) -> Comparison:
        """For the answers of single addresses."""
        return Comparison((self.old.base, self.old.overlay), (self.new.base, self.new.overlay))


@contextlib.contextmanager
def opened(directory: StateDirectory, old: Reference, new: Reference) -> Iterator[Sides]:
    """Open two generations, each as it was served last.

    :raises UnknownGenerationError: if one is not kept
    :raises StateDamagedError: if one is not what was published
    """
    generations = Generations(directory)
    with contextlib.ExitStack() as stack:
        sides = []
        for reference in (old, new):
            side = generations.open(reference)
            stack.callback(side.close)
            sides.append(side)
        yield Sides(directory=directory, old=sides[0], new=sides[1])
