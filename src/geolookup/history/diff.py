"""Changes from one kept generation to another: the rows of each source, and the answers of lookups."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from geolookup.base.reasons import reason
from geolookup.history.held import find_held, is_held, opened_held
from geolookup.history.impact import Comparison, Impact, compiled, impact
from geolookup.index.compare_facts import FactChanges, differing
from geolookup.index.reader import IndexReader
from geolookup.model.errors import StateDamagedError
from geolookup.settings.table import Settings
from geolookup.state.base.candidate import read_report
from geolookup.state.base.current import Current, Published
from geolookup.state.base.parts import REGISTRY, Part, is_received, parts_of, snapshot_path
from geolookup.state.generations.cache_compare import RowDifferences, row_differences
from geolookup.state.packs.reading import readable
from geolookup.state.publishing.catalogue import SERVED, Generations, Reference
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.guard import few_rows_differ, is_small
from geolookup.sync.pull.losses import judge
from geolookup.sync.pull.network_losses import judge_networks


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDifference:
    """Changes in one source.

    ``change`` is ``joined`` if the source is in the later stack only, ``left`` if it is in the earlier one only, else
    ``changed``; one that has places on one side only has left, and joined. ``rows`` has the differences, None if the
    source is on one side only: then ``geolocations`` and ``blocks`` count its rows in the default layer there.
    ``networks`` is what differs in what it says of networks, None if it says nothing of them.
    """

    name: str
    kind: str
    change: Literal["changed", "joined", "left"]
    rows: RowDifferences | None = None
    networks: FactChanges | None = None
    geolocations: int = 0
    blocks: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """Two generations, open: kept or held ones (see `held`).

    ``names`` are their numbers, or the references of held ones. ``places`` are the directories of parts that have
    no number yet.
    """

    directory: StateDirectory
    old: Published
    new: Published
    names: tuple[int | str, int | str] = (0, 0)
    places: Mapping[Part, str] = field(default_factory=dict)

    def stacks(self) -> tuple[list[str], list[str]]:
        """The names of the sources of both, the one of highest precedence first."""
        old, new = ([part.name for part in parts_of(side.current.published)] for side in (self.old, self.new))
        return old, new

    @property
    def have_sites(self) -> bool:
        """True if sites are part of one of them: those that a service keeps are part of its list."""
        return any(side.current.published.get("rows", {}).get("custom_geolocations") for side in (self.old, self.new))

    def sources(self, *, top: int | None, blocks: bool) -> list[SourceDifference]:
        """Changes source by source, in the order of the later stack; unchanged sources are left out.

        The arguments are those of `row_differences`.

        :raises StateDamagedError: if a snapshot differs from what was written
        """
        before, after = (
            {part.name: part for part in parts_of(side.current.published)} for side in (self.old, self.new)
        )
        found = []
        for name, part in after.items():
            earlier = before.get(name)
            if earlier is None:
                found.append(self._alone(self.new.current, part, "joined"))
                continue
            if earlier.snapshot and earlier == part:
                continue
            if earlier.has_places != part.has_places:  # its places came or went: they are not to be compared
                found += [self._alone(self.old.current, earlier, "left"), self._alone(self.new.current, part, "joined")]
                continue
            rows = networks = None
            if earlier.has_places and part.has_places:
                rows = row_differences(self._cache(earlier), self._cache(part), top=top, blocks=blocks)
            if earlier.has_networks or part.has_networks:
                networks = self._networks(earlier, part)
            if (rows is not None and not rows.is_empty) or (networks is not None and not networks.is_empty):
                found.append(
                    SourceDifference(name=name, kind=part.kind, change="changed", rows=rows, networks=networks)
                )
        left = (part for name, part in before.items() if name not in after)
        return found + [self._alone(self.old.current, part, "left") for part in left]

    def _networks(self, earlier: Part | None, part: Part | None) -> FactChanges:
        with contextlib.ExitStack() as opened:
            readers = [
                opened.enter_context(IndexReader.open(readable(os.path.join(self._path(each), "network"))))
                if each is not None and each.has_networks
                else None
                for each in (earlier, part)
            ]
            return differing(*readers)

    def _path(self, part: Part) -> str:
        return self.places.get(part) or snapshot_path(self.directory.home, part.snapshot)

    def _cache(self, part: Part) -> str:
        return os.path.join(self._path(part), "cache.db")

    def _alone(self, current: Current, part: Part, change: Literal["joined", "left"]) -> SourceDifference:
        record: Mapping[str, Any] = current.published
        if part.snapshot:
            record = read_report(self._path(part))["published"]
        try:
            counts = [int(record["rows"][what]) - int(record["rows"][f"custom_{what}"]) for what in _COUNTED]
        except (KeyError, TypeError, ValueError) as error:
            raise StateDamagedError(f"source {part.name}: its counts cannot be read: {reason(error)}") from error
        networks = None
        if part.has_networks:
            networks = self._networks(None, part) if change == "joined" else self._networks(part, None)
        return SourceDifference(
            name=part.name, kind=part.kind, change=change, geolocations=counts[0], blocks=counts[1], networks=networks
        )

    def impact(self) -> Impact:
        """Counts of the addresses that had another answer: under the sites that `opened` was asked for."""
        return impact((self.old.base, self.old.overlay), (self.new.base, self.new.overlay))

    def losses(self, settings: Settings) -> tuple[str, ...]:
        """The guard's reasons against the later one in the place of the earlier, a sentence each."""
        sides = self.old, self.new
        stacks = [{part.name: part for part in parts_of(side.current.published)} for side in sides]
        before, after = ([(next(iter(stack)), side.base)] for stack, side in zip(stacks, sides, strict=True))
        moving = [name for name, part in stacks[1].items() if name in stacks[0] and part != stacks[0][name]]
        registry = {part.name for stack in stacks for part in stack.values() if part.kind == REGISTRY}
        lenient = [name for name in moving if self._is_a_days_work(stacks[0][name], stacks[1][name])]
        verdict = judge(settings, before, after, left_out=registry, moving=moving, lenient=lenient)
        with contextlib.ExitStack() as opened:
            networks = [
                [] if side.network is None else [opened.enter_context(IndexReader.open(readable(side.network)))]
                for side in sides
            ]
            losses = (*verdict.losses, *judge_networks(settings, *networks))
        return tuple(loss.reason for loss in losses)

    def _is_a_days_work(self, old: Part, new: Part) -> bool:
        rows = read_report(self._path(old))["published"]["rows"]
        if not is_small(rows):
            return False
        if not (old.has_places and new.has_places):
            return False
        return few_rows_differ(row_differences(self._cache(old), self._cache(new), top=0, blocks=False).counts)

    def comparison(self) -> Comparison:
        """A comparison of single addresses."""
        return Comparison((self.old.base, self.old.overlay), (self.new.base, self.new.overlay))


