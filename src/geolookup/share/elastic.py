"""The database endpoint of Elasticsearch and Logstash: a list with digests, and archives beside it."""

import msgspec
from litestar import get
from litestar.di import NamedDependency
from litestar.openapi.spec import OpenAPIResponse
from litestar.params import FromPath
from litestar.response.base import ASGIResponse

from geolookup.errors import RequestRefusedError
from geolookup.share.databases import NO_CACHE, asked_digest
from geolookup.share.files import FILE_REFUSALS, LIST_REFUSALS, AnyRequest, Files
from geolookup.web import openapi
from geolookup.web.openapi import INTEGER, TEXT

_FORM = "tgz"
_LIST = openapi.array_of(
    openapi.object_of({"name": TEXT, "url": TEXT, "md5_hash": TEXT, "provider": TEXT, "updated": INTEGER})
)


@get(
    "/elastic/database",
    operation_id="elasticDatabases",
    operation_class=openapi.operation(
        "The newest databases, for Elasticsearch and Logstash",
        [openapi.query("elastic_geoip_service_tos", TEXT, "Ignored, like any other.")],
        None,
        {"200": openapi.answer(_LIST, "Archives: the MD5 of each, and its address beside this one.")},
        LIST_REFUSALS,
    ),
    sync_to_thread=False,
)
def list_archives(files: NamedDependency[Files]) -> ASGIResponse:
    """Every database as an archive."""
    found = [
        {
            "name": f"{item.name}.{_FORM}",
            # Both programs resolve it beside this endpoint's own address, in which a token may stand.
            "url": f"{item.name}.{_FORM}?md5={item.md5}",
            "md5_hash": item.md5,
            "provider": "geolookup",
            "updated": item.modified,
        }
        for item in files.catalog().items
        if item.form == _FORM
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
    if form != _FORM:
        raise RequestRefusedError(f"ask for EDITION.{_FORM}", problem="unknown-edition")
    return files.answer(request, files.item(name, form, asked_digest(request, "md5")), file)


HANDLERS = [list_archives, get_archive]
