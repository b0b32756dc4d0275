"""Editing the sources in the settings file, with the person's comments, order and form kept.

tomlkit reads and writes the tables, but does not know to which table a comment belongs: here, the comment lines
directly above a table's header belong to that table.

One process at a time writes. A file is replaced by rename, with its mode and owner kept.
"""

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import msgspec
import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT

from geolookup.base import disk
from geolookup.model.errors import SettingsError, StateBusyError, StateUnwritableError
from geolookup.settings.load import check_service, load, read_sources
from geolookup.settings.paths import settings_path
from geolookup.settings.source import SERVICE, SOURCE_TABLE, SourceSettings
from geolookup.settings.table import Settings

_WAIT_S = 10.0
_NEW_MODE = 0o644
_HEADER = re.compile(r"[ \t]*\[\[[^\]\n]*\]\]")


@dataclass(frozen=True, slots=True)
class Before:
    """The position above the source of this name."""

    name: str


Position: TypeAlias = Literal["first", "last"] | Before


@dataclass(slots=True)
class _Table:
    """One source of the file: its values, the text of its table, and the blank lines and comments above that."""

    values: dict[str, Any]
    text: str
    above: str
    is_new: bool = False

    @property
    def name(self) -> str:
        """The source's name."""
        return str(self.values.get("name", ""))


def add_source(values: Mapping[str, Any], position: Position) -> str:
    """Add a source with these keys; returns the path of the settings file, which is made if it is not there.

    File names in ``values`` should be absolute.

    :raises SettingsError: if the settings cannot be used, before or after; nothing is written then
    :raises StateBusyError: if another process edits them and does not finish
    :raises StateUnwritableError: if the file cannot be written
    """

    def change(tables: list[_Table]) -> None:
        name = values["name"]
        if any(table.name == name for table in tables):
            raise SettingsError(f"a source {name} exists already: choose another name with --name, or remove that one")
        _place(tables, _new_table(values), position)

    return _edit(change, mentions=_mentioned(position))


def remove_source(name: str) -> str:
    """Remove a source; returns the path of the settings file.

    :raises SettingsError: if there is none of this name; and as `add_source`
    """

    def change(tables: list[_Table]) -> None:
        tables.remove(_named(tables, name))

    return _edit(change)


def move_source(name: str, position: Position) -> str:
    """Move a source; returns the path of the settings file.

    :raises SettingsError: if there is none of this name; and as `add_source`
    """

    def change(tables: list[_Table]) -> None:
        moved = _named(tables, name)
        if position != Before(name):
            tables.remove(moved)
            moved.is_new = True
            _place(tables, moved, position)

    return _edit(change, mentions={name} | _mentioned(position))


def written_values() -> dict[str, Any]:
    """The values at the top of the settings file, without the sources: none if there is no file.

    :raises SettingsError: if the settings cannot be used
    """
    path = os.path.realpath(settings_path())
    before = _read(path)
    _load()
    values: dict[str, Any] = {} if before is None else tomlkit.parse(before.decode("utf-8")).unwrap()
    values.pop(SOURCE_TABLE, None)
    return values


def write_values(values: Mapping[str, Any], *, instead_of: Mapping[str, Any]) -> str:
    """Write settings at the top of the file; returns its path. The file is made if it is not there.

    ``instead_of`` are the values that stood there when a person decided: if others stand there now, nothing is written.

    :raises SettingsError: if the settings cannot be used, before or after, or were changed meanwhile
    :raises StateBusyError: if another process edits them and does not finish
    :raises StateUnwritableError: if the file cannot be written
    """
    return _edit(lambda _tables: None, values=values, instead_of=instead_of)


def _mentioned(position: Position) -> set[str]:
    """The names that must have a table for this position: only a table can have another table above it."""
    if isinstance(position, Before):
        return {position.name}
    return {SERVICE} if position == "first" else set()


def _place(tables: list[_Table], table: _Table, position: Position) -> None:
    at = len(tables) if position == "last" else 0
    if isinstance(position, Before):
        at = tables.index(_named(tables, position.name))
    tables.insert(at, table)


