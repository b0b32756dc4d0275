"""Reading the tables ``[[source]]`` of the settings file."""

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from geolookup.base.reasons import reason
from geolookup.base.text import harmless
from geolookup.errors import SettingsError
from geolookup.model.addresses import is_loopback
from geolookup.model.fields import FIELD_NAMES
from geolookup.settings.describe import checked, unknown
from geolookup.settings.source import (
    CUSTOM,
    KIND_NAMES,
    SERVICE,
    SOURCE_TABLE,
    SourceSettings,
    described_source,
    is_name,
)
from geolookup.settings.table import Settings

_SETTINGS = {setting.name: setting for setting in described_source()}
#: What belongs to the service as a whole, and so stands at the top of the file.
_NOT_OF_SERVICE = ("location", "token_file", "auth", "auth_header", "preset", "fields")


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
        source = read_source(table, where=f"{path}: source {shown}", folder=folder)
        if any(other.name == source.name for other in found):
            raise SettingsError(f"{path}: source {source.name}: another source has this name")
        found.append(source)
    return tuple(found)


def read_source(table: Mapping[str, Any], *, where: str, folder: str) -> SourceSettings:
    """One source. File names in it are relative to ``folder``; ``where`` begins each message.

    :raises SettingsError: as `read_sources`
    """
    if "token" in table:
        raise SettingsError(
            f"{where}: `token` must not stand here: put it in a file of mode 0600, and name that file as `token_file`"
        )
    values = {}
    for name, value in table.items():
        if name not in _SETTINGS:
            raise SettingsError(f"{where}: {unknown(name, list(_SETTINGS))}")
        values[name] = checked(_SETTINGS[name], value, f"{where}: {name}", strict=True)
    if not values.get("name"):
        raise SettingsError(f"{where}: it needs a `name`")
    source = SourceSettings(**values)
    try:
        _check(source)
    except ValueError as error:
        raise SettingsError(f"{where}: {reason(error)}") from error
    return _with_whole_paths(source, folder)


def check_service(settings: Settings) -> None:
    """Check what the sources and ``url`` say together.

    :raises SettingsError: if a service stands among the sources without a ``url``, twice, or under another's name
    """
    services = [source for source in settings.sources if source.kind == SERVICE]
    if len(services) > 1:
        raise SettingsError(f"source {services[1].name}: there is one service, the one of `url`: {services[0].name}")
    if services and settings.url is None:
        raise SettingsError(f"source {services[0].name}: a service needs the setting `url`, at the top of the file")
    if settings.url is not None and not services and any(source.name == SERVICE for source in settings.sources):
        raise SettingsError(f"source {SERVICE}: this is the name of the service of `url`: choose another")


def _check(source: SourceSettings) -> None:
    """:raises ValueError: with what is wrong"""
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
        raise ValueError(f"keep_days = {source.keep_days}: must be {_SETTINGS['keep_days'].allowed}")
    for name in source.fields:
        if name not in FIELD_NAMES:
            raise ValueError(f"fields: {unknown(name, list(FIELD_NAMES))}")
    try:
        _ = source.max_age_s
    except ValueError as error:
        raise ValueError(f"max_age: {reason(error)}") from error


def _is_loopback(location: str) -> bool:
    try:
        host = urlsplit(location).hostname
    except ValueError:
        return False
    return host is not None and is_loopback(host)


def _with_whole_paths(source: SourceSettings, folder: str) -> SourceSettings:
    changes = {}
    for name, setting in _SETTINGS.items():
        value = getattr(source, name)
        if setting.is_path and value and not (name == "location" and source.is_remote):
            changes[name] = os.path.join(folder, os.path.expanduser(value))
    return msgspec.structs.replace(source, **changes)
