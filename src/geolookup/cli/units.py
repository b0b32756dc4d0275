"""Units for systemd, and a crontab line, for this installation and its settings: a nightly refresh, and sharing.

Quoting follows systemd.syntax(7), systemd.exec(5) and systemd.service(5). Secrets are never written, only the names of
the files that hold them.
"""

import hashlib
import os
import platform
import pwd
import shlex
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from geolookup.cli import exit_codes
from geolookup.model.errors import SettingsError
from geolookup.settings.load import load
from geolookup.settings.paths import SYSTEM_HOME, default_home, settings_path
from geolookup.settings.source import SOURCE_TABLE, SourceSettings
from geolookup.settings.table import Settings, described
from geolookup.state.base import readers
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.pull import configured_url

USER = "geolookup"
STATE = "/var/lib"
HOMES = ("/home", "/root", "/run/user")
TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 - nothing is written there
SERVICE = "geolookup-refresh.service"
TIMER = "geolookup-refresh.timer"
FAILURE = "geolookup-failure@.service"
#: The line that has `FAILURE` started for the unit in which it stands, once its restarts are used up.
_ON_FAILURE = "OnFailure=geolookup-failure@%n.service"

#: The file for a secret that came from the environment: the printed text must not contain secrets.
_SECRETS = "/etc/geolookup"
SHARE_SERVICE = "geolookup-share.service"
FLEET_SERVICE = "geolookup-fleet.service"
_PATHS = ("tokens", "tls_cert", "tls_key", "access_log")
#: Seconds for the builder and the workers to end, beyond what answers may take.
_PATIENCE_S = 20
#: More than the largest number of connections needs: the filter below does not let the process ask for more.
_OPEN_FILES = 65536
_FIRST_FREE_PORT = 1024
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


# The language of units


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


# The parts of every unit


def home_of(settings: Settings) -> str | None:
    """The state for which units are printed: the one that the settings name, else the one that this user has.

    None without either: `/var/lib/geolookup`, which is theirs.
    """
    if settings.home or os.path.exists(os.path.join(settings.state_home(), "CURRENT")):
        return os.path.abspath(settings.state_home())
    return None


def executable() -> tuple[str, ...]:
    """The command of this very installation, which need not be in the PATH."""
    script = os.path.join(os.path.dirname(os.path.abspath(sys.executable)), "geolookup")
    return (script,) if os.access(script, os.X_OK) else (os.path.abspath(sys.executable), "-m", "geolookup")


def user_of(home: str | None) -> str:
    """The owner of an existing state, since other users cannot use it; else a user of its own."""
    home = home or f"{STATE}/{USER}"
    if not os.path.isdir(home):
        return USER
    owner = os.stat(home).st_uid
    try:
        return pwd.getpwuid(owner).pw_name
    except KeyError:
        return str(owner)


def exists(user: str) -> bool:
    """True if this machine has the user."""
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def hardening(home: str | None) -> tuple[str, ...]:
    """The lines that confine a unit that publishes; a directory for a group is made with the set-group-ID bit."""
    if not _for_a_group(home):
        return HARDENING
    return tuple("RestrictSUIDSGID=no" if line == "RestrictSUIDSGID=yes" else line for line in HARDENING)


def state_lines(home: str | None) -> tuple[list[str], list[str]]:
    """The lines about the state's directory, ``/var/lib/geolookup`` if ``home`` is None; and the directories that must
    be writable beside it.

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
    """True if a path is one of the roots, or below one."""
    return any(path == root or path.startswith(f"{root}/") for path in paths for root in roots)


def environment_of(settings: Settings) -> dict[str, str]:
    """The settings that neither the file nor a default gives, except paths, which go ways of their own."""
    from_file = load(environ={})
    paths = {setting.name for setting in described() if setting.is_path}
    return {
        f"GEOLOOKUP_{name.upper()}": _text(value)
        for name, value in msgspec.structs.asdict(settings).items()
        if name not in paths and value != getattr(from_file, name)
    }


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)


def _config() -> str | None:
    """The path of the settings file, if there is one."""
    return os.path.abspath(settings_path()) if os.path.exists(settings_path()) else None


def _settings_in(
    environment: Mapping[str, str], config: str | None, secrets: Mapping[str, str]
) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """A unit's environment, and the credentials that it loads: the settings file, if there is one, and the secrets."""
    found = {name: specifiers(value) for name, value in environment.items()}
    credentials = []
    if config is not None:
        found["GEOLOOKUP_CONFIG"] = "%d/geolookup.toml"
        credentials.append(("geolookup.toml", config))
    for name, path in secrets.items():
        credential = name.removesuffix("_file")
        found[f"GEOLOOKUP_{name.upper()}"] = f"%d/{credential}"
        credentials.append((credential, path))
    return found, credentials


