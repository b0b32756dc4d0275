"""The seal of edits.db: a digest of all rows, kept by each transaction of ours, so that any other change is noticed.

It is a sum over the rows, so an edit costs the digests of the rows that it changes, however many there are. It tells
damage and other programs; who knows this code can make another seal.
"""

import hashlib
import sqlite3
from typing import Any

_TABLES = (
    *("history", "steps", "places", "outbox", "requests", "forms", "baselines", "twins", "settings", "counters"),
    "sites",
)
_NAME = "seal"
_MODULUS = 1 << 62


def _digest(values: tuple[Any, ...]) -> int:
    return int.from_bytes(hashlib.blake2b(repr(values).encode(), digest_size=8).digest(), "little")


def _added(seal: int, sign: int, *values: Any) -> int:
    return (seal + sign * _digest(values)) % _MODULUS


def keep(connection: sqlite3.Connection) -> None:
    """Have the transaction that just began keep the seal, and make one if there is none."""
    connection.create_function("geolookup_seal", -1, _added)
    connection.execute("PRAGMA recursive_triggers = on")  # else nothing tells of a row that another one replaces
    if connection.execute("SELECT 1 FROM counters WHERE name = ?", (_NAME,)).fetchone() is None:
        renew(connection)
    for trigger in _triggers(connection):
        connection.execute(trigger)


def renew(connection: sqlite3.Connection) -> None:
    """Seal the rows as they are."""
    connection.execute("INSERT OR REPLACE INTO counters (name, value) VALUES (?, ?)", (_NAME, _sum(connection)))


def is_whole(connection: sqlite3.Connection) -> bool:
    """True if the rows are those that transactions of ours left, or there is no seal yet."""
    found = connection.execute("SELECT value FROM counters WHERE name = ?", (_NAME,)).fetchone()
    return found is None or found[0] == _sum(connection)


def _sum(connection: sqlite3.Connection) -> int:
    total = 0
    for table, columns in _columns(connection):
        sql = f"SELECT {', '.join(columns)} FROM {table}"  # noqa: S608 - our names
        total += sum(
            _digest((table, *row)) for row in connection.execute(sql) if (table, row[0]) != ("counters", _NAME)
        )
    return total % _MODULUS


def _columns(connection: sqlite3.Connection) -> list[tuple[str, list[str]]]:
    """Each table with its columns."""
    return [
        (table, [f'"{row[1]}"' for row in connection.execute(f"PRAGMA table_info({table})")])  # our names
        for table in _TABLES
    ]


def _triggers(connection: sqlite3.Connection) -> list[str]:
    """The triggers of one connection. They are temporary: another program may write the file, and is noticed."""
    found = []
    for table, columns in _columns(connection):
        steps = {"INSERT": (("NEW", 1),), "DELETE": (("OLD", -1),), "UPDATE": (("OLD", -1), ("NEW", 1))}
        for event, changes in steps.items():
            value = "value"
            for row, sign in changes:
                value = f"geolookup_seal({value}, {sign}, '{table}', {', '.join(f'{row}.{each}' for each in columns)})"
            when = f"WHEN {changes[0][0]}.name <> '{_NAME}'" if table == "counters" else ""
            body = f"UPDATE counters SET value = {value} WHERE name = '{_NAME}'"  # noqa: S608 - our names
            name = f"seal_{table}_{event}"
            found.append(
                f"CREATE TEMP TRIGGER IF NOT EXISTS {name} AFTER {event} ON main.{table} {when} BEGIN {body}; END"
            )
    return found
