"""``list``: the service's own list, saved as JSON (any form that the service may answer in) or one object a line."""

import re
from collections.abc import Iterable, Iterator

from geolookup.base.reasons import reason
from geolookup.files.opened import Member, Opened
from geolookup.model.errors import DataFileError, PullError, UpstreamAnswerError
from geolookup.model.types import field_values
from geolookup.sources.blocks import Batch, from_ranges
from geolookup.sources.elements import Elements
from geolookup.sources.places import PlaceFields
from geolookup.sources.protocol import Gathered, Kind, Request
from geolookup.upstream.decode import PulledGeolocation, RejectedRow, RowDecoder
from geolookup.upstream.listreader import ListReader

_CHUNK_BYTES = 256 << 10
_BLANKS = b" \t\r\n"
# Of a geolocation, or of one of its blocks: a long list of blocks may stand before the locid.
_KEY = re.compile(rb'"(?:locid|ipblocks|startip)"[ \t\r\n]*:')

_OF_PAGES = "Save all pages in one file: as one JSON array, or one geolocation a line"


def is_json(member: Member) -> bool:
    """True if the text begins as an array or an object."""
    return member.head.removeprefix(b"\xef\xbb\xbf").lstrip(_BLANKS)[:1] in (b"[", b"{")


def fits(member: Member) -> bool:
    """True if the text begins as JSON, and its beginning has a key that only geolocations have."""
    return is_json(member) and _KEY.search(member.head) is not None


def read(opened: Opened, request: Request, gathered: Gathered) -> Iterator[Batch]:
    """The default geolocations; custom ones are left out and counted.

    :raises DataFileError: if the text is not JSON, is cut short, or holds no list; if there are several lists
    :raises PullError: if a locid comes twice
    """
    members = opened.fitting(fits)
    if len(members) != 1:
        raise DataFileError(f"{opened.name}: holds {len(members)} files of JSON, and a list is one file")
    (member,) = members
    gathered.begin_file(member.inside)
    decoder = RowDecoder(by_people=True)
    elements = Elements()
    lines = _is_lines(member.head)
    noted = 0
    for rows in (_by_line if lines else _as_list)(member, decoder, request):
        default = [row for row in rows if row.locid > 0]
        gathered.custom_left_out += len(rows) - len(default)
        gathered.rows = decoder.geolocations_seen
        note_rejected(gathered, decoder.rejected[noted:], lines=lines)
        noted = len(decoder.rejected)
        if default:
            yield batch_of(opened.name, default, gathered, elements)
    gathered.keep(elements.kept())
    gathered.rows = decoder.geolocations_seen
    note_rejected(gathered, decoder.rejected[noted:], lines=lines)
    gathered.bad = decoder.rejected_geolocations + decoder.rejected_blocks


def _is_lines(head: bytes) -> bool:
    """True if the first line is a whole object, and another begins below it."""
    first, _, rest = head.removeprefix(b"\xef\xbb\xbf").lstrip(_BLANKS).partition(b"\n")
    return first.startswith(b"{") and first.rstrip(_BLANKS).endswith(b"}") and rest.lstrip(_BLANKS)[:1] == b"{"


def _as_list(member: Member, decoder: RowDecoder, _request: Request) -> Iterator[list[PulledGeolocation]]:
    reader = ListReader(decoder, of_pages=_OF_PAGES)
    try:
        with member.open() as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                yield reader.feed(chunk)
        yield reader.close()
    except UpstreamAnswerError as error:
        raise _of_file(member, error) from error


def _by_line(member: Member, decoder: RowDecoder, request: Request) -> Iterator[list[PulledGeolocation]]:
    rest = b""
    with member.open() as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            lines = (rest + chunk).split(b"\n")
            rest = lines.pop()
            if len(rest) > request.limits.line_bytes * 64:
                raise DataFileError(f"{member.name}: a line has more than {request.limits.line_bytes * 64} bytes")
            yield _decoded(lines, decoder)
    if rest.strip(_BLANKS):
        # A file that ends within a line was cut short: the others are JSON, too.
        try:
            yield decoder.batch(b"[" + rest.removeprefix(b"\xef\xbb\xbf") + b"]")
        except UpstreamAnswerError as error:
            raise DataFileError(f"{member.name}: was cut short: its last line is not JSON") from error


def _decoded(lines: list[bytes], decoder: RowDecoder) -> list[PulledGeolocation]:
    lines = [line.removeprefix(b"\xef\xbb\xbf") for line in lines if line.strip(_BLANKS)]
    try:
        return decoder.batch(b"[" + b",".join(lines) + b"]")
    except UpstreamAnswerError:
        rows = []
        for line in lines:
            try:
                rows += decoder.batch(b"[" + line + b"]")
            except UpstreamAnswerError:
                decoder.missed(1)
        return rows


def _of_file(member: Member, error: UpstreamAnswerError) -> DataFileError:
    return DataFileError(f"{member.name}: {str(error).replace('the answer', 'the file', 1)}")


KIND = Kind(
    name="list",
    summary="the service's list, saved as JSON or as one JSON object a line",
    fits=fits,
    read=read,
    own_locids=True,
    records=True,
)


def batch_of(name: str, geolocations: Iterable[PulledGeolocation], gathered: Gathered, elements: Elements) -> Batch:
    """The blocks of geolocations, whose places are added with their locids, and each with its record.

    The record of a place has the place's number.

    :raises PullError: if a locid has come before
    """
    ranges: list[tuple[int, int, int, int]] = []
    for found in geolocations:
        place = PlaceFields._make(field_values(found))
        try:
            number = gathered.places.add_numbered(found.locid, place)
        except ValueError as error:
            raise PullError(f"{name}: {reason(error)} in the list: nothing was published") from error
        parts = elements.says(place, found.more, custom=found.locid < 0)
        if gathered.records is not None:
            gathered.records.add(number, parts)
        ranges += [(block[0], block[1], block[2], number) for block in found.blocks]
    return from_ranges(ranges)


def note_rejected(gathered: Gathered, rejected: Iterable[RejectedRow], *, lines: bool) -> None:
    """Note the rows that the decoder left out; ``lines`` says that each geolocation stood in a line of its own."""
    for row in rejected:
        named = row.locid is None or row.reason.startswith("locid ")
        reason = row.reason if named else f"locid {row.locid}: {row.reason}"
        if row.block is not None:
            reason += f" in {row.block}"
        gathered.leave_out(row.position + 1, row.position + 1 if lines else None, reason)
