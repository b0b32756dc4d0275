"""Blocks that pass from one place of ours to another: who has one gives it up first."""

from msgspec.structs import replace

from geolookup.state.edits.places.place import Block, Blocks, Content, Place, target


class Handover:
    """Which places give up which blocks, and may have them still."""

    def __init__(self) -> None:
        self._givers: dict[Block, set[int]] = {}
        self._given: dict[int, Blocks] = {}

    def note(self, place: Place, theirs: Content | None, *, conclusive: bool) -> None:
        """Note what a place gives up of ``theirs``; unless that is ``conclusive``, what was sent may be there, too."""
        given: Blocks = frozenset()
        if theirs is not None and (place.number is not None or place.lost is None):  # else it is not there any more
            sent = {each.new for each in place.requests if not (each.known or conclusive or each.new is None)}
            wanted = target(place.intents, replace(theirs, blocks=theirs.blocks | sent))
            given = (theirs.blocks | sent) - (frozenset() if wanted is None else wanted.blocks)
        self.forget(place.id)
        for block in given:
            self._givers.setdefault(block, set()).add(place.id)
        self._given[place.id] = given

    def forget(self, place: int) -> None:
        """Forget a place: it gives up nothing."""
        for block in self._given.pop(place, ()):
            self._givers[block].discard(place)

    def awaited(self, place: Place) -> dict[Block, set[int]]:
        """The blocks that a place shall have, each with the others that have it still."""
        wanted = {intent.new for intent in place.intents if intent.new is not None}
        givers = ((block, self._givers.get(block, set()) - {place.id}) for block in wanted)
        return {block: others for block, others in givers if others}
