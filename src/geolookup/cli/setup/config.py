"""``config``: which settings there are and where each came from, and writing the first ones."""

import contextlib
import difflib
import getpass
import grp
import os
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import click
import msgspec

from geolookup.base.text import harmless
from geolookup.cli import inputs, interrupt, output
from geolookup.cli.groups import LazyGroup
from geolookup.cli.options import json_option, load_settings, url_option
from geolookup.model.addresses import is_loopback
from geolookup.model.errors import GeoLookupError, SettingsError, StateUnwritableError
from geolookup.settings import edit
from geolookup.settings.describe import unknown
from geolookup.settings.edit import write_secret
from geolookup.settings.load import Origin, load_with_origins, normalise_url
from geolookup.settings.paths import settings_path
from geolookup.settings.secrets import plain_secret, without_secret
from geolookup.settings.sites import described_sites
from geolookup.settings.source import described_source
from geolookup.settings.table import PREFIX, Settings, described
from geolookup.state.base import readers
from geolookup.state.publishing.directory import StateDirectory

#: The secrets: the setting that names the file of each, else the variable that holds it.
_SECRETS = {"token": "token_file", "ping_url": "ping_url_file"}
_SECRET_BYTES = 65536


@click.group(cls=LazyGroup)
def config() -> None:
    """Show the settings and where each came from, and write the first ones.

    \b
    Example: geolookup config init --url https://geo.example.com
    """


@dataclass(frozen=True, slots=True)
class _Row:
    """One setting as it is shown; ``value`` is None for a secret, which is not."""

    name: str
    value: Any
    origin: Origin
    hidden: bool = False

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "value": self.value,
            "hidden": self.hidden,
            "from": self.origin.kind,
            "where": self.origin.where,
        }

    def value_text(self) -> str:
        if self.hidden:
            return "(hidden)"
        if isinstance(self.value, bool):
            return "true" if self.value else "false"
        return "-" if self.value in (None, "") else str(self.value)


@config.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@url_option
@json_option
def show(names: tuple[str, ...], url: str | None, as_json: bool) -> None:
    """Show the settings NAME…, or all of them: each with its value and where that came from.

    \b
    That is one of: default, file, environment (which goes before the file), option (which goes before
    both); for the service's address also remembered, from the last sync. Secrets are not shown.

    \b
    Example: geolookup config show url max_age
    """
    settings, origins = load_with_origins({"url": url})
    with contextlib.suppress(GeoLookupError):  # of a state that cannot be read, nothing is remembered
        remembered = StateDirectory(settings.state_home()).service_url()
        if settings.url is None and remembered is not None:
            settings = msgspec.structs.replace(settings, url=remembered)
            origins["url"] = Origin("remembered")
    rows = [*_rows(settings, origins)]
    known = [row.name for row in rows]
    if wrong := [name for name in names if name not in known]:
        raise SettingsError(unknown(wrong[0], known, advice="`geolookup config show` lists them"))
    rows = [row for row in rows if not names or row.name in names]
    if as_json:
        output.json_result({"settings": settings_path(), "values": [row.as_json() for row in rows]})
        return
    with output.table("setting", "value", "from") as write:
        for row in rows:
            write(row.name, row.value_text(), " ".join(filter(None, (row.origin.kind, row.origin.where))))


def _rows(settings: Settings, origins: dict[str, Origin]) -> Iterator[_Row]:
    default = Origin("default")
    for setting in described():
        value = settings.state_home() if setting.name == "home" else getattr(settings, setting.name)
        yield _Row(setting.name, value, origins.get(setting.name, default))
    for name, file_setting in _SECRETS.items():
        if path := getattr(settings, file_setting):
            yield _Row(name, None, Origin("file", path), hidden=True)
        elif os.environ.get(PREFIX + name.upper()):
            yield _Row(name, None, Origin("environment", PREFIX + name.upper()), hidden=True)
    for source in settings.sources:
        for setting in described_source():
            value = getattr(source, setting.name)
            if setting.name != "name" and value not in ("", None, {}):
                shown = without_secret(value) if setting.name == "location" else value
                yield _Row(f"source.{source.name}.{setting.name}", shown, origins["sources"])
    for setting in described_sites() if "sites" in origins else ():
        if (value := getattr(settings.sites, setting.name)) not in ("", None, {}):
            yield _Row(f"sites.{setting.name}", value, origins["sites"])


