"""Downloads: built files by name for people and scripts, and by the protocols of two kinds of programs.

geoipupdate asks metadata which database is the newest, and downloads it by day. Elasticsearch and Logstash read a list
with digests, and fetch the archives beside it.
"""

import re
from datetime import UTC, datetime
from typing import Any

import msgspec
from litestar import get
from litestar.di import NamedDependency
from litestar.openapi.spec import OpenAPIResponse
from litestar.params import FromPath
from litestar.response.base import ASGIResponse

from geolookup.model.errors import RequestRefusedError
from geolookup.share.build import GEOFEED
from geolookup.share.files import FILE_REFUSALS, LIST_REFUSALS, AnyRequest, Files
from geolookup.share.shelf import Item
from geolookup.web import openapi, wire
from geolookup.web.openapi import INTEGER, TEXT

#: The forms that are offered by name; archives are for the protocols that ask for them.
_FORMS = ("mmdb", "mmdb.gz")
_ANY_FILE = OpenAPIResponse(description="The file; or 206 with a part of it, 304 if it is the one that is known.")
_DIGEST = openapi.query("sha256", TEXT, "Of this content, if it is the newest or was ten minutes ago.")
_ITEM = openapi.object_of({"url": TEXT, "sha256": TEXT, "md5": TEXT, "bytes": openapi.INTEGER, "modified": TEXT})
_LIST = openapi.object_of(
    {
        "published_at": TEXT,
        "databases": openapi.array_of(
            openapi.object_of({"edition": TEXT, "date": TEXT, "mmdb": _ITEM, "mmdb.gz": _ITEM})
        ),
        "geofeed": _ITEM,
    }
)


@get(
    "/databases",
    operation_id="listDatabases",
    operation_class=openapi.operation(
        "What there is",
        [],
        None,
        {"200": openapi.answer(_LIST, "All files, with digests.")},
        LIST_REFUSALS,
    ),
    sync_to_thread=False,
)
def list_databases(files: NamedDependency[Files]) -> ASGIResponse:
    """Every database and the geofeed: addresses that name the content, dates and digests."""
    catalog = files.catalog()
    listed: dict[str, dict[str, Any]] = {}
    shown: dict[str, Any] = {"published_at": moment(catalog.published), "databases": [], "geofeed": None}
    for item in catalog.items:
        if item.name == GEOFEED:
            shown["geofeed"] = _shown(item, "/geofeed.csv")
        elif item.form in _FORMS:
            about = listed.setdefault(item.name, {"edition": item.name, "date": day(item)})
            about[item.form] = _shown(item, f"/databases/{item.name}.{item.form}")
    shown["databases"] = list(listed.values())
    return ASGIResponse(body=msgspec.json.encode(shown), media_type="application/json", headers=NO_CACHE)


@get(
    "/databases/{file:str}",
    operation_id="getDatabase",
    operation_class=openapi.operation(
        "Download a database",
        [openapi.path("file", TEXT, "EDITION.mmdb or EDITION.mmdb.gz"), _DIGEST],
        None,
        {"200": _ANY_FILE},
        FILE_REFUSALS,
    ),
    sync_to_thread=False,
)
def get_database(request: AnyRequest, file: FromPath[str], files: NamedDependency[Files]) -> ASGIResponse:
    """A database, plain or compressed."""
    name, _, form = file.partition(".")
    if form not in _FORMS:
        raise RequestRefusedError("ask for EDITION.mmdb or EDITION.mmdb.gz", problem="unknown-edition")
    return files.answer(request, files.item(name, form, asked_digest(request, "sha256")), file)


@get(
    "/geofeed.csv",
    operation_id="getGeofeed",
    operation_class=openapi.operation("Download the geofeed", [_DIGEST], None, {"200": _ANY_FILE}, FILE_REFUSALS),
    sync_to_thread=False,
)
def get_geofeed(request: AnyRequest, files: NamedDependency[Files]) -> ASGIResponse:
    """The geofeed (RFC 8805) of our own blocks in public space."""
    return files.answer(request, files.item(GEOFEED, "csv", asked_digest(request, "sha256")), "geofeed.csv")


#: For answers that say what is newest.
NO_CACHE = {"Cache-Control": "no-cache"}


def asked_digest(request: AnyRequest, name: str) -> str | None:
    """The digest that an address from one of our lists carries; None if there is none.

    :raises RequestRefusedError: ``invalid-parameter`` if it is given twice
    """
    found = wire.parameters(request.scope["query_string"], name).get(name)
    return found.lower() if found is not None else None


