"""Turns JSON elements into geolocations; a bad row or block does not affect the others.

msgspec decodes a batch into typed structures; a batch that fails is read again without types, row by row. The rules are
section 1 of the service interface and section 3 of the behaviour: text decides, and numbers are only compared. Services
send whole numbers with quotes or without, and numbers where text belongs: both are read.
"""

import codecs
import math
import re
from _socket import AF_INET, AF_INET6, inet_pton
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import GenericAlias
from typing import Annotated, Any, Literal, TypeAlias, cast

import msgspec

from geolookup.base import plainjson
from geolookup.base.reasons import reason as reason_of
from geolookup.base.text import harmless
from geolookup.http.splitter import Splitter
from geolookup.model import addresses
from geolookup.model.addresses import is_netmask
from geolookup.model.errors import InvalidAddressError, UpstreamAnswerError
from geolookup.model.fields import FIELD_NAMES, FIELDS
from geolookup.model.types import PROVISIONAL_LOCID, field_values

#: The most characters that a text field may have.
MAX_TEXT = 65536

_WHOLE = re.compile(r"-?[0-9]{1,40}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?", re.ASCII)


#: A batch of more bytes has geolocations of very many blocks, or one of them: it is decoded in parts of this size.
_LARGE_BYTES = 1 << 20
_PART_BYTES = 1 << 18
#: The most rejected rows that are kept with their reasons; all are counted.
KEPT_REJECTIONS = 1000

#: family, first, last, startip, endip: the range as integers, and its ends as sent (an IPv4-mapped one as IPv4).
Block: TypeAlias = tuple[Literal[4, 6], int, int, str, str]

_Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=MAX_TEXT)] | int | float | None


class PulledGeolocation(msgspec.Struct, frozen=True):
    """A geolocation as the service lists it.

    Text is empty and a coordinate (degrees) None if the service has none. ``blocks`` holds a tuple for each good block:
    family (4 or 6), first and last address as integers, and the two as text. ``more`` has the other members of the
    element, none of which is null; None if there are none.
    """

    locid: int
    country: str
    region: str
    city: str
    postalcode: str
    latitude: float | None
    longitude: float | None
    dmacode: str
    areacode: str
    blocks: list[Block]
    more: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """A row or block that was left out, and why.

    ``locid`` is None if it could not be read; ``position`` counts the list's elements from 0; ``block`` is the
    block as sent, or None if the whole geolocation was left out. All text is safe to show.
    """

    locid: int | None
    position: int
    block: str | None
    reason: str


class _BadRowError(Exception):
    """The reason why a row or block is left out; only this module meets it."""


class _RawBlock(msgspec.Struct, gc=False):
    startip: str | None = None
    endip: str | None = None
    startipnum: int | str | None = None
    endipnum: int | str | None = None


