"""`geolookup share` for the length of a test: in a thread of this process, or as the command itself."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import httpx

from geolookup.lookup.engine import GeoLookup
from geolookup.lookup.follow import NO_LIMIT, Freshness
from geolookup.share.background import BackgroundBuilds
from geolookup.share.build import build
from geolookup.share.build import editions as editions_of
from geolookup.share.run import application
from geolookup.web.options import Options
from tests.support.services.server_thread import PATIENCE_S, ServerThread, client_of
from tests.support.users.quick_commands import forked


class RunningShare(ServerThread):
    """A share in a thread. `build` builds what is published now, in this process; there is no builder of its own.

    ``clock`` is what files are dated and removed by.
    """

    def __init__(
        self,
        home: str | os.PathLike[str],
        folder: Path,
        *,
        editions: Sequence[str] = (),
        options: Options | None = None,
        licence_allows: bool = False,
        freshness: Freshness = NO_LIMIT,
        clock: Callable[[], float] = time.time,
        built: bool = True,
    ) -> None:
        self.home = os.fspath(home)
        self.folder = folder
        self._editions = editions_of(editions)
        self._licence_allows = licence_allows
        self.builder = BackgroundBuilds(
            self.home, os.fspath(folder), self._editions, licence_allows=licence_allows, clock=clock
        )
        if built:
            self.build()
        self._stack = ExitStack()
        self.geo = self._stack.enter_context(GeoLookup(self.home, freshness=freshness))
        self.start(application(self.geo, os.fspath(folder), licence_allows=licence_allows, clock=clock), options)

    def build(self) -> None:
        """Build what is published now."""
        build(self.home, os.fspath(self.folder), self._editions, licence_allows=self._licence_allows)

    def client(self, token: str | None = None) -> httpx.Client:
        """A client whose paths are relative to the service."""
        return client_of(self.url, token)

    def stop(self) -> None:
        """End it."""
        super().stop()
        self._stack.close()


class ShareCommand:
    """``geolookup share`` as a process of its own, with its builder and its workers."""

    def __init__(self, home: str | os.PathLike[str], *arguments: str, tokens: str | None = None) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GEOLOOKUP_")}
        environment["GEOLOOKUP_HOME"] = os.fspath(home)
        config = Path(os.fspath(home)).with_suffix(".toml")  # none of whoever runs the tests
        config.touch()
        environment["GEOLOOKUP_CONFIG"] = os.fspath(config)
        if tokens is not None:
            environment["GEOLOOKUP_SERVE_TOKENS"] = tokens
        self.environment = environment
        self.process = subprocess.Popen(
            [sys.executable, "-m", "geolookup", "share", "--port", "0", *arguments],
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        assert self.process.stderr is not None
        self.said: list[str] = []
        self.url = ""
        for line in self.process.stderr:
            self.said.append(line)
            if (found := re.search(r"sharing on (\S+)", line)) is not None:
                self.url = found[1]
                break
        assert self.url, self.said
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.said += self.process.stderr

    def run(self, *arguments: str) -> None:
        """Run another command on the same state."""
        subprocess.run([*forked(), "-m", "geolookup", *arguments], env=self.environment, check=True, timeout=120)

    def client(self, token: str | None = None) -> httpx.Client:
        """A client whose paths are relative to the service."""
        return client_of(self.url, token)

    def wait_until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait for something that the builder does."""
        until = time.monotonic() + PATIENCE_S
        while not holds():
            assert self.process.poll() is None, self.said
            assert time.monotonic() < until, (what, self.said)
            time.sleep(0.1)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it: its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(PATIENCE_S)
        self._reading.join(PATIENCE_S)
        return status

    def __enter__(self) -> "ShareCommand":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
