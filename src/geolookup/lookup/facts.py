"""The facts of one open index file's records, as the accelerator reads them and as the reference does.

A fact stands at its path in the record. Where the record does not say it, some follow from a field of the place, as in
the record that is made of it: a country's name, continent and membership from its code, a region's code or name from
its text.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from geolookup.index.layout import EMPTY, ITEM_FORMATS, OURS, PART
from geolookup.index.native import open_layer
from geolookup.model.facts import NETWORK_FACTS, PLACE_FACTS, Fact
from geolookup.model.fields import FIELD_NAMES, UNKNOWN
from geolookup.model.types import MATCH_FACTS, geolocation_of

if TYPE_CHECKING:
    from types import ModuleType

    from geolookup.index import _native
    from geolookup.index.reader import IndexReader
    from geolookup.lookup.network import Network, Networks
    from geolookup.model.addresses import Family
    from geolookup.model.types import Geolocation
    from geolookup.state.base.current import Current

#: The facts of a network that a match has as members.
MATCH_NETWORK_FACTS = {name: NETWORK_FACTS[name] for name in MATCH_FACTS if name in NETWORK_FACTS}
#: All of them, those first.
ORDERED_NETWORK_FACTS = {**MATCH_NETWORK_FACTS, **NETWORK_FACTS}
#: So many texts of a field are remembered with what follows from them.
_MOST_TEXTS = 1 << 12


class _ByText(dict[str, Any]):
    """What follows from a text, found out once."""

    def __init__(self, of: Callable[[str], Any]) -> None:
        super().__init__()
        self._of = of

    def __missing__(self, text: str) -> Any:
        found = self._of(text)
        if len(self) < _MOST_TEXTS:
            self[text] = found
        return found


#: Facts that follow from a field if a record does not say them: the field, and whether that is so in records, too, that
#: say something else under the fact's key.
_FIELDS = {
    "country_name": ("country", True),
    "continent_code": ("country", True),
    "is_in_european_union": ("country", True),
    "region_code": ("region", False),
    "region_name": ("region", False),
    "time_zone": ("country", False),
}


@cache
def _following(name: str, *, own: bool) -> tuple[str, _ByText | None, bool]:
    """The field from which a fact follows, the fact by the field's text, and whether always: see `_FIELDS`.

    It is what a record has that is made of this field. ``own`` is true of custom geolocations.
    """
    field, always = _FIELDS.get(name, ("", False))
    if not field:
        return "", None, False
    fact = PLACE_FACTS[name]

    def of(text: str) -> Any:
        from geolookup.lookup.record import Record, made  # late: opening a state needs none

        place = geolocation_of((-1 if own else 1, *{**UNKNOWN, field: text}.values()))
        record = Record.made(made(place, "city"))
        found = fact.typed(record.find(fact.path))
        if name == "is_in_european_union" and found is None and "continent" in record:
            found = False  # the country is known, and records say it of members only
        return found

    return field, _ByText(of), always or own


def _where(fact: Fact, *, own: bool = False) -> tuple[str, tuple[str | int, ...]]:
    """The key of records that has a fact, and the steps from there. Records of networks have facts alone.

    The time zone of one's ``own`` geolocations stands beside the name of the site.
    """
    if own and fact.name == "time_zone":
        return OURS, (fact.name,)
    keys = fact.path.split(".")[fact.layer == "network" :]
    return keys[0], tuple(int(key) if key.isdecimal() else key for key in keys[1:])


def part_of(fact: Fact, reader: "IndexReader") -> str:
    """The key at the top of a file's records under which a fact stands."""
    return _where(fact, own=reader.layer == "custom")[0]


def follows_from(fact: Fact) -> str:
    """The field of the place from which a fact follows where a record does not say it; "" if from none."""
    return _FIELDS.get(fact.name, ("", False))[0]


