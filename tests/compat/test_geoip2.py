"""The reader for geoip2 on states, beside geoip2's own on the files that they were made of."""

import bisect
import copy
import gc
import importlib
import ipaddress
import os
import pickle
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import geoip2.database
import geoip2.errors
import geoip2.models
import geoip2.records
import maxminddb
import pytest

import geolookup
from geolookup.compat import models
from geolookup.compat.geoip2 import Reader
from geolookup.index.records import Records
from geolookup.model.public import use_of
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.pull import pull
from tests.compat.suites import DATABASES, synced

#: A file of each kind, and its method.
KINDS = {
    "GeoIP2-City-Test": "city",
    "GeoLite2-City-Test": "city",
    "GeoIP2-Country-Test": "country",
    "GeoIP2-Enterprise-Test": "enterprise",
    "GeoIP2-Precision-Enterprise-Test": "enterprise",
    "GeoLite2-ASN-Test": "asn",
    "GeoIP2-ISP-Test": "isp",
    "GeoIP2-Domain-Test": "domain",
    "GeoIP2-Connection-Type-Test": "connection_type",
    "GeoIP2-Anonymous-IP-Test": "anonymous_ip",
    "GeoIP-Anonymous-Plus-Test": "anonymous_plus",
}
METHODS = sorted(set(KINDS.values()))
LOCALES = ["ja", "pt-BR", "en"]


def file_of(kind: str) -> Path:
    return DATABASES / f"{kind}.mmdb"


def sync(home: Path, *sources: tuple[str, str]) -> None:
    """Make or renew a state of files: (name, location), the one of highest precedence first."""
    settings = [SourceSettings(name=name, location=location) for name, location in sources]
    assert pull(StateDirectory(os.fspath(home)), Settings(sources=tuple(settings), attempts=1)).outcome == "published"


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("city") / "state"
    synced(file_of("GeoIP2-City-Test"), home)
    return home


def edges(path: Path) -> Iterator[Any]:
    """The ends of all networks of a file that say something, and the addresses next to them."""
    with maxminddb.open_database(path) as file:
        for network, record in file:
            if record:
                for value in (int(network[0]) - 1, int(network[0]), int(network[-1]), int(network[-1]) + 1):
                    if 0 <= value < 1 << network.max_prefixlen:
                        yield type(network[0])(value)


def said(method: Callable[[str], Any], address: str) -> Any:
    try:
        return method(address)
    except geoip2.errors.AddressNotFoundError as error:
        return type(error).__name__, str(error), error.ip_address


@pytest.mark.parametrize("kind", KINDS)
def test_every_answer_is_that_of_geoip2(kind: str, tmp_path: Path) -> None:
    synced(file_of(kind), tmp_path / "state")
    with Reader(tmp_path / "state", LOCALES) as ours, geoip2.database.Reader(file_of(kind), LOCALES) as theirs:
        assert ours.metadata() == maxminddb.reader.Metadata(
            **{name: getattr(theirs.metadata(), name) for name in maxminddb.reader.Metadata.__annotations__}
        )
        method = KINDS[kind]
        asked = sorted({str(address) for address in edges(file_of(kind))})
        assert len(asked) > 20
        for address in asked:
            found, wanted = said(getattr(ours, method), address), said(getattr(theirs, method), address)
            if says_nothing(wanted):
                assert found[0] == "AddressNotFoundError"  # a record that says nothing is no answer
                continue
            assert found == wanted, address
            assert repr(found) == repr(wanted)
            if not isinstance(found, tuple):
                assert isinstance(found, type(wanted))
                assert hash(found) == hash(wanted)
        for other in METHODS:
            found, wanted = refused(getattr(ours, other)), refused(getattr(theirs, other))
            assert found == wanted, other


def test_an_answer_is_freed_with_its_last_user(city: Path) -> None:
    """What holds itself would wait for the garbage collector, and a service that reads everything would grow."""
    gc.disable()
    try:
        with Reader(city) as reader:
            answer = reader.city("81.2.69.160")
            assert answer.traits.network is not None
            assert answer.to_dict()
            freed = weakref.ref(answer)
            del answer
            assert freed() is None
    finally:
        gc.enable()


def says_nothing(answer: Any) -> bool:
    return not isinstance(answer, tuple) and answer.to_dict().keys() == {"ip_address", "network"}


def refused(method: Callable[[str], Any]) -> str:
    try:
        method("81.2.69.160")
    except TypeError as error:
        return str(error)
    except geoip2.errors.AddressNotFoundError:
        pass
    return ""


