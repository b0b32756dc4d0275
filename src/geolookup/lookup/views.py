"""The types of the objects that answer with the accelerator: they look into the mapped file, and stand for our classes.

A value is made when it is asked for. See docs/decisions/answers-in-the-file.md.
"""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from geolookup.lookup.facts import MATCH_NETWORK_FACTS, ORDERED_NETWORK_FACTS
from geolookup.model.facts import PLACE_FACTS
from geolookup.model.fields import FIELD_NAMES
from geolookup.model.types import MATCH_FACTS, Geolocation, Match, field_values, geolocation_of, with_facts

if TYPE_CHECKING:
    from types import ModuleType

    from geolookup.lookup.network import Network

#: Of a class's own attributes, those that have to do with where its objects keep their values.
_OF_STORAGE = frozenset(("__init__", "__slots__", "__getstate__", "__setstate__", "__reduce__", "__module__"))


def detached(place: Geolocation) -> Geolocation:
    """A copy that holds its own values, so that it does not need the file any more."""
    return geolocation_of((place.locid, *field_values(place)))


def _detached_match(match: Match) -> Match:
    values = {name: getattr(match, name) for name in Match.__dataclass_fields__}
    values["geolocation"] = detached(match.geolocation)
    return with_facts(Match(**values), {name: getattr(match, name) for name in MATCH_FACTS})


def _stand_for(found: Any, its: type, detach: Callable[[Any], Any]) -> None:
    """Give a type of the accelerator the methods of the class that its objects stand for.

    They say that it is their class, which `isinstance` believes. What copies or pickles one gets one of the class.
    """
    for name, value in vars(its).items():
        if name not in _OF_STORAGE and (name.startswith("__") or name not in vars(found)):
            setattr(found, name, value)
    found.__new__ = staticmethod(lambda _, *values, **fields: its(*values, **fields))
    found.__reduce_ex__ = lambda self, protocol: detach(self).__reduce_ex__(protocol)


@cache
def view_type(module: "ModuleType") -> type[Geolocation]:
    """The type of the objects that stand for a Geolocation: one for each build of the accelerator."""
    found: Any = module.view_type(("locid", *FIELD_NAMES), Geolocation)
    # A lookup returns none. A property, since what reads objects by their types' attributes takes no constant.
    found.ipblocks = property(lambda _: ())
    _stand_for(found, Geolocation, detached)
    view: type[Geolocation] = found
    return view


@cache
def match_type(module: "ModuleType") -> type[Match]:
    """The type of the objects that stand for a Match: one for each build of the accelerator."""
    found: type[Match] = module.match_type(
        ("locid", *FIELD_NAMES), tuple(PLACE_FACTS), tuple(MATCH_NETWORK_FACTS), Match
    )
    _stand_for(found, Match, _detached_match)
    return found


def _detached_network(network: "Network") -> "Network":
    from geolookup.lookup.network import Network

    return Network(**{name: getattr(network, name) for name in Network.__dataclass_fields__})


@cache
def network_type(module: "ModuleType") -> "type[Network]":
    """The type of the objects that stand for a Network: one for each build of the accelerator."""
    from geolookup.lookup.network import Network  # late: a plain lookup needs none

    found: Any = module.network_type(tuple(ORDERED_NETWORK_FACTS), Network)
    found.facts = property(lambda self: self._records.facts(self._record))
    found.sources = property(lambda self: self._records.sources(self._record))
    _stand_for(found, Network, _detached_network)
    view: type[Network] = found
    return view
