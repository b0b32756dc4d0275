"""The one protocol of every kind of source: what it is given, and the blocks, places and counts that it hands out.

A kind is a `Kind`: a name, a test of what is in a file, and a function that reads an `Opened` input. That function
is a generator of `Batch`, blocks in columns of numpy arrays. Places, counts and bad rows go into the `Gathered` that it
is given. There is no Python object for a single block: a city file has 15 million of them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from geolookup.base.text import harmless
from geolookup.files.opened import Member, Opened
from geolookup.files.streams import Limits
from geolookup.model.errors import PullError
from geolookup.model.fields import FIELD_NAMES
from geolookup.model.reports import Progress, unwatched
from geolookup.sources.blocks import Batch, NetworkBatch
from geolookup.sources.places import Places
from geolookup.sources.recorded import Records

#: The most bad rows that are kept with their reasons; all are counted.
KEPT_BAD_ROWS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRow:
    """A row that was left out, and why, in text that is fit to be shown.

    ``number`` counts the rows of its file from 1, and ``line`` its lines, or is None if the file has no lines. ``file``
    names the file inside an archive or folder, or the sheet of a workbook, and is empty if the source is one file.
    ``word`` is what a line is called: a sheet has rows.
    """

    number: int
    line: int | None
    reason: str
    file: str = ""
    word: str = "line"

    def __str__(self) -> str:
        place = f"row {self.number}" if self.line is None else f"{self.word} {self.line}"
        return f"{self.file}, {place}: {self.reason}" if self.file else f"{place}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptKey:
    """A key of a file's records, or a column of a table: where it is kept, and how many distinct records have it.

    ``kept_as`` is a path in the shape of GeoIP2's records, or empty; then ``reason`` says why it is not kept.
    """

    key: str
    kept_as: str
    records: int
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class Gathered:
    """The findings of a reading so far: complete when the last batch was handed out.

    ``files`` are those of an archive or folder that were read; others in it are of no use to the kind. ``expected`` is
    how many rows there will be, or None if that is not known before the end; it counts what must be decoded before them
    too, of which ``decoded`` is done. ``tell`` is told both before there are batches, for those who wait.

    ``layer`` is the only one that is to be fed, or empty.
    ``networks`` is what a source says of networks: their facts. Blocks of them come in batches of their own
    (`NetworkBatch`), of which ``network_blocks`` were handed out.

    ``records`` is what a source says of its places besides our fields, or None if its kind says nothing more; ``keys``
    are those of its records, or the columns
    that hold more than our fields; ``fields`` are the columns of our fields, by our names, if ``keys`` has not all.
    ``rows`` counts rows (networks of an MMDB; geolocations of a list), bad ones too; ``blocks`` what was handed out;
    ``masks`` those of the blocks that are known to have no location; ``rows_without_location`` the rows that cover
    nothing; ``custom_left_out`` a list's custom geolocations. ``bad_rows`` has the first thousand, ``bad`` counts all.
    ``columns_not_read`` are the columns of a table that hold none of our fields.
    ``about`` is what the file says about itself (type, description, licence), by name. ``dated`` is the date or moment
    (ISO 8601) that it says its data are of, of several files the oldest that any of them says; None if none does.
    """

    layer: str = ""
    places: Places = field(default_factory=Places)
    records: Records | None = None
    networks: Records = field(default_factory=Records)
    network_blocks: int = 0
    keys: list[KeptKey] = field(default_factory=list)
    fields: Mapping[str, str] = field(default_factory=lambda: {name: name for name in FIELD_NAMES})
    rows: int = 0
    blocks: int = 0
    masks: int = 0
    rows_without_location: int = 0
    custom_left_out: int = 0
    bad: int = 0
    bad_rows: list[BadRow] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    about: dict[str, str] = field(default_factory=dict)
    dated: str | None = None
    files: list[str] = field(default_factory=list)
    columns_not_read: list[str] = field(default_factory=list)
    expected: int | None = None
    decoded: int = 0
    tell: Progress = unwatched
    _file: str = ""
    _word: str = "line"
    _rows_of_earlier_files: int = 0

    def begin_file(self, name: str, word: str = "line") -> None:
        """Bad rows from now on belong to this file of an archive or folder; ``word`` is what a line of it is called."""
        self._file = name
        self._word = word
        self.files.append(name)
        self._rows_of_earlier_files = self.rows

    def keep(self, keys: Iterable[KeptKey]) -> None:
        """Add the keys of one more file to those of the files before it."""
        found = {(each.key, each.kept_as, each.reason): each for each in self.keys}
        for key in map(self.in_layer, keys):
            same = key.key, key.kept_as, key.reason
            found[same] = replace(key, records=key.records + (found[same].records if same in found else 0))
        self.keys = sorted(found.values(), key=lambda each: (-each.records, each.key, each.kept_as))

    def in_layer(self, key: KeptKey) -> KeptKey:
        """The key, as not kept if it is of a layer that the source shall not feed."""
        is_fact = key.kept_as.startswith("traits.")
        if not key.kept_as or not self.layer or is_fact == (self.layer == "network"):
            return key
        layer = "network" if is_fact else "place"
        return replace(key, kept_as="", reason=f'it is of the {layer}, and the source has `layer = "{self.layer}"`')

    def seal(self) -> None:
        """Say that no more places, records and networks come: frees what only adding needs."""
        self.places.seal()
        self.networks.seal()
        if self.records is not None:
            self.records.seal()

    def says_date(self, text: str) -> bool:
        """Take a date or moment (ISO 8601) that a file says its data are of; false if it is none."""
        found = _moment(text)
        if found is not None:
            self.dated = found if self.dated is None else min(self.dated, found)
        return found is not None

    def leave_out(self, number: int, line: int | None, reason: str, *, count: int = 1) -> None:
        """Count bad rows: ``number`` is the count that ``rows`` had with the first of them."""
        self.bad += count
        if len(self.bad_rows) < KEPT_BAD_ROWS:
            row = BadRow(
                number=number - self._rows_of_earlier_files,
                line=line,
                reason=harmless(reason),
                file=self._file,
                word=self._word,
            )
            self.bad_rows.append(row)

    def bad_in_order(self) -> list[BadRow]:
        """The bad rows that were kept, by file and row: they are found by what is wrong with them, chunk by chunk."""
        return sorted(self.bad_rows, key=lambda row: (row.file, row.number))

    def check(self, name: str, limits: Limits) -> None:
        """Refuse a source that must not be published, once all was read.

        :raises PullError: if too many rows are bad, or if no good row is there
        """
        allowed = limits.bad_rows_allowed(self.rows)
        example = f"; the first: {self.bad_in_order()[0]}" if self.bad_rows else ""
        if self.bad > allowed:
            raise PullError(
                f"{name}: {self.bad} of {self.rows} rows are bad, more than {allowed}{example}: nothing was published"
            )
        # Geolocations of a list may have no blocks yet; elsewhere a place without any is of a bad row.
        if not (len(self.places) if self.places.locids is not None else self.blocks or self.network_blocks):
            raise PullError(f"{name}: there is not one good row with a location in it{example}: nothing was published")


def _moment(text: str) -> str | None:
    """A date as YYYY-MM-DD, a moment in UTC, so that text sorts by time; None if it is neither."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    if len(text) <= len("YYYY-MM-DD"):
        return found.date().isoformat()
    found = found.replace(tzinfo=UTC) if found.tzinfo is None else found
    try:
        return found.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    except OverflowError:  # in the first or last hours of the calendar
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The limits of a reading; ``fields`` maps our field names to keys or columns of the file.

    ``layer`` is the only one that the file shall feed, ``place`` or ``network``; if empty, its content decides.
    """

    layer: str = ""
    limits: Limits = field(default_factory=Limits)
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of source.

    ``summary`` is one line for people. ``fits`` says whether a file, which may be one of several, is of this kind;
    it reads no further than its beginning (and an MMDB's end). ``own_locids`` is true if its places have numbers of
    their own.
    ``maps_fields`` is true if it takes `Request.fields`. With ``records``, its batches have the numbers of
    `Gathered.records` in place of those of places.
    """

    name: str
    summary: str
    fits: Callable[[Member], bool]
    read: Callable[[Opened, Request, Gathered], Iterator[Batch]]
    own_locids: bool = False
    maps_fields: bool = False
    records: bool = False


