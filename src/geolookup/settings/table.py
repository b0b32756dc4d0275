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
from geolookup.settings import durations
from geolookup.settings.paths import default_home, settings_path

_PREFIX = "GEOLOOKUP_"
# Read elsewhere, and no settings: where the file is, the secrets, the choice of reader, the service's tokens.
_OTHER_VARIABLES = frozenset({"CONFIG", "TOKEN", "PING_URL", "PURE", "SERVE_TOKENS"})
# A cluster that runs a service named geolookup sets these in every container beside it.
_SERVICE_LINKS = re.compile(r"(SERVICE_(HOST|PORT)|PORT)(_.*)?", re.ASCII)

Seconds = Annotated[float, Meta(ge=0, le=10**9)]
Share = Annotated[float, Meta(ge=0, le=1)]


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every setting with its default. A key ``x`` of the file is the variable ``GEOLOOKUP_X``.

    ``url`` is None until an upstream is configured. The secrets themselves are no settings, so that no ``repr`` and no
    report can hold them: `read_secret` and `read_ping_url` fetch them when a request needs them.
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

    #: The age past which data count as stale: seconds, or a number with a unit (s, m, h, d, w); empty: none. It counts
    #: from when the service last confirmed them.
    max_age: str | int | float = ""
    #: What becomes of lookups past that age: served, served with one warning, or refused.
    stale: Literal["serve", "warn", "refuse"] = "warn"

    #: How long the service may still be working on a request whose outcome is unknown.
    settle_s: Seconds = 30.0
    #: Whether the service is known to honour ``Idempotency-Key``, and for how long it remembers one.
    idempotency_keys: bool = False
    idempotency_window_s: Seconds = 86400.0

    #: A file (mode 0600) that holds the address to ping when a refresh starts and ends; where empty,
    #: ``GEOLOOKUP_PING_URL`` is used. Whoever knows the address can ping it, so it is kept like a secret.
    ping_url_file: str = ""
    #: The file that each refresh writes its metrics to, for Prometheus' textfile collector; empty: none.
    textfile: str = ""
    #: How a refresh logs to standard error.
    log_format: Literal["text", "json"] = "text"

    @property
    def max_age_s(self) -> float | None:
        """``max_age`` in seconds; None where there is no limit."""
        return None if self.max_age == "" else durations.seconds(self.max_age)

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
    for secret in ("token", "ping_url"):
        if secret in values:
            raise SettingsError(
                f"{path}: `{secret}` is not read from here: put it in a file of mode 0600, and name that file as "
                f"`{secret}_file`"
            )
        name = values.get(f"{secret}_file")
        if isinstance(name, str) and name not in ("", "-"):
            # Never by the working directory: a timer has another one, and a stranger's folder has files of its own.
            values[f"{secret}_file"] = os.path.join(os.path.dirname(os.path.abspath(path)), os.path.expanduser(name))
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
    try:
        _ = settings.max_age_s
    except ValueError as error:
        raise SettingsError(f"max_age: {error}") from error
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
    return _secret(settings.token_file, "GEOLOOKUP_TOKEN", "token", environ)[0] or None


def read_ping_url(settings: Settings, *, environ: Mapping[str, str] | None = None) -> str | None:
    """The address to ping: from ``ping_url_file``, else from ``GEOLOOKUP_PING_URL``; None where there is neither.

    :raises SettingsError: as `read_secret` does, and where it is no web address; the message does not show it
    """
    secret, origin = _secret(settings.ping_url_file, "GEOLOOKUP_PING_URL", "address", environ)
    if not secret:
        return None
    try:
        parts = urlsplit(secret)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or " " in secret:
        raise SettingsError(f"{origin}: what is to be pinged is a web address: it begins with https:// and a host")
    return secret


def _secret(path: str, variable: str, what: str, environ: Mapping[str, str] | None) -> tuple[str, str]:
    """A secret, or "" where there is none, and where it came from."""
    environ = os.environ if environ is None else environ
    if not path:
        secret, origin = environ.get(variable, ""), variable
    elif path == "-":
        secret, origin = sys.stdin.readline(), "standard input"
    else:
        secret, origin = _read_secret_file(os.path.expanduser(path), environ), path
    secret = secret.strip()
    if not secret and path:
        raise SettingsError(f"{origin}: holds no {what}")
    if secret and not (secret.isascii() and secret.isprintable()):
        raise SettingsError(f"{origin}: what it holds is not one line of plain text")
    return secret, origin


def _read_secret_file(path: str, environ: Mapping[str, str]) -> str:
    # What systemd hands over as a credential is guarded by its directory. Where the file system there has access
    # control lists, the file's own mode shows their mask as if its group could read it.
    manager = environ.get("CREDENTIALS_DIRECTORY")
    given = manager is not None and os.path.dirname(os.path.abspath(path)) == os.path.abspath(manager)
    try:
        with open(path, encoding="utf-8") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & (0o037 if given else 0o077):
                raise SettingsError(f"{path}: can be read by others: run `chmod 600 {path}`")
            return file.read(65536)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise SettingsError(f"{path}: the token cannot be read: {reason}") from error
