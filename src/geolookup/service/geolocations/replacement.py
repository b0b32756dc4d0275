"""What a load that replaces removes: default geolocations and blocks that none of its files has."""

from sqlalchemy import BigInteger, Column, MetaData, SmallInteger, Table, and_, delete, exists, func, insert, select

from geolookup.errors import DataFileError
from geolookup.service.geolocations.merge import staged_blocks, staged_geolocations
from geolookup.service.store.schema import NUMBER, geolocations, ipblocks
from geolookup.service.store.store import Transaction

_metadata = MetaData()

_kept_geolocations = Table(
    "kept_geolocations",
    _metadata,
    Column("locid", BigInteger, primary_key=True, autoincrement=False),
    prefixes=["TEMPORARY"],
)
_kept_blocks = Table(
    "kept_blocks",
    _metadata,
    Column("locid", BigInteger, primary_key=True, autoincrement=False),
    Column("family", SmallInteger, primary_key=True),
    Column("startipnum", NUMBER, primary_key=True),
    Column("endipnum", NUMBER, primary_key=True),
    prefixes=["TEMPORARY"],
    sqlite_with_rowid=False,
)


class Replacing:
    """Remembers what the files of one load have; `remove` then deletes every other default geolocation and block.

    Custom geolocations and their blocks are never removed: clients made them, and no file may know of them.
    """

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        _metadata.create_all(transaction.connection, checkfirst=False)

    def keep_staged(self) -> None:
        """Remember what is staged, which is one file."""
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
        """Delete what is in no file: how many geolocations and blocks.

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
        _metadata.drop_all(connection, checkfirst=False)
        if places or blocks:
            self._transaction.changed = self._transaction.changed_default = True
        return places, blocks
