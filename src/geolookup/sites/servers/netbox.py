"""NetBox from 3.7 on, by its REST API (https://netboxlabs.com/docs/netbox/integrations/rest-api/).

A prefix names its site as ``site``, and from 4.2 on as ``scope`` with its ``scope_type``: a site, a location in one, a
region or a group of sites. Ranges and addresses have none; a device that an address is assigned to has one.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from geolookup.model.errors import UpstreamAnswerError
from geolookup.settings.sites import SitesSettings
from geolookup.sites.servers.inventory import Inventory, Place, Row, named_domains, value_at
from geolookup.sites.servers.pages import Client, Listing, read_lists

#: The oldest release that is read.
OLDEST = (3, 7)
_ORDER = {"ordering": "id"}
_SCOPES = {"dcim.site": "site", "dcim.location": "location"}


class _Named(msgspec.Struct):
    id: int
    name: str = ""
    rd: str | None = None


class _Status(msgspec.Struct):
    value: str


class _Prefix(msgspec.Struct):
    id: int
    prefix: str
    status: _Status
    vrf: _Named | None = None
    site: _Named | None = None
    scope_type: str | None = None
    scope_id: int | None = None
    custom_fields: msgspec.Raw = msgspec.Raw(b"{}")


class _Range(msgspec.Struct):
    id: int
    start_address: str
    end_address: str
    status: _Status
    vrf: _Named | None = None
    custom_fields: msgspec.Raw = msgspec.Raw(b"{}")


class _Assigned(msgspec.Struct):
    device: _Named | None = None
    virtual_machine: _Named | None = None


class _Address(msgspec.Struct):
    id: int
    address: str
    status: _Status
    vrf: _Named | None = None
    assigned_object: _Assigned | None = None
    custom_fields: msgspec.Raw = msgspec.Raw(b"{}")


class _Housed(msgspec.Struct):
    """A device, a virtual machine or a location: something that is at a site."""

    id: int
    site: _Named | None = None


def read(client: Client, settings: SitesSettings) -> Inventory:
    """All that its lists say of sites and their networks.

    :raises UpstreamError: if a list cannot be read whole
    """
    asked: dict[str, Listing] = {
        "regions": Listing(path="/api/dcim/regions/", row=dict, params=_ORDER),
        "sites": Listing(path="/api/dcim/sites/", row=dict, params=_ORDER),
        **{
            name: Listing(path=f"/api/ipam/{name}/", row=row, params=_ORDER)
            for name, row in (("prefixes", _Prefix), ("ip-ranges", _Range), ("ip-addresses", _Address))
            if name in settings.lists
        },
    }
    lists = read_lists(client, asked)
    addresses: list[_Address] = lists.get("ip-addresses", [])
    lists |= read_lists(client, _more(lists.get("prefixes", []), addresses))
    places = {_key("region", row["id"]): _place(row, "region", "parent") for row in lists["regions"]}
    places |= {_key("site", row["id"]): _place(row, "site", "region") for row in lists["sites"]}
    sites = frozenset(key for key, place in places.items() if place.kind == "site")
    housed = {
        name: {row.id: None if row.site is None else _key("site", row.site.id) for row in lists.get(name, [])}
        for name in ("locations", "devices", "virtual-machines")
    }
    domains = named_domains(
        (str(row.vrf.id), row.vrf.name, row.vrf.rd or "")
        for name in ("prefixes", "ip-ranges", "ip-addresses")
        for row in lists.get(name, [])
        if row.vrf is not None
    )
    found = Inventory(places=places, sites=sites, counts={name: len(rows) for name, rows in lists.items()})

    def add(row: _Prefix | _Range | _Address, list_name: str, text: str, site: str | None, elsewhere: str = "") -> None:
        own = _own(row.custom_fields, settings.block_site)
        found.rows.append(
            Row(
                what=f"{list_name} {row.id}",
                text=text,
                domain="" if row.vrf is None else domains[str(row.vrf.id)],
                place=found.place_of(own) if own is not None else site,
                status=row.status.value,
                container=row.status.value == "container",
                kind=list_name,
                elsewhere=elsewhere,
            )
        )

    for prefix in lists.get("prefixes", []):
        site, elsewhere = _site_of(prefix, housed["locations"])
        add(prefix, "prefix", prefix.prefix, site, elsewhere)
    for each in lists.get("ip-ranges", []):
        ends = (end.partition("/")[0] for end in (each.start_address, each.end_address))
        add(each, "range", "-".join(ends), None)
    for address in addresses:
        add(address, "address", address.address.partition("/")[0], _of_device(address, housed))
    return found


def _more(prefixes: list[_Prefix], addresses: list[_Address]) -> dict[str, Listing]:
    """The lists that are needed only to know the site of something: locations, devices, virtual machines."""
    assigned = [row.assigned_object for row in addresses if row.assigned_object is not None]
    slim = {**_ORDER, "fields": "id,site"}  # from 4.0 on; before that more comes
    needed = {
        "locations": ("/api/dcim/locations/", any(row.scope_type == "dcim.location" for row in prefixes)),
        "devices": ("/api/dcim/devices/", any(each.device is not None for each in assigned)),
        "virtual-machines": (
            "/api/virtualization/virtual-machines/",
            any(each.virtual_machine is not None for each in assigned),
        ),
    }
    return {name: Listing(path=path, row=_Housed, params=slim) for name, (path, wanted) in needed.items() if wanted}


def _site_of(prefix: _Prefix, locations: Mapping[int, str | None]) -> tuple[str | None, str]:
    """The site of a prefix, if it names one; else what it names in its place."""
    if prefix.site is not None:
        return _key("site", prefix.site.id), ""
    if prefix.scope_type is None or prefix.scope_id is None:
        return None, ""
    if prefix.scope_type == "dcim.site":
        return _key("site", prefix.scope_id), ""
    if prefix.scope_type != "dcim.location":
        return None, prefix.scope_type.partition(".")[2]
    if prefix.scope_id not in locations:
        raise UpstreamAnswerError(
            f"prefix {prefix.prefix} is of location {prefix.scope_id}, which is not in the list of locations: may the "
            "token view them?"
        )
    return locations[prefix.scope_id], ""


def _of_device(address: _Address, housed: Mapping[str, Mapping[int, str | None]]) -> str | None:
    assigned = address.assigned_object
    if assigned is None:
        return None
    for name, owner in (("devices", assigned.device), ("virtual-machines", assigned.virtual_machine)):
        if owner is not None:
            if owner.id not in housed[name]:
                raise UpstreamAnswerError(
                    f"address {address.address} is of {owner.name or owner.id}, which is not in the list of {name}: "
                    "may the token view them?"
                )
            return housed[name][owner.id]
    return None


def _own(custom_fields: msgspec.Raw, name: str) -> Any:
    """The site that a custom field of a block names: an object, a name or a slug; None if there is none."""
    if not name:
        return None
    found = value_at({"custom_fields": msgspec.json.decode(custom_fields)}, f"custom_fields.{name}")
    return found["id"] if isinstance(found, dict) and "id" in found else found or None


def _place(row: Mapping[str, Any], kind: str, above: str) -> Place:
    over = row.get(above)
    over_key = None if over is None else _key("region", over["id"])
    return Place(key=_key(kind, row["id"]), name=row["name"], values=row, above=over_key, kind=kind)


def _key(kind: str, number: object) -> str:
    return f"{kind}:{number}"
