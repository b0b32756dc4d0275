"""Which source answers, over all sources end to end, against a scan of every row of every source."""

import itertools
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import geolookup
from geolookup.model.addresses import to_text
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.verify import verify
from geolookup.sync.pull.pull import pull
from tests.oracle.stacked_scan import Row, Source, answer
from tests.support.examples import examples

# Few addresses, so that edges collide: the last byte of 192.0.2.x, and of 2001:db8::x.
_BASE = {4: 0xC0000200, 6: 0x20010DB8 << 96}
_OFFSETS = 24


@st.composite
def _sources(draw: st.DrawFn) -> list[tuple[str, list[tuple[int, int, int, bool]]]]:
    """For each source its kind and its rows: family, first and last offset, and whether it is a mask."""
    found = []
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(("ranges", "feed")))
        rows = []
        seen = set()
        for _ in range(draw(st.integers(1, 5))):
            family = draw(st.sampled_from((4, 6)))
            if kind == "feed":
                bits = draw(st.integers(0, 3))
                first = draw(st.integers(0, _OFFSETS >> bits)) << bits
                if (family, bits, first) in seen:
                    continue  # a prefix twice is an error of that prefix
                seen.add((family, bits, first))
                rows.append((family, first, first + (1 << bits) - 1, draw(st.booleans())))
            else:
                ends = sorted((draw(st.integers(0, _OFFSETS)), draw(st.integers(0, _OFFSETS))))
                if (family, *ends) in seen:
                    continue  # so is a range twice, with two places
                seen.add((family, *ends))
                rows.append((family, ends[0], ends[1], False))
        if all(mask for *_, mask in rows):
            rows[0] = (*rows[0][:3], False)  # a file without one good location is never published
        found.append((kind, rows))
    return found


def _written(kind: str, rows: list[tuple[int, int, int, bool]], name: str) -> str:
    lines = ["# a geofeed" if kind == "feed" else "first,last,country,city"]
    for number, (family, first, last, mask) in enumerate(rows):
        low, high = (to_text(4 if family == 4 else 6, _BASE[family] + offset) for offset in (first, last))
        city = f"{name}-{number}"
        if kind == "feed":
            width = (32 if family == 4 else 128) - (last - first).bit_length()
            lines.append(f"{low}/{width},,,," if mask else f"{low}/{width},DE,,{city},")
        else:
            lines.append(f"{low},{high},DE,{city}")
    return "\n".join([*lines, ""])


@examples(12)
@given(_sources())
def test_each_address_is_answered_by_the_first_source_that_covers_it(
    sources: list[tuple[str, list[tuple[int, int, int, bool]]]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        oracle = []
        configured = []
        for number, (kind, rows) in enumerate(sources):
            name = f"s{number}"
            path = Path(folder, f"{name}.csv")
            path.write_text(_written(kind, rows, name))
            configured.append(SourceSettings(name=name, location=str(path)))
            oracle.append(
                Source(
                    name,
                    False,
                    [
                        Row(0 if mask else at + 1, 4 if family == 4 else 6, first, last)
                        for at, (family, first, last, mask) in enumerate(rows)
                    ],
                )
            )
        home = str(Path(folder, "state"))
        pull(StateDirectory(home), Settings(sources=tuple(configured)))
        assert verify(home) == []
        with geolookup.GeoLookup(home) as geo:
            for family, offset in itertools.product((4, 6), range(_OFFSETS + 9)):
                expected = answer(oracle, family, offset)
                address = to_text(4 if family == 4 else 6, _BASE[family] + offset)
                match = geo.match(address)
                found = None if match is None else (match.source, match.geolocation.city)
                assert found == (None if expected is None else (expected[0], f"{expected[0]}-{expected[1] - 1}"))
                wins = [(item.source, item.masks) for item in geo.explain(address).covering if item.wins]
                if match is not None:
                    assert wins == [(match.source, False)]
                else:
                    assert wins in ([], [(wins[0][0], True)] if wins else [])
