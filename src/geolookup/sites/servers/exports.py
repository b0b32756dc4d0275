"""The lists of NetBox and Nautobot as they export them: a CSV file each, known by its header.

NetBox (Export > All Data (CSV)) writes titles for columns (``Physical Address``, ``Scope Type``), the name of what a
row refers to, the label of its status, and for a VRF its name with the route distinguisher in brackets, or ``Global``
(netbox/netbox/tables in its source). Nautobot writes the parts of a name as columns (``location__parent__name``), and
``NoObject`` where there is none (https://docs.nautobot.com/projects/core/en/stable/user-guide/feature-guides/import-and-export/).
"""

import contextlib
import csv
import html
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from geolookup.base.text import count, harmless
from geolookup.files.converted import guessed
from geolookup.files.headers import Header, find_header
from geolookup.files.opened import Member, Opened
from geolookup.files.streams import Limits
from geolookup.files.tables import Table
from geolookup.model.errors import DataFileError
from geolookup.settings.sites import SitesSettings
from geolookup.sites.servers.inventory import Inventory, Place, Row, named_domains
from geolookup.sites.site import Problems, Where

#: The name of all such files in messages, and of what was applied last: their own names may have a date.
ORIGIN: Final = "netbox-csv"
_LIMITS: Final = Limits(line_bytes=1 << 24, expanded_bytes=1 << 30)
#: Columns that have several names; those of Nautobot end in what they tell of another object.
_CALLED: Final = {
    "ip_address": "address",
    "status_name": "status",
    "location": "site",
    "location_name": "site",
    "device_vm": "device",
    "assigned_object_parent": "device",
    "namespace_name": "namespace",
    "parent_namespace_name": "namespace",
    "location_type_name": "location_type",
}
#: Each list by the columns that only it has, the first that fits; of several sets one is enough.
_KINDS: Final[Mapping[str, tuple[frozenset[str], ...]]] = {
    "virtual-machines": (frozenset({"name", "site", "vcpus"}),),
    "locations": (frozenset({"name", "site", "slug"}),),
    "devices": (frozenset({"name", "site", "status"}),),
    "sites": tuple(frozenset({"name", "status", each}) for each in ("slug", "latitude", "location_type")),
    "prefixes": (frozenset({"prefix", "status"}),),
    "ip-ranges": (frozenset({"start_address", "end_address", "status"}),),
    "ip-addresses": (frozenset({"address", "status"}),),
}
_KNOWN: Final = frozenset[str]().union(*(each for sets in _KINDS.values() for each in sets))
_BLOCKS: Final = {"prefixes": "prefix", "ip-ranges": "range", "ip-addresses": "address"}
#: The columns of prefixes that may name their site.
_OF_SITE: Final = frozenset({"site", "scope", "scope_id"})
_NOTHING: Final = ("NoObject", "NULL", "—")
_GLOBAL: Final = "Global"
_WITH_RD: Final = re.compile(r"(.+) \(([0-9.]+:[0-9]+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """A row: ``at`` says where it stands, ``values`` are by the name of the column as the REST API has it."""

    at: str
    values: Mapping[str, Any]

    def text(self, name: str) -> str:
        """What stands in a column, "" if nothing does or there is none."""
        return str(self.values.get(name, ""))

    def domain(self) -> str:
        """What stands for its routing domain: NetBox writes a VRF as its page shows it, in HTML."""
        return html.unescape(self.text("vrf")) or self.text("namespace")

    def chain(self, stem: str) -> list[str]:
        """The names of a place and of those above it, as Nautobot writes them beside its name."""
        found = []
        while name := self.text(f"{stem}name"):
            found.append(name)
            stem += "parent_"
        return found

    def key(self, name: str, stem: str = "") -> str:
        """The key of the place that a column names."""
        return ", ".join(self.chain(stem)) if self.text(f"{stem}parent_name") else self.text(name)


class _Export:
    """One file: which list it is, and its rows."""

    rows = 0

    def __init__(self, member: Member, header: Header, problems: Problems) -> None:
        self.member = member
        self._header = header
        self._problems = problems
        self._names = [_named(column) for column in header.columns]
        self.columns = frozenset(_CALLED.get(name, name) for name in self._names if name)
        self.kind = next((kind for kind, sets in _KINDS.items() if any(each <= self.columns for each in sets)), "")

    def leave_out(self, number: int, line: int | None, reason: str, *, count: int = 1) -> None:
        """See `files.tables.Report`."""
        del number
        where = Where(path=self.member.name, find=lambda _key, _text: line, word=self.member.word)
        self._problems.add(where.problem("is not a row of the table", reason))
        self._problems.add_unnamed(count - 1)

    def lines(self) -> Iterator[_Line]:
        """Its rows."""
        table = Table(self.member, _LIMITS, self, cp1252=True, skip=self._header.skip, separator=self._header.separator)
        limit = csv.field_size_limit(_LIMITS.line_bytes)  # it applies to the whole process, so it is reset afterwards
        try:
            width = len(table.header(repeated=True))
            for chunk in table.chunks(width, exact=True):
                for row, line in zip(chunk.rows, chunk.lines, strict=True):
                    yield _Line(at=f"{self.member.name}, {self.member.word} {line}", values=self._values(row))
        finally:
            csv.field_size_limit(limit)
        if table.guessed:
            self._problems.said.append(guessed(self.member.name, self.member.word, table.guessed))

    def _values(self, row: Sequence[str]) -> dict[str, Any]:
        said = {name: text for name, cell in zip(self._names, row, strict=True) if name and (text := _said(cell))}
        # An export has the custom fields among the others: Nautobot's begin so.
        custom = {name.removeprefix("cf_"): text for name, text in said.items()}
        called = {_CALLED[name]: text for name, text in said.items() if name in _CALLED}
        return {**called, **said, "custom_fields": custom}


def _named(column: str) -> str:
    """The name of a column as the REST API has it, of its title."""
    return re.sub(r"[\W_]+", "_", column.casefold()).strip("_")


def _said(cell: str) -> str:
    text = cell.strip()
    return "" if text in _NOTHING else text


def read(
    paths: Sequence[str], settings: SitesSettings, problems: Problems, shown: Callable[[str], str] = str
) -> Inventory:
    """All that exports say of sites and their networks; ``paths`` are files, or folders that hold them.

    ``shown`` makes of the path of a file what messages call it.

    :raises DataFileError: if one cannot be read, is of no list, or is of the same list as another; or if that of the
        sites, or of the prefixes, is missing
    """
    with contextlib.ExitStack() as stack:
        found: dict[str, _Export] = {}
        for path in paths:
            if not os.path.exists(path):
                raise DataFileError(f"{path}: cannot be read: no such file")
            opened = stack.enter_context(contextlib.closing(Opened(path, _LIMITS, name=shown(path))))
            for member in opened.members:
                _sort(member, found, problems, alone=len(opened.members) == 1)
        _refuse_missing(found, settings, [*map(shown, paths)])
        lists = {kind: list(export.lines()) for kind, export in found.items()}
    return _Reading(lists, settings, problems).inventory()


def _sort(member: Member, found: dict[str, _Export], problems: Problems, *, alone: bool) -> None:
    """Put a file to the others; one among others that is of no list is passed over."""
    header = find_header(member.head, lambda row: len(_KNOWN & {_CALLED.get(n, n) for n in map(_named, row)}), least=2)
    export = None if header is None else _Export(member, header, problems)
    if export is None or not export.kind:
        first = harmless(member.head.decode("utf-8-sig", "replace").strip().partition("\n")[0].strip(), 120)
        message = f'{member.name}: is no export of {", ".join(_KINDS)}: its first line is "{first}"'
        if alone:
            raise DataFileError(f"{message}. Export all data as CSV, with the language of the user set to English")
        problems.said.append(f"{message}: not read")
    elif export.kind in found:
        both = f"{found[export.kind].member.name} and {member.name}"
        raise DataFileError(f"{both}: are both exports of {export.kind}: give the one that is to be read")
    else:
        found[export.kind] = export
        problems.said.append(f"{member.name}: read as the export of {export.kind}")


def _refuse_missing(found: Mapping[str, _Export], settings: SitesSettings, paths: Sequence[str]) -> None:
    needed = ["sites"] if settings.block_site and found.keys() & _BLOCKS else ["sites", "prefixes"]
    lacking = [kind for kind in needed if kind not in found]
    if lacking:
        raise DataFileError(
            f"{', '.join(paths)}: the export of {' and that of '.join(lacking)} is missing: open the list of "
            f"{' and that of '.join(lacking)} there, choose Export > All Data (CSV), and give that file, too"
        )
    if "prefixes" in found and not settings.block_site and not found["prefixes"].columns & _OF_SITE:
        raise DataFileError(
            f"{found['prefixes'].member.name}: no column names the site of a prefix (site, scope or location__name): "
            "export all data, not the current view; or say under [sites] which custom field does: block_site"
        )


class _Reading:
    """What the lists mean."""

    def __init__(self, lists: Mapping[str, list[_Line]], settings: SitesSettings, problems: Problems) -> None:
        self._lists = lists
        self._settings = settings
        self._problems = problems
        places = {place.key: place for line in lists["sites"] for place in _places(line)}
        wanted = settings.location_type
        self._found = Inventory(
            places=places,
            sites=frozenset(
                key for key, each in places.items() if each.kind != "region" and (not wanted or each.kind == wanted)
            ),
            # A list that is not given has no rows: so the guard notices that it was there the last time.
            counts={kind: len(lists.get(kind, [])) for kind in ("sites", *settings.lists)},
            unseen="are the exports whole, and of one time?",
        )
        self._by_id = {line.text("id"): line.key("name") for line in lists["sites"] if line.text("id")}
        self._housed = {
            kind: _sites_by_name(lists.get(kind, [])) for kind in ("locations", "devices", "virtual-machines")
        }
        self._unknown: set[str] = set()
        said = {line.domain() for kind in _BLOCKS for line in lists.get(kind, [])}
        parts = {text: match.groups() if (match := _WITH_RD.fullmatch(text)) else (text, "") for text in said}
        self._domains = named_domains((text, name, rd) for text, (name, rd) in parts.items())
        self._domains |= {"": "", _GLOBAL: ""}

    def inventory(self) -> Inventory:
        """All rows, with the places that they name."""
        for kind, word in _BLOCKS.items():
            for line in self._lists.get(kind, []) if kind in self._settings.lists else []:
                place, elsewhere = self._place_of(line)
                status = line.text("status")
                self._found.rows.append(
                    Row(
                        what=line.at,
                        text=_block(line, word),
                        domain=self._domains[line.domain()],
                        place=place if place is None else self._of_type(place),
                        status=status,
                        container="container" in (status.casefold(), line.text("type").casefold()),
                        kind=word,
                        elsewhere=elsewhere,
                    )
                )
        if self._unknown:
            those = f"addresses of {count(len(self._unknown), 'device')} of which no export says the one site"
            self._problems.said.append(
                f"{ORIGIN}: {those}: they are of the site of the network around them (the first: {min(self._unknown)})"
            )
        return self._found

    def _place_of(self, line: _Line) -> tuple[str | None, str]:
        """The site that a row names, if it names one; else what it names in its place."""
        if self._settings.block_site and (own := line.values["custom_fields"].get(self._settings.block_site)):
            return self._found.place_of(own), ""
        if line.text("site"):
            return line.key("site", "location_"), ""
        scope, number = line.text("scope"), line.text("scope_id")
        kind = re.split(r"[.|]", line.text("scope_type"))[-1].strip().casefold()
        if scope and not kind:  # the current view leaves out what kind of thing it is
            kind = (
                "site" if scope in self._found.sites else "location" if scope in self._housed["locations"] else "scope"
            )
        if kind == "site":
            return (self._by_id.get(number, f"site {number}") if number else scope), ""
        if kind == "location":
            return self._of_location(line, scope), ""
        # In NetBox an address has the device that it is assigned to as its parent.
        device = line.text("device") or line.text("parent")
        return self._of_device(device) if device else None, kind

    def _of_location(self, line: _Line, name: str) -> str | None:
        """The site of a location, whose name is its own only in its site."""
        sites = self._housed["locations"].get(name, set())
        if len(sites) == 1:
            return next(iter(sites))
        where = Where(path=ORIGIN, find=lambda _key, _text: None)
        known = "several sites have one of this name" if sites else "it is not in the export of locations: give it, too"
        message = f"{line.at}: is of location {name!r:.60}: {known}"
        self._problems.add(where.problem("it is of a location whose site is not known", message, "blocks", name))
        return None

    def _of_device(self, name: str) -> str | None:
        sites = self._housed["devices"].get(name, set()) | self._housed["virtual-machines"].get(name, set())
        if len(sites) == 1:
            return next(iter(sites))
        self._unknown.add(name)
        return None

    def _of_type(self, key: str) -> str:
        """The place above a location of Nautobot that is of the type of sites; itself if none is."""
        wanted = self._settings.location_type
        if not wanted or key not in self._found.places:
            return key
        chain = [self._found.places[key], *self._found.above(key)]
        return next((place.key for place in chain if place.kind == wanted), key)


def _places(line: _Line) -> Iterator[Place]:
    """A site, and the region that it names: exports do not say what is above that."""
    region, above = line.text("region"), line.chain("parent_")
    over = ", ".join(above) if above else f"region {region}" if region else None
    if region and not above:
        yield Place(key=f"region {region}", name=region, values={}, above=None, kind="region")
    kind = line.text("location_type") or "site"
    yield Place(key=line.key("name"), name=line.text("name"), values=line.values, above=over, kind=kind)


def _sites_by_name(lines: Sequence[_Line]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for line in lines:
        found.setdefault(line.text("name"), set()).update(filter(None, [line.key("site", "location_")]))
    return found


def _block(line: _Line, word: str) -> str:
    if word == "prefix":
        return line.text("prefix")
    if word == "address":
        return line.text("address").partition("/")[0]
    return "-".join(line.text(name).partition("/")[0] for name in ("start_address", "end_address"))
