"""The unit with which systemd runs ``geolookup share``: for this installation, its settings and these options."""

import os
from collections.abc import Mapping
from typing import Any

from geolookup.cli import units
from geolookup.cli.data.schedule import environment_of
from geolookup.errors import SettingsError
from geolookup.settings.paths import settings_path
from geolookup.settings.table import Settings

SERVICE = "geolookup-share.service"
_PATHS = ("tokens", "tls_cert", "tls_key", "access_log")
#: Seconds for the builder and the workers to end, beyond what answers may take.
_PATIENCE_S = 20
#: More than the largest number of connections needs: the filter below does not let the process ask for more.
_OPEN_FILES = 65536
_FIRST_FREE_PORT = 1024


def share_unit(settings: Settings, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The unit, hardened, and what a person must still do. ``given`` are the command's options by their names.

    :raises SettingsError: if a value cannot be written into a unit
    """
    command = [*units.executable(), "share", *_arguments(given, defaults)]
    program, arguments = command[0], command[1:]
    units.require_runnable(program)
    home = os.path.abspath(settings.state_home()) if settings.home else None
    environment = {name: units.specifiers(value) for name, value in environment_of(settings).items()}
    credentials = []
    if os.path.exists(settings_path()):
        credentials.append(("geolookup.toml", os.path.abspath(settings_path())))
        environment["GEOLOOKUP_CONFIG"] = "%d/geolookup.toml"
    state, writable = units.state_lines(home)
    environment["GEOLOOKUP_HOME"] = "%S/geolookup" if home is None else units.specifiers(home)
    files = [_absolute(str(given[name])) for name in _PATHS if given[name] not in (None, "-")]
    if given["access_log"] not in (None, "-"):
        writable.append(os.path.dirname(_absolute(str(given["access_log"]))))
    for text in (program, *arguments, *environment.values(), *files, *writable):
        if not text.isprintable():
            raise SettingsError(f"{text!r} has a control character, which no unit can hold: rename it")
    lines = [
        f"# /etc/systemd/system/{SERVICE}",
        "# Written by `geolookup share --print-systemd` from the settings in force then; for systemd 250 and newer.",
        "[Unit]",
        "Description=geolookup: share what is answered here with other tools",
        "Wants=network-online.target",
        "After=network-online.target",
        "",
        "[Service]",
        units.command("ExecStart", program, arguments),
        *(f"Environment={units.quoted(f'{name}={value}')}" for name, value in sorted(environment.items())),
        *(f"LoadCredential={name}:{units.specifiers(path)}" for name, path in credentials),
        f"User={units.user_of(home)}",
        *state,
        *(f"ReadWritePaths={units.quoted(units.specifiers(path))}" for path in writable),
        "UMask=0077",
        f"LimitNOFILE={_OPEN_FILES}",
        "# The process that watches over the others ends them itself.",
        "KillMode=mixed",
        f"TimeoutStopSec={float(given['drain']) + float(given['grace']) + _PATIENCE_S:.0f}",
        "Restart=on-failure",
        "RestartSec=5",
        "# What the settings or a licence forbid waits for a person.",
        "RestartPreventExitStatus=2",
        "",
        *_hardening(int(given["port"])),
        *units.places([program, *writable, *files]),
        "",
        "[Install]",
        "WantedBy=multi-user.target",
        "",
    ]
    notes = units.notes_of(home, program)
    if files:
        shown = " and ".join(files)
        notes.append(
            f"{shown}: {units.user_of(home)} must be able to read them, and own the file of tokens (mode 0600)"
        )
    return "\n".join(lines), notes


def _arguments(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[str]:
    """The options that are not as they are without being given, in a form that any folder understands."""
    found = []
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        if value == defaults.get(name) or value in (None, (), False):
            continue
        if value is True:
            found.append(option)
            continue
        for each in value if isinstance(value, tuple) else (value,):
            found += [option, _absolute(str(each)) if name in _PATHS and each != "-" else str(each)]
    return found


def _absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))


def _hardening(port: int) -> list[str]:
    """As for all our units; the lower ports need a capability, which exists only outside of a user namespace."""
    if not 0 < port < _FIRST_FREE_PORT:
        return list(units.HARDENING)
    changed = {
        "CapabilityBoundingSet=": "CapabilityBoundingSet=CAP_NET_BIND_SERVICE",
        "AmbientCapabilities=": "AmbientCapabilities=CAP_NET_BIND_SERVICE",
        "PrivateUsers=yes": "PrivateUsers=no",
    }
    return [changed.get(line, line) for line in units.HARDENING]
