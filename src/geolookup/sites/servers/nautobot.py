"""Nautobot from 2 on, by its REST API (https://docs.nautobot.com/projects/core/en/stable/user-guide/platform-functionality/rest-api/overview/).

Asked with ``depth=0``, where others are named by their ids alone: they come in lists of their own. A prefix has a
namespace and any number of VRFs and of locations; up to 2.1 it had one location.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from geolookup.model.errors import UpstreamAnswerError
from geolookup.settings.sites import SitesSettings
from geolookup.sites.servers.inventory import Inventory, Place, Row, named_domains, value_at
from geolookup.sites.servers.pages import Client, Listing, decoded, read_lists

#: The oldest release that is read.
OLDEST: Final = (2, 0)
#: The namespace whose prefixes are of no routing domain, unless they have VRFs.
_GLOBAL: Final = "Global"
#: From here on lists of other objects come only if they are asked for.
_LEAVES_OUT: Final = (3, 0)


class _Ref(msgspec.Struct):
    id: str


class _Named(msgspec.Struct):
    id: str
    name: str


class _Vrf(msgspec.Struct):
    id: str
    name: str
    rd: str | None = None


class _Choice(msgspec.Struct):
    value: str


class _Prefix(msgspec.Struct):
    id: str
    prefix: str
    namespace: _Ref
    type: _Choice
    status: _Ref | None = None
    vrfs: list[_Ref] = []
    locations: list[_Ref] = []
    location: _Ref | None = None
    custom_fields: msgspec.Raw = msgspec.Raw(b"{}")


class _Address(msgspec.Struct):
    id: str
    address: str
    parent: _Ref | None = None
    status: _Ref | None = None
    interfaces: list[_Ref] = []
    custom_fields: msgspec.Raw = msgspec.Raw(b"{}")


class _Range(msgspec.Struct):
    id: str
    start_address: str
    end_address: str
    parent: _Ref | None = None
    status: _Ref | None = None
    custom_fields: msgspec.Raw = msgspec.Raw(b"{}")


class _Interface(msgspec.Struct):
    id: str
    device: _Ref | None = None


class _Device(msgspec.Struct):
    id: str
    location: _Ref | None = None


def read(client: Client, settings: SitesSettings, version: tuple[int, ...]) -> Inventory:
    """All that its lists say of locations and their networks.

    :raises UpstreamError: if a list cannot be read whole
    """
    params = {"sort": "id", "depth": "0", **({"exclude_m2m": "false"} if version >= _LEAVES_OUT else {})}
    body, _ = client.get("/api/ipam/")
    there = decoded(body, dict[str, Any], "GET /api/ipam/")
    asked = {
        "statuses": Listing(path="/api/extras/statuses/", row=_Named, params=params),
        "namespaces": Listing(path="/api/ipam/namespaces/", row=_Named, params=params),
        "vrfs": Listing(path="/api/ipam/vrfs/", row=_Vrf, params=params),
        "location-types": Listing(path="/api/dcim/location-types/", row=_Named, params=params),
        "locations": Listing(path="/api/dcim/locations/", row=dict, params=params),
        "prefixes": Listing(path="/api/ipam/prefixes/", row=_Prefix, params=params),
        # Ranges came in the third release.
        "ip-ranges": Listing(path="/api/ipam/ip-address-ranges/", row=_Range, params=params),
        "ip-addresses": Listing(path="/api/ipam/ip-addresses/", row=_Address, params=params),
    }
    left_out = {name for name in ("ip-ranges", "ip-addresses") if name not in settings.lists}
    left_out |= {"ip-ranges"} - ({"ip-ranges"} if "ip-address-ranges" in there else set())
    lists = read_lists(client, {name: listing for name, listing in asked.items() if name not in left_out})
    addresses: list[_Address] = lists.get("ip-addresses", [])
    if any(row.interfaces for row in addresses):
        more = {
            "interfaces": Listing(path="/api/dcim/interfaces/", row=_Interface, params=params),
            "devices": Listing(path="/api/dcim/devices/", row=_Device, params=params),
        }
        lists |= read_lists(client, more)
    return _Reading(lists, settings).inventory()


class _Reading:
    """What the lists mean."""

    def __init__(self, lists: dict[str, list[Any]], settings: SitesSettings) -> None:
        self._lists = lists
        self._settings = settings
        self._statuses = {row.id: row.name for row in lists["statuses"]}
        self._namespaces = {row.id: row.name for row in lists["namespaces"]}
        self._vrfs = named_domains((row.id, row.name, row.rd or row.id) for row in lists["vrfs"])
        self._types = {row.id: row.name for row in lists["location-types"]}
        places = {row["id"]: self._place(row) for row in lists["locations"]}
        counts = {name: len(rows) for name, rows in lists.items()}
        self._found = Inventory(places=places, sites=frozenset(), counts=counts)
        wanted = settings.location_type
        self._found.sites = frozenset(key for key, place in places.items() if not wanted or place.kind == wanted)

    def _place(self, row: Mapping[str, Any]) -> Place:
        above = None if row.get("parent") is None else row["parent"]["id"]
        kind = self._types.get(row["location_type"]["id"], "location")
        return Place(key=row["id"], name=row["name"], values=row, above=above, kind=kind)

    def inventory(self) -> Inventory:
        """All rows, with the places that they name."""
        domains: dict[str, list[str]] = {}
        for prefix in self._lists["prefixes"]:
            domains[prefix.id] = self._domains(prefix)
            place = self._place_of(prefix, [each.id for each in prefix.locations or filter(None, [prefix.location])])
            self._add(
                "prefix", prefix, prefix.prefix, domains[prefix.id], place, container=prefix.type.value == "container"
            )
        for each in self._lists.get("ip-ranges", []):
            ends = (end.partition("/")[0] for end in (each.start_address, each.end_address))
            self._add("range", each, "-".join(ends), self._of_parent(each, domains), self._place_of(each, []))
        devices = {row.id: row.location for row in self._lists.get("devices", [])}
        located = {
            row.id: None if row.device is None else devices.get(row.device.id)
            for row in self._lists.get("interfaces", [])
        }
        for address in self._lists.get("ip-addresses", []):
            at = [place.id for one in address.interfaces if (place := located.get(one.id)) is not None]
            text = address.address.partition("/")[0]
            self._add("address", address, text, self._of_parent(address, domains), self._place_of(address, at))
        return self._found

    def _add(
        self,
        kind: str,
        row: _Prefix | _Range | _Address,
        text: str,
        domains: Iterable[str],
        place: str | None,
        *,
        container: bool = False,
    ) -> None:
        for domain in domains:
            self._found.rows.append(
                Row(
                    what=f"{kind} {row.id}",
                    text=text,
                    domain=domain,
                    place=place,
                    status="" if row.status is None else self._known(row.status.id, self._statuses, "statuses", text),
                    container=container,
                    kind=kind,
                )
            )

    def _known(self, key: str, names: Mapping[str, str], what: str, of: str) -> str:
        if key not in names:
            raise UpstreamAnswerError(f"{of} names {key}, which is not in the list of {what}: may the token view it?")
        return names[key]

    def _domains(self, prefix: _Prefix) -> list[str]:
        """Its VRFs; without any, that of its namespace, unless that is the global one."""
        if prefix.vrfs:
            return [self._known(vrf.id, self._vrfs, "VRFs", prefix.prefix) for vrf in prefix.vrfs]
        namespace = self._known(prefix.namespace.id, self._namespaces, "namespaces", prefix.prefix)
        return ["" if namespace == _GLOBAL else namespace]

    def _of_parent(self, row: _Range | _Address, domains: Mapping[str, list[str]]) -> list[str]:
        if row.parent is None:
            return [""]
        if row.parent.id not in domains:
            raise UpstreamAnswerError(
                f"{row.id} is in prefix {row.parent.id}, which the list lacks: may the token view it?"
            )
        return domains[row.parent.id]

    def _place_of(self, row: _Prefix | _Range | _Address, locations: Sequence[str]) -> str | None:
        """The place of a row: as its custom field says, else the nearest one that has all of its locations."""
        if self._settings.block_site:
            values = {"custom_fields": msgspec.json.decode(row.custom_fields)}
            said = value_at(values, f"custom_fields.{self._settings.block_site}")
            if said:
                return self._found.place_of(said["id"] if isinstance(said, dict) and "id" in said else said)
        if not locations:
            return None
        chains = []
        for key in locations:
            if key not in self._found.places:
                return key  # which is told as a site that is not in the list
            chains.append([key, *(place.key for place in self._found.above(key))])
        common = next((key for key in chains[0] if all(key in chain for chain in chains)), None)
        if common is None:
            return None
        wanted = self._settings.location_type
        above = (key for key in chains[0][chains[0].index(common) :] if self._found.places[key].kind == wanted)
        return next(above, common) if wanted else common
