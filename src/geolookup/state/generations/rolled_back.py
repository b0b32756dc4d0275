"""The generations that were rolled back, as long as what took their place still matters.

Nothing is written down for it: which generation followed which stands in CURRENT's ``served``, and that a person went
back in its ``refused``. To accept what was rolled back, or to go forward to it again, takes it out of that list.
"""

from dataclasses import dataclass

from geolookup.model.errors import StateError
from geolookup.state.base.candidate import read_report
from geolookup.state.base.current import Current, generation_path
from geolookup.state.base.parts import Part, is_received, parts_of, refusal, refusal_of_stack
from geolookup.state.generations.recovery import numbered


@dataclass(frozen=True, slots=True)
class RolledBack:
    """A kept generation that was rolled back, and the older one that took its place; the parts of both."""

    generation: int
    instead: int
    left: tuple[Part, ...]
    parts: tuple[Part, ...]

    @property
    def have_networks(self) -> bool:
        """True if both say who runs addresses."""
        return all(any(part.has_networks for part in parts) for parts in (self.left, self.parts))

    def names(self) -> set[str]:
        """Its names in CURRENT's ``refused``."""
        return {refusal_of_stack(part.name for part in self.left), *map(refusal, self.left)}


def in_effect(home: str, current: Current) -> list[RolledBack]:
    """The roll-backs that updates are compared with: of those both generations are kept. The newest comes first.

    There are none on a reader of a fleet, which holds nothing.
    """
    if not current.refused or is_received(current.published):
        return []
    kept = numbered(f"{home}/generations")
    steps = [number for number, _ in current.served]
    left_last = {number: at for at, number in enumerate(steps[:-1])}
    found = []
    for number in kept:
        at = left_last.get(number)
        if at is None or number == current.generation:
            continue
        instead, since = steps[at + 1], steps[at + 1 :]
        # To go forward again refuses the older one, too; but then nothing up to the newer one is wrong any more.
        went_on = any(other > number and other in steps[:at] for other in since)
        if instead not in kept or instead > number or went_on:
            continue
        try:
            left, parts = (
                parts_of(read_report(generation_path(home, each))["published"]) for each in (number, instead)
            )
        except StateError:
            continue  # nobody can tell what it had
        rolled_back = RolledBack(number, instead, left, parts)
        if not rolled_back.names().isdisjoint(current.refused):
            found.append(rolled_back)
    return found


def needed(home: str, current: Current) -> set[int]:
    """The generations of roll-backs that stay whatever else retention says.

    They do while a source answers with the data that were gone back to: until its next update, nothing tells whether
    what was wrong is right again, however often other sources bring something new.
    """
    served = parts_of(current.published)
    return {
        number
        for each in in_effect(home, current)
        if any(part in each.parts and part not in each.left for part in served)
        for number in (each.generation, each.instead)
    }
