"""The language of systemd's units, and what all of ours have: quoting, hardening, the user, the state's directory.

Quoting follows systemd.syntax(7), systemd.exec(5) and systemd.service(5).
"""

import os
import pwd
import sys
from collections.abc import Iterable

from geolookup.errors import SettingsError
from geolookup.state.base import readers

USER = "geolookup"
STATE = "/var/lib"
HOMES = ("/home", "/root", "/run/user")
TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 - nothing is written there


def executable() -> tuple[str, ...]:
    """The command of this very installation, which need not be in anybody's PATH."""
    script = os.path.join(os.path.dirname(os.path.abspath(sys.executable)), "geolookup")
    return (script,) if os.access(script, os.X_OK) else (os.path.abspath(sys.executable), "-m", "geolookup")


HARDENING = (
    "NoNewPrivileges=yes",
    "CapabilityBoundingSet=",
    "AmbientCapabilities=",
    "ProtectSystem=strict",
    "PrivateDevices=yes",
    "PrivateUsers=yes",
    "ProtectClock=yes",
    "ProtectControlGroups=yes",
    "ProtectHostname=yes",
    "ProtectKernelLogs=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelTunables=yes",
    "ProtectProc=invisible",
    "ProcSubset=pid",
    "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6",
    "RestrictNamespaces=yes",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "RemoveIPC=yes",
    "KeyringMode=private",
    "LockPersonality=yes",
    "MemoryDenyWriteExecute=yes",
    "SystemCallArchitectures=native",
    "SystemCallFilter=@system-service",
    "SystemCallFilter=~@privileged @resources",
    "SystemCallErrorNumber=EPERM",
)


def user_of(home: str | None) -> str:
    """The owner of an existing state, since other users cannot use it; else a user of its own."""
    if home is None or not os.path.isdir(home):
        return USER
    owner = os.stat(home).st_uid
    try:
        return pwd.getpwuid(owner).pw_name
    except KeyError:
        return str(owner)


def exists(user: str) -> bool:
    """Whether this machine has the user."""
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def hardening(home: str | None) -> tuple[str, ...]:
    """What confines a unit that publishes; a directory that a group may read is made with the set-group-ID bit."""
    if not _for_a_group(home):
        return HARDENING
    return tuple("RestrictSUIDSGID=no" if line == "RestrictSUIDSGID=yes" else line for line in HARDENING)


def state_lines(home: str | None) -> tuple[list[str], list[str]]:
    """What a unit says of the state's directory, ``/var/lib/geolookup`` if ``home`` is None; and the directories that
    must be writable beside it.

    systemd sets the mode and the group of a StateDirectory at each start. So one that a group may read is not named so.
    """
    state = state_directory(home or f"{STATE}/{USER}")
    if state is None or _for_a_group(home):
        return [], [home or f"{STATE}/{USER}"]
    return [f"StateDirectory={state}", "StateDirectoryMode=0700"], []


def _for_a_group(home: str | None) -> bool:
    return readers.group_of(home or f"{STATE}/{USER}") is not None


def state_directory(home: str) -> str | None:
    """The value of StateDirectory= for a directory below /var/lib; None for others, or if it cannot hold the name."""
    relative = home.removeprefix(f"{STATE}/")
    plain = all((character.isalnum() and character.isascii()) or character in "_.-/" for character in relative)
    return relative if relative != home and plain else None


def below(roots: Iterable[str], paths: Iterable[str]) -> bool:
    """Whether a path is one of the roots, or below one."""
    return any(path == root or path.startswith(f"{root}/") for path in paths for root in roots)


def specifiers(text: str) -> str:
    """Text in which systemd finds no specifiers."""
    return text.replace("%", "%%")


def quoted(text: str) -> str:
    """One word of a unit."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if escaped != text or not _is_plain(text) else text


def argument(text: str) -> str:
    """One argument of a command, without specifiers and variables."""
    return quoted(specifiers(text).replace("$", "$$"))


def _is_plain(text: str) -> bool:
    return bool(text) and all(character.isalnum() or character in "_./-=:%@,+" for character in text)


def command(name: str, program: str, arguments: Iterable[str]) -> str:
    """The line that runs a program."""
    # The program's own path knows specifiers, but no variables.
    return " ".join([f"{name}={quoted(specifiers(program))}", *map(argument, arguments)])


def places(paths: Iterable[str]) -> tuple[str, str]:
    """The lines that keep home and temporary directories away, except those that a path needs."""
    paths = tuple(paths)
    return (
        f"ProtectHome={'read-only' if below(HOMES, paths) else 'yes'}",
        f"PrivateTmp={'no' if below(TEMPORARY, paths) else 'yes'}",
    )


def notes_of(home: str | None, program: str) -> list[str]:
    """What a person must still do before units of a state work."""
    notes = []
    user = user_of(home)
    if user == USER and not exists(user):
        notes.append(
            f"create the user once: useradd --system --home-dir {STATE}/geolookup --shell /usr/sbin/nologin {USER}"
        )
    if user == "root":
        notes.append(f"{home} belongs to root, so the service runs as root: better give it a user of its own")
    if home is not None and not os.path.isdir(home):
        notes.append(f"create {home} once, owned by {user}, with mode 0700")
    if below(HOMES, [sys.prefix, program]):
        notes.append(
            f"this installation is in a home directory, which {user} may be unable to enter: better install it where "
            "everybody can read it, and print the units from there"
        )
    return notes


def require_runnable(program: str) -> None:
    """:raises SettingsError: if the path has a quote or backslash, which systemd refuses however written"""
    if any(character in program for character in "\"'\\"):
        raise SettingsError(f"{program}: systemd cannot run a program with such a name: install it elsewhere")
