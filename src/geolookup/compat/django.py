"""``django.contrib.gis.geoip2`` on a state: ``from geolookup.compat.django import GeoIP2`` (extra ``geoip2``)."""

import os
import warnings
from typing import TYPE_CHECKING, Any

from geolookup.compat.geoip2 import Reader

try:
    from django.conf import settings
    from django.contrib.gis import geoip2 as upstream
    from django.utils import deprecation
except ImportError as error:
    from geolookup.model.errors import MissingExtraError

    raise MissingExtraError("geolookup.compat.django needs Django: pip install django") from error

if TYPE_CHECKING:
    from maxminddb.reader import Metadata

__all__ = ["GeoIP2", "GeoIP2Exception"]

GeoIP2Exception = upstream.GeoIP2Exception
_Warning: type[Warning] = getattr(deprecation, "RemovedInDjango60Warning", DeprecationWarning)


class GeoIP2(upstream.GeoIP2):  # type: ignore[misc] # Django has no types
    """Django's class for lookups, on a state directory.

    ``path`` is that directory; without it the setting GEOIP_PATH says where it is, or the variable GEOLOOKUP_HOME. The
    names ``city`` and ``country``, and the settings GEOIP_CITY and GEOIP_COUNTRY, are those of states in a directory
    that is none itself; else they mean nothing. ``cache`` is taken as Django takes it, and changes nothing.

    What is published and edited is answered within a second, so one object serves as long as the process does.

    :raises GeoIP2Exception: if no state is there, or none of its sources says where addresses are
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        cache: int = 0,
        country: str | None = None,
        city: str | None = None,
    ) -> None:
        if cache not in self.cache_options:
            raise GeoIP2Exception(f"Invalid GeoIP caching option: {cache}")
        path = path or getattr(settings, "GEOIP_PATH", None) or os.environ.get("GEOLOOKUP_HOME")
        if not path:
            raise GeoIP2Exception(
                "GeoIP path must be provided via parameter or the GEOIP_PATH setting. GEOLOOKUP_HOME can name it too."
            )
        named = os.fspath(path)
        names = (
            str(city or getattr(settings, "GEOIP_CITY", "GeoLite2-City.mmdb")),
            str(country or getattr(settings, "GEOIP_COUNTRY", "GeoLite2-Country.mmdb")),
        )
        for each in (named, *(os.path.join(named, name) for name in names)):
            try:
                self._reader = Reader(each, mode=cache)
            except FileNotFoundError:
                continue
            self._path = upstream.to_path(each)
            break
        else:
            raise GeoIP2Exception(
                "Path must be a valid database or directory containing databases. Nothing is published in "
                f"{named}: `GEOLOOKUP_HOME={named} geolookup sync FILE` makes a state of a file"
            )
        if not (self.is_city or self.is_country):
            raise GeoIP2Exception(f"Unable to handle database edition: {self._metadata.database_type}")

    @property
    def _metadata(self) -> "Metadata":
        return self._reader.metadata()

    @property
    def is_city(self) -> bool:
        """True if a source of the state says in which city addresses are."""
        return "City" in self._metadata.database_type

    @property
    def is_country(self) -> bool:
        """True if a source says in which country they are, and answers Django's queries for countries by itself."""
        return "Country" in self._metadata.database_type

    @classmethod
    def open(cls, full_path: str | os.PathLike[str], cache: int) -> Any:
        """As in Django before 6.0."""
        warnings.warn("GeoIP2.open() is deprecated. Use GeoIP2() instead.", _Warning, stacklevel=2)
        return cls(full_path, cache)
