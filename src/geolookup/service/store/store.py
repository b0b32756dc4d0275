"""The service's database: opening it, one writer at a time, and readers that each see one moment."""

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from sqlalchemy import Connection, select, update
from sqlalchemy.exc import SQLAlchemyError

from geolookup.model.errors import RequestRefusedError, ServiceError
from geolookup.service.store import postgres, schema
from geolookup.service.store.database import WAIT_S, Database
from geolookup.service.store.sqlite import SQLite


class _Waiting:
    def __init__(self, *, shares: bool) -> None:
        self.shares = shares
        self.turn = threading.Lock()
        self.turn.acquire()


class Line:
    """A lock whose holder can see to it that the next one goes on with its work."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[_Waiting] = deque()
        self._is_taken = False

    def take(self, wait_s: float, *, shares: bool) -> None:
        """Wait for one's turn. ``shares`` says whether the one before may `hand_over` what it has not finished.

        :raises TimeoutError: if it did not come in ``wait_s`` seconds
        """
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return
            one = _Waiting(shares=shares)
            self._waiting.append(one)
        if one.turn.acquire(timeout=wait_s):
            return
        with self._lock:
            if one in self._waiting:
                self._waiting.remove(one)
                raise TimeoutError("other requests have been writing for too long")
        # It was this one's turn at the very moment: the one that let it in may count on it.

    def hand_over(self) -> bool:
        """Let the next one in, if there is one that shares: it finishes what this one began. False if there is none."""
        with self._lock:
            if not self._waiting or not self._waiting[0].shares:
                return False
            self._waiting.popleft().turn.release()
            return True

    def leave(self) -> None:
        """Let the next one in, with nothing to finish."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().turn.release()
            else:
                self._is_taken = False


# How many times a transaction is begun before a lost connection makes its request fail.
_ATTEMPTS = 3
# The most writes that one commit makes durable, and the seconds after which no more join: all of them wait for it.
_MOST_TOGETHER = 64
_MOST_S = 0.05

_REVISION = select(schema.meta.c.revision).with_for_update()
_CHANGED = update(schema.meta).values(revision=schema.meta.c.revision + 1)


@dataclass(slots=True)
class Transaction:
    """A write transaction; set ``changed`` if it changes a geolocation or a block.

    ``changed_default`` says that one of the default layer was among them.
    """

    connection: Connection
    database: Database = field(repr=False)
    #: As the transaction found it.
    revision: int
    changed: bool = False
    changed_default: bool = False


class _Shared:
    """A transaction of the database that is open for several writes, one after the other, and their one commit.

    ``members`` have done their work, and wait to be told that it is durable, or why it is not.
    """

    def __init__(self, connection: Connection, revision: int, locks: contextlib.ExitStack) -> None:
        self.connection = connection
        self.revision = revision
        self.members = 0
        self._locks = locks
        self._until = time.monotonic() + _MOST_S
        self._ended = threading.Event()
        self._error: BaseException | None = None

    @property
    def takes_more(self) -> bool:
        """True if another write may join before the commit."""
        return self.members < _MOST_TOGETHER and time.monotonic() < self._until

    def end(self, error: BaseException | None) -> None:
        """It was committed, or failed: let go of the connection, and tell all that wait."""
        try:
            self._locks.close()
        finally:
            self._error = error
            self._ended.set()

    def wait(self) -> None:
        """Wait for the commit.

        :raises RequestRefusedError: if it failed, or what was done after this write and before it
        """
        self._ended.wait()
        if self._error is not None:
            problem = getattr(self._error, "problem", "storage-unavailable")
            raise RequestRefusedError(str(self._error), problem=problem) from self._error


class ReadTransaction:
    """A read transaction that outlives the function that opened it: close it, from any one thread at a time.

    ``revision`` counts the changes of geolocations and blocks, ``default_revision`` those that the default layer had.
    """

    def __init__(self, connection: Connection, revision: int, default_revision: int) -> None:
        self.connection = connection
        self.revision = revision
        self.default_revision = default_revision

    def close(self) -> None:
        """Give the connection back; a second call does nothing."""
        self.connection.close()


