"""The seal of edits.db: a digest of all rows, kept by each transaction of ours, so that any other change is noticed.

It is a sum over the rows, so an edit costs the digests of the rows that it changes, however many there are. Triggers
collect them, and the sum is written once a transaction. It tells
damage and other programs; who knows this code can make another seal.
"""

import hashlib
import sqlite3
import weakref
from typing import Any

_NAME = "seal"
_MODULUS = 1 << 62


def digest(values: tuple[Any, ...]) -> int:
    """The digest of the values of a row."""
    return int.from_bytes(hashlib.blake2b(repr(values).encode(), digest_size=8).digest(), "little")


class Sealed(sqlite3.Connection):
    """A connection whose transactions keep the seal: ``change`` is what the one that is open adds to it."""

    change: int | None = None

    def add(self, sign: int, table: str, *values: Any) -> None:
        """Count a row that came (1) or went (-1); one that changes does both."""
        assert self.change is not None
        self.change += sign * digest((table, *values))


def keep(connection: Sealed) -> None:
    """Have the transaction that just began keep the seal, and make one if there is none."""
    if connection.change is None:
        weak = weakref.ref(connection)  # SQLite holds the function, and the connection holds SQLite
        connection.create_function("geolookup_seal", -1, lambda *given: weak().add(*given))  # type: ignore[union-attr]
        connection.execute("PRAGMA recursive_triggers = on")  # else nothing tells of a row that another one replaces
        for trigger in _triggers(connection):
            connection.execute(trigger)
    connection.change = 0
    if connection.execute("SELECT 1 FROM counters WHERE name = ?", (_NAME,)).fetchone() is None:
        renew(connection)


def write(connection: Sealed) -> None:
    """Seal what the transaction has changed, right before its commit."""
    if connection.change:
        sql = "UPDATE counters SET value = (value + ?) % ? WHERE name = ?"
        connection.execute(sql, (connection.change % _MODULUS, _MODULUS, _NAME))
        connection.change = 0


def was_interrupted(error: BaseException) -> bool:
    """True if this is how SQLite tells of an exception in `Sealed.add`: that raises none, so it was a signal's."""
    return isinstance(error, sqlite3.OperationalError) and str(error) == "user-defined function raised exception"


def renew(connection: sqlite3.Connection) -> None:
    """Seal the rows as they are."""
    connection.execute("INSERT OR REPLACE INTO counters (name, value) VALUES (?, ?)", (_NAME, _sum(connection)))
    if isinstance(connection, Sealed):
        connection.change = 0


def is_whole(connection: sqlite3.Connection) -> bool:
    """True if the rows are those that transactions of ours left, or there is no seal yet."""
    found = connection.execute("SELECT value FROM counters WHERE name = ?", (_NAME,)).fetchone()
    open_ = (connection.change or 0) if isinstance(connection, Sealed) else 0  # of a transaction that is under way
    return found is None or found[0] == (_sum(connection) - open_) % _MODULUS


def _sum(connection: sqlite3.Connection) -> int:
    total = 0
    for table, columns in _columns(connection):
        sql = f"SELECT {', '.join(columns)} FROM {table}"  # noqa: S608 - our names
        total += sum(digest((table, *row)) for row in connection.execute(sql) if (table, row[0]) != ("counters", _NAME))
    return total % _MODULUS


def _columns(connection: sqlite3.Connection) -> list[tuple[str, list[str]]]:
    """Each table with its columns."""
    return [
        (table, [f'"{row[1]}"' for row in connection.execute(f"PRAGMA table_info({table})")])  # our names
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        if not table.startswith("sqlite_")  # SQLite's own
    ]


def _triggers(connection: sqlite3.Connection) -> list[str]:
    """The triggers of one connection. They are temporary: another program may write the file, and is noticed."""
    found = []
    for table, columns in _columns(connection):
        went, came = (
            f"SELECT geolookup_seal({sign}, '{table}', {', '.join(f'{row}.{each}' for each in columns)});"
            for row, sign in (("OLD", -1), ("NEW", 1))
        )
        for event, counted in (("INSERT", came), ("DELETE", went), ("UPDATE", went + came)):
            when = f"WHEN {'NEW' if event == 'INSERT' else 'OLD'}.name <> '{_NAME}'" if table == "counters" else ""
            name = f"seal_{table}_{event}"
            found.append(f"CREATE TEMP TRIGGER {name} AFTER {event} ON main.{table} {when} BEGIN {counted} END")
    return found