def _surroundings(
    home: str | None,
    environment: Mapping[str, str],
    credentials: Iterable[tuple[str, str]],
    state: Iterable[str],
    writable: Iterable[str],
) -> list[str]:
    """The lines of every service of ours about its environment, user and directories."""
    return [
        *(f"Environment={quoted(f'{name}={value}')}" for name, value in sorted(environment.items())),
        # The rest of the line as it stands is the path: no quotes.
        *(f"LoadCredential={name}:{specifiers(path)}" for name, path in credentials),
        f"User={user_of(home)}",
        *state,
        *(f"ReadWritePaths={quoted(specifiers(path))}" for path in writable),
        "UMask=0077",
    ]


def places(paths: Iterable[str]) -> tuple[str, str]:
    """The lines that keep home and temporary directories away, except those that a path needs."""
    paths = tuple(paths)
    return (
        f"ProtectHome={'read-only' if below(HOMES, paths) else 'yes'}",
        f"PrivateTmp={'no' if below(TEMPORARY, paths) else 'yes'}",
    )


def notes_of(home: str | None, program: str) -> list[str]:
    """The steps that a person must still take before units of a state work."""
    notes = [f"OnFailure= starts {FAILURE}: `geolookup refresh --print-systemd=failure` prints it"]
    user = user_of(home)
    if user == USER and not exists(user):
        notes.append(
            f"create the user once: useradd --system --home-dir {STATE}/geolookup --shell /usr/sbin/nologin {USER}"
        )
    if user == "root":
        there = home or f"{STATE}/{USER}"
        notes.append(f"{there} belongs to root, so the service runs as root: better give it a user of its own")
    if home is not None and home == default_home():
        notes.append(
            f"{home} is the state of {user} alone; to have it where services have theirs: `geolookup state move "
            f"{SYSTEM_HOME}`, then print the units again"
        )
    if home is not None and not os.path.isdir(home):
        notes.append(f"create {home} once, owned by {user}, with mode 0700")
    if below(HOMES, [sys.prefix, program]):
        notes.append(
            f"this installation is in a home directory, which {user} may be unable to enter: better install it where "
            "every user can read it, and print the units from there"
        )
    return notes


def require_runnable(program: str) -> None:
    """:raises SettingsError: if the path has a quote or backslash, which systemd refuses however written"""
    if any(character in program for character in "\"'\\"):
        raise SettingsError(f"{program}: systemd cannot run a program with such a name: install it elsewhere")


