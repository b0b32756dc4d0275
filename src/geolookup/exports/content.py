"""The content of an export, read from one snapshot into memory: the segments of both families, and their places."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np

from geolookup.base.garbage import give_back
from geolookup.exports import licences, networks
from geolookup.exports.networks import Networks
from geolookup.exports.parts import Column, Parts, column_of, parts_of
from geolookup.exports.segments import Segments, joined, side_by_side
from geolookup.index.compare import texts_of
from geolookup.index.flatten import EMPTY, I64, U32, Array, Flags
from geolookup.index.walk import Stretch, walk
from geolookup.lookup.fact_columns import by_record
from geolookup.lookup.snapshot import Snapshot
from geolookup.model.addresses import SIX_TO_FOUR
from geolookup.model.errors import IndexDamagedError, SettingsError
from geolookup.model.facts import NETWORK_FACTS, OF_SITE_ZONE, PLACE_FACTS, SITE_ZONE, Fact
from geolookup.model.fields import DEGREES, TEXT_NAMES

if TYPE_CHECKING:
    from geolookup.index.reader import IndexReader

#: The layers whose answers are exported: ``both`` are those of places, as lookups answer; ``network`` says who runs
#: addresses, and ``all`` says where they are, too.
LayerChoice: TypeAlias = Literal["custom", "default", "both", "network", "all"]
LAYERS: tuple[LayerChoice, ...] = get_args(LayerChoice)
#: Those that say where addresses are, and nothing else.
PLACE_LAYERS: tuple[LayerChoice, ...] = ("custom", "default", "both")
CUSTOM = "custom"
#: Told how far the work is: (done, all), in any unit.
Progress: TypeAlias = Callable[[int, int], None]


#: The facts of places that exports may ask for.
_OF_PLACES = {**PLACE_FACTS, SITE_ZONE: OF_SITE_ZONE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The places that some segment has, in columns: the default layer's first, then the custom layer's.

    A ``weak`` one has a record that says something, but not where its addresses are. ``locid`` is 0 if it has none, or
    must not be told. ``text`` has for each field of text the number in ``texts`` of each place's; ``degrees`` has NaN
    if nothing is known; ``source`` the number in ``sources`` of the source that each comes from: the custom layer's is
    ``custom``. ``parts`` are those of the records, ``facts`` the typed ones that were asked for, by their names.
    """

    locid: I64
    weak: Flags
    text: dict[str, U32]
    texts: list[str]
    degrees: dict[str, Array]
    pending: Flags
    source: I64
    sources: tuple[str, ...]
    parts: dict[str, Parts] = field(default_factory=dict)
    facts: dict[str, Column] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.locid)

    def taken(self, which: I64) -> "Places":
        """Some of them, by their numbers."""
        return replace(
            self,
            locid=self.locid[which],
            weak=self.weak[which],
            text={name: column[which] for name, column in self.text.items()},
            degrees={name: column[which] for name, column in self.degrees.items()},
            pending=self.pending[which],
            source=self.source[which],
            parts={key: Parts(part.values, part.which[which]) for key, part in self.parts.items()},
            facts={name: Column(column.values, column.which[which]) for name, column in self.facts.items()},
        )

    def column(self, name: str) -> list[str]:
        """A field of text of all places."""
        texts = self.texts
        return [texts[number] for number in self.text[name].tolist()]

    def layers(self) -> list[str]:
        """The layer of each place."""
        return ["custom" if self.sources[number] == CUSTOM else "default" for number in self.source.tolist()]


