"""From staged rows into the tables, set by set: a load adds, changes and, if it replaces, removes."""

from sqlalchemy import (
    BigInteger,
    Column,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    and_,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)

from geolookup.model.errors import DataFileError
from geolookup.model.fields import DEGREES, FIELD_NAMES, TEXT_NAMES
from geolookup.service.store.schema import NUMBER, geolocations, ipblocks, place_columns
from geolookup.service.store.store import Transaction

_metadata = MetaData()

# Rows wait here so that they enter the tables in the order of their keys: in a file's own order, millions of rows would
# touch every page of the database again and again.
staged_geolocations = Table(
    "staged_geolocations",
    _metadata,
    # The number by which the file's blocks name their geolocation.
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("locid", BigInteger, nullable=False),
    Column("line", BigInteger, nullable=False),
    *place_columns(),
    prefixes=["TEMPORARY"],
)
staged_blocks = Table(
    "staged_blocks",
    _metadata,
    Column("number", BigInteger, nullable=False),
    Column("family", SmallInteger, nullable=False),
    Column("startipnum", NUMBER, nullable=False),
    Column("endipnum", NUMBER, nullable=False),
    Column("startip", String(45), nullable=False),
    Column("endip", String(45), nullable=False),
    Column("line", Integer, nullable=False),
    prefixes=["TEMPORARY"],
)

_kept_metadata = MetaData()

_kept_geolocations = Table(
    "kept_geolocations",
    _kept_metadata,
    Column("locid", BigInteger, primary_key=True, autoincrement=False),
    prefixes=["TEMPORARY"],
)
_kept_blocks = Table(
    "kept_blocks",
    _kept_metadata,
    Column("locid", BigInteger, primary_key=True, autoincrement=False),
    Column("family", SmallInteger, primary_key=True),
    Column("startipnum", NUMBER, primary_key=True),
    Column("endipnum", NUMBER, primary_key=True),
    prefixes=["TEMPORARY"],
    sqlite_with_rowid=False,
)

_RANGE = ("family", "startipnum", "endipnum")
_BLOCK = (*_RANGE, "startip", "endip")


def create_staging(transaction: Transaction) -> None:
    """Make the staging tables, empty; they go with the transaction or with `drop_staging`."""
    _metadata.create_all(transaction.connection, checkfirst=False)


def drop_staging(transaction: Transaction) -> None:
    """Remove the staging tables with their rows."""
    _metadata.drop_all(transaction.connection, checkfirst=False)


def known_countries(transaction: Transaction) -> dict[str, int]:
    """The default geolocations that have only a country, by its code; the first of several."""
    empty = [geolocations.c[name] == "" for name in TEXT_NAMES if name != "country"]
    no_place = [geolocations.c[name].is_(None) for name in DEGREES]
    rows = select(geolocations.c.country, func.min(geolocations.c.locid)).where(
        geolocations.c.locid > 0, *empty, *no_place
    )
    found = transaction.connection.execute(rows.group_by(geolocations.c.country))
    return {row[0]: row[1] for row in found}


def greatest_locid(transaction: Transaction) -> int:
    """The greatest locid of a default geolocation, 0 if there is none."""
    query = select(func.max(geolocations.c.locid)).where(geolocations.c.locid > 0)
    return transaction.connection.execute(query).scalar() or 0


def merge(transaction: Transaction, name: str) -> tuple[int, int, int]:
    """Copy the staged rows into the tables: the numbers of geolocations added and changed, and of blocks added.

    The transaction is told whether anything changed. It counts as a change of the default layer if the file has
    default geolocations at all.

    :raises DataFileError: if a custom block belongs to another custom geolocation; ``name`` is the file's
    """
    connection = transaction.connection
    for table in (staged_geolocations, staged_blocks):
        transaction.database.analyze(connection, table)
    changed = _change_geolocations(transaction)
    added = _add_geolocations(transaction)
    _require_one_owner(transaction, name)
    blocks = _add_blocks(transaction)
    locids = staged_geolocations.c.locid
    lowest, greatest = connection.execute(select(func.min(locids), func.max(locids))).one()
    if lowest is not None and lowest < 0:
        transaction.database.reserve_locids(connection, lowest)
    if added or changed or blocks:
        transaction.changed = True
        transaction.changed_default |= greatest is not None and greatest > 0
    return added, changed, blocks


def _change_geolocations(transaction: Transaction) -> int:
    new = staged_geolocations.c
    differ = or_(*(geolocations.c[name].is_distinct_from(new[name]) for name in FIELD_NAMES))
    values = {column.name: new[column.name] for column in geolocations.c if column.name != "locid"}
    statement = update(geolocations).where(geolocations.c.locid == new.locid, differ).values(values)
    return transaction.connection.execute(statement).rowcount


