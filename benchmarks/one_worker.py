"""Lookups of one address by one process of serve or share, by 16 connections of wrk; beside it nginx with GeoIP2."""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import numpy as np

from benchmarks.common import ROOT, arguments, environment, load_average, print_table
from benchmarks.data import SMALL, DataSet
from benchmarks.figures import record
from benchmarks.service_list import service
from benchmarks.share import share
from geolookup.web.auth import Scope, append, line_for, new_token

CONNECTIONS, SECONDS, ROUNDS = 16, 4, 3
_LOOKUP, _HEALTH = "GET /lookup/{ip}", "GET /healthz"
#: What this was on the machine of RESULTS.md when the framework answered both (requests a second; processor time, which
#: was not taken of all), and what is wanted.
BEFORE, GOAL = {_LOOKUP: ("5,400", "203"), _HEALTH: ("6,500", "")}, {_LOOKUP: "20,000"}
_SERVE, _SHARE, _NGINX_NAME = "geolookup serve", "share, 100 tokens", "nginx, GeoIP2"
_FIGURES = {_SERVE: "ours", _SHARE: "share", _NGINX_NAME: "nginx"}
_TOKENS = 100
#: Debian's names of the module.
_MODULE = "/usr/lib/nginx/modules/ngx_http_geoip2_module.so"

#: Another address with each request, as wrk asks for it.
_SCRIPT = """
local paths = {%s}
local next_one = 0
request = function()
  next_one = next_one %% #paths + 1
  return wrk.format("GET", paths[next_one])
end
"""
_NGINX = """
load_module {module};
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log stderr crit;
events {{ worker_connections 256; }}
http {{
  access_log {folder}/access.log;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  keepalive_requests 1000000000;
  geoip2 {mmdb} {{ {variables} }}
  server {{
    listen 127.0.0.1:{port};
    default_type application/json;
    location = /healthz {{ return 200 '{{"status":"alive"}}'; }}
    location ~ ^/lookup/(?<asked>.+)$ {{ return 200 '{{"ip":"$asked",{members}}}'; }}
  }}
}}
"""
_FIELDS = ("country", "region", "city", "postalcode", "latitude", "longitude", "dmacode", "areacode")


def _seconds(pid: int) -> float:
    """The processor time of a process and of its children that still run."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        pids = [pid, *map(int, file.read().split())]
    ticks = 0
    for each in pids:
        with open(f"/proc/{each}/stat", encoding="ascii") as file:
            ticks += sum(map(int, file.read().rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _measure(url: str, pid: int, script: str | None, token: str) -> tuple[float, float]:
    """Requests a second, and microseconds of the server's processors for each."""
    before = _seconds(pid)
    more = ["-H", f"Authorization: Bearer {token}", *([] if script is None else ["-s", script])]
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}s", *more, url]
    printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    spent = _seconds(pid) - before
    count = re.search(r"(\d+) requests in", printed)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", printed)
    if count is None or rate is None or "Non-2xx" in printed:
        raise SystemExit(f"wrk says: {printed}")
    return float(rate[1]), spent / int(count[1]) * 1e6


@contextlib.contextmanager
def _nginx(mmdb: str) -> Iterator[tuple[str, int]]:
    """nginx with one worker and the same data, each request logged: host and port, and its process id."""
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(socket.socket()) as found:
        os.chmod(folder, 0o777)  # its worker is another user's
        copy = shutil.copy2(mmdb, folder)
        os.chmod(copy, 0o644)
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
        found.close()
        variables = " ".join(f"$geo_{name} source=$asked {name};" for name in _FIELDS)
        members = ",".join(f'"{name}":"$geo_{name}"' for name in _FIELDS)
        with open(os.path.join(folder, "nginx.conf"), "w", encoding="utf-8") as file:
            file.write(
                _NGINX.format(module=_MODULE, folder=folder, mmdb=copy, variables=variables, members=members, port=port)
            )
        with subprocess.Popen(["nginx", "-p", folder, "-c", os.path.join(folder, "nginx.conf")]) as process:
            try:
                for _ in range(100):
                    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                        break
                    time.sleep(0.1)
                yield f"127.0.0.1:{port}", process.pid
            finally:
                process.terminate()
                process.wait()


@contextlib.contextmanager
def _sharing(mmdb: str, folder: str, token: str) -> Iterator[tuple[str, int]]:
    """`geolookup share` of the same data, which knows a hundred tokens: host and port, and its process id."""
    home, tokens = os.path.join(folder, "home"), os.path.join(folder, "tokens")
    for number in range(_TOKENS):
        append(tokens, line_for(f"client-{number}", Scope.READ, token if number == _TOKENS // 2 else new_token()))
    told = {**environment(), "GEOLOOKUP_HOME": home}
    subprocess.run([sys.executable, "-m", "geolookup", "sync", mmdb], cwd=ROOT, env=told, check=True)
    with share(home, "--tokens", tokens) as found:
        yield found


def main() -> None:
    """Print the table."""
    options = arguments(__doc__).parse_args()
    if shutil.which("wrk") is None:
        print("wrk is not installed: nothing was measured")
        return
    data = DataSet(SMALL, options.data)
    paths = [f"/lookup/{address}" for address in data.covered4(2000, np.random.default_rng(1))]
    rows = []
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        script = os.path.join(folder, "lookups.lua")
        with open(script, "w", encoding="ascii") as file:
            file.write(_SCRIPT % ", ".join(f'"{path}"' for path in paths))
        servers = {_SERVE: stack.enter_context(service(shutil.copy2(data.service_db, folder)))}
        token = new_token()
        servers[_SHARE] = stack.enter_context(_sharing(data.mmdb, folder, token))
        if shutil.which("nginx") and os.path.exists(_MODULE):
            servers[_NGINX_NAME] = stack.enter_context(_nginx(data.mmdb))
        taken: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for _ in range(ROUNDS):  # side by side: what else the machine does meets all of them
            for name, (address, pid) in servers.items():
                for what, asked in ((_LOOKUP, script), (_HEALTH, None)):
                    url = f"http://{address}/healthz"
                    taken.setdefault((what, name), []).append(_measure(url, pid, asked, token))
    for (what, name), found in sorted(taken.items()):
        rate, spent = (float(np.median([one[index] for one in found])) for index in range(2))
        figure = f"one_worker/{what.split('/')[1]}/{_FIGURES[name]}"
        record(figure, rate)
        record(f"{figure} CPU us", spent)
        goal = GOAL.get(what, "") if name != _NGINX_NAME else ""
        before, spent_before = BEFORE[what] if name == _SERVE else ("5,790" if name == _SHARE and goal else "", "")
        rows.append((what, name, f"{rate:,.0f}", before, goal, f"{spent:.0f}", spent_before))
    print_table(
        f"One worker, {CONNECTIONS} connections of wrk that ask without pause: {data.describe()}",
        ("request", "server", "a second", "before", "goal", "CPU us each", "before"),
        rows,
        f"medians of {ROUNDS} rounds of {SECONDS} seconds, servers in turn; wrk shares the processors; load average "
        f"{load_average()}",
        "2,000 addresses in turn; nginx logs each request, the service counts each; before: answered by the framework",
    )


if __name__ == "__main__":
    main()
