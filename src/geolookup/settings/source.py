"""One source of default geolocations, as the settings file describes it: a table ``[[source]]``."""

import re
from typing import Annotated, Literal

import msgspec

from geolookup.settings import times
from geolookup.settings.describe import Setting, about, describe

#: The tables of the sources in the settings file: ``[[source]]``.
SOURCE_TABLE = "source"
#: The kind of the source that is a service, and its name if the settings give it none.
SERVICE = "service"
#: The name of the custom layer among the names of sources: a source must not have it.
CUSTOM = "custom"

#: The kinds of sources; `sources.detect` has the reader of each, except the service.
KIND_NAMES = (
    SERVICE,
    "registry",
    "mmdb",
    "geolite2-csv",
    "legacy-csv",
    "ip2location-csv",
    "dbip-csv",
    "geofeed",
    "rir",
    "ranges-csv",
    "asn-table",
    "pyasn",
    "cloud-ranges",
    "list",
)

#: What `fields` names beside the fields of a geolocation: the columns of a table that hold the range.
RANGE_NAMES = ("network", "first", "last")

_NAME = re.compile(r"[a-z0-9-]{1,32}", re.ASCII)


class SourceSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A source: its place, its kind, and the terms of its licence.

    Empty members (None for ``keep_days`` and ``redistribute``) have the preset's values, if there is one; those of the
    licence else the terms of the provider whose file it is, if it says so itself.
    """

    name: Annotated[
        str, about("source", "The source's name, which each of its answers carries.", allowed="a-z, 0-9 and -")
    ]
    location: Annotated[
        str,
        about(
            "source",
            "A file, a folder, or an address that begins with https://. {YYYY}, {MM} and {DD} stand for the day in "
            "UTC, {token} for the secret.",
            path=True,
            allowed="the name of a file or folder, or a web address",
        ),
    ] = ""
    kind: Annotated[
        str,
        about(
            "source",
            "What kind of file it is. If empty, its content says so. `service` is the service of `url`.",
            allowed=f"one of {', '.join(KIND_NAMES)}",
        ),
    ] = ""
    layer: Annotated[
        Literal["", "place", "network"],
        about(
            "source",
            "The layer that the file feeds: `place` (where addresses are) or `network` (who runs them). If empty, its "
            "content decides, and a file that says both feeds both.",
            allowed="one of place, network",
        ),
    ] = ""
    sheet: Annotated[
        str,
        about("source", "Which sheet of a workbook (.xlsx, .ods) is read. If empty, each that is a table of ranges."),
    ] = ""
    preset: Annotated[
        str, about("source", "A provider's file, by name: it fills in what is left empty.", allowed="a preset's name")
    ] = ""
    fields: Annotated[
        dict[str, str],
        about(
            "source",
            "Which key or column holds a field, or a fact of networks, for files that name it otherwise: "
            '`{country = "a.b", asn = "c"}`. In tables also '
            "`network`, or `first` and `last`.",
            allowed="a table of texts",
        ),
    ] = {}
    max_age: Annotated[
        str | int | float,
        about(
            "source",
            "The age past which this source's data count as stale; it is used instead of the general `max_age`.",
            lookups=True,
            allowed="a number of seconds greater than zero, or a number with a unit: s, m, h, d or w (36h)",
        ),
    ] = ""
    max_data_age: Annotated[
        str | int | float,
        about(
            "source",
            "The age of this source's data, by the date that its file says, past which `status --check` fails; it is "
            "used instead of the general `max_data_age`.",
            allowed="a number of seconds greater than zero, or a number with a unit: s, m, h, d or w (36h)",
        ),
    ] = ""
    token_file: Annotated[
        str,
        about(
            "source",
            "A file (mode 0600) that holds this source's own secret. It is sent to the location's host only.",
            path=True,
            allowed="the name of a file",
        ),
    ] = ""
    auth: Annotated[
        Literal["", "bearer", "basic", "header"],
        about(
            "source",
            "How the secret travels: as a bearer token, as `user:password`, or in the header that `auth_header` names. "
            "If {token} stands in the location, it travels only there. If empty, `bearer`.",
            allowed="one of bearer, basic, header",
        ),
    ] = ""
    auth_header: Annotated[
        str, about("source", 'The name of the header that carries the secret, if `auth = "header"`.')
    ] = ""
    licence: Annotated[str, about("source", "The name of the data's licence.")] = ""
    attribution: Annotated[str, about("source", "The line that the licence wants shown with the data.")] = ""
    keep_days: Annotated[
        int | None,
        about(
            "source",
            "For how many days a superseded version may be kept. If empty, as the licence of the provider asks for if "
            "the file says whose it is, else as long as `keep_generations` says.",
            allowed="a whole number, 0 or greater",
        ),
    ] = None
    redistribute: Annotated[
        bool | None,
        about(
            "source",
            "Whether the licence lets others have the data. If empty, yes, unless the file is of a provider whose "
            "licence says no.",
            allowed="true or false",
        ),
    ] = None

    @property
    def is_remote(self) -> bool:
        """True if the location is a web address."""
        return self.location.lower().startswith(("https://", "http://"))

    @property
    def max_age_s(self) -> float | None:
        """``max_age`` in seconds; None if this source has no limit of its own."""
        return None if self.max_age == "" else times.seconds(self.max_age)

    @property
    def max_data_age_s(self) -> float | None:
        """``max_data_age`` in seconds; None if this source has no limit of its own."""
        return None if self.max_data_age == "" else times.seconds(self.max_data_age)


def described_source() -> tuple[Setting, ...]:
    """The members of a table ``[[source]]``: for the documentation, and for checking values."""
    global _described
    if not _described:
        _described = describe(SourceSettings, ("source",))
    return _described


_described: tuple[Setting, ...] = ()


def is_name(text: str) -> bool:
    """True if a source may have this name."""
    return _NAME.fullmatch(text) is not None and text != CUSTOM
