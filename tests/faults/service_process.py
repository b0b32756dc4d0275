"""The reference service in a process of its own, whose data another process changes while it runs.

As a module it is that process: its arguments are a folder and the first CSV; each line of its standard input is another
CSV to load, and it answers each with a line: its URL first, then ``loaded``.
"""

import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from tests.support.services.plain_http import PLAIN

ROOT = Path(__file__).parents[2]
PATIENCE_S = 30


def stamped_csv(stamp: str, *, custom: bool = True) -> str:
    """A list of both layers in which every row carries the stamp as its city, region and postal code."""
    rows = [
        f"1,DE,{stamp},{stamp},{stamp},1.0,2.0,,,10.0.0.0,10.255.255.255",
        f"1,DE,{stamp},{stamp},{stamp},1.0,2.0,,,2001:db8::,2001:db8::ffff",
        f"2,FR,{stamp},{stamp},{stamp},3.0,4.0,,,11.0.0.0,11.255.255.255",
    ]
    if custom:
        rows.append(f"-1,DE,{stamp},{stamp},{stamp},5.0,6.0,,,192.168.0.0,192.168.255.255")
    columns = "locid,country,region,city,postalcode,latitude,longitude,dmacode,areacode,startip,endip"
    return "\n".join([columns, *rows, ""])


class ServiceProcess:
    """The service for the length of a ``with``: ``url`` is its base address, ``folder`` holds its files."""

    def __init__(self, folder: str, csv: str) -> None:
        os.makedirs(folder, exist_ok=True)
        self.folder = folder
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.service_process", folder, self._write(csv)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.url = self._answer()
        self.client = httpx.Client(base_url=self.url, trust_env=False, timeout=PATIENCE_S, verify=PLAIN)

    def _write(self, csv: str) -> str:
        path = os.path.join(self.folder, "data.csv")
        Path(path).write_text(csv)
        return path

    def _answer(self) -> str:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline().strip()
        assert answer, "the service ended"
        return answer

    def load(self, csv: str) -> None:
        """Have it serve these rows as well: what has the same locid is changed."""
        assert self._process.stdin is not None
        print(self._write(csv), file=self._process.stdin, flush=True)
        assert self._answer() == "loaded"

    def custom(self) -> list[dict[str, Any]]:
        """The custom geolocations that it has."""
        found = self.client.get("/geolocations").raise_for_status().json()
        return [place for place in found if place["locid"] < 0]

    def delete(self, locid: int) -> None:
        """Delete a custom geolocation there."""
        self.client.delete("/geolocations", params={"locid": locid}).raise_for_status()

    def __enter__(self) -> "ServiceProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.client.close()
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE_S)
        finally:
            self._process.kill()
            self._process.wait()


def serve(folder: str, csv: str) -> None:
    """Be the service until standard input ends."""
    from geolookup.service.geolocations.loader import load_files
    from tests.support.services.running_service import RunningService

    # Whoever tries one push again and again sends the same keys, and means it each time.
    with RunningService(os.path.join(folder, "service.db"), load=[csv], ignore_idempotency_keys=True) as service:
        print(service.url, flush=True)
        for line in sys.stdin:
            load_files(service.store, [line.strip()])
            print("loaded", flush=True)


if __name__ == "__main__":
    serve(*sys.argv[1:])
