"""Providers: their files, which people can name as presets, and the terms of the licence of any file of theirs.

A file is recognised by its own words, else by exactly the name that its provider gives it: anybody's table may hold a
provider's name, and have three columns. Addresses and terms are those of the providers' documentation
as of 2026. No preset was tried against its real host while this was written: ``tried`` says so for each.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias

from geolookup.model.errors import SettingsError

Dated: TypeAlias = Literal["", "month", "monday"]
#: The kind of the files in which clouds publish their addresses.
CLOUD_RANGES = "cloud-ranges"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A provider's file.

    ``location`` may hold {YYYY}, {MM} and {DD} (the day in UTC) and {token}. ``dated`` says which earlier files are
    right after a 404: with ``month`` that of the month before, since it appears some days late; with ``monday`` the
    day is the last Monday, and those of the two Mondays before are. ``keep_days`` is for how many days the
    licence lets a superseded version be kept (None: no limit), ``redistribute`` whether it lets others have the data.
    ``auth`` says how the secret travels: ``basic`` is ``account:key``, ``token`` stands in the address. ``max_age`` is
    the age past which the data are stale: twice the provider's rhythm, and some days. ``max_data_age`` is the age past
    which a check fails, by the date in the file; empty without a limit.
    """

    name: str
    location: str
    kind: str
    licence: str
    licence_url: str
    attribution: str
    keep_days: int | None
    redistribute: bool
    auth: Literal["none", "basic", "token"]
    dated: Dated
    max_age: str
    max_data_age: str
    documentation: str
    tried: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Licence:
    name: str
    url: str
    keep_days: int | None = None
    redistribute: bool = True


_CC_BY = _Licence(name="CC BY 4.0", url="https://creativecommons.org/licenses/by/4.0/")
_CC_BY_SA = _Licence(name="CC BY-SA 4.0", url="https://creativecommons.org/licenses/by-sa/4.0/")
_GEOLITE2_EULA = _Licence(
    name="GeoLite2 End User License Agreement",
    url="https://www.maxmind.com/en/geolite2/eula",
    keep_days=30,
    redistribute=False,
)
_NRO = _Licence(
    name="free to use, published by the Number Resource Organization", url="https://www.nro.net/about/rirs/statistics/"
)


def _preset(
    name: str,
    location: str,
    licence: _Licence,
    attribution: str,
    documentation: str,
    *,
    kind: str = "mmdb",
    auth: Literal["none", "basic", "token"] = "none",
    dated: Dated = "",
    max_age: str,
    max_data_age: str = "",
) -> Preset:
    return Preset(
        name=name,
        location=location,
        kind=kind,
        licence=licence.name,
        licence_url=licence.url,
        attribution=attribution,
        keep_days=licence.keep_days,
        redistribute=licence.redistribute,
        auth=auth,
        dated=dated,
        max_age=max_age,
        max_data_age=max_data_age,
        documentation=documentation,
        tried=False,
    )


def _dbip(edition: str) -> Preset:
    return _preset(
        f"dbip-{edition}-lite",
        f"https://download.db-ip.com/free/dbip-{edition}-lite-{{YYYY}}-{{MM}}.mmdb.gz",
        _CC_BY,
        "IP Geolocation by DB-IP (https://db-ip.com)",
        f"https://db-ip.com/db/download/ip-to-{edition}-lite",
        dated="month",
        max_age="40d",
        max_data_age="45d",
    )


def _geolite2(edition: str) -> Preset:
    return _preset(
        f"geolite2-{edition.lower()}",
        f"https://download.maxmind.com/geoip/databases/GeoLite2-{edition}/download?suffix=tar.gz",
        _GEOLITE2_EULA,
        "This product includes GeoLite2 data created by MaxMind, available from https://www.maxmind.com",
        "https://dev.maxmind.com/geoip/updating-databases/",
        auth="basic",
        max_age="14d",
        max_data_age="14d",
    )