class Store:
    """The database of one running service. `open` one; it may be used from several threads, but not after a fork.

    ``uuid`` names the database: revisions of two databases are never compared. ``name`` is how messages call it.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._line = Line()
        #: What is handed from one write to the next.
        self._shared: _Shared | None = None
        self.name = database.name
        self.uuid = ""

    @classmethod
    def open(cls, db: str | os.PathLike[str], *, worker: bool = False) -> "Store":
        """Open an SQLite file, created if it is missing, or the PostgreSQL database that a URL names.

        Any number of processes may use a PostgreSQL database. An SQLite file belongs to one process, and to those
        ``worker`` processes that it starts, and ends before it closes the file.

        :raises ServiceError: if another process has the file open, it is not a database of ours, one of an
            unreleased build or of a newer release, or cannot be read and written
        :raises MissingExtraError: if PostgreSQL's driver is not installed
        """
        if isinstance(db, str) and postgres.is_url(db):
            database: Database = postgres.PostgreSQL(db)
        else:
            database = SQLite(os.path.abspath(db), worker=worker)
        store = cls(database)
        try:
            store._prepare(worker=worker)
        except BaseException:
            database.close()
            raise
        return store

    def _prepare(self, *, worker: bool) -> None:
        database = self._database
        with self._database_errors(), database.exclusive(WAIT_S):
            # By a reader first: the writer's connection makes a file its own (its journal mode) before it is asked.
            with database.reader.connect() as connection:
                found = schema.check(connection, database.name)
            if worker and found != schema.SCHEMA_VERSION:
                raise ServiceError(f"{database.name}: has not been prepared: a worker belongs to a running service")
            with database.writer.begin() as connection:
                if not worker:
                    schema.prepare(connection, database)
                self.uuid = schema.identity(connection)
        database.in_service = True

    @contextlib.contextmanager
    def write(self, *, wait_s: float = WAIT_S) -> Iterator[Transaction]:
        """One write: durable when the ``with`` ends, and without any trace if it ends by an exception.

        Of all processes that use the database, one is in here at a time; others wait, for ``wait_s`` at most. If others
        of this process wait already, it is not committed by itself: they go on in the same transaction of the database,
        and the last one commits for all. Until then no ``with`` ends, be it by a refusal: what caused that may be
        another's write, which may fail.

        :raises RequestRefusedError: ``storage-unavailable`` if the database cannot be written; ``outcome-unknown`` if
            it was lost during the commit
        """
        with self._database_errors():
            shares = wait_s <= WAIT_S  # a load of millions of rows keeps nobody else's answer waiting
            self._line.take(wait_s, shares=shares)
            shared = self._shared
            if shared is None:
                try:
                    shared = self._shared = self._open(wait_s)
                except BaseException:
                    self._line.leave()
                    raise
            refusal = None
            try:
                if shared.members:
                    shared.connection.exec_driver_sql("SAVEPOINT one")
                transaction = Transaction(shared.connection, self._database, shared.revision)
                try:
                    yield transaction
                except BaseException as error:
                    if not shared.members or _is_of_the_database(error):
                        raise
                    shared.connection.exec_driver_sql("ROLLBACK TO SAVEPOINT one")
                    refusal = error
                else:
                    self._count(transaction, shared)
                if shared.takes_more and shares and self._line.hand_over():
                    leaves = False
                else:
                    leaves = True
                    _commit(shared.connection)
            except BaseException as error:
                self._end(shared, error)
                raise
            if leaves:
                self._end(shared, None)
            else:
                shared.wait()
            if refusal is not None:
                raise refusal

    def _count(self, transaction: Transaction, shared: _Shared) -> None:
        """Finish what one write did."""
        if transaction.changed:
            if transaction.changed_default:
                meta = schema.meta.c
                shared.connection.execute(_CHANGED.values(default_revision=meta.default_revision + 1))
            else:
                shared.connection.execute(_CHANGED)
            shared.revision += 1
        if shared.members:
            shared.connection.exec_driver_sql("RELEASE SAVEPOINT one")
        shared.members += 1

    def _open(self, wait_s: float) -> _Shared:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._database.exclusive(wait_s))
            connection, revision = self._begin(wait_s)
            stack.enter_context(connection)
            return _Shared(connection, revision, stack.pop_all())

    def _end(self, shared: _Shared, error: BaseException | None) -> None:
        self._shared = None
        try:
            shared.end(error)
        finally:
            self._line.leave()

    def _begin(self, wait_s: float) -> tuple[Connection, int]:
        """A connection with the one transaction that may write, and the revision that it found."""
        attempt = 1
        while True:
            connection = self._database.writer.connect()
            try:
                if wait_s > WAIT_S:
                    self._database.prepare_wait(connection, wait_s)
                # Every writer locks this row first, so they come one after the other: the revision rises by one a
                # change, none acts on what another is about to change, and there is no deadlock or conflict among
                # them that one of them would have to be repeated for.
                revision = connection.execute(_REVISION).scalar_one()
            except BaseException:
                lost = connection.invalidated
                connection.close()
                if attempt == _ATTEMPTS or not lost:
                    raise
                attempt += 1
            else:
                return connection, int(revision)

    def snapshot(self) -> ReadTransaction:
        """The database as it is now, without what is written later.

        :raises RequestRefusedError: ``storage-unavailable`` if the database cannot be read
        """
        meta = schema.meta.c
        with self._database_errors():
            connection = self._database.reader.connect()
            try:
                row = connection.execute(select(meta.revision, meta.default_revision)).one()
                return ReadTransaction(connection, int(row.revision), int(row.default_revision))
            except BaseException:
                connection.close()
                raise

    def is_empty(self) -> bool:
        """True if there is no geolocation, default or custom.

        :raises RequestRefusedError: ``storage-unavailable`` if the database cannot be read
        """
        with contextlib.closing(self.snapshot()) as snapshot, self._database_errors():
            return snapshot.connection.execute(select(schema.geolocations.c.locid).limit(1)).first() is None

    @property
    def open_snapshots(self) -> int:
        """The number of snapshots that have not been closed."""
        return self._database.reader.pool.checkedout()  # type: ignore[attr-defined,no-any-return]  # a QueuePool has it

    def close(self) -> None:
        """Close every connection, and let other processes have the database; a second call does nothing."""
        with contextlib.suppress(TimeoutError):
            self._line.take(WAIT_S, shares=False)
            self._line.leave()  # a write that was under way has ended
        self._database.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _database_errors(self) -> Iterator[None]:
        """Errors of the database's driver are translated when they are raised: this is for all others."""
        try:
            yield
        except (TimeoutError, SQLAlchemyError) as error:
            raise self._database.failure(error) from error


def _is_of_the_database(error: BaseException) -> bool:
    """True if the database failed, and not what was asked of it: nobody can say what is left of a transaction then."""
    if isinstance(error, RequestRefusedError):
        return error.problem in ("storage-unavailable", "outcome-unknown")
    return isinstance(error, SQLAlchemyError | ServiceError)


def _commit(connection: Connection) -> None:
    try:
        connection.commit()
    except RequestRefusedError as error:
        if connection.invalidated:
            raise RequestRefusedError(str(error), problem="outcome-unknown") from error
        raise


#: Told how many more rows were read.
OnRows: TypeAlias = Callable[[int], None]

_Row = TypeVar("_Row")
#: Telling takes longer than reading a row.
_AT_ONCE = 1000


def counted(rows: Iterable[_Row], on_rows: OnRows) -> Iterator[_Row]:
    """The rows; ``on_rows`` is told of each thousand, and of the rest at the end."""
    waiting = 0
    for row in rows:
        yield row
        waiting += 1
        if waiting == _AT_ONCE:
            on_rows(waiting)
            waiting = 0
    on_rows(waiting)
