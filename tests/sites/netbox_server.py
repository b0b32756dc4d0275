"""A server that answers as NetBox documents it, of releases 3.7, 4.0 and 4.2: no NetBox, whose installation needs more.

The shapes are those of its REST API (https://netboxlabs.com/docs/netbox/reference/rest-api/ and the OpenAPI document of
each release): pages by ``limit`` and ``offset``, at most 1,000 rows; objects that others name as their brief form; the
site of a prefix as ``site`` up to 4.1, as ``scope_type``, ``scope_id`` and ``scope`` from 4.2 on.
"""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

TOKEN = "0123456789abcdef0123456789abcdef01234567"
_MOST_ROWS = 1000
_WHEN = {"created": "2024-03-01T09:00:00.000000Z", "last_updated": "2025-11-20T10:00:00.000000Z"}

Row = dict[str, Any]
#: An answer instead of the usual one: status, headers, body, and how many bytes of it are sent before it breaks off.
Fault = tuple[int, dict[str, str], bytes, int | None]


@dataclass(kw_only=True)
class Made:
    """The objects of one NetBox, as arguments of `region`, `site` and the like put them there."""

    release: str = "4.2.9"
    regions: list[Row] = field(default_factory=list)
    sites: list[Row] = field(default_factory=list)
    locations: list[Row] = field(default_factory=list)
    vrfs: dict[str, Row] = field(default_factory=dict)
    prefixes: list[Row] = field(default_factory=list)
    ranges: list[Row] = field(default_factory=list)
    addresses: list[Row] = field(default_factory=list)
    devices: list[Row] = field(default_factory=list)

    @property
    def _scoped(self) -> bool:
        return tuple(map(int, self.release.split(".")[:2])) >= (4, 2)

    def _brief(self, row: Row | None, *names: str) -> Row | None:
        more = {"description": ""} if self.release.startswith("4") else {}
        return None if row is None else {name: row[name] for name in ("id", "url", "display", *names)} | more

    def _row(self, kind: str, number: int, display: str, **more: Any) -> Row:
        found = {"id": number, "url": f"http://netbox.test/api/{kind}/{number}/", "display": display, **more}
        return {**found, "tags": [], "custom_fields": found.get("custom_fields", {}), **_WHEN}

    def region(self, name: str, slug: str, above: Row | None = None, **custom: Any) -> Row:
        """A region below another."""
        parent = self._brief(above, "name", "slug")
        more = {"name": name, "slug": slug, "parent": parent, "description": "", "site_count": 0, "_depth": 0}
        self.regions.append(self._row("dcim/regions", len(self.regions) + 1, name, **more, custom_fields=custom))
        return self.regions[-1]

    def site(self, name: str, region: Row | None = None, **more: Any) -> Row:
        """A site in a region."""
        given = {
            "name": name,
            "slug": name.lower().replace(" ", "-"),
            "status": {"value": "active", "label": "Active"},
            "region": self._brief(region, "name", "slug"),
            **dict.fromkeys(("group", "tenant", "time_zone", "latitude", "longitude")),
            **dict.fromkeys(("facility", "description", "physical_address", "shipping_address", "comments"), ""),
            "asns": [],
        }
        self.sites.append(self._row("dcim/sites", len(self.sites) + 1, name, **{**given, **more}))
        return self.sites[-1]

    def location(self, name: str, site: Row) -> Row:
        """A location in a site."""
        more = {"name": name, "slug": name.lower(), "site": self._brief(site, "name", "slug"), "parent": None}
        self.locations.append(self._row("dcim/locations", len(self.locations) + 1, name, **more))
        return self.locations[-1]

    def device(self, name: str, site: Row) -> Row:
        """A device at a site."""
        more = {"name": name, "site": self._brief(site, "name", "slug")}
        self.devices.append(self._row("dcim/devices", len(self.devices) + 1, name, **more))
        return self.devices[-1]

    def vrf(self, name: str, rd: str | None = None) -> Row:
        """A VRF, a new one if there is none of that name and route distinguisher."""
        key = f"{name} ({rd})"
        self.vrfs.setdefault(key, self._row("ipam/vrfs", len(self.vrfs) + 1, key if rd else name, name=name, rd=rd))
        return self.vrfs[key]

    def prefix(
        self,
        text: str,
        site: Row | None = None,
        *,
        vrf: Row | None = None,
        status: str = "active",
        scope: tuple[str, Row] | None = None,
        **custom: Any,
    ) -> Row:
        """A prefix of a site; ``scope`` is another thing that it belongs to, from 4.2 on."""
        kind, of = scope or ("dcim.site", site)
        of_scope = self._brief(of, "name", "slug")
        where = (
            {"scope_type": of and kind, "scope_id": of and of["id"], "scope": of_scope}
            if self._scoped
            else {"site": self._brief(site, "name", "slug")}
        )
        more = {
            **self._of_network(vrf, status, custom),
            **where,
            "prefix": text,
            "vlan": None,
            "is_pool": False,
            "mark_utilized": False,
            "children": 0,
            "_depth": 0,
        }
        self.prefixes.append(self._row("ipam/prefixes", len(self.prefixes) + 1, text, **more))
        return self.prefixes[-1]

    def range(self, first: str, last: str, *, vrf: Row | None = None, status: str = "active", **custom: Any) -> Row:
        """A range of addresses; NetBox writes each end with the length of its prefix."""
        more = {**self._of_network(vrf, status, custom), "start_address": first, "end_address": last, "size": 0}
        self.ranges.append(self._row("ipam/ip-ranges", len(self.ranges) + 1, f"{first}-{last}", **more))
        return self.ranges[-1]

    def address(
        self, text: str, *, device: Row | None = None, vrf: Row | None = None, status: str = "active", **custom: Any
    ) -> Row:
        """An address, perhaps of an interface of a device."""
        assigned = {"assigned_object_type": None, "assigned_object_id": None, "assigned_object": None}
        if device is not None:
            interface = self._row("dcim/interfaces", device["id"], "lo0", name="lo0", cable=None, _occupied=False)
            interface["device"] = self._brief(device, "name")
            assigned = {
                "assigned_object_type": "dcim.interface",
                "assigned_object_id": interface["id"],
                "assigned_object": interface,
            }
        more = {**self._of_network(vrf, status, custom), **assigned, "address": text, "dns_name": ""}
        self.addresses.append(self._row("ipam/ip-addresses", len(self.addresses) + 1, text, **more))
        return self.addresses[-1]

    def _of_network(self, vrf: Row | None, status: str, custom: Row) -> Row:
        return {
            "vrf": self._brief(vrf, "name", "rd"),
            "status": {"value": status, "label": status.title()},
            "custom_fields": custom,
            **dict.fromkeys(("tenant", "role")),
            "family": {"value": 4, "label": "IPv4"},
            "description": "",
            "comments": "",
        }

    def lists(self) -> dict[str, list[Row]]:
        """The rows of each list by its path."""
        return {
            "/api/dcim/regions/": self.regions,
            "/api/dcim/sites/": self.sites,
            "/api/dcim/locations/": self.locations,
            "/api/dcim/devices/": self.devices,
            "/api/ipam/prefixes/": self.prefixes,
            "/api/ipam/ip-ranges/": self.ranges,
            "/api/ipam/ip-addresses/": self.addresses,
        }