@pytest.mark.parametrize("kind", ["GeoIP2-City-Test", "GeoIP2-ISP-Test"])
def test_the_network_of_an_unknown_address_is_the_largest_without_an_answer(kind: str, tmp_path: Path) -> None:
    """Inside public space or outside it, as the files of MaxMind have it."""
    synced(file_of(kind), tmp_path / "state")
    with maxminddb.open_database(file_of(kind)) as file:
        known = [network for network, record in file if record]
    # Disjoint, so that a search finds the only one that may reach into a network.
    ends_of = {of: sorted((int(each[0]), int(each[-1])) for each in known if each.version == of) for of in (4, 6)}

    def holds_known(network: Any) -> bool:
        at = bisect.bisect_right(ends_of[network.version], (int(network[-1]), 1 << 128))
        return at > 0 and ends_of[network.version][at - 1][1] >= int(network[0])

    with Reader(tmp_path / "state") as reader:
        unknown = 0
        for address in edges(file_of(kind)):
            try:
                getattr(reader, KINDS[kind])(address)
            except geoip2.errors.AddressNotFoundError as error:
                network: Any = error.network
            else:
                continue
            if address.version == 6 and int(address) >> 112 in (0, 0x2002):
                continue  # they hold IPv4 addresses
            unknown += 1
            assert not holds_known(network), address
            wider = network.supernet()
            ends = {use_of(wider.version, int(end))[1] for end in (wider[0], wider[-1])}
            mixed = len(ends) > 1 or use_of(wider.version, int(wider[0]))[0] != use_of(wider.version, int(wider[-1]))[0]
            assert mixed or holds_known(wider), (address, network)
        assert unknown > 20


