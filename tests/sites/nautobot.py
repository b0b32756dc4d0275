"""Sites of a real Nautobot: ``python -m tests.sites.nautobot FOLDER``, a job of its own.

It installs Nautobot from PyPI into the folder, starts it with PostgreSQL and Redis of Debian, fills it with 2,000 sites
and 20 VRFs (`nautobot_filling.py`), and runs the commands that a person runs. What must come of it is known by
arithmetic. It takes some minutes, most of them to make the database.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import geolookup
from geolookup.settings.table import Settings

FILLING = Path(__file__).with_name("nautobot_filling.py")
SITES, VRFS, DEVICES, IN_VRF = 2000, 20, 40, 20
#: A network of each site, half of it again, and IPv6; those of both floors, a range in it, and addresses of devices.
BLOCKS = 3 * SITES + 1 + 1 + DEVICES
COUNTRIES = ("DE", "FR", "US", "AT")
CITIES = ("München", "Paris", "Austin", "Innsbruck")


class Server(Protocol):
    """A filled Nautobot; `nautobot_server.NautobotServer` makes one."""

    url: str
    version: str

    def manage(self, *words: str, program: str | None = None) -> str: ...


def play(server: Server, folder: Path) -> Iterator[tuple[str, str]]:
    """Play what a person does with it; yields each step, and what came of it."""
    machine = _Machine(server, folder)
    machine.run("sync", "--bundled")
    planned, told = machine.run_json("custom", "plan", "--from", "nautobot", "--json")
    summary = planned["summary"]
    assert (summary["sites"], summary["new"], summary["added"]) == (SITES, SITES, BLOCKS), summary
    assert len(planned["vrfs"]) == VRFS * IN_VRF
    assert not planned["held"]
    yield "plan", f"{SITES} sites, {BLOCKS} blocks, {len(planned['vrfs'])} sites of {VRFS} VRFs; {told}"
    for line in planned["reading"]:
        yield "read", line.partition(": ")[2]
    applied, told = machine.run_json("custom", "apply", "--from", "nautobot", "--json")
    assert applied["summary"]["new"] == SITES
    yield "apply", told
    again, told = machine.run_json("custom", "plan", "--from", "nautobot", "--json")
    assert not again["changes"], again["changes"][:3]
    assert not again["vrfs"], again["vrfs"][:3]
    yield "plan again", f"no change; {told}"
    yield "answers", f"{machine.check_answers()} as they were made"
    before = machine.answers()
    server.manage("shell", "--interface=python", program=_MOVE)
    moved, told = machine.run_json("custom", "apply", "--from", "nautobot", "--json")
    assert len(moved["changes"]) == 4, moved["changes"]  # a block goes and comes for each of two networks
    yield "two networks move from site 5 to site 6", f"{len(moved['changes'])} edits; {told}"
    assert machine.answers() != before
    before = machine.answers()
    machine.token("b")
    refused, told = machine.run_json("custom", "apply", "--from", "nautobot", "--json", code=3)
    assert "prefixes that were there the last time are not seen" in refused["error"], refused["error"]
    assert machine.answers() == before
    yield "a token that sees less", refused["error"].partition(": ")[2].partition(". If")[0]
    report, _ = machine.run_json("refresh", "--json", code=3)
    assert (report["sites"]["outcome"], report["next_action"]["code"]) == ("held", "decide-on-sites")
    assert machine.answers() == before
    assert "sites wait:" in machine.run("status")
    yield "refresh with it", f"{report['summary']}; status says that it waits"
    machine.token("c")
    report, _ = machine.run_json("refresh", "--json", code=1)
    assert report["failures"][0]["stage"] == "sites"
    assert machine.answers() == before
    yield "refresh with a token that is none", report["failures"][0]["message"]
    machine.token("a")
    report, told = machine.run_json("refresh", "--json")
    assert report["sites"]["outcome"] == "unchanged"
    assert machine.answers() == before
    yield "refresh with the first one", f"nothing to change; {told}"


#: Two networks of one site go to the next.
_MOVE = """
from nautobot.dcim.models import Location
from nautobot.ipam.models import Prefix

