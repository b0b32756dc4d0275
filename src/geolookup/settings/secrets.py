"""The secrets: from files of mode 0600, standard input or variables, read when a request needs them."""

import os
import re
import stat
import sys
from collections.abc import Mapping
from urllib.parse import urlsplit

from geolookup.model.errors import SettingsError
from geolookup.settings.sites import SitesSettings
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings

_IN_ADDRESS = re.compile(
    r"([?&](?:token|key|licen[cs]e_?key|api_?key|access_token|secret|password)=)(?!\{token\})[^&#]+", re.IGNORECASE
)


def holds_secret(location: str) -> bool:
    """True if an address holds what looks like a secret."""
    return "@" in urlsplit(location).netloc or _IN_ADDRESS.search(location) is not None


def without_secret(location: str) -> str:
    """A location without parts that look like a secret: the settings may hold one."""
    return _IN_ADDRESS.sub(r"\1[secret]", re.sub(r"(?<=://)[^/@]*@", "[secret]@", location))


def read_secret(settings: Settings, *, environ: Mapping[str, str] | None = None) -> str | None:
    """The secret for the upstream: from ``token_file``, else from ``GEOLOOKUP_TOKEN``; None if there is neither.

    :raises SettingsError: if reading the file fails, others can read it, or it is not one line of plain text
    """
    return _secret(settings.token_file, "GEOLOOKUP_TOKEN", "token", environ)[0] or None


def read_source_secret(source: SourceSettings, *, environ: Mapping[str, str] | None = None) -> str | None:
    """The secret of a source that is a file: from its own ``token_file``; None if it has none.

    It cannot come from a variable: that would be the secret of every source.

    :raises SettingsError: as `read_secret`
    """
    if not source.token_file:
        return None
    return _secret(source.token_file, "", "token", environ)[0] or None


def read_sites_secret(sites: SitesSettings, *, environ: Mapping[str, str] | None = None) -> str | None:
    """The token of the server that has the sites: from its own ``token_file``; None if it has none.

    :raises SettingsError: as `read_secret`
    """
    return _secret(sites.token_file, "", "token", environ)[0] or None if sites.token_file else None


def read_ping_url(settings: Settings, *, environ: Mapping[str, str] | None = None) -> str | None:
    """The address to ping: from ``ping_url_file``, else from ``GEOLOOKUP_PING_URL``; None if there is neither.

    :raises SettingsError: as `read_secret`, and if it is not a web address; the message does not show it
    """
    secret, origin = _secret(settings.ping_url_file, "GEOLOOKUP_PING_URL", "address", environ)
    if not secret:
        return None
    try:
        parts = urlsplit(secret)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or " " in secret:
        raise SettingsError(f"{origin}: the address to ping must begin with https:// (or http://) and a host")
    return secret


def _secret(path: str, variable: str, what: str, environ: Mapping[str, str] | None) -> tuple[str, str]:
    """A secret, or "" if there is none, and where it came from."""
    environ = os.environ if environ is None else environ
    if not path:
        secret, origin = environ.get(variable, ""), variable
    elif path == "-":
        secret, origin = sys.stdin.readline(), "standard input"
    else:
        secret, origin = _read_secret_file(os.path.expanduser(path), environ), path
    secret = plain_secret(secret, origin)
    if not secret and path:
        raise SettingsError(f"{origin}: contains no {what}")
    return secret, origin


def plain_secret(text: str, origin: str) -> str:
    """A secret without the blanks around it; ``origin`` is for the message, which does not show it.

    :raises SettingsError: if it is not one line of plain text
    """
    secret = text.strip()
    if secret and not (secret.isascii() and secret.isprintable()):
        raise SettingsError(f"{origin}: the content must be one line of plain text")
    return secret


def _read_secret_file(path: str, environ: Mapping[str, str]) -> str:
    # systemd guards a credential by its directory. If the file system there has access control lists, the file's
    # own mode shows their mask as if its group could read it.
    manager = environ.get("CREDENTIALS_DIRECTORY")
    given = manager is not None and os.path.dirname(os.path.abspath(path)) == os.path.abspath(manager)
    try:
        with open(path, encoding="utf-8") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & (0o037 if given else 0o077):
                raise SettingsError(f"{path}: other users can read it: run `chmod 600 {path}`")
            return file.read(65536)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise SettingsError(f"{path}: reading the secret failed: {reason}") from error
