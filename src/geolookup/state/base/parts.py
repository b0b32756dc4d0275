"""The snapshots that a generation is made of, in their order, and what CURRENT says of each.

A snapshot is one pull of one source, ``snapshots/000017/{cache.db,index,report.json}``; of one that says who runs
addresses ``network`` is there too, and the first two only if it says of some where they are. An entry says what is
known of a source in addition. It is a plain object of JSON, since CURRENT is read on the path of one lookup:

- ``name``, ``kind``, ``snapshot`` (the newest one's number) and ``digest``; ``layer`` if it says who runs addresses
  (``network``, or ``both``); of a source that was never pulled 0 and "",
  and no moment in ``checked_at``;
- ``checked_at``: when the source was last found to have this content, ``pulled_at`` when it was pulled;
- ``dated``: the date or moment (ISO 8601, UTC) that the file says its data are of (of a folder: the oldest that its
  files say); absent or None if it says none;
- ``began_at``: when that check began; ``etag``, ``last_modified``: for the next conditional request;
- ``location`` and ``address`` (without secrets), ``file`` (size and time of change of a local one), ``file_digest``,
  and how it was asked to be read: ``asked_kind``, ``asked_layer``, ``asked_sheet`` and ``fields``;
- ``problem`` and ``since``: why the last sync could not use the source, and from when on that is so;
- ``recognised``: the terms of the provider whose file the newest snapshot was read from, empty if it is of no provider;
- ``max_age_s``, ``max_data_age_s``, ``licence``, ``attribution``, ``keep_days``, ``redistribute``, as the settings were
  at the last sync, and what they did not say as it was recognised;
- ``given``: true if the source is a file that `geolookup sync FILE` was given, and that is not in the settings.
"""

import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from geolookup.model.errors import StateDamagedError
from geolookup.state.base.candidate import read_report
from geolookup.state.base.current import generation_name

SNAPSHOTS = "snapshots"
#: The kinds of source that the state directory tells apart from files, and their names if nobody gives them others.
SERVICE = "service"
REGISTRY = "registry"
#: All that a reader has: what the builder of its fleet published.
FLEET = "fleet"
#: In a reader's folder of that name: whom it believes, and the versions that it has seen.
FLEET_ROOT, FLEET_JOINED = "first.root.json", "joined.json"
#: The source of the embedded default; for a service, the source is its URL.
BUNDLED = "bundled"


#: The layers that a snapshot feeds: one of them, or both.
PLACE, NETWORK, BOTH = "place", "network", "both"


class Part(NamedTuple):
    """One source's snapshot in a stack. ``snapshot`` is its number, 0 until it is published.

    ``layer`` is the one that it feeds: ``place``, ``network`` or ``both``.
    """

    name: str
    kind: str
    snapshot: int
    digest: str
    layer: str = PLACE

    @property
    def has_places(self) -> bool:
        """True if it says where addresses are: then it has a cache.db and an index of places."""
        return self.layer != NETWORK

    @property
    def has_networks(self) -> bool:
        """True if it says who runs addresses: then it has an index of networks."""
        return self.layer != PLACE

    def as_dict(self) -> dict[str, Any]:
        """As it stands in a generation's record: the layer only if it is not that of places."""
        found = self._asdict()
        return found if self.layer != PLACE else {name: value for name, value in found.items() if name != "layer"}


def part_of(found: Mapping[str, Any], *, name: str | None = None, snapshot: int | None = None) -> Part:
    """The part that an entry, a snapshot's record or a member of a stack describes.

    ``name`` and ``snapshot`` are used in place of what it says.

    :raises ValueError: if it says something else
    :raises KeyError: if it lacks a member
    """
    number = int(found["snapshot"]) if snapshot is None else snapshot
    own = str(found["name"]) if name is None else name
    layer = str(found.get("layer", PLACE))
    if layer not in (PLACE, NETWORK, BOTH):
        raise ValueError(f"{layer!r:.40} is no layer")
    return Part(own, str(found.get("kind", SERVICE)), number, str(found["digest"]), layer)


def parts_of(record: Mapping[str, Any]) -> tuple[Part, ...]:
    """The stack of a generation, the source of highest precedence first, by the generation's record.

    :raises ValueError: if the record says something else
    :raises KeyError: if it lacks a member
    """
    parts = tuple(part_of(each) for each in record["stack"])
    if not parts or any(part.snapshot <= 0 for part in parts):
        raise ValueError("`stack` names no snapshots")
    return parts


def has_service(record: Mapping[str, Any]) -> bool:
    """True if a service is in a generation's stack: without one custom geolocations are final, and nothing waits."""
    return any(part.kind == SERVICE for part in parts_of(record))


def is_received(record: Mapping[str, Any]) -> bool:
    """True if a generation came from the builder of a fleet, so that nothing is edited or compiled here."""
    return any(part.kind == FLEET for part in parts_of(record))


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
    """The name in CURRENT's ``refused`` of a part that was rolled back."""
    return part.digest if part.kind in (SERVICE, REGISTRY) else f"{part.name}:{part.digest}"


def refused_in(record: Mapping[str, Any], refused: Iterable[str]) -> bool:
    """True if a generation holds content, or is a stack, that was rolled back."""
    parts = parts_of(record)
    names = {refusal_of_stack(part.name for part in parts), *map(refusal, parts)}
    return not names.isdisjoint(refused)


def refusal_of_stack(names: Iterable[str]) -> str:
    """The name in CURRENT's ``refused`` of a stack that was rolled back: unlike that of any content."""
    return f"stack {' '.join(names)}"


_FROM_RECORD = (
    "pulled_at",
    "began_at",
    "mark",
    "dated",
    "etag",
    "last_modified",
    "location",
    "address",
    "file",
    "file_digest",
    "asked_kind",
    "asked_layer",
    "asked_sheet",
    "fields",
    "given",
    "max_age_s",
    "max_data_age_s",
    "licence",
    "attribution",
    "keep_days",
    "redistribute",
    "recognised",
)


def entry_of(part: Part, record: Mapping[str, Any], *, checked_at: str) -> dict[str, Any]:
    """The entry of a source once its snapshot's ``record`` was written."""
    known = {name: record[name] for name in _FROM_RECORD if record.get(name) not in (None, "")}
    if known.get("given") is False:  # unlike ``redistribute``, where false is what counts
        del known["given"]
    return {**part.as_dict(), "checked_at": checked_at, **known}


def entries_of(home: str, record: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """The entry of each source of a generation if CURRENT has none: as far as the snapshots remember."""
    found = []
    for part in parts_of(record):
        try:
            own: Mapping[str, Any] = read_report(snapshot_path(home, part.snapshot))["published"]
        except StateDamagedError:
            own = {}
        found.append(entry_of(part, own, checked_at=str(own.get("pulled_at", record.get("pulled_at", "")))))
    return tuple(found)