@config.command()
@json_option
def path(as_json: bool) -> None:
    """Print the path of the settings file, whether or not it is there.

    \b
    It is the one that GEOLOOKUP_CONFIG names, else geolookup.toml in the state directory that GEOLOOKUP_HOME names,
    else one in the user's configuration directory.
    Example: $EDITOR "$(geolookup config path)"
    """
    output.emit(
        as_json, lambda: {"settings": settings_path(), "exists": os.path.exists(settings_path())}, settings_path()
    )


@config.command()
@click.option("--url", metavar="URL", help="The service's base address.")
@click.option("--home", metavar="DIR", help="The state directory.")
@click.option(
    "--token-from",
    metavar="FILE",
    help="Read the secret from FILE (- is standard input), and keep it in a file of mode 0600.",
)
@click.option(
    "--group", metavar="NAME", help="Let the members of this group look up: they read what is published, only."
)
@click.option("--replace", is_flag=True, help="Replace what is there, without a question.")
@json_option
def init(
    url: str | None, home: str | None, token_from: str | None, group: str | None, replace: bool, as_json: bool
) -> None:
    """Write the first settings: the service's address, and its secret into a file that only you can read.

    \b
    On a terminal it asks for what is not given. The rest of the settings file stays as it is, and
    nothing that is there is replaced without a question, or --replace. With --group, the members
    of a group (www-data) can read what is published now and later; edits and secrets stay yours.

    \b
    Examples:
      geolookup config init --url https://geo.example.com
      pass show geo | geolookup config init --url https://geo.example.com --token-from -
      geolookup config init --home /var/lib/geolookup --group www-data
    """
    interrupt.changing(settings_path())
    there = edit.written_values()
    asks = sys.stdin.isatty() and sys.stderr.isatty() and not as_json
    secret = None if token_from is None else _secret_of(token_from)
    number = None if group is None else _group_of(group)
    if asks and url is None and home is None and secret is None and number is None:
        url = _ask("The service's address (empty if there is none)", default=str(there.get("url", "")))
        if url:
            secret = _ask("Its secret (it is not shown; empty if there is none)", hidden=True)
    values: dict[str, Any] = {}
    if url:
        values["url"] = normalise_url(url)
    if home:
        values["home"] = os.path.abspath(os.path.expanduser(home))
    if not values and not secret and number is None:
        raise click.UsageError(
            "nothing to write: give --url, --home, --token-from or --group (on a terminal, init asks)"
        )
    token_path = None
    if secret:
        token_path, in_settings = _token_place(there)
        if in_settings is not None:
            values["token_file"] = in_settings
        _refuse_open_road(str(values.get("url") or there.get("url") or ""))
    changes = {name: value for name, value in values.items() if there.get(name) != value}
    _confirm(there, changes, token_path, asks=asks, replace=replace)
    if secret and token_path is not None:
        write_secret(token_path, plain_secret(secret, token_from or "the secret"))
    file = edit.write_values(changes, instead_of=there) if changes else settings_path()
    notes = [
        f"{PREFIX}{name.upper()} is set, and goes before the file"
        for name in values
        if os.environ.get(PREFIX + name.upper())
    ]
    opened = None
    if number is not None and group is not None:
        opened = load_settings().state_home()
        notes += _open_to(opened, group, number)
    if as_json:
        done = {"settings": file, "written": changes, "token_file": token_path, "group": group, "home": opened}
        output.json_result({**done, "notes": notes})
    else:
        for name, value in values.items():
            output.done(f"{name} = {value}{'' if name in changes else ' (as it was)'}")
        output.done(f"written to {file}" if changes else f"nothing to change in {file}")
        if token_path is not None:
            output.done(f"the secret is in {token_path}, which only you can read")
        if opened is not None:
            output.done(f"members of {group} may read what is published in {opened}: for them, GEOLOOKUP_HOME={opened}")
        output.done("next: `geolookup doctor` checks it, `geolookup sync` pulls")
    for note in notes:
        output.warn(note)


