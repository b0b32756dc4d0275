"""Reading the sites of the server that the settings name: which program it is, and what it has; or its exports."""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from geolookup.base.garbage import rarely_collected
from geolookup.base.text import harmless
from geolookup.http.transport import Transport
from geolookup.model.errors import SettingsError, UpstreamAnswerError
from geolookup.settings.secrets import read_sites_secret
from geolookup.settings.table import Settings
from geolookup.sites.servers import exports, nautobot, netbox
from geolookup.sites.servers.inventory import Inventory, sites_of
from geolookup.sites.servers.pages import Client, decoded
from geolookup.sites.site import Problems, Site

#: Tokens of NetBox 4.5 and later that are sent as bearer tokens begin so.
_BEARER = "nbt_"
#: A server that limits requests is asked again this often; `max_wait_s` limits how long.
_ATTEMPTS = 10
_PROGRAMS = {"netbox-version": "NetBox", "nautobot-version": "Nautobot"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSites:
    """The sites of a server, where they are from, and the number of rows of each list that was read.

    ``unseen`` asks why something may be missing.
    """

    sites: list[Site]
    origin: str
    counts: Mapping[str, int]
    unseen: str


@rarely_collected()
def read_server(settings: Settings, problems: Problems) -> ServerSites:
    """All sites that the server of the settings has, with their blocks.

    :raises SettingsError: if the settings name none, or its token cannot be used
    :raises UpstreamError: if it cannot be read whole: it cannot be reached, refuses, is cut, or is too old
    """
    sites = settings.sites
    if not sites.kind:
        raise SettingsError(
            'no server has the sites: set `kind = "netbox"` and `url` in the table [sites] of the settings'
        )
    with _client(settings) as client:
        program, version = _program(client)
        oldest = netbox.OLDEST if program == "NetBox" else nautobot.OLDEST
        if version < oldest:
            has, needed = (".".join(map(str, each)) for each in (version, oldest))
            raise UpstreamAnswerError(f"{sites.url}: is {program} {has}: sites are read from {needed} or later")
        found: Inventory = netbox.read(client, sites) if program == "NetBox" else nautobot.read(client, sites, version)
    return _as_sites(found, settings, problems, sites.url, f"{program} {'.'.join(map(str, version))}")


def read_exports(
    paths: Sequence[str], settings: Settings, problems: Problems, *, shown: Callable[[str], str] = str
) -> ServerSites:
    """The same, of the lists that such a server exported as CSV: ``paths`` are files, or folders that hold them.

    ``shown`` makes of the path of a file what messages call it.

    :raises DataFileError: if one cannot be read or is no such list, or one that is needed is missing
    """
    found = exports.read(paths, settings.sites, problems, shown)
    return _as_sites(found, settings, problems, exports.ORIGIN, "exports")


def _as_sites(found: Inventory, settings: Settings, problems: Problems, origin: str, what: str) -> ServerSites:
    at = len(problems.said)
    read = sites_of(found, settings.sites, origin=origin, problems=problems)
    listed = ", ".join(f"{number} {name}" for name, number in found.counts.items())
    problems.said.insert(at, f"{origin}: {what}: {listed}")
    return ServerSites(sites=read, origin=origin, counts=found.counts, unseen=found.unseen)


@contextlib.contextmanager
def _client(settings: Settings) -> Iterator[Client]:
    secret = read_sites_secret(settings.sites)
    auth = "bearer" if secret is not None and secret.startswith(_BEARER) else "token"
    attempts = max(settings.attempts, _ATTEMPTS)
    asked = msgspec.structs.replace(settings, url=settings.sites.url, auth=auth, token_file="", attempts=attempts)
    if secret is None:  # never the one of the service
        raise SettingsError("[sites]: `token_file` is missing: it names a file with a token that may read")
    with Transport(asked, secret=secret) as transport:
        yield Client(transport)


def _program(client: Client) -> tuple[str, tuple[int, ...]]:
    """The program, and its release."""
    body, _ = client.get("/api/status/")
    told: dict[str, Any] = decoded(body, dict[str, Any], "GET /api/status/")
    for key, program in _PROGRAMS.items():
        found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", str(told.get(key, "")))
        if found is not None:
            return program, tuple(int(part) for part in found.groups() if part is not None)
    shown = harmless(", ".join(told), 80)
    raise UpstreamAnswerError(
        f"GET /api/status/: neither NetBox nor Nautobot answers there: it names {shown or 'nothing'}"
    )
