"""The protocol of geoipupdate: metadata say which database is the newest, a download by day brings it."""

import re

import msgspec
from litestar import get
from litestar.di import NamedDependency
from litestar.openapi.spec import OpenAPIResponse
from litestar.params import FromPath
from litestar.response.base import ASGIResponse

from geolookup.errors import RequestRefusedError
from geolookup.share.databases import NO_CACHE, day
from geolookup.share.files import FILE_REFUSALS, LIST_REFUSALS, AnyRequest, Files
from geolookup.share.shelf import Item
from geolookup.web import openapi, wire
from geolookup.web.openapi import TEXT

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


HANDLERS = [metadata, download]


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
