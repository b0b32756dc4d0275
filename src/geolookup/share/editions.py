"""The databases that are offered: their names, and what each holds."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from geolookup.errors import SettingsError
from geolookup.exports.mmdb.records import Detail

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)
_DETAIL = re.compile(r"(?:^|[-_])(City|Enterprise|Country)(?:[-_]|$)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Edition:
    """A database by its name, which is also the type that it says it has."""

    name: str
    detail: Detail


#: Those that there always are.
OWN = (Edition("geolookup-City", "city"), Edition("geolookup-Country", "country"))


def editions(names: Iterable[str]) -> tuple[Edition, ...]:
    """Our own editions, and one for each of ``names``, which say themselves what they hold.

    :raises SettingsError: if a name does not
    """
    found = {each.name: each for each in OWN}
    for name in names:
        detail = _DETAIL.search(name)
        if not _NAME.fullmatch(name) or detail is None:
            raise SettingsError(
                f"edition {name!r:.80}: must be a name of at most 64 letters, digits, - and _ with City or Country as "
                "a word, like GeoLite2-City: it decides what is in the database"
            )
        found.setdefault(name, Edition(name, "country" if detail[1] == "Country" else "city"))
    return tuple(found.values())
