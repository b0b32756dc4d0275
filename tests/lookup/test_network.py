"""The object for a network that looks into the mapped file, against the one that holds its values."""

import copy
import os
import pickle
import shutil
from pathlib import Path

import pytest

import geolookup
from geolookup.lookup.engine import GeoLookup
from geolookup.lookup.network import Network
from geolookup.model.facts import NETWORK_FACTS
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
