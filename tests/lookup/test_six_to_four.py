"""6to4 addresses (RFC 3056): a block of their own answers, else the blocks of the IPv4 address in them; everywhere."""

import ipaddress
import sqlite3
from typing import Any

import maxminddb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import geolookup
from geolookup.__main__ import _answers
from geolookup.cli.app import run
from geolookup.columns.arrow import locate
from geolookup.columns.sqlite import register
from geolookup.index.native import accelerator
from geolookup.lookup.ranges import pieces
from geolookup.model.types import IPBlock
from tests.support.data.states import place, publish
from tests.support.examples import examples

BEGIN = int(ipaddress.IPv6Address("2002::"))
BLOCKS = [
    *("8.0.0.0/8", "8.8.8.0/24", "8.8.8.8", "9.0.0.0/16", "255.255.255.255", "0.0.0.0/8"),
    *(
        "2002:808:808::/48",
        "2002:808:800::/41",
        "2002::/17",
        "2002:900::/40",
        "2002:ffff:ffff:ffff::/64",
        "2001:db8::/32",
    ),
]


def answer(blocks: list[tuple[str, int]], address: str) -> int | None:
    """The locid by a walk over all blocks: those of IPv6 first, custom before default, then those of IPv4."""
    asked = ipaddress.ip_address(address)
    for value in (asked, getattr(asked, "sixtofour", None)):
        for custom in (True, False):
            found = [
                (network.prefixlen, abs(locid), locid)
                for block, locid in blocks
                if (locid < 0) is custom and value is not None and value in (network := ipaddress.ip_network(block))
            ]
            if found:
                return max(found)[2]
    return None


@st.composite
def layers(draw: st.DrawFn) -> list[tuple[str, int]]:
    default = draw(st.lists(st.sampled_from(BLOCKS), unique=True, min_size=1, max_size=6))
    custom = draw(st.lists(st.sampled_from(BLOCKS), unique=True, max_size=3))
    return [
        *((block, at) for at, block in enumerate(default, 1)),
        *((block, -at) for at, block in enumerate(custom, 3)),
    ]


def addresses() -> list[str]:
    edges = []
    for block in BLOCKS:
        network = ipaddress.ip_network(block)
        for end in (int(network[0]), int(network[-1])):
            for near in (end - 1, end, end + 1):
                if network.version == 4:
                    edges += [BEGIN | near << 80, (BEGIN | near << 80) + (1 << 80) - 1] if 0 <= near < 1 << 32 else []
                else:
                    edges.append(near)
    edges += [BEGIN, BEGIN - 1, 0x2003 << 112, (0x2003 << 112) - 1]
    return [str(ipaddress.IPv6Address(edge)) for edge in sorted({*edges})]


ADDRESSES = addresses()


def locid(found: Any) -> int | None:
    return None if found is None else found.locid


@examples(30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(layers())
def test_every_reader_answers_as_a_walk_over_all_blocks(
    tmp_path_factory: pytest.TempPathFactory, blocks: list[tuple[str, int]]
) -> None:
    home = str(tmp_path_factory.mktemp("state") / "state")
    publish(home, [place(number, block, city=f"c{number}") for block, number in blocks])
    wanted = [answer(blocks, address) for address in ADDRESSES]
    for pure in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("GEOLOOKUP_PURE", "1" if pure else "0")
            assert (accelerator() is None) is pure
            with geolookup.open(home) as geo:
                assert [locid(geo.lookup(address)) for address in ADDRESSES] == wanted
                matches = [geo.match(address) for address in ADDRESSES]
                assert [match and match.geolocation.locid for match in matches] == wanted
                for address, match in zip(ADDRESSES, matches, strict=True):
                    if match is not None:
                        ends = [ipaddress.ip_address(end) for end in (match.first, match.last)]
                        assert ends[0] <= ipaddress.ip_address(address) <= ends[1]
                        assert [locid(geo.lookup(str(end))) for end in ends] == [match.geolocation.locid] * 2
                columns = locate(geo, pa.array(ADDRESSES * 20), ["locid", "first", "last"])
                assert columns.column("locid").to_pylist() == wanted * 20
                assert columns.column("first").to_pylist() == [match and match.first for match in matches] * 20
                assert columns.column("last").to_pylist() == [match and match.last for match in matches] * 20
                whole = IPBlock.parse("2001:db8::/32"), IPBlock.parse("2000::/14"), IPBlock.parse("2002:808::/33")
                for block in whole:
                    found, rest = geo.with_snapshot(lambda snapshot, block=block: pieces(snapshot, block, 10_000))
                    assert rest is None
                    at = block.first
                    for piece in found:
                        assert piece.block.first == at
                        at = piece.block.last + 1
                        for end in (piece.block.startip, piece.block.endip):
                            assert locid(geo.lookup(end)) == (piece.match and piece.match.geolocation.locid)
                    assert at == block.last + 1
    with geolookup.open(home) as geo:
        for address, number in zip(ADDRESSES[::7], wanted[::7], strict=True):
            explained = geo.explain(address)
            assert [block.geolocation.locid for block in explained.covering[:1]] == ([] if number is None else [number])
        target = f"{home}.mmdb"
        geolookup.export(geo, "mmdb", target)
        with maxminddb.open_database(target) as reader:
            exported = [reader.get(address) for address in ADDRESSES]
        assert [found and int(found["city"]["names"]["en"][1:]) for found in exported] == wanted  # type: ignore


def test_commands_answer_by_the_ipv4_address_inside(
    home: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    publish(home, [place(1, "8.8.8.0/24", country="US"), place(2, "2002:808:801::/48", country="DE")])
    light = _answers(["2002:808:808::1", "2002:808:801::1", "2002:909::"])
    assert light is not None
    assert [line.split()[0] for line in light[0].splitlines()] == ["2002:808:808::1", "2002:808:801::1", "2002:909::"]
    assert "2002:808:802::-2002:808:8ff:ffff:ffff:ffff:ffff:ffff" in light[0]
    for arguments in (["lookup", "2002:808:808::1"], ["explain", "2002:808:808::1"]):
        assert run(arguments) == 0
        assert "US" in capsys.readouterr().out
    assert run(["lookup", "2002:808::/32", "--format", "csv"]) == 4  # not all of it is covered
    assert capsys.readouterr().out.count("US") == 2  # on both sides of the block
    with sqlite3.connect(":memory:") as database, geolookup.open(home) as geo:
        register(database, geo)
        assert database.execute("SELECT geo_country('2002:808:808::1')").fetchone() == ("US",)
