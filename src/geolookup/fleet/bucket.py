"""An object store that is published to, by obstore: S3 and what speaks its interface.

Its credentials, endpoint and region come from the environment, as obstore's documentation says
(https://developmentseed.org/obstore/latest/authentication/): ``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL`` …
Nothing is locked there, so writes are conditional: what was read is replaced only if it is as it was read.
"""

import contextlib
import json
import os
import platform
import secrets
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError, PreconditionError
from obstore.store import from_url

from geolookup.base.reasons import reason
from geolookup.fleet.store import BLOBS
from geolookup.model.errors import SettingsError, StateBusyError, StateUnwritableError
from geolookup.state.base.clock import text_of

_LOCK = "publishing.json"
#: A publish that was killed keeps other states out for so long.
_LOCK_S = 900.0
_FOR_EVER = "public, max-age=31536000, immutable"
_ALWAYS_ASK = "no-cache"


class Bucket:
    """A bucket, or what begins with a prefix in it; see `store.Store`.

    :raises SettingsError: if the address cannot be used
    """

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        options: Any = {}
        if os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://"):
            options["allow_http"] = True
        try:
            self._store = from_url(self._url, client_options=options)
        except (BaseError, ValueError) as error:
            raise SettingsError(f"{url}: cannot be published to: {_said(error)}") from error
        self._versions: dict[str, Any] = {}

    def __str__(self) -> str:
        return self._url

    @contextlib.contextmanager
    def locked(self, home: str) -> Iterator[None]:
        """See `Store`: by an object that only one can create; of a maker that was killed it ends after a while."""
        holder = {"host": platform.node(), "state": os.path.realpath(home)}
        until = time.time() + _LOCK_S
        mine = json.dumps({**holder, "id": secrets.token_hex(8), "until": until}).encode()
        if not self.claim(_LOCK, mine):
            found = self.read(_LOCK, 1 << 16) or b"{}"
            try:
                lock = json.loads(found)
                until, other = float(lock["until"]), {name: str(lock.get(name)) for name in holder}
            except (ValueError, KeyError, TypeError, AttributeError):
                until, other = 0.0, {}
            if until > time.time() and other != holder:
                ends = text_of(datetime.fromtimestamp(until, UTC))
                raise StateBusyError(
                    f"{self}: another process is publishing there ({other['host']!r:.60}), or was killed: "
                    f"then publish again after {ends}"
                )
            self.write(_LOCK, mine)  # only if nobody else did
        try:
            yield
        finally:
            with contextlib.suppress(StateUnwritableError):
                self.remove(_LOCK)

    def read(self, name: str, most_bytes: int) -> bytes | None:
        """See `Store`."""
        with self._errors(name):
            try:
                found = obstore.get(self._store, name)
            except (NotFoundError, FileNotFoundError):
                self._versions[name] = None
                return None
            self._versions[name] = {key: found.meta[key] for key in ("e_tag", "version") if found.meta.get(key)}
            if found.meta["size"] > most_bytes:
                return bytes(obstore.get_range(self._store, name, start=0, length=most_bytes))
            return bytes(found.bytes())

    def sizes(self, folder: str) -> dict[str, tuple[int, float]]:
        """See `Store`."""
        found = {}
        with self._errors(folder):
            for page in obstore.list(self._store, prefix=folder):
                for each in page:
                    name = each["path"].rpartition("/")[2]
                    found[name] = each["size"], each["last_modified"].timestamp()
        return found

    def claim(self, name: str, data: bytes) -> bool:
        """See `Store`."""
        with self._errors(name):
            try:
                obstore.put(self._store, name, data, mode="create", attributes={"Cache-Control": _ALWAYS_ASK})
            except AlreadyExistsError:
                return False
        return True

    def write(self, name: str, data: bytes) -> None:
        """See `Store`: what was read is replaced only if it is as it was read."""
        known = self._versions.pop(name, "")
        modes: list[Any] = ["overwrite" if known == "" else "create" if known is None else known]
        if isinstance(known, dict) and "e_tag" in known:
            modes.append(known | {"e_tag": known["e_tag"].strip('"')})  # Ceph 16 compares it without the quotes it gave
        caching = _FOR_EVER if name.startswith(f"{BLOBS}/") else _ALWAYS_ASK
        with self._errors(name):
            for mode in modes:
                try:
                    obstore.put(self._store, name, data, mode=mode, attributes={"Cache-Control": caching})
                except (PreconditionError, AlreadyExistsError) as error:
                    refused = error
                else:
                    return
        raise StateBusyError(f"{self}/{name}: another builder wrote it meanwhile: nothing was published") from refused

    def upload(self, name: str, path: str) -> None:
        """See `Store`."""
        with self._errors(name), open(path, "rb") as file:
            obstore.put(self._store, name, file, attributes={"Cache-Control": _FOR_EVER})

    def remove(self, name: str) -> None:
        """See `Store`."""
        with self._errors(name), contextlib.suppress(NotFoundError, FileNotFoundError):
            obstore.delete(self._store, name)

    @contextlib.contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError, ValueError) as error:
            raise StateUnwritableError(f"{self}/{name}: {_said(error)}") from error


def _said(error: BaseException) -> str:
    """The first line of what the library says: the rest shows its insides."""
    return reason(error).partition("\n")[0][:300]
