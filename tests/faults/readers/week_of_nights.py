"""A service that misbehaves a different way each night: ``python -m tests.faults.readers.week_of_nights`` prints them.

The service is the real one behind a proxy that spoils its answers. Each night somebody may have edited here, and
``geolookup refresh`` runs in a process of its own, while another process looks addresses up throughout.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from geolookup.service.store import schema
from geolookup.state.editor import Editor
from geolookup.state.publishing.directory import StateDirectory
from tests.faults.fault_proxy import Fault, FaultProxy, after, instead
from tests.faults.raw_server import RawServer, Script, answer
from tests.support.data.lists import listed
from tests.support.services.plain_http import PLAIN
from tests.support.services.running_service import FIELDS, RunningService

ROOT = Path(__file__).parents[3]
#: One block for each address that the reader asks for; the others make the list long enough to shrink.
BLOCKS = ["10.0.0.0-10.255.255.255", "11.0.0.0-11.255.255.255", "192.168.0.0-192.168.255.255"]
BLOCKS += ["2001:db8::-2001:db8::ffff", "fd00::-fd00::ffff", *(f"172.16.{n}.0-172.16.{n}.255" for n in range(55))]
COLUMNS = ("night", "the service", "pushed", "served after", "exit", "next action")


@dataclass(frozen=True, kw_only=True)
class Night:
    """One night: what happens before it (at the service, and here), how lists are spoiled, and what must come of it.

    ``serves`` is the generation that is served after it; ``pushed`` is how many edits went, and how many are left.
    """

    name: str
    there: Callable[["Nights"], None] = lambda _nights: None
    spoiled: Callable[[list[Any]], Fault] | None = None
    lost_write: bool = False
    exits: int = 1
    next: str = "wait"
    serves: int
    pushed: tuple[int, int] = (0, 0)


class Nights:
    """The service, the proxy, the monitor and the machine."""

    def __init__(
        self, work: Path, service: RunningService, proxy: FaultProxy, monitor: RawServer, python: Sequence[str]
    ) -> None:
        self.work, self.service, self.proxy, self.monitor, self.python = work, service, proxy, monitor, python
        self.home = str(work / "state")
        self.stamp = 0
        self.restamp()

    def restamp(self) -> None:
        """Every default geolocation changes: a reader that sees two stamps at once sees a mixture."""
        self.stamp += 1
        text = str(self.stamp)
        stamped = {name: text for field in ("region", "city", "postalcode") for name in (field, f"{field}_key")}
        with self.service.store.write() as transaction:
            table = schema.geolocations
            transaction.connection.execute(table.update().where(table.c.locid > 0).values(**stamped))
            transaction.changed = True

    def edit(self, city: str, block: str) -> None:
        """Somebody makes a place of their own, here."""
        with Editor(self.home) as editor, editor.transaction():
            editor.add_block(editor.create(**{**FIELDS, "city": city}), block)

    def delete_there(self) -> None:
        """Somebody else deletes our newest place at the service."""
        with self.service.client() as client:
            custom = [place["locid"] for place in client.get("/geolocations").json() if place["locid"] < 0]
            client.delete(f"/geolocations?locid={min(custom)}").raise_for_status()

    def refresh(self, night: Night) -> tuple[int, dict[str, Any]]:
        """The night's run: its exit status and its report."""
        night.there(self)
        items = httpx.get(f"{self.service.url}/geolocations", trust_env=False, verify=PLAIN).json()
        self.proxy.read_fault = None if night.spoiled is None else night.spoiled(items)
        self.proxy.faults = [after(b"")] if night.lost_write else []
        result = subprocess.run(
            [*self.python, "-m", "geolookup", "refresh", "--json"],
            env=self.environment(), cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        return result.returncode, json.loads(result.stdout)

    def environment(self) -> dict[str, str]:
        """The settings; impatient, so that a slow night is a short one."""
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("GEOLOOKUP_")},
            "GEOLOOKUP_HOME": self.home,
            "GEOLOOKUP_URL": self.proxy.url,
            "GEOLOOKUP_PING_URL": f"{self.monitor.url}/nightly",
            "GEOLOOKUP_TEXTFILE": str(self.work / "geolookup.prom"),
            "GEOLOOKUP_COMPRESSION": "true",
            "GEOLOOKUP_TOTAL_TIMEOUT_S": "4",
            "GEOLOOKUP_SETTLE_S": "0",
            "GEOLOOKUP_ATTEMPTS": "2",
        }


def _cut(items: list[Any]) -> Fault:
    return instead(listed(items)[:-100])


def _drip(items: list[Any]) -> Fault:
    whole = listed(items)
    return instead(Script([whole[at : at + 20] for at in range(0, len(whole), 20)], pause_s=0.5))


def _reset(items: list[Any]) -> Fault:
    return instead(Script([listed(items)[:2000]], reset=True))


def _unauthorized(_items: list[Any]) -> Fault:
    return instead(answer(b"{}", status="401 Unauthorized"))


def _overloaded(_items: list[Any]) -> Fault:
    return instead(answer(b"", status="503 Service Unavailable", headers=["Retry-After: 3600"]))


