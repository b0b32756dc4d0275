"""The service's tables and their version, in SQLAlchemy Core, without anything that only one database knows."""

import unicodedata
import uuid
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ColumnElement,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    func,
    inspect,
    select,
)

from geolookup.model.errors import ServiceError
from geolookup.model.fields import FIELDS, FILTER_NAMES
from geolookup.service.store.database import Database

#: The version of the tables. A release that changes them raises it, and `prepare` brings older databases up to it.
SCHEMA_VERSION = 1

#: The type of an address stored as digits, which sort alike in every collation: compared by bytes.
NUMBER = String(39).with_variant(String(39, collation="C"), "postgresql")

# Decimal digits of the greatest address of a family.
_DIGITS = {4: 10, 6: 39}

metadata = MetaData()

meta = Table(
    "meta",
    metadata,
    Column("id", Integer, CheckConstraint("id = 1", name="one_row"), primary_key=True),
    Column("version", Integer, nullable=False),
    Column("uuid", String(32), nullable=False),
    # Counts the transactions that changed geolocations or blocks: with the uuid it names one content.
    Column("revision", BigInteger, nullable=False),
    # The lowest locid ever given out, so that no custom geolocation inherits a deleted one's number. Only if the
    # database has no sequences: PostgreSQL keeps it in one, and leaves this at 0.
    Column("last_custom", BigInteger, nullable=False),
    # Counts those of the transactions above that changed the default layer: an index of that layer is good
    # for as long as this stands still.
    Column("default_revision", BigInteger, nullable=False),
)


def place_columns() -> list[Column[Any]]:
    """The fields and their keys, as new columns."""
    return [
        *(
            Column(field.name, Text, nullable=False) if field.limit is None else Column(field.name, Float(53))
            for field in FIELDS
        ),
        # lower() of a database may know only ASCII (SQLite's does), and cannot fold: Python folds.
        *(Column(f"{name}_key", Text, nullable=False) for name in FILTER_NAMES),
    ]


geolocations = Table(
    "geolocations",
    metadata,
    Column("locid", BigInteger, primary_key=True, autoincrement=False),
    *place_columns(),
)

# A client that is about to change a geolocation asks first what is there, by its fields: of these the city says most.
_BY_CITY = Index("geolocations_by_city", geolocations.c.city_key, postgresql_using="hash")  # of texts of any length

ipblocks = Table(
    "ipblocks",
    metadata,
    Column("locid", BigInteger, ForeignKey("geolocations.locid", ondelete="CASCADE"), primary_key=True),
    Column("family", SmallInteger, primary_key=True),
    # Numbers as decimal text padded to the family's width: no shared integer type can hold IPv6, and within
    # a family this text sorts as the numbers do.
    Column("startipnum", NUMBER, primary_key=True),
    Column("endipnum", NUMBER, primary_key=True),
    Column("startip", String(45), nullable=False),
    Column("endip", String(45), nullable=False),
    # The primary key is the order in which the list is streamed: with the rows stored in it, a list is one pass.
    sqlite_with_rowid=False,
)

Index(
    "one_custom_owner",
    ipblocks.c.family,
    ipblocks.c.startipnum,
    ipblocks.c.endipnum,
    unique=True,
    sqlite_where=ipblocks.c.locid < 0,
    postgresql_where=ipblocks.c.locid < 0,
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("key", String(255), primary_key=True),
    # Of the operation, the locid and the body's value.
    Column("digest", String(64), nullable=False),
    Column("status", SmallInteger, nullable=False),
    Column("answer", LargeBinary, nullable=False),
    # Seconds since the epoch.
    Column("created", BigInteger, nullable=False, index=True),
)


def padded(family: int, value: int) -> str:
    """An address's number as it is stored."""
    return str(value).zfill(_DIGITS[family])


def unpadded(column: ColumnElement[str]) -> ColumnElement[str]:
    """SQL for a stored number as JSON writes it."""
    return func.coalesce(func.nullif(func.ltrim(column, "0"), ""), "0")


