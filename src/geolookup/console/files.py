"""The files that the pages load, all from this machine: our own, those of others with licences, and `world.svg`."""

import hashlib
import os
from functools import cache

from litestar import get
from litestar.params import FromPath
from litestar.response.base import ASGIResponse

from geolookup.console.picture import land
from geolookup.model.errors import RequestRefusedError

_HERE = os.path.dirname(__file__)
_FOLDERS = ("static", "vendored")
_TYPES = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}


@cache
def _all() -> dict[str, tuple[bytes, str, str]]:
    """Every file by its name: its bytes, its media type, and a short hash of it."""
    found = {}
    for folder in _FOLDERS:
        for name in os.listdir(os.path.join(_HERE, folder)):
            kind = _TYPES.get(os.path.splitext(name)[1])
            if kind is None:
                continue
            with open(os.path.join(_HERE, folder, name), "rb") as file:
                content = file.read()
            found[name] = _file(content, kind)
    found["world.svg"] = _file(land(), _TYPES[".svg"])
    return found


def _file(content: bytes, kind: str) -> tuple[bytes, str, str]:
    return content, kind, hashlib.sha256(content).hexdigest()[:12]


def address(name: str) -> str:
    """The address of a file: another one for another content, so that a browser may keep it."""
    return f"/files/{_all()[name][2]}/{name}"


@get("/files/{digest:str}/{name:str}", sync_to_thread=False)
def one_file(digest: FromPath[str], name: FromPath[str]) -> ASGIResponse:
    """One file."""
    content, kind, known = _all().get(name, (b"", "", ""))
    if not kind or digest != known:
        raise RequestRefusedError("there is no such file", problem="not-found")
    headers = {"cache-control": "private, max-age=31536000, immutable"}
    return ASGIResponse(body=content, media_type=kind, headers=headers)
