"""All that only PostgreSQL needs: its connections and their limits, a sequence for locids, and COPY."""

import contextlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy
from sqlalchemy import URL, Connection, Engine, MetaData, Table, create_engine, event, func, make_url, select
from sqlalchemy.exc import ArgumentError

from geolookup.model.errors import MissingExtraError, ServiceError
from geolookup.model.types import PROVISIONAL_LOCID
from geolookup.service.store.database import WAIT_S, Database

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")

#: Snapshots that one process can have open at once; the server's ``max_connections`` (100 unless set) is for all.
_READERS = 20
_READER_WAIT_S = 5.0
# By default, libpq waits for minutes on a server that is gone. What the URL says overrides these.
_CONNECTION = {
    "connect_timeout": "5",
    "keepalives_idle": "20",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
    "application_name": "geolookup",
}
# The transaction of a writer that hangs is undone, since others wait for it. Readers may wait for their clients.
_WRITER_IDLE_S = 30
_READER_IDLE_S = 600
# "geolookup" in ASCII, cut to 63 bits: a number that other programs are unlikely to use for an advisory lock.
_SCHEMA_LOCK = 0x67656F6C6F6F6B75
_SCHEMA_WAIT_S = 120.0

_own = MetaData()
_custom_locids = sqlalchemy.Sequence(
    "custom_locids", start=-1, increment=-1, maxvalue=-1, minvalue=PROVISIONAL_LOCID + 1, metadata=_own
)


def is_url(db: str) -> bool:
    """True if the text is a URL, and not a file's path."""
    return _URL.match(db) is not None


