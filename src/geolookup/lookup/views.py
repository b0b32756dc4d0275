"""Geolocations that look into the mapped file: a field's value is made when it is asked for.

See docs/decisions/answers-in-the-file.md.
"""

from functools import cache
from typing import TYPE_CHECKING, Any

from geolookup.model.fields import FIELD_NAMES
from geolookup.model.types import Geolocation, field_values, geolocation_of

if TYPE_CHECKING:
    from types import ModuleType

#: Of the class's own attributes, those that have to do with where a Geolocation keeps its values.
_OF_STORAGE = frozenset(
    ("__init__", "__slots__", "__getstate__", "__setstate__", "__module__", "locid", *FIELD_NAMES, "ipblocks")
)


def detached(place: Geolocation) -> Geolocation:
    """An equal one that has its values itself, whatever becomes of the file."""
    return geolocation_of((place.locid, *field_values(place)))


def _make(_: type, *values: Any, **fields: Any) -> Geolocation:
    return Geolocation(*values, **fields)


def _reduce(place: Geolocation, protocol: Any) -> Any:
    return detached(place).__reduce_ex__(protocol)


@cache
def view_type(module: "ModuleType") -> type[Geolocation]:
    """The type of the objects that stand for a Geolocation: one for each build of the accelerator.

    They have its attributes and methods, and say that it is their class, which `isinstance` believes. What copies or
    pickles one gets a Geolocation.
    """
    found: Any = module.view_type(("locid", *FIELD_NAMES), Geolocation)
    for name, value in vars(Geolocation).items():
        if name not in _OF_STORAGE:
            setattr(found, name, value)
    # A lookup returns none. A property, since what reads objects by their types' attributes takes no constant.
    found.ipblocks = property(lambda _: ())
    found.__new__ = staticmethod(_make)
    found.__reduce_ex__ = _reduce
    view: type[Geolocation] = found
    return view
