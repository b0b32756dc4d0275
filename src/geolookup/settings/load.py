"""Reading the settings: a TOML file, the environment over it, options over that."""

import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from geolookup.errors import SettingsError
from geolookup.settings.paths import NOT_SETTINGS, settings_path
from geolookup.settings.table import PREFIX, Setting, Settings, described
from geolookup.text import harmless

# A cluster that runs a service named geolookup sets these in every container beside it.
_SERVICE_LINKS = re.compile(r"(SERVICE_(HOST|PORT)|PORT)(_.*)?", re.ASCII)


def load(options: Mapping[str, Any] | None = None, *, environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings file and the environment, and lay ``options`` (those that are not None) over them.

    :raises SettingsError: for an unknown setting, a value that is not allowed, or a file that cannot be read: the
        message names the setting and where it stands
    """
    environ = os.environ if environ is None else environ
    path = settings_path()
    values: dict[str, Any] = {}
    for name, value in _from_file(path, required=bool(environ.get("GEOLOOKUP_CONFIG"))).items():
        values[name] = _checked(name, value, f"{path}: {name}", strict=True)
    # Never by the working directory: a timer has another one, and a stranger's folder has files of its own.
    folder = os.path.dirname(os.path.abspath(path))
    for name in values:
        if _SETTINGS[name].is_path and values[name] not in ("", "-"):
            values[name] = os.path.join(folder, os.path.expanduser(values[name]))
    for name, text in _from_environment(environ).items():
        values[name] = _checked(name, text, PREFIX + name.upper(), strict=False)
    for name, value in (options or {}).items():
        if value is not None:
            if name not in _SETTINGS:
                raise SettingsError(_unknown(name, list(_SETTINGS)))
            values[name] = _checked(name, value, name, strict=False)
    return _check(Settings(**values))


_SETTINGS: dict[str, Setting] = {setting.name: setting for setting in described()}


def _from_file(path: str, *, required: bool) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        if required:
            raise SettingsError(f"{path}: no such file: GEOLOOKUP_CONFIG names it") from None
        return {}
    except OSError as error:
        raise SettingsError(f"{path}: reading failed: {error.strerror}") from error
    import tomllib  # only now: most machines have no settings file

    try:
        values = tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: not valid TOML: byte {error.start} is not UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: not valid TOML: {error}") from error
    for secret in ("token", "ping_url"):
        if secret in values:
            raise SettingsError(
                f"{path}: `{secret}` must not stand here: put it in a file of mode 0600, and name that file as "
                f"`{secret}_file`"
            )
    for name in values:
        if name not in _SETTINGS:
            raise SettingsError(f"{path}: {_unknown(name, list(_SETTINGS))}")
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
            raise SettingsError(f"environment: {_unknown(variable, names)}")
        if value:
            values[key] = value
    return values


def _unknown(name: str, names: list[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, names, n=1)
    advice = f"did you mean {near[0]}?" if near else "remove it"
    return f"unknown setting {harmless(name, 60)}: {advice}"


def _checked(name: str, value: Any, where: str, *, strict: bool) -> Any:
    setting = _SETTINGS[name]
    try:
        return msgspec.convert(value, setting.kind, strict=strict)
    except (msgspec.ValidationError, TypeError) as error:  # msgspec meets TOML's dates with a TypeError
        shown = harmless(value if isinstance(value, str) else repr(value), 40)
        raise SettingsError(f"{where} = {shown}: must be {setting.allowed}") from error


def _check(settings: Settings) -> Settings:
    if settings.auth == "header" and not settings.auth_header:
        raise SettingsError('`auth = "header"` needs the name of the header in `auth_header`')
    try:
        _ = settings.max_age_s
    except ValueError as error:
        raise SettingsError(f"max_age: {error}") from error
    if settings.url is not None:
        return msgspec.structs.replace(settings, url=normalise_url(settings.url))
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
        raise SettingsError(f"url: {url!r} is not a web address: {error}") from error
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
