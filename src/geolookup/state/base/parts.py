"""What a generation is made of: the snapshots of its sources, in the order in which they answer.

A snapshot is one pull of one source, ``snapshots/000017/{cache.db,index,report.json}``.
"""

import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from geolookup.state.base.current import generation_name

SNAPSHOTS = "snapshots"
#: The kinds of source that the state directory tells apart from files, and their names if nobody gives them others.
SERVICE = "service"
REGISTRY = "registry"
#: The source of the embedded default; for a service, the source is its URL.
BUNDLED = "bundled"


class Part(NamedTuple):
    """One source's snapshot in a stack. ``snapshot`` is its number, 0 until it is published."""

    name: str
    kind: str
    snapshot: int
    digest: str

    def as_dict(self) -> dict[str, Any]:
        """As it stands in a generation's record."""
        return self._asdict()


def parts_of(record: Mapping[str, Any]) -> tuple[Part, ...]:
    """The stack of a generation, the source of highest precedence first, by the generation's record.

    :raises ValueError: if the record says something else
    :raises KeyError: if it lacks a member
    """
    parts = tuple(
        Part(str(each["name"]), str(each["kind"]), int(each["snapshot"]), str(each["digest"]))
        for each in record["stack"]
    )
    if not parts or any(part.snapshot <= 0 for part in parts):
        raise ValueError("`stack` names no snapshots")
    return parts


def has_service(record: Mapping[str, Any]) -> bool:
    """Whether a service is in a generation's stack: without one custom geolocations are final, and nothing waits."""
    return any(part.kind == SERVICE for part in parts_of(record))


def snapshot_path(home: str, number: int) -> str:
    """The directory of a snapshot."""
    return os.path.join(home, SNAPSHOTS, generation_name(number))


def stack_digest(parts: Iterable[tuple[str, str]]) -> str:
    """The digest of a stack's content, from the name and digest of each part: for a single part, its own digest."""
    named = list(parts)
    if len(named) == 1:
        return named[0][1]
    import hashlib

    return hashlib.sha256("".join(f"{name}:{digest}\n" for name, digest in named).encode("ascii")).hexdigest()


def names_digest(names: Iterable[str]) -> str:
    """The digest that a person accepts a stack by: of its sources' names, in their order."""
    import hashlib

    return hashlib.sha256("".join(f"{name}\n" for name in names).encode("ascii")).hexdigest()


def refusal(part: Part) -> str:
    """How CURRENT's ``refused`` names the content of a part that was rolled back."""
    return part.digest if part.kind in (SERVICE, REGISTRY) else f"{part.name}:{part.digest}"


def refused_in(record: Mapping[str, Any], refused: Iterable[str]) -> bool:
    """Whether a generation holds content, or is a stack, that was rolled back."""
    parts = parts_of(record)
    names = {refusal_of_stack(part.name for part in parts), *map(refusal, parts)}
    return not names.isdisjoint(refused)


def refusal_of_stack(names: Iterable[str]) -> str:
    """How CURRENT's ``refused`` names a stack that was rolled back: unlike any content."""
    return f"stack {' '.join(names)}"