def moment(seconds: int) -> str:
    """A moment in RFC 3339."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def day(item: Item) -> str:
    """The day of a file, in UTC."""
    return moment(item.published)[:10]


def _shown(item: Item, path: str) -> dict[str, Any]:
    return {
        "url": f"{path}?sha256={item.sha256}",
        "sha256": item.sha256,
        "md5": item.md5,
        "bytes": item.size_bytes,
        "modified": moment(item.modified),
    }


_DAY = re.compile(r"[0-9]{8}", re.ASCII)
_NEWEST = openapi.object_of(
    {"databases": openapi.array_of(openapi.object_of({"edition_id": TEXT, "md5": TEXT, "date": TEXT}))}
)


@get(
    "/geoip/updates/metadata",
    operation_id="updatesMetadata",
    operation_class=openapi.operation(
        "The newest databases, for geoipupdate",
        [openapi.query("edition_id", TEXT, "The edition; several are separated by commas.", required=True)],
        None,
        {"200": openapi.answer(_NEWEST, "The MD5 of each database, uncompressed, and its day.")},
        ("invalid-parameter", "unknown-edition", *LIST_REFUSALS),
    ),
    sync_to_thread=False,
)
def metadata(request: AnyRequest, files: NamedDependency[Files]) -> ASGIResponse:
    """Which database is the newest."""
    pairs = wire.repeated(request.scope["query_string"], "edition_id")
    names = [name for _, text in pairs for name in text.split(",") if name]
    if not names:
        raise RequestRefusedError("edition_id is missing", problem="invalid-parameter")
    found = []
    for name in dict.fromkeys(names):
        item = files.item(name, "mmdb")
        files.remember(request, item)
        found.append({"edition_id": name, "md5": item.md5, "date": day(item)})
    return ASGIResponse(body=msgspec.json.encode({"databases": found}), media_type="application/json", headers=NO_CACHE)


@get(
    "/geoip/databases/{edition:str}/download",
    operation_id="downloadDatabase",
    operation_class=openapi.operation(
        "Download a database, for geoipupdate",
        [
            openapi.path("edition", TEXT, "The edition."),
            openapi.query("date", TEXT, "The day that metadata named, as YYYYMMDD."),
            openapi.query("suffix", TEXT, "tar.gz"),
        ],
        None,
        {"200": OpenAPIResponse(description="A gzipped tar: EDITION_YYYYMMDD/EDITION.mmdb, and the licences.")},
        FILE_REFUSALS,
    ),
    sync_to_thread=False,
)
def download(request: AnyRequest, edition: FromPath[str], files: NamedDependency[Files]) -> ASGIResponse:
    """The archive of the database that metadata named to this client, else of the newest one of that day.

    A day can have several databases, and the client compares what it gets with the MD5 that it was told: so a publish
    between its two requests must not change the answer.
    """
    asked = wire.parameters(request.scope["query_string"], "date", "suffix")
    if asked.get("suffix", "tar.gz") != "tar.gz":
        raise RequestRefusedError("suffix must be tar.gz", problem="invalid-parameter")
    wanted = asked.get("date")
    if wanted is not None and not _DAY.fullmatch(wanted):
        raise RequestRefusedError("date must be a day as YYYYMMDD", problem="invalid-parameter")
    item = _chosen(request, edition, wanted, files)
    return files.answer(request, item, f"{edition}_{_compact(item)}.tar.gz")


def _chosen(request: AnyRequest, edition: str, wanted: str | None, files: Files) -> Item:
    newest = files.item(edition, "tar.gz")
    told = files.remembered(request, edition)
    item = files.catalog().holding(edition, "tar.gz", told) if told is not None else None
    if item is not None and wanted in (None, _compact(item)):
        return item
    if wanted in (None, _compact(newest)):
        return newest
    found = files.of_day(edition, "tar.gz", lambda item: _compact(item) == wanted)
    if found is None:
        raise RequestRefusedError("the database of that day is not kept any more", problem="unknown-build")
    return found


def _compact(item: Item) -> str:
    return day(item).replace("-", "")


_ARCHIVE = "tgz"
_ARCHIVES = openapi.array_of(
    openapi.object_of({"name": TEXT, "url": TEXT, "md5_hash": TEXT, "provider": TEXT, "updated": INTEGER})
)


@get(
    "/elastic/database",
    operation_id="elasticDatabases",
    operation_class=openapi.operation(
        "The newest databases, for Elasticsearch and Logstash",
        [openapi.query("elastic_geoip_service_tos", TEXT, "Ignored, like any other.")],
        None,
        {"200": openapi.answer(_ARCHIVES, "Archives: the MD5 of each, and its address beside this one.")},
        LIST_REFUSALS,
    ),
    sync_to_thread=False,
)
def list_archives(files: NamedDependency[Files]) -> ASGIResponse:
    """Every database as an archive."""
    found = [
        {
            "name": f"{item.name}.{_ARCHIVE}",
            # Both programs resolve it beside this endpoint's own address, in which a token may stand.
            "url": f"{item.name}.{_ARCHIVE}?md5={item.md5}",
            "md5_hash": item.md5,
            "provider": "geolookup",
            "updated": item.modified,
        }
        for item in files.catalog().items
        if item.form == _ARCHIVE
    ]
    return ASGIResponse(body=msgspec.json.encode(found), media_type="application/json", headers=NO_CACHE)


@get(
    "/elastic/{file:str}",
    operation_id="elasticArchive",
    operation_class=openapi.operation(
        "Download an archive",
        [
            openapi.path("file", TEXT, "EDITION.tgz"),
            openapi.query("md5", TEXT, "Of this archive, as the list named it."),
        ],
        None,
        {"200": OpenAPIResponse(description="A gzipped tar with EDITION.mmdb at its root.")},
        FILE_REFUSALS,
    ),
    sync_to_thread=False,
)
def get_archive(request: AnyRequest, file: FromPath[str], files: NamedDependency[Files]) -> ASGIResponse:
    """An archive."""
    name, _, form = file.partition(".")
    if form != _ARCHIVE:
        raise RequestRefusedError(f"ask for EDITION.{_ARCHIVE}", problem="unknown-edition")
    return files.answer(request, files.item(name, form, asked_digest(request, "md5")), file)


HANDLERS = [list_databases, get_database, get_geofeed, metadata, download, list_archives, get_archive]
