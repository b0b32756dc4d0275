"""Put a backup of edits.db in its place, without sending anything twice that was sent since it was made."""

import contextlib
import itertools
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from sqlite3 import Connection
from typing import Any, Literal, TypeAlias

from geolookup.base import disk
from geolookup.index.layout import OURS
from geolookup.index.reader import IndexReader
from geolookup.model.addresses import to_text
from geolookup.model.errors import EditsDamagedError, IndexFileError, StateError
from geolookup.model.types import FIELD_NAMES, Geolocation, IPBlock
from geolookup.state.base import files
from geolookup.state.base.current import Current
from geolookup.state.base.marks import Begun
from geolookup.state.base.sqlite import copy
from geolookup.state.base.vrfs import layer_path, read_vrfs
from geolookup.state.edits.names import SiteNames
from geolookup.state.edits.outbox import seal
from geolookup.state.edits.outbox.kept import OPEN
from geolookup.state.edits.outbox.ledger import Ledger
from geolookup.state.edits.outbox.operations import describe
from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.edits.outbox.payload import geolocation
from geolookup.state.edits.outbox.row import OPEN_STATES, UNDER_WAY, OutboxRow, State
from geolookup.state.edits.places.place import in_order
from geolookup.state.edits.places.reconcile import owed_blocks
from geolookup.state.edits.store import Edits
from geolookup.state.publishing.directory import StateDirectory

