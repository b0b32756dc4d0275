"""Keeps the secret out of what is shown: messages, and the log records of the libraries below.

None of them logs the request's own headers. But some servers repeat a request in their answer, and httpcore logs the
answer's headers at DEBUG.
"""

import logging
import re
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
    """Knows one transport's secrets in every form in which they travel; `stop` removes it from the loggers."""

    def __init__(self, *hidden: str) -> None:
        super().__init__()
        self._hidden = tuple(re.compile(_any_form(text)) for text in hidden if text)
        if self._hidden:
            for name in _LOGGERS:
                logging.getLogger(name).addFilter(self)

    def stop(self) -> None:
        """Remove it from the loggers."""
        for name in _LOGGERS:
            logging.getLogger(name).removeFilter(self)

    def clean(self, text: str) -> str:
        """The text without the secrets."""
        for hidden in self._hidden:
            text = hidden.sub("[secret]", text)
        return text

    def kept(self, header: str | None) -> str | None:
        """A header's value that will be stored; None if it repeats a secret."""
        return header if header and self.clean(header) == header else None

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, rewritten if it would show a secret."""
        message = record.getMessage()
        cleaned = self.clean(message)
        if cleaned != message:
            record.msg, record.args = cleaned, ()
        return True

    def __repr__(self) -> str:
        return "<secrecy>"


def _any_form(text: str) -> str:
    """A regular expression for a text, each character as it is, percent-encoded (also twice) or escaped as in JSON."""
    return "".join(map(_any_form_of, text))


def _any_form_of(character: str) -> str:
    encoded = "".join(f"%(?:25)*{byte:02x}" for byte in character.encode())
    return f"(?:{re.escape(character)}|(?i:{encoded}|\\\\u{ord(character):04x}))"
