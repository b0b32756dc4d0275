"""What a person asked for: an address has this geolocation. Kept beside the product, in none of its words."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from geolookup.model.types import FIELD_NAMES

Ends = tuple[str, str]
#: Eight fields as the service would store them: what a person calls the same place.
Looks = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Version:
    """A place as it shall be; ``looks`` is None where it shall not be."""

    looks: Looks | None
    blocks: frozenset[Ends] = frozenset()


@dataclass(slots=True, kw_only=True)
class Wish:
    """One place that a person asked for.

    ``handle`` is the number that the person got when creating it, ``asked`` the fields in the person's own words.
    ``versions`` are all that were ever asked for, each
    with its moment. ``since_s`` is the moment of the backup that was put back last, None where none was: what was
    asked for later may be there or not. ``free`` says that somebody else had a hand in it, or that the person gave it
    up: then nobody can say what it shall be, but lookups and the service must agree.
    """

    name: str
    handle: int
    asked: dict[str, Any] = field(default_factory=dict)
    versions: list[tuple[float, Version]] = field(default_factory=list)
    since_s: float | None = None
    free: bool = False

    @property
    def now(self) -> Version:
        """What was asked for last."""
        return self.versions[-1][1]

    @property
    def looks(self) -> set[Looks | None]:
        """All that it was ever to look like."""
        return {version.looks for _, version in self.versions}

    @property
    def is_forgotten(self) -> bool:
        """True if a backup from before it was asked for was put back: nothing here knows of it."""
        return self.since_s is not None and self.since_s < self.versions[0][0]

    @property
    def allowed(self) -> list[Version]:
        """What it may be: what was asked for last, and after a restore anything since."""
        if self.since_s is None:
            return [self.now]
        before = [version for at, version in self.versions if at < self.since_s]
        return [*(before[-1:] or [Version(None)]), *(version for at, version in self.versions if at >= self.since_s)]


class Wishes:
    """The wishes of one person. ``stored`` is what the service makes of fields."""

    def __init__(self, stored: Callable[[Mapping[str, Any]], dict[str, Any]]) -> None:
        self._stored = stored
        self.all: dict[str, Wish] = {}

    def looks(self, fields: Mapping[str, Any]) -> Looks:
        """Fields as the service would store them."""
        found = self._stored(fields)
        return tuple(found[name] for name in FIELD_NAMES)

    def looks_of(self, fields: Looks) -> Looks:
        """The same, of fields in their order."""
        return self.looks(dict(zip(FIELD_NAMES, fields, strict=True)))

    def standing(self) -> Iterator[Wish]:
        """The wishes for places that shall be there."""
        return (wish for wish in self.all.values() if wish.now.looks is not None)

    def create(self, name: str, at_s: float, handle: int, fields: Mapping[str, Any], blocks: Iterable[Ends]) -> None:
        """Note that a new place was just asked for.

        It is sent in steps, the blocks one by one: if a file from before is put back, nobody is left to finish them.
        """
        wish = self.all[name] = Wish(name=name, handle=handle, asked=dict(fields))
        blocks = list(blocks)
        looks = self.looks(fields)
        wish.versions += [(at_s, Version(looks, frozenset(blocks[:sent]))) for sent in range(len(blocks) + 1)]

    def update(self, name: str, at_s: float, **changes: Any) -> None:
        """Note that other fields were just asked for."""
        wish = self.all[name]
        wish.asked |= changes
        self._add(wish, at_s, Version(self.looks(wish.asked), wish.now.blocks))

    def give_blocks(self, name: str, at_s: float, blocks: Iterable[Ends]) -> None:
        """Note that other blocks were just asked for."""
        wish = self.all[name]
        self._add(wish, at_s, Version(wish.now.looks, frozenset(blocks)))

    def delete(self, name: str, at_s: float) -> None:
        """Note that the place shall be gone."""
        self._add(self.all[name], at_s, Version(None))

    def _add(self, wish: Wish, at_s: float, version: Version) -> None:
        # What was changed after a restore was changed by what lookups showed, which may be any of several.
        wish.free = wish.free or wish.since_s is not None
        wish.versions.append((at_s, version))

    def put_back(self, moment_s: float) -> None:
        """Note that what was kept at that moment was put back."""
        for wish in self.all.values():
            wish.since_s = moment_s if wish.since_s is None else min(wish.since_s, moment_s)

    def probes(self) -> set[str]:
        """An address of every block that was ever asked for."""
        return {ends[0] for wish in self.all.values() for _, version in wish.versions for ends in version.blocks}

    def answers(self) -> dict[str, set[Looks | None] | None]:
        """What each probe may be answered with; None stands for "no place of this person's".

        A probe whose answer nobody can say has None in place of the set.
        """
        found: dict[str, set[Looks | None] | None] = {}
        sure: set[str] = set()
        for wish in self.all.values():
            if wish.free:
                found |= {ends[0]: None for _, version in wish.versions for ends in version.blocks}
        for wish in self.all.values():
            if wish.free:
                continue
            allowed = wish.allowed
            for ends in {ends for _, version in wish.versions for ends in version.blocks}:
                answers = found.setdefault(ends[0], set())
                holding = [version for version in allowed if ends in version.blocks]
                if answers is not None:
                    answers.update(version.looks for version in holding)
                if len(holding) == len(allowed):
                    sure.add(ends[0])
        for probe, answers in found.items():
            if answers is not None and probe not in sure:
                answers.add(None)
        return found