# The nightly refresh


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A refresh as a scheduler is to run it.

    ``command`` is the executable and its arguments, ``environment`` the settings that neither a file nor a default
    gives, ``config`` the settings file if there is one, ``sources`` the sources in it. ``home`` and ``textfile`` are
    absolute, ``home`` None for the services' own (`home_of`). ``secrets`` are files by their setting: ``token_file``,
    ``ping_url_file``. ``notes`` say what a person must still do.
    """

    command: tuple[str, ...]
    environment: dict[str, str]
    config: str | None
    home: str | None
    textfile: str | None
    secrets: dict[str, str]
    longest_s: float
    succeeds_with: tuple[int, ...]
    notes: list[str] = field(default_factory=list)
    sources: tuple[SourceSettings, ...] = ()


def job(settings: Settings, arguments: Iterable[str], *, changed_exit_code: int | None) -> Job:
    """The job for the settings in force and the command's own arguments.

    :raises SettingsError: if there is neither a service nor another source, or a value cannot be written into a unit
        or a crontab
    """
    sources = settings.sources or _given_sources(settings.state_home())
    if not sources:
        configured_url(settings)
    environment = environment_of(settings)
    secrets, notes = _secrets(settings)
    extra = () if changed_exit_code is None else ("--changed-exit-code", str(changed_exit_code))
    found = Job(
        command=(*executable(), "refresh", *arguments, *extra),
        environment=environment,
        config=_config(),
        home=home_of(settings),
        textfile=os.path.abspath(os.path.expanduser(settings.textfile)) if settings.textfile else None,
        secrets=secrets,
        # Two lists, should the push need one, and the waits between.
        longest_s=2 * settings.total_timeout_s + settings.max_wait_s + 600,
        succeeds_with=(exit_codes.BUSY, *(() if changed_exit_code is None else (changed_exit_code,))),
        notes=notes,
        sources=sources,
    )
    written = [*found.command, *environment.values(), *secrets.values(), found.config, found.home, found.textfile]
    for text in written:
        if text is not None and not text.isprintable():
            raise SettingsError(f"{text!r} has a control character, which no unit or crontab can hold: rename it")
    return found


def _given_sources(home: str) -> tuple[SourceSettings, ...]:
    """The files that a state was synced from, if nothing is configured: a refresh follows them."""
    current = StateDirectory(home).named_current()
    return tuple(
        SourceSettings(name=str(entry["name"]), location=str(entry["location"]))
        for entry in (() if current is None else current.sources)
        if entry.get("given") and entry.get("location")
    )


def _secrets(settings: Settings) -> tuple[dict[str, str], list[str]]:
    found, notes = {}, []
    for name, variable in (("token_file", "GEOLOOKUP_TOKEN"), ("ping_url_file", "GEOLOOKUP_PING_URL")):
        path = str(getattr(settings, name))
        if path not in ("", "-"):
            found[name] = os.path.abspath(os.path.expanduser(path))
        elif path == "-" or os.environ.get(variable):
            found[name] = f"{_SECRETS}/{name.removesuffix('_file')}"
            origin = "standard input" if path == "-" else variable
            notes.append(f"put what {origin} holds into {found[name]}, with mode 0600: it is not written here")
    return found, notes


def systemd_notes(planned: Job) -> list[str]:
    """The steps that a person must still take before the units work."""
    return [*planned.notes, *notes_of(planned.home, planned.command[0]), *_source_notes(planned)]


def _source_notes(planned: Job) -> Iterator[str]:
    """The needs of the sources' files: only the service's own secrets and the settings are handed over."""
    user = user_of(planned.home)
    written = {}
    if planned.sources and planned.config is not None:
        with open(planned.config, "rb") as file:
            written = {table["name"]: table for table in tomllib.load(file).get(SOURCE_TABLE, ())}
    for source in planned.sources:
        files = {"token_file": source.token_file, "location": "" if source.is_remote else source.location}
        for key, path in files.items():
            if not path:
                continue
            what = f"give {path} to {user}, with mode 0600" if key == "token_file" else f"let {user} read {path}"
            yield f"{what} (source {source.name})"
            text = written.get(source.name, {}).get(key, path)
            if not os.path.isabs(text):
                yield (
                    f"write {path} in place of {text} in {planned.config} (source {source.name}): the service reads a "
                    "copy of the settings in another folder"
                )


def service_unit(planned: Job) -> str:
    """The service, hardened: it can write its state, and reach the network, and little else.

    :raises SettingsError: if the executable's path has a quote or backslash, which systemd refuses however written
    """
    require_runnable(planned.command[0])
    environment, credentials = _settings_in(planned.environment, planned.config, planned.secrets)
    state, writable = state_lines(planned.home)
    environment["GEOLOOKUP_HOME"] = "%S/geolookup" if planned.home is None else specifiers(planned.home)
    if planned.textfile is not None:
        environment["GEOLOOKUP_TEXTFILE"] = specifiers(planned.textfile)
        writable.append(os.path.dirname(planned.textfile))
    of_sources = [path for source in planned.sources for path in (source.location, source.token_file) if path]
    paths = [sys.prefix, sys.base_prefix, os.path.dirname(__file__), planned.command[0], *writable, *of_sources]
    program, *arguments = planned.command
    lines = [
        f"# /etc/systemd/system/{SERVICE}",
        "# Written by `geolookup refresh --print-systemd` from the settings in force then; for systemd 250 and newer.",
        "[Unit]",
        "Description=geolookup: send edits, pull and publish the service's list",
        "Wants=network-online.target",
        "After=network-online.target",
        _ON_FAILURE,
        "# Restarts count: a night has four attempts.",
        "StartLimitIntervalSec=6h",
        "StartLimitBurst=4",
        "",
        "[Service]",
        "Type=oneshot",
        command("ExecStart", program, arguments),
        *_surroundings(planned.home, environment, credentials, state, writable),
        f"TimeoutStartSec={planned.longest_s:.0f}",
        "Nice=10",
        "",
        f"# {exit_codes.BUSY}: another run is under way, and does what this one would have done.",
        f"# {exit_codes.TERMINATED}: it was stopped; the next run goes on from there.",
        f"SuccessExitStatus={' '.join(map(str, (*planned.succeeds_with, exit_codes.TERMINATED)))}",
        f"# {exit_codes.FAILED} may pass by itself; {exit_codes.USAGE} and {exit_codes.HELD} wait for a person.",
        "Restart=on-failure",
        "RestartSec=15min",
        f"RestartPreventExitStatus={exit_codes.USAGE} {exit_codes.HELD}",
        "",
        *hardening(planned.home),
        *places(paths),
        "",
    ]
    return "\n".join(lines)


def timer_unit() -> str:
    """The timer: every night, at a moment of this machine's own. A missed night is made up for."""
    return "\n".join(
        [
            f"# /etc/systemd/system/{TIMER}",
            "[Unit]",
            "Description=geolookup: refresh every night",
            "",
            "[Timer]",
            "OnCalendar=*-*-* 02:00:00",
            "RandomizedDelaySec=2h",
            "FixedRandomDelay=yes",
            "Persistent=yes",
            "",
            "[Install]",
            "WantedBy=timers.target",
            "",
        ]
    )


