"""The editions of networks, and of everything: which are offered, what is in them, and how they are fetched."""

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import geoip2.database
import httpx
import maxminddb
import pytest

from geolookup.exports.export import export
from geolookup.model.errors import LicenceError
from geolookup.share.build import OWN
from geolookup.share.run import prepared
from tests.share.consumers import Updater
from tests.support.data.networked import FILES, state, sync
from tests.support.services.running_share import RunningShare

NAMES = (
    *("GeoLite2-City", "GeoLite2-ASN", "GeoIP2-ISP", "GeoIP2-Anonymous-IP", "GeoIP2-Connection-Type"),
    *("GeoIP2-Domain", "GeoIP2-Enterprise"),
)
PLACES, OWN_NETWORKS = ("geolookup-City", "geolookup-Country"), ("geolookup-Network", "geolookup-Enterprise")
MISSING = "GeoIP2-User-Count"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningShare]:
    folder = tmp_path_factory.mktemp("editions")
    with RunningShare(state(folder), folder / "built", editions=(*NAMES, MISSING)) as share:
        yield share


@pytest.fixture(scope="module")
def client(running: RunningShare) -> Iterator[httpx.Client]:
    with running.client() as client:
        yield client


def listed(client: httpx.Client) -> set[str]:
    return {each["edition"] for each in client.get("/databases").json()["databases"]}


def test_each_edition_is_what_export_writes_with_its_name(running: RunningShare, client: httpx.Client) -> None:
    assert listed(client) == {*PLACES, *OWN_NETWORKS, *NAMES}
    for name in listed(client):
        out = io.BytesIO()
        export(running.geo, "mmdb", out, database_type=name)
        assert client.get(f"/databases/{name}.mmdb").content == out.getvalue(), name


def test_an_edition_that_no_source_says_anything_of_is_not_offered_and_says_so(client: httpx.Client) -> None:
    for path in (
        f"/databases/{MISSING}.mmdb",
        f"/geoip/updates/metadata?edition_id={MISSING}",
        f"/geoip/databases/{MISSING}/download?suffix=tar.gz",
    ):
        answer = client.get(path)
        assert (answer.status_code, answer.json()["type"]) == (404, "urn:geolookup:problem:unknown-edition"), path
        assert answer.json()["detail"] == f"no source of this state says what a {MISSING} holds"


def test_geoipupdates_protocol_brings_files_that_the_reader_of_geoip2_takes(
    client: httpx.Client, tmp_path: Path
) -> None:
    asked = ",".join(NAMES)
    named = client.get("/geoip/updates/metadata", params={"edition_id": asked}).json()["databases"]
    assert [each["edition_id"] for each in named] == list(NAMES)
    paths: dict[str, Path] = {}
    for each in named:
        name, day = each["edition_id"], each["date"].replace("-", "")
        answer = client.get(f"/geoip/databases/{name}/download", params={"date": day, "suffix": "tar.gz"})
        with tarfile.open(fileobj=io.BytesIO(answer.content), mode="r:gz") as tar:
            file, licence = tar.extractfile(f"{name}_{day}/{name}.mmdb"), tar.extractfile(f"{name}_{day}/LICENSE.txt")
            assert file is not None
            assert licence is not None
            paths[name] = tmp_path / f"{name}.mmdb"
            paths[name].write_bytes(file.read())
            text = licence.read().decode()
        # Only of the sources that are in it.
        assert ("\ncity: " in text) == (name in ("GeoLite2-City", "GeoIP2-Enterprise")), text
        assert ("\ndomain: " in text) == (name in ("GeoIP2-Domain", "GeoIP2-Enterprise")), text
    with geoip2.database.Reader(paths["GeoLite2-ASN"]) as reader:
        assert reader.asn("1.128.0.1").autonomous_system_organization == "Telstra Pty Ltd"
    with geoip2.database.Reader(paths["GeoIP2-ISP"]) as reader:
        found = reader.isp("1.128.0.1")
        assert (found.isp, found.autonomous_system_number) == ("Telstra Internet", 1221)
    with geoip2.database.Reader(paths["GeoIP2-Anonymous-IP"]) as reader:
        assert reader.anonymous_ip("81.2.69.160").is_tor_exit_node is True
    with geoip2.database.Reader(paths["GeoIP2-Connection-Type"]) as reader:
        assert reader.connection_type("1.0.4.1").connection_type == "Cable/DSL"
    with geoip2.database.Reader(paths["GeoIP2-Domain"]) as reader:
        assert reader.domain("66.92.80.123").domain == "speakeasy.net"
    with geoip2.database.Reader(paths["GeoIP2-Enterprise"]) as reader:
        whole = reader.enterprise("81.2.69.160")
        assert (whole.city.name, whole.traits.isp) == ("London", "Andrews & Arnold Ltd")
    with maxminddb.open_database(paths["GeoIP2-Domain"]) as ours, maxminddb.open_database(FILES["domain"]) as theirs:
        said = [(network[0], record) for network, record in theirs if record]
        assert len(said) > 50
        for address, record in said:
            found_map: Any = ours.get(address)
            assert found_map.pop("geolookup") == {"sources": {"domain": "domain"}}
            assert found_map == record


def test_pygeoipupdate_brings_an_edition_of_networks_and_then_finds_nothing_new(
    running: RunningShare, tmp_path: Path
) -> None:
    updater = Updater(running.url, "none", tmp_path, edition="GeoLite2-ASN")
    assert [updater.run(), updater.run()] == [True, False]
    with geoip2.database.Reader(updater.path) as reader:
        assert reader.asn("1.128.0.1").autonomous_system_number == 1221


def test_editions_come_and_go_with_the_sources(tmp_path: Path) -> None:
    home = state(tmp_path, ("city",))
    with RunningShare(home, tmp_path / "built", editions=("GeoLite2-ASN",)) as share, share.client() as client:
        assert listed(client) == {*PLACES, *OWN_NETWORKS}  # the City file says that a network is anycast
        sync(home, ("city", "asn"))
        share.build()
        assert listed(client) == {*PLACES, *OWN_NETWORKS, "GeoLite2-ASN"}


def test_a_state_of_networks_alone_is_shared(tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    sync(home, ("asn",))
    with RunningShare(home, tmp_path / "built", editions=("GeoLite2-ASN",)) as share, share.client() as client:
        assert "GeoLite2-ASN" in listed(client)
        assert client.get("/lookup/1.128.0.1").json()["asn"] == 1221
        assert client.get("/geoip/v2.1/insights/1.128.0.1").json()["traits"]["autonomous_system_number"] == 1221


def test_a_build_tells_once_what_is_not_offered(tmp_path: Path, caplog: Any) -> None:
    home = state(tmp_path, ("city",))
    with RunningShare(home, tmp_path / "built", editions=("GeoLite2-ASN",), built=False) as share:
        for _ in range(2):
            share.builder.step()
            share.builder._built_of = None
    told = [record.getMessage() for record in caplog.records if "not offered" in record.getMessage()]
    assert told == ["not offered, since no source says what they hold: GeoLite2-ASN"]


def test_a_source_of_networks_that_others_must_not_have_is_not_shared(tmp_path: Path) -> None:
    home = state(tmp_path, ("city", "asn"), forbidden=("asn",))
    with pytest.raises(LicenceError, match="asn"), prepared(home, OWN, licence_allows=False):
        pass
    with pytest.raises(LicenceError, match="asn"), RunningShare(home, tmp_path / "built"):
        pass
