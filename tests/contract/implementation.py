"""Another implementation of the interface, started by a command: `pytest tests/contract --implementation COMMAND`."""

import os
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from types import TracebackType

import httpx
import pytest

from tests.contract.answers import PATH
from tests.support.services.running_service import Asked

_PATIENCE_S = 60


class Implementation(Asked):
    """The service that a command starts, with fresh data, for the length of a test.

    ``{port}`` in the command is the port on 127.0.0.1 to listen on; ``values`` replaces the other names in braces.
    """

    def __init__(self, command: str, values: Mapping[str, str]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as found:
            port = str(found.getsockname()[1])
        for name, value in {"port": port, **values}.items():
            command = command.replace(f"{{{name}}}", shlex.quote(value))
        self.url = f"http://127.0.0.1:{port}"
        # A group of its own, so that what a script starts ends with it.
        self._process = subprocess.Popen(["sh", "-c", command], start_new_session=True)
        try:
            self._wait(command)
        except BaseException:
            self.stop()
            raise

    def _wait(self, command: str) -> None:
        until = time.monotonic() + _PATIENCE_S
        with self.client() as client:
            while time.monotonic() < until:
                assert self._process.poll() is None, f"{command}: it ended"
                try:
                    if client.get(PATH).status_code == httpx.codes.OK:
                        return
                except httpx.TransportError:
                    pass
                time.sleep(0.05)
        pytest.fail(f"{command}: GET {self.url}{PATH} does not answer with 200")

    def load_hotels(self, path: str | os.PathLike[str]) -> None:
        """Nothing: it was started with them."""

    @property
    def store(self) -> None:
        """What only the reference service has."""
        pytest.skip("this is about the reference service's own database")

    def stop(self) -> None:
        """End it and what it started."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self._process.pid, number)
                self._process.wait(10)
            except ProcessLookupError:
                break
            except subprocess.TimeoutExpired:
                continue
        self._process.wait()

    def __enter__(self) -> "Implementation":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
