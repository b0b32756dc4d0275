"""The organisation's sites, as the settings file describes them: the table ``[sites]``."""

from typing import Annotated

import msgspec

from geolookup.settings.describe import Setting, about, describe

#: The table in the settings file.
SITES_TABLE = "sites"


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
    vrf_global: Annotated[
        str,
        about("sites", "The routing domain (VRF) whose sites are those of the global table: a file's column names it."),
    ] = ""


def described_sites() -> tuple[Setting, ...]:
    """The members of the table: for the documentation, and for checking values."""
    return describe(SitesSettings, ("sites",))