def _cloud(
    name: str, location: str, owner: str, documentation: str, *, dated: Dated = "", max_age: str = "14d"
) -> Preset:
    return _preset(
        name,
        location,
        _Licence(name="published for everyone's use, without a licence of its own", url=documentation),
        f"Addresses of {owner}, as {owner} publishes them",
        documentation,
        kind=CLOUD_RANGES,
        dated=dated,
        max_age=max_age,
    )


PRESETS: tuple[Preset, ...] = (
    _preset(
        "rir",
        "https://ftp.ripe.net/pub/stats/ripencc/nro-stats/latest/nro-delegated-stats",
        _NRO,
        "Delegation statistics of the regional internet registries, combined by the NRO",
        _NRO.url,
        kind="rir",
        max_age="7d",
    ),
    _dbip("city"),
    _dbip("country"),
    _geolite2("City"),
    _geolite2("Country"),
    _preset(
        "ipinfo-lite",
        "https://ipinfo.io/data/ipinfo_lite.mmdb?token={token}",
        _CC_BY_SA,
        "IP address data powered by IPinfo (https://ipinfo.io)",
        "https://ipinfo.io/developers/ipinfo-lite-database",
        auth="token",
        max_age="7d",
    ),
    _preset(
        "ip2location-lite-db11",
        "https://www.ip2location.com/download/?token={token}&file=DB11LITECSVIPV6",
        _CC_BY_SA,
        "This site or product includes IP2Location LITE data available from https://lite.ip2location.com",
        "https://lite.ip2location.com/ip2location-lite",
        kind="ip2location-csv",
        auth="token",
        max_age="70d",
    ),
    _cloud(
        "aws",
        "https://ip-ranges.amazonaws.com/ip-ranges.json",
        "Amazon Web Services",
        "https://docs.aws.amazon.com/vpc/latest/userguide/aws-ip-ranges.html",
    ),
    _cloud(
        "azure",
        "https://download.microsoft.com/download/7/1/D/71D86715-5596-4529-9B13-DA13A5DE5B63/"
        "ServiceTags_Public_{YYYY}{MM}{DD}.json",
        "Microsoft Azure",
        "https://www.microsoft.com/en-us/download/details.aspx?id=56519",
        dated="monday",
        max_age="21d",
    ),
    _cloud(
        "google-cloud",
        "https://www.gstatic.com/ipranges/cloud.json",
        "Google Cloud",
        "https://support.google.com/a/answer/10026322",
    ),
    _cloud(
        "google",
        "https://www.gstatic.com/ipranges/goog.json",
        "Google",
        "https://support.google.com/a/answer/10026322",
    ),
    _cloud(
        "oracle-cloud",
        "https://docs.oracle.com/iaas/tools/public_ip_ranges.json",
        "Oracle Cloud Infrastructure",
        "https://docs.oracle.com/iaas/Content/General/Concepts/addressranges.htm",
    ),
    _cloud(
        "cloudflare",
        "https://api.cloudflare.com/client/v4/ips",
        "Cloudflare",
        "https://developers.cloudflare.com/api/resources/ips",
        max_age="30d",
    ),
    _cloud(
        "fastly",
        "https://api.fastly.com/public-ip-list",
        "Fastly",
        "https://www.fastly.com/documentation/reference/api/utils/public-ip-list/",
        max_age="30d",
    ),
    _cloud(
        "github",
        "https://api.github.com/meta",
        "GitHub",
        "https://docs.github.com/rest/meta/meta",
    ),
)

_BY_NAME = {preset.name: preset for preset in PRESETS}


