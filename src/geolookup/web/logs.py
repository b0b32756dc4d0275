"""The logs of a process: its messages on standard error, and a line for each request that has ended, without secrets.

No line can control a terminal or look like another line.
"""

import logging
import os
import sys
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler
from typing import IO, Any, Literal

import msgspec

from geolookup.base.text import harmless, harmless_below, harmless_json
from geolookup.model.errors import SettingsError

_MAX_TEXT = 300
_MAX_LENGTH = 10_000


class LineFormatter(logging.Formatter):
    """``geolookup: message`` on one line, and the lines of a traceback below it, each indented.

    Both may quote what a client sent. Every unprintable character is escaped, and only the first line of a record
    begins with ``geolookup:``.
    """

    def format(self, record: logging.LogRecord) -> str:
        """One record."""
        lines = [f"geolookup: {harmless(record.getMessage(), _MAX_LENGTH)}"]
        if record.exc_info:
            lines += harmless_below(self.formatException(record.exc_info), _MAX_LENGTH)
        return "\n".join(lines)


def log_to_standard_error() -> None:
    """Have everything that this process logs, or its libraries warn of, written by `LineFormatter`."""
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter())
    logging.getLogger().handlers[:] = [handler]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A request as the log tells it.

    It does not contain the query, headers or body, since each may hold tokens and addresses of guests. ``client`` is
    the address that asked, ``token`` the name of its token ("" for none), ``problem`` that of the problem it got;
    ``whole`` is false if the answer was cut short.
    """

    time: str
    id: str
    client: str
    token: str
    method: str
    path: str
    operation: str
    status: int
    bytes: int
    ms: float
    problem: str
    whole: bool


class AccessLog:
    """Writes entries to a file, or to standard error.

    The file is opened again after it was moved away, as log rotation does; several processes may write to it.

    :raises SettingsError: if the file cannot be written
    """

    def __init__(self, path: str, form: Literal["json", "text"] = "json") -> None:
        try:
            self._handler: logging.Handler = logging.StreamHandler(sys.stderr) if path == "-" else _PrivateFile(path)
        except OSError as error:
            raise SettingsError(f"{path}: the access log cannot be written: {error.strerror}") from error
        self._handler.setFormatter(logging.Formatter("%(message)s"))
        self._logger = logging.Logger("geolookup.service.access")  # noqa: LOG001 - this service's own, not in the tree of loggers
        self._logger.addHandler(self._handler)
        self._form = form

    def write(self, entry: Entry) -> None:
        """Write one line."""
        self._logger.info("%s", _as_json(entry) if self._form == "json" else _as_text(entry))

    def close(self) -> None:
        """Close the file."""
        self._handler.close()


def now() -> str:
    """This moment as entries have it (RFC 3339), in UTC and milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def shown(text: str) -> str:
    """Text of a request, cut to a length that suits a log."""
    return text[:_MAX_TEXT]


def _as_json(entry: Entry) -> str:
    return harmless_json(msgspec.json.encode(entry).decode())


def _as_text(entry: Entry) -> str:
    return harmless(
        f"{entry.time} {entry.client} {entry.token or '-'} {entry.method} {entry.path} {entry.status} {entry.bytes} "
        f"{entry.ms:.1f}ms {entry.id} {entry.problem or '-'}{'' if entry.whole else ' cut short'}",
        10 * _MAX_TEXT,
    )


class _PrivateFile(WatchedFileHandler):
    """Readable by its owner only, also after a rotation."""

    def __init__(self, path: str) -> None:
        super().__init__(path, encoding="utf-8", errors="backslashreplace")

    def _open(self) -> Any:
        def private(path: str, flags: int) -> int:
            return os.open(path, flags, 0o600)

        file: IO[str] = open(self.baseFilename, "a", encoding="utf-8", errors="backslashreplace", opener=private)  # noqa: SIM115
        return file
