"""Sites of a server: 100,000 prefixes of 2,000 sites in NetBox, read whole, compared, and planned or applied.

The server is a process of its own, which replays answers in the shapes that NetBox 4.2 documents. CPU is that of the
process that reads: user and system time.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.sites.netbox_server import TOKEN, Made, page

from benchmarks.common import ROOT, arguments, environment, load_average, print_table
from geolookup.settings.sites import SitesSettings
from geolookup.settings.table import Settings
from geolookup.sites.servers.applying import run_server
from geolookup.sites.servers.server import read_server
from geolookup.sites.site import Problems
from geolookup.state.editor import Editor
from geolookup.sync.first import build_bundled_state

PREFIXES, SITES, VRFS = 100_000, 2_000, 20
#: A twentieth of the prefixes are of VRFs; a third of the others name no site, and inherit.
_OF_VRFS = 20
_PAGE = 1000
_CHANGED = 20


def _made(prefixes: int, sites: int) -> Made:
    made = Made(release="4.2.9")
    germany = made.region("Germany", "de", made.region("Europe", "eu"))
    regions = [made.region(f"Land {number}", f"land-{number}", germany) for number in range(16)]
    for number in range(sites):
        made.site(
            f"Site {number:05}",
            regions[number % 16],
            latitude=48 + number % 100 / 100,
            longitude=8 + number % 97 / 100,
            physical_address=f"Hauptstraße {number}\n80331 München",
            time_zone="Europe/Berlin",
        )
    vrfs = [made.vrf(f"CUST-{number}", f"65000:{number}") for number in range(VRFS)]
    made.prefix("10.0.0.0/8", status="container")
    each = prefixes // sites
    for number in range(1, prefixes):
        site = made.sites[number // each % sites]
        if number % _OF_VRFS == 0:
            at = number // _OF_VRFS
            made.prefix(f"172.{16 + at % 16}.{at // 16 % 256}.{at // 4096 % 256}/32", site, vrf=vrfs[at % VRFS])
        elif number % 3 == 0 and (number - 1) % _OF_VRFS:
            before = made.prefixes[-1]["prefix"].partition("/")[0]
            made.prefix(f"{before}/30")
        else:
            made.prefix(f"10.{number >> 12 & 255}.{number >> 4 & 255}.{(number & 15) * 16}/28", site)
    return made


def _serve(prefixes: int, sites: int) -> None:
    """Answer until the standard input ends; the address is printed first."""
    pages: dict[tuple[str, int], bytes] = {}
    made = _made(prefixes, sites)
    for path, rows in made.lists().items():
        for offset in range(0, max(len(rows), 1), _PAGE):
            pages[path, offset] = json.dumps(page(rows, {"limit": str(_PAGE), "offset": str(offset)})).encode()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            offset = int(dict(parse_qsl(parts.query)).get("offset", 0))
            if parts.path == "/change":
                for row in made.sites[:_CHANGED]:
                    row["latitude"] += 0.001
                pages["/api/dcim/sites/", 0] = json.dumps(page(made.sites, {"limit": str(_PAGE)})).encode()
            body = (
                b'{"netbox-version": "4.2.9"}'
                if parts.path[-1:] != "/" or parts.path == "/api/status/"
                else pages[parts.path, offset]
            )
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    size = sum(len(body) for body in pages.values())
    print(f"http://127.0.0.1:{server.server_address[1]} {size}", flush=True)
    sys.stdin.read()


def _timed(step: Callable[[], Any]) -> tuple[Any, float, float]:
    """What a step returns, its seconds of CPU, and its seconds."""
    began, cpu = time.perf_counter(), time.process_time()
    found = step()
    return found, time.process_time() - cpu, time.perf_counter() - began


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__).parse_args()
    if options.child:
        _serve(*map(int, options.child))
        return
    prefixes, sites = (PREFIXES // 50, SITES // 50) if options.small else (PREFIXES, SITES)
    command = [sys.executable, "-m", "benchmarks.sites", "--child", str(prefixes), str(sites)]
    with contextlib.ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        server = opened.enter_context(
            subprocess.Popen(
                command, cwd=ROOT, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        )
        assert server.stdout is not None
        url, size = server.stdout.readline().split()
        token = folder / "token"
        token.write_text(TOKEN, encoding="utf-8")
        token.chmod(0o600)
        settings = Settings(sites=SitesSettings(kind="netbox", url=url, token_file=str(token), apply="apply"))
        home = os.path.join(folder, "state")
        build_bundled_state(home, quiet=True)
        rows = []
        _, cpu, seconds = _timed(lambda: read_server(settings, Problems()))
        rows.append(("reading all lists, and what sites they mean", f"{cpu:.1f} s", f"{seconds:.1f} s"))
        for what in (
            "the first night: every site is new",
            "a night in which nothing changed",
            "a night of few changes",
        ):
            if "few" in what:
                urllib.request.urlopen(f"{url}/change").close()
            made, cpu, seconds = _timed(lambda: run_server(Editor(home), settings))
            assert made.outcome != "held"
            rows.append((f"{what} ({made.changes:,} changes)", f"{cpu:.1f} s", f"{seconds:.1f} s"))
            print(rows[-1], file=sys.stderr, flush=True)
        print_table(
            f"NetBox of {prefixes:,} prefixes, {sites:,} sites and {VRFS} VRFs ({int(size) / 1e6:,.0f} MB of JSON)",
            ("what", "CPU", "time"),
            rows,
            "The bound is 10 s of CPU for a night of 100,000 prefixes.",
            f"load average {load_average()}",
        )
        assert server.stdin is not None
        server.stdin.close()


if __name__ == "__main__":
    main()
