"""Whose answer differs between two pairs of layers: two generations, or what is served and what might be."""

import contextlib
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from geolookup.index.compare import Change, LayerPair, changed_answers
from geolookup.index.reader import IndexReader
from geolookup.lookup.snapshot import OpenLayer, match_in
from geolookup.model.addresses import parse
from geolookup.model.types import Match
from geolookup.state.base import files
from geolookup.state.edits.layer import Laid
from geolookup.state.publishing.publish import compile_overlay


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """How many addresses of each family have another answer, by the country before and after (None: not covered)."""

    ipv4: dict[Change, int]
    ipv6: dict[Change, int]

    def rows(self) -> list[tuple[str | None, str | None, int, int]]:
        """(before, after, IPv4 addresses, IPv6 addresses), the most first."""
        found = [(*change, self.ipv4.get(change, 0), self.ipv6.get(change, 0)) for change in {**self.ipv4, **self.ipv6}]
        return sorted(found, key=lambda row: (-row[2], -row[3], row[0] or "", row[1] or "", row[0] is None))

    def totals(self) -> tuple[int, int]:
        """IPv4 and IPv6 addresses altogether."""
        return sum(self.ipv4.values()), sum(self.ipv6.values())

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``: IPv6 counts are text, since many programs read numbers as floats."""
        v4, v6 = self.totals()
        return {
            "ipv4": v4,
            "ipv6": str(v6),
            "by_country": [
                {"from": came, "to": went, "ipv4": row_v4, "ipv6": str(row_v6)}
                for came, went, row_v4, row_v6 in self.rows()
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedAnswer:
    """An address whose answer differs; None if nothing covers it."""

    address: str
    before: Match | None
    after: Match | None


def impact(old: LayerPair, new: LayerPair) -> Impact:
    """Count, exactly, whose answer differs: some seconds for millions of blocks.

    :raises IndexDamagedError: if a file's segments or locations cannot be followed
    """
    found = changed_answers(old, new)
    return Impact(ipv4=found[4], ipv6=found[6])


class Comparison:
    """Answers addresses from two pairs of layers."""

    def __init__(self, old: LayerPair, new: LayerPair) -> None:
        self._sides = [tuple(OpenLayer(reader) for reader in layers) for layers in (old, new)]

    def answer(self, address: str) -> ChangedAnswer | None:
        """What an address answers on both sides, or None if that is the same geolocation, field by field.

        :raises InvalidAddressError: if it is malformed
        """
        family, value = parse(address)
        before, after = (match_in(base, custom, address, family, value) for base, custom in self._sides)
        places = [None if match is None else match.geolocation for match in (before, after)]
        return None if places[0] == places[1] else ChangedAnswer(address=address, before=before, after=after)


@contextlib.contextmanager
def compiled(layer: Iterable[Laid], generation: int) -> Iterator[IndexReader]:
    """A custom layer that is not published, as a file that goes away again."""
    with contextlib.ExitStack() as stack:
        with files.file_errors(tempfile.gettempdir()):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="geolookup-"))
        path = f"{folder}/overlay"
        compile_overlay(path, layer, generation=generation, sequence=0, edits=0, memory="")
        yield stack.enter_context(IndexReader.open(path))
