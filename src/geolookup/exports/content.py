"""The content of an export, read from one snapshot into memory: the segments of both families, and their places."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from geolookup.exports import licences
from geolookup.exports.segments import Segments, joined
from geolookup.index.compare import texts_of
from geolookup.index.flatten import EMPTY, I64, U32, Array, Flags
from geolookup.index.walk import walk
from geolookup.lookup.snapshot import Snapshot
from geolookup.model.errors import IndexDamagedError, SettingsError
from geolookup.model.fields import DEGREES, TEXT_NAMES

if TYPE_CHECKING:
    from geolookup.index.reader import IndexReader

#: The layers whose answers are exported; ``both`` is what lookups answer.
LayerChoice: TypeAlias = Literal["custom", "default", "both"]
LAYERS: tuple[LayerChoice, ...] = ("custom", "default", "both")
CUSTOM = "custom"
#: Told how far the work is: (done, all), in any unit.
Progress: TypeAlias = Callable[[int, int], None]


class Parts(NamedTuple):
    """One key of records: its distinct values, as octets of `mmdb`, and which of them each place has, -1 for none."""

    values: list[bytes]
    which: I64


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The places that some segment has, in columns: the default layer's first, then the custom layer's.

    ``text`` has for each field of text the number in ``texts`` of each place's; ``degrees`` has NaN if nothing is
    known; ``source`` the number in ``sources`` of the source that each comes from: the custom layer's is ``custom``.
    """

    locid: I64
    text: dict[str, I64]
    texts: list[str]
    degrees: dict[str, Array]
    pending: Flags
    source: I64
    sources: tuple[str, ...]
    parts: dict[str, Parts] = field(default_factory=dict)

    @property
    def weak(self) -> Flags:
        """Which of them are none: a record that says something, but not where its addresses are. They have no locid."""
        weak: Flags = self.locid == 0
        return weak

    def __len__(self) -> int:
        return len(self.locid)

    def column(self, name: str) -> list[str]:
        """A field of text of all places."""
        texts = self.texts
        return [texts[number] for number in self.text[name].tolist()]

    def layers(self) -> list[str]:
        """The layer of each place."""
        return ["custom" if self.sources[number] == CUSTOM else "default" for number in self.source.tolist()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """One snapshot's answers. The values of the segments are numbers of places.

    ``published`` is when the snapshot was published, in seconds since 1970; ``answering`` names the sources that some
    segment comes from, in their order, the custom layer first, and ``origins`` says of each the day of its data and
    whether its licence is known. ``dated`` is the oldest date or moment (ISO 8601, UTC) that one of them says, or None.
    """

    four: Segments
    six: Segments
    places: Places
    published: int
    answering: tuple[str, ...]
    origins: tuple[str, ...]
    dated: str | None

    def covered(self) -> int:
        """The number of segments that are not gaps."""
        return self.four.covered() + self.six.covered()


def collect(
    snapshot: Snapshot, *, layer: LayerChoice, source: str | None, progress: Progress, records: bool = False
) -> Content:
    """Everything that lookups in this snapshot answer, or what one layer or one source answers of it.

    With ``records`` a place comes once for each of its records, and with the parts of that.

    :raises SettingsError: if the source is not one of what is asked for
    :raises IndexDamagedError: if a file cannot be followed
    """
    readers = [snapshot.base.reader] if layer != "custom" else []
    if layer != "default":
        readers.insert(0, snapshot.custom.reader)
    names = _sources(readers)
    if source is not None and source not in names:
        raise SettingsError(f"unknown source {source!r:.60}: the sources of what is asked for are {', '.join(names)}")
    slots = _Slots(readers, names, records=records)
    source_of = slots.sources()
    wanted = np.ones(len(source_of), np.bool_) if source is None else source_of == names.index(source)
    total = 2 * sum(reader.segment_count_v4 + reader.segment_count_v6 for reader in readers) or 1
    done = 0
    families = []
    used = np.zeros(len(source_of) + 1, np.bool_)
    versions: tuple[Literal[4], Literal[6]] = (4, 6)
    for version in versions:
        pieces: list[Segments] = []
        for stretch in walk(readers, version, records=records):
            value = slots.values(stretch.slots)
            value[~np.append(wanted, False)[value]] = len(wanted)
            used[value] = True
            found = Segments(stretch.hi, stretch.lo, value.astype(np.uint32)).merged()
            pieces.append(found)
            done += len(value)
            progress(min(done, total), total)
        families.append(joined(*pieces))
    kept = np.flatnonzero(used[:-1])
    numbers: U32 = np.full(len(used), EMPTY, np.uint32)
    numbers[kept] = np.arange(len(kept), dtype=np.uint32)
    four, six = (Segments(each.hi, each.lo, numbers[each.value]).merged() for each in families)
    places = slots.places(kept, source_of[kept])
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
        self._readers = readers
        self._names = names
        self._first: dict[str, int] = {}
        self._count = 0
        self._records = records
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

    def values(self, slots: Sequence[I64]) -> I64:
        """The number of what answers, by the slots in each file; one past the last if nothing does."""
        found: I64 = np.full(len(slots[0]), self._count, np.int64)
        for reader, own in reversed(list(zip(self._readers, slots, strict=True))):
            found = np.where(own >= 0, own + self._first[reader.layer], found)
        return found

    def sources(self) -> I64:
        """The number of the source of each location."""
        parts = []
        for reader in reversed(self._readers):
            own = reader.arrays().get("loc.source")
            if reader.layer == "custom" or own is None:
                name = CUSTOM if reader.layer == "custom" else (reader.sources or ("service",))[0]
                numbers = np.full(reader.location_count, self._names.index(name), np.int64)
            else:
                first = self._names.index(reader.sources[0]) if reader.sources else 0
                if int(own.max(initial=0)) >= len(reader.sources):
                    raise IndexDamagedError(
                        f"{reader.path}: loc.source names a source that is not there: it is damaged"
                    )
                numbers = own.astype(np.int64) + first
            of_record = self._slot_of.get(reader.layer)
            if of_record is not None:
                first = self._names.index(reader.sources[0]) if reader.sources else 0
                weak = reader.arrays().get("record.source", np.zeros(1, np.uint8)).astype(np.int64) + first
                strong = np.append(numbers, 0)[np.minimum(of_record, reader.location_count)]
                numbers = np.where(of_record == EMPTY, weak, strong)
            parts.append(numbers)
        return np.concatenate(parts)

    def places(self, kept: Array, source: I64) -> Places:
        """Some of the locations, by their numbers."""
        texts: dict[bytes, int] = {}
        text: dict[str, list[Array]] = {name: [] for name in TEXT_NAMES}
        degrees: dict[str, list[Array]] = {name: [] for name in DEGREES}
        locid, pending, recorded = [], [], []
        for reader in reversed(self._readers):
            first = self._first[reader.layer]
            count = reader.record_count if self._records else reader.location_count
            own = kept[(kept >= first) & (kept < first + count)] - first
            arrays = reader.arrays()
            recorded.append((reader, own))
            own = self._slots(reader, own)
            weak = own == EMPTY
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
            text={name: np.concatenate(columns).astype(np.int64) for name, columns in text.items()},
            texts=decoded,
            degrees={name: np.concatenate(columns) for name, columns in degrees.items()},
            pending=np.concatenate(pending),
            source=source,
            sources=self._names,
            parts=_parts(recorded) if self._records else {},
        )


