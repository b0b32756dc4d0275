"""The table of the fields that a geolocation has in addition to its locid and blocks. All code for fields asks it.

It has a module of its own, and plain classes in place of dataclasses, because the index's reader needs the table and
stands on the path of ``geolookup 8.8.8.8``, where the import of dataclasses would double the time to the first answer.
Its names are imported from here.

To add a field: an entry here; its attribute in `types.Geolocation` and `types.NewGeolocation`, in
`upstream.decode.PulledGeolocation` and in `sources.places.PlaceFields`, so that types are checked.
`tests/model/test_fields.py` does all of that in a copy.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, Literal, NoReturn


class Entry:
    """An entry of a table, named by its ``name``: once made it does not change."""

    __slots__: "tuple[str, ...]" = ()

    name: str

    def _fill(self, *values: object) -> None:
        for slot, value in zip(self.__slots__, values, strict=True):
            object.__setattr__(self, slot, value)

    def __setattr__(self, name: str, value: object) -> "NoReturn":
        raise AttributeError(f"the table does not change: {self.name}.{name}")


class Field(Entry):
    """One field of a geolocation.

    ``kind`` is "text" ("" if nothing is known) or "degrees" (None if nothing is known). Degrees lie between
    ``-limit`` and ``limit``; text has no ``limit`` here, since the service, its clients and the editor each take text
    of another length, the same for every field. ``label`` is what a person calls it. Geolocations can be listed by
    those that are ``filtered``.
    """

    __slots__ = ("filtered", "kind", "label", "limit", "name")

    name: str
    kind: "Literal['text', 'degrees']"
    label: str
    limit: int | None
    filtered: bool

    def __init__(
        self,
        name: str,
        label: str,
        *,
        limit: int | None = None,
        filtered: bool = False,
    ) -> None:
        """A field of degrees if it has a limit, else one of text."""
        self._fill(filtered, "text" if limit is None else "degrees", label, limit, name)

    @property
    def unknown(self) -> str | None:
        """The value that stands for an unknown one."""
        return "" if self.kind == "text" else None

    def __repr__(self) -> str:
        return f"<Field {self.name}: {self.kind}>"


#: In the service's order.
FIELDS: "Final" = (
    Field("country", "country code", filtered=True),
    Field("region", "region code", filtered=True),
    Field("city", "city", filtered=True),
    Field("postalcode", "postal code", filtered=True),
    Field("latitude", "latitude", limit=90),
    Field("longitude", "longitude", limit=180),
    Field("dmacode", "DMA code"),
    Field("areacode", "area code"),
)

FIELD_NAMES: "Final" = tuple([field.name for field in FIELDS])
TEXT_NAMES: "Final" = tuple([field.name for field in FIELDS if field.kind == "text"])
#: Each field of degrees with its limit.
DEGREES: "Final" = {field.name: field.limit for field in FIELDS if field.limit is not None}
#: What geolocations can be listed by.
FILTER_NAMES: "Final" = tuple([field.name for field in FIELDS if field.filtered])
#: Every field when nothing is known.
UNKNOWN: "Final" = {field.name: field.unknown for field in FIELDS}
#: Places without a locid of their own get theirs from here on; services number their geolocations from below.
FIRST_OWN_LOCID: "Final" = 10**9
#: What a person reads of a place, from the nearest to the widest.
PLACE_NAMES: "Final" = ("city", "region", "postalcode", "country")
