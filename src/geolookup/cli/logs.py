"""Log lines on standard error: text for people, or one JSON object a line for what collects logs."""

import logging
from datetime import UTC, datetime
from typing import Literal, TypeAlias

import click

from geolookup.base.text import harmless, harmless_below
from geolookup.cli.output import json_line

Format: TypeAlias = Literal["text", "json"]

_MAX_LENGTH = 10_000


class TextFormatter(logging.Formatter):
    """``geolookup: message`` on one line, with the level unless it is an error; below it any traceback, indented.

    All of it is harmless for a terminal. Without ``levels``, no level is written.
    """

    def __init__(self, *, levels: bool = True) -> None:
        super().__init__()
        self._levels = levels

    def format(self, record: logging.LogRecord) -> str:
        """One record as text."""
        level = "" if record.levelno >= logging.ERROR or not self._levels else f"{record.levelname.lower()}: "
        lines = [f"geolookup: {level}{harmless(record.getMessage(), _MAX_LENGTH)}"]
        if record.exc_info:
            lines += harmless_below(self.formatException(record.exc_info), _MAX_LENGTH)
        return "\n".join(lines)


class JsonFormatter(logging.Formatter):
    """An object with ``at`` (UTC, ISO 8601), ``level``, ``logger``, ``message``, and the record's own fields.

    Those are given by ``extra={"fields": {…}}``. A record of an exception has ``traceback`` too.
    """

    def format(self, record: logging.LogRecord) -> str:
        """One record as a line of JSON."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        message = record.getMessage()
        fields = getattr(record, "fields", {})
        line = {"at": at, "level": record.levelname.lower(), "logger": record.name, "message": message, **fields}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json_line(line)


def log_as(form: Format) -> None:
    """Have everything that this program logs, or its libraries warn of, come out in one format.

    As text only problems are written, so that a run without problems is silent and cron sends no mail; as JSON each
    stage is written.
    """
    handler = StandardError()
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    log = logging.getLogger("geolookup")
    log.handlers[:] = [handler]
    log.propagate = False
    log.setLevel(logging.INFO if form == "json" else logging.WARNING)
    if not logging.getLogger().handlers:
        logging.getLogger().addHandler(handler)  # what libraries warn of


class StandardError(logging.Handler):
    """Writes to what is standard error now, and not to what it was when the handler was made."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        try:
            click.echo(self.format(record), err=True)
        except Exception:
            self.handleError(record)
