"""For people and scripts: what there is, and each file by its name."""

from datetime import UTC, datetime
from typing import Any

import msgspec
from litestar import get
from litestar.di import NamedDependency
from litestar.openapi.spec import OpenAPIResponse
from litestar.params import FromPath
from litestar.response.base import ASGIResponse

from geolookup.errors import RequestRefusedError
from geolookup.share.build import GEOFEED
from geolookup.share.files import FILE_REFUSALS, LIST_REFUSALS, AnyRequest, Files
from geolookup.share.shelf import Item
from geolookup.web import openapi, wire
from geolookup.web.openapi import TEXT

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


HANDLERS = [list_databases, get_database, get_geofeed]

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
