"""The organisation's sites, as the settings file describes them: the table ``[sites]``."""

from typing import Annotated, Final, Literal

import msgspec

from geolookup.model.fields import FIELD_NAMES
from geolookup.settings.describe import Setting, about, describe

#: The table in the settings file.
SITES_TABLE = "sites"
#: The kinds of servers that sites can be read from: programs that are asked by REST.
SERVER_KINDS: Final = ("netbox", "nautobot")
#: The lists of networks that they have, by the names of NetBox.
SERVER_LISTS: Final = ("prefixes", "ip-ranges", "ip-addresses")
#: What `paths` may name.
PLACE_PATHS: Final = ("name", *FIELD_NAMES, "time_zone")


class SitesSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the organisation's own list of sites is read."""

    fields: Annotated[
        dict[str, str],
        about(
            "sites",
            "Which column of a table of sites holds what, where its name does not tell: "
            '`{city = "Place", blocks = "LAN"}`. An option `--field` goes before it.',
            allowed="a table of names of columns",
        ),
    ] = {}
    kind: Annotated[
        Literal["", "netbox", "nautobot"],
        about(
            "sites",
            "The program that has the sites, if it is no file: `netbox` (3.7 or later) or `nautobot` (2 or later). "
            "`custom plan --from` and `custom apply --from` ask it, and each `refresh`.",
            allowed="one of netbox, nautobot",
        ),
    ] = ""
    url: Annotated[str, about("sites", "The address of that program.", allowed="a web address")] = ""
    token_file: Annotated[
        str,
        about(
            "sites",
            "A file (mode 0600) that holds a token of that program, which needs to read only. It is sent to `url` "
            "only.",
            path=True,
            allowed="the name of a file",
        ),
    ] = ""
    apply: Annotated[
        Literal["plan", "apply"],
        about(
            "sites",
            "What `refresh` does with the sites of that program: `plan` only says what would change, and a person "
            "applies it; `apply` makes the changes, unless the guard wants a person to look first.",
        ),
    ] = "plan"
    lists: Annotated[
        tuple[Literal["prefixes", "ip-ranges", "ip-addresses"], ...],
        about(
            "sites",
            "The lists of networks that are read there. An address counts where it has another site than the network "
            "around it.",
            allowed=f"a list of {', '.join(SERVER_LISTS)}",
        ),
    ] = SERVER_LISTS
    statuses: Annotated[
        tuple[str, ...],
        about(
            "sites",
            "The statuses of networks that are taken. A container is never one: it hands its site on.",
            allowed="a list of names of statuses",
        ),
    ] = ("active",)
    paths: Annotated[
        dict[str, str],
        about(
            "sites",
            "Where that program keeps a field of a site: a path in the site, its region or one above it, the nearest "
            'first: `{city = "custom_fields.city"}`. Also for `name` and `time_zone`.',
            allowed="a table of paths",
        ),
    ] = {}
    country: Annotated[
        dict[str, str],
        about(
            "sites",
            "The country that a region or location means, by its slug or name, where that is neither a code nor the "
            'name of a country: `{dach-north = "DE"}`.',
            allowed="a table of codes of countries",
        ),
    ] = {}
    block_site: Annotated[
        str,
        about(
            "sites",
            "A custom field of prefixes, ranges and addresses that names their site, by its number, name or slug. It "
            "goes before the site that they have otherwise.",
        ),
    ] = ""
    location_type: Annotated[
        str,
        about(
            "sites",
            "The type of Nautobot's locations that are sites: networks of a location below belong to the one of this "
            "type above it. If empty, each location that has networks is a site.",
        ),
    ] = ""
    vrf_global: Annotated[
        str,
        about("sites", "The routing domain (VRF) whose sites are those of the global table: a file's column names it."),
    ] = ""


def described_sites() -> tuple[Setting, ...]:
    """The members of the table: for the documentation, and for checking values."""
    return describe(SitesSettings, ("sites",))
