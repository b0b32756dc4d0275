"""SIGKILL of the whole service under writes: what was acknowledged is there when it runs again."""

import os
import signal
import subprocess
import sys
import threading
from typing import Any

import httpx

from tests.support.services.plain_http import PLAIN
from tests.support.services.running_service import FIELDS, RunningService

_PATIENCE_S = 60


class KillableService:
    """``geolookup serve`` with two workers, in a process group of its own, so that one signal ends all of it."""

    def __init__(self, db: str) -> None:
        command = [sys.executable, "-m", "geolookup", "serve", "--db", db, "--port", "0", "--workers", "2"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
        assert self.process.stderr is not None
        self.url = ""
        for line in self.process.stderr:
            if "serving on" in line:
                self.url = line.split()[-1]
                break

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(_PATIENCE_S)
        assert self.process.stderr is not None
        self.process.stderr.close()


class Writer(threading.Thread):
    """A client that writes until its service is gone, and keeps account of what was acknowledged."""

    def __init__(self, url: str, number: int) -> None:
        super().__init__()
        self.url = url
        self.number = number
        self.there: dict[int, dict[str, Any]] = {}
        self.deleted: set[int] = set()
        #: Requests without an answer: each may have been done or not.
        self.doubtful: set[int] = set()
        self.answers = 0
        self.problem = ""

    def run(self) -> None:
        with httpx.Client(base_url=self.url, trust_env=False, timeout=_PATIENCE_S, verify=PLAIN) as client:
            turn = 0
            try:
                while True:
                    turn += 1
                    self.write(client, turn)
            except httpx.TransportError:
                return
            except Exception as error:
                self.problem = repr(error)

    def write(self, client: httpx.Client, turn: int) -> None:
        city = f"{self.number}-{turn}"
        created = client.post("/geolocations", json={**FIELDS, "city": city})
        locid = created.raise_for_status().json()["locid"]
        self.there[locid] = {"city": city, "blocks": 0}
        self.answers += 1
        self.doubtful.add(locid)
        address = f"10.{self.number}.{turn >> 8}.{turn & 255}"
        body = {"startip": address, "endip": address}
        client.post(f"/geolocations/ipblocks?locid={locid}", json=body).raise_for_status()
        self.there[locid]["blocks"] = 1
        self.answers += 1
        if turn % 3 == 0:
            client.delete(f"/geolocations?locid={locid}").raise_for_status()
            del self.there[locid]
            self.deleted.add(locid)
            self.answers += 1
        self.doubtful.remove(locid)


def test_what_two_workers_acknowledged_is_there_after_a_kill_under_writes(db: str) -> None:
    service = KillableService(db)
    writers = [Writer(service.url, number) for number in range(6)]
    try:
        for writer in writers:
            writer.start()
        while sum(writer.answers for writer in writers) < 150 and any(writer.is_alive() for writer in writers):
            threading.Event().wait(0.01)
    finally:
        service.kill()
    for writer in writers:
        writer.join()
    assert not [writer.problem for writer in writers if writer.problem]
    assert sum(writer.answers for writer in writers) >= 150
    with RunningService(db) as again, again.client() as client:
        places = {place["locid"]: place for place in client.get("/geolocations").raise_for_status().json()}
        for writer in writers:
            assert not writer.deleted & places.keys()
            for locid, wanted in writer.there.items():
                if locid in writer.doubtful and locid not in places:
                    continue  # its deletion was under way
                assert places[locid]["city"] == wanted["city"]
                assert len(places[locid]["ipblocks"]) >= wanted["blocks"]
        used = {locid for writer in writers for locid in (*writer.there, *writer.deleted)}
        assert again.create() < min(used | places.keys())
