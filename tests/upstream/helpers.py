"""What the tests of the upstream client share: settings that are quick, a transport to a raw server."""

from typing import Any

from geolookup.http.transport import Transport
from geolookup.settings.table import Settings
from geolookup.upstream.geolocations import GeolocationsClient
from tests.faults.raw_server import RawServer

CANARY = "canary-3f9a-do-not-show"
TWO = b'[{"locid":1,"ipblocks":[{"startip":"1.1.1.1","endip":"1.1.1.2"}]},{"locid":-2,"country":"US","ipblocks":[]}]'
FIELDS: dict[str, object] = {
    "country": "US",
    "region": "CA",
    "city": "Zürich",
    "postalcode": "94103",
    "latitude": 1.5,
    "longitude": None,
    "dmacode": "",
    "areacode": "",
}


def transport(server: RawServer | str, *, secret: str | None = CANARY, **changes: Any) -> Transport:
    """A transport whose retries do not wait and whose timeouts are short enough for a test."""
    url = server if isinstance(server, str) else server.url
    quick: dict[str, Any] = {"connect_timeout_s": 5.0, "read_timeout_s": 5.0, "attempts": 1, "max_wait_s": 1.0}
    return Transport(Settings(url=url, **{**quick, **changes}), secret=secret, backoff_s=0.0)


def locids(server: RawServer, **changes: Any) -> list[int]:
    """The locids of a complete list."""
    with transport(server, **changes) as connection, GeolocationsClient(connection).list() as listing:
        return [row.locid for row in listing]
