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


_CC_BY = ("CC BY 4.0", "https://creativecommons.org/licenses/by/4.0/")
_CC_BY_SA = ("CC BY-SA 4.0", "https://creativecommons.org/licenses/by-sa/4.0/")
_MAXMIND_LICENCE = ("GeoLite2 End User License Agreement", "https://www.maxmind.com/en/geolite2/eula")
_MAXMIND_CREDIT = "This product includes GeoLite2 data created by MaxMind, available from https://www.maxmind.com"
_DBIP_CREDIT = "IP Geolocation by DB-IP (https://db-ip.com)"


def _dbip(edition: str) -> Preset:
    return Preset(
        name=f"dbip-{edition}-lite",
        location=f"https://download.db-ip.com/free/dbip-{edition}-lite-{{YYYY}}-{{MM}}.mmdb.gz",
        kind="mmdb",
        licence=_CC_BY[0],
        licence_url=_CC_BY[1],
        attribution=_DBIP_CREDIT,
        keep_days=None,
        redistribute=True,
        auth="none",
        month_before=True,
        max_age="40d",
        documentation=f"https://db-ip.com/db/download/ip-to-{edition}-lite",
        tried=False,
    )


def _geolite2(edition: str) -> Preset:
    return Preset(
        name=f"geolite2-{edition.lower()}",
        location=f"https://download.maxmind.com/geoip/databases/GeoLite2-{edition}/download?suffix=tar.gz",
        kind="mmdb",
        licence=_MAXMIND_LICENCE[0],
        licence_url=_MAXMIND_LICENCE[1],
        attribution=_MAXMIND_CREDIT,
        keep_days=30,
        redistribute=False,
        auth="basic",
        month_before=False,
        max_age="14d",
        documentation="https://dev.maxmind.com/geoip/updating-databases/",
        tried=False,
    )


PRESETS: tuple[Preset, ...] = (
    Preset(
        name="rir",
        location="https://ftp.ripe.net/pub/stats/ripencc/nro-stats/latest/nro-delegated-stats",
        kind="rir",
        licence="free to use, published by the Number Resource Organization",
        licence_url="https://www.nro.net/about/rirs/statistics/",
        attribution="Delegation statistics of the regional internet registries, combined by the NRO",
        keep_days=None,
        redistribute=True,
        auth="none",
        month_before=False,
        max_age="7d",
        documentation="https://www.nro.net/about/rirs/statistics/",
        tried=False,
    ),
    _dbip("city"),
    _dbip("country"),
    _geolite2("City"),
    _geolite2("Country"),
    Preset(
        name="ipinfo-lite",
        location="https://ipinfo.io/data/ipinfo_lite.mmdb?token={token}",
        kind="mmdb",
        licence=_CC_BY_SA[0],
        licence_url=_CC_BY_SA[1],
        attribution="IP address data powered by IPinfo (https://ipinfo.io)",
        keep_days=None,
        redistribute=True,
        auth="token",
        month_before=False,
        max_age="7d",
        documentation="https://ipinfo.io/developers/ipinfo-lite-database",
        tried=False,
    ),
    Preset(
        name="ip2location-lite-db11",
        location="https://www.ip2location.com/download/?token={token}&file=DB11LITECSVIPV6",
        kind="ip2location-csv",
        licence=_CC_BY_SA[0],
        licence_url=_CC_BY_SA[1],
        attribution="This site or product includes IP2Location LITE data available from https://lite.ip2location.com",
        keep_days=None,
        redistribute=True,
        auth="token",
        month_before=False,
        max_age="70d",
        documentation="https://lite.ip2location.com/ip2location-lite",
        tried=False,
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
