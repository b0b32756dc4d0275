"""httpx's clients as this room uses them: the certificates they trust, the header that carries a secret, and secrecy.

A secret is kept out of messages, and out of the log records of the libraries below. None of them logs the request's own
headers, but some servers repeat a request in their answer, and httpcore logs the answer's headers at DEBUG.
"""

import base64
import logging
import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import httpx

from geolookup.base.reasons import reason
from geolookup.base.version import __version__
from geolookup.model.errors import SettingsError

_LOGGERS: Final = (
    "httpx",
    "httpcore.connection",
    "httpcore.http11",
    "httpcore.http2",
    "httpcore.proxy",
    "httpcore.socks",
)


def new_client(
    *,
    timeout: httpx.Timeout | float,
    trusted: ssl.SSLContext,
    trust_env: bool,
    headers: Mapping[str, str] | None = None,
    auth: httpx.Auth | None = None,
) -> httpx.Client:
    """A client that follows no redirects; ``trust_env`` lets the environment name proxies.

    :raises SettingsError: if those cannot be used
    """
    with _environment_errors():
        return httpx.Client(
            auth=auth,
            headers={"User-Agent": f"geolookup/{__version__}", **(headers or {})},
            timeout=timeout,
            follow_redirects=False,
            verify=trusted,
            trust_env=trust_env,
        )


def certificates(scheme: str, *, trust_env: bool) -> ssl.SSLContext:
    """The authorities that a client of this scheme trusts; ``trust_env`` lets the environment name more.

    Plain HTTP needs none, and reading them takes longer than a lookup: it gets an empty context.

    :raises SettingsError: if the environment's certificates cannot be used
    """
    if scheme == "http":
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with _environment_errors():
        return httpx.create_ssl_context(trust_env=trust_env)


@contextmanager
def _environment_errors() -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, ImportError, httpx.InvalidURL) as error:
        raise SettingsError(f"the environment's proxies or certificates cannot be used: {reason(error)}") from error


def secret_header(secret: str, auth: str, auth_header: str, *, form: str) -> tuple[str, str, tuple[str, ...]]:
    """The name and value of the header that carries a secret, and the texts that must not be shown.

    ``auth`` is ``bearer``, ``token`` (as Django's REST framework has it), ``basic`` (then the secret has two parts,
    which ``form`` names) or ``header`` (the one that is called ``auth_header``).

    :raises SettingsError: if a basic secret has not two parts
    """
    if auth == "basic":
        if ":" not in secret:
            raise SettingsError(f'`auth = "basic"` needs a secret of the form {form}')
        encoded = base64.b64encode(secret.encode("ascii")).decode("ascii")
        return "Authorization", f"Basic {encoded}", (secret, encoded, secret.partition(":")[2])
    if auth == "header":
        return auth_header, secret, (secret,)
    return "Authorization", f"{'Token' if auth == 'token' else 'Bearer'} {secret}", (secret,)


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
