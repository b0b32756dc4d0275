"""The tables of hotels, their amenities and their rate plans: content as it was sent, with the keys to find it by."""

from sqlalchemy import Column, ForeignKey, Table, Text

from geolookup.service.store.schema import metadata

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