def _named(tables: list[_Table], name: str) -> _Table:
    for table in tables:
        if table.name == name:
            return table
    known = ", ".join(table.name for table in tables)
    has = f"has the sources {known}" if known else "has no sources"
    raise SettingsError(f"unknown source {name!r:.60}: {settings_path()} {has}")


def _new_table(values: Mapping[str, Any]) -> _Table:
    table = tomlkit.table()
    for key, value in values.items():
        if isinstance(value, Mapping):
            inline = tomlkit.inline_table()
            inline.update(value)
            table.add(key, inline)
        else:
            table.add(key, value)
    return _Table(dict(values), _rendered(table), "", is_new=True)


def _edit(
    change: Callable[[list[_Table]], None],
    *,
    mentions: set[str] | None = None,
    values: Mapping[str, Any] | None = None,
    instead_of: Mapping[str, Any] | None = None,
) -> str:
    path = os.path.realpath(settings_path())  # a link stays a link
    folder = os.path.dirname(path)
    with _writing_errors(path):
        disk.make_directory(folder)
    with _one_writer(folder):
        before = _read(path)
        settings = _load()
        text = "" if before is None else before.decode("utf-8")
        head, tables = _parsed(path, text)
        service = _service_to_write(path, head, tables, settings, mentions or set())
        if service is not None:
            tables.insert(0, service)
        change(tables)
        if values is not None:
            head = _with_values(path, head, values, instead_of or {})
            settings = msgspec.structs.replace(settings, **values)
        after = _written(head, tables)
        _check(path, head, after, tables, settings)
        if after != text:
            replace(path, before, after.encode("utf-8"))
    return path


def _with_values(path: str, head: str, values: Mapping[str, Any], instead_of: Mapping[str, Any]) -> str:
    document = tomlkit.parse(head)
    there = document.unwrap()
    for name, value in values.items():
        if there.get(name) != instead_of.get(name):
            raise SettingsError(f"{path}: `{name}` was changed meanwhile: run the command again")
        document[name] = value
    return document.as_string()


def _load() -> Settings:
    # If the file that GEOLOOKUP_CONFIG names does not exist yet, it will be made.
    return load(environ={name: value for name, value in os.environ.items() if name != "GEOLOOKUP_CONFIG"})


def _service_to_write(
    path: str, head: str, tables: list[_Table], settings: Settings, mentions: set[str]
) -> _Table | None:
    """A table for the service of ``url``, which stands first without one, if the edit needs to name its place."""
    if settings.url is None or SERVICE not in mentions or any(t.values.get("kind") == SERVICE for t in tables):
        return None
    if "url" not in tomlkit.parse(head):
        raise SettingsError(
            f"the service of GEOLOOKUP_URL stands first: write its `url` into {path} to have a source above it"
        )
    return _new_table({"name": SERVICE, "kind": SERVICE})


def _parsed(path: str, text: str) -> tuple[str, list[_Table]]:
    """The text above the sources, and their tables."""
    try:
        document = tomlkit.parse(text)
    except TOMLKitError as error:  # tomllib has read it, so this is a difference between the two
        raise SettingsError(f"{path}: editing failed: edit the file by hand") from error
    found = document.get(SOURCE_TABLE)
    if found is None:
        return text, []
    if not isinstance(found, AoT):
        raise SettingsError(f"{path}: to have it edited, begin each source with a line [[{SOURCE_TABLE}]]")
    rendered = [_rendered(table) for table in found]
    values = [dict(table.unwrap()) for table in found]
    del document[SOURCE_TABLE]
    whole_head = document.as_string()
    texts = _as_they_stand(text, len(whole_head), rendered)
    head, above = _cut(whole_head)
    tables = []
    for position, (value, own) in enumerate(zip(values, texts, strict=True), start=1):
        own, next_above = _cut(own) if position < len(texts) else (own, "")
        tables.append(_Table(value, own, above))
        above = next_above
    return head, tables


def _as_they_stand(text: str, begin: int, rendered: list[str]) -> list[str]:
    """The texts of tables with their headers as they stand in the file: tomlkit leaves out blanks in the brackets."""
    found = []
    for own in rendered:
        header, plain = _HEADER.match(text, begin), _HEADER.match(own)
        if header is not None and plain is not None:
            own = header[0] + own[plain.end() :]
        if not text.startswith(own, begin):
            return rendered
        found.append(own)
        begin += len(own)
    return found