@dataclass(slots=True, kw_only=True)
class Content:
    """One snapshot's answers. The values of the segments are numbers of places.

    ``published`` is when the snapshot was published, in seconds since 1970; ``answering`` names the sources that some
    segment comes from, in their order, the custom layer first, and ``origins`` says of each the day of its data and
    whether its licence is known. ``dated`` is the oldest date or moment (ISO 8601, UTC) that one of them says, or None.
    ``networks`` says who runs addresses, with its own sources; None if that was not asked for. ``metadata`` says in
    texts by name what it came from, if the format has room for that.
    """

    four: Segments
    six: Segments
    places: Places
    published: int
    answering: tuple[str, ...]
    origins: tuple[str, ...]
    dated: str | None
    networks: Networks | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)

    def covered(self) -> int:
        """The number of segments of places that are not gaps."""
        return self.four.covered() + self.six.covered()

    def credited(self) -> tuple[str, ...]:
        """The names of all sources that answer some of it, of places or of networks."""
        own = () if self.networks is None else self.networks.answering
        return tuple(dict.fromkeys((*self.answering, *own)))

    def all_origins(self) -> tuple[str, ...]:
        """The licence and date of each of these sources: see ``origins``."""
        own = () if self.networks is None else self.networks.origins
        return tuple(dict.fromkeys((*self.origins, *own)))


def collect(
    snapshot: Snapshot,
    *,
    layer: LayerChoice,
    source: str | None,
    progress: Progress,
    records: bool = False,
    facts: Collection[str] = (),
) -> Content:
    """Everything that lookups in this snapshot answer, or what one layer or one source answers of it.

    With ``records`` a place comes once for each of its records, and with the parts of that. ``facts`` are the names of
    typed facts that are there, too; with those of places they come by records. Who runs the addresses is there if one
    of them says it, and in the layers ``network``, which has no places, and ``all``.

    :raises SettingsError: if the source is not one of what is asked for
    :raises IndexDamagedError: if a file cannot be followed
    :raises StateDamagedError: if the index of networks is gone
    """
    readers = [snapshot.base.reader] if layer not in ("custom", "network") else []
    if layer not in ("default", "network"):
        readers.insert(0, snapshot.custom.reader)
    of_places, of_networks = ([name for name in facts if name in known] for known in (_OF_PLACES, NETWORK_FACTS))
    has_networks = bool(of_networks) or layer in ("network", "all")
    names = _sources(readers)
    known = dict.fromkeys((*names, *(networks.sources_of(snapshot) if has_networks else ())))
    if source is not None and source not in known:
        raise SettingsError(f"unknown source {source!r:.60}: the sources of what is asked for are {', '.join(known)}")
    slots = _Slots(readers, names, records=records or bool(of_places))
    if not has_networks:
        return _places(snapshot, slots, source, of_places, progress)
    content = _places(snapshot, slots, source, of_places, lambda done, of: progress(done, 2 * of))
    own = networks.collect(
        snapshot, source=source, facts=of_networks, progress=lambda done, of: progress(of + done, 2 * of)
    )
    return replace(content, networks=own)


def _places(
    snapshot: Snapshot, slots: "_Slots", source: str | None, facts: Sequence[str], progress: Progress
) -> Content:
    """The places of some files, with some typed facts."""
    readers, names = slots.readers, slots.names
    source_of = slots.sources()
    wanted = np.ones(len(source_of), np.bool_) if source is None else np.array(names)[source_of] == source
    total = 2 * sum(reader.segment_count_v4 + reader.segment_count_v6 for reader in readers) or 1
    done = 0
    families = []
    used = np.zeros(len(source_of) + 1, np.bool_)
    versions: tuple[Literal[4], Literal[6]] = (4, 6)
    for version in versions:
        pieces: list[Segments] = []
        for stretch in walk(readers, version, records=slots.records):
            value = slots.values(stretch)
            value[~np.append(wanted, False)[value]] = len(wanted)
            used[value] = True
            found = Segments(stretch.hi, stretch.lo, value.astype(np.uint32)).merged()
            pieces.append(found)
            done += len(value)
            progress(min(done, total), total)
        families.append(joined(*pieces))
        del pieces, found  # before the other family, which has as many
    kept = np.flatnonzero(used[:-1])
    numbers: U32 = np.full(len(used), EMPTY, np.uint32)
    numbers[kept] = np.arange(len(kept), dtype=np.uint32)
    four, six = (Segments(each.hi, each.lo, numbers[each.value]) for each in families)
    del families
    places = slots.places(kept, source_of[kept], facts)
    for reader in readers:
        reader.let_go()  # all of it was copied
    give_back()
    six = _without_weak(six, places.weak)
    found_names = {names[number] for number in np.unique(places.source).tolist()}
    answering = tuple(name for name in names if name in found_names)
    return Content(
        four=four,
        six=six,
        places=places,
        published=max(0, int(datetime.fromisoformat(snapshot.current.published_at).timestamp())),
        answering=answering,
        origins=licences.origins(snapshot.current, answering),
        dated=licences.oldest(snapshot.current, answering),
    )


