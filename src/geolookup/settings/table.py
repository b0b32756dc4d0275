"""Every setting: its name, allowed values, default and purpose. ``described`` lists them for the pages."""

import os
from typing import Annotated, Literal

import msgspec

from geolookup.settings import times
from geolookup.settings.describe import PREFIX as PREFIX
from geolookup.settings.describe import Setting as Setting
from geolookup.settings.describe import about as _about
from geolookup.settings.describe import describe
from geolookup.settings.paths import default_home
from geolookup.settings.sites import SitesSettings
from geolookup.settings.source import SERVICE, SourceSettings

#: The parts of the list of settings, in the order of a page: the key of each, and its title.
GROUPS = {
    "state": "The state directory",
    "lookups": "Lookups",
    "service": "The service",
    "paths": "The service's paths",
    "guard": "The guard of pulls, and of files of sites",
    "push": "Pushing edits",
    "refresh": "The refresh",
}


_CHECK_MAX_AGE = "8d"


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every setting with its default. A key ``x`` of the file is the variable ``GEOLOOKUP_X``.

    ``url`` is None until an upstream is configured. ``sources`` are the tables ``[[source]]`` of the file, ``sites``
    is its table ``[sites]``. The secrets
    themselves are not settings, so that no ``repr`` and no report can hold them: `secrets.read_secret`,
    `secrets.read_source_secret` and `secrets.read_ping_url` fetch them when a request needs them.
    """

    home: Annotated[
        str,
        _about(
            "state",
            "The state directory. If empty, the platform's user data directory.",
            lookups=True,
            path=True,
            allowed="the name of a directory",
        ),
    ] = ""
    keep_generations: Annotated[
        int,
        _about("state", "How many generations are kept, the served one included. Pinned ones do not count.", ge=1),
    ] = 7

    max_age: Annotated[
        str | int | float,
        _about(
            "lookups",
            "The age past which the data count as stale. The age counts from when the service last confirmed the data. "
            "If empty, there is no limit.",
            lookups=True,
            allowed="a number of seconds greater than zero, or a number with a unit: s, m, h, d or w (36h)",
        ),
    ] = ""
    max_data_age: Annotated[
        str | int | float,
        _about(
            "state",
            "The age of a source's data, by the date that its file says, past which `status --check` fails. If empty, "
            "there is no limit; a file that says no date is not asked. Lookups do not look at it.",
            allowed="a number of seconds greater than zero, or a number with a unit: s, m, h, d or w (36h)",
        ),
    ] = ""
    vrf: Annotated[
        str,
        _about(
            "lookups",
            "The routing domain (VRF) in which lookups answer that name none: those of commands and programs, of "
            "`share` and of the console. If empty, the global table.",
            lookups=True,
        ),
    ] = ""
    stale: Annotated[
        Literal["serve", "warn", "refuse"],
        _about(
            "lookups",
            "What happens to lookups past `max_age`: they are served, served with one warning, or refused.",
            lookups=True,
        ),
    ] = "warn"

    fallback: Annotated[
        Literal["", "registry"],
        _about(
            "lookups",
            "The answers of lookups where nothing has been published: `registry` means countries only, from the "
            "bundled registry data. If empty, they are an error.",
            allowed="registry, or empty",
        ),
    ] = ""

    check_max_age: Annotated[
        str | int | float,
        _about(
            "state",
            "The age of the data past which `status --check` fails. If empty, `max_age`, and without that 8d, with "
            "which a weekly sync passes; `none` is no limit. Lookups do not look at it.",
            allowed="seconds greater than zero, a time with a unit (s, m, h, d or w, such as 36h), or none",
        ),
    ] = ""

    sources: tuple[SourceSettings, ...] = ()
    sites: SitesSettings = SitesSettings()

    url: Annotated[
        str | None,
        _about(
            "service",
            "The service's base address. Without it, lookups answer from the bundled data.",
            allowed="a web address",
        ),
    ] = None
    token_file: Annotated[
        str,
        _about(
            "service",
            "A file (mode 0600) that holds the secret; `-` reads it from standard input. If empty, the variable "
            "`GEOLOOKUP_TOKEN` is used.",
            path=True,
            allowed="the name of a file, or -",
        ),
    ] = ""
    auth: Annotated[
        Literal["bearer", "basic", "header"],
        _about(
            "service",
            "How the secret travels: as a bearer token, as `user:password`, or in the header that `auth_header` names.",
        ),
    ] = "bearer"
    auth_header: Annotated[
        str, _about("service", 'The name of the header that carries the secret, if `auth = "header"`.')
    ] = ""
    site_field: Annotated[
        str,
        _about(
            "service",
            "The member of the service's elements that names the site of a custom geolocation, such as `name`. It is "
            "read, and never sent; a name that is given here goes before it.",
            allowed="the name of a member",
        ),
    ] = ""
    trust_env: Annotated[
        bool,
        _about(
            "service",
            "Whether the environment's proxies and certificates (`HTTPS_PROXY`, `NO_PROXY`, `SSL_CERT_FILE`) are used.",
        ),
    ] = False
    compression: Annotated[
        bool,
        _about(
            "service",
            "Whether to ask for compressed answers. Their size is limited, and they are checked for completeness.",
        ),
    ] = False
    connect_timeout_s: Annotated[float, _about("service", "Seconds that connecting may take.", gt=0)] = 10.0
    read_timeout_s: Annotated[float, _about("service", "The longest silence within an answer, in seconds.", gt=0)] = (
        60.0
    )
    total_timeout_s: Annotated[float, _about("service", "Seconds that one whole answer may take.", gt=0)] = 3600.0
    attempts: Annotated[
        int, _about("service", "Attempts of one idempotent request, the first included.", ge=1, le=100)
    ] = 4
    max_wait_s: Annotated[
        float,
        _about(
            "service",
            "The longest wait, in seconds, that the service may ask for with `Retry-After` before a run gives up.",
            ge=0,
            le=10**9,
        ),
    ] = 60.0

    path_list: Annotated[
        str, _about("paths", "Where geolocations are listed. A query may follow, such as `?per_page=1000000`.")
    ] = "/geolocations"
    path_create: Annotated[str, _about("paths", "Where a geolocation is created.")] = "/geolocations"
    path_update: Annotated[str, _about("paths", "Where a geolocation is updated.")] = "/geolocations"
    path_delete: Annotated[str, _about("paths", "Where a geolocation is deleted.")] = "/geolocations"
    path_create_block: Annotated[str, _about("paths", "Where a block is added.")] = "/geolocations/ipblocks"
    path_replace_block: Annotated[str, _about("paths", "Where a block is replaced.")] = "/geolocations/ipblocks"
    path_delete_blocks: Annotated[str, _about("paths", "Where blocks are removed.")] = "/geolocations/ipblocks"
    path_hotel_details: Annotated[
        str, _about("paths", "Where the details of a hotel are; `{hotelId}` stands for its number.")
    ] = "/v1/api/hotel/{hotelId}/details"
    path_hotel_list: Annotated[str, _about("paths", "Where hotels are listed.")] = "/v1/api/hotel/list"
    path_rate_plans: Annotated[str, _about("paths", "Where rate plans are.")] = "/admin/product/ratePlans"

    guard_geolocations: Annotated[
        float,
        _about("guard", "Hold a pull with a smaller share of the served default geolocations.", ge=0, le=1),
    ] = 0.95
    guard_blocks: Annotated[
        float, _about("guard", "Hold a pull with a smaller share of the served default blocks.", ge=0, le=1)
    ] = 0.95
    guard_addresses: Annotated[
        float, _about("guard", "Hold a pull that covers a smaller share of the served default addresses.", ge=0, le=1)
    ] = 0.98
    guard_uncovered: Annotated[
        float,
        _about(
            "guard",
            "Hold what would leave more than this share of a family's addresses without the answer that they have.",
            ge=0,
            le=1,
        ),
    ] = 0.02
    guard_coarser: Annotated[
        float,
        _about(
            "guard",
            "Hold what would take the city from more than this share of the addresses whose answer has one.",
            ge=0,
            le=1,
        ),
    ] = 0.05
    guard_country: Annotated[
        float,
        _about(
            "guard",
            "Hold what would give another country to more than this share of the addresses that have one.",
            ge=0,
            le=1,
        ),
    ] = 0.1
    guard_country_blocks: Annotated[
        int, _about("guard", "Hold a pull that has lost a whole country of this many blocks or more.", ge=1)
    ] = 100
    guard_growth: Annotated[
        float, _about("guard", "Hold a pull with more than this many times the served rows.", ge=1)
    ] = 2.0
    guard_custom_gone: Annotated[
        int,
        _about(
            "guard",
            "Hold a pull that has lost more custom geolocations than this number, and than `guard_custom_share`.",
            ge=0,
        ),
    ] = 10
    guard_custom_share: Annotated[
        float, _about("guard", "The share of custom geolocations that goes with `guard_custom_gone`.", ge=0, le=1)
    ] = 0.5
    guard_sites_gone: Annotated[
        int,
        _about(
            "guard",
            "Refuse `custom apply` without `--accept` if more sites or blocks than this number, and than "
            "`guard_sites_share`, would be gone.",
            ge=0,
        ),
    ] = 10
    guard_sites_share: Annotated[
        float, _about("guard", "The share of sites and blocks that goes with `guard_sites_gone`.", ge=0, le=1)
    ] = 0.2
    bad_rows: Annotated[
        int,
        _about(
            "guard",
            "How many bad rows a pull may leave out: this number, or `bad_rows_share` if that is more.",
            ge=0,
        ),
    ] = 10
    bad_rows_share: Annotated[float, _about("guard", "Which share of bad rows a pull may leave out.", ge=0, le=1)] = (
        0.01
    )

    push_connections: Annotated[
        int,
        _about(
            "push",
            "The most requests of a push that are under way at the same time. It begins with one, and goes back to one "
            "if the service refuses to be asked so often, or does not answer.",
            ge=1,
            le=32,
        ),
    ] = 8
    settle_s: Annotated[
        float,
        _about(
            "push",
            "Seconds for which the service may still be working on a request whose outcome is unknown.",
            ge=0,
            le=10**9,
        ),
    ] = 30.0
    idempotency_keys: Annotated[bool, _about("push", "Whether the service honours `Idempotency-Key`.")] = False
    idempotency_window_s: Annotated[
        float, _about("push", "Seconds for which the service remembers an `Idempotency-Key`.", ge=0, le=10**9)
    ] = 86400.0

    ping_url_file: Annotated[
        str,
        _about(
            "refresh",
            "A file (mode 0600) that holds the address to ping when a refresh starts and ends. Anyone who knows the "
            "address can ping it, so it is kept like a secret. If empty, the variable `GEOLOOKUP_PING_URL` is used.",
            path=True,
            allowed="the name of a file, or -",
        ),
    ] = ""
    textfile: Annotated[
        str,
        _about(
            "refresh",
            "The file that each refresh writes its metrics to, for the textfile collector of Prometheus. "
            "If empty, none.",
            path=True,
            allowed="the name of a file",
        ),
    ] = ""
    log_format: Annotated[
        Literal["text", "json"], _about("refresh", "How a refresh writes its log to standard error.")
    ] = "text"

    @property
    def max_age_s(self) -> float | None:
        """``max_age`` in seconds; None if there is no limit."""
        return None if self.max_age == "" else times.seconds(self.max_age)

    @property
    def max_data_age_s(self) -> float | None:
        """``max_data_age`` in seconds; None if there is no limit."""
        return None if self.max_data_age == "" else times.seconds(self.max_data_age)

    @property
    def check_max_age_s(self) -> float | None:
        """The age past which ``status --check`` fails, in seconds; None if any age passes."""
        if self.check_max_age == "":
            return self.max_age_s or times.seconds(_CHECK_MAX_AGE)
        return times.limit(self.check_max_age)

    @property
    def has_fallback(self) -> bool:
        """True if lookups answer from the bundled registry data where nothing has been published."""
        return self.fallback == "registry"

    @property
    def has_plain_lookups(self) -> bool:
        """True if every setting that changes lookups has its default, except ``home``."""
        return all(
            getattr(self, setting.name) == setting.default
            for setting in described()
            if setting.bears_on_lookups and setting.name != "home"
        )

    @property
    def stack(self) -> tuple[SourceSettings, ...]:
        """The sources of default geolocations that are configured, the one of highest precedence first.

        The service of ``url`` stands first, unless one of ``sources`` says where it stands.
        """
        if self.url is None or any(source.kind == SERVICE for source in self.sources):
            return self.sources
        return (SourceSettings(name=SERVICE, kind=SERVICE), *self.sources)

    def state_home(self) -> str:
        """The state directory's absolute path."""
        return os.path.abspath(os.path.expanduser(self.home)) if self.home else default_home()


def described() -> tuple[Setting, ...]:
    """Every setting but ``sources``, in the order of the table: for the documentation, and for checking values."""
    global _described
    if not _described:
        _described = describe(Settings, GROUPS)
    return _described


_described: tuple[Setting, ...] = ()