def _rendered(table: Any) -> str:
    document = tomlkit.document()
    tables = tomlkit.aot()
    tables.append(table)
    document.append(SOURCE_TABLE, tables)
    return document.as_string()


def _cut(text: str) -> tuple[str, str]:
    """A text without its end, and that end: the comments of the table below, and the blank lines above them."""
    lines = text.splitlines(keepends=True)
    at = len(lines)
    while at and lines[at - 1].lstrip().startswith("#"):
        at -= 1
    while at and not lines[at - 1].strip():
        at -= 1
    return "".join(lines[:at]), "".join(lines[at:])


def _written(head: str, tables: list[_Table]) -> str:
    text = head
    for table in tables:
        if text and not text.endswith("\n"):
            text += "\n"
        above = table.above
        if not text:
            above = above.lstrip("\r\n")
        elif table.is_new and not above.startswith(("\n", "\r\n")):
            above = "\n" + above
        text += above + table.text
    # New lines end as the others do.
    return text.replace("\r\n", "\n").replace("\n", "\r\n") if "\r\n" in text else text


def _check(path: str, head: str, after: str, tables: list[_Table], settings: Settings) -> None:
    """Refuse an edit whose result is not the intended one, or could not be loaded."""
    values = [table.values for table in tables]
    try:
        parsed = tomlkit.parse(after).unwrap()
        meant = tomlkit.parse(head).unwrap() | ({SOURCE_TABLE: values} if values else {})
    except TOMLKitError as error:
        raise SettingsError(f"{path}: editing failed, edit the file by hand") from error
    if parsed != meant:
        raise SettingsError(
            f"{path}: editing failed, edit the file by hand: the comments between sources are in the way"
        )
    check_service(msgspec.structs.replace(settings, sources=read_sources(values, path=path)))


def read_new_source(values: Mapping[str, Any]) -> SourceSettings:
    """The source that a table with these values would be.

    :raises SettingsError: if it cannot be used
    """
    (source,) = read_sources([dict(values)], path=settings_path())
    return source


@contextlib.contextmanager
def _one_writer(folder: str) -> Iterator[None]:
    """Only one process at a time edits the settings in a folder.

    :raises StateBusyError: if another one does not finish
    :raises StateUnwritableError: if the folder cannot be opened or locked
    """
    # The folder itself is locked, so that no file of a lock is left beside the settings.
    with _writing_errors(folder):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            locked = disk.take_lock(descriptor, time.monotonic() + _WAIT_S)
        except OSError as error:
            raise StateUnwritableError(f"{folder}: locking failed: {error.strerror}") from error
        if not locked:
            raise StateBusyError(f"{folder}: the settings are being edited by another run")
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _writing_errors(path: str) -> Iterator[None]:
    """:raises StateUnwritableError: naming ``path``, for an OSError"""
    try:
        yield
    except OSError as error:
        raise StateUnwritableError(f"{path}: writing failed: {error.strerror}") from error


def _read(path: str) -> bytes | None:
    """The bytes of a file, None if it is not there.

    :raises SettingsError: if it cannot be read
    """
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SettingsError(f"{path}: reading failed: {error.strerror}") from error


def replace(path: str, before: bytes | None, after: bytes) -> None:
    """Replace the file by rename, and keep its mode and owner, unless it was changed meanwhile."""
    with _writing_errors(path), disk.replacing(path, mode=_NEW_MODE, hidden=True) as descriptor:
        if before is not None:
            status = os.stat(path)
            os.fchmod(descriptor, status.st_mode & 0o7777)
            with contextlib.suppress(PermissionError):  # only root can give a file to its owner
                os.fchown(descriptor, status.st_uid, status.st_gid)
        with open(descriptor, "wb", closefd=False) as file:
            file.write(after)
        if _read(path) != before:
            raise SettingsError(f"{path}: the file was changed meanwhile: run the command again")


def write_secret(path: str, secret: str) -> None:
    """Write a file that only its owner can read (mode 0600), in place of any that is there.

    :raises StateUnwritableError: if it cannot be written
    """
    folder = os.path.dirname(path)
    with _writing_errors(path):
        disk.make_directory(folder)
        disk.replace(path, f"{secret}\n".encode("ascii"))
