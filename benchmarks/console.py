"""`geolookup console`: how soon each page is answered, how soon it can be used in Chromium, and what it weighs."""

import contextlib
import http.client
import re
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from benchmarks.common import ROOT, arguments, environment, load_average, print_table
from benchmarks.data import FULL, SMALL, DataSet
from benchmarks.edits import _PLACE, CUSTOM, _copy, _network
from geolookup.state.editor import Editor

_TARGET_MS, _TARGET_USABLE_S, _TARGET_KB = 200.0, 1.0, 500.0
_TIMES = 9
#: Every page with much on it; with a locid where one is needed.
_PAGES = (
    *(
        "/",
        "/?q=8.8.8.8",
        "/?q=10.0.0.0/12",
        "/?q=8.8.8.8&why=1",
        "/map",
        "/custom",
        "/custom?find=office+19&sort=place",
    ),
    *("/custom/{locid}", "/custom/create", "/custom/{locid}/delete", "/outbox", "/outbox?state=all"),
    *("/generations", "/sources"),
)
#: Pages that read every block: what the first page fills in afterwards.
_AFTERWARDS = frozenset({"/?q=8.8.8.8&why=1"})


@contextlib.contextmanager
def console(home: str) -> Iterator[tuple[str, int]]:
    """The console as a process of its own: the address that opens it, and the process."""
    command = [sys.executable, "-m", "geolookup", "console", "--no-browser"]
    told = {**environment(), "GEOLOOKUP_HOME": home}
    with subprocess.Popen(command, cwd=ROOT, env=told, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            address = next((line.split()[-1] for line in process.stderr if " open http" in line), None)
            if address is None:
                raise SystemExit("the console did not start")
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield address, process.pid
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()


class Answered(NamedTuple):
    """An answer, with the milliseconds that it took, and those of the console's CPU."""

    status: int
    body: bytes
    ms: float
    cpu_ms: float


class Visitor:
    """A connection with the session's cookie."""

    def __init__(self, address: str, process: int) -> None:
        url = urlsplit(address)
        self._clock = (~process << 3) | 2  # Linux: the clock of another process's CPU time, see clock_getcpuclockid(3)
        self.url = f"http://{url.netloc}"
        self._connection = http.client.HTTPConnection(url.netloc)
        self._connection.request("GET", f"{url.path}?{url.query}")
        answer = self._connection.getresponse()
        answer.read()
        self.cookie = str(answer.headers["set-cookie"]).partition(";")[0]

    def get(self, path: str) -> Answered:
        """A page."""
        return self._ask("GET", path)

    def post(self, path: str, **fields: str) -> Answered:
        """A form, sent as the page at its address has it."""
        hidden = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', self.get(path).body.decode())
        return self._ask("POST", path, urlencode({**dict(hidden), **fields}))

    def edit(self, path: str, **fields: str) -> None:
        """Look at what a form would change, and save it."""
        looked = self.post(path, **fields, step="check").body.decode()
        hidden = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', looked))
        assert self._ask("POST", path, urlencode({**hidden, **fields, "step": "save"})).status == 303, looked

    def _ask(self, method: str, path: str, form: str | None = None) -> Answered:
        headers = {"Cookie": self.cookie, "Sec-Fetch-Site": "same-origin"}
        if form is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        began, busy = time.perf_counter(), time.clock_gettime(self._clock)
        self._connection.request(method, path, form, headers)
        answer = self._connection.getresponse()
        body = answer.read()
        ended, ended_busy = time.perf_counter(), time.clock_gettime(self._clock)
        return Answered(answer.status, body, (ended - began) * 1e3, (ended_busy - busy) * 1e3)

    def weight(self, path: str) -> int:
        """Bytes of a page with every file that it loads."""
        self._connection.close()  # it may have been idle for too long
        body = self.get(path).body
        return len(body) + sum(len(self.get(each).body) for each in set(re.findall(r'"(/files/[^"]+)"', body.decode())))


def usable_s(visitor: Visitor, paths: list[str]) -> dict[str, float]:
    """Seconds until a page, with an empty cache, has loaded and run its scripts in Chromium; empty without it."""
    path = shutil.which("chromium")
    if path is None:
        return {}
    from playwright.sync_api import sync_playwright

    found = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        for each in paths:
            times = []
            for _ in range(3):
                context = browser.new_context()
                name, _, value = visitor.cookie.partition("=")
                context.add_cookies([{"name": name, "value": value, "url": visitor.url}])
                page = context.new_page()
                began = time.perf_counter()
                page.goto(visitor.url + each, wait_until="load")
                page.get_by_role("heading", level=1).wait_for()
                times.append(time.perf_counter() - began)
                context.close()
            found[each] = statistics.median(times)
        browser.close()
    return found


def _of_edits(visitor: Visitor, locid: int) -> dict[str, list[Answered]]:
    """What comes with an edit: its preview, and the first pages after it."""
    form = f"/custom/{locid}/add-block"
    found: dict[str, list[Answered]] = {}

    def note(name: str, answered: Answered) -> None:
        assert answered.status == 200, name
        found.setdefault(name, []).append(answered)

    for number in range(_TIMES):
        block = f"172.16.{number}.0/24"
        note("a form that says whose answer changes", visitor.post(form, block=block, step="check"))
        visitor.edit(form, block=block)
        note("/custom, the first page after an edit", visitor.get("/custom"))
    for number in range(_TIMES):
        visitor.edit(form, block=f"172.17.{number}.0/24")
        note(f"/custom/{locid}, the first page after an edit", visitor.get(f"/custom/{locid}"))
    return found


def _cells(answered: list[Answered]) -> tuple[float, float]:
    return statistics.median(each.ms for each in answered), statistics.median(each.cpu_ms for each in answered)


def main() -> None:
    """Print the table."""
    options = arguments(__doc__).parse_args()
    data = DataSet(SMALL if options.small else FULL, options.data)
    with _copy(data.home) as home:
        with Editor(home).transaction() as editor:
            for number in range(CUSTOM):
                locid = editor.create(**_PLACE, city=f"office {number}")
                editor.add_block(locid, _network(number))
        with console(home) as (address, process):
            visitor = Visitor(address, process)
            rows: list[tuple[str, ...]] = []

            def row(name: str, answered: list[Answered], seconds: float | None, weight: int | None) -> None:
                ms, cpu_ms = _cells(answered)
                kept = ms <= _TARGET_MS and (seconds or 0) <= _TARGET_USABLE_S and (weight or 0) <= _TARGET_KB * 1000
                rows.append(
                    (
                        name.replace(str(locid), "LOCID"),
                        f"{ms:.0f}",
                        f"{cpu_ms:.0f}",
                        "-" if seconds is None else f"{seconds:.2f}",
                        "-" if weight is None else f"{weight / 1000:.0f}",
                        "afterwards" if name in _AFTERWARDS else "yes" if kept else "no",
                    )
                )

            paths = [path.format(locid=locid) for path in _PAGES]
            first = {path: visitor.get(path) for path in paths}
            wrong = [path for path in paths if first[path].status != 200]
            assert not wrong, wrong
            answers = {path: [visitor.get(path) for _ in range(_TIMES)] for path in paths}
            seconds = usable_s(visitor, paths)
            for path in paths:
                row(path, answers[path], seconds.get(path), visitor.weight(path))
            for name, answered in _of_edits(visitor, locid).items():
                row(name, answered, None, None)
    print_table(
        "console: every page",
        ("page", "ms", "CPU ms", "usable in Chromium, s", "kB uncached", "in the targets"),
        rows,
        f"{CUSTOM} custom geolocations, all of them edits that wait for a push, above {data.describe()}; medians of "
        f"{_TIMES} and 3; load average {load_average()}",
        f"targets: {_TARGET_MS:.0f} ms, {_TARGET_USABLE_S:.0f} s, {_TARGET_KB:.0f} kB; what reads every block is "
        "filled in afterwards",
    )


if __name__ == "__main__":
    main()