def _ask(question: str, *, default: str = "", hidden: bool = False) -> str:
    answer: str = click.prompt(question, default=default, show_default=bool(default), hide_input=hidden, err=True)
    return answer.strip()


def _secret_of(name: str) -> str:
    with inputs.opened(name) as stream:
        try:
            secret = stream.read(_SECRET_BYTES).decode("utf-8")
        except UnicodeDecodeError as error:
            raise SettingsError(f"{inputs.shown(name)}: the content must be one line of plain text") from error
    secret = plain_secret(secret, inputs.shown(name))
    if not secret:
        raise SettingsError(f"{inputs.shown(name)}: contains no token")
    return secret


def _token_place(there: dict[str, Any]) -> tuple[str, str | None]:
    """The path of the file for the secret, and the value of `token_file` for it; None if that stands there already."""
    folder = os.path.dirname(os.path.realpath(settings_path()))
    named = str(there.get("token_file", ""))
    if named not in ("", "-"):
        return os.path.join(folder, os.path.expanduser(named)), None
    return os.path.join(folder, "token"), "token"


def _refuse_open_road(url: str) -> None:
    """:raises SettingsError: if a secret would leave this machine unencrypted"""
    parts = urlsplit(url)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise SettingsError(f"url: the secret would travel to {url} unencrypted: use https://")


def _group_of(name: str) -> int:
    """:raises SettingsError: if this machine has no such group"""
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        names = [entry.gr_name for entry in grp.getgrall()]
        near = difflib.get_close_matches(name, names, n=1)
        advice = f"did you mean {near[0]}?" if near else f"create it first: groupadd {shlex.quote(name)}"
        raise SettingsError(f"unknown group {name!r:.60}: {advice}") from None


def _open_to(home: str, name: str, group: int) -> list[str]:
    """Let the members of a group read what is published; returns what a person must still do.

    :raises StateUnwritableError: if this user may not give the state to the group
    """
    directory = StateDirectory(home)
    try:
        with directory.locks.publish():
            readers.open_home(home, group)
    except StateUnwritableError as error:
        who = getpass.getuser()
        raise StateUnwritableError(
            f"{error}; only the owner of {home} can do this, and only for a group of theirs: as root, "
            f"`usermod -aG {shlex.quote(name)} {shlex.quote(who)}`, then log in again"
        ) from error
    return [
        f"members of {name} may not enter {parent}: `chmod o+x {shlex.quote(parent)}`, or move the state with --home"
        for parent in readers.closed_parents(home, group)
    ]


def _confirm(
    there: dict[str, Any], changes: dict[str, Any], token_path: str | None, *, asks: bool, replace: bool
) -> None:
    """Have a person agree to each thing that is replaced.

    :raises SettingsError: if nobody can be asked
    """
    replaced = [
        f"{name} is {there[name]!r:.200}: replace it with {changes[name]!r:.200}" for name in changes if name in there
    ]
    if token_path is not None and os.path.lexists(token_path):
        replaced.append(f"{token_path} exists: replace its secret")
    for question in replaced:
        if replace:
            output.note(f"geolookup: {question}: yes, by --replace")
        elif not asks:
            raise SettingsError(f"{question} with --replace; nothing was written")
        elif not click.confirm(harmless(f"{question}?", 1000), err=True):
            raise click.Abort
