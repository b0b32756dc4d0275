"""Reading the settings: a TOML file with its tables ``[[source]]``, the environment over it, options over that."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from geolookup.base.reasons import reason
from geolookup.base.text import harmless
from geolookup.model.addresses import is_loopback
from geolookup.model.countries import is_code, not_a_code
from geolookup.model.errors import SettingsError
from geolookup.model.fields import FIELD_NAMES
from geolookup.settings.describe import checked, unknown
from geolookup.settings.paths import NOT_SETTINGS, is_below_anothers_home, settings_path
from geolookup.settings.sites import PLACE_PATHS, SITES_TABLE, SitesSettings, described_sites
from geolookup.settings.source import (
    CUSTOM,
    KIND_NAMES,
    RANGE_NAMES,
    SERVICE,
    SOURCE_TABLE,
    SourceSettings,
    described_source,
    is_name,
)
from geolookup.settings.table import PREFIX, Setting, Settings, described

# A cluster that runs a service named geolookup sets these in every container beside it.
_SERVICE_LINKS = re.compile(r"(SERVICE_(HOST|PORT)|PORT)(_.*)?", re.ASCII)


_SETTINGS: dict[str, Setting] = {setting.name: setting for setting in described()}
_TABLES = (SOURCE_TABLE, SITES_TABLE)
_OF_SITES = {setting.name: setting for setting in described_sites()}
_OF_SOURCE = {setting.name: setting for setting in described_source()}
#: Members of the service as a whole, which stand at the top of the file.
_NOT_OF_SERVICE = ("location", "token_file", "auth", "auth_header", "preset", "fields")


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a value: ``kind`` in one word, ``where`` the file, variable or option; "" for a default."""

    kind: Literal["default", "file", "environment", "option", "remembered"]
    where: str = ""


def load(
    options: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    home: str | None = None,
) -> Settings:
    """Read the settings file and the environment, and lay ``options`` (those that are not None) over them.

    With ``home`` the file is that of this state directory, if it has one of its own: see `settings_path`.

    :raises SettingsError: for an unknown setting, a value that is not allowed, or a file that cannot be read: the
        message names the setting and where it stands
    """
    return load_with_origins(options, environ=environ, home=home)[0]


def load_with_origins(
    options: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    home: str | None = None,
) -> tuple[Settings, dict[str, Origin]]:
    """`load`, and by its name where each setting that is not a default came from. The errors are those of `load`."""
    environ = os.environ if environ is None else environ
    path = settings_path(home)
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    written = _from_file(path, required=bool(environ.get("GEOLOOKUP_CONFIG")))
    tables = written.pop(SOURCE_TABLE, [])
    sites = written.pop(SITES_TABLE, {})
    for name, value in written.items():
        values[name] = _checked(name, value, f"{path}: {name}", strict=True)
        origins[name] = Origin("file", path)
    # Never relative to the working directory: a timer has another one, and a stranger's folder may hold such a file.
    folder = os.path.dirname(os.path.abspath(path))
    for name in values:
        if _SETTINGS[name].is_path and values[name] not in ("", "-"):
            values[name] = os.path.join(folder, os.path.expanduser(values[name]))
    if tables != []:
        values["sources"] = read_sources(tables, path=path)
        origins["sources"] = Origin("file", path)
    if sites != {}:
        values["sites"] = _read_sites(sites, path=path, folder=folder)
        origins["sites"] = Origin("file", path)
    for name, text in _from_environment(environ).items():
        values[name] = _checked(name, text, PREFIX + name.upper(), strict=False)
        origins[name] = Origin("environment", PREFIX + name.upper())
    for name, value in (options or {}).items():
        if value is not None:
            if name not in _SETTINGS:
                raise SettingsError(unknown(name, list(_SETTINGS)))
            values[name] = _checked(name, value, name, strict=False)
            origins[name] = Origin("option", f"--{name.replace('_', '-')}")
    return _check(Settings(**values)), origins


def _from_file(path: str, *, required: bool) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        if required:
            raise SettingsError(f"{path}: the file does not exist, and GEOLOOKUP_CONFIG names it") from None
        return {}
    except OSError as error:
        if isinstance(error, PermissionError) and not required and is_below_anothers_home(path):
            return {}  # they are the other user's
        raise SettingsError(f"{path}: reading failed: {error.strerror}") from error
    import tomllib  # only now: most machines have no settings file

    try:
        values = tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: not valid TOML: byte {error.start} is not UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: not valid TOML: {reason(error)}") from error
    for secret in ("token", "ping_url"):
        if secret in values:
            raise SettingsError(
                f"{path}: `{secret}` must not stand here: put it in a file of mode 0600, and name that file as "
                f"`{secret}_file`"
            )
    for name in values:
        if name not in _SETTINGS and name not in _TABLES:
            raise SettingsError(f"{path}: {unknown(name, [*_SETTINGS, *_TABLES])}")
    return values