def failure_unit() -> str:
    """The template that the others start when they have failed: it must reach a person."""
    told = 'systemctl status --no-pager --full "$$1" | logger --priority daemon.alert --tag geolookup'
    return "\n".join(
        [
            f"# /etc/systemd/system/{FAILURE}",
            "[Unit]",
            "Description=geolookup: tell that %i failed",
            "",
            "[Service]",
            "Type=oneshot",
            "# It is written to the journal as an alert. Put in its place what reaches a person here: mail, a pager.",
            f"ExecStart=/bin/sh -c '{told}' sh %i",
            "",
        ]
    )


def crontab_line(planned: Job) -> str:
    """One line for ``crontab -e``: silent if all went well, so that mail means something. It ends with a newline.

    The minute is this machine's own, and always the same: not all machines ask the service at once.
    """
    environment: Mapping[str, Any] = {
        "PATH": f"{os.path.dirname(planned.command[0])}:/usr/bin:/bin",
        **({} if planned.config is None else {"GEOLOOKUP_CONFIG": planned.config}),
        "GEOLOOKUP_HOME": planned.home or Settings().state_home(),
        **({} if planned.textfile is None else {"GEOLOOKUP_TEXTFILE": planned.textfile}),
        **{f"GEOLOOKUP_{name.upper()}": path for name, path in planned.secrets.items()},
        **planned.environment,
    }
    assigned = [f"{name}={shlex.quote(value)}" for name, value in environment.items()]
    command = " ".join(["umask 077;", *assigned, shlex.join(planned.command), "> /dev/null"])
    # cron takes a bare % for a newline, and a backslash before it, or before another one, away.
    command = command.replace("\\", "\\\\").replace("%", "\\%")
    seed = hashlib.sha256(f"{platform.node()}\0{environment['GEOLOOKUP_HOME']}".encode()).digest()
    return f"{seed[0] * 60 // 256} {2 + seed[1] % 2} * * * {command}\n"


# Sharing


