"""``geolookup.export``: what lookups answer now, from one snapshot, as a file of one of four formats."""

import contextlib
import io
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, BinaryIO, Literal, NamedTuple, TypeAlias, cast, get_args

from geolookup.exports import geofeed, licences, rows
from geolookup.exports.answers import answers_of
from geolookup.exports.content import LAYERS, PLACE_LAYERS, Content, LayerChoice, Progress, collect
from geolookup.exports.mmdb import tree
from geolookup.exports.mmdb.file import Encoded
from geolookup.exports.mmdb.kinds import KINDS, Kind, kind_of, narrowed
from geolookup.exports.mmdb.records import LOCAL_FACTS, records
from geolookup.exports.networks import Networks, sources_of
from geolookup.exports.precision import PRECISIONS, Precision, coarsened
from geolookup.exports.provenance import metadata, of_sources, provenance
from geolookup.exports.segments import NOTHING
from geolookup.exports.target import compressed, open_target
from geolookup.lookup.asked import checked_fields
from geolookup.lookup.engine import GeoLookup
from geolookup.lookup.network import key_of
from geolookup.lookup.record import Detail
from geolookup.lookup.snapshot import Snapshot
from geolookup.model.errors import DataFileError, SettingsError
from geolookup.model.facts import FACT_NAMES, NETWORK_FACTS, SITE_ZONE

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

ExportForm: TypeAlias = Literal["mmdb", "geofeed", "csv", "parquet"]