def _parts(recorded: "Sequence[tuple[IndexReader, Array]]") -> dict[str, Parts]:
    """The parts of some records of each file, one file after the other."""
    total = sum(len(numbers) for _, numbers in recorded)
    tables: dict[str, dict[bytes, int]] = {}
    columns: dict[str, I64] = {}
    begin = 0
    for reader, numbers in recorded:
        arrays = reader.arrays()
        for key in reader.record_keys:
            table = tables.setdefault(key, {})
            column = columns.setdefault(key, np.full(total, -1, np.int64))
            used, which = np.unique(arrays[f"part.{key}"][numbers], return_inverse=True)
            offsets, octets = arrays["parts.offsets"], arrays["parts.bytes"]
            if len(used) and int(used[-1]) >= len(offsets) - 1:
                raise IndexDamagedError(f"{reader.path}: part.{key} names no part: the file is damaged")
            new = np.full(len(used), -1, np.int64)
            for at, number in enumerate(used.tolist()):
                if number:
                    part = octets[offsets[number] : offsets[number + 1]].tobytes()
                    new[at] = table.setdefault(part, len(table))
            column[begin : begin + len(numbers)] = new[which.reshape(-1)]
        begin += len(numbers)
    return {key: Parts(list(table), columns[key]) for key, table in tables.items()}


def _text_numbers(reader: "IndexReader", columns: Sequence[Array], texts: dict[bytes, int]) -> list[Array]:
    """The number in ``texts``, which grows by what is used, of each text."""
    own = texts_of(reader)
    used = np.unique(np.concatenate(columns))
    if len(used) and not 0 <= int(used[0]) <= int(used[-1]) < len(own):
        raise IndexDamagedError(f"{reader.path}: a location names a text that is not there: the file is damaged")
    numbers = np.zeros(len(own), np.int64)
    for number in used.tolist():
        numbers[number] = texts.setdefault(own[number], len(texts))
    return [numbers[column] for column in columns]
