"""The kept generations as history: which there are, which was served when, and opening any of them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, TypeAlias

from geolookup.model.errors import NoStateError, StateError, UnknownGenerationError
from geolookup.settings import times
from geolookup.state.base import clock, files
from geolookup.state.base.current import Current, Published, generation_path
from geolookup.state.base.parts import SERVICE, Part, part_of, parts_of, refusal, refused_in
from geolookup.state.generations.recovery import by_recency, numbered, open_kept, served_at, served_since
from geolookup.state.packs.reading import is_packed
from geolookup.state.publishing.directory import StateDirectory

#: A generation's number, ``served``, ``previous``, or the moment at which it was served: text that `settings.times`
#: reads (``yesterday``, ``2d``, ``2026-02-01 06:00``), or an object of ``datetime``.
Reference: TypeAlias = int | str | date

SERVED = "served"
PREVIOUS = "previous"
#: What waits for a person: `history.held` opens it, since no lookup was ever answered by it.
HELD = "held"

#: A generation may be removed between being found and being opened, again and again, but not this often.
_OPEN_ATTEMPTS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptGeneration:
    """One kept generation, or what is held (``number`` None): a source's snapshot, or a change of the stack.

    ``published_at`` is the moment since which it was served last, None if that is not known; ``pulled_at`` when
    it was fetched. ``stack`` names its sources, the one of highest precedence first. ``rows`` are the counts of its
    record, ``bytes`` the size of its folder (files that several share are counted in each). ``refused`` is true if
    its content was rolled back, so that no sync publishes it by itself. ``problem`` says why its record cannot be
    read; then the members that come from it are None or empty. ``packed`` is true if its files are made again when
    somebody asks for them.
    """

    number: int | None
    published_at: str | None
    pulled_at: str | None
    source: str | None
    digest: str | None
    rows: dict[str, Any]
    bytes: int
    stack: tuple[str, ...] = ()
    served: bool = False
    pinned: bool = False
    refused: bool = False
    held: bool = False
    problem: str | None = None
    packed: bool = False

    def as_dict(self) -> dict[str, Any]:
        """All of it by name, for ``--format json``."""
        return {name: getattr(self, name) for name in self.__slots__}


class Generations:
    """The generations that a state directory keeps."""

    def __init__(self, directory: StateDirectory) -> None:
        self._directory = directory

    def kept(self) -> list[KeptGeneration]:
        """Every kept generation, oldest first; then what is held of each source, and the held change of the stack.

        :raises NoStateError: if nothing has been published
        """
        directory = self._directory
        current = directory.require_current()
        found = [self._kept(current, number) for number in reversed(self._numbers())]
        stack = directory.holding.stack()
        given = stack["names"] if stack is not None and stack["given"] else ()
        found += [
            _described(current, candidate.document()["published"], candidate.path)
            for name, candidate in directory.holding.candidates().items()
            if name not in given
        ]
        if stack is not None:
            found.append(_held_change(stack))
        return found

    def _kept(self, current: Current, number: int) -> KeptGeneration:
        path = generation_path(self._directory.home, number)
        try:
            record = self._directory.report(number)["published"]
        except StateError as error:
            return KeptGeneration(
                number=number,
                published_at=served_since(current.served, number),
                pulled_at=None,
                source=None,
                digest=None,
                rows={},
                bytes=files.tree_bytes(path),
                served=number == current.generation,
                pinned=number in current.pins,
                problem=str(error),
            )
        return _described(current, record, path, number=number)

    def _numbers(self) -> list[int]:
        return numbered(self._directory.path("generations"))

    def resolve(self, reference: Reference) -> int:
        """The kept generation that ``reference`` means.

        A moment means the generation that was served then; a date, the one that was served at its end. What has no
        zone is local.

        :raises UnknownGenerationError: if there is none, or it is no longer kept: names those that are
        :raises NoStateError: if nothing has been published
        """
        current = self._directory.require_current()
        kept = self._numbers()
        number = self._number(current, kept, reference)
        if number not in kept:
            raise UnknownGenerationError(f"generation {number} is not kept: {self._those_kept(current, kept)}")
        return number

    def _number(self, current: Current, kept: Sequence[int], reference: Reference) -> int:
        if isinstance(reference, int):
            return int(reference)
        now = clock.wall()
        if isinstance(reference, date):
            try:
                found = _of_calendar(reference, now)
            except OverflowError:
                raise UnknownGenerationError(f"{reference} is before or after all time in UTC") from None
            return self._at(current, kept, found, str(reference))
        text = reference.strip()
        if text == SERVED:
            return current.generation
        if text == PREVIOUS:
            recent = [*by_recency(current.served), *kept]
            number = next((number for number in recent if number in kept and number != current.generation), None)
            if number is None:
                raise UnknownGenerationError("only the served generation is kept, so there is no previous one")
            return number
        if text.partition(":")[0] == HELD:
            raise UnknownGenerationError(
                f"{text!r:.60}: what is held was never served: `geolookup generations diff {SERVED} {text:.60}` "
                "compares it, `geolookup sync --accept DIGEST` publishes it"
            )
        if text.isascii() and text.isdecimal():
            return int(text)
        try:
            found = times.moment(text, now)
        except ValueError:
            raise UnknownGenerationError(
                f"{text!r:.60} is not a generation: give its number, {SERVED}, {PREVIOUS}, or when it was served: "
                f"{times.FORMS}"
            ) from None
        return self._at(current, kept, found, text)

    def _at(self, current: Current, kept: Sequence[int], when: datetime, asked: str) -> int:
        local = times.shown(when)
        said = asked if asked == local else f"{asked} ({local})"
        newest = current.served[-1][1] if current.served else ""  # later than now, if the clock went back since
        if when > clock.wall() and clock.text_of(when - timedelta(seconds=1)) > newest:
            raise UnknownGenerationError(f"{said} is in the future: it is {times.shown(clock.wall())} now")
        moment = clock.text_of(when)
        number = served_at(current.served, moment)
        if number is None:
            begins = times.shown(current.served[0][1] if current.served else current.published_at)
            raise UnknownGenerationError(
                f"what was served at {said} is not known, since the record begins at {begins}: "
                f"{self._those_kept(current, kept)}"
            )
        if number not in kept:
            raise UnknownGenerationError(
                f"the generation that was served at {said} is no longer kept: {self._those_kept(current, kept)}"
            )
        return number

    def _those_kept(self, current: Current, kept: Sequence[int]) -> str:
        shown = []
        for number in sorted(kept):
            since = served_since(current.served, number)
            shown.append(f"{number} (served from {times.shown(since)})" if since else str(number))
        return f"kept are {', '.join(shown) or 'none'}"

    def open(self, reference: Reference) -> Published:
        """Open the generation that ``reference`` means, as it was served last: with the custom layer of that time.

        The served one comes with the custom layer of now.

        :raises UnknownGenerationError: as `resolve`
        :raises StateDamagedError: if it is not what was published
        """
        for _ in range(_OPEN_ATTEMPTS):
            number = self.resolve(reference)
            try:
                if number != self._directory.require_current().generation:
                    return open_kept(self._directory.home, number)
                published = self._directory.open()
                if published.current.generation == number:
                    return published
                published.close()
            except StateError:
                # A publish may have removed it since; then `resolve` says so.
                if os.path.isdir(generation_path(self._directory.home, number)):
                    raise
        raise NoStateError(f"{self._directory.home}: generations come and go faster than they can be opened")


def _held_change(stack: dict[str, Any]) -> KeptGeneration:
    return KeptGeneration(
        number=None,
        published_at=None,
        pulled_at=None,
        source=None,
        digest=str(stack["digest"]),
        rows={},
        bytes=0,
        stack=tuple(map(str, stack["names"])),
        held=True,
    )


def _described(current: Current, record: dict[str, Any], path: str, *, number: int | None = None) -> KeptGeneration:
    """A generation; without a number, a held snapshot."""
    parts, refused = _held_part(record), False
    if number is not None:
        parts, refused = parts_of(record), refused_in(record, current.refused)
    return KeptGeneration(
        number=number,
        published_at=None if number is None else served_since(current.served, number),
        pulled_at=record.get("pulled_at"),
        source=record["source"],
        digest=record["digest"],
        rows=record.get("rows", {}),
        bytes=files.tree_bytes(path),
        stack=tuple(part.name for part in parts),
        served=number == current.generation,
        pinned=number in current.pins,
        refused=refused or (number is None and any(refusal(part) in current.refused for part in parts)),
        held=number is None,
        packed=number is not None and is_packed(path),
    )


def _held_part(record: dict[str, Any]) -> tuple[Part, ...]:
    return (part_of(record, name=str(record.get("name", SERVICE)), snapshot=0),)


def _of_calendar(reference: date, now: datetime) -> datetime:
    if isinstance(reference, datetime):
        return times.to_utc(reference)
    return times.end_of(reference, now)
