"""What kinds of database a state stands for, and what it says of itself as one."""

import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from maxminddb.reader import Metadata

from geolookup.index.reader import IndexReader
from geolookup.lookup.snapshot import Snapshot
from geolookup.state.base.candidate import read_report
from geolookup.state.base.parts import Part, parts_of, snapshot_path
from geolookup.state.packs.reading import readable

#: The keys of the records that each kind of database of networks has, by the name of its type.
NETWORK_KINDS: Final[dict[str, frozenset[str]]] = {
    "GeoLite2-ASN": frozenset(("autonomous_system_number", "autonomous_system_organization")),
    "GeoIP2-ISP": frozenset(("isp", "organization", "mobile_country_code", "mobile_network_code")),
    "GeoIP2-Connection-Type": frozenset(("connection_type",)),
    "GeoIP2-Domain": frozenset(("domain",)),
    "GeoIP2-Anonymous-IP": frozenset(
        (
            *("is_anonymous", "is_anonymous_vpn", "is_hosting_provider", "is_public_proxy"),
            *("is_residential_proxy", "is_tor_exit_node"),
        )
    ),
    "GeoIP-Anonymous-Plus": frozenset(("anonymizer_confidence", "network_last_seen", "provider_name")),
}
#: The kinds of places. A source that is no GeoIP2 database answers as the first two of them.
PLACE_KINDS: Final = ("City", "Country", "Enterprise")
#: A file of these says by its name alone what it is.
_MAXMIND = ("GeoIP", "GeoLite")


def _type_of(home: str, part: Part, about: Mapping[str, str]) -> str:
    """The type of one source as a database: its file's own name for it, or what its content is compatible with."""
    named = about.get("database_type", "")
    if named.startswith(_MAXMIND) or any(kind in named for kind in (*PLACE_KINDS, *NETWORK_KINDS)):
        return named
    kinds = list(PLACE_KINDS[:2]) if part.has_places else []
    if part.has_networks:
        path = os.path.join(snapshot_path(home, part.snapshot), "network")
        with IndexReader.open(readable(path)) as reader:
            keys = {*reader.record_keys}
        kinds += [kind for kind, own in NETWORK_KINDS.items() if not own.isdisjoint(keys)]
    named = named or f"geolookup-{part.kind}"
    return f"{named} (compat={', '.join(kinds)})" if kinds else named


def metadata_of(home: str, snapshot: Snapshot) -> Metadata:
    """What a state says of itself as a MaxMind DB: of a single file what that says, of several all of it.

    There is no search tree, so ``node_count`` and ``record_size`` are those of the file, or the number of ranges.

    :raises StateDamagedError: if the report of a snapshot is not what was written
    """
    current = snapshot.current
    parts = parts_of(current.published)
    abouts = [_about(home, part) for part in parts]
    types = dict.fromkeys(_type_of(home, part, about) for part, about in zip(parts, abouts, strict=True))
    dated = max([str(entry.get("dated") or "") for entry in current.sources] or [""]) or current.published_at
    built = datetime.fromisoformat(dated if "T" in dated else f"{dated}T00:00:00+00:00")
    base, custom = snapshot.base.reader, snapshot.custom.reader
    ranges = sum(each.segment_count_v4 + each.segment_count_v6 for each in (base, custom))
    only_v4 = not custom.segment_count_v6 and all(about.get("ip_version") == "4" for about in abouts)
    return Metadata(
        binary_format_major_version=2,
        binary_format_minor_version=0,
        build_epoch=int(built.timestamp()),
        database_type=", ".join(types),
        description=dict(_descriptions(abouts)),
        ip_version=4 if only_v4 else 6,
        languages=list(dict.fromkeys(name for about in abouts for name in about.get("languages", "").split())),
        node_count=sum(int(about["node_count"]) for about in abouts if "node_count" in about) or ranges,
        record_size=max([int(about["record_size"]) for about in abouts if "record_size" in about] or [32]),
    )


def _about(home: str, part: Part) -> dict[str, str]:
    """What a source's file says of itself; nothing if it is no file."""
    record: dict[str, Any] = read_report(snapshot_path(home, part.snapshot))["published"]
    return {str(name): str(value) for name, value in (record.get("about") or {}).items()}


def _descriptions(abouts: list[dict[str, str]]) -> Iterator[tuple[str, str]]:
    """The descriptions of all files by their language."""
    found: dict[str, dict[str, None]] = {}
    for about in abouts:
        for name, text in about.items():
            if name.partition(".")[0] == "description":
                found.setdefault(name.partition(".")[2] or "en", {})[text] = None
    for language, texts in found.items():
        yield language, "; ".join(texts)