class PostgreSQL(Database):
    """The database that a URL names, in which any number of processes may work at the same time.

    The URL may leave out what libpq finds by itself (the password in ``~/.pgpass``, ``PGPASSFILE`` or
    ``PGPASSWORD``), and may have libpq's parameters as its query.

    :raises ServiceError: if it is not such a URL
    :raises MissingExtraError: if the driver is not installed
    """

    def __init__(self, url: str) -> None:
        parsed = _parse(url)
        self.name = _without_secrets(parsed)
        self._secrets = [text for text in (parsed.password, parsed.query.get("password")) if isinstance(text, str)]
        settings = {name: value for name, value in _CONNECTION.items() if name not in parsed.query}
        try:
            # One connection writes: the writers of a process queue for it, which leaves connections to others.
            self.writer = _engine(
                parsed, settings, _WRITER_IDLE_S, "READ COMMITTED", pool_size=1, max_overflow=0, pool_timeout=WAIT_S
            )
            self.reader = _engine(
                parsed,
                settings,
                _READER_IDLE_S,
                "REPEATABLE READ",
                pool_size=5,
                max_overflow=_READERS - 5,
                pool_timeout=_READER_WAIT_S,
            ).execution_options(postgresql_readonly=True)
        except ImportError as error:
            raise MissingExtraError(
                f"PostgreSQL needs a driver: pip install 'geolookup[postgres]' ({error})"
            ) from error
        super().__init__()

    def exclusive(self, wait_s: float) -> contextlib.AbstractContextManager[None]:  # noqa: ARG002 - the interface's
        """Nothing to do: its row locks are enough."""
        return contextlib.nullcontext()

    def prepare_wait(self, connection: Connection, wait_s: float) -> None:
        """See `Database.prepare_wait`. A transaction with a long wait has much to do, and may pause in between."""
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = {int(wait_s * 1000)}")
        connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")

    def lock_schema(self, connection: Connection) -> None:
        """Until the transaction ends, let no other process create or migrate tables.

        :raises ServiceError: if the database's encoding cannot hold every text, or it has no schema for the tables
        """
        self.prepare_wait(connection, _SCHEMA_WAIT_S)
        connection.execute(select(func.pg_advisory_xact_lock(_SCHEMA_LOCK)))
        encoding = connection.exec_driver_sql("SHOW server_encoding").scalar_one()
        if encoding != "UTF8":
            raise ServiceError(f"{self.name}: has the encoding {encoding}: create a database whose encoding is UTF8")
        if connection.execute(select(func.current_schema())).scalar_one() is None:
            path = connection.exec_driver_sql("SHOW search_path").scalar_one()
            raise ServiceError(
                f"{self.name}: the schema {path} is missing, or this user may not use it: make it as the "
                "database's owner (CREATE SCHEMA … AUTHORIZATION …), or correct search_path in the URL"
            )

    def create_own(self, connection: Connection) -> None:
        """Create the sequence of locids."""
        _own.create_all(connection, checkfirst=False)

    def next_locid(self, connection: Connection) -> int:
        """The next of the sequence. A transaction that is undone leaves a gap."""
        return int(connection.execute(select(_custom_locids.next_value())).scalar_one())

    def reserve_locids(self, connection: Connection, lowest: int) -> None:
        """See `Database.reserve_locids`; it holds even if the transaction is undone."""
        last, is_called = connection.exec_driver_sql("SELECT last_value, is_called FROM custom_locids").one()
        if lowest < last or (lowest == last and not is_called):
            connection.execute(select(func.setval(_custom_locids.name, lowest)))

    def insert_many(
        self, connection: Connection, table: Table, names: Sequence[str], rows: Iterable[Sequence[Any]]
    ) -> None:
        """Insert by ``COPY``, which takes a quarter of the time of ``INSERT``."""
        driver: Any = connection.connection.driver_connection
        target = f"{table.name} ({', '.join(names)})"
        try:
            with driver.cursor() as cursor, cursor.copy(f"COPY {target} FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
        except self.writer.dialect.loaded_dbapi.Error as error:
            raise self.failure(error) from error

    def analyze(self, connection: Connection, table: Table) -> None:
        """Without it the planner assumes a thousand staged rows: autovacuum ignores temporary tables."""
        connection.exec_driver_sql(f"ANALYZE {table.name}")

    def failure(self, error: object) -> ServiceError:
        """See `Database.failure`; without the password, which a message of the server or of libpq may quote."""
        text = str(error)
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return super().failure(text)

    def close(self) -> None:
        """Close every connection; a second call does nothing."""
        self.reader.dispose()
        self.writer.dispose()


def _engine(url: URL, settings: dict[str, str], idle_s: int, isolation: str, **pool: Any) -> Engine:
    engine = create_engine(
        url,
        isolation_level=isolation,
        connect_args=settings,
        # After a restart of the server, the connections in the pool are broken.
        pool_pre_ping=True,
        hide_parameters=True,
        **pool,
    )

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: Any) -> None:
        # Not by libpq's `options`: the URL may have them, and poolers between us and the server refuse them.
        connection.execute(f"SET lock_timeout = {int(WAIT_S * 1000)}")
        connection.execute(f"SET idle_in_transaction_session_timeout = {idle_s * 1000}")
        connection.commit()

    return engine


def _parse(text: str) -> URL:
    match = _URL.match(text)
    scheme = match[1].lower() if match else ""
    # Raised outside of the handler: what SQLAlchemy found wrong may quote the password.
    url = None
    with contextlib.suppress(ArgumentError, ValueError):
        url = make_url(text)
    if scheme not in _SCHEMES or url is None:
        raise ServiceError(
            "the database is the path of an SQLite file or a URL, postgresql://USER@HOST:PORT/NAME: "
            + (f"{scheme}:// is neither" if scheme not in _SCHEMES else "this URL cannot be read")
        )
    return url.set(drivername="postgresql+psycopg")


def _without_secrets(url: URL) -> str:
    shown = URL.create(
        "postgresql",
        username=url.username,
        host=url.host or _text(url.query.get("host")),
        port=url.port,
        database=url.database,
    )
    return shown.render_as_string()


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
