"""A fleet that a program opens by its address: a reader in the user's cache directory, without a state of its own."""

import hashlib
import logging
import os

import msgspec

from geolookup.base.reasons import reason
from geolookup.lookup.engine import GeoLookup
from geolookup.lookup.follow import Freshness
from geolookup.model.errors import GeoLookupError, MissingExtraError, SettingsError
from geolookup.settings.load import load
from geolookup.settings.table import Settings
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.run import running

_log = logging.getLogger("geolookup")
#: How long to wait for another process of this user that fetches the same.
_WAIT_S = 120.0


def open_fleet(
    url: str,
    root: str | os.PathLike[str] | bytes | None,
    settings: Settings | None,
    freshness: Freshness,
    vrf: str | None = None,
) -> GeoLookup:
    """Fetch what a fleet has published, and open it; see `opening.open`.

    :raises SettingsError: if ``root`` is missing or none
    :raises UpstreamError: if nothing was fetched before, and the fleet cannot be reached or must not be believed
    """
    try:
        from geolookup.fleet import reader
    except ImportError as error:
        raise MissingExtraError(f"a fleet needs python-tuf: pip install 'geolookup[fleet]' ({error})") from error

    # The sources and the service of the settings are of another state.
    own = msgspec.structs.replace(settings or load(), url=None, sources=())
    text = _bytes_of(root)
    home = _cache_of(url, text)
    directory = StateDirectory(home, keep_generations=1, run_wait_s=_WAIT_S)

    def fetch() -> bool:
        if reader.joined(home) is None:
            reader.join(directory, own, url, text, where="root")
            return True
        with running(directory) as run:
            return reader.sync(run, own).outcome == "published"

    try:
        fetch()
    except GeoLookupError as error:
        if directory.named_current() is None:
            raise
        _log.warning("%s; what was fetched before is served", error)
    opened = GeoLookup(home, freshness=freshness, vrf=own.vrf if vrf is None else vrf)
    opened.fetch = fetch
    return opened


def _bytes_of(root: str | os.PathLike[str] | bytes | None) -> bytes:
    if root is None:
        raise SettingsError("a fleet is believed by its root.json: give its path, or its bytes, as root=")
    if isinstance(root, bytes):
        return root
    try:
        with open(root, "rb") as file:
            return file.read(1 << 20)
    except OSError as error:
        raise SettingsError(f"root: {os.fspath(root)}: {reason(error)}") from error


def _cache_of(url: str, root: bytes) -> str:
    """The directory for a fleet in the user's cache, by its address and its root."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    name = hashlib.sha256(url.rstrip("/").encode() + b"\0" + root).hexdigest()[:32]
    return os.path.join(base, "geolookup", "fleets", name)
