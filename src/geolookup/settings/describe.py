"""The purpose of a setting and its values in words, written beside its type: for the pages and messages."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Meta

from geolookup.base.text import harmless
from geolookup.model.errors import SettingsError

#: The environment variable of a setting ``x`` is ``GEOLOOKUP_X``.
PREFIX = "GEOLOOKUP_"


def about(
    group: str,
    text: str,
    *,
    lookups: bool = False,
    path: bool = False,
    allowed: str | None = None,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
) -> Meta:
    """The purpose of a setting, and its limits.

    ``lookups`` marks settings that change the answer of a lookup. ``path`` marks names of files and folders: in the
    settings file they are relative to its own folder. ``allowed`` says what the value may be, if its type does not.
    """
    extra = {"group": group, "lookups": lookups, "path": path, "allowed": allowed}
    limits: dict[str, Any] = {key: limit for key, limit in (("ge", ge), ("gt", gt), ("le", le)) if limit is not None}
    return Meta(description=text, extra=extra, **limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting as documentation shows it.

    ``group`` is a key of `GROUPS`. ``allowed`` completes "must be …". ``default`` is None or "" if there is none.
    ``is_path`` is true for names of files and folders, ``bears_on_lookups`` for settings that change the answer of a
    lookup.
    ``kind`` is the type that a value is converted to.
    """

    name: str
    variable: str
    group: str
    allowed: str
    default: Any
    text: str
    is_path: bool
    bears_on_lookups: bool
    kind: Any


def describe(table: type[msgspec.Struct], groups: Collection[str]) -> tuple[Setting, ...]:
    """Every member of a struct that `about` describes, in its order. ``groups`` are those that there may be."""
    kinds = {field.name: field.type for field in msgspec.structs.fields(table)}
    described = []
    for field in msgspec.inspect.type_info(table).fields:  # type: ignore[attr-defined] # it is a StructType
        if isinstance(field.type, msgspec.inspect.Metadata):
            described.append(_describe(field, kinds[field.name]))
            assert described[-1].group in groups, field.name
    return tuple(described)


def _describe(field: msgspec.inspect.Field, kind: Any) -> Setting:
    metadata = field.type
    assert isinstance(metadata, msgspec.inspect.Metadata), field.name
    extra, schema = metadata.extra or {}, metadata.extra_json_schema or {}
    return Setting(
        name=field.name,
        variable=PREFIX + field.name.upper(),
        group=extra["group"],
        allowed=extra["allowed"] or _allowed(metadata.type),
        default=field.default,
        text=schema["description"],
        is_path=extra["path"],
        bears_on_lookups=extra["lookups"],
        kind=kind,
    )


def _allowed(kind: msgspec.inspect.Type) -> str:
    """The values of a type, in words that complete "must be"."""
    match kind:
        case msgspec.inspect.LiteralType(values=values):
            return f"one of {', '.join(map(str, values))}"
        case msgspec.inspect.BoolType():
            return "true or false"
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType():
            noun = "a whole number" if isinstance(kind, msgspec.inspect.IntType) else "a number"
            if kind.ge is not None and kind.le is not None:
                return f"{noun} from {kind.ge} to {kind.le}"
            if kind.ge is not None:
                return f"{noun}, {kind.ge} or greater"
            return f"{noun} greater than zero" if kind.gt == 0 else noun
        case _:
            return "text"


def unknown(name: str, names: list[str], *, advice: str = "remove it") -> str:
    """A message about a name that is not among ``names``; ``advice`` is for one that is near none of them."""
    from difflib import get_close_matches

    near = get_close_matches(name, names, n=1)
    return f"unknown setting {harmless(name, 60)}: {f'did you mean {near[0]}?' if near else advice}"


def checked(setting: Setting, value: Any, where: str, *, strict: bool) -> Any:
    """A setting's value as its type; with ``strict`` no text is read as a number.

    :raises SettingsError: if it cannot be; ``where`` says where it stands
    """
    try:
        return msgspec.convert(value, setting.kind, strict=strict)
    except (msgspec.ValidationError, TypeError) as error:  # msgspec meets TOML's dates with a TypeError
        shown = harmless(value if isinstance(value, str) else repr(value), 40)
        raise SettingsError(f"{where} = {shown}: must be {setting.allowed}") from error
