"""What the accessors of pandas and Polars have in common: the fields that are asked for most, by name."""

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from geolookup.columns.arrow import Errors
from geolookup.lookup.engine import GeoLookup

Column = TypeVar("Column")


class Shortcuts(ABC, Generic[Column]):
    """The fields that are asked for most, each by a method of its own; they answer with a ``Column``."""

    @abstractmethod
    def field(self, name: str, *, geo: GeoLookup | None = None, errors: Errors = "null") -> Column:
        """One field, by its name."""

    def country(self, *, geo: GeoLookup | None = None, errors: Errors = "null") -> Column:
        """The country code."""
        return self.field("country", geo=geo, errors=errors)

    def region(self, *, geo: GeoLookup | None = None, errors: Errors = "null") -> Column:
        """The region code."""
        return self.field("region", geo=geo, errors=errors)

    def city(self, *, geo: GeoLookup | None = None, errors: Errors = "null") -> Column:
        """The city's name."""
        return self.field("city", geo=geo, errors=errors)

    def locid(self, *, geo: GeoLookup | None = None, errors: Errors = "null") -> Column:
        """The geolocation's identifier: below zero custom, above zero default."""
        return self.field("locid", geo=geo, errors=errors)
