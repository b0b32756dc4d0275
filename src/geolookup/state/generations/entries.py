"""What CURRENT knows of each source in addition to what is served: its newest snapshot, and when it was last asked.

An entry is a plain object of JSON, since CURRENT is read on the path of one lookup:

- ``name``, ``kind``, ``snapshot`` (its newest one's number) and ``digest``; of a source that never could be pulled 0
  and "", and no moment in ``checked_at``;
- ``checked_at``: when the source was last found to have this content, ``pulled_at`` when it was pulled;
- ``began_at``: when that check began; ``etag``, ``last_modified``: for the next conditional request;
- ``location`` and ``address`` (without secrets), ``file`` (size and time of change of a local one), ``file_digest``,
  and how it was asked to be read: ``asked_kind`` and ``fields``;
- ``problem`` and ``since``: why the last sync could not use the source, and from when on that is so;
- ``recognised``: the terms of the provider whose file the newest snapshot was read from, empty if it is nobody's;
- ``max_age_s``, ``licence``, ``attribution``, ``keep_days``, ``redistribute``, as the settings were at the last sync,
  and what they did not say as it was recognised;
- ``given``: true if the source is a file that `geolookup sync FILE` was given, and that is not in the settings.
"""

from collections.abc import Mapping
from typing import Any

from geolookup.errors import StateDamagedError
from geolookup.state.base.candidate import read_report
from geolookup.state.base.parts import Part, parts_of, snapshot_path

_FROM_RECORD = (
    "pulled_at",
    "began_at",
    "mark",
    "etag",
    "last_modified",
    "location",
    "address",
    "file",
    "file_digest",
    "asked_kind",
    "fields",
    "given",
    "max_age_s",
    "licence",
    "attribution",
    "keep_days",
    "redistribute",
    "recognised",
)


def entry_of(part: Part, record: Mapping[str, Any], *, checked_at: str) -> dict[str, Any]:
    """What is known of a source once its snapshot's ``record`` was written."""
    known = {name: record[name] for name in _FROM_RECORD if record.get(name) not in (None, "")}
    if known.get("given") is False:  # unlike ``redistribute``, where false is what counts
        del known["given"]
    return {**part.as_dict(), "checked_at": checked_at, **known}


def entries_of(home: str, record: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """What is known of each source of a generation if CURRENT does not say: as far as the snapshots remember."""
    found = []
    for part in parts_of(record):
        try:
            own: Mapping[str, Any] = read_report(snapshot_path(home, part.snapshot))["published"]
        except StateDamagedError:
            own = {}
        found.append(entry_of(part, own, checked_at=str(own.get("pulled_at", record.get("pulled_at", "")))))
    return tuple(found)
