"""The kind of source that a file is, by its content, and opening it."""

import os
import re
from collections.abc import Mapping, Sequence

from geolookup.base.text import harmless
from geolookup.files.opened import Member, Opened
from geolookup.files.streams import Limits
from geolookup.model.errors import DataFileError, SettingsError
from geolookup.settings.source import RANGE_NAMES
from geolookup.sources.bundled import bundled_ranges_path
from geolookup.sources.kinds import (
    asn_table,
    cloud_ranges,
    dbip_csv,
    geofeed,
    geolite2_csv,
    ip2location_csv,
    legacy_csv,
    mmdb,
    ranges_csv,
    rir,
)
from geolookup.sources.kinds import list as saved_list
from geolookup.sources.protocol import Kind, Reading, Request

#: All kinds that are read from files, in the order in which they are tried: the more particular before the general.
KINDS: tuple[Kind, ...] = (
    mmdb.KIND,
    saved_list.KIND,
    cloud_ranges.KIND,
    geolite2_csv.KIND,
    legacy_csv.KIND,
    rir.KIND,
    ip2location_csv.KIND,
    ranges_csv.KIND,
    asn_table.KIND,
    asn_table.PYASN,
    dbip_csv.KIND,
    geofeed.KIND,
    ranges_csv.REGISTRY,
)

_BY_NAME = {kind.name: kind for kind in KINDS}
_SHOWN_FILES = 5
#: The beginning of a page that a server answers in place of a file: a login, an error, a list of a folder.
_HTML = re.compile(rb"\s*<(?:!doctype\s+html|html|head|title)\b", re.IGNORECASE)


def open_source(
    location: str | os.PathLike[str],
    *,
    kind: str | None = None,
    fields: Mapping[str, str] | None = None,
    layer: str = "",
    sheet: str = "",
    limits: Limits | None = None,
) -> Reading:
    """Open a file or folder as a source: of the kind that its content says, or of the one that is asked for.

    For the kind ``registry`` the location is not looked at. ``fields`` maps our field names to keys or columns, for
    kinds that take that; in a table also ``network``, or ``first`` and ``last``, which makes it a ``ranges-csv``.
    ``layer`` is the only layer that it shall feed, ``place`` or ``network``; if empty, its content decides. ``sheet``
    is the only sheet of a workbook that is read.

    :raises DataFileError: if it cannot be read, has no such sheet, or fits no kind: says what was seen
    :raises SettingsError: if the kind is unknown, or it takes no ``fields``
    """
    bounds = limits or Limits()
    chosen = named(kind) if kind is not None else None
    where = bundled_ranges_path() if chosen is ranges_csv.REGISTRY else location
    opened = Opened(where, bounds, sheet=sheet or None)
    try:
        if chosen is None:
            # Columns that hold the range are named in tables only, even if rows look like others.
            names_range = fields is not None and not fields.keys().isdisjoint(RANGE_NAMES)
            is_table = names_range and not any(map(mmdb.KIND.fits, opened.members))
            chosen = ranges_csv.KIND if is_table else kind_of(opened)
        if fields and not chosen.maps_fields:
            raise SettingsError(f"{opened.name}: `fields` is for other kinds: this is {chosen.name}")
        reading = Reading(chosen, opened, Request(limits=bounds, fields=fields or {}, layer=layer))
    except BaseException:
        opened.close()
        raise
    reading.gathered.warnings += _of_other_kinds(opened, chosen)
    return reading


def _of_other_kinds(opened: Opened, chosen: Kind) -> list[str]:
    """That data in a folder or archive are not read, since they are of another kind. Licences and the like are none."""
    if len(opened.members) < 2 or chosen is ranges_csv.REGISTRY:
        return []
    left = [member for member in opened.members if not chosen.fits(member)]
    kinds = [(member, _fitting([member])) for member in left]
    found = [(member, kind) for member, kind in kinds if kind is not None and kind is not chosen]
    if not found:
        return []
    shown = ", ".join(f"{harmless(member.inside, 80)} ({kind.name})" for member, kind in found[:_SHOWN_FILES])
    more = ", …" if len(found) > _SHOWN_FILES else ""
    return [f"{opened.name}: read as {chosen.name}, so files of other kinds in it are not read: {shown}{more}"]


def named(name: str) -> Kind:
    """The kind of this name.

    :raises SettingsError: if there is none
    """
    try:
        return _BY_NAME[name]
    except KeyError:
        raise SettingsError(f"{name!r:.60} is an unknown kind: there are {', '.join(_BY_NAME)}") from None


def kind_of(opened: Opened) -> Kind:
    """The first kind that an input fits.

    :raises DataFileError: if it fits none
    """
    found = _fitting(opened.members)
    if found is not None:
        return found
    if len(opened.members) == 1 and not opened.members[0].head:
        raise DataFileError(f"{opened.name}: the file is empty")
    raise DataFileError(
        f"{opened.name}: {_seen(opened)}: no kind of source begins so. There are:",
        *(f"  {kind.name}: {kind.summary}" for kind in KINDS),
        "To have it read as one of them: --kind NAME, which `sync`, `check` and `source add` take",
        "A table whose first line names its columns otherwise: --field network=COLUMN --field country=COLUMN",
    )


def _fitting(members: Sequence[Member]) -> Kind | None:
    """The first kind that any of the files fits; else a table whose columns are like those of ranges."""
    found = next((kind for kind in KINDS if any(map(kind.fits, members))), None)
    return ranges_csv.KIND if found is None and any(map(ranges_csv.is_alike, members)) else found


def _seen(opened: Opened) -> str:
    members = opened.members
    if not members:
        return "it holds no files"
    if len(members) > 1:
        shown = [f"{harmless(member.inside, 80)}: {_content(member, 40)}" for member in members[:_SHOWN_FILES]]
        more = "; …" if len(members) > _SHOWN_FILES else ""
        return f"it holds {len(members)} files ({'; '.join(shown)}{more})"
    return _content(members[0], 120)


def _content(member: Member, most: int) -> str:
    """A file's content in a few words."""
    head = member.head
    if not head:
        return "it is empty"
    if b"\0" in head:
        begin = f"it holds binary data that begin with {head[:8].hex(' ')}"
        return f"{begin} (a MaxMind DB that was cut short has lost the metadata at its end)"
    line = head.decode("utf-8", "replace").strip().partition("\n")[0]
    if "\r" in line.rstrip("\r"):
        line = harmless(line.partition("\r")[0], most)
        return f'its lines end in carriage returns alone (save it as CSV UTF-8), and the first is "{line}"'
    if saved_list.is_json(member):
        return f'it is JSON without a geolocation at its beginning (an object with a locid): "{harmless(line, most)}"'
    if _HTML.match(head):
        return f'it is a web page: "{harmless(line, most)}"'
    return f'its first line is "{harmless(line, most)}"'
