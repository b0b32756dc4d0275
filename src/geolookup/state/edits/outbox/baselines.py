"""Two tables that tell which geolocations of the service a create made.

A baseline holds the custom geolocations that the service had before a create, which therefore did not make them. A twin
is one that a create made in addition to its own, because it was applied twice or came late.
"""

import json
from collections.abc import Callable, Collection, Mapping
from sqlite3 import Connection

from geolookup.state.base.clock import now_text
from geolookup.state.edits.outbox.payload import reader
from geolookup.state.edits.outbox.row import damaged
from geolookup.state.edits.outbox.schema import insert, update

_digests = reader(dict[str, str])
#: Stands before the digest of what a person said that a create did not make.
_DENIED = "not "


class Baselines:
    """The table of the baselines, within one transaction of edits.db."""

    def __init__(self, database: Connection) -> None:
        self._database = database
        #: Those that were read: thousands of creates share one.
        self._read: dict[int, tuple[Mapping[int, str], frozenset[int]]] = {}

    def of(self, number: int | None) -> Mapping[int, str]:
        """The custom geolocations of a baseline, by locid, each with the digest of the content.

        :raises EditsDamagedError: if the row is not what was written
        """
        return self._both(number)[0]

    def denied(self, number: int | None) -> frozenset[int]:
        """Those of them of which a person said that a create did not make them."""
        return self._both(number)[1]

    def _both(self, number: int | None) -> tuple[Mapping[int, str], frozenset[int]]:
        if number is None:
            return {}, frozenset()
        if number not in self._read:
            rows = self._database.execute("SELECT locids FROM baselines WHERE id = ?", (number,))
            try:
                found = {int(locid): digest for (text,) in rows for locid, digest in _digests(text).items()}
            except (ValueError, TypeError) as error:
                raise damaged("baselines", number, error) from error
            denied = frozenset(locid for locid, digest in found.items() if digest.startswith(_DENIED))
            self._read[number] = {locid: digest.removeprefix(_DENIED) for locid, digest in found.items()}, denied
        return self._read[number]

    def keep(self, known: Mapping[int, str], denied: Collection[int] = ()) -> int:
        """Keep what a service had, once for all creates that have the same baseline.

        :returns: the number by which rows refer to it
        """
        marked = {str(each): _DENIED + known[each] if each in denied else known[each] for each in sorted(known)}
        text = json.dumps(marked)
        sql = "SELECT id FROM baselines WHERE locids = ? ORDER BY id DESC LIMIT 1"
        for (number,) in self._database.execute(sql, (text,)):
            return int(number)
        return insert(self._database, "baselines", {"locids": text})

    def keep_published(self, digest: str, custom: Callable[[], Mapping[int, str]]) -> int:
        """`keep` what is published, under its digest, as the baseline of the creates that are made while it is."""
        for (number,) in self._database.execute("SELECT id FROM baselines WHERE published = ?", (digest,)):
            return int(number)
        number = self.keep(custom())
        update(self._database, "baselines", number, {"published": digest})
        return number


class Twins:
    """The table of the twins, within one transaction of edits.db."""

    def __init__(self, database: Connection) -> None:
        self._database = database

    def known(self) -> dict[int, int]:
        """The twins that were found and are watched: each with the edit that made it."""
        return dict(self._database.execute("SELECT locid, edit FROM twins"))

    def note(self, locid: int, edit: int) -> None:
        """Note that an edit made this one in addition to its own."""
        insert(self._database, "twins", {"locid": locid, "edit": edit})

    def forget(self, *locids: int) -> None:
        """Note that twins are no longer: each of these."""
        for locid in locids:
            self._database.execute("DELETE FROM twins WHERE locid = ?", (locid,))

    def dismiss(self, locid: int) -> bool:
        """Note that a person keeps a twin as it is; false if it was not found as one."""
        changed = self._database.execute("UPDATE twins SET dismissed_at = ? WHERE locid = ?", (now_text(), locid))
        return bool(changed.rowcount)

    def dismissed(self) -> set[int]:
        """The twins that a person keeps."""
        return {locid for (locid,) in self._database.execute("SELECT locid FROM twins WHERE dismissed_at IS NOT NULL")}