def _without_weak(six: Segments, weak: Flags) -> Segments:
    """IPv6 without weak records of 6to4 addresses: there the places of the addresses that they hold answer."""
    if not weak.any():
        return six
    begin, end = SIX_TO_FOUR
    starts = np.array([0, begin >> 64, (end + 1) >> 64], np.uint64)
    inside = Segments(starts, np.zeros(3, np.uint64), np.array([0, 1, 0], np.uint32))
    hi, lo, (value, is_inside) = side_by_side(six, inside)
    is_weak = np.append(weak, False)[np.minimum(value, len(weak))]
    return Segments(hi, lo, np.where(is_weak & (is_inside == 1), np.uint32(EMPTY), value)).merged()


def _sources(readers: "Sequence[IndexReader]") -> tuple[str, ...]:
    """The names of all sources, the custom layer's first."""
    names: list[str] = []
    for reader in readers:
        names += [CUSTOM] if reader.layer == "custom" else (reader.sources or ("service",))
    return tuple(names)


class _Slots:
    """The locations of the files that answer, as if they stood in one: those of the default layer come first."""

    def __init__(self, readers: "Sequence[IndexReader]", names: tuple[str, ...], *, records: bool) -> None:
        """With ``records`` a location is there once for each of its records."""
        self.readers = readers
        self.names = names
        self._first: dict[str, int] = {}
        self._count = 0
        self.records = records
        #: The slot of each, if it is not its number.
        self._slot_of: dict[str, Array] = {}
        for reader in reversed(readers):
            self._first[reader.layer] = self._count
            self._count += reader.record_count if records else reader.location_count
            if records and (of_record := reader.arrays().get("record.slot")) is not None:
                self._slot_of[reader.layer] = of_record

    def _slots(self, reader: "IndexReader", numbers: Array) -> Array:
        """The slots of records; that of a weak one is `EMPTY`."""
        of_record = self._slot_of.get(reader.layer)
        slots = numbers if of_record is None else of_record[numbers]
        if np.any((slots >= reader.location_count) & (slots != EMPTY)):
            raise IndexDamagedError(f"{reader.path}: record.slot names no location: the file is damaged")
        return slots

    def values(self, stretch: Stretch) -> I64:
        """The number of what answers at each start; one past the last if nothing does."""
        found: I64 = np.full(len(stretch.lo), self._count, np.int64)
        for reader, own in reversed(list(zip(self.readers, stretch.slots, strict=True))):
            found = np.where(own >= 0, own + self._first[reader.layer], found)
        return found

    def sources(self) -> I64:
        """The number of the source of each location."""
        parts = [np.empty(0, np.int64)]
        for reader in reversed(self.readers):
            own = reader.arrays().get("loc.source")
            if reader.layer == "custom" or own is None:
                name = CUSTOM if reader.layer == "custom" else (reader.sources or ("service",))[0]
                numbers = np.full(reader.location_count, self.names.index(name), np.int64)
            else:
                first = self.names.index(reader.sources[0]) if reader.sources else 0
                if int(own.max(initial=0)) >= len(reader.sources):
                    raise IndexDamagedError(
                        f"{reader.path}: loc.source names a source that is not there: it is damaged"
                    )
                numbers = own.astype(np.int64) + first
            of_record = self._slot_of.get(reader.layer)
            if of_record is not None:
                first = self.names.index(reader.sources[0]) if reader.sources else 0
                weak = reader.arrays().get("record.source", np.zeros(1, np.uint8)).astype(np.int64) + first
                strong = np.append(numbers, 0)[np.minimum(of_record, reader.location_count)]
                numbers = np.where(of_record == EMPTY, weak, strong)
            parts.append(numbers)
        return np.concatenate(parts)

    def places(self, kept: Array, source: I64, facts: Sequence[str] = ()) -> Places:
        """Some of the locations, by their numbers, with some typed facts."""
        texts: dict[bytes, int] = {}
        text: dict[str, list[Array]] = {name: [np.empty(0, np.uint32)] for name in TEXT_NAMES}
        degrees: dict[str, list[Array]] = {name: [np.empty(0)] for name in DEGREES}
        locid, recorded = [np.empty(0, np.int64)], []
        is_weak, pending = [np.empty(0, np.bool_)], [np.empty(0, np.bool_)]
        for reader in reversed(self.readers):
            first = self._first[reader.layer]
            count = reader.record_count if self.records else reader.location_count
            own = kept[(kept >= first) & (kept < first + count)] - first
            arrays = reader.arrays()
            recorded.append((reader, own))
            own = self._slots(reader, own)
            weak = own == EMPTY
            is_weak.append(weak)
            own = np.where(weak, 0, own)
            locid.append(np.where(weak, 0, arrays["loc.locid"][own]))
            pending.append(arrays["loc.pending"][own] != 0 if "loc.pending" in arrays else np.zeros(len(own), np.bool_))
            for name in DEGREES:
                degrees[name].append(np.where(weak, np.nan, arrays[f"loc.{name}"][own]))
            columns = [np.where(weak, 0, arrays[f"loc.{name}"][own]) for name in TEXT_NAMES]
            numbers = _text_numbers(reader, columns, texts)
            for name, column in zip(TEXT_NAMES, numbers, strict=True):
                text[name].append(column)
        try:
            decoded = [octets.decode("utf-8") for octets in texts]
        except UnicodeDecodeError as error:
            raise IndexDamagedError("a text of the index is not UTF-8: the file is damaged") from error
        return Places(
            locid=np.concatenate(locid).astype(np.int64),
            weak=np.concatenate(is_weak),
            text={name: np.concatenate(columns) for name, columns in text.items()},
            texts=decoded,
            degrees={name: np.concatenate(columns) for name, columns in degrees.items()},
            pending=np.concatenate(pending),
            source=source,
            sources=self.names,
            parts=parts_of(recorded) if self.records else {},
            facts={name: _typed(_OF_PLACES[name], recorded) for name in facts},
        )


def _typed(fact: Fact, recorded: "Sequence[tuple[IndexReader, Array]]") -> Column:
    """A typed fact of some records of each file, one file after the other."""
    pieces = ((by_record(reader, fact), own) for reader, own in recorded)
    return column_of([(numbers[own], values) for (numbers, values), own in pieces])


def _text_numbers(reader: "IndexReader", columns: Sequence[Array], texts: dict[bytes, int]) -> list[Array]:
    """The number in ``texts``, which grows by what is used, of each text."""
    own = texts_of(reader)
    used = np.unique(np.concatenate(columns))
    if len(used) and not 0 <= int(used[0]) <= int(used[-1]) < len(own):
        raise IndexDamagedError(f"{reader.path}: a location names a text that is not there: the file is damaged")
    numbers = np.zeros(len(own), np.uint32)
    for number in used.tolist():
        numbers[number] = texts.setdefault(own[number], len(texts))
    return [numbers[column] for column in columns]