def _add_geolocations(transaction: Transaction) -> int:
    names = [column.name for column in geolocations.c]
    new = staged_geolocations.c
    rows = select(*(new[name] for name in names)).where(~exists().where(geolocations.c.locid == new.locid))
    return _insert(transaction, geolocations, names, rows.order_by(new.locid))


def _add_blocks(transaction: Transaction) -> int:
    new, place = staged_blocks.c, staged_geolocations.c
    there = exists().where(ipblocks.c.locid == place.locid, *(ipblocks.c[name] == new[name] for name in _RANGE))
    rows = (
        select(place.locid, *(new[name] for name in _BLOCK))
        .distinct()
        .where(place.number == new.number, ~there)
        .order_by(place.locid, *(new[name] for name in _RANGE))
    )
    return _insert(transaction, ipblocks, ["locid", *_BLOCK], rows)


def _insert(transaction: Transaction, table: Table, names: list[str], rows: object) -> int:
    statement = insert(table).from_select(names, rows, include_defaults=False)  # type: ignore[arg-type]
    return transaction.connection.execute(statement, execution_options={"preserve_rowcount": True}).rowcount


def _require_one_owner(transaction: Transaction, name: str) -> None:
    new, other = staged_blocks.c, staged_blocks.alias().c
    within = select(new.line, new.startip, new.endip, other.number).where(
        new.number < 0, other.number < 0, new.number != other.number, *(new[part] == other[part] for part in _RANGE)
    )
    before = select(new.line, new.startip, new.endip, ipblocks.c.locid).where(
        new.number < 0,
        and_(ipblocks.c.locid < 0, ipblocks.c.locid != new.number),
        *(ipblocks.c[part] == new[part] for part in _RANGE),
    )
    for query in (before, within):
        taken = transaction.connection.execute(query.order_by(new.line.desc()).limit(1)).first()
        if taken is not None:
            line, startip, endip, owner = taken
            raise DataFileError(
                f"{name}, line {line}: the block {startip}-{endip} also belongs to custom geolocation {owner}"
            )


class Replacing:
    """Remembers the rows of one load's files; `remove` then deletes all other default geolocations and blocks.

    Custom geolocations and their blocks are never removed: clients made them, and no file may know of them.
    """

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        _kept_metadata.create_all(transaction.connection, checkfirst=False)

    def keep_staged(self) -> None:
        """Remember the staged rows, which are one file."""
        execute = self._transaction.connection.execute
        place, block = staged_geolocations.c, staged_blocks.c
        kept = _kept_geolocations.c
        rows = select(place.locid).where(place.locid > 0, ~exists().where(kept.locid == place.locid)).distinct()
        execute(insert(_kept_geolocations).from_select(["locid"], rows.order_by(place.locid)))
        names = [column.name for column in _kept_blocks.c]
        known = and_(
            *(column == (place if name == "locid" else block)[name] for name, column in _kept_blocks.c.items())
        )
        values = [place.locid, *(block[name] for name in names[1:])]
        blocks = select(*values).where(place.locid > 0, place.number == block.number, ~exists().where(known)).distinct()
        execute(insert(_kept_blocks).from_select(names, blocks.order_by(*values)))

    def remove(self) -> tuple[int, int]:
        """Delete all that is in no file: the number of geolocations and of blocks.

        :raises DataFileError: if that would be every default geolocation, since the files have none
        """
        connection = self._transaction.connection
        for table in (_kept_geolocations, _kept_blocks):
            self._transaction.database.analyze(connection, table)
        if connection.execute(select(_kept_geolocations.c.locid).limit(1)).first() is None:
            count = connection.execute(select(func.count()).where(geolocations.c.locid > 0)).scalar_one()
            if count:
                raise DataFileError(
                    f"the files have no default geolocations, so replacing would remove all {count:,} that are there: "
                    "nothing was loaded"
                )
        known = and_(*(ipblocks.c[name] == column for name, column in _kept_blocks.c.items()))
        blocks = connection.execute(delete(ipblocks).where(ipblocks.c.locid > 0, ~exists().where(known))).rowcount
        there = exists().where(_kept_geolocations.c.locid == geolocations.c.locid)
        places = connection.execute(delete(geolocations).where(geolocations.c.locid > 0, ~there)).rowcount
        _kept_metadata.drop_all(connection, checkfirst=False)
        if places or blocks:
            self._transaction.changed = self._transaction.changed_default = True
        return places, blocks
