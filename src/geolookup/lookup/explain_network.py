"""Which source said each fact of an address's network, and which others said something else."""

from typing import TYPE_CHECKING

from geolookup.index import mmdb
from geolookup.index.layout import EMPTY
from geolookup.index.reader import IndexReader
from geolookup.lookup.network import key_of
from geolookup.model.addresses import held_in
from geolookup.model.errors import IndexDamagedError
from geolookup.model.facts import NETWORK_FACTS
from geolookup.model.reports import ExplainedFact
from geolookup.state.base.parts import parts_of, snapshot_path
from geolookup.state.packs.reading import readable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from geolookup.lookup.network import Networks
    from geolookup.lookup.snapshot import Snapshot
    from geolookup.model.addresses import Family

_NAMES = {key_of(fact): name for name, fact in NETWORK_FACTS.items()}


def explained_facts(snapshot: "Snapshot", home: str, family: "Family", value: int) -> tuple[ExplainedFact, ...]:
    """The facts of an address's network, each with who said it; nothing if no source says anything of it.

    The snapshots of all sources are asked, by the address whose facts these are.

    :raises IndexDamagedError: if an index is damaged there
    """
    networks = snapshot.networks()
    if networks is None:
        return ()
    number = networks.reader.record(family, value)
    if number == EMPTY and family == 6 and (held := held_in(value)) is not None:
        family, value = 4, held
        number = networks.reader.record(family, value)
    if number == EMPTY:
        return ()
    found, said = networks.reader.parts(number), networks.reader.said(number)
    asked = {
        part.name: _parts(f"{snapshot_path(home, part.snapshot)}/network", family, value)
        for part in parts_of(snapshot.current.published)
        if part.has_networks
    }
    order = sorted(found, key=lambda key: (key not in _NAMES, list(_NAMES).index(key) if key in _NAMES else 0, key))
    return tuple(
        ExplainedFact(
            name=_NAMES.get(key, key),
            value=_plain(found[key]),
            source=said[key],
            others=tuple(
                (name, _plain(parts[key]))
                for name, parts in asked.items()
                if name != said[key] and key in parts and parts[key] != found[key]
            ),
        )
        for key in order
    )


def facts_of_network(networks: "Networks | None", family: "Family", value: int) -> dict[str, object]:
    """The facts of an address's network by name, as `explained_facts` has them; none if nothing is known of it.

    :raises IndexDamagedError: if the index is damaged there
    """
    number = EMPTY if networks is None else networks.record(family, value)
    if networks is None or number == EMPTY:
        return {}
    return {_NAMES.get(key, key): _plain(part) for key, part in networks.reader.parts(number).items()}


def _parts(path: str, family: "Family", value: int) -> "Mapping[str, bytes]":
    """What one source says of an address itself."""
    with IndexReader.open(readable(path)) as reader:
        number = reader.record(family, value)
        return {} if number == EMPTY else reader.parts(number)


def _plain(part: bytes) -> object:
    try:
        return mmdb.plain(part)
    except mmdb.BadValueError as error:
        raise IndexDamagedError(f"a fact of a network: {error}: the index file is damaged") from error
