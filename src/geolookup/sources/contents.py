"""The contents of a source, for a person who looks at it before it is used."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from geolookup.index.flatten import Array
from geolookup.model.errors import DataFileError, PullError
from geolookup.model.fields import FIELD_NAMES
from geolookup.model.reports import Progress, unwatched
from geolookup.sources.blocks import MASKED, NetworkBatch
from geolookup.sources.definition import file_name
from geolookup.sources.kinds.service import ServiceReading
from geolookup.sources.places import Places
from geolookup.sources.protocol import BadRow, Gathered, KeptKey, Reading
from geolookup.sources.providers import recognised
from geolookup.sources.shape import OURS, path_of

#: So many places are looked at together.
_PLACES = 1 << 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """A source that was read to its end, or as far as it can be read.

    ``files`` are those of an archive or folder that are read, ``not_read`` the others, in the order of their names;
    both are empty of a single file. ``rows`` counts what the file holds, ``blocks_v4`` and ``blocks_v6`` what can be
    looked up of it, ``masks`` those of the blocks that are known to have no location. ``places`` counts those that
    blocks lead to, ``countries`` are their codes, sorted. ``network_blocks`` say who runs addresses, in ``networks``
    different ways; ``facts`` are their keys. ``columns_not_read`` are columns that are no fields of ours,
    ``keys`` those of records and columns, with where they are kept. ``dated`` is when the file says that it was made
    (ISO 8601), or empty. ``licence``, ``attribution``, ``redistribute`` and ``keep_days`` are the terms of the provider
    whose file this seems to be, or empty, true and None. ``bad`` counts the bad rows, of which ``bad_rows`` are the
    first thousand. ``refused`` is why a sync would not publish it, or None.
    """

    name: str
    kind: str
    files: tuple[str, ...]
    not_read: tuple[str, ...]
    rows: int
    blocks_v4: int
    blocks_v6: int
    masks: int
    places: int
    countries: tuple[str, ...]
    network_blocks: int
    networks: int
    facts: tuple[str, ...]
    columns_not_read: tuple[str, ...]
    keys: tuple[KeptKey, ...]
    rows_without_location: int
    custom_left_out: int
    dated: str
    about: dict[str, str]
    licence: str
    attribution: str
    redistribute: bool
    keep_days: int | None
    warnings: tuple[str, ...]
    bad: int
    bad_rows: tuple[BadRow, ...]
    refused: str | None

    def as_dict(self) -> dict[str, Any]:
        """All of it by name, for ``--json``."""
        return asdict(self)


def contents_of(
    reading: Reading | ServiceReading,
    progress: Progress = unwatched,
    *,
    location: str = "",
) -> Contents:
    """Read a source to its end; ``progress`` is told the rows so far.

    ``location`` is where the file was fetched from, if it is a temporary copy.
    """
    four = six = 0
    seen, networks = _Seen(), _Seen()
    gathered = reading.gathered
    gathered.tell = progress
    refused: str | None = None
    try:
        for batch in reading.batches(lenient=True, networks=True):
            if isinstance(batch, NetworkBatch):
                for family in batch:
                    networks.add(family.place)
                continue
            four += len(batch.v4.place)
            six += len(batch.v6.place)
            for family in batch:
                seen.add(family.place[family.place != MASKED])
            progress(gathered.decoded + gathered.rows, gathered.expected)
        gathered.check(reading.name, reading.limits)
    except (DataFileError, PullError) as error:
        refused = str(error)
    # Places of bad rows do not count; those of a list may have no blocks yet.
    places = seen.numbers() if gathered.places.locids is None else np.arange(len(gathered.places))
    about = dict(gathered.about)
    terms = recognised(reading.kind, about, (file_name(location or reading.name), *reading.names))
    return Contents(
        name=reading.name,
        kind=reading.kind,
        files=tuple(name for name in reading.names if name in gathered.files),
        not_read=tuple(name for name in reading.names if name not in gathered.files),
        rows=gathered.rows,
        blocks_v4=four,
        blocks_v6=six,
        masks=gathered.masks,
        places=len(places),
        network_blocks=gathered.network_blocks,
        networks=len(networks.numbers()),
        facts=tuple(sorted(gathered.networks.names)) if gathered.network_blocks else (),
        countries=tuple(sorted(_countries(gathered.places, places))),
        columns_not_read=tuple(gathered.columns_not_read),
        keys=(*map(gathered.in_layer, _fields(gathered)), *gathered.keys),
        rows_without_location=gathered.rows_without_location,
        custom_left_out=gathered.custom_left_out,
        dated=gathered.dated or "",
        about=about,
        licence="" if terms is None else terms.licence,
        attribution="" if terms is None else terms.attribution,
        redistribute=terms is None or terms.redistribute,
        keep_days=None if terms is None else terms.keep_days,
        warnings=tuple(gathered.warnings),
        bad=gathered.bad,
        bad_rows=tuple(gathered.bad_in_order()),
        refused=refused,
    )


class _Seen:
    """Numbers that came, each of which may come often."""

    def __init__(self) -> None:
        self._flags = np.zeros(0, np.bool_)

    def add(self, numbers: Array) -> None:
        """Note numbers."""
        room = int(numbers.max(initial=0)) + 1 - len(self._flags)
        if room > 0:
            self._flags = np.append(self._flags, np.zeros(room, np.bool_))
        self._flags[numbers] = True

    def numbers(self) -> Array:
        """Those that came, ascending."""
        return np.flatnonzero(self._flags)


def _countries(table: Places, numbers: Array) -> set[str]:
    """The countries of places."""
    found: set[int] = set()
    for begin in range(0, len(numbers), _PLACES):
        found.update(np.unique(table.columns(numbers[begin : begin + _PLACES])[0]["country"]).tolist())
    return {table.text(number) for number in found} - {""}


def _fields(gathered: Gathered) -> Iterator[KeptKey]:
    """The columns of our fields, and how many places have them."""
    for name, column in gathered.fields.items():
        at = FIELD_NAMES.index(name)
        counts = Counter(
            path_of(OURS + name, str(place[at])) for place in gathered.places if place[at] not in ("", None)
        )
        for path, count in counts.items():
            kept_as = f"the field {name}" if path[0] == "extra" else ".".join(map(str, path))
            yield KeptKey(key=column, kept_as=kept_as, records=count)