def test_only_what_is_asked_for_is_made(city: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    own = Records.own
    monkeypatch.setattr(Records, "own", lambda records, number: read.append(number) or own(records, number))
    with Reader(city) as reader:
        answer = reader.city("81.2.69.160")
        assert read == []
        assert answer.country.iso_code == "GB"
        assert len(read) == 1
        assert answer.country is answer.country
        assert len(read) == 1
        assert answer.city.name == "London"
        assert len(read) == 2


def test_an_answer_is_its_own(city: Path) -> None:
    with Reader(city) as reader:
        answer = reader.city("81.2.69.160")
        for names in (answer.country.names, answer.city.names, answer.subdivisions[0].names):
            names["en"] = "changed"
        again = reader.city("81.2.69.160")
        assert (again.country.name, again.city.name) == ("United Kingdom", "London")
        assert again.subdivisions.most_specific.name == "England"


def test_copies_and_pickles_are_geoip2s_own(city: Path) -> None:
    with Reader(city) as reader, geoip2.database.Reader(file_of("GeoIP2-City-Test")) as theirs:
        answer, wanted = reader.city("89.160.20.112"), theirs.city("89.160.20.112")
        with pytest.raises(geoip2.errors.AddressNotFoundError) as caught:
            reader.city("10.0.0.1")
    copied = copy.copy(answer)
    assert type(copied) is geoip2.models.City
    assert copied == wanted
    assert wanted == answer
    # Upstream's subdivisions do not come back from a pickle.
    assert pickle.loads(pickle.dumps(answer)) == pickle.loads(pickle.dumps(wanted))
    error = pickle.loads(pickle.dumps(caught.value))
    assert type(error) is geoip2.errors.AddressNotFoundError
    assert str(error.network) == "10.0.0.0/8"


def test_an_ipv4_address_in_an_ipv6_one_has_its_network(city: Path) -> None:
    with Reader(city) as reader:
        for address in ("::ffff:81.2.69.160", ipaddress.ip_address("::ffff:81.2.69.160")):
            answer = reader.city(address)
            assert answer.traits.network == ipaddress.ip_network("::ffff:81.2.69.160/123")
            assert answer.traits.ip_address == ipaddress.ip_address("::ffff:81.2.69.160")
        with pytest.raises(geoip2.errors.AddressNotFoundError) as caught:
            reader.city("::ffff:10.0.0.1")
        assert str(caught.value.network) == "::ffff:a00:0/104"


def test_an_edit_is_seen_without_reopening(tmp_path: Path) -> None:
    synced(file_of("GeoIP2-City-Test"), tmp_path)
    with Reader(tmp_path, ["ja", "en"]) as reader:
        assert reader.city("81.2.69.160").city.name == "ロンドン"
        before = reader.city("81.2.69.160")
        with geolookup.open_editor(tmp_path) as editor:
            locid = editor.create(
                country="AT",
                region="",
                city="Wien",
                postalcode="",
                latitude=48.2,
                longitude=16.4,
                dmacode="",
                areacode="",
            )
            editor.add_block(locid, "81.2.69.160", "81.2.69.163")
        answer = reader.city("81.2.69.161")
        assert (answer.country.iso_code, answer.country.name, answer.city.name) == ("AT", "オーストリア", "Wien")
        assert (answer.location.latitude, answer.location.time_zone) == (48.2, "Europe/Vienna")
        assert str(answer.traits.network) == "81.2.69.160/30"
        assert str(reader.city("81.2.69.164").traits.network) == "81.2.69.164/30"
        assert before.country.iso_code == "GB"


def test_a_sync_is_seen_without_reopening_and_so_are_its_kinds(tmp_path: Path) -> None:
    asn = ("asn", os.fspath(file_of("GeoLite2-ASN-Test")))
    sync(tmp_path, asn)
    with Reader(tmp_path) as reader:
        with pytest.raises(TypeError, match="The city method cannot be used with the GeoLite2-ASN database"):
            reader.city("81.2.69.160")
        sync(tmp_path, ("city", os.fspath(file_of("GeoIP2-City-Test"))), asn)
        reader._db_reader._geo.look_soon()
        assert reader.city("81.2.69.160").country.iso_code == "GB"
        assert reader.metadata().database_type == "GeoIP2-City, GeoLite2-ASN"


def test_each_method_answers_of_the_sources_of_its_kind(tmp_path: Path) -> None:
    kinds = ("GeoIP2-City-Test", "GeoLite2-ASN-Test", "GeoIP2-Anonymous-IP-Test")
    sync(tmp_path, *((kind.lower(), os.fspath(file_of(kind))) for kind in kinds))
    with Reader(tmp_path) as reader:
        for kind in kinds:
            with geoip2.database.Reader(file_of(kind)) as theirs:
                for address in sorted({str(address) for each in kinds for address in edges(file_of(each))}):
                    found, wanted = (said(getattr(each, KINDS[kind]), address) for each in (reader, theirs))
                    if says_nothing(wanted):
                        continue
                    if KINDS[kind] != "city" or isinstance(wanted, tuple):
                        assert found == wanted, (kind, address)
                        continue
                    wanted.traits = found.traits  # which have the facts of all sources, and the network that has them
                    assert found == wanted, address
        assert reader.city("89.160.20.112").traits.autonomous_system_number == 29518
        with pytest.raises(TypeError, match="The isp method cannot be used with the GeoIP2-City, GeoLite2-ASN"):
            reader.isp("1.128.0.0")


def test_a_table_of_cities_and_as_numbers_is_all_kinds_that_it_has(tmp_path: Path) -> None:
    rows = "network,country,city,asn,is_vpn\n192.0.2.0/24,DE,Bonn,64500,yes\n198.51.100.0/24,AT,Wien,,\n"
    (tmp_path / "own.csv").write_text(rows)
    sync(tmp_path / "state", ("own", os.fspath(tmp_path / "own.csv")))
    with Reader(tmp_path / "state") as reader:
        assert reader.city("192.0.2.1").city.name == "Bonn"
        assert reader.country("198.51.100.9").country.name == "Austria"
        assert reader.asn("192.0.2.1").autonomous_system_number == 64500
        assert reader.anonymous_ip("192.0.2.1").is_anonymous_vpn is True
        with pytest.raises(TypeError):
            reader.domain("192.0.2.1")
        with pytest.raises(geoip2.errors.AddressNotFoundError):
            reader.asn("198.51.100.9")


def test_the_state_of_the_settings_is_opened_without_a_path(city: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", os.fspath(city))
    with Reader() as reader:
        assert reader.city("81.2.69.160").country.iso_code == "GB"


def test_what_is_no_state_is_an_error_of_upstreams(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="No such file or directory"):
        Reader(tmp_path / "missing")
    with pytest.raises(maxminddb.InvalidDatabaseError, match="geolookup sync"):
        Reader(file_of("GeoIP2-City-Test"))
    with pytest.raises(ValueError, match="Unsupported open mode"):
        Reader(tmp_path, mode=100)
    synced(file_of("GeoIP2-City-Test"), tmp_path / "state")
    (tmp_path / "state" / "CURRENT").write_bytes(b"damaged")
    (tmp_path / "state" / "generations" / "000001" / "index").write_bytes(b"damaged")
    with pytest.raises(maxminddb.InvalidDatabaseError):
        Reader(tmp_path / "state")


def test_a_closed_reader_answers_no_more_and_its_answers_stay(city: Path) -> None:
    reader = Reader(city)
    answer = reader.city("81.2.69.160")
    reader.close()
    reader.close()
    for ask in (reader.city, reader.country):
        with pytest.raises(ValueError, match="closed"):
            ask("81.2.69.160")
    assert answer.city.name == "London"
    assert str(answer.traits.network) == "81.2.69.160/27"


@pytest.mark.parametrize("value", [None, 1, b"1.1.1.1", ipaddress.ip_network("1.0.0.0/8"), object()])
def test_what_is_no_address_is_an_error_of_type(city: Path, value: Any) -> None:
    with Reader(city) as reader, geoip2.database.Reader(file_of("GeoIP2-City-Test")) as theirs:
        for each in (reader, theirs):
            with pytest.raises((TypeError, AttributeError)):
                each.city(value)


def test_the_attributes_are_those_of_upstream() -> None:
    for model, attributes in ((geoip2.models.Country, models.Country), (geoip2.models.Enterprise, models.Enterprise)):
        named = {name for each in model.__mro__ for name in getattr(each, "__annotations__", ())}
        assert {name for name in named if not name.startswith("_")} == {*attributes._parts}


def test_without_geoip2_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("geolookup.compat.geoip2", "geolookup.compat.models"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in [each for each in sys.modules if each.partition(".")[0] == "geoip2"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(geolookup.MissingExtraError, match=r"geolookup\[geoip2\]"):
        importlib.import_module("geolookup.compat.geoip2")
