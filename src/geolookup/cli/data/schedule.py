"""What a nightly refresh is for systemd and for cron: units and a crontab line, for this installation and its settings.

Secrets are never written, only the names of the files that hold them.
"""

import hashlib
import os
import platform
import shlex
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from geolookup.cli import exit_codes, units
from geolookup.errors import SettingsError
from geolookup.settings.load import load
from geolookup.settings.paths import settings_path
from geolookup.settings.source import SOURCE_TABLE, SourceSettings
from geolookup.settings.table import Settings, described
from geolookup.sync.pull.pull import configured_url

SERVICE = "geolookup-refresh.service"
TIMER = "geolookup-refresh.timer"

# The file for a secret that came from the environment: the printed text must not contain secrets.
_SECRETS = "/etc/geolookup"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A refresh as a scheduler is to run it.

    ``command`` is the executable and its arguments, ``environment`` the settings that neither a file nor a default
    gives, ``config`` the settings file if there is one, ``sources`` the sources in it. ``home`` and ``textfile`` are
    absolute, ``home`` None if nobody chose it. ``secrets`` are files by their setting: ``token_file``,
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
    if not settings.sources:
        configured_url(settings)
    config = os.path.abspath(settings_path()) if os.path.exists(settings_path()) else None
    environment = environment_of(settings)
    secrets, notes = _secrets(settings)
    extra = () if changed_exit_code is None else ("--changed-exit-code", str(changed_exit_code))
    found = Job(
        command=(*units.executable(), "refresh", *arguments, *extra),
        environment=environment,
        config=config,
        home=settings.state_home() if settings.home else None,
        textfile=os.path.abspath(os.path.expanduser(settings.textfile)) if settings.textfile else None,
        secrets=secrets,
        # Two lists, should the push need one, and the waits between.
        longest_s=2 * settings.total_timeout_s + settings.max_wait_s + 600,
        succeeds_with=(exit_codes.BUSY, *(() if changed_exit_code is None else (changed_exit_code,))),
        notes=notes,
        sources=settings.sources,
    )
    written = [*found.command, *environment.values(), *secrets.values(), config, found.home, found.textfile]
    for text in written:
        if text is not None and not text.isprintable():
            raise SettingsError(f"{text!r} has a control character, which no unit or crontab can hold: rename it")
    return found


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


# systemd


def systemd_notes(planned: Job) -> list[str]:
    """What a person must still do before the units work."""
    return [*planned.notes, *units.notes_of(planned.home, planned.command[0]), *_source_notes(planned)]


def _source_notes(planned: Job) -> Iterator[str]:
    """What the files of the sources need: only the service's own secrets and the settings are handed over."""
    user = units.user_of(planned.home)
    written = {}
    if planned.sources and planned.config is not None:
        with open(planned.config, "rb") as file:
            written = {table["name"]: table for table in tomllib.load(file)[SOURCE_TABLE]}
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
    units.require_runnable(planned.command[0])
    environment = {name: units.specifiers(value) for name, value in planned.environment.items()}
    credentials = []
    if planned.config is not None:
        credentials.append(("geolookup.toml", planned.config))
        environment["GEOLOOKUP_CONFIG"] = "%d/geolookup.toml"
    for name, path in planned.secrets.items():
        credential = name.removesuffix("_file")
        credentials.append((credential, path))
        environment[f"GEOLOOKUP_{name.upper()}"] = f"%d/{credential}"
    state, writable = units.state_lines(planned.home)
    environment["GEOLOOKUP_HOME"] = "%S/geolookup" if planned.home is None else units.specifiers(planned.home)
    if planned.textfile is not None:
        environment["GEOLOOKUP_TEXTFILE"] = units.specifiers(planned.textfile)
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
        "# Restarts count: a night has four attempts.",
        "StartLimitIntervalSec=6h",
        "StartLimitBurst=4",
        "",
        "[Service]",
        "Type=oneshot",
        " ".join(
            [f"ExecStart={units.quoted(units.specifiers(program))}", *(units.argument(each) for each in arguments)]
        ),
        *(f"Environment={units.quoted(f'{name}={value}')}" for name, value in sorted(environment.items())),
        # The rest of the line as it stands is the path: no quotes.
        *(f"LoadCredential={name}:{units.specifiers(path)}" for name, path in credentials),
        f"User={units.user_of(planned.home)}",
        *state,
        *(f"ReadWritePaths={units.quoted(units.specifiers(path))}" for path in writable),
        "UMask=0077",
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
        *units.hardening(planned.home),
        *units.places(paths),
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


# cron


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
