"""Lookups of a share whose state says who runs addresses: the command's objects, and nothing that a licence forbids."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import httpx
import pytest

from geolookup.cli import exit_codes
from geolookup.cli.app import run
from geolookup.lookup.members import NAMES
from geolookup.model.types import FLAT_NAMES
from tests.support.data.networked import ADDRESSES, state, sync
from tests.support.services.running_share import RunningShare


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningShare]:
    folder = tmp_path_factory.mktemp("networked")
    with RunningShare(state(folder), folder / "built", built=False) as share:
        yield share


@pytest.fixture(scope="module")
def client(running: RunningShare) -> Iterator[httpx.Client]:
    with running.client() as client:
        yield client


@pytest.mark.parametrize(("option", "query"), [([], ""), (["--record"], "?record=true")])
def test_an_object_is_the_commands_member_by_member(
    option: list[str],
    query: str,
    running: RunningShare,
    client: httpx.Client,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", running.home)
    assert run([*ADDRESSES, *option, "--format", "ndjson"]) == exit_codes.NOT_COVERED
    wanted = [list(json.loads(line).items()) for line in capsys.readouterr().out.splitlines()]
    answers = [client.get(f"/lookup/{address}{query}") for address in ADDRESSES]
    assert {answer.status_code for answer in answers} == {200}
    assert [list(answer.json().items()) for answer in answers] == wanted
    assert [list(one.items()) for one in client.post(f"/lookup{query}", json=ADDRESSES).json()] == wanted


def test_an_address_with_a_network_and_no_place_has_its_facts(client: httpx.Client) -> None:
    found = client.get("/lookup/1.128.0.1").json()
    assert tuple(found) == NAMES
    assert {name: found[name] for name in FLAT_NAMES} == {**dict.fromkeys(FLAT_NAMES), "ip": "1.128.0.1"}
    assert (found["asn"], found["as_organization"], found["isp"]) == (1221, "Telstra Pty Ltd", "Telstra Internet")


def test_what_a_licence_forbids_is_refused_where_it_is_said_and_nowhere_else(tmp_path: Path) -> None:
    home = state(tmp_path, ("city", "asn", "anonymous"), forbidden=("asn",))
    with RunningShare(home, tmp_path / "built", built=False) as share, share.client() as client:
        of_asn = [address for address in ADDRESSES if "asn" in _said(share, address)]
        assert 3 < len(of_asn) < len(ADDRESSES) - 3
        for address in ADDRESSES:
            for path in (f"/lookup/{address}", f"/lookup/{address}?record=true"):
                answer = client.get(path)
                assert answer.status_code == (403 if address in of_asn else 200), path
            if address in of_asn:
                assert client.get(f"/geoip/v2.1/insights/{address}").json()["code"] == "LICENCE_FORBIDS"
                assert client.get(f"/geoip/v2.1/country/{address}").json().get("code") in (
                    None,  # it says nothing of networks
                    "IP_ADDRESS_NOT_FOUND",
                )


def _said(share: RunningShare, address: str) -> set[str]:
    network = share.geo.network(address)
    return set() if network is None else set(network.sources.values())


def test_a_record_that_says_no_place_is_refused_by_the_licence_of_its_source(tmp_path: Path) -> None:
    weak = "2.3.3.7"
    home = state(tmp_path, ("city", "asn"), forbidden=("city",))
    with RunningShare(home, tmp_path / "built", built=False) as share, share.client() as client:
        assert share.geo.match(weak) is None
        assert share.geo.record(weak) is not None
        assert client.get(f"/lookup/{weak}").status_code == 200  # which says nothing of it
        assert client.get(f"/lookup/{weak}?record=true").status_code == 403
        assert client.get(f"/geoip/v2.1/city/{weak}").status_code == 403


def test_what_retention_removed_is_answered_from_what_took_its_place(tmp_path: Path) -> None:
    home = state(tmp_path, ("city", "asn"))
    with RunningShare(home, tmp_path / "built", built=False) as share, share.client() as client:
        path: Any = share.geo.with_snapshot(lambda snapshot: snapshot._networks._published[0])
        for names in (("city", "asn", "domain"), ("city", "asn", "domain", "isp")):
            assert sync(home, names, keep_generations=1).outcome == "published"
        assert not os.path.exists(path)
        share.geo._follower._look_next(monotonic() + 1000)  # it was told; another process's would not be yet
        found = client.get("/lookup/1.128.0.1").json()
        assert (found["isp"], found["organization"]) == ("Telstra Internet", "Telstra Internet")


_TYPES = {type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string", dict: "object"}


def test_the_document_says_the_members_and_their_types(client: httpx.Client) -> None:
    document = client.get("/schema/openapi.json").json()
    for method, path, many in (("get", "/lookup/{ip}", False), ("post", "/lookup", True)):
        operation = document["paths"][path][method]
        assert "record" in {each["name"] for each in operation["parameters"]}
        schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
        schema = schema["items"] if many else schema
        assert list(schema["properties"]) == [*NAMES, "record"]
        assert schema["required"] == list(NAMES)
        for found in client.post("/lookup?record=true", json=ADDRESSES).json():
            for name, value in found.items():
                said = schema["properties"][name]
                kinds = said.get("type", [])
                kind = _TYPES[type(value)]
                assert value in said.get("enum", ()) or kind in kinds or (kind == "integer" and "number" in kinds), name
    for service in ("country", "city", "insights"):
        assert f"/geoip/v2.1/{service}/{{ip}}" in document["paths"]
