"""The service as a process: its address, its signals, its death."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from geolookup.model.errors import DataFileError, ServiceError
from geolookup.service.serve import serve
from geolookup.web.server import bind
from tests.support.services.plain_http import PLAIN
from tests.support.services.running_service import FIELDS, RunningService

PROGRAM = """
import sys
from geolookup.service.serve import serve
db, load = sys.argv[1] or None, sys.argv[2:]
serve(port=0, db=db, load=load, on_ready=lambda url: print(url, flush=True))
print("ended", flush=True)
"""


class Process:
    """A service in a process of its own."""

    def __init__(self, tmp_path: Path, db: Path | str, *load: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(db), *load],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )
        assert self.process.stdout is not None
        self.stdout = self.process.stdout

    def url(self) -> str:
        return self.stdout.readline().strip()

    def end(self, number: int) -> tuple[int, str]:
        """Send the signal: the exit status, and what was printed after the address."""
        self.process.send_signal(number)
        rest, _ = self.process.communicate(timeout=60)
        return self.process.returncode, rest


def test_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    service = Process(tmp_path, tmp_path / "x.db")
    url = service.url()
    acknowledged = []
    with httpx.Client(base_url=url, trust_env=False, verify=PLAIN) as client:
        for number in range(20):
            locid = client.post("/geolocations", json={**FIELDS, "city": str(number)}).json()["locid"]
            body = {"startip": f"10.0.0.{number}", "endip": f"10.0.0.{number}"}
            client.post(f"/geolocations/ipblocks?locid={locid}", json=body).raise_for_status()
            acknowledged.append(locid)
        client.delete(f"/geolocations?locid={acknowledged.pop(0)}").raise_for_status()
    assert service.end(signal.SIGKILL)[0] == -signal.SIGKILL
    with RunningService(tmp_path / "x.db") as again, again.client() as client:
        places = client.get("/geolocations").json()
        assert [place["locid"] for place in places] == sorted(acknowledged)
        assert all(len(place["ipblocks"]) == 1 for place in places)
        assert again.create() == -21


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order_and_removes_the_temporary_database(tmp_path: Path, number: int) -> None:
    service = Process(tmp_path, "")
    url = service.url()
    (directory,) = tmp_path.glob("geolookup-service-*")
    assert directory.stat().st_mode & 0o777 == 0o700
    assert httpx.get(url, trust_env=False, verify=PLAIN).status_code == 200
    assert service.end(number) == (0, "ended\n")
    assert not directory.exists()


def test_a_signal_while_loading_ends_it_in_order(tmp_path: Path) -> None:
    pipe = tmp_path / "endless.csv"
    os.mkfifo(pipe)
    service = Process(tmp_path, "", str(pipe))
    with pipe.open("w") as writing:  # opens when the loader reads
        writing.write("startip,endip,country\n")
        writing.flush()
        assert service.end(signal.SIGTERM) == (0, "ended\n")
    assert not list(tmp_path.glob("geolookup-service-*"))


def test_nothing_listens_until_loading_is_done_and_a_bad_file_stops_the_start(tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("startip,endip,country\nx,y,US\n")
    with pytest.raises(DataFileError, match=r"bad\.csv, line 2"):
        serve(port=0, db=tmp_path / "x.db", load=[bad], on_ready=pytest.fail)
    taken = bind("127.0.0.1", 0)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(taken.getsockname()).close()
    taken.close()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "no such host"])
def test_a_host_beyond_loopback_is_refused_before_anything_is_touched(tmp_path: Path, host: str) -> None:
    with pytest.raises(ServiceError, match=host):
        serve(host=host, port=0, db=tmp_path / "x.db", on_ready=pytest.fail)
    assert not (tmp_path / "x.db").exists()


def test_a_port_in_use_and_a_port_that_is_none_are_refused(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        for port in (other.getsockname()[1], 65536):
            with pytest.raises(ServiceError, match=f"port {port}"):
                bind("127.0.0.1", port)


def test_a_service_that_ignores_idempotency_keys_creates_twice(tmp_path: Path) -> None:
    key = {"Idempotency-Key": "k"}
    with RunningService(tmp_path / "x.db", ignore_idempotency_keys=True) as service, service.client() as client:
        locids = [client.post("/geolocations", json=FIELDS, headers=key).json()["locid"] for _ in range(2)]
        other = client.post("/geolocations", json={**FIELDS, "city": "x"}, headers=key)
    assert locids == [-1, -2]
    assert other.json() == {"locid": -3}


def test_idempotency_keys_outlive_a_restart(tmp_path: Path) -> None:
    key = {"Idempotency-Key": "k"}
    for _ in range(2):
        with RunningService(tmp_path / "x.db") as service, service.client() as client:
            assert client.post("/geolocations", json=FIELDS, headers=key).json() == {"locid": -1}