_COUNTED = ("geolocations", "blocks")


def totals(sources: list[SourceDifference]) -> dict[str, dict[str, int]]:
    """Changes in all sources together, counted as by `cache_compare.compare`; a source on one side only was added or
    removed with all of its rows.
    """
    counts = {what: {"added": 0, "removed": 0, "changed": 0} for what in _COUNTED}
    for source in sources:
        if source.rows is None and source.change == "changed":
            continue  # in its networks only
        if source.rows is None:
            how = "added" if source.change == "joined" else "removed"
            counts["geolocations"][how] += source.geolocations
            counts["blocks"][how] += source.blocks
            continue
        for what, each in source.rows.counts.items():
            for how, count in each.items():
                counts[what][how] += count
    return counts


@contextlib.contextmanager
def opened(
    directory: StateDirectory, old: Reference, new: Reference, *, sites: Literal["then", "now"] = "then"
) -> Iterator[Sides]:
    """Open two generations, each as it was served last; ``held`` is the held one, as it would be served.

    With ``sites="now"`` each has the custom geolocations that it would have if it was served now: those of its list,
    and over them those of this machine, which a rollback leaves as they are.

    :raises UnknownGenerationError: if one is not kept, or not held
    :raises StateDamagedError: if one differs from what was published
    """
    generations = Generations(directory)
    with contextlib.ExitStack() as stack:
        sides: list[Published] = []
        names: list[int | str] = []
        places: dict[Part, str] = {}
        for reference in (old, new):
            if isinstance(reference, str) and is_held(reference):
                waits = find_held(directory, reference)
                side, found = stack.enter_context(opened_held(directory, waits))
                places |= found
                names.append(reference.strip())
            else:
                side = generations.open(reference)
                stack.callback(side.close)
                names.append(side.current.generation)
            sides.append(side)
        if sites == "now":
            served = generations.open(SERVED)
            stack.callback(served.close)
            sides = [_with_sites_of_now(directory, side, served, stack) for side in sides]
        yield Sides(directory=directory, old=sides[0], new=sides[1], names=(names[0], names[1]), places=places)


def _with_sites_of_now(
    directory: StateDirectory, side: Published, served: Published, stack: contextlib.ExitStack
) -> Published:
    """A side with the custom layer that it would be served with now."""
    number, record = side.current.generation, side.current.published
    if number == served.current.generation:  # what is held has these already
        return side
    overlay = served.overlay
    if not is_received(record):
        overlay = stack.enter_context(compiled(directory.custom_layer(number, record).values(), number))
    return Published(side.current, side.base, overlay, side.network)
