"""Creating the tables, and bringing those of earlier releases up to date, in place and in one transaction."""

import uuid

from sqlalchemy import Connection, inspect, select, text

from geolookup.errors import ServiceError
from geolookup.service.store import schema
from geolookup.service.store import schema as hotel_schema
from geolookup.service.store.database import Database

#: What every version has had: it tells the service's databases from those of other programs.
_KNOWN_BY = {"meta", "geolocations", "ipblocks", "idempotency"}


def check(connection: Connection, name: str) -> int:
    """The schema version of the database, 0 if it is empty; ``name`` is the database's, for messages.

    :raises ServiceError: if it is another program's, or of a newer release
    """
    tables = set(inspect(connection).get_table_names())
    if not tables:
        return 0
    if not tables >= _KNOWN_BY or "schema_version" not in _columns(connection, "meta"):
        raise ServiceError(f"{name}: is not a database of this service: name another one, or an empty one")
    found = int(connection.execute(text("SELECT schema_version FROM meta")).scalar_one())
    if found > schema.SCHEMA_VERSION:
        raise ServiceError(
            f"{name}: has schema version {found}, and this release knows {schema.SCHEMA_VERSION}: "
            "nothing was touched; use the newer release"
        )
    return found


def migrate(connection: Connection, database: Database) -> None:
    """Bring the database to `schema.SCHEMA_VERSION`, in the transaction that is open.

    :raises ServiceError: as `check`
    """
    database.lock_schema(connection)  # the lock first: of two processes that start, one finds the work done
    found = check(connection, database.name)
    if found == 0:
        schema.metadata.create_all(connection, checkfirst=False)
        database.create_own(connection)
        new = {"id": 1, "schema_version": schema.SCHEMA_VERSION, "uuid": uuid.uuid4().hex}
        connection.execute(schema.meta.insert().values(**new, revision=0, last_custom=0, default_revision=0))
        return
    for step in _STEPS[found - 1 :]:
        step(connection)
    if found < schema.SCHEMA_VERSION:
        connection.execute(schema.meta.update().values(schema_version=schema.SCHEMA_VERSION))


def identity(connection: Connection) -> str:
    """The uuid that names the database."""
    return str(connection.execute(select(schema.meta.c.uuid)).scalar_one())


def _add_hotels_and_default_revision(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE meta ADD COLUMN default_revision BIGINT DEFAULT 0 NOT NULL"))
    # As they are in version 2. If a later version changes one of them, write here what it was.
    tables = [hotel_schema.hotels, hotel_schema.hotel_amenities, hotel_schema.rate_plans]
    schema.metadata.create_all(connection, tables=tables, checkfirst=False)


#: From version 1 to 2, from 2 to 3, and so on.
_STEPS = (_add_hotels_and_default_revision,)


def _columns(connection: Connection, table: str) -> set[str]:
    return {column["name"] for column in inspect(connection).get_columns(table)}
