"""The service's database: opening it, one writer, and readers that each see one moment."""

import contextlib
import os
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, inspect, select, update
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from geolookup.errors import RequestRefusedError, ServiceError
from geolookup.service import schema, sqlite


@dataclass(slots=True)
class Transaction:
    """A write transaction; set ``changed`` where it changes a geolocation or a block."""

    connection: Connection
    #: As the transaction found it.
    revision: int
    changed: bool = False


class Snapshot:
    """A read transaction that outlives the function that opened it: close it, from any one thread at a time."""

    def __init__(self, connection: Connection, revision: int) -> None:
        self.connection = connection
        self.revision = revision

    def close(self) -> None:
        """Give the connection back; harmless when repeated."""
        self.connection.close()


class Store:
    """The database of one running service. `open` one; it may be used from several threads.

    ``uuid`` names the database: revisions of two databases are never compared.
    """

    def __init__(self, path: str, writer: Engine, reader: Engine, lock: int) -> None:
        self.path = path
        self.uuid = ""
        self._writer = writer
        self._reader = reader
        self._lock_descriptor: int | None = lock
        self._write_lock = threading.Lock()

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "Store":
        """Open the SQLite file, or create it.

        :raises ServiceError: where another process has it open, it is no database of ours, one of a newer release,
            or cannot be read and written
        """
        path = os.path.abspath(path)
        descriptor = sqlite.lock(path)
        try:
            sqlite.create_private(path)
        except ServiceError:
            os.close(descriptor)
            raise
        store = cls(path, sqlite.writing_engine(path), sqlite.reading_engine(path), descriptor)
        try:
            with store._translated(), store._writer.begin() as connection:
                store.uuid = _prepare(connection, path)
        except BaseException:
            store.close()
            raise
        return store

    @contextlib.contextmanager
    def write(self) -> Iterator[Transaction]:
        """One transaction: durable when the ``with`` ends, and without any trace where it ends by an exception.

        :raises RequestRefusedError: ``storage-unavailable`` where the database cannot be written
        """
        with self._write_lock, self._translated(), self._writer.begin() as connection:
            transaction = Transaction(connection, _revision(connection))
            yield transaction
            if transaction.changed:
                connection.execute(update(schema.meta).values(revision=schema.meta.c.revision + 1))

    def snapshot(self) -> Snapshot:
        """The database as it is now; whatever is written later does not show in it.

        :raises RequestRefusedError: ``storage-unavailable`` where the database cannot be read
        """
        with self._translated():
            connection = self._reader.connect()
            try:
                return Snapshot(connection, _revision(connection))
            except BaseException:
                connection.close()
                raise

    @property
    def open_snapshots(self) -> int:
        """How many snapshots have not been closed."""
        return self._reader.pool.checkedout()  # type: ignore[attr-defined,no-any-return]  # a QueuePool has it

    def close(self) -> None:
        """Close every connection, and let other processes have the database; harmless when repeated."""
        # The writer last: SQLite checkpoints on the last connection that closes, and readers must not.
        self._reader.dispose()
        self._writer.dispose()
        if self._lock_descriptor is not None:
            os.close(self._lock_descriptor)
            self._lock_descriptor = None

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            message = f"{self.path}: {error.orig}"
            if self.uuid:
                raise RequestRefusedError(message, problem="storage-unavailable") from error
            raise ServiceError(message) from error
        except SQLAlchemyError as error:
            raise ServiceError(f"{self.path}: {error}") from error


def _revision(connection: Connection) -> int:
    return int(connection.execute(select(schema.meta.c.revision)).scalar_one())


def _prepare(connection: Connection, path: str) -> str:
    """Create the tables in an empty database, check them in another: the database's uuid."""
    tables = set(inspect(connection).get_table_names())
    if not tables:
        schema.metadata.create_all(connection)
        new = {"id": 1, "schema_version": schema.SCHEMA_VERSION, "uuid": uuid.uuid4().hex}
        connection.execute(schema.meta.insert().values(**new, revision=0, last_custom=0))
    elif not tables >= set(schema.metadata.tables):
        raise ServiceError(f"{path}: is not a database of this service: name another file")
    found = connection.execute(select(schema.meta.c.schema_version, schema.meta.c.uuid)).one()
    if found.schema_version > schema.SCHEMA_VERSION:
        raise ServiceError(
            f"{path}: has schema version {found.schema_version}, and this release knows {schema.SCHEMA_VERSION}: "
            "nothing was touched; use the newer release"
        )
    return str(found.uuid)