def fold(value: str) -> str:
    """The key under which a text field is compared without regard to case, for any script."""
    return unicodedata.normalize("NFC", value.casefold())


def with_keys(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields, with the keys that go into the columns beside them."""
    return {**fields, **{f"{name}_key": fold(fields[name]) for name in FILTER_NAMES}}


#: The members of a hotel's address; a list can be searched by those that have a column ``<name>_key``.
ADDRESS = ("line1", "city", "state", "postalCode", "country")
#: The parameters that search by address, and the column that each is compared with.
ADDRESS_KEYS = {"city": "city_key", "state": "state_key", "postalCode": "postalcode_key", "country": "country_key"}

# By code points everywhere: PostgreSQL would sort by the language that its database was created for.
_ORDERED = Text().with_variant(Text(collation="C"), "postgresql")

hotels = Table(
    "hotels",
    metadata,
    # The folded identifier: two spellings of one are one hotel.
    Column("hotel_key", Text, primary_key=True),
    Column("hotel_id", _ORDERED, nullable=False, unique=True),
    *(Column(name, Text, nullable=False, index=True) for name in ADDRESS_KEYS.values()),
    Column("destination_key", Text, nullable=False, index=True),
    # The JSON text without blanks between its tokens. Text, since a database's JSON type would round numbers and
    # refuse an escaped NUL.
    Column("content", Text, nullable=False),
)

hotel_amenities = Table(
    "hotel_amenities",
    metadata,
    Column("amenity_key", Text, primary_key=True),
    Column("hotel_key", Text, ForeignKey("hotels.hotel_key", ondelete="CASCADE"), primary_key=True, index=True),
)

rate_plans = Table(
    "rate_plans",
    metadata,
    Column("hotel_key", Text, ForeignKey("hotels.hotel_key", ondelete="CASCADE"), primary_key=True),
    Column("code", Text, primary_key=True),
    Column("content", Text, nullable=False),
)


#: The tables by which the service's databases are told from those of other programs.
_KNOWN_BY = {"meta", "geolocations", "ipblocks", "idempotency"}


def check(connection: Connection, name: str) -> int:
    """The version of the tables, 0 if there are none; ``name`` is the database's, for messages.

    :raises ServiceError: if it is another program's, of an unreleased build, or of a newer release
    """
    inspector = inspect(connection)
    tables = set(inspector.get_table_names())
    if not tables:
        return 0
    columns = {column["name"] for column in inspector.get_columns("meta")} if tables >= _KNOWN_BY else set()
    if "schema_version" in columns:  # as `meta` had it before the first release
        raise ServiceError(
            f"{name}: made by an unreleased build: name a new database, and load its files again (custom geolocations "
            "can be taken along by GET /geolocations, if that build can still be run)"
        )
    if "version" not in columns:
        raise ServiceError(f"{name}: is not a database of this service: name another one, or an empty one")
    found = int(connection.execute(select(meta.c.version)).scalar_one())
    if found > SCHEMA_VERSION:
        raise ServiceError(
            f"{name}: has schema version {found}, and this release knows {SCHEMA_VERSION}: "
            "nothing was touched; use the newer release"
        )
    return found


def prepare(connection: Connection, database: Database) -> None:
    """Create the tables if there are none, and an index that is not there, in the transaction that is open.

    :raises ServiceError: as `check`
    """
    database.lock_schema(connection)  # the lock first: of two processes that start, one finds the work done
    if check(connection, database.name) == 0:
        metadata.create_all(connection, checkfirst=False)
        database.create_own(connection)
        new = {"id": 1, "version": SCHEMA_VERSION, "uuid": uuid.uuid4().hex}
        connection.execute(meta.insert().values(**new, revision=0, last_custom=0, default_revision=0))
    else:
        _BY_CITY.create(connection, checkfirst=True)


def identity(connection: Connection) -> str:
    """The uuid that names the database."""
    return str(connection.execute(select(meta.c.uuid)).scalar_one())
