"""The object for a network that looks into the mapped file, against the one that holds its values."""

import copy
import ipaddress
import os
import pickle
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import geolookup
from geolookup.index import mmdb
from geolookup.index.builder import IndexBuilder
from geolookup.index.native import open_layer, open_searcher
from geolookup.index.reader import IndexReader
from geolookup.lookup.engine import GeoLookup
from geolookup.lookup.facts import ORDERED_NETWORK_FACTS, open_facts
from geolookup.lookup.network import Network, Said
from geolookup.lookup.record import Record
from geolookup.lookup.views import network_type
from geolookup.model.addresses import parse, to_text
from geolookup.model.errors import IndexDamagedError
from geolookup.model.facts import NETWORK_FACTS
from tests.index.native.searchers import native, needs_native
from tests.lookup.test_network_oracle import Plain, plain, state

__all__ = ["plain", "state"]

pytestmark = pytest.mark.usefixtures("reader")
_FIELDS = ("address", "first", "last", "facts", "sources")


def test_each_address_has_the_same_network_whichever_way_it_is_asked(plain: Plain, state: str) -> None:
    known = 0
    with GeoLookup(state) as geo:
        for address in (*plain.boundaries(), "2002:180:1::1", "::ffff:1.128.0.1"):
            found, slow = geo.network(str(address)), GeoLookup.network(geo, str(address))
            assert found == slow
            if found is None or slow is None:
                continue
            known += 1
            assert isinstance(found, Network)
            assert (repr(found), found.network, found.flat()) == (repr(slow), slow.network, slow.flat())
            for name in NETWORK_FACTS:
                value = getattr(found, name)
                assert (value, type(value)) == (slow.typed(name), type(slow.typed(name)))
                assert (found.typed(name), found.source_of(name)) == (value, slow.source_of(name))
    assert known > 500


def test_a_network_can_be_read_when_its_state_is_closed_and_gone_and_a_copy_without_it(
    state: str, tmp_path: Path
) -> None:
    home = os.fspath(tmp_path / "state")
    shutil.copytree(state, home)
    with geolookup.open(home) as geo:
        network = geo.network("1.128.0.1")
        assert network is not None
        again = geo.network("1.128.0.1")
    shutil.rmtree(home)
    for each in (network, copy.copy(network), copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
        assert isinstance(each, Network)
        assert each == again
        assert (each.asn, each.as_organization, each.first, each.network) == (
            64512,
            "Ours",
            "1.128.0.0",
            "1.128.0.0/22",
        )
        assert each.sources == {"autonomous_system_number": "own", "autonomous_system_organization": "own"}
        assert dict(each.facts) == {"autonomous_system_number": 64512, "autonomous_system_organization": "Ours"}
        for name in _FIELDS:
            with pytest.raises(AttributeError):
                setattr(each, name, "x")


def test_what_is_no_address_is_refused_and_so_is_a_state_that_is_closed(state: str) -> None:
    with geolookup.open(state) as geo:
        assert geo.network("9.9.9.9") is None
        for wrong in ("1.2.3", "", "x", None, "1.128.0.1\ud800"):
            with pytest.raises(geolookup.InvalidAddressError):
                geo.network(wrong)  # type: ignore[arg-type]
    with pytest.raises(geolookup.StateError):
        geo.network("1.128.0.1")


def test_one_that_was_not_found_stands_for_nothing_and_crashes_nothing(state: str, reader: str) -> None:
    with geolookup.open(state) as geo:
        network = geo.network("1.128.0.1")
    its = type(network)
    made = its(address="1.2.3.4", first="1.2.3.0", last="1.2.3.255", facts={}, sources={})  # type: ignore[misc,call-arg]
    assert (type(made), made.asn, made.network) == (Network, None, "1.2.3.0/24")
    if reader == "native":
        empty = object.__new__(its)
        for name in ("address", "first", "network", "asn", "facts", "sources"):
            with pytest.raises(TypeError, match="stands for no network"):
                getattr(empty, name)


@needs_native
def test_no_damage_leads_outside_and_each_answer_is_a_network_around_its_address_or_an_error(tmp_path: Path) -> None:
    assert native is not None
    builder = IndexBuilder("network", source="asn")
    for number in range(40):
        parts = {"autonomous_system_number": mmdb.uint32(number + 1), "isp": mmdb.text(f"ISP {number}")}
        builder.add_record(None, parts if number % 3 else {"is_anonymous": mmdb.boolean(True)})
    for at in range(300):
        builder.add_block(at % 40, 4, at * 77, at * 77 + 50)
        builder.add_block(at % 40, 6, 0x2001 << 112 | at << 70, (0x2001 << 112 | at << 70) + (1 << 69))
    path, empty = tmp_path / "network", tmp_path / "empty"
    builder.write(path)
    IndexBuilder("custom").write(empty)
    whole, chance = path.read_bytes(), random.Random(3)
    with IndexReader.open(path) as reader:
        sections = reader.header.sections
    targets = [at for name, found in sections.items() if "table" not in name for at in range(found.begin, found.end)]
    for table in ("v4.table", "v6.table"):
        targets += range(sections[table].begin, sections[table].begin + 16)
    texts = [
        *(to_text(4, at) for at in range(0, 300 * 77, 131)),
        *(to_text(6, 0x2001 << 112 | at << 69) for at in range(60)),
    ]
    texts += [f"2002:0:{at:x}::1" for at in range(0, 5000, 977)]
    seen = Counter[str]()
    for _ in range(60):
        changed = bytearray(whole)
        for _ in range(chance.choice([1, 4, 64])):
            changed[chance.choice(targets)] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        (tmp_path / "changed").write_bytes(changed)
        os.replace(tmp_path / "changed", path)
        try:
            reader = IndexReader.open(path)
        except IndexDamagedError:
            continue  # it is seen at once
        facts = open_facts(native, reader, ORDERED_NETWORK_FACTS)
        layer = open_layer(native, reader, reader.record_count, None, facts, network_type(native), Said(reader))
        with IndexReader.open(empty) as nothing:
            searcher = open_searcher(native, nothing, nothing, None, None, None, lambda layer=layer: layer)  # type: ignore[misc]
        slow: list[Any] = []
        finder = native.Finder(slow.append, slow.append, slow.append)
        finder.use(searcher)
        finder.look_at = float("inf")
        for text in texts:
            found = finder.network(text)
            if slow:
                seen["damaged"] += slow.pop() == text
                continue
            seen["none"] += found is None
            if found is None:
                continue
            assert parse(found.first) <= parse(text) <= parse(found.last)
            assert ipaddress.ip_address(text) in ipaddress.ip_network(found.network)
            for name in (*NETWORK_FACTS, "facts", "sources"):
                try:
                    value = getattr(found, name)
                    assert type(value) in (int, bool, str, dict, Record, type(None))
                    seen["told"] += (dict(value) if name == "facts" else value) is not None
                except IndexDamagedError:
                    seen["damaged inside"] += 1
    assert min(seen["damaged"], seen["told"], seen["damaged inside"], seen["none"]) > 20, seen
