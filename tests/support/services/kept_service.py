"""The reference service as tests share it: one for each kind of database, made as new behind each test that wrote."""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import delete, func, literal_column, select, update

from geolookup.service.geolocations.loader import load_files
from geolookup.service.store import schema
from tests.support.services.running_service import RunningService
from tests.support.services.service_fixtures import DEFAULTS

if TYPE_CHECKING:
    from tests.support.services.postgres import PostgresServer

#: In an order in which no row is removed before those that refer to it.
_TABLES = [
    schema.rate_plans, schema.hotel_amenities, schema.hotels, schema.idempotency, schema.ipblocks,
    schema.geolocations,
]  # fmt: skip


class KeptService:
    """A service with the two geolocations of `DEFAULTS` that goes on while its database is made as new."""

    def __init__(self, db: str, defaults: Path) -> None:
        self._defaults = defaults
        self._on_postgresql = "://" in db
        self.running = RunningService(db, load=[defaults])
        self._new = self._state()

    def renew(self) -> None:
        """Undo what a test wrote: the next one finds what a service finds that has just begun, but for a revision that
        is higher. A database to which nobody wrote costs one query.
        """
        now = self._state()
        if now == self._new:
            return
        changed_default = now[1] != self._new[1]
        with self.running.store.write() as transaction:
            connection = transaction.connection
            for table in _TABLES:
                of_tests = table.c.locid < 0 if "locid" in table.c and not changed_default else None
                connection.execute(delete(table) if of_tests is None else delete(table).where(of_tests))
            connection.execute(update(schema.meta).values(last_custom=0))
            if self._on_postgresql:
                connection.exec_driver_sql("ALTER SEQUENCE custom_locids RESTART")
            transaction.changed = True
        if changed_default:
            load_files(self.running.store, [self._defaults])
        self._new = self._state()

    def _state(self) -> tuple[int, ...]:
        """What is different once something was written: revisions, rows, and the last locid that was given."""
        counts = [select(func.count()).select_from(table).scalar_subquery() for table in _TABLES]
        locids = [select(schema.meta.c.last_custom).scalar_subquery()]
        if self._on_postgresql:
            locids = [
                literal_column(f"(SELECT {name} FROM custom_locids)") for name in ("last_value", "is_called::int")
            ]
        with contextlib.closing(self.running.store.snapshot()) as snapshot:
            row = snapshot.connection.execute(select(*counts, *locids)).one()
            return snapshot.revision, snapshot.default_revision, *row


class Keeper:
    """Keeps one service, from the first test that wants it until the end."""

    def __init__(self, stack: contextlib.ExitStack, db: Callable[[], str], folder: Path) -> None:
        self._stack = stack
        self._db = db
        self._defaults = folder / "defaults.csv"
        self._defaults.write_text(DEFAULTS)
        self._kept: KeptService | None = None

    @contextlib.contextmanager
    def service(self) -> Iterator[RunningService]:
        """The running service, for one test. If the test broke it, the next one gets another."""
        if self._kept is None:
            self._kept = KeptService(self._db(), self._defaults)
            self._stack.callback(self._kept.running.stop)
        kept = self._kept
        yield kept.running
        self._kept = None
        kept.renew()
        self._kept = kept


@pytest.fixture(scope="session")
def kept_on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keeper]:
    """What keeps the service whose database is a file."""
    folder = tmp_path_factory.mktemp("kept")
    files = (str(folder / f"service{number}.db") for number in itertools.count())
    with contextlib.ExitStack() as stack:
        yield Keeper(stack, files.__next__, folder)


@pytest.fixture(scope="session")
def kept_on_postgresql(tmp_path_factory: pytest.TempPathFactory, postgres_server: "PostgresServer") -> Iterator[Keeper]:
    """What keeps the service on PostgreSQL."""
    with contextlib.ExitStack() as stack:
        yield Keeper(stack, lambda: stack.enter_context(postgres_server.database()), tmp_path_factory.mktemp("kept"))


@pytest.fixture(params=["sqlite", "postgresql"])
def service(request: pytest.FixtureRequest) -> Iterator[RunningService]:
    """A running service with two default geolocations, on either database: others have used it, and will."""
    keeper: Keeper = request.getfixturevalue(f"kept_on_{request.param}")
    with keeper.service() as running:
        yield running


@pytest.fixture(name="service")
def service_on_sqlite(kept_on_sqlite: Keeper, tmp_path: Path) -> Iterator[RunningService]:
    """The one whose database is a file, and the file of its two geolocations: for tests of clients."""
    (tmp_path / "defaults.csv").write_text(DEFAULTS)
    with kept_on_sqlite.service() as running:
        yield running