def _garbled(items: list[Any]) -> Fault:
    return instead(listed(items, headers=["Content-Encoding: gzip"]))


NIGHTS = (
    Night(name="is well: the first list", exits=0, next="none", serves=1),
    Night(name="ends its list early", spoiled=_cut, serves=1, next="ask-the-provider"),
    Night(name="answers 200 with HTML", spoiled=lambda _: instead(answer(b"<html>Sign in")), serves=1,
          next="ask-the-provider"),
    Night(name="has lost half of its rows", spoiled=lambda items: instead(listed(items[::2])), exits=3, serves=1,
          next="decide-on-the-list"),
    Night(name="is well, and we made an office", there=lambda nights: nights.edit("Office", "203.0.113.0/26"),
          exits=0, next="none", serves=2, pushed=(2, 0)),
    Night(name="asks to come back in an hour", spoiled=_overloaded, serves=2),
    Night(name="resets the connection", spoiled=_reset, serves=2),
    Night(name="takes our token for wrong", spoiled=_unauthorized, serves=2, next="check-token",
          there=lambda nights: nights.edit("Depot", "203.0.113.64/26"), pushed=(0, 2)),
    Night(name="loses its answer to the create", lost_write=True, serves=3, next="run-again", pushed=(0, 1)),
    Night(name="is well, and has new data", there=Nights.restamp, exits=0, next="none", serves=4, pushed=(1, 0)),
    Night(name="drips, byte by byte", spoiled=_drip, serves=4),
    Night(name="lists a place twice", spoiled=lambda items: instead(listed([*items, items[-1]])), serves=4,
          next="ask-the-provider"),
    Night(name="breaks its compression", spoiled=_garbled, serves=4, next="ask-the-provider"),
    Night(name="declares one row more", spoiled=lambda items: instead(listed(items, count=len(items) + 1)), serves=4,
          next="ask-the-provider"),
    Night(name="has lost our depot", there=Nights.delete_there, exits=0, next="none", serves=5),
    Night(name="is well, and has nothing new", exits=0, next="none", serves=5),
    Night(name="is well, and has new data again", there=Nights.restamp, exits=0, next="none", serves=6),
)  # fmt: skip
#: What the reader must have seen in the end: the stamp of the last list.
LAST_STAMP = 1 + sum(night.there == Nights.restamp for night in NIGHTS)


@dataclass(frozen=True, kw_only=True)
class Week:
    """What came of the nights: a row of the table each, each run's report, what the reader and the monitor saw."""

    rows: list[tuple[str, ...]]
    reports: list[dict[str, Any]]
    exits: list[int]
    served: list[int]
    reader: dict[str, Any]
    pings: list[str]


def live_through(work: Path, python: Sequence[str] = (sys.executable,)) -> Week:
    """All nights, one after the other; ``python`` begins each run."""
    csv = work / "defaults.csv"
    lines = [
        f"{locid},DE,,,,,,,,{','.join(block.split('-'))}"
        for locid, block in enumerate(BLOCKS, start=1)
    ]  # fmt: skip
    header = "locid,country,region,city,postalcode,latitude,longitude,dmacode,areacode,startip,endip"
    csv.write_text("\n".join([header, *lines, ""]))
    done = work / "done"
    rows, reports, exits, served = [], [], [], []
    with (
        RunningService(work / "service.db", load=[csv]) as service,
        FaultProxy(service.url) as proxy,
        RawServer(answer(b"OK")) as monitor,
    ):
        nights = Nights(work, service, proxy, monitor, python)
        reader: subprocess.Popen[str] | None = None
        try:
            for number, night in enumerate(NIGHTS, start=1):
                code, report = nights.refresh(night)
                generation = StateDirectory(nights.home).require_current().generation
                push = report["push"]
                left = sum(push[state] for state in ("queued", "unknown", "held", "rejected"))
                rows.append(
                    (str(number), night.name, f"{push['done']}, {left} left" if push["done"] or left else "-",
                     f"generation {generation}", str(code), report["next_action"]["code"])
                )  # fmt: skip
                reports.append(report)
                exits.append(code)
                served.append(generation)
                if reader is None:
                    reader = subprocess.Popen(
                        [sys.executable, "-m", "tests.faults.readers.reader_process",
                         nights.home, str(LAST_STAMP), str(done), "0.02"],
                        cwd=ROOT, stdout=subprocess.PIPE, text=True,
                    )  # fmt: skip
            done.touch()
            assert reader is not None
            seen = json.loads(reader.communicate(timeout=60)[0].splitlines()[-1])
        finally:
            if reader is not None:
                reader.kill()
                reader.wait()
        pings = [request.target for request in monitor.requests]
    return Week(rows=rows, reports=reports, exits=exits, served=served, reader=seen, pings=pings)


def table(rows: list[tuple[str, ...]]) -> str:
    """The rows in Markdown."""
    lines = [COLUMNS, tuple("---" for _ in COLUMNS), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        week = live_through(Path(directory))
    print(table(week.rows))
    print(f"\nthe reader made {week.reader['lookups']} rounds; problems: {week.reader['problems'] or 'none'}")
