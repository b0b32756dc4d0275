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
from urllib.parse import urlsplit

from benchmarks.common import ROOT, arguments, environment, load_average, print_table
from benchmarks.data import FULL, SMALL, DataSet
from benchmarks.edits import _PLACE, CUSTOM, _copy, _network
from geolookup.state.edits.editor import Editor

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
def console(home: str) -> Iterator[str]:
    """The console as a process of its own: the address that opens it."""
    command = [sys.executable, "-m", "geolookup", "console", "--no-browser"]
    told = {**environment(), "GEOLOOKUP_HOME": home}
    with subprocess.Popen(command, cwd=ROOT, env=told, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            address = next((line.split()[-1] for line in process.stderr if " open http" in line), None)
            if address is None:
                raise SystemExit("the console did not start")
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield address
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()


class Visitor:
    """A connection with the session's cookie."""

    def __init__(self, address: str) -> None:
        url = urlsplit(address)
        self.url = f"http://{url.netloc}"
        self._connection = http.client.HTTPConnection(url.netloc)
        self._connection.request("GET", f"{url.path}?{url.query}")
        answer = self._connection.getresponse()
        answer.read()
        self.cookie = str(answer.headers["set-cookie"]).partition(";")[0]

    def get(self, path: str) -> tuple[int, bytes, float]:
        """Status, body and milliseconds."""
        began = time.perf_counter()
        self._connection.request("GET", path, headers={"Cookie": self.cookie})
        answer = self._connection.getresponse()
        body = answer.read()
        return answer.status, body, (time.perf_counter() - began) * 1e3

    def weight(self, path: str) -> int:
        """Bytes of a page with every file that it loads."""
        self._connection.close()  # it may have been idle for too long
        body = self.get(path)[1]
        return len(body) + sum(len(self.get(each)[1]) for each in set(re.findall(r'"(/files/[^"]+)"', body.decode())))


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


def main() -> None:
    """Print the table."""
    options = arguments(__doc__).parse_args()
    data = DataSet(SMALL if options.small else FULL, options.data)
    with _copy(data.home) as home:
        with Editor(home).transaction() as editor:
            for number in range(CUSTOM):
                locid = editor.create(**_PLACE, city=f"office {number}")
                editor.add_block(locid, _network(number))
        with console(home) as address:
            visitor = Visitor(address)
            paths = [path.format(locid=locid) for path in _PAGES]
            paths = [path for path in paths if visitor.get(path)[0] == 200]
            medians = {path: statistics.median(visitor.get(path)[2] for _ in range(_TIMES)) for path in paths}
            seconds = usable_s(visitor, paths)
            rows = [
                (
                    path.replace(str(locid), "LOCID"),
                    f"{medians[path]:.0f}",
                    f"{seconds[path]:.2f}" if path in seconds else "-",
                    f"{visitor.weight(path) / 1000:.0f}",
                    "afterwards"
                    if path in _AFTERWARDS
                    else "yes"
                    if medians[path] <= _TARGET_MS
                    and seconds.get(path, 0) <= _TARGET_USABLE_S
                    and visitor.weight(path) <= _TARGET_KB * 1000
                    else "no",
                )
                for path in paths
            ]
    print_table(
        "console: every page",
        ("page", "ms", "usable in Chromium, s", "kB uncached", "in the targets"),
        rows,
        f"{CUSTOM} custom geolocations above {data.describe()}; medians of {_TIMES} and 3; {load_average()}",
        f"targets: {_TARGET_MS:.0f} ms, {_TARGET_USABLE_S:.0f} s, {_TARGET_KB:.0f} kB; what reads every block is "
        "filled in afterwards",
    )


if __name__ == "__main__":
    main()