class _RawRow(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    locid: int | str | None = None
    ipblocks: list[_RawBlock] | msgspec.UnsetType | None = msgspec.UNSET


class _RawLargeRow(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    locid: int | str | None = None
    ipblocks: msgspec.Raw = msgspec.Raw(b"")


_FIELDS = [(field.name, _Text if field.limit is None else float | str | None, None) for field in FIELDS]
_RawGeolocation = cast("type[_RawRow]", msgspec.defstruct("_RawGeolocation", _FIELDS, bases=(_RawRow,), gc=False))
#: One whose blocks are still text.
_RawLargeGeolocation = cast(
    "type[_RawLargeRow]", msgspec.defstruct("_RawLargeGeolocation", _FIELDS, bases=(_RawLargeRow,), gc=False)
)
#: The same for a batch with members that are no fields: those are read apart.
_RawOpenGeolocation = cast(
    "type[_RawRow]",
    msgspec.defstruct("_RawOpenGeolocation", [], bases=(_RawGeolocation,), gc=False, forbid_unknown_fields=False),
)
_RawOpenLargeGeolocation = cast(
    "type[_RawLargeRow]",
    msgspec.defstruct(
        "_RawOpenLargeGeolocation", [], bases=(_RawLargeGeolocation,), gc=False, forbid_unknown_fields=False
    ),
)
_KNOWN = frozenset(("locid", "ipblocks", *FIELD_NAMES))
#: What else an element says has so many bytes of JSON at most, and lists and objects so deep inside each other.
_MOST_MORE = 1 << 16
_DEEPEST_MORE = 32
_LIMITS = tuple((field.name, field.limit) for field in FIELDS)


# If the parser of C reads what we refuse, each address takes the long way through `addresses.parse`.
_STRICT_C_PARSER = addresses.c_parser_is_strict()
_from_bytes = int.from_bytes


class RowDecoder:
    """Decodes batches of elements, and counts what it sees.

    ``geolocations_seen`` counts elements, rejected ones too; ``blocks_seen`` the blocks of those that were not
    rejected, rejected blocks too; ``number_disagreements`` the blocks whose numbers are missing, quoted or wrong.
    ``rejected`` has the first thousand rejections, ``rejected_geolocations`` and ``rejected_blocks`` count all.
    """

    def __init__(self, *, by_people: bool = False) -> None:
        """``by_people`` is for a file: a block whose end is a netmask is bad there. A service means what it says."""
        self._by_people = by_people
        self._typed = msgspec.json.Decoder(GenericAlias(list, (_RawGeolocation,)))
        self._large = msgspec.json.Decoder(GenericAlias(list, (_RawLargeGeolocation,)))
        self._only_blocks = msgspec.json.Decoder(list[_RawBlock])
        self._members = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
        #: True once an element had more members than fields: then all are read for them.
        self._is_open = False
        self.geolocations_seen = 0
        self.blocks_seen = 0
        self.number_disagreements = 0
        self.rejected: list[RejectedRow] = []
        self.rejected_geolocations = 0
        self.rejected_blocks = 0

    def batch(self, text: bytes | bytearray) -> list[PulledGeolocation]:
        """The good geolocations of a JSON array.

        :raises UpstreamAnswerError: if the text is not JSON
        """
        if len(text) > _LARGE_BYTES:
            return self._large_batch(text)
        try:
            raws, more = self._decoded(self._typed, text)
            if not text.isascii():
                text.decode("utf-8")  # msgspec does not look into members that it skips
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return self.values(load_array(text))
        return self._rows(raws, more)

    def _decoded(self, decoder: Any, text: bytes | bytearray) -> tuple[list[Any], Sequence[Any]]:
        """The elements of an array, and for each what it has besides fields."""
        if not self._is_open:
            try:
                return decoder.decode(text), ()
            except msgspec.ValidationError:
                pass  # a member that is no field; if it is something else, the open kind refuses it as well
        is_large = decoder is self._large
        kind = GenericAlias(list, (_RawOpenLargeGeolocation if is_large else _RawOpenGeolocation,))
        raws: list[Any] = msgspec.json.decode(text, type=kind)
        members = self._members.decode(text)
        self._is_open = True
        return raws, [{key: raw for key, raw in each.items() if key not in _KNOWN} for each in members]

    def _large_batch(self, text: bytes | bytearray) -> list[PulledGeolocation]:
        """`batch`, a part of the blocks at a time: one geolocation may have a million, and each takes far more memory
        decoded than as text.
        """
        before = self._counts()
        try:
            raws, more = self._decoded(self._large, text)
            if not text.isascii():
                checker = codecs.getincrementaldecoder("utf-8")()
                for begin in range(0, len(text), _PART_BYTES):
                    checker.decode(text[begin : begin + _PART_BYTES])
                checker.decode(b"", final=True)
            return self._rows(raws, more)
        except (msgspec.MsgspecError, ValueError, RecursionError, UpstreamAnswerError):
            self._back_to(before)
            return self.values(load_array(text))

    def _counts(self) -> tuple[int, ...]:
        return (
            *(self.geolocations_seen, self.blocks_seen, self.number_disagreements),
            *(self.rejected_geolocations, self.rejected_blocks, len(self.rejected)),
        )

    def _back_to(self, counts: tuple[int, ...]) -> None:
        self.geolocations_seen, self.blocks_seen, self.number_disagreements = counts[:3]
        self.rejected_geolocations, self.rejected_blocks = counts[3:5]
        del self.rejected[counts[5] :]

    def values(self, values: list[Any]) -> list[PulledGeolocation]:
        """The good geolocations among values that are already decoded."""
        rows = []
        for value in values:
            position = self.geolocations_seen
            self.geolocations_seen += 1
            try:
                more = (
                    {key: each for key, each in value.items() if key not in _KNOWN} if isinstance(value, dict) else {}
                )
                rows.append(self._row(self._raw(value, position), position, _more(more)))
            except _BadRowError as error:
                self._reject_row(locid_of(value), position, str(error))
        return rows

    def missed(self, count: int) -> None:
        """Count elements that were skipped before it was known that they belong to a list of geolocations."""
        for _ in range(count):
            self._reject_row(None, self.geolocations_seen, "is not an object with a locid")
            self.geolocations_seen += 1

    def _rows(self, raws: Sequence[_RawRow | _RawLargeRow], more: Sequence[Any]) -> list[PulledGeolocation]:
        rows = []
        seen = self.geolocations_seen
        self.geolocations_seen += len(raws)
        for position, raw in enumerate(raws, seen):
            try:
                rows.append(self._row(raw, position, _more_of_text(more[position - seen]) if more else None))
            except _BadRowError as error:
                if isinstance(raw, _RawLargeRow):
                    for _ in self._blocks_of_text(raw.ipblocks):
                        pass  # what cannot be decoded sends all rows the long way, whose reason may be another
                self._reject_row(whole(raw.locid), position, str(error))
        return rows

    def _reject_row(self, locid: int | None, position: int, reason: str) -> None:
        self.rejected_geolocations += 1
        if len(self.rejected) < KEPT_REJECTIONS:
            self.rejected.append(RejectedRow(locid, position, None, reason))

    def _reject_block(self, locid: int | None, position: int, shown: str, reason: str) -> None:
        self.rejected_blocks += 1
        if len(self.rejected) < KEPT_REJECTIONS:
            self.rejected.append(RejectedRow(locid, position, harmless(shown, 120), reason))

    def _row(self, raw: _RawRow | _RawLargeRow, position: int, more: dict[str, Any] | None = None) -> PulledGeolocation:
        locid = whole(raw.locid)
        if locid is None:
            raise _BadRowError("locid is missing or not a whole number")
        if locid == 0 or locid <= PROVISIONAL_LOCID or locid >= 1 << 63:
            raise _BadRowError(f"locid {harmless(str(locid), 40)} is out of range")
        if locid < 0 and (raw.ipblocks is msgspec.UNSET or (isinstance(raw, _RawLargeRow) and not raw.ipblocks)):
            # A geolocation that was cut short is not one without blocks: a person's removal would be taken for done.
            raise _BadRowError("ipblocks is missing")
        values: list[Any] = [
            (value if type(value) is str else _text_of(value)) if most is None else _degrees(value, most, name)
            for value, (name, most) in zip(field_values(raw), _LIMITS, strict=True)
        ]
        if isinstance(raw, _RawLargeRow):
            parts = (self._blocks(part, locid, position) for part in self._blocks_of_text(raw.ipblocks))
            values.append(list(chain.from_iterable(parts)))
        else:
            values.append(self._blocks(raw.ipblocks, locid, position) if raw.ipblocks else [])
        return PulledGeolocation(locid, *values, *([] if more is None else [more]))

    def _blocks_of_text(self, raw: msgspec.Raw) -> Iterator[list[_RawBlock]]:
        text = memoryview(raw)
        if bytes(text[:4]) in (b"", b"null"):
            return
        if len(text) <= _PART_BYTES or bytes(text[:1]) != b"[":
            yield self._only_blocks.decode(text)
            return
        splitter = Splitter()
        for begin in range(0, len(text), _PART_BYTES):
            for piece in splitter.feed(bytes(text[begin : begin + _PART_BYTES])):
                yield self._only_blocks.decode(piece.text)
        splitter.close()

    def _blocks(self, raws: list[_RawBlock], locid: int, position: int) -> list[Block]:
        # The hot loop: it runs millions of times in a pull, so the common case is inlined here.
        self.blocks_seen += len(raws)
        blocks: list[Block] = []
        family: Literal[4, 6]
        for raw in raws:
            startip, endip = raw.startip, raw.endip
            try:
                if not _STRICT_C_PARSER or startip is None or endip is None:
                    raise ValueError
                if ":" in startip:
                    family = 6
                    first = _from_bytes(inet_pton(AF_INET6, startip))
                    last = _from_bytes(inet_pton(AF_INET6, endip))
                    if first >> 32 == 0xFFFF or last >> 32 == 0xFFFF:
                        raise ValueError
                else:
                    family = 4
                    first = _from_bytes(inet_pton(AF_INET, startip))
                    last = _from_bytes(inet_pton(AF_INET, endip))
            except (OSError, ValueError):
                try:
                    blocks.append(self._uncommon_block(raw))
                except _BadRowError as error:
                    self._reject_block(locid, position, _shown(raw), str(error))
                continue
            if first > last:
                self._reject_block(locid, position, f"{startip}-{endip}", "startip comes after endip")
                continue
            if self._by_people and family == 4 and first != last and is_netmask(last):
                self._reject_block(locid, position, f"{startip}-{endip}", "endip is a netmask, not an address")
                continue
            if first != raw.startipnum or last != raw.endipnum:
                self.number_disagreements += 1
            blocks.append((family, first, last, startip, endip))
        return blocks

    def _uncommon_block(self, raw: _RawBlock) -> Block:
        """A block without text, with an IPv4-mapped end, or a bad one."""
        startip, endip = raw.startip, raw.endip
        if not startip and not endip:
            return _block_from_numbers(raw)
        if not startip or not endip:
            raise _BadRowError("startip is missing" if not startip else "endip is missing")
        try:
            family, first = addresses.parse(startip)
            other, last = addresses.parse(endip)
        except InvalidAddressError as error:
            raise _BadRowError(harmless(str(error))) from error
        if family != other:
            raise _BadRowError("startip and endip are not of one family")
        if first > last:
            raise _BadRowError("startip comes after endip")
        mapped = 0
        if family == 4 and (":" in startip or ":" in endip):
            mapped = 0xFFFF << 32  # the provider may number such addresses either way
            startip, endip = addresses.to_text(4, first), addresses.to_text(4, last)
        if raw.startipnum not in (first, mapped + first) or raw.endipnum not in (last, mapped + last):
            self.number_disagreements += 1
        return family, first, last, startip, endip

    def _raw(self, value: Any, position: int) -> _RawRow:
        """A decoded element as msgspec would have given it, without its bad blocks."""
        if not isinstance(value, dict):
            raise _BadRowError("is not an object")
        raw = _RawGeolocation(locid=whole(value.get("locid")))
        for name, most in _LIMITS:
            member = value.get(name)
            if most is None:
                member = _checked_text(member, name)
            elif isinstance(member, bool) or not isinstance(member, int | float | str | None):
                raise _BadRowError(f"{name} is not a number")
            setattr(raw, name, member)
        if (blocks := value.get("ipblocks", msgspec.UNSET)) is msgspec.UNSET:
            return raw
        raw.ipblocks = []
        if blocks is None:
            return raw
        if not isinstance(blocks, list):
            raise _BadRowError("ipblocks is not a list")
        bad: list[tuple[str, str]] = []
        for block in blocks:
            try:
                raw.ipblocks.append(_raw_block(block))
            except _BadRowError as error:
                bad.append((harmless(repr(block), 120), str(error)))
        # The row itself is checked first: a rejected geolocation's blocks are not counted as well.
        self._row(msgspec.structs.replace(raw, ipblocks=None), position)
        self.blocks_seen += len(bad)
        for shown, reason in bad:
            self._reject_block(raw.locid, position, shown, reason)  # type: ignore[arg-type] # whole, by _row
        return raw


def _more_of_text(members: Mapping[str, msgspec.Raw]) -> dict[str, Any] | None:
    """The members of an element that are no fields.

    :raises _BadRowError: if it is too long, or too deep
    """
    if not members:
        return None
    if sum(len(memoryview(raw)) for raw in members.values()) > _MOST_MORE:
        raise _BadRowError(_TOO_MUCH)
    try:
        return _more({key: msgspec.json.decode(raw) for key, raw in members.items()})
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _BadRowError("its members that are no fields cannot be read") from error


def _more(members: Mapping[str, Any]) -> dict[str, Any] | None:
    """As `_more_of_text`, of members that are decoded."""
    found = {key: value for key, value in members.items() if value is not None}
    if not found:
        return None
    try:
        if len(msgspec.json.encode(found)) > _MOST_MORE:
            raise _BadRowError(_TOO_MUCH)
    except (ValueError, OverflowError, RecursionError) as error:
        raise _BadRowError("its members that are no fields hold what cannot be kept") from error
    if _depth(found) > _DEEPEST_MORE:
        raise _BadRowError(f"its members that are no fields are nested deeper than {_DEEPEST_MORE}")
    return found


def _depth(value: Any) -> int:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if items is None else 1 + max(map(_depth, items), default=0)


_TOO_MUCH = f"its members that are no fields have more than {_MOST_MORE} bytes"


def load_array(text: bytes | bytearray) -> list[Any]:
    """The values of a JSON array, without types: numbers of any size, lone surrogates kept for the rows' checks.

    :raises UpstreamAnswerError: if it is not JSON, or holds an integer too long to be read
    """
    try:
        values = plainjson.loads(text)
    except ValueError as error:
        if "integer string conversion" in str(error):
            raise UpstreamAnswerError("the answer holds an integer of thousands of digits") from error
        raise UpstreamAnswerError(f"the answer is not JSON: {harmless(reason_of(error))}") from error
    assert isinstance(values, list)
    return values


def locid_of(value: object) -> int | None:
    """The locid of an untyped element, None if there is none."""
    return whole(value.get("locid")) if isinstance(value, dict) else None


def whole(value: object) -> int | None:
    """A whole number, or a quoted one; None for anything else."""
    if type(value) is int:
        return value
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    return None


def _text_of(value: str | int | float | None) -> str:
    """A text field, empty if there is none; some services send numbers.

    :raises _BadRowError: if it is a number of thousands of digits
    """
    if type(value) is str:
        return value
    if value is None:
        return ""
    try:
        return str(value)
    except ValueError as error:
        raise _BadRowError("a text field is a number too long to be text") from error


def _checked_text(value: object, name: str) -> str | int | float | None:
    """A text field that no type was given for, as it was sent.

    :raises _BadRowError: if it is not text, or not text that can be kept
    """
    if value is None:
        return None
    if isinstance(value, str):
        if len(value) > MAX_TEXT:
            raise _BadRowError(f"{name} has more than {MAX_TEXT} characters")
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            raise _BadRowError(f"{name} has half of a surrogate pair")
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
        raise _BadRowError(f"{name} is not text")
    return value


def _is_finite(value: int | float) -> bool:
    return isinstance(value, int) or math.isfinite(value)


def _degrees(value: int | float | str | None, most: int, name: str) -> float | None:
    """A coordinate, None if there is none; ``most`` is the largest that ``name`` may have, north or east.

    :raises _BadRowError: if it is not a number, or is too large
    """
    if value is None or value == "":
        return None
    if isinstance(value, str):
        if not _DECIMAL.fullmatch(value):
            raise _BadRowError(f"{name} is not a number: {harmless(value, 40)!r}")
        value = float(value)
    if not -most <= value <= most:
        raise _BadRowError(f"{name} is not between -{most} and {most}")
    return float(value)


def _raw_block(value: object) -> _RawBlock:
    if not isinstance(value, dict):
        raise _BadRowError("is not an object")
    startip, endip = value.get("startip"), value.get("endip")
    if not isinstance(startip, str | None) or not isinstance(endip, str | None):
        raise _BadRowError("startip or endip is not text")
    startnum, endnum = value.get("startipnum"), value.get("endipnum")
    return _RawBlock(
        startip,
        endip,
        startnum if isinstance(startnum, int | str) and not isinstance(startnum, bool) else None,
        endnum if isinstance(endnum, int | str) and not isinstance(endnum, bool) else None,
    )


def _block_from_numbers(raw: _RawBlock) -> Block:
    first, last = whole(raw.startipnum), whole(raw.endipnum)
    if first is None or last is None:
        raise _BadRowError("has neither addresses nor two whole numbers")
    if not (0 <= first <= addresses.IPV4_MAX and 0 <= last <= addresses.IPV4_MAX):
        raise _BadRowError("has numbers only, and they are not IPv4 addresses")
    if first > last:
        raise _BadRowError("startipnum comes after endipnum")
    return 4, first, last, addresses.to_text(4, first), addresses.to_text(4, last)


def _shown(raw: _RawBlock) -> str:
    startip = raw.startipnum if raw.startip is None else raw.startip
    endip = raw.endipnum if raw.endip is None else raw.endip
    return f"{str(startip)[:60]}-{str(endip)[:60]}"
