"""A folder that was published to, served on loopback by a plain web server; and builders and readers of it."""

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import geolookup
from geolookup.fleet import keys, publish, reader
from geolookup.fleet.store import Folder
from geolookup.index.fingerprint import fingerprint as index_fingerprint
from geolookup.settings.table import Settings
from geolookup.state.base.current import read_current
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.run import running
from tests.support.data.states import place
from tests.support.data.states import publish as publish_state

SETTINGS = Settings(attempts=2, max_wait_s=0.0, read_timeout_s=5.0, total_timeout_s=20.0)

Answer = Callable[[str, bytes | None], bytes | None]
#: An answer that never ends does so after so many bytes, and one that comes slowly after so many pieces.
_MOST_BYTES, _MOST_PIECES = 64 << 20, 200


@dataclass(frozen=True)
class Manner:
    """How an answer comes: in pieces, with a pause before each; without an end."""

    piece_bytes: int = 1 << 16
    pause_s: float = 0.0
    is_endless: bool = False


@dataclass
class Served:
    """A folder that is served. ``change`` may put other bytes in the place of a file's, or None for none."""

    folder: Path
    url: str = ""
    asked: list[str] = field(default_factory=list)
    sent_bytes: int = 0
    change: Answer | None = None
    #: How the answer with a file comes; None for at once.
    manner: Callable[[str], Manner | None] = lambda _name: None
    #: How many answers without an end were read until the server gave up.
    read_to_the_end: int = 0
    #: Answers end after so many bytes: a connection that breaks.
    cut_after: int | None = None
    knows_ranges: bool = True


@contextmanager
def serving(folder: Path) -> Iterator[Served]:
    """Serve a folder until the ``with`` ends."""
    served = Served(folder)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else the second of two writes waits for the client, which waits too

        def handle(self) -> None:
            with suppress(ConnectionError):  # it hung up
                super().handle()

        def do_GET(self) -> None:
            name = self.path.lstrip("/")
            served.asked.append(name)
            path = folder / name
            data = path.read_bytes() if path.is_file() else None
            if served.change is not None:
                data = served.change(name, data)
            if data is None:
                self.send_response(404)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            manner = served.manner(name)
            if manner is not None:
                self.answer_by(manner, data)
                return
            begin = 0
            if served.knows_ranges and (match := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))):
                begin = int(match[1])
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
            else:
                self.send_response(200)
            data = data[begin:]
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if served.cut_after is not None and len(data) > served.cut_after:
                self.wfile.write(data[: served.cut_after])
                self.close_connection = True
                return
            self.wfile.write(data)
            served.sent_bytes += len(data)

        def answer_by(self, manner: Manner, data: bytes) -> None:
            self.close_connection = True
            self.send_response(200)
            if not manner.is_endless:
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            size = _MOST_BYTES if manner.is_endless else len(data)
            data = data or b"0"
            for begin in range(0, size, manner.piece_bytes)[: _MOST_PIECES if manner.pause_s else None]:
                time.sleep(manner.pause_s)
                at = begin % len(data) if manner.is_endless else begin
                self.wfile.write(data[at : at + manner.piece_bytes])
            served.read_to_the_end += manner.is_endless

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()


class Builder:
    """A state that publishes to a folder, with keys of its own."""

    def __init__(self, folder: Path, www: Path, **init: int) -> None:
        self.home = str(folder / "builder")
        self.keys = str(folder / "keys")
        self.store = Folder(str(www))
        keys.init(self.keys, **init)
        self.night(0)

    @property
    def root(self) -> bytes:
        """The newest root.json."""
        return Path(self.keys, "root.json").read_bytes()

    def night(self, number: int, count: int = 300) -> None:
        """Pull a list in which one of a hundred places changes with each number."""
        publish_state(
            self.home,
            [
                place(
                    100 + each,
                    f"20.{each // 250}.{each % 250}.0/24",
                    country="SE",
                    city=f"Ort {each}" + (f" {number}" if number and each % 100 == number % 100 else ""),
                )
                for each in range(count)
            ],
        )

    def edit(self, network: str = "10.1.0.0/24", city: str = "Hus") -> int:
        """Make a custom geolocation with a block."""
        with geolookup.open_editor(self.home) as editor:
            return editor.create(country="SE", city=city, latitude=59.0, longitude=18.0, blocks=[network])

    def edit_many(self, count: int) -> None:
        """Make so many custom geolocations at once."""
        with geolookup.open_editor(self.home) as editor, editor.transaction():
            for number in range(count):
                city = f"Hus {number * number}"
                editor.create(
                    country="SE", city=city, latitude=number / 7, longitude=18.0, blocks=[f"10.3.{number}.0/24"]
                )

    def publish(self, **options: object) -> publish.Published:
        """Publish what is served."""
        return publish.publish(self.home, self.store, keys=self.keys, **options)  # type: ignore[arg-type]


class Reader:
    """A state that joins a fleet."""

    def __init__(self, folder: Path, name: str = "reader") -> None:
        self.home = str(folder / name)
        self.directory = StateDirectory(self.home)

    def join(self, url: str, root: bytes) -> reader.Received:
        """Join."""
        return reader.join(self.directory, SETTINGS, url, root, where="root.json")

    def sync(self, settings: Settings = SETTINGS) -> reader.Received:
        """Fetch what is new."""
        with running(self.directory) as run:
            return reader.sync(run, settings)


def fingerprint(home: str) -> str:
    """The fingerprint of all answers of a state."""
    with geolookup.open(home) as geo:
        # Computed from the files: the one that is kept is by the digests that CURRENT names.
        return geo.with_readers(lambda base, custom: index_fingerprint((base, custom)))


def marker(home: str) -> tuple[int, int, list[int]]:
    """The generation, the sequence and the versions that CURRENT of a reader has."""
    current = read_current(home)
    found = reader.joined(home)
    assert found is not None
    assert found.versions is not None
    return current.generation, current.sequence, list(found.versions[:4])


def blobs(www: Path) -> list[str]:
    """The names of the blobs."""
    return sorted(os.listdir(www / "blobs"))
