"""Keeps the secret out of what is shown: messages, and the log records of the libraries below.

The request's own headers are logged by none of them, but some servers repeat a request in their answer, whose headers
httpcore logs at DEBUG.
"""

import logging
from typing import Final

_LOGGERS: Final = (
    "httpx",
    "httpcore.connection",
    "httpcore.http11",
    "httpcore.http2",
    "httpcore.proxy",
    "httpcore.socks",
)


class Secrecy(logging.Filter):
    """Knows one transport's secrets in every form in which they travel; `stop` ends its hold on the loggers."""

    def __init__(self, *hidden: str) -> None:
        super().__init__()
        self._hidden = tuple(text for text in hidden if text)
        if self._hidden:
            for name in _LOGGERS:
                logging.getLogger(name).addFilter(self)

    def stop(self) -> None:
        """Leave the loggers alone."""
        for name in _LOGGERS:
            logging.getLogger(name).removeFilter(self)

    def clean(self, text: str) -> str:
        """The text without the secrets."""
        for hidden in self._hidden:
            text = text.replace(hidden, "[secret]")
        return text

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, rewritten if it would show a secret."""
        message = record.getMessage()
        cleaned = self.clean(message)
        if cleaned != message:
            record.msg, record.args = cleaned, ()
        return True

    def __repr__(self) -> str:
        return "<secrecy>"
