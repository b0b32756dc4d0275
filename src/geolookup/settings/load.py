"""Reading the settings: a TOML file, the environment over it, options over that."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from geolookup.base.reasons import reason
from geolookup.errors import SettingsError
from geolookup.settings.describe import checked, unknown
from geolookup.settings.paths import NOT_SETTINGS, settings_path
from geolookup.settings.source import SOURCE_TABLE
from geolookup.settings.table import PREFIX, Setting, Settings, described

# A cluster that runs a service named geolookup sets these in every container beside it.
_SERVICE_LINKS = re.compile(r"(SERVICE_(HOST|PORT)|PORT)(_.*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from: ``kind`` in one word, ``where`` the file, variable or option; "" for a default."""

    kind: Literal["default", "file", "environment", "option", "remembered"]
    where: str = ""


def load(options: Mapping[str, Any] | None = None, *, environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings file and the environment, and lay ``options`` (those that are not None) over them.

    :raises SettingsError: for an unknown setting, a value that is not allowed, or a file that cannot be read: the
        message names the setting and where it stands
    """
    return load_with_origins(options, environ=environ)[0]


def load_with_origins(
    options: Mapping[str, Any] | None = None, *, environ: Mapping[str, str] | None = None
) -> tuple[Settings, dict[str, Origin]]:
    """`load`, and by its name where each setting that is not a default came from. The errors are those of `load`."""
    environ = os.environ if environ is None else environ
    path = settings_path()
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    written = _from_file(path, required=bool(environ.get("GEOLOOKUP_CONFIG")))
    tables = written.pop(SOURCE_TABLE, [])
    for name, value in written.items():
        values[name] = _checked(name, value, f"{path}: {name}", strict=True)
        origins[name] = Origin("file", path)
    # Never relative to the working directory: a timer has another one, and a stranger's folder may hold such a file.
    folder = os.path.dirname(os.path.abspath(path))
    for name in values:
        if _SETTINGS[name].is_path and values[name] not in ("", "-"):
            values[name] = os.path.join(folder, os.path.expanduser(values[name]))
    if tables != []:
        from geolookup.settings.load_sources import read_sources  # late: most files have none

        values["sources"] = read_sources(tables, path=path)
        origins["sources"] = Origin("file", path)
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


_SETTINGS: dict[str, Setting] = {setting.name: setting for setting in described()}


def _from_file(path: str, *, required: bool) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        if required:
            raise SettingsError(f"{path}: the file does not exist, and GEOLOOKUP_CONFIG names it") from None
        return {}
    except OSError as error:
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
        if name not in _SETTINGS and name != SOURCE_TABLE:
            raise SettingsError(f"{path}: {unknown(name, [*_SETTINGS, SOURCE_TABLE])}")
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
        _ = settings.check_max_age_s
    except ValueError as error:
        raise SettingsError(f"check_max_age: {reason(error)}; or none") from error
    if settings.url is not None:
        settings = msgspec.structs.replace(settings, url=normalise_url(settings.url))
    if settings.sources:
        from geolookup.settings.load_sources import check_service

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