def share_unit(settings: Settings, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The hardened unit with which systemd runs ``geolookup share``, and the steps that a person must still take.

    ``given`` are the command's options by their names.

    :raises SettingsError: if a value cannot be written into a unit
    """
    home = home_of(settings)
    files = [_absolute(str(given[name])) for name in _PATHS if given[name] not in (None, "-")]
    text, program = _long_running(
        settings,
        SHARE_SERVICE,
        "geolookup share",
        "share what is answered here with other tools",
        ["share", *_arguments(given, defaults)],
        [
            f"LimitNOFILE={_OPEN_FILES}",
            "# The process that watches over the others ends them itself.",
            "KillMode=mixed",
            f"TimeoutStopSec={float(given['drain']) + float(given['grace']) + _PATIENCE_S:.0f}",
            "Restart=on-failure",
            "RestartSec=5",
        ],
        _share_hardening(int(given["port"])),
        writes=[] if given["access_log"] in (None, "-") else [os.path.dirname(_absolute(str(given["access_log"])))],
        files=files,
    )
    notes = notes_of(home, program)
    there = home or f"{STATE}/{USER}"
    if not os.path.exists(os.path.join(there, "CURRENT")):
        notes.append(
            f"nothing has been published in {there} yet, and the service does not start without: have a refresh run "
            "there first (`geolookup refresh --print-systemd`)"
        )
    if files:
        shown = " and ".join(files)
        notes.append(f"{shown}: {user_of(home)} must be able to read them, and own the file of tokens (mode 0600)")
    return text, notes


def fleet_unit(settings: Settings, arguments: Iterable[str], *, writes: Iterable[str]) -> tuple[str, list[str]]:
    """The hardened unit with which systemd runs a long-running command of ``geolookup fleet``, and the next steps.

    ``writes`` are the paths that it may write besides the state.

    :raises SettingsError: if a value cannot be written into a unit
    """
    home, arguments = home_of(settings), list(arguments)
    secrets, notes = _secrets(settings)
    text, program = _long_running(
        settings,
        FLEET_SERVICE,
        "geolookup fleet …",
        f"{'publish to' if 'publish' in arguments else 'follow'} a fleet",
        ["fleet", *arguments],
        [
            f"SuccessExitStatus={exit_codes.TERMINATED}",
            "Restart=on-failure",
            "RestartSec=30",
        ],
        hardening(home),
        secrets=secrets,
        writes=writes,
    )
    return text, [*notes_of(home, program), *notes]


def _long_running(
    settings: Settings,
    unit: str,
    printed_by: str,
    does: str,
    arguments: Iterable[str],
    own: Iterable[str],
    hardened: Iterable[str],
    *,
    secrets: Mapping[str, str] | None = None,
    writes: Iterable[str] = (),
    files: Iterable[str] = (),
) -> tuple[str, str]:
    """The unit of a command that runs until it is stopped, and the program's path.

    ``own`` are lines of its own in [Service], ``secrets`` are files by their setting, ``writes`` the paths that it may
    write besides the state, ``files`` others that it reads.
    """
    program, *more = executable()
    arguments = [*more, *arguments]
    require_runnable(program)
    home = home_of(settings)
    environment, credentials = _settings_in(environment_of(settings), _config(), secrets or {})
    state, writable = state_lines(home)
    writable += writes
    environment["GEOLOOKUP_HOME"] = "%S/geolookup" if home is None else specifiers(home)
    for text in (program, *arguments, *environment.values(), *files, *writable):
        if not text.isprintable():
            raise SettingsError(f"{text!r} has a control character, which no unit can hold: rename it")
    lines = [
        f"# /etc/systemd/system/{unit}",
        f"# Written by `{printed_by} --print-systemd` from the settings in force then; for systemd 250 and newer.",
        "[Unit]",
        f"Description=geolookup: {does}",
        "Wants=network-online.target",
        "After=network-online.target",
        _ON_FAILURE,
        "",
        "[Service]",
        command("ExecStart", program, arguments),
        *_surroundings(home, environment, credentials, state, writable),
        *own,
        "# What the settings or a licence forbid waits for a person.",
        "RestartPreventExitStatus=2",
        "",
        *hardened,
        *places([program, *writable, *files]),
        "",
        "[Install]",
        "WantedBy=multi-user.target",
        "",
    ]
    return "\n".join(lines), program


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


def _share_hardening(port: int) -> list[str]:
    """As for all our units; the lower ports need a capability, which exists only outside of a user namespace."""
    if not 0 < port < _FIRST_FREE_PORT:
        return list(HARDENING)
    changed = {
        "CapabilityBoundingSet=": "CapabilityBoundingSet=CAP_NET_BIND_SERVICE",
        "AmbientCapabilities=": "AmbientCapabilities=CAP_NET_BIND_SERVICE",
        "PrivateUsers=yes": "PrivateUsers=no",
    }
    return [changed.get(line, line) for line in HARDENING]
