"""Cuts a streamed JSON text into slices of whole array elements, at the speed of memory.

It looks only at the structure: which quotes open and close strings, and how deep the brackets are nested. The decoder
of the slices finds out whether they are JSON; the slices are cut so that all of them are valid if and only if the whole
text is. That is why brackets are counted and not matched: the decoder sees `[}`.

Three shapes of text are told apart (RFC 8259 for the grammar): an array, whose elements are handed out; an object,
where the elements of each array that is a member's value are handed out; the rest of an object, its shell, is kept and
handed out at the end. ``ipblocks`` stays in the shell: there the object itself is a geolocation.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from geolookup.base import plainjson
from geolookup.base.text import harmless, unchanged
from geolookup.model.errors import UpstreamAnswerError

#: The most bytes that one element may have, and the most levels that brackets may be nested in it.
MAX_ELEMENT_BYTES = 256 << 20
MAX_DEPTH = 64

_BLANKS = b" \t\n\r"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_QUOTE, _BACKSLASH, _OPENING, _CLOSING = 0x22, 0x5C, 0x7B, 0x7D
# The name of the member whose value begins where the text ends; the lookback is far longer than any name that matters.
_NAME = re.compile(rb'("(?:[^"\\]|\\.)*")[ \t\n\r]*:[ \t\n\r]*\[\Z', re.DOTALL)
_NAME_LOOKBACK = 4096
_SOMETHING = re.compile(rb"[^ \t\n\r]")

_Integers = npt.NDArray[np.int64]


class Piece(NamedTuple):
    """A JSON array of one or more whole elements; ``array`` numbers the array that they stood in, from 0."""

    array: int
    text: bytearray


class _Strings:
    """Finds which bytes are inside JSON strings, across chunks that may be cut anywhere."""

    def __init__(self) -> None:
        self._inside = False
        self._escaped = False  # a backslash before the next chunk's first byte

    def brackets(self, chunk: bytes) -> tuple[_Integers, npt.NDArray[np.bool_]]:
        """The positions of the brackets and braces outside of strings, and which of them open."""
        data = np.frombuffer(chunk, np.uint8)
        quotes = data == _QUOTE
        if self._escaped or b"\\" in chunk:
            self._drop_escaped(data, quotes)
        inside = self._inside_words(quotes)
        lowered = data | 0x20  # makes braces of brackets
        positions = np.flatnonzero((lowered == _OPENING) | (lowered == _CLOSING))
        outside = (inside[positions >> 6] >> (positions & 63).astype(np.uint64)) & np.uint64(1) == 0
        positions = positions[outside]
        return positions, lowered[positions] == _OPENING

    def _drop_escaped(self, data: npt.NDArray[np.uint8], quotes: npt.NDArray[np.bool_]) -> None:
        slashes = np.flatnonzero(data == _BACKSLASH)
        if self._escaped:
            quotes[0] = False
            if slashes.size and slashes[0] == 0:
                slashes = slashes[1:]
        self._escaped = False
        if not slashes.size:
            return
        breaks = np.flatnonzero(np.diff(slashes) != 1)
        starts = slashes[np.concatenate(([0], breaks + 1))]
        ends = slashes[np.concatenate((breaks, [slashes.size - 1]))]
        after = ends[(ends - starts) % 2 == 0] + 1  # runs of odd length escape what follows them
        if after.size and after[-1] == data.size:
            self._escaped = True
            after = after[:-1]
        quotes[after] = False

    def _inside_words(self, quotes: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint64]:
        """One bit for each byte, 64 in a word: whether the number of quotes up to and including it is odd."""
        packed = np.packbits(quotes, bitorder="little")
        words = np.zeros(-(-packed.size // 8) * 8, np.uint8)
        words[: packed.size] = packed
        bits = words.view("<u8").astype(np.uint64)
        for shift in (1, 2, 4, 8, 16, 32):
            bits ^= bits << np.uint64(shift)
        odd = np.bitwise_xor.accumulate(bits >> np.uint64(63))
        carried = np.concatenate((np.zeros(1, np.uint64), odd[:-1])) ^ np.uint64(self._inside)
        bits ^= np.uint64(0) - carried
        self._inside ^= bool(odd[-1])
        return bits


class _Elements:
    """The text between an array's brackets that has not been handed out yet.

    It grows in one place, and is handed out as it is: an element may have a good part of a gigabyte.
    """

    def __init__(self, number: int, max_bytes: int) -> None:
        self.number = number
        self._max_bytes = max_bytes
        self._text = bytearray(b"[")
        self._begun = False

    def add(self, text: bytes) -> None:
        if len(self._text) - 1 + len(text) > self._max_bytes:
            raise UpstreamAnswerError(f"the answer has an element of more than {self._max_bytes} bytes")
        self._text += text

    def cut(self, *, last: bool) -> list[Piece]:
        """The text since the last cut, as one piece; none if an array ends without further elements."""
        text, self._text = self._text, bytearray(b"[")
        begin = _begin(text, 1)
        if begin == len(text) and last:
            return []
        if self._begun:
            # A slice begins with the comma that the one before it left.
            if not text.startswith(b",", begin):
                raise UpstreamAnswerError("the answer is not JSON: a comma is missing between two elements")
            begin = _begin(text, begin + 1)
            if begin == len(text):
                raise UpstreamAnswerError("the answer is not JSON: nothing stands after a comma")
        self._begun = True
        del text[1:begin]
        text += b"]"
        return [Piece(self.number, text)]


def _begin(text: bytearray, at: int) -> int:
    """The position of the first text that is not blank, from ``at`` on."""
    found = _SOMETHING.search(text, at)
    return len(text) if found is None else found.start()


class Splitter:
    """Feed it the chunks of one JSON text, of any size, then `close` it.

    It holds the text of one element and one chunk, and an object's shell. ``is_object`` is known from the first byte
    on (None before); ``arrays`` counts the arrays met so far, ``empty_arrays`` those that ended without an element;
    ``shell`` is the object's text with those arrays emptied, complete after `close`.

    :raises UpstreamAnswerError: from `feed` and `close`, if the text cannot be JSON, is cut short, has something after
        its end, or exceeds a limit
    """

    def __init__(
        self,
        *,
        max_element_bytes: int = MAX_ELEMENT_BYTES,
        max_depth: int = MAX_DEPTH,
        clean: Callable[[str], str] = unchanged,
    ) -> None:
        self._clean = clean
        self._max_element_bytes = max_element_bytes
        self._max_depth = max_depth
        self._strings = _Strings()
        self._depth = 0
        self._head = b""
        self._mark_passed = False
        self._elements: _Elements | None = None
        self._ended = False
        self._any_of_this_array = False
        self.is_object: bool | None = None
        self.arrays = 0
        self.empty_arrays = 0
        self.shell = bytearray()

    def feed(self, chunk: bytes) -> list[Piece]:
        """The elements that this chunk completes."""
        if self.is_object is None:
            chunk = self._begin(chunk)
        if not chunk:
            return []
        if self._ended:
            self._check_after(chunk)
            return []
        positions, opens = self._strings.brackets(chunk)
        depths = np.cumsum(np.where(opens, 1, -1)) + self._depth
        end = len(chunk)
        closings = np.flatnonzero(depths == 0)
        if closings.size:
            last = int(closings[0]) + 1
            positions, opens, depths = positions[:last], opens[:last], depths[:last]
            end = int(positions[-1]) + 1
            self._ended = True
        if depths.size:
            if int(depths.max()) > self._max_depth:
                raise UpstreamAnswerError(f"the answer is nested more than {self._max_depth} levels deep")
            self._depth = int(depths[-1])
        walk = self._walk_object if self.is_object else self._walk_array
        pieces = walk(chunk[:end], positions, opens, depths)
        if end < len(chunk):
            self._check_after(chunk[end:])
        return pieces

    def close(self) -> None:
        """Say that no more text comes: the JSON text must be complete."""
        if self.is_object is None:
            raise UpstreamAnswerError("the answer is empty")
        if not self._ended:
            raise UpstreamAnswerError("the answer was cut short: its closing bracket is missing")

    def _begin(self, chunk: bytes) -> bytes:
        text = self._head + chunk
        if not self._mark_passed:
            # RFC 8259 section 8.1 lets a reader ignore a byte order mark, and .NET services send one.
            if len(text) < 3 and _BYTE_ORDER_MARK.startswith(text):
                self._head = text
                return b""
            text = text.removeprefix(_BYTE_ORDER_MARK)
            self._mark_passed = True
        self._head = b""
        text = text.lstrip(_BLANKS)
        if not text:
            return b""
        if text[:1] not in (b"[", b"{"):
            shown = harmless(self._clean(text[:4096].decode("utf-8", "replace")), 80)
            raise UpstreamAnswerError(f"the answer is not a JSON list: it begins with {shown!r}")
        self.is_object = text[:1] == b"{"
        return text

    def _check_after(self, text: bytes) -> None:
        if text.strip(_BLANKS):
            raise UpstreamAnswerError("the answer is not JSON: something stands after its end")

    def _walk_array(
        self, chunk: bytes, positions: _Integers, opens: npt.NDArray[np.bool_], depths: _Integers
    ) -> list[Piece]:
        at = 0
        if self._elements is None:
            self._elements = self._open_array()
            at = 1
        if self._ended:
            if chunk[-1:] != b"]":
                raise UpstreamAnswerError("the answer is not JSON: an array ends with a brace")
            return self._close_array(self._elements, chunk[at:-1])
        return self._cut_elements(self._elements, chunk, at, positions[~opens & (depths == 1)])

    def _walk_object(
        self, chunk: bytes, positions: _Integers, opens: npt.NDArray[np.bool_], depths: _Integers
    ) -> list[Piece]:
        pieces: list[Piece] = []
        at = 0
        turns = np.flatnonzero(np.where(opens, depths == 2, depths <= 1))
        for turn in turns.tolist():
            here = int(positions[turn]) + 1
            if opens[turn]:
                if chunk[here - 1 : here] == b"[":
                    self._add_to_shell(chunk[at:here])
                    at = here
                    if self._member_name() != "ipblocks":
                        self._elements = self._open_array()
            elif self._elements is not None:
                pieces += self._close_array(self._elements, chunk[at : here - 1])
                self._elements = None
                at = here - 1  # the shell gets the closing byte as it is: a brace here is for its decoder to refuse
        if self._elements is None:
            self._add_to_shell(chunk[at:])
            return pieces
        return pieces + self._cut_elements(self._elements, chunk, at, positions[~opens & (depths == 2)])

    def _open_array(self) -> _Elements:
        self.arrays += 1
        self._any_of_this_array = False
        return _Elements(self.arrays - 1, self._max_element_bytes)

    def _close_array(self, elements: _Elements, text: bytes) -> list[Piece]:
        elements.add(text)
        pieces = elements.cut(last=True)
        if not pieces and not self._any_of_this_array:
            self.empty_arrays += 1
        return pieces

    def _cut_elements(self, elements: _Elements, chunk: bytes, at: int, ends: _Integers) -> list[Piece]:
        cut = int(ends[-1]) + 1 if ends.size else 0
        if cut <= at:
            elements.add(chunk[at:])
            return []
        elements.add(chunk[at:cut])
        pieces = elements.cut(last=False)
        elements.add(chunk[cut:])
        self._any_of_this_array = True
        return pieces

    def _add_to_shell(self, text: bytes) -> None:
        self.shell += text
        if len(self.shell) > self._max_element_bytes:
            raise UpstreamAnswerError(f"the answer's object has more than {self._max_element_bytes} bytes of its own")

    def _member_name(self) -> object:
        found = _NAME.search(self.shell[-_NAME_LOOKBACK:])
        if not found:
            raise UpstreamAnswerError("the answer is not JSON, or has a member whose name cannot be read")
        try:
            return plainjson.loads(bytes(found[1]))
        except ValueError as error:
            raise UpstreamAnswerError("the answer has a member whose name cannot be read") from error
