"""``cloud-ranges``: the addresses of a cloud, as its provider publishes them, in JSON: AWS, Azure, Google, Oracle,
Cloudflare, Fastly, GitHub.

A file says of each prefix the region and the services, mostly of one prefix in several rows. The region gives the
place (`cloud_regions`). A prefix of which a file says no region has that of the prefix around it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from geolookup.base.reasons import reason
from geolookup.base.text import harmless
from geolookup.files.opened import Member, Opened
from geolookup.index import mmdb
from geolookup.model import addresses
from geolookup.model.errors import DataFileError, InvalidAddressError, InvalidRangeError
from geolookup.sources.blocks import Batch, NetworkBatch, from_ranges
from geolookup.sources.cloud_regions import is_somewhere, place_of_region
from geolookup.sources.places import BadFieldError, PlaceFields, text
from geolookup.sources.protocol import Gathered, KeptKey, Kind, Request

#: Azure's file, the largest, has 5 MB.
_MOST_BYTES = 256 << 20
_CHUNK_BYTES = 1 << 20
_SHOWN = 8
#: Services that stand for all of a cloud's: what else is said of the same addresses says more.
_WHOLE = frozenset(("AMAZON", "AzureCloud", "OSN"))


class _Row(NamedTuple):
    """A prefix; ``region`` is empty if nothing is said of it. ``zone`` is the region, or the part of it that has a
    place of its own."""

    prefix: Any
    region: str = ""
    services: tuple[str, ...] = ()
    zone: str = ""


def _of_aws(document: Mapping[str, Any]) -> Iterator[_Row]:
    for rows, key in (("prefixes", "ip_prefix"), ("ipv6_prefixes", "ipv6_prefix")):
        for row in _maps(document.get(rows)):
            region = _word(row, "region")
            yield _Row(row.get(key), region, _words(row.get("service")), _word(row, "network_border_group") or region)


def _of_azure(document: Mapping[str, Any]) -> Iterator[_Row]:
    for tag in _maps(document.get("values")):
        about = next(_maps([tag.get("properties")]), {})
        service = _word(tag, "name").partition(".")[0]
        for prefix in _list(about.get("addressPrefixes")):
            yield _Row(prefix, _word(about, "region"), _words(service))


def _of_google(document: Mapping[str, Any]) -> Iterator[_Row]:
    for row in _maps(document.get("prefixes")):
        prefix = row.get("ipv4Prefix", row.get("ipv6Prefix"))
        yield _Row(prefix, _word(row, "scope"), _words(row.get("service")))


def _of_oracle(document: Mapping[str, Any]) -> Iterator[_Row]:
    for region in _maps(document.get("regions")):
        for row in _maps(region.get("cidrs")):
            yield _Row(row.get("cidr"), _word(region, "region"), tuple(filter(_is_text, _list(row.get("tags")))))


def _of_cloudflare(document: Mapping[str, Any]) -> Iterator[_Row]:
    result = next(_maps([document.get("result")]), document)
    for key in ("ipv4_cidrs", "ipv6_cidrs", "jdcloud_cidrs"):
        yield from map(_Row, _list(result.get(key)))


def _of_fastly(document: Mapping[str, Any]) -> Iterator[_Row]:
    for key in ("addresses", "ipv6_addresses"):
        yield from map(_Row, _list(document.get(key)))


def _of_github(document: Mapping[str, Any]) -> Iterator[_Row]:
    """Each list of networks is named by the service that they are for; there are other lists, of keys."""
    for service, prefixes in document.items():
        if not service.startswith("ssh_") and isinstance(prefixes, list):
            yield from (_Row(prefix, "", (service,)) for prefix in prefixes)


def _list(found: Any) -> list[Any]:
    return found if isinstance(found, list) else []


def _maps(found: Any) -> Iterator[dict[str, Any]]:
    return (each for each in _list(found) if isinstance(each, dict))


def _is_text(found: Any) -> bool:
    return isinstance(found, str) and bool(found)


def _word(row: Mapping[str, Any], key: str) -> str:
    found = row.get(key)
    return found if isinstance(found, str) else ""


def _words(found: Any) -> tuple[str, ...]:
    return (found,) if _is_text(found) else ()


class _Form(NamedTuple):
    """The form of a cloud's file: what its beginning holds, how its rows are read, and where it says its date."""

    cloud: str
    marks: tuple[tuple[bytes, ...], ...]  # each one of several
    rows: Callable[[Mapping[str, Any]], Iterator[_Row]]
    dated: str = ""
    #: Where a region and a service stand in the file; "" for none.
    keys: tuple[str, str] = ("", "")


