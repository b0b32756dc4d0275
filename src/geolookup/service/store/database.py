"""The interface of a database to the store: two engines, and the operations that each kind does in its own way."""

import abc
import contextlib
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, Table, event
from sqlalchemy.engine import ExceptionContext

from geolookup.model.errors import RequestRefusedError, ServiceError

#: Seconds that a write waits for those before it, unless its caller gives more.
WAIT_S = 10.0


class Database(abc.ABC):
    """One database, as one process sees it.

    ``name`` is how messages call it, without secrets. ``writer`` is an engine of one connection, whose transactions see
    what was committed when each statement began; ``reader`` one of several, each with the snapshot at which its
    transaction began. All errors of their driver reach the caller as `ServiceError`.
    """

    name: str
    writer: Engine
    reader: Engine

    def __init__(self) -> None:
        #: False while it is being opened; then true: what fails after that is the failure of a request.
        self.in_service = False
        for engine in (self.writer, self.reader):
            event.listen(engine, "handle_error", self._translate)

    @abc.abstractmethod
    def exclusive(self, wait_s: float) -> contextlib.AbstractContextManager[None]:
        """Keep other processes from writing, if the database's own locks are not enough.

        :raises TimeoutError: if it could not be taken in ``wait_s`` seconds
        """

    @abc.abstractmethod
    def prepare_wait(self, connection: Connection, wait_s: float) -> None:
        """Let this transaction wait for locks that long, if `WAIT_S` is not enough."""

    @abc.abstractmethod
    def lock_schema(self, connection: Connection) -> None:
        """Until the transaction ends, let no other process create or migrate tables."""

    @abc.abstractmethod
    def create_own(self, connection: Connection) -> None:
        """Create what only this kind of database has, in addition to the tables."""

    @abc.abstractmethod
    def next_locid(self, connection: Connection) -> int:
        """A locid for a new custom geolocation: never one that was given out before, by any process."""

    @abc.abstractmethod
    def reserve_locids(self, connection: Connection, lowest: int) -> None:
        """Let `next_locid` begin below ``lowest``, which was given out elsewhere."""

    @abc.abstractmethod
    def insert_many(
        self, connection: Connection, table: Table, names: Sequence[str], rows: Iterable[Sequence[Any]]
    ) -> None:
        """Insert many rows, the values of the columns ``names``, in the fastest way that the database has."""

    @abc.abstractmethod
    def analyze(self, connection: Connection, table: Table) -> None:
        """Let the planner know how many rows a temporary table got, if it does not find out by itself."""

    @abc.abstractmethod
    def close(self) -> None:
        """Close every connection, and let other processes have the database; a second call does nothing."""

    def failure(self, error: object) -> ServiceError:
        """The error to raise for an error of the driver, or for anything else that the database refused."""
        message = f"{self.name}: {' '.join(str(error).split())}"
        return RequestRefusedError(message, problem="storage-unavailable") if self.in_service else ServiceError(message)

    def _translate(self, context: ExceptionContext) -> BaseException | None:
        # SQLAlchemy raises what is returned in place of its own error. A ping that fails is not an error: the pool
        # connects again.
        if context.is_pre_ping or context.sqlalchemy_exception is None:
            return None
        return self.failure(context.original_exception)