_TEMPORARY = "edits.restored.tmp"
_UNTOLD = "an `outbox restore` was interrupted before it said what it took away"
_MOST_NAMED = 20
_FAMILIES: tuple[Literal[4], Literal[6]] = (4, 6)
#: By VRF ("" of the custom layer) and family the ranges of addresses, in order, each with its site and place in words.
_Answers: TypeAlias = dict[tuple[str, Literal[4, 6]], list[tuple[int, int, str]]]
#: A range after all others.
_NOWHERE = (1 << 128, 1 << 128, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """The backup put in the place of edits.db, and what lookups lose by it.

    ``source`` is the file that was copied, None if edits.db was emptied. ``pushed_since`` says that a push began after
    it was made, so that its unfinished edits may have been sent; ``unfinished`` is how many those are. ``replaced`` is
    the path of the file that was there before, None if there was none. ``lost`` are the ranges of addresses that
    lookups answered from the edits that are gone: (first, last, the site and place that was, with its VRF, and that
    which is there by now). ``owed`` are blocks in the same form that a removal took from the service, and that it would
    have put back: a service has no removal of one block.
    """

    source: str | None
    pushed_since: bool
    unfinished: int
    replaced: str | None
    lost: list[tuple[str, str, str]]
    owed: list[tuple[str, str, str]]
    given_up: list[str]


def restore(directory: StateDirectory, source: str | None = None, *, empty: bool = False) -> Restored:
    """Put ``source`` (the newest whole backup, if None) in the place of edits.db; with ``empty``, an empty one.

    Takes the run lock. What a push may have sent since the backup was made is looked for at the service before anything
    is sent again.

    :raises EditsDamagedError: if there is no whole backup, or ``source`` is damaged: nothing was changed
    :raises StateBusyError: if another run is under way
    """
    with directory.locks.run(), directory.locks.publish():
        current = directory.current_or_none()
        before, owed = _answers(directory), _owed(directory)
        temporary = Edits(directory.home, _TEMPORARY)
        try:
            chosen = None if empty else _copied(directory, temporary, source)
            if empty:
                files.remove_file(temporary.path)
            given_up, was_interrupted = _given_up(directory.edits, temporary), _is_untold(directory)
            name = _kept_as(directory, again=was_interrupted)
            if was_interrupted:
                given_up += _given_up(Edits(directory.home, name), temporary)
            pushed_since, unfinished = prepared(temporary, current)
            if given_up:  # until this is over: a kill, or a full disk, may come before it is told
                with temporary.transaction() as database:
                    Outbox(database).notice(0, 0, 0, _untold(given_up, name))
                disk.sync_file(temporary.path)
            replaced = _put_in_place(directory, temporary.path, directory.path(name))
        finally:
            for path in (temporary.path, f"{temporary.path}-journal"):
                files.remove_file(path)
        directory.edits.record("restore", "done", after={"source": chosen, "pushed_since": pushed_since})
    if current is not None:
        directory.republish()
    if given_up:
        with directory.edits.transaction() as database:
            Outbox(database).told()
    lost = [*_lost(before, _answers(directory))]
    goes_on = _owed(directory, or_asked=True)
    owed = [each for each in owed if each not in goes_on]
    return Restored(
        source=chosen, pushed_since=pushed_since, unfinished=unfinished, replaced=replaced, lost=lost, owed=owed,
        given_up=given_up,
    )  # fmt: skip


def _kept_as(directory: StateDirectory, *, again: bool) -> str:
    """The first name that is free for the file that is replaced; ``again``: that of the last one."""
    last = ""
    for number in itertools.count(1):
        name = "edits.replaced.db" if number == 1 else f"edits.replaced.{number}.db"
        if not os.path.exists(directory.path(name)):
            break
        last = name
    return last if again and last else name


def _untold(given_up: list[str], kept: str) -> str:
    """The words of a restore that did not come to its end."""
    return (
        f"{_UNTOLD}: the edits that were there are in {kept}, and {len(given_up)} of them are not in the backup: "
        f"{'; '.join(given_up[:_MOST_NAMED])}{'; …' if len(given_up) > _MOST_NAMED else ''}"
    )


def _is_untold(directory: StateDirectory) -> bool:
    """True if a restore was interrupted here, and nobody was told what it took away."""
    with contextlib.suppress(StateError), directory.edits.reading() as database:
        return any(str(each["reason"]).startswith(_UNTOLD) for each in Outbox(database).untold())
    return False


def _given_up(there: Edits, copied: Edits) -> list[str]:
    """The open edits of a file, in words, that another one lacks; none if it cannot be read."""
    with contextlib.suppress(StateError):
        with there.reading() as database:
            found = in_words(database, Outbox(database).where("state <> ? AND concluded IS NULL", (State.DROPPED,)))
        with copied.reading() as database:
            kept = in_words(database, Outbox(database).rows())
        return [words for key, words in found.items() if key not in kept]
    return []


def in_words(database: Connection, rows: Iterable[OutboxRow]) -> dict[tuple[Any, ...], str]:
    """Edits in words, by what they have in every copy of the file: after a restore, a number may be another edit's."""
    numbers = Outbox(database).aliases()
    sites = {locid: f" ({name})" for name, locid in SiteNames(database).locids().items()}
    return {
        (row.id, row.created_at): describe(row.intent, numbers.get(row.locid, row.locid)) + sites.get(row.locid, "")
        for row in rows
    }


def _lost(before: _Answers, after: _Answers) -> Iterator[tuple[str, str, str]]:
    """The ranges of which the place is another one now, or none, each with the place that was."""
    for (vrf, family), ranges in before.items():
        now = iter(after.get((vrf, family), ()))
        begin, end, other = next(now, _NOWHERE)
        for first, last, place in ranges:
            while first <= last:
                while end < first:
                    begin, end, other = next(now, _NOWHERE)
                upto = min(last, end if begin <= first else begin - 1)
                there = other if begin <= first else ""
                if there != place:
                    words = f"{place}, but {there}" if there else place
                    yield to_text(family, first), to_text(family, upto), words
                first = upto + 1


def owed_of(ledger: Ledger, *, or_asked: bool = False) -> Iterator[tuple[IPBlock, Geolocation]]:
    """The blocks that a removal took from the service and has not put back yet, each with its place as lookups have it.

    ``or_asked``: those of which the next push asks, too, since a removal is open.
    """
    for kept in ledger.read(OPEN).values():
        if (shown := kept.place.shown) is None:
            continue
        is_asked = or_asked and any(intent.takes for intent in kept.place.intents)
        for block in in_order(shown.blocks if is_asked else owed_blocks(kept.place) & shown.blocks):
            yield block, geolocation(kept.shown, shown)


def _owed(directory: StateDirectory, *, or_asked: bool = False) -> list[tuple[str, str, str]]:
    """The blocks of `owed_of` in words; none that damaged edits do not tell."""
    with contextlib.suppress(StateError):
        found = directory.local.ask(lambda ledger: [*owed_of(ledger, or_asked=or_asked)])
        return [
            (block.startip, block.endip, f"{place.place_text() or 'geolocation'} ({place.locid})")
            for block, place in found
        ]
    return []


def _answers(directory: StateDirectory) -> _Answers:
    """The answers of lookups from the custom layer and from those of VRFs; none if nothing is published."""
    try:
        published = directory.open()
    except StateError:
        return {}
    found: _Answers = {}
    layers = [("", published.overlay)]
    with contextlib.closing(published), contextlib.suppress(StateError, IndexFileError):
        vrfs = read_vrfs(directory.home, published.current).values()
        layers += [(each.name, IndexReader.open(layer_path(directory.home, each.number))) for each in vrfs]
        for vrf, layer in layers:
            for family in _FAMILIES:
                for first, last, slot in layer.segments(family):
                    place = Geolocation(locid=-1, **dict(zip(FIELD_NAMES, layer.location(slot)[1:], strict=True)))
                    own = layer.record_part(layer.record(family, first), OURS) or {}
                    words = "; ".join(filter(None, (place.place_text(), own.get("time_zone"))))
                    words = f"{own['site']} ({words})" if own.get("site") else words
                    words += f" of the VRF {vrf}" if vrf else ""
                    found.setdefault((vrf, family), []).append((first, last, words))
    for _, layer in layers[1:]:
        layer.close()
    return found


def _copied(directory: StateDirectory, temporary: Edits, source: str | None) -> str:
    """Copy the source, or the newest whole backup; the path of what was copied."""
    if source is not None:
        if (problem := _problem(source, temporary)) is not None:
            raise EditsDamagedError(
                f"{problem}: nothing was changed; `geolookup outbox restore` without a name takes the newest backup"
            )
        return source
    problems = []
    for path in directory.edits.backups():
        if os.path.exists(path):
            if (problem := _problem(path, temporary, as_sealed=True)) is None:
                return path
            problems.append(problem)
    why = "there is no backup of edits.db"
    if problems:
        why = f"all backups of edits.db are damaged: {'; '.join(problems)}"
    raise EditsDamagedError(
        f"{directory.home}: {why}; `geolookup custom export FILE` writes down what lookups answer now; then "
        "`geolookup outbox restore --empty` starts with an empty file, without the edits that are pending here"
    )


def _problem(path: str, temporary: Edits, *, as_sealed: bool = False) -> str | None:
    """Copy a file that may be put in place: why it cannot be, None if it can."""
    try:
        if not os.path.exists(path):
            return f"{path}: is not there"
        if os.path.getsize(path) == 0:
            return f"{path}: is empty"
        files.remove_file(temporary.path)
        with files.file_errors(temporary.path):
            copy(path, temporary.path)
        if not temporary.is_ours():
            return f"{path}: is not a copy of edits.db"
        temporary.check(in_order=False, sealed=as_sealed)
    except StateError as error:
        if files.FULL in str(error):
            raise  # no other backup fits, either
        return str(error).replace(temporary.path, path).partition(": lookups go on")[0]
    return None


def prepared(
    temporary: Edits, current: Current | None, *, pushed_since: bool = False, edits_since: int = 0
) -> tuple[bool, int]:
    """Make a copy such that nothing in it is taken for not sent that may have been; see `Restored`.

    ``pushed_since`` says that a push may have begun since, though nothing here tells. ``edits_since`` is the counter of
    the edits of another state whose place this takes: no number of those is given again.
    """
    edits, pushed, listed, line = 0, 0, 0, ""
    if current is not None:
        edits, pushed, line = current.edits, current.pushed, current.line
        # A list begins after its push: what is acknowledged from now on is newer than that, too.
        listed = max(Begun.of(record).counter for record in (current.published, *current.sources))
    with temporary.transaction() as database:
        seal.renew(database)  # a person may have said that it is to be taken as it is
        ledger = Ledger(database)
        outbox = ledger.outbox
        is_of_another_state = outbox.line_like(line) not in ("", line)
        pushed_since = pushed_since or outbox.counter < pushed or is_of_another_state
        outbox.lift(edits=edits, counter=max(pushed, listed), line=line)
        outbox.skip_numbers(edits_since)
        ledger.found_interrupted()
        unfinished = outbox.count(*OPEN_STATES) if pushed_since else outbox.count(*UNDER_WAY)
        if pushed_since:
            ledger.doubt()
    disk.sync_file(temporary.path)
    return pushed_since, unfinished


def _put_in_place(directory: StateDirectory, path: str, kept: str) -> str | None:
    """Replace edits.db, and keep what was there, if nothing is kept there yet: it may hold what the backup lacks."""
    target = directory.edits.path
    with files.file_errors(target):
        replaced = os.path.exists(target)
        if replaced and not os.path.exists(kept):
            for end in ("", "-journal"):  # a journal belongs to its file, and would undo what the backup holds
                files.remove_file(f"{kept}{end}")
                with contextlib.suppress(FileNotFoundError):
                    os.link(f"{target}{end}", f"{kept}{end}")
        files.remove_file(f"{target}-journal")
        os.rename(path, target)
        disk.sync_directory(directory.home)
    return kept if replaced else None