class Reading:
    """A source that is being read: a context manager.

    ``kind`` is its kind's name, ``name`` the input's for messages, ``names`` those of the files in an archive or
    folder, ``limits`` what bounds it, and ``gathered`` what was found so far.
    """

    def __init__(self, kind: Kind, opened: Opened, request: Request) -> None:
        self.kind = kind.name
        self.own_locids = kind.own_locids
        self.name = opened.name
        self.names = tuple(member.inside for member in opened.members if member.inside)
        self.limits = request.limits
        records = Records() if kind.records else None
        self.gathered = Gathered(layer=request.layer, places=Places(numbered=kind.own_locids), records=records)
        self._opened = opened
        self._request = request
        self._batches = kind.read(opened, request, self.gathered)

    def batches(self, *, lenient: bool = False, records: bool = False, networks: bool = False) -> Iterator[Batch]:
        """The blocks in the order of their rows, some ten thousands at a time.

        A batch's place numbers are positions in ``gathered.places``, which has all of them when the batch arrives. With
        ``lenient``, too many bad rows are not an error: for a person who wants to see all of them. With ``records``
        they are positions in ``gathered.records``, if there are any, and blocks of weak ones are among them. With
        ``networks``, batches of those are among them too (`NetworkBatch`).

        :raises DataFileError: if the input is damaged, cut short or larger than the limits: nothing of it may be used
        :raises PullError: at the end, if too many rows are bad, or none is good: nothing of it may be used
        """
        for batch in self._batches:
            if not len(batch):
                continue
            if isinstance(batch, NetworkBatch):
                if self._request.layer != "place":
                    self.gathered.network_blocks += len(batch)
                    if networks:
                        yield batch
                continue
            if self._request.layer == "network":
                continue
            recorded = self.gathered.records
            strong = batch if recorded is None else recorded.apart(batch)[0]
            self.gathered.blocks += len(strong)
            self.gathered.masks += strong.masks()
            yield batch if records or recorded is None else recorded.as_places(strong)
        if not lenient:
            self.gathered.check(self.name, self.limits)

    def close(self) -> None:
        """Close the input; harmless when repeated."""
        self._opened.close()

    def __enter__(self) -> "Reading":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
