"""Count what one walk through geolookup asks for: moves between files of the code, and openings of files of the state.

    python tools/walk.py sync FILE          # or any other command line, on the state that GEOLOOKUP_HOME names
    python tools/walk.py create             # one edit by an editor that is open: a custom geolocation is created
    python tools/walk.py explained ADDRESS  # one explanation by lookups that are open

A move is a call whose caller stands in another file of the package, or the end of a ``with`` whose beginning does; what
importing does counts for none. Openings are what Python's audit hooks see of the files in the state directory; with
strace (``strace -f -e trace=openat``) those that SQLite and the C library make are seen too. Lower is simpler: `tests`
hold the numbers of four walks.
"""

import contextlib
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import geolookup

SOURCE = os.path.dirname(geolookup.__file__)
#: What `opened` is summed up to, by the path inside the state directory.
KINDS = {
    "CURRENT": re.compile(r"CURRENT"),
    "indexes": re.compile(r"(.*/)?index|custom/\d+"),
    "databases": re.compile(r".*\.db"),
}


class Walk:
    """What one walk asks for: ``opened`` and ``listed`` by the path in the state directory, ``databases`` of SQLite by
    theirs, and ``moves`` by the two files.
    """

    def __init__(self, home: str) -> None:
        self._home = home
        self._walking = False
        self.opened: Counter[str] = Counter()
        self.listed: Counter[str] = Counter()
        self.databases: Counter[str] = Counter()
        self.moves: Counter[str] = Counter()

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """Count until the end of the context. An audit hook stays for as long as the process: once is enough."""
        sys.addaudithook(self._on_event)
        self._mark("BEGINS")
        self._walking = True
        sys.setprofile(self._on_call)
        try:
            yield
        finally:
            sys.setprofile(None)
            self._walking = False
            self._mark("ENDS")

    def _mark(self, name: str) -> None:
        """Try to open a file of this name, which strace sees."""
        with contextlib.suppress(FileNotFoundError):
            os.open(os.path.join(self._home, name), os.O_RDONLY)

    def _on_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        counters = {"open": self.opened, "os.listdir": self.listed, "sqlite3.connect": self.databases}
        if not self._walking or event not in counters:
            return
        path = str(arguments[0])
        if event == "sqlite3.connect" or path.startswith(self._home):
            counters[event][path.removeprefix(self._home).lstrip("/").split("-")[0]] += 1

    def _on_call(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(SOURCE):
            return
        file, caller = frame.f_code.co_filename, frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(SOURCE):
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != file and not _is_importing(frame):
            moved = (os.path.relpath(each, SOURCE) for each in (caller.f_code.co_filename, file))
            self.moves[" -> ".join(moved)] += 1

    def as_dict(self) -> dict[str, Any]:
        """All of it by name, and the openings of each kind of file summed up."""
        asked = Counter({**self.opened})
        for path, count in self.databases.items():
            asked[path] += count
        kinds = {kind: sum(n for path, n in asked.items() if form.fullmatch(path)) for kind, form in KINDS.items()}
        return {
            "moves": self.moves.total(),
            **kinds,
            "opened": dict(self.opened),
            "listed": dict(self.listed),
            "databases_opened": dict(self.databases),
            "by_way": dict(self.moves.most_common()),
        }


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(SOURCE):
            return True
        frame = frame.f_back
    return False


def _create(home: str) -> Callable[[], object]:
    fields = dict.fromkeys(("region", "city", "postalcode", "dmacode", "areacode"), "")
    editor = geolookup.open_editor(home)
    return lambda: editor.create(country="DE", latitude=52.5, longitude=13.4, **fields)


def _explained(home: str, address: str) -> Callable[[], object]:
    geo = geolookup.open(home)
    geo.explain(address)  # the first one imports
    # That may have taken longer than the second after which lookups look at CURRENT again.
    geo.look_soon()
    geo.lookup(address)
    return lambda: geo.explain(address)


def _command(arguments: list[str]) -> Callable[[], object]:
    from geolookup.cli import app

    return lambda: app.run(arguments)


def main(home: str, arguments: list[str]) -> dict[str, Any]:
    """Walk once, and say what that asked for."""
    home = os.path.abspath(home)
    match arguments:
        case ["create"]:
            act = _create(home)
        case ["explained", address]:
            act = _explained(home, address)
        case _:
            act = _command(arguments)
    walk = Walk(home)
    with walk.counting():
        act()
    return walk.as_dict()


if __name__ == "__main__":
    found = main(os.environ["GEOLOOKUP_HOME"], sys.argv[1:])
    print(json.dumps(found, indent=1))
