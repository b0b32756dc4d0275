"""What can be set: a TOML file, the environment over it, options over that; one frozen object."""

import os
import re
import stat
import sys
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from geolookup.errors import SettingsError
from geolookup.locations import default_home, settings_path

_PREFIX = "GEOLOOKUP_"
# Read elsewhere, and no settings: where the file is, the secret itself, the choice of reader.
_OTHER_VARIABLES = frozenset({"CONFIG", "TOKEN", "PURE"})
# A cluster that runs a service named geolookup sets these in every container beside it.
_SERVICE_LINKS = re.compile(r"(SERVICE_(HOST|PORT)|PORT)(_.*)?", re.ASCII)

Seconds = Annotated[float, Meta(ge=0, le=10**9)]
Share = Annotated[float, Meta(ge=0, le=1)]


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every setting with its default. A key ``x`` of the file is the variable ``GEOLOOKUP_X``.

    ``url`` is None until an upstream is configured. The secret itself is no setting, so that no ``repr`` and no report
    can hold it: `read_secret` fetches it when a request needs it.
    """

    #: The state directory; empty: the platform's user data directory.
    home: str = ""
    #: The upstream's base address, without a slash at its end.
    url: str | None = None

    #: A file (mode 0600) that holds the secret; ``-`` reads standard input; where empty, ``GEOLOOKUP_TOKEN`` is used.
    token_file: str = ""
    #: How the secret travels: a bearer token, ``user:password``, or a header of its own named by ``auth_header``.
    auth: Literal["bearer", "basic", "header"] = "bearer"
    auth_header: str = ""
    #: Whether the environment's proxies and certificates (``HTTPS_PROXY``, ``NO_PROXY``, ``SSL_CERT_FILE``) are used.
    trust_env: bool = False
    #: Whether compressed answers are asked for. They are bounded and checked for completeness.
    compression: bool = False

    connect_timeout_s: Annotated[float, Meta(gt=0)] = 10.0
    #: The longest silence within an answer.
    read_timeout_s: Annotated[float, Meta(gt=0)] = 60.0
    #: The longest that one answer may take altogether.
    total_timeout_s: Annotated[float, Meta(gt=0)] = 3600.0
    #: Attempts of one idempotent request, the first included.
    attempts: Annotated[int, Meta(ge=1, le=100)] = 4
    #: The longest wait that ``Retry-After`` may ask for before a run leaves.
    max_wait_s: Seconds = 60.0

    path_list: str = "/geolocations"
    path_create: str = "/geolocations"
    path_update: str = "/geolocations"
    path_delete: str = "/geolocations"
    path_create_block: str = "/geolocations/ipblocks"
    path_replace_block: str = "/geolocations/ipblocks"
    path_delete_blocks: str = "/geolocations/ipblocks"
    path_hotel_details: str = "/v1/api/hotel/{hotelId}/details"
    path_hotel_list: str = "/v1/api/hotel/list"
    path_rate_plans: str = "/admin/product/ratePlans"

    #: A pull that falls below these shares of what is served, in the default layer, is held for a person.
    guard_geolocations: Share = 0.95
    guard_blocks: Share = 0.95
    guard_addresses: Share = 0.98
    #: A country of this many blocks or more that is gone holds the pull.
    guard_country_blocks: Annotated[int, Meta(ge=1)] = 100
    #: More than this many times the rows holds the pull.
    guard_growth: Annotated[float, Meta(ge=1)] = 2.0
    #: More custom geolocations gone than this many, and than this share, holds the pull.
    guard_custom_gone: Annotated[int, Meta(ge=0)] = 10
    guard_custom_share: Share = 0.5
    #: Bad rows that a pull may leave out: the greater of the number and the share.
    bad_rows: Annotated[int, Meta(ge=0)] = 10
    bad_rows_share: Share = 0.01

    #: Generations kept, the served one included; pinned ones are kept besides.
    keep_generations: Annotated[int, Meta(ge=1)] = 7

    #: How long the service may still be working on a request whose outcome is unknown.
    settle_s: Seconds = 30.0
    #: Whether the service is known to honour ``Idempotency-Key``, and for how long it remembers one.
    idempotency_keys: bool = False
    idempotency_window_s: Seconds = 86400.0

    def state_home(self) -> str:
        """The state directory's absolute path."""
        return os.path.abspath(os.path.expanduser(self.home)) if self.home else default_home()