def preset(name: str) -> Preset:
    """The preset of this name.

    :raises SettingsError: if there is none
    """
    try:
        return _BY_NAME[name]
    except KeyError:
        raise SettingsError(f"{name!r:.60} is an unknown preset: there are {', '.join(_BY_NAME)}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The terms of a licence.

    ``keep_days`` is the number of days for which a superseded version may be kept, None without a limit;
    ``redistribute`` is whether others may have the data.
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
    """``pattern`` finds its name in a text. ``free`` are the terms of its free edition, ``bought`` those of the files
    that it sells.

    ``is_free`` finds the free edition in the words of a file. A file's name does not say so: people shorten
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
#: The terms of kinds that are formats of one provider, if the file itself says nothing.
_OF_KIND = {
    "registry": Terms(licence="CC0 1.0", attribution="", keep_days=None, redistribute=True),
    "rir": _of_preset("rir"),
    "geolite2-csv": _GEOLITE2,
    "legacy-csv": _GEOLITE,
    "ip2location-csv": _IP2LOCATION,
}
#: Clouds whose preset has another name than theirs.
_OF_CLOUD = {"google": "google-cloud", "oracle": "oracle-cloud"}
_BY_CREDIT = {found.attribution: _as_terms(found) for found in PRESETS} | {_GEOLITE.attribution: _GEOLITE}
#: The licence of a file that does not say whose it is, as people read it.
UNKNOWN_LICENCE = "unknown: yours to name"
#: A file as a provider names it: the provider, and words of its editions, families and dates alone.
_ITS_NAME = re.compile(
    r"(?:geolite-?2?|geoip-?2?|db-?ip|ipinfo|ip2location)"
    r"(?:[-_. ]?(?:city|country|asn|isp|location|lite|free|full|enterprise|standard|core|plus|blocks|ipv?[46]|v[46]"
    r"|num|en|csv|db[0-9]+|[0-9]+))+"
)
_ENDING = re.compile(r"(?:\.(?:mmdb|csv|bin|tar|tgz|gz|zst|bz2|xz|zip))+", re.ASCII)
#: Kinds that no provider's file has: a name like ``geolite2-corrections.csv`` says what they correct.
_NOT_OF_A_PROVIDER = frozenset(("geofeed", "list", "registry", "service", "rir"))


def recognised(kind: str, about: Mapping[str, str], names: Iterable[str] = ()) -> Terms | None:
    """The terms of the provider whose file this is; None if nothing says whose it is.

    ``about`` is what the file says of itself (`Gathered.about`). ``names`` are the file's name and those inside an
    archive or folder: they count if the file itself says nothing, and if they are exactly as its provider names it.
    Lines of attribution in its description, as our own exports carry them, name the providers of all that is in it.
    """
    if kind == CLOUD_RANGES:
        cloud = about.get("cloud", "")
        return _of_preset(_OF_CLOUD.get(cloud, cloud)) if cloud else None
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
            if provider is not None and (not is_name or _is_a_providers(lowered)):
                return provider.terms(lowered, is_name=is_name)
    return _OF_KIND.get(kind)


def _is_a_providers(name: str) -> bool:
    """True if a file is named as providers name theirs, in lower case: ``geolite2-corrections.csv`` is not."""
    return _ITS_NAME.fullmatch(_ENDING.sub("", name.rpartition("/")[2])) is not None


def following(known: Any) -> Terms | None:
    """The terms of a file that does not say whose it is, and comes where one was that did; None if they are free.

    ``known`` are the earlier one's (`Terms.as_dict`). Whose the new one is, its owner must say: until then it may not
    be handed on if the earlier one might not, nor kept for longer.
    """
    before = Terms.of_dict(known)
    if before is None or (before.redistribute and before.keep_days is None):
        return None
    return replace(before, licence="", attribution="")


def _joined(found: list[Terms]) -> Terms:
    """The terms for data of several providers: those of the strictest."""
    days = [terms.keep_days for terms in found if terms.keep_days is not None]
    return Terms(
        licence="; ".join(dict.fromkeys(terms.licence for terms in found)),
        attribution=". ".join(dict.fromkeys(terms.attribution for terms in found)),
        keep_days=min(days, default=None),
        redistribute=all(terms.redistribute for terms in found),
    )
