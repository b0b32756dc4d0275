"""The records of a service's elements: what stands in them besides our fields, in GeoIP2's shape."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from geolookup.index import mmdb
from geolookup.sources.facts import key_of
from geolookup.sources.places import PlaceFields
from geolookup.sources.protocol import KeptKey
from geolookup.sources.shape import OURS, Leaf, Shape, hollow

_OF_NETWORK = "it is of the network, and a service's list is of places"
_OF_CUSTOM = "the record of a custom geolocation is made of its own fields"


class Elements:
    """Makes the parts of records. An element that has no more than our fields has none: its record is made of those."""

    def __init__(self) -> None:
        self._shape = Shape(complete=True)
        self._of_networks: Counter[str] = Counter()
        self._of_custom: Counter[str] = Counter()

    def says(self, place: PlaceFields, more: Mapping[str, Any] | None, *, custom: bool = False) -> dict[str, bytes]:
        """The parts of the record of a place; ``more`` are the members of its element that are no fields.

        Those of a ``custom`` element are counted, and not kept.
        """
        if not more:
            return {}
        if custom:
            self._of_custom.update(more.keys())
            return {}
        facts = [key for key in more if key_of(key) is not None]
        self._of_networks.update(facts)
        if len(facts) == len(more):
            return {}
        values: dict[str, Leaf] = {OURS + name: value for name, value in place._asdict().items() if value is not None}
        values |= {key: _leaf(value) for key, value in more.items() if not key.startswith(OURS) and key not in facts}
        plan = self._shape.plan(tuple(values))
        row = list(values.values())
        for at, name, key in plan.degrees:
            row[at] = hollow(row[at], values[key], getattr(place, name))
        return plan(row, place.country)

    def kept(self) -> list[KeptKey]:
        """The members that are no fields, and how many elements have them."""
        kept = [each for each in self._shape.kept() if not each.key.startswith(OURS)]
        return kept + [
            KeptKey(key=key, kept_as="", records=count, reason=why)
            for counted, why in ((self._of_networks, _OF_NETWORK), (self._of_custom, _OF_CUSTOM))
            for key, count in counted.items()
        ]


def _leaf(value: Any) -> Leaf:
    """A value of JSON: a text and a whole number get the type of the place where they stand."""
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    return mmdb.value_of(value)
