"""Whatever a public name takes or returns is public too."""

import dataclasses
import datetime
import inspect
import sys
import types
import typing
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

import geolookup
from tests.docs.api import INTERNAL, members

PUBLIC = {name: getattr(geolookup, name) for name in geolookup.__all__}


def namespace(value: Any) -> dict[str, Any]:
    """The names that annotations of something may use: those of its module, and those imported for typing alone."""
    module = sys.modules[value.__module__]
    for_typing = {"Family": typing.Literal[4, 6], "timedelta": datetime.timedelta}
    return {**vars(typing), **PUBLIC, **for_typing, **vars(module)}


def types_in(annotation: Any) -> Iterator[Any]:
    """Every type that an annotation names, those within others included."""
    if typing.get_origin(annotation) is typing.Literal or isinstance(annotation, str | int):
        return
    inside = typing.get_args(annotation)
    if inside:
        origin = typing.get_origin(annotation)
        if isinstance(origin, type):
            yield origin
        for each in inside:
            yield from types_in(each)
    elif isinstance(annotation, list | tuple):
        for each in annotation:
            yield from types_in(each)
    elif isinstance(annotation, type):
        yield annotation


def annotated(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Everything of a public name that has annotations: (where it stands, the annotations resolved)."""
    if inspect.isfunction(value):
        yield name, typing.get_type_hints(inspect.unwrap(value), namespace(value))
    elif isinstance(value, type):
        if dataclasses.is_dataclass(value) or issubclass(value, msgspec.Struct):
            hints = typing.get_type_hints(value, namespace(value))
            yield name, {field: hint for field, hint in hints.items() if f"{name}.{field}" not in INTERNAL}
        for member_name, member in members(value):
            function = getattr(member, "__func__", getattr(member, "fget", member))
            yield f"{name}.{member_name}", typing.get_type_hints(inspect.unwrap(function), namespace(value))
        if f"{name}.__init__" not in INTERNAL and "__init__" in vars(value) and not dataclasses.is_dataclass(value):
            yield f"{name}.__init__", typing.get_type_hints(value.__init__, namespace(value))
    elif typing.get_args(value):
        yield name, {"alias": value}


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_a_public_name_leaks_no_type_that_is_not_public(name: str) -> None:
    public = [value for value in PUBLIC.values() if isinstance(value, type)]
    for where, hints in annotated(name, PUBLIC[name]):
        for parameter, annotation in hints.items():
            for kind in types_in(annotation):
                assert kind in public or not kind.__module__.startswith("geolookup"), f"{where}: {parameter}: {kind}"


def test_the_walk_sees_what_leaks() -> None:
    """The test above can fail: a private type is found however deep it stands."""
    snapshot = type("Snapshot", (), {"__module__": "geolookup.lookup.snapshot"})
    for annotation in (snapshot, list[snapshot], dict[str, tuple[snapshot, ...]] | None, "int"):
        assert (snapshot in list(types_in(annotation))) is (annotation != "int")
    assert isinstance(types, types.ModuleType)


def test_the_public_names_are_sorted_and_all_there() -> None:
    assert geolookup.__all__ == sorted(geolookup.__all__)
    assert len(set(geolookup.__all__)) == len(geolookup.__all__)
    assert set(geolookup.__all__) <= set(dir(geolookup))


def test_every_public_name_is_documented() -> None:
    for name, value in PUBLIC.items():
        if inspect.isfunction(value) or isinstance(value, type):
            assert (inspect.getdoc(value) or "").strip(), name
            for member_name, member in members(value) if isinstance(value, type) else ():
                assert (inspect.getdoc(member) or "").strip(), f"{name}.{member_name}"