def _from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    values = {}
    for variable, value in environ.items():
        if not variable.startswith(PREFIX):
            continue
        name = variable.removeprefix(PREFIX)
        key = name.lower()
        if name in NOT_SETTINGS or (_SERVICE_LINKS.fullmatch(name) and key not in _SETTINGS):
            continue
        if key not in _SETTINGS:
            names = [setting.variable for setting in described()] + [PREFIX + name for name in NOT_SETTINGS]
            raise SettingsError(f"environment: {unknown(variable, names)}")
        if value:
            values[key] = value
    return values


def _checked(name: str, value: Any, where: str, *, strict: bool) -> Any:
    return checked(_SETTINGS[name], value, where, strict=strict)


def _check(settings: Settings) -> Settings:
    if settings.auth == "header" and not settings.auth_header:
        raise SettingsError('`auth = "header"` needs the name of the header in `auth_header`')
    try:
        _ = settings.max_age_s
    except ValueError as error:
        raise SettingsError(f"max_age: {reason(error)}") from error
    try:
        _ = settings.max_data_age_s
    except ValueError as error:
        raise SettingsError(f"max_data_age: {reason(error)}") from error
    try:
        _ = settings.check_max_age_s
    except ValueError as error:
        raise SettingsError(f"check_max_age: {reason(error)}; or none") from error
    if settings.url is not None:
        settings = msgspec.structs.replace(settings, url=normalise_url(settings.url))
    if settings.sources:
        check_service(settings)
    return settings


def normalise_url(url: str) -> str | None:
    """The upstream's base address in the one form in which it is compared and stored; None for an empty one.

    :raises SettingsError: if it is not http or https, has no host, or contains a user, a query or a fragment
    """
    url = url.strip()
    if not url:
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise SettingsError(f"url: {url!r} is not a web address: its host or port is malformed") from error
    if "@" in parts.netloc:
        raise SettingsError('url: leave out the user and password: name a `token_file`, and set `auth = "basic"`')
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname:
        raise SettingsError(f"url: {url!r} is not a web address: it must begin with https:// (or http://) and a host")
    if parts.query or parts.fragment:
        raise SettingsError(f"url: {url!r} must be the service's base address: leave out everything from ? or # on")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    scheme = parts.scheme.lower()
    default_port = {"http": 80, "https": 443}[scheme]
    authority = host if port in (None, default_port) else f"{host}:{port}"
    return f"{scheme}://{authority}{parts.path.rstrip('/')}"


def read_sources(tables: Any, *, path: str) -> tuple[SourceSettings, ...]:
    """The sources in the order of the file ``path``, whose folder relative file names are relative to.

    :raises SettingsError: for an unknown key, a value that is not allowed, or a name that stands twice: the message
        names the source and the key
    """
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise SettingsError(f"{path}: `{SOURCE_TABLE}`: begin each source with a line [[{SOURCE_TABLE}]]")
    folder = os.path.dirname(os.path.abspath(path))
    found: list[SourceSettings] = []
    for position, table in enumerate(tables, start=1):
        name = table.get("name")
        shown = harmless(name, 40) if isinstance(name, str) and name else f"number {position}"
        source = _read_source(table, where=f"{path}: source {shown}", folder=folder)
        if any(other.name == source.name for other in found):
            raise SettingsError(f"{path}: source {source.name}: another source has this name")
        found.append(source)
    return tuple(found)


def _read_sites(table: Any, *, path: str, folder: str) -> SitesSettings:
    """The table of the organisation's sites. File names in it are relative to ``folder``.

    :raises SettingsError: for an unknown key, or a value that is not allowed
    """
    where = f"{path}: [{SITES_TABLE}]"
    if not isinstance(table, dict):
        raise SettingsError(f"{path}: `{SITES_TABLE}` is a table: begin it with a line [{SITES_TABLE}]")
    if "token" in table:
        raise SettingsError(
            f"{where}: `token` must not stand here: put it in a file of mode 0600, and name that file as `token_file`"
        )
    values = {}
    for name, value in table.items():
        if name not in _OF_SITES:
            raise SettingsError(f"{where}: {unknown(name, list(_OF_SITES))}")
        values[name] = checked(_OF_SITES[name], value, f"{where}: {name}", strict=True)
    sites = SitesSettings(**values)
    for name in sites.paths:
        if name not in PLACE_PATHS:
            raise SettingsError(f"{where}: paths: {unknown(name, list(PLACE_PATHS))}")
    for name, code in sites.country.items():
        if not is_code(code):
            raise SettingsError(f"{where}: country: {not_a_code(code, whose=f'for {name!r:.40}, the')}")
    for needed in ("url", "token_file") if sites.kind else ():
        if not getattr(sites, needed):
            raise SettingsError(f'{where}: `kind = "{sites.kind}"` needs `{needed}`, too')
    if sites.url:
        try:
            url = normalise_url(sites.url)
        except SettingsError as error:
            raise SettingsError(f"{where}: {error}") from error
        sites = msgspec.structs.replace(sites, url=(url or "").removesuffix("/api"))
    if sites.token_file:
        token_file = os.path.join(folder, os.path.expanduser(sites.token_file))
        sites = msgspec.structs.replace(sites, token_file=token_file)
    return sites