class RecordFacts:
    """The facts of one file's records: the reference. It keeps the file mapped, so it can be asked after a `close`."""

    __slots__ = ("_own", "_records", "_where")

    def __init__(self, reader: "IndexReader", facts: Mapping[str, Fact]) -> None:
        self._own = reader.layer == "custom"
        self._records = reader.records()
        self._where = {name: (fact, *_where(fact, own=self._own)) for name, fact in facts.items()}

    def get(self, name: str, record: int, place: "Geolocation | None" = None) -> Any:
        """A fact of a record, whose place is ``place``; None if nobody says it.

        :raises IndexDamagedError: if the file is damaged there
        """
        fact, key, steps = self._where[name]
        found = part = self._records.decoded(record, key)
        for step in steps:
            if isinstance(found, dict):
                found = found.get(step)
            elif isinstance(found, list) and isinstance(step, int) and step < len(found):
                found = found[step]
            else:
                found = None
        found = fact.typed(found)
        field, by_text, always = _following(name, own=self._own)
        if found is None and by_text is not None and place is not None and (part is None or always):
            found = by_text[getattr(place, field)]
        return found


def open_facts(module: "ModuleType", reader: "IndexReader", facts: Mapping[str, Fact]) -> "_native.Facts":
    """The same facts of a file for the accelerator."""
    sections = reader.header.sections
    columns = []
    for name, fact in facts.items():
        key, steps = _where(fact, own=reader.layer == "custom")
        section = sections.get(PART + key)
        numbers = None if section is None else reader.section_bytes(PART + key)
        width = 0 if section is None else ITEM_FORMATS[section.dtype][1]
        field, by_text, always = _following(name, own=reader.layer == "custom")
        number = FIELD_NAMES.index(field) + 1 if field else 0
        columns.append((numbers, width, steps, fact.most, number, by_text, always))
    parts = (reader.section_bytes(name) if name in sections else bytes(4) for name in ("parts.offsets", "parts.bytes"))
    found: _native.Facts = module.Facts(reader.record_count, tuple(columns), *parts)
    return found


class NetworkFacts:
    """The facts of one generation's networks, whose index is opened once they are asked for."""

    __slots__ = ("_facts", "_networks", "_published")

    def __init__(self, path: str | None, current: "Current") -> None:
        """``path`` is where the index stands, None if there is none; ``current`` says what was published there."""
        self._published = path, current
        self._networks: Networks | None = None
        self._facts: RecordFacts | None = None

    def opened(self) -> "Networks | None":
        """The open index, or None if no source says who runs addresses.

        :raises IndexDamagedError: if it is not what was published
        :raises StateDamagedError: if it is gone
        """
        path, current = self._published
        if self._networks is None and path is not None:
            from geolookup.lookup.network import Networks  # late: a plain lookup needs none

            self._networks = Networks(path, current)  # two threads may both do so, and one's is let go
        return self._networks

    def fact(self, name: str, family: "Family", value: int) -> Any:
        """A fact of an address; None if no source says it.

        :raises IndexDamagedError: if the index is not what was published, or damaged there
        :raises StateDamagedError: if it is gone
        """
        networks = self.opened()
        record = EMPTY if networks is None else networks.record(family, value)
        if networks is None or record == EMPTY:
            return None
        if self._facts is None:
            self._facts = RecordFacts(networks.reader, MATCH_NETWORK_FACTS)
        return self._facts.get(name, record)

    def layer(self, module: "ModuleType", view: "Callable[[ModuleType], type[Network]]") -> "_native.Layer | None":
        """The same for the accelerator; ``view`` gives the type of the objects that stand for a network."""
        networks = self.opened()
        if networks is None:
            return None
        reader = networks.reader
        facts = open_facts(module, reader, ORDERED_NETWORK_FACTS)
        return open_layer(module, reader, reader.record_count, None, facts, view(module), networks.said_by_record())


class Known:
    """The facts of one answer by name, each read when it is asked for."""

    __slots__ = ("_address", "_networks", "_of_place")

    def __init__(
        self,
        facts: RecordFacts,
        record: int,
        place: "Geolocation",
        networks: NetworkFacts | None,
        address: "tuple[Family, int]",
    ) -> None:
        self._of_place = facts, record, place
        self._networks = networks
        self._address = address

    def __getitem__(self, name: str) -> Any:
        if name in MATCH_NETWORK_FACTS:
            return None if self._networks is None else self._networks.fact(name, *self._address)
        facts, record, place = self._of_place
        return facts.get(name, record, place)