#: The options that only some formats have.
_OPTIONS: dict[str, tuple[ExportForm, ...]] = {
    "fields": ("mmdb", "csv", "parquet"),
    "database_type": ("mmdb",),
    "networks": ("csv", "parquet"),
    "postal_codes": ("geofeed",),
    "public_only": ("geofeed",),
}
_DETAILS: tuple[Detail, ...] = get_args(Detail)
_LONGEST_TYPE = 100
#: The type of a database of which nobody said one.
_OWN_TYPES = {"network": "geolookup-Network", "all": "geolookup-Enterprise"}
_NOTHING_COVERED = "nothing is covered in what was asked for"
#: How far along, of a thousand, an export is when its content is in memory.
_COLLECTED, _ALL = 300, 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """The outcome: ``ranges`` of addresses with one answer, ``size_bytes`` before any compression.

    ``attributions`` are the lines that the licences of the sources in it want shown. ``warnings`` say what could not be
    written as it is.
    """

    ranges: int
    size_bytes: int
    attributions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def export(
    geo: GeoLookup,
    form: ExportForm,
    target: str | os.PathLike[str] | BinaryIO,
    *,
    layer: LayerChoice | None = None,
    source: str | None = None,
    fields: str | Iterable[str] | None = None,
    database_type: str | None = None,
    precision: Precision | None = None,
    networks: bool = False,
    postal_codes: bool = False,
    public_only: bool = False,
    licence_allows: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Exported:
    """Write what lookups answer now, from one snapshot. The same state gives the same bytes.

    ``target`` is the name of a file, compressed if it ends in ``.gz``, or a stream of bytes. A file appears once it is
    complete and durable, in the place of one that was there.

    Metadata of Parquet say what it came from: ``geolookup.fingerprint`` (of all answers of the state),
    ``geolookup.generation``, ``geolookup.published``, and ``geolookup.sources`` as JSON: of each source in it the name,
    the date of its data, the licence and the line that this wants shown.

    ``layer`` is ``both`` (where addresses are, as lookups answer), ``custom``, ``default``, ``network`` (who runs
    them) or ``all`` (both kinds of knowledge); if None, ``custom`` for a geofeed, and for the others ``both``, or what
    the type or the fields want. ``source`` limits it to what the source of that name answers. ``fields`` are, for MMDB,
    ``city`` or ``country``; for CSV and Parquet the names of columns (if None, the eight fields of a place).
    ``database_type`` is the type that an MMDB says it is; if it is known (GeoLite2-ASN), its records have what such
    files have. ``precision`` tells places no more precisely than by ``country``, ``region`` or ``city``. ``networks``
    asks for one row a network and not one a range, ``postal_codes`` writes them into a geofeed, ``public_only`` leaves
    private addresses out of it. ``progress`` is told (done, all).

    :raises SettingsError: if an option does not fit the format, the source is unknown, or a geofeed would have
        private addresses
    :raises ColumnError: if a column is unknown
    :raises LicenceError: if a source's licence does not let others have its data, unless ``licence_allows``
    :raises MissingExtraError: if Parquet is asked for, and pyarrow is not installed
    :raises DataFileError: if the file cannot be written, or the content does not fit the format
    """
    given = {
        "fields": fields is not None,
        "database_type": database_type is not None,
        "networks": networks,
        "postal_codes": postal_codes,
        "public_only": public_only,
    }
    _check(form, layer, precision, given)
    _require_bytes(target)
    tell = progress or (lambda _done, _all: None)
    plan = _planned(
        form,
        layer,
        fields,
        database_type,
        precision,
        networks=networks,
        postal_codes=postal_codes,
        public_only=public_only,
    )

    def take(snapshot: Snapshot) -> tuple[Content, tuple[str, ...]]:
        if plan.layer == "network" and not sources_of(snapshot):
            raise SettingsError("no source of this state says who runs addresses: add one with `geolookup source add`")
        if plan.layer in PLACE_LAYERS and _has_networks_only(snapshot):
            raise SettingsError(
                "no source of this state says where addresses are, only who runs them: export the layer network"
            )
        content = plan.narrow(
            collect(
                snapshot,
                layer=plan.layer,
                source=source,
                progress=_stage(tell, 0, _COLLECTED),
                records=plan.records,
                facts=plan.facts,
            )
        )
        if not licence_allows:
            licences.require_leave(geo.home, snapshot.current, content.credited())
        if form == "parquet":
            found = of_sources(provenance(geo.home, snapshot), content.credited())
            content = replace(content, metadata=metadata(found))
        return content, licences.attributions(geo.home, snapshot.current, content.credited())

    content, attributions = geo.with_networks(take)
    if form == "geofeed" and not public_only:
        geofeed.require_public(content)
    with _opened(target) as out:
        ranges, warnings = plan.write(content, attributions, out, tell)
        tell(_ALL, _ALL)
    known = content.networks
    if known is not None and ranges:
        warnings = (*warnings, *_unsaid(known, [name for name in plan.facts if name in NETWORK_FACTS]))
    if not ranges:
        there = content.covered() or (known is not None and known.covered())
        why = "every range of what was asked for is left out" if there else _NOTHING_COVERED
        warnings = (*warnings, f"{why}: it holds no addresses")
    return Exported(ranges=ranges, size_bytes=out.written, attributions=attributions, warnings=warnings)


def _has_networks_only(snapshot: Snapshot) -> bool:
    return not snapshot.has_custom and not snapshot.base.reader.location_count and bool(sources_of(snapshot))


def _unsaid(networks: Networks, asked: Sequence[str]) -> Iterator[str]:
    """A warning of what no source says, by the names of the facts that were asked for, or of all if none was."""
    if not len(networks) and not asked:
        yield "no source of what was asked for says who runs addresses: it says where they are only"
    empty = [name for name in asked if not networks.facts[name].says_any()]
    if empty:
        end = "it is" if len(empty) == 1 else "they are"
        yield f"no source says {', '.join(empty)} of what was asked for: {end} empty"


class _Counted(io.RawIOBase):
    """A stream that counts what is written to another one."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self.written = 0

    def writable(self) -> bool:
        """Yes."""
        return True

    def write(self, octets: "ReadableBuffer", /) -> int:
        """Write all of it."""
        self._out.write(octets)
        self.written += (size := memoryview(octets).nbytes)
        return size


@contextlib.contextmanager
def _opened(target: str | os.PathLike[str] | BinaryIO) -> Iterator[_Counted]:
    if not isinstance(target, str | os.PathLike):
        yield _Counted(target)
        return
    name = os.fspath(target)
    with open_target(name) as file:
        if name.lower().endswith(".gz"):
            with compressed(file) as out:
                yield _Counted(out)
        else:
            yield _Counted(file)


def _require_bytes(target: object) -> None:
    """See that a stream takes bytes; of some only a write tells."""
    if isinstance(target, str | os.PathLike):
        return
    write = getattr(target, "write", None)
    try:
        if write is None or isinstance(target, io.TextIOBase):
            raise TypeError
        write(b"")
    except TypeError:
        shown = getattr(target, "name", None) or type(target).__name__
        raise DataFileError(
            f'{shown}: takes no bytes: open it with "wb", or give its name (of standard output, `sys.stdout.buffer`)'
        ) from None


#: How many ranges were written, and warnings.
_Done: TypeAlias = tuple[int, tuple[str, ...]]
#: Writes content with attributions to a stream.
_Write: TypeAlias = Callable[[Content, tuple[str, ...], _Counted, Progress], _Done]


class _Plan(NamedTuple):
    """What an export reads of a snapshot, what of that it tells, and how that is written."""

    layer: LayerChoice
    records: bool
    facts: Collection[str]
    narrow: Callable[[Content], Content]
    write: _Write


def _check(form: str, layer: str | None, precision: str | None, given: dict[str, bool]) -> None:
    if form not in get_args(ExportForm):
        raise SettingsError(f"unknown format {form!r:.60}: the formats are {', '.join(get_args(ExportForm))}")
    if layer is not None and layer not in LAYERS:
        raise SettingsError(f"layer = {layer!r:.60}: must be one of {', '.join(LAYERS)}")
    if precision is not None and precision not in PRECISIONS:
        raise SettingsError(f"precision = {precision!r:.60}: must be one of {', '.join(PRECISIONS)}")
    for name, forms in _OPTIONS.items():
        if given[name] and form not in forms:
            raise SettingsError(f"`{name}` is for {' and '.join(forms)}, not for {form}")


def _stage(progress: Progress, begin: int, end: int) -> Progress:
    """The progress of a part of the work, in thousandths of all of it."""
    return lambda done, total: progress(begin + (end - begin) * done // max(total, 1), _ALL)


def _planned(
    form: str,
    layer: LayerChoice | None,
    fields: str | Iterable[str] | None,
    database_type: str | None,
    precision: Precision | None,
    *,
    networks: bool,
    postal_codes: bool,
    public_only: bool,
) -> _Plan:
    """The plan of an export, its options checked.

    :raises SettingsError: if an option cannot be used
    :raises ColumnError: if a column is unknown
    :raises MissingExtraError: if pyarrow is missing
    """
    if form == "mmdb":
        return _planned_mmdb(layer, fields, database_type, precision)
    if form == "geofeed":
        if layer not in (None, *PLACE_LAYERS):
            raise SettingsError(f"a geofeed says where addresses are: layer must be one of {', '.join(PLACE_LAYERS)}")
        if postal_codes and precision is not None:
            raise SettingsError(f"postal codes are finer than a {precision}: leave out `postal_codes` or `precision`")
        writer = _geofeed(postal_codes=postal_codes, public_only=public_only)
        return _Plan(layer or "custom", False, (), _coarsening(precision), writer)
    return _planned_rows(form, layer, fields, precision, networks=networks)


def _planned_rows(
    form: str,
    layer: LayerChoice | None,
    fields: str | Iterable[str] | None,
    precision: Precision | None,
    *,
    networks: bool,
) -> _Plan:
    names = rows.DEFAULT_FIELDS if fields is None else checked_fields(fields, rows.FIELDS)
    of_networks = {key_of(NETWORK_FACTS[name]) for name in names if name in NETWORK_FACTS}
    has_places = any(name not in NETWORK_FACTS for name in names)
    if layer is None:
        layer = "both" if not of_networks else "all" if has_places else "network"
    if layer == "network" and not has_places and precision is not None:
        raise SettingsError("no field of a place is asked for: leave out `precision`")

    def narrow(content: Content) -> Content:
        told = _coarsening(precision)(content)
        if told.networks is None or not of_networks:
            return told
        return replace(told, networks=told.networks.kept(lambda key, _: key in of_networks))

    write = (_csv if form == "csv" else _parquet)(names, layer, networks=networks)
    # Rows of networks may have fields of their places.
    read: LayerChoice = "all" if layer == "network" and has_places else layer
    return _Plan(read, False, [name for name in names if name in FACT_NAMES], narrow, write)


def _coarsening(precision: Precision | None) -> Callable[[Content], Content]:
    return lambda content: content if precision is None else coarsened(content, precision)


def _planned_mmdb(
    layer: LayerChoice | None,
    fields: str | Iterable[str] | None,
    database_type: str | None,
    precision: Precision | None,
) -> _Plan:
    detail = _detail(fields)
    named = None if database_type is None else _named(database_type)
    if layer is None:
        layer = "both" if named is None else named.holding
    holding = layer if layer in ("network", "all") else "both"
    if named is not None and (named.holding == "network") != (holding == "network"):
        others = "network" if named.holding == "network" else ", ".join((*PLACE_LAYERS, "all"))
        raise SettingsError(f"{database_type!r:.60} cannot be of the layer {layer}: its layer must be {others}")
    if detail == "country":
        if precision not in (None, "country"):
            raise SettingsError(f"`fields` says country, and `precision` {precision}: leave one of them out")
        precision = "country"
    elif detail is None and precision is None and named is not None:
        precision = named.precision
    if holding == "network" and precision is not None:
        raise SettingsError("the layer network has no places: leave out `precision` and `fields`")
    kind = Kind(holding, precision, None if named is None or holding != "network" else named.facts)
    if database_type is None:
        database_type = _OWN_TYPES.get(holding, "geolookup-Country" if precision == "country" else "geolookup-City")
    facts = () if holding == "network" else (*LOCAL_FACTS, SITE_ZONE)
    return _Plan(layer, True, facts, lambda content: narrowed(content, kind), _mmdb(kind, database_type))


def _named(database_type: str) -> Kind:
    """The kind of a type that the caller names.

    :raises SettingsError: if it is no type, or does not say what the file holds
    """
    if not database_type or len(database_type) > _LONGEST_TYPE or not database_type.isprintable():
        raise SettingsError(f"{database_type!r:.60}: a type must have 1 to {_LONGEST_TYPE} printable characters")
    found = kind_of(database_type)
    if found is None:
        raise SettingsError(
            f"unknown type {database_type!r:.60}: its name says what the file holds, and has one of these words: "
            f"{', '.join(KINDS)} (GeoLite2-City, Acme-ASN)"
        )
    return found


def _detail(fields: str | Iterable[str] | None) -> Detail | None:
    for detail in (None, *_DETAILS):
        if fields == detail:
            return detail
    raise SettingsError(f"fields = {fields!r:.60}: for an MMDB it must be one of {', '.join(_DETAILS)}")


def _published(content: Content) -> str:
    return datetime.fromtimestamp(content.published, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _describe(content: Content, attributions: tuple[str, ...]) -> str:
    """The description in a file: where it is from, and whom to credit."""
    sources = ", ".join(content.all_origins()) or "nothing"
    return ". ".join((f"What geolookup answers, from {sources}", *(line.rstrip(".") for line in attributions))) + "."


def database(
    content: Content, attributions: tuple[str, ...], kind: Kind, progress: Progress, *, last: bool = False
) -> tuple[Encoded, int, tuple[str, ...]]:
    """The MaxMind DB of some content that is `narrowed` to its kind, how many ranges it has, and warnings of what it
    cannot hold.

    ``last`` says that the segments are not needed after it: they are half of the memory, and let go.

    :raises DataFileError: if it would be larger than the format can be
    """
    answers = answers_of(content)
    ranges = answers.covered()
    if last:
        content.four = content.six = NOTHING
    parts, left_out = tree.with_aliases(answers.four, answers.six)
    laid = tree.Tree(parts, owned=last)
    del parts
    answers = answers._replace(four=NOTHING, six=NOTHING)
    nested = kind.holding == "all"
    made = records(content, answers, nested=nested, progress=_stage(progress, _COLLECTED, _ALL - 50))
    encoded = Encoded(
        laid,
        made.section,
        made.offsets,
        description={"en": _describe(content, attributions)},
        build_epoch=content.published,
    )
    if not left_out:
        return encoded, ranges, ()
    reach = "range reaches" if left_out == 1 else "ranges reach"
    return encoded, ranges, (f"{left_out} IPv6 {reach} into ::/96, where a MaxMind DB has IPv4: left out there",)


def feed(
    content: Content,
    attributions: tuple[str, ...],
    *,
    postal_codes: bool,
    public_only: bool,
    progress: Progress,
) -> tuple[Iterator[bytes], geofeed.Left]:
    """The geofeed of some content in parts, and what could not be written as it is, known after the last part."""
    comments = (f"Geofeed (RFC 8805) by geolookup, published {_published(content)}", *attributions)
    if content.dated is not None:
        comments = (*comments, f"updated: {content.dated}")
    return geofeed.parts(content, comments, postal_codes=postal_codes, public_only=public_only, progress=progress)


def _mmdb(kind: Kind, database_type: str) -> _Write:
    def write(content: Content, attributions: tuple[str, ...], out: _Counted, progress: Progress) -> _Done:
        encoded, ranges, warnings = database(content, attributions, kind, progress, last=True)
        for part in encoded.body:
            out.write(part)
        out.write(encoded.metadata(database_type))
        return ranges, warnings

    return write


def _geofeed(*, postal_codes: bool, public_only: bool) -> _Write:
    def write(content: Content, attributions: tuple[str, ...], out: _Counted, progress: Progress) -> _Done:
        parts, left = feed(
            content,
            attributions,
            postal_codes=postal_codes,
            public_only=public_only,
            progress=_stage(progress, _COLLECTED, _ALL),
        )
        for part in parts:
            out.write(part)
        return left.ranges, tuple(left.warnings())

    return write


def _csv(names: tuple[str, ...], layer: LayerChoice, *, networks: bool) -> _Write:
    def write(content: Content, _: tuple[str, ...], out: _Counted, progress: Progress) -> _Done:
        found = rows.Rows(content, names, networks=networks, layer=layer)
        for part in rows.csv_parts(found, _stage(progress, _COLLECTED, _ALL)):
            out.write(part)
        return found.covered(), ()

    return write


def _parquet(names: tuple[str, ...], layer: LayerChoice, *, networks: bool) -> _Write:
    from geolookup.exports import parquet

    def write(content: Content, attributions: tuple[str, ...], out: _Counted, progress: Progress) -> _Done:
        found = rows.Rows(content, names, networks=networks, layer=layer)
        about = {
            "description": _describe(content, attributions),
            "published": _published(content),
            **content.metadata,
        }
        parquet.write(found, cast("BinaryIO", out), about, _stage(progress, _COLLECTED, _ALL))
        return found.covered(), ()

    return write
