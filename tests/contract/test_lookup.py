"""Beyond the interface: lookups over HTTP, one test a sentence, beside the command that they agree with."""

import json
import time
from pathlib import Path

import httpx
import pytest

from geolookup.cli import exit_codes
from geolookup.cli.app import run
from geolookup.model.types import FLAT_NAMES
from geolookup.settings.table import Settings
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.pull import pull
from tests.contract.answers import refused
from tests.support.services.running_service import RunningService
from tests.support.services.running_share import RunningShare

ADDRESSES = ["192.0.2.5", "10.0.0.7", "2001:db8::7", "203.0.113.1", "::ffff:192.0.2.5"]


def test_one_address_answers_the_same_flat_object_as_the_commands_ndjson(
    service: RunningService,
    client: httpx.Client,
    home: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Interface: "`GET /lookup/{ip}` answers the same flat object as the command's ndjson".

    That of `share`, which answers from a state as the command does. The service keeps eight fields of a place, so the
    facts behind them are not among its members.
    """
    service.create(("10.0.0.0", "10.0.0.9"))
    time.sleep(1)
    pull(StateDirectory(home), Settings(url=service.url))
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    assert run([*ADDRESSES, "--format", "ndjson"]) == exit_codes.NOT_COVERED
    lines = capsys.readouterr().out.splitlines()
    with RunningShare(home, tmp_path / "built", built=False) as share, share.client() as sharing:
        for address, line in zip(ADDRESSES, lines, strict=True):
            wanted = list(json.loads(line).items())
            assert list(sharing.get(f"/lookup/{address}").json().items()) == wanted
            answer = client.get(f"/lookup/{address}")
            assert answer.status_code == 200
            assert list(answer.json().items()) == wanted[: len(FLAT_NAMES)]


def test_not_covered_is_200_with_a_null_locid(client: httpx.Client) -> None:
    """Interface: "not covered: 200 with a null locid"."""
    answer = client.get("/lookup/203.0.113.1")
    assert (answer.status_code, answer.json()["locid"]) == (200, None)


@pytest.mark.parametrize("address", ["1.2.3", "010.0.0.1", "fe80::1%25eth0", "10.0.0.0%2F8", "x"])
def test_malformed_is_400(client: httpx.Client, address: str) -> None:
    """Interface: "malformed: 400"."""
    refused(client.get(f"/lookup/{address}"), 400, "invalid-address")


def test_an_array_of_addresses_gets_an_array_in_the_same_order(service: RunningService, client: httpx.Client) -> None:
    """Interface: "`POST /lookup` an array of addresses with an array in the same order"."""
    locid = service.create(("10.0.0.0", "10.0.0.9"))
    time.sleep(1)
    found = client.post("/lookup", json=ADDRESSES).json()
    assert [one["ip"] for one in found] == ADDRESSES
    assert [one["locid"] for one in found] == [1, locid, 2, None, 1]
