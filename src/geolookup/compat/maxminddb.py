"""``maxminddb`` on a state: `open_database`, and the reader that it returns.

``from geolookup.compat.maxminddb import open_database`` in place of ``from maxminddb import open_database``.
"""

import errno
import ipaddress
import os
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar

from maxminddb import (
    MODE_AUTO,
    MODE_FD,
    MODE_FILE,
    MODE_MEMORY,
    MODE_MMAP,
    MODE_MMAP_EXT,
    InvalidDatabaseError,
)

from geolookup.compat.served import Answer, Served
from geolookup.model.addresses import cidrs, parse, parse_any
from geolookup.model.errors import (
    IndexDamagedError,
    IndexFileError,
    InvalidAddressError,
    NoStateError,
    StateDamagedError,
    StateTooNewError,
    StateUnreadableError,
)
from geolookup.sync.opening import open as open_state

if TYPE_CHECKING:
    from maxminddb.reader import Metadata

    from geolookup.lookup.engine import GeoLookup
    from geolookup.lookup.snapshot import Snapshot

__all__ = [
    "MODE_AUTO",
    "MODE_FD",
    "MODE_FILE",
    "MODE_MEMORY",
    "MODE_MMAP",
    "MODE_MMAP_EXT",
    "InvalidDatabaseError",
    "Reader",
    "open_database",
]

#: An address, as ``maxminddb`` takes it.
IPAddress: TypeAlias = str | ipaddress.IPv4Address | ipaddress.IPv6Address
_Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
_MODES = (MODE_AUTO, MODE_MMAP_EXT, MODE_MMAP, MODE_FILE, MODE_MEMORY)
_T = TypeVar("_T")


def open_database(database: str | bytes | os.PathLike[Any] | None, mode: int = MODE_AUTO) -> "Reader":
    """Open a state directory as ``maxminddb.open_database`` opens a file.

    ``database`` is the state directory; None means the one of the settings (as `geolookup.open` finds it). Every
    ``mode`` of upstream but MODE_FD is taken, and means the same: the files of a state are mapped.

    :raises FileNotFoundError: if nothing is published there
    :raises InvalidDatabaseError: if it is a file, or the state is damaged
    :raises PermissionError: if this user may not read it
    :raises ValueError: if the mode is none of these
    """
    return Reader(database, mode)


