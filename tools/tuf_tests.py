"""Upstream's own tests of clients of The Update Framework, on ours: python tools/tuf_tests.py [FOLDER]

They are those of python-tuf's source distribution (MIT or Apache-2.0), of the release that is installed here; pip gets
it, and what they need, unless FOLDER has it already. Their repository answers over HTTP on loopback, and the client
that they drive has our transport, our bounds and our durable folder in the place of theirs.
"""

import dataclasses
import importlib
import importlib.metadata
import subprocess
import sys
import tarfile
import tempfile
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tuf.api.exceptions import DownloadError, DownloadHTTPError
from tuf.ngclient import Updater

from geolookup.fleet import client
from geolookup.http.download import Downloader
from geolookup.settings.table import Settings

#: Those that drive a client against their repository; others are of the repository, of formats, or of their fetcher.
MODULES = (
    "test_updater_top_level_update",
    "test_updater_key_rotations",
    "test_updater_consistent_snapshot",
    "test_updater_fetch_target",
    "test_updater_delegation_graphs",
    "test_updater_validation",
)


class Server(ThreadingHTTPServer):
    """What upstream's repository of the newest test says, over HTTP."""

    repository: Any = None


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else the second of two writes waits for the client, which waits too

    def do_GET(self) -> None:
        """Answer as the repository does."""
        assert isinstance(self.server, Server)
        status, data = 200, b""
        try:
            # It knows targets by their names as they are, and roles as they stand in addresses.
            path = unquote(self.path) if self.path.startswith("/targets/") else self.path
            data = b"".join(self.server.repository.fetch(f"https://example.com{path}"))
        except DownloadHTTPError as error:
            status = error.status_code
        except DownloadError:
            status = 500
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def updater_over(server: Server, downloader: Downloader) -> type[Updater]:
    """The client as ours makes it, with their arguments."""
    base = f"http://127.0.0.1:{server.server_address[1]}"

    def here(url: str | None) -> str | None:
        return None if url is None else f"{base}{urlsplit(url).path}"

    class Ours(Updater):
        def __init__(
            self,
            metadata_dir: str,
            metadata_base_url: str,
            target_dir: str | None = None,
            target_base_url: str | None = None,
            fetcher: Any = None,
            config: Any = None,
            *,
            bootstrap: bytes | None,
        ) -> None:
            server.repository = fetcher
            super().__init__(
                metadata_dir,
                str(here(metadata_base_url)),
                target_dir,
                here(target_base_url),
                client._Fetcher(downloader),  # noqa: SLF001 - it is what is tried
                config or dataclasses.replace(client._BOUNDS),  # noqa: SLF001
                bootstrap=bootstrap,
            )

        def refresh(self) -> None:
            super().refresh()
            client._make_durable(self._dir)  # noqa: SLF001

        def download_target(self, targetinfo: Any, filepath: str | None = None, target_base_url: Any = None) -> str:
            return super().download_target(targetinfo, filepath, here(target_base_url))

    return Ours


def prepared(folder: Path) -> Path:
    """The folder of the source distribution, with what its tests need in ``needs`` beside it."""
    version = importlib.metadata.version("tuf")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    if not list(folder.glob("tuf-*.tar.gz")):
        command = [*pip, "download", "--no-deps", "--no-binary", "tuf", "--dest", str(folder), f"tuf=={version}"]
        subprocess.run(command, check=True)
    if not (folder / "needs").is_dir():
        subprocess.run([*pip, "install", "--target", str(folder / "needs"), "freezegun"], check=True)
    if not (folder / f"tuf-{version}").is_dir():
        with tarfile.open(folder / f"tuf-{version}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
    return folder / f"tuf-{version}"


def run(folder: Path) -> int:
    """Run them: 1 if one fails."""
    source = prepared(folder)
    sys.path[:0] = [str(source), str(folder / "needs")]
    for name in [name for name in sys.modules if name == "tests" or name.startswith("tests.")]:
        del sys.modules[name]
    settings = Settings(attempts=1, max_wait_s=0.0)
    with Server(("127.0.0.1", 0), Handler) as server, Downloader(settings, secret=None) as downloader:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        suite = unittest.TestSuite()
        for name in MODULES:
            module = importlib.import_module(f"tests.{name}")
            module.Updater = updater_over(server, downloader)  # type: ignore[attr-defined]
            suite.addTests(unittest.defaultTestLoader.loadTestsFromModule(module))
        found = unittest.TextTestRunner(verbosity=1).run(suite)
        server.shutdown()
    return 0 if found.wasSuccessful() and found.testsRun else 1


def main() -> int:
    """Run them, in a folder of their own if none is named."""
    if len(sys.argv) > 1:
        return run(Path(sys.argv[1]))
    with tempfile.TemporaryDirectory(prefix="tuf-tests-") as name:
        return run(Path(name))


if __name__ == "__main__":
    sys.exit(main())
