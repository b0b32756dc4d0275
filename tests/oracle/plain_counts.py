"""The oracle of counts: a Counter over single lookups, of the addresses that annotate finds line by line."""

from collections import Counter
from collections.abc import Iterable, Sequence
from io import BytesIO

from geolookup.cli.inputs import Tally
from geolookup.cli.lookup.annotate import Annotator
from geolookup.lookup.engine import GeoLookup
from geolookup.model.addresses import parse
from geolookup.model.errors import InvalidAddressError


class _Recording(Annotator):
    """Remembers what it was asked about, except for what it took for something other than an address."""

    def __init__(self, geo: GeoLookup) -> None:
        super().__init__(geo, ("locid",), Tally())
        self.seen: list[tuple[int, str]] = []

    def _answer(self, token: bytes, number: int) -> bytes | None:
        answer = super()._answer(token, number)
        if answer is not None:
            self.seen.append((number, token.decode("ascii")))
        return answer


def seen_by_annotate(geo: GeoLookup, data: bytes) -> list[tuple[int, str]]:
    """The number of the line and the text of each address, and of each dotted quad that is none."""
    annotator = _Recording(geo)
    annotator.copy(BytesIO(data), BytesIO())
    return annotator.seen


def plain_counts(
    geo: GeoLookup, texts: Iterable[str], names: Sequence[str], *, once: bool
) -> tuple[Counter[tuple[object, ...]], int, int]:
    """How often the values of ``names`` answer, how many are not covered, and how many are malformed.

    If ``once``, each address counts once, however it is written.
    """
    found: Counter[tuple[object, ...]] = Counter()
    not_covered = malformed = 0
    seen = set()
    for text in texts:
        try:
            value = parse(text)
        except InvalidAddressError:
            malformed += 1
            continue
        if once and value in seen:
            continue
        seen.add(value)
        match = geo.match(text)
        if match is None:
            not_covered += 1
        else:
            flat = match.flat()
            found[tuple(flat[name] for name in names)] += 1
    return found, not_covered, malformed