class Reader:
    """A state directory as a MaxMind DB, with the methods of ``maxminddb.Reader``.

    What is published and edited is answered within a second, without opening it again. Threads and forked children may
    share one. Records are the caller's own. They have GeoIP2's shape, facts of networks under ``traits``; if all
    sources are files of networks, their facts stand at the top, as in those.
    """

    closed: bool

    def __init__(self, database: str | bytes | os.PathLike[Any] | None, mode: int = MODE_AUTO) -> None:
        """See `open_database`."""
        if mode not in _MODES:
            why = " A state is a directory, which no file descriptor names." if mode == MODE_FD else ""
            raise ValueError(f"Unsupported open mode ({mode}).{why}")
        self.closed = False
        self._geo = _opened(None if database is None else os.fsdecode(database))
        self._known: Served | None = None

    def get(self, ip_address: IPAddress) -> Any:
        """The record of an address, or None.

        :raises ValueError: if the address is malformed, of IPv6 while all data are of IPv4, or the reader is closed
        :raises TypeError: if it is neither text nor an address of ``ipaddress``
        """
        return self.answer(ip_address).whole()

    def get_with_prefix_len(self, ip_address: IPAddress) -> tuple[Any, int]:
        """The record of an address, or None, and the length of the largest network around it with the same."""
        answer = self.answer(ip_address)
        return answer.whole(), answer.length() + longer(answer.at[0], ip_address)

    def metadata(self) -> "Metadata":
        """What the data say of themselves: see `kinds.metadata_of`.

        :raises OSError: if the reader is closed
        """
        if self.closed:
            raise OSError("Attempt to read from a closed MaxMind DB.")
        return self.served().metadata

    def __iter__(self) -> "Iterator[tuple[_Network, Any]]":
        """All networks with their records, ascending, those of IPv4 first."""
        for family, first, last, answer in self.served().walk():
            for start, length in cidrs(family, first, last):
                of_family = ipaddress.IPv4Network if family == 4 else ipaddress.IPv6Network
                yield of_family((start, length)), answer.whole()

    def close(self) -> None:
        """Release the files. Answers stay as they are."""
        self.closed = True
        self._geo.close()

    def __enter__(self) -> Self:
        if self.closed:
            raise ValueError("Attempt to reopen a closed MaxMind DB")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # What the readers that stand on it need

    def answer(self, address: IPAddress) -> Answer:
        """All that is known of an address, which may be nothing.

        The errors are those of `get` and `ask`.
        """
        served = self.served()
        if type(address) is str:
            try:
                place = served.quick(address)
            except IndexDamagedError:
                place = None  # the reference says what is wrong
            if place is not None:
                return Answer(served, place, False, address)
        try:
            family, value = at = parse(address) if type(address) is str else parse_any(address)
        except InvalidAddressError as error:
            if not isinstance(address, str | ipaddress.IPv4Address | ipaddress.IPv6Address):
                raise TypeError("argument 1 must be a string or ipaddress object") from error
            ipaddress.ip_address(address)  # the error that upstream raises
            raise
        if family == 6 and served.metadata.ip_version == 4:
            raise ValueError(
                f"Error looking up {address}. You attempted to look up an IPv6 address in an IPv4-only database."
            )
        try:
            return Answer(served, served.place(family, value), False, at)
        except IndexDamagedError:
            return self.ask(lambda served: Answer(served, served.place(family, value), False, at))

    def served(self) -> Served:
        """All that is served at this moment.

        :raises ValueError: if the reader is closed
        """
        if self.closed:
            raise ValueError("Attempt to read from a closed MaxMind DB.")
        snapshot = self._geo.snapshot()
        known = self._known
        return known if known is not None and known.snapshot is snapshot else self.ask(_itself)

    def ask(self, work: "Callable[[Served], _T]") -> _T:
        """The result of ``work`` on what is served at this moment, or on something older if that is damaged.

        :raises ValueError: if the reader is closed
        :raises InvalidDatabaseError: if no undamaged data are left
        """
        if self.closed:
            raise ValueError("Attempt to read from a closed MaxMind DB.")

        def asked(snapshot: "Snapshot") -> _T:
            known = self._known
            if known is None or known.snapshot is not snapshot:
                known = self._known = Served(self._geo.home, snapshot)
            return work(known)

        try:
            return self._geo.with_networks(asked)
        except (StateDamagedError, IndexFileError) as error:
            raise InvalidDatabaseError(str(error)) from error


def _itself(found: _T) -> _T:
    return found


def longer(family: int, address: IPAddress) -> int:
    """How much longer the prefix of an IPv4 address is, if it was asked for as one of IPv6 (::ffff:0:0/96)."""
    if family == 6:
        return 0
    return 96 if (":" in address if isinstance(address, str) else address.version == 6) else 0


def _opened(path: str | None) -> "GeoLookup":
    if path is not None and os.path.isfile(path):
        raise InvalidDatabaseError(
            f"Error opening database file ({path}). Is this a valid MaxMind DB file? A state is a directory, and "
            f"`GEOLOOKUP_HOME=DIRECTORY geolookup sync {path}` makes one of a file"
        )
    try:
        return open_state(path)
    except NoStateError as error:
        raise FileNotFoundError(errno.ENOENT, f"{os.strerror(errno.ENOENT)}: {error}") from error
    except StateUnreadableError as error:
        raise PermissionError(errno.EACCES, f"{os.strerror(errno.EACCES)}: {error}") from error
    except (StateDamagedError, StateTooNewError, IndexFileError) as error:
        raise InvalidDatabaseError(str(error)) from error
