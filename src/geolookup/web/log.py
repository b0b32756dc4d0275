"""What a process of the service logs, on standard error: it cannot control a terminal or look like another line."""

import logging

from geolookup.base.text import harmless, harmless_below

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