def _read_source(table: Mapping[str, Any], *, where: str, folder: str) -> SourceSettings:
    """One source. File names in it are relative to ``folder``; ``where`` begins each message.

    :raises SettingsError: as `read_sources`
    """
    if "token" in table:
        raise SettingsError(
            f"{where}: `token` must not stand here: put it in a file of mode 0600, and name that file as `token_file`"
        )
    values = {}
    for name, value in table.items():
        if name not in _OF_SOURCE:
            raise SettingsError(f"{where}: {unknown(name, list(_OF_SOURCE))}")
        values[name] = checked(_OF_SOURCE[name], value, f"{where}: {name}", strict=True)
    if not values.get("name"):
        raise SettingsError(f"{where}: it needs a `name`")
    source = SourceSettings(**values)
    try:
        _check_source(source)
    except ValueError as error:
        raise SettingsError(f"{where}: {reason(error)}") from error
    return _with_whole_paths(source, folder)


def check_service(settings: Settings) -> None:
    """Check that the sources and ``url`` fit together.

    :raises SettingsError: if a service stands among the sources without a ``url``, twice, or under another's name
    """
    services = [source for source in settings.sources if source.kind == SERVICE]
    if len(services) > 1:
        raise SettingsError(f"source {services[1].name}: there is one service, the one of `url`: {services[0].name}")
    if services and settings.url is None:
        raise SettingsError(f"source {services[0].name}: a service needs the setting `url`, at the top of the file")
    if settings.url is not None and not services and any(source.name == SERVICE for source in settings.sources):
        raise SettingsError(f"source {SERVICE}: this is the name of the service of `url`: choose another")


def _check_source(source: SourceSettings) -> None:
    """:raises ValueError: with the reason"""
    if not is_name(source.name):
        why = "the custom layer has this name" if source.name == CUSTOM else "use a-z, 0-9 and -, at most 32 of them"
        raise ValueError(f"name = {harmless(source.name, 40)}: {why}")
    if source.kind and source.kind not in KIND_NAMES:
        raise ValueError(f"kind = {harmless(source.kind, 40)}: must be one of {', '.join(KIND_NAMES)}")
    if source.kind == SERVICE:
        for name in _NOT_OF_SERVICE:
            if getattr(source, name):
                raise ValueError(f"`{name}` is not for a service: its address is `url`, at the top of the file")
    elif not (source.location or source.preset or source.kind == "registry"):
        raise ValueError("it needs a `location` or a `preset`")
    if source.is_remote and not source.location.lower().startswith("https://") and not _is_loopback(source.location):
        raise ValueError("location: plain http:// is for loopback addresses only: use https://")
    if source.auth == "header" and not source.auth_header:
        raise ValueError('`auth = "header"` needs the name of the header in `auth_header`')
    if source.keep_days is not None and source.keep_days < 0:
        raise ValueError(f"keep_days = {source.keep_days}: must be {_OF_SOURCE['keep_days'].allowed}")
    for name in source.fields:
        if name not in (*FIELD_NAMES, *RANGE_NAMES):
            raise ValueError(f"fields: {unknown(name, [*FIELD_NAMES, *RANGE_NAMES])}")
    try:
        _ = source.max_age_s
    except ValueError as error:
        raise ValueError(f"max_age: {reason(error)}") from error
    try:
        _ = source.max_data_age_s
    except ValueError as error:
        raise ValueError(f"max_data_age: {reason(error)}") from error


def _is_loopback(location: str) -> bool:
    try:
        host = urlsplit(location).hostname
    except ValueError:
        return False
    return host is not None and is_loopback(host)


def _with_whole_paths(source: SourceSettings, folder: str) -> SourceSettings:
    changes = {}
    for name, setting in _OF_SOURCE.items():
        value = getattr(source, name)
        if setting.is_path and value and not (name == "location" and source.is_remote):
            changes[name] = os.path.join(folder, os.path.expanduser(value))
    return msgspec.structs.replace(source, **changes)
