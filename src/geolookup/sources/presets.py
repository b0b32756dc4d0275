"""Sources that people can name: where they are, what their licence asks for, and how to log in.

Addresses and terms are those of the providers' documentation as of 2026. No preset was tried against its real host
while this was written: ``tried`` says so for each.
"""

from dataclasses import dataclass
from typing import Literal

from geolookup.errors import SettingsError


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A provider's file.

    ``location`` may hold {YYYY}, {MM} and {DD} (the day in UTC) and {token}. ``month_before`` is true if the month's
    file appears some days late, so that after a 404 the month before is right. ``keep_days`` is for how many days the
    licence lets a superseded version be kept (None: no limit), ``redistribute`` whether it lets others have the data.
    ``auth`` says how the secret travels: ``basic`` is ``account:key``, ``token`` stands in the address. ``max_age`` is
    the age past which the data are stale: twice the provider's rhythm, and some days.
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
    month_before: bool
    max_age: str
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
    month_before: bool = False,
    max_age: str,
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
        month_before=month_before,
        max_age=max_age,
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
        month_before=True,
        max_age="40d",
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