_FORMS = (
    _Form("aws", ((b'"ip_prefix"', b'"ipv6_prefix"'), (b'"region"',)), _of_aws, "createDate", ("region", "service")),
    _Form("azure", ((b'"changeNumber"',), (b'"addressPrefixes"',)), _of_azure, "", ("region", "name")),
    _Form("google", ((b'"ipv4Prefix"', b'"ipv6Prefix"'),), _of_google, "creationTime", ("scope", "service")),
    _Form("oracle", ((b'"regions"',), (b'"cidrs"',)), _of_oracle, "last_updated_timestamp", ("region", "tags")),
    _Form("cloudflare", ((b'"ipv4_cidrs"', b'"ipv6_cidrs"'),), _of_cloudflare),
    _Form("fastly", ((b'"addresses"',), (b'"ipv6_addresses"',)), _of_fastly),
    _Form("github", ((b'"verifiable_password_authentication"', b'"hooks"'), (b'"web"', b'"git"')), _of_github),
)


def _form(member: Member) -> _Form | None:
    head = member.head
    if head.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")[:1] != b"{":
        return None
    return next((form for form in _FORMS if all(any(mark in head for mark in any_of) for any_of in form.marks)), None)


def fits(member: Member) -> bool:
    """True if the text begins as an object, and its beginning has the keys of one of the clouds' files."""
    return _form(member) is not None


@dataclass(slots=True)
class _Prefix:
    """All that the rows of one prefix say."""

    number: int
    region: str = ""
    zone: str = ""
    services: dict[str, None] = field(default_factory=dict)

    def add(self, row: _Row) -> None:
        """Add what one row says.

        :raises BadFieldError: if it names another region than the rows before it
        """
        region = row.region
        if is_somewhere(region) and is_somewhere(self.region) and self.region != region:
            raise BadFieldError(f"its region is {region!r:.60}, and in a row before it {self.region!r:.60}")
        if region and not is_somewhere(self.region):
            self.region, self.zone = text(region, "region"), row.zone or region
        for service in row.services:
            self.services[text(service, "service")] = None

    def service(self) -> str:
        """The services as one text."""
        own = [service for service in self.services if service not in _WHOLE] or list(self.services)
        joined = ", ".join(sorted(own))
        return joined if len(joined) <= _MOST_TEXT else joined[: _MOST_TEXT - 1] + "…"


#: Of the services of one prefix, joined; some prefixes of Azure are of several tens.
_MOST_TEXT = 1000


def read(opened: Opened, _request: Request, gathered: Gathered) -> Iterator[Batch]:
    """The prefixes of all such files, in the order of their names: places of those with a region, facts of all.

    :raises DataFileError: if a file is not JSON, is cut short, or is not in the form of one of the clouds
    """
    for member in opened.fitting(fits):
        gathered.begin_file(member.inside)
        form = _form(member)
        if form is None:
            clouds = ", ".join(each.cloud for each in _FORMS)
            raise DataFileError(f"{member.name}: is not in the form of one of the clouds' files: {clouds}")
        yield from _read_file(member, form, gathered)


def _read_file(member: Member, form: _Form, gathered: Gathered) -> Iterator[Batch]:
    document = _document(member)
    gathered.about["description"] = f"addresses of the cloud {form.cloud}"
    gathered.about["cloud"] = form.cloud
    _says_date(document.get(form.dated), gathered)
    found: dict[tuple[int, int, int], _Prefix] = {}
    for row in form.rows(document):
        gathered.rows += 1
        try:
            if not isinstance(row.prefix, str):
                raise BadFieldError("it has no prefix")
            block: tuple[int, int, int] = addresses.parse_range(row.prefix)
            found.setdefault(block, _Prefix(gathered.rows)).add(row)
        except (BadFieldError, InvalidAddressError, InvalidRangeError) as error:
            gathered.leave_out(gathered.rows, None, str(error))
    yield from _Regions(form, gathered).batches(found)


def _document(member: Member) -> Mapping[str, Any]:
    pieces, size = [], 0
    with member.open() as stream:
        while piece := stream.read(_CHUNK_BYTES):
            size += len(piece)
            if size > _MOST_BYTES:
                raise DataFileError(f"{member.name}: has more than {_MOST_BYTES} bytes, and files of clouds have 5 MB")
            pieces.append(piece)
    try:
        document = msgspec.json.decode(b"".join(pieces).removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataFileError(f"{member.name}: is not JSON, or was cut short: {reason(error)}") from error
    if not isinstance(document, dict):
        raise DataFileError(f"{member.name}: is not one object of JSON, as clouds publish their addresses")
    return document


def _says_date(said: Any, gathered: Gathered) -> None:
    if isinstance(said, str) and said:
        parts = said.split("-")  # AWS: 2026-10-26-20-03-10
        gathered.says_date(f"{'-'.join(parts[:3])}T{':'.join(parts[3:6])}" if len(parts) == 6 else said)


class _Regions:
    """The facts and places of prefixes; counts what no table and no name says."""

    def __init__(self, form: _Form, gathered: Gathered) -> None:
        self._form = form
        self._gathered = gathered
        self._known: dict[str, PlaceFields | None] = {}
        self._by_name: list[str] = []
        self._nowhere: list[str] = []
        self._counted: Counter[str] = Counter()

    def batches(self, found: Mapping[tuple[int, int, int], _Prefix]) -> Iterator[Batch]:
        """The blocks of places, and those of networks, of all prefixes by their blocks."""
        rows = sorted(found.items(), key=lambda each: (each[0][0], each[0][1], -each[0][2]))
        placed: list[tuple[int, int, int, int]] = []
        networks: list[tuple[int, int, int, int]] = []
        around: list[tuple[tuple[int, int, int], _Prefix]] = []  # from the widest on
        for block, prefix in rows:
            while around and not _holds(around[-1][0], block):
                around.pop()
            if not prefix.region and around:
                prefix.region, prefix.zone = around[-1][1].region, around[-1][1].zone
            around.append((block, prefix))
            networks.append((*block, self._gathered.networks.add(None, self._facts(prefix))))
            place = self._place(prefix.zone)
            if place is not None:
                placed.append((*block, self._gathered.places.add(place)))
            elif is_somewhere(prefix.region) and any(self._place(each.zone) for _, each in around):
                placed = _without(placed, block)
        self._tell()
        if networks:
            yield NetworkBatch(*from_ranges(networks))
        if placed:
            yield from_ranges(placed)

    def _facts(self, prefix: _Prefix) -> dict[str, bytes]:
        said = {"cloud": self._form.cloud, "cloud_region": prefix.region, "cloud_service": prefix.service()}
        self._counted.update(key for key, value in said.items() if value)
        facts = {key: mmdb.text(value) for key, value in said.items() if value}
        return {**facts, "is_hosting_provider": mmdb.boolean(True)}

    def _place(self, zone: str) -> PlaceFields | None:
        if not is_somewhere(zone):
            return None
        if zone not in self._known:
            place, in_table = place_of_region(self._form.cloud, zone)
            self._known[zone] = place
            if not in_table:
                (self._nowhere if place is None else self._by_name).append(zone)
        return self._known[zone]

    def _tell(self) -> None:
        cloud = self._form.cloud
        for zones, what in (
            (self._by_name, "their names say the country alone"),
            (self._nowhere, "their addresses have no place"),
        ):
            if zones:
                self._gathered.warnings.append(f"regions of {cloud} that are not known yet: {_named(zones)}: {what}")
        keys = zip(("cloud_region", "cloud_service"), self._form.keys, strict=True)
        self._gathered.keep(
            KeptKey(key=key, kept_as=f"traits.{fact}", records=self._counted[fact]) for fact, key in keys if key
        )


def _named(zones: Iterable[str]) -> str:
    shown = [harmless(zone, 60) for zone in sorted(zones)]
    return ", ".join(shown[:_SHOWN]) + (f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else "")


def _holds(outer: tuple[int, int, int], inner: tuple[int, int, int]) -> bool:
    return outer[0] == inner[0] and outer[1] <= inner[1] and inner[2] <= outer[2]


def _without(placed: list[tuple[int, int, int, int]], hole: tuple[int, int, int]) -> list[tuple[int, int, int, int]]:
    """The blocks of places, none of which covers a hole: a part of a region that is elsewhere is not where it is."""
    family, first, last = hole
    kept = []
    for block in placed:
        if not _holds(block[:3], hole):
            kept.append(block)
            continue
        if block[1] < first:
            kept.append((family, block[1], first - 1, block[3]))
        if last < block[2]:
            kept.append((family, last + 1, block[2], block[3]))
    return kept


KIND = Kind(
    name="cloud-ranges",
    summary="a cloud's addresses in JSON: AWS, Azure (service tags), Google, Oracle, Cloudflare, Fastly, GitHub",
    fits=fits,
    read=read,
)