one, next_one = (Location.objects.get(name=name) for name in ("Site 0005", "Site 0006"))
for text in ("10.0.5.0/24", "2001:db8:5::/48"):
    network = Prefix.objects.get(prefix=text, namespace__name="Global")
    network.locations.set([next_one])
# The half of it inherits, and stays with the first.
Prefix.objects.get(prefix="10.0.5.0/25", namespace__name="Global").locations.set([one])
"""


class _Machine:
    """A state and settings that name the server."""

    def __init__(self, server: Server, folder: Path) -> None:
        self._folder = folder
        self._home = str(folder / "state")
        self.token("a")
        (folder / "geolookup.toml").write_text(
            f'[sites]\nkind = "nautobot"\nurl = "{server.url}"\ntoken_file = "token"\nlocation_type = "Site"\n'
            'apply = "apply"\ncountry = {alpine-north = "AT"}\n',
            encoding="utf-8",
        )

    def token(self, letter: str) -> None:
        """Use the token of one of the users that the filling made, or of none."""
        path = self._folder / "token"
        path.write_text(letter * 40, encoding="utf-8")
        path.chmod(0o600)

    def run(self, *words: str, code: int = 0) -> str:
        """A command as a person runs it."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GEOLOOKUP_")}
        environment |= {"GEOLOOKUP_CONFIG": str(self._folder / "geolookup.toml"), "GEOLOOKUP_HOME": self._home}
        done = subprocess.run(
            [sys.executable, "-m", "geolookup", *words], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, (words, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout

    def run_json(self, *words: str, code: int = 0) -> tuple[dict[str, Any], str]:
        """What a command answers, and the time that it took."""
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        found = json.loads(self.run(*words, code=code))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return found, f"{cpu:.1f} s of CPU, {time.monotonic() - began:.0f} s"

    def answers(self) -> str:
        """The fingerprint of all answers, and the VRFs."""
        with geolookup.open(self._home, settings=Settings()) as geo:
            places = [geo.edit().vrf_places(vrf) for vrf in geo.edit().vrfs()]
            return f"{geo.fingerprint()} {places}"

    def check_answers(self) -> int:
        """Ask of each site and VRF, and compare with what the filling made; the number of answers."""
        asked = 0
        with geolookup.open(self._home, settings=Settings()) as geo:
            for number in range(SITES):
                place = COUNTRIES[number % 4], CITIES[number % 4]
                for address in (f"10.{number // 256}.{number % 256}.200", f"2001:db8:{number:x}::1"):
                    match = geo.match(address)
                    assert match is not None
                    assert (match.site, match.country, match.city) == (f"Site {number:04}", *place), match
                    asked += 1
            for number in range(DEVICES):
                match = geo.match(f"192.0.2.{number + 1}")
                assert match is not None
                assert match.site == f"Site {number:04}", match
                asked += 1
            for vrf in range(VRFS):
                for at in range(IN_VRF):
                    name = f"172.16.{at}.9" if vrf >= 10 else f"172.{20 + vrf}.{at}.9"
                    found = geo.lookup(name, vrf=f"CUST-{vrf:02}")
                    assert found is not None, (vrf, name)
                    site = (vrf * IN_VRF + at) % SITES
                    assert (found.country, found.city) == (COUNTRIES[site % 4], CITIES[site % 4]), found
                    asked += 1
        return asked


def main(folder: Path) -> None:
    """Make the server, play, and print a table."""
    from tests.sites.nautobot_server import NautobotServer

    folder.mkdir(parents=True, exist_ok=True)
    with NautobotServer(folder) as server:
        print(f"Nautobot {server.version} at {server.url}", flush=True)
        print(server.manage("shell", "--interface=python", program=FILLING.read_text("utf-8")).strip(), flush=True)
        for step, came in play(server, folder / "machine"):
            print(f"{step}: {came}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