def load(options: Mapping[str, Any] | None = None, *, environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings file and the environment, lay ``options`` (those that are not None) over them.

    :raises SettingsError: for an unknown key, a value of the wrong kind, or a file that cannot be read: names the key
        and where it stands
    """
    environ = os.environ if environ is None else environ
    path = settings_path()
    values = _from_file(path, required=bool(environ.get("GEOLOOKUP_CONFIG")))
    settings = _convert(values, strict=True, where=path)
    variables = _from_environment(environ)
    if variables:
        given = {_PREFIX + key.upper(): key for key in variables}
        settings = _over(settings, variables, where=f"the environment ({', '.join(sorted(given))})", strict=False)
    chosen = {key: value for key, value in (options or {}).items() if value is not None}
    if chosen:
        settings = _over(settings, chosen, where="the command's options", strict=False)
    return _check(settings)


def _from_file(path: str, *, required: bool) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        if required:
            raise SettingsError(f"{path}: no such file, though GEOLOOKUP_CONFIG names it") from None
        return {}
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
    import tomllib  # only now: most machines have no settings file

    try:
        values = tomllib.loads(data.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: is not TOML: {error}") from error
    if "token" in values:
        raise SettingsError(
            f"{path}: `token` is not read from here: put it in a file of mode 0600, and name that file as `token_file`"
        )
    return values


def _from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    values = {}
    for variable, value in environ.items():
        if not variable.startswith(_PREFIX):
            continue
        name = variable.removeprefix(_PREFIX)
        if name in _OTHER_VARIABLES or (_SERVICE_LINKS.fullmatch(name) and name.lower() not in _NAMES):
            continue
        if name.lower() not in _NAMES:
            raise SettingsError(f"{variable} is no setting: see `geolookup --help` for those there are, or unset it")
        if value:
            values[name.lower()] = value
    return values


_NAMES = frozenset(Settings.__struct_fields__)


def _over(settings: Settings, values: Mapping[str, Any], *, where: str, strict: bool) -> Settings:
    return _convert({**msgspec.structs.asdict(settings), **values}, where=where, strict=strict)


def _convert(values: Mapping[str, Any], *, where: str, strict: bool) -> Settings:
    try:
        return msgspec.convert(values, Settings, strict=strict)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{where}: {error}") from error


def _check(settings: Settings) -> Settings:
    if settings.auth == "header" and not settings.auth_header:
        raise SettingsError('`auth = "header"` needs the header\'s name in `auth_header`')
    if settings.url is not None:
        return msgspec.structs.replace(settings, url=normalise_url(settings.url))
    return settings


def normalise_url(url: str) -> str | None:
    """The upstream's base address in the one form in which it is compared and stored; None for an empty one.

    :raises SettingsError: where it is not http or https, has no host, or carries a user, a query or a fragment
    """
    url = url.strip()
    if not url:
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise SettingsError(f"url: {url!r} is not a web address: {error}") from error
    if "@" in parts.netloc:
        raise SettingsError('url: leave the user and password out of it: name a `token_file`, and set `auth = "basic"`')
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname:
        raise SettingsError(f"url: {url!r} is not a web address: it begins with https:// (or http://) and a host")
    if parts.query or parts.fragment:
        raise SettingsError(f"url: {url!r} is the service's base address: leave out everything from ? or # on")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    scheme = parts.scheme.lower()
    default_port = {"http": 80, "https": 443}[scheme]
    authority = host if port in (None, default_port) else f"{host}:{port}"
    return f"{scheme}://{authority}{parts.path.rstrip('/')}"


def read_secret(settings: Settings, *, environ: Mapping[str, str] | None = None) -> str | None:
    """The secret for the upstream: from ``token_file``, else from ``GEOLOOKUP_TOKEN``; None where there is neither.

    :raises SettingsError: where the file cannot be read, can be read by others, or holds no single line of plain text
    """
    environ = os.environ if environ is None else environ
    path = settings.token_file
    if not path:
        secret = environ.get("GEOLOOKUP_TOKEN", "")
        origin = "GEOLOOKUP_TOKEN"
    elif path == "-":
        secret, origin = sys.stdin.readline(), "standard input"
    else:
        secret, origin = _read_secret_file(os.path.expanduser(path)), path
    secret = secret.strip()
    if not secret:
        if path:
            raise SettingsError(f"{origin}: holds no token")
        return None
    if not (secret.isascii() and secret.isprintable()):
        raise SettingsError(f"{origin}: a token is one line of plain text")
    return secret


def _read_secret_file(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise SettingsError(f"{path}: can be read by others: run `chmod 600 {path}`")
            return file.read(65536)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise SettingsError(f"{path}: the token cannot be read: {reason}") from error
