"""Whose data a file holds, by what it says of itself, and what that provider's licence asks for."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from geolookup.sources.presets import PRESETS, Preset, preset


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a licence asks for.

    ``keep_days`` is for how many days a superseded version may be kept, None without a limit; ``redistribute`` is
    whether others may have the data.
    """

    licence: str
    attribution: str
    keep_days: int | None
    redistribute: bool

    def as_dict(self) -> dict[str, Any]:
        """All of it by name: `of_dict` reads it."""
        return asdict(self)

    @classmethod
    def of_dict(cls, found: Any) -> "Terms | None":
        """Terms that were kept as JSON; None if there are none."""
        if not isinstance(found, Mapping) or not found:
            return None
        days = found.get("keep_days")
        return cls(
            licence=str(found.get("licence", "")),
            attribution=str(found.get("attribution", "")),
            keep_days=days if isinstance(days, int) else None,
            redistribute=found.get("redistribute") is not False,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Provider:
    """``pattern`` finds its name in a text. ``free`` are the terms of its free edition, ``bought`` of what it sells.

    ``is_free`` finds the free edition in what a file says of itself. A file's name does not say so: people shorten
    them, and nearly all have the free one.
    """

    pattern: "re.Pattern[str]"
    free: Terms | None = None
    bought: Terms | None = None
    is_free: "re.Pattern[str]" = re.compile("", re.ASCII)

    def terms(self, said: str, *, is_name: bool) -> Terms | None:
        """The terms for a text in which it was found."""
        if self.bought is None or (self.free is not None and (is_name or self.is_free.search(said))):
            return self.free
        return self.bought


def _of_preset(name: str) -> Terms:
    return _as_terms(preset(name))


def _as_terms(found: Preset) -> Terms:
    return Terms(
        licence=found.licence,
        attribution=found.attribution,
        keep_days=found.keep_days,
        redistribute=found.redistribute,
    )


def _bought(provider: str) -> Terms:
    return Terms(
        licence=f"{provider}: as bought, not to be passed on", attribution="", keep_days=None, redistribute=False
    )


def _word(text: str) -> "re.Pattern[str]":
    return re.compile(rf"(?<![a-z]){text}", re.ASCII)


_LITE = re.compile("lite|free", re.ASCII)
_GEOLITE2 = _of_preset("geolite2-city")
_GEOLITE = Terms(
    licence="CC BY-SA 4.0",
    attribution="This product includes GeoLite data created by MaxMind, available from https://www.maxmind.com",
    keep_days=None,
    redistribute=True,
)
_DBIP = _of_preset("dbip-city-lite")
_IP2LOCATION = _of_preset("ip2location-lite-db11")

#: The more particular name before the general. GeoIP2 is only sold.
_PROVIDERS = (
    _Provider(pattern=_word("geolite-?2"), free=_GEOLITE2),
    _Provider(pattern=_word("geolite"), free=_GEOLITE),
    _Provider(pattern=_word("geoip"), bought=_bought("MaxMind GeoIP")),
    _Provider(pattern=_word("db-?ip(?![a-z])"), free=_DBIP, bought=_bought("DB-IP"), is_free=_LITE),
    _Provider(pattern=_word("ipinfo"), free=_of_preset("ipinfo-lite"), bought=_bought("IPinfo"), is_free=_LITE),
    _Provider(pattern=_word("ip2location"), free=_IP2LOCATION, bought=_bought("IP2Location"), is_free=_LITE),
)
#: What a kind says if nothing else does: these are formats of one provider.
_OF_KIND = {
    "registry": Terms(licence="CC0 1.0", attribution="", keep_days=None, redistribute=True),
    "rir": _of_preset("rir"),
    "geolite2-csv": _GEOLITE2,
    "legacy-csv": _GEOLITE,
    "dbip-csv": _DBIP,
    "ip2location-csv": _IP2LOCATION,
}
_BY_CREDIT = {found.attribution: _as_terms(found) for found in PRESETS} | {_GEOLITE.attribution: _GEOLITE}
#: Kinds that no provider's file has: a name like ``geolite2-corrections.csv`` says what they correct.
_NOT_OF_A_PROVIDER = frozenset(("geofeed", "list", "registry", "service", "rir"))


def recognised(kind: str, about: Mapping[str, str], names: Iterable[str] = ()) -> Terms | None:
    """The terms of the provider whose file this is; None if nothing says whose it is.

    ``about`` is what the file says of itself (`Gathered.about`). ``names`` are the file's name and those inside an
    archive or folder: they count if the file itself says nothing. Lines of attribution in its description, as our own
    exports carry them, name the providers of all that is in it.
    """
    if kind in _NOT_OF_A_PROVIDER:
        found = _OF_KIND.get(kind)
        return replace(found, attribution=line) if found and (line := about.get("attribution")) else found
    description = about.get("description", "")
    credited = [terms for credit, terms in _BY_CREDIT.items() if credit.rstrip(".") in description]
    if credited:
        return _joined(credited)
    said = [about.get("database_type", ""), description]
    for texts, is_name in ((said, False), (list(names), True)):
        for text in texts:
            lowered = text.lower()
            provider = next((each for each in _PROVIDERS if each.pattern.search(lowered)), None)
            if provider is not None:
                return provider.terms(lowered, is_name=is_name)
    return _OF_KIND.get(kind)


def _joined(found: list[Terms]) -> Terms:
    """The terms for data of several providers: what the strictest of them asks for."""
    days = [terms.keep_days for terms in found if terms.keep_days is not None]
    return Terms(
        licence="; ".join(dict.fromkeys(terms.licence for terms in found)),
        attribution=". ".join(dict.fromkeys(terms.attribution for terms in found)),
        keep_days=min(days, default=None),
        redistribute=all(terms.redistribute for terms in found),
    )