class NetBoxServer:
    """Answers for what is ``made``, at ``url``; ``asked`` are the paths, with the query, that were asked for.

    ``fault`` is called with the path, the query and the count of requests before: it may answer otherwise. ``at_once``
    is the largest number of requests that were under way at the same time.
    """

    def __init__(self, made: Made | None = None) -> None:
        self.made = Made() if made is None else made
        self.fault: Callable[[str, dict[str, str], int], Fault | None] = lambda _path, _query, _before: None
        self.asked: list[str] = []
        self.tokens: set[str | None] = set()
        self.at_once = 0
        self._under_way = 0
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else the second of two writes waits for the client, which waits too

            def do_GET(self) -> None:
                with outer._lock:
                    before = len(outer.asked)
                    outer.asked.append(self.path)
                    outer.tokens.add(self.headers.get("Authorization"))
                    outer._under_way += 1
                    outer.at_once = max(outer.at_once, outer._under_way)
                try:
                    outer._answer(self, before)
                finally:
                    with outer._lock:
                        outer._under_way -= 1

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _answer(self, request: BaseHTTPRequestHandler, before: int) -> None:
        parts = urlsplit(request.path)
        query = dict(parse_qsl(parts.query))
        fault = self.fault(parts.path, query, before)
        status, headers, body, cut = fault or (*self._usual(parts.path, query, request), None)
        request.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body[:cut])
        if cut is not None:
            request.close_connection = True

    def _usual(
        self, path: str, query: dict[str, str], request: BaseHTTPRequestHandler
    ) -> tuple[int, dict[str, str], bytes]:
        if request.headers.get("Authorization") not in (f"Token {TOKEN}", "Bearer nbt_key.secret"):
            return 403, {}, json.dumps({"detail": "Invalid token"}).encode()
        if path == "/api/status/":
            return 200, {}, json.dumps({"django-version": "5.1", "netbox-version": self.made.release}).encode()
        rows = self.made.lists().get(path)
        if rows is None:
            return 404, {}, json.dumps({"detail": "Not found."}).encode()
        return 200, {}, json.dumps(page(rows, query)).encode()


def page(rows: list[Row], query: dict[str, str]) -> Row:
    """One page of a list."""
    limit, offset = min(int(query.get("limit", 50)), _MOST_ROWS), int(query.get("offset", 0))
    following = f"?limit={limit}&offset={offset + limit}" if offset + limit < len(rows) else None
    return {"count": len(rows), "next": following, "previous": None, "results": rows[offset : offset + limit]}
