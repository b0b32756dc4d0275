"""A generation that is being built or held, and its report.json: its own record of what it is."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from geolookup.base import disk, plainjson
from geolookup.base.reasons import reason
from geolookup.model.errors import StateDamagedError
from geolookup.state.base import files
from geolookup.state.base.current import FORMAT_VERSION, require_version

REPORT = "report.json"
#: Before the checksum of the whole report.json, which stands in it.
_CHECK_MARK = b'"check": "'
#: Stands in a candidate that was held, until it is published.
HELD_MARK = ".held"
#: The files whose size and SHA-256 CURRENT records, as far as they are there: the rows that were pulled, the index of
#: places, and that of networks.
CONTENT = ("cache.db", "index", "network")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A generation that is being built, or is held: a complete directory that nobody reads yet."""

    path: str

    @property
    def cache(self) -> str:
        """Its cache.db."""
        return os.path.join(self.path, "cache.db")

    @property
    def index(self) -> str:
        """Its compiled default layer."""
        return os.path.join(self.path, "index")

    @property
    def network(self) -> str:
        """Its compiled networks."""
        return os.path.join(self.path, "network")

    def seal(
        self, published: dict[str, Any], report: dict[str, Any], *, known: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Record the files as they are now, write report.json, and make all of it durable.

        ``published`` is the generation's own record: source, url, digest, etag, times and row counts. Returns it with
        the files' sizes and SHA-256 added. ``known`` has these of files whose bytes were counted before.
        """
        known = known or {}
        with files.file_errors(self.path):
            found = {
                name: known[name] if name in known else files.file_record(os.path.join(self.path, name))
                for name in CONTENT
                if os.path.exists(os.path.join(self.path, name))
            }
            record = {**published, "files": found}
            document = {"version": FORMAT_VERSION, "published": record, "report": report, "check": "0" * 16}
            disk.write_new(os.path.join(self.path, REPORT), plainjson.sealed(dump(document), _CHECK_MARK))
            disk.sync_directory(self.path)
        return record

    def verify(self) -> None:
        """Check that the files are, byte for byte, those that were sealed.

        :raises StateDamagedError: if they are not
        """
        records = self.document()["published"]["files"]
        for name in records:
            path = os.path.join(self.path, name)
            try:
                whole = files.file_record(path) == records[name]
            except OSError as error:
                raise StateDamagedError(f"{path}: cannot be read: {error.strerror}: sync again") from error
            if not whole:
                raise StateDamagedError(f"{path}: is not what was written: sync again")

    def document(self) -> dict[str, Any]:
        """The content of report.json.

        :raises StateDamagedError: if it is not what was written
        :raises StateTooNewError: if a newer release, or a build before the first, wrote it
        """
        return read_report(self.path)


def read_report(directory: str) -> dict[str, Any]:
    """The content of report.json in a generation's or candidate's ``directory``; the errors of `Candidate.document`."""
    path = os.path.join(directory, REPORT)
    try:
        with open(path, "rb") as file:
            document = json.load(file)
        require_version(str(document["version"]), path)
        published = document["published"]
        found = published["files"]
        texts = (published["source"], published["digest"], *(found[name]["sha256"] for name in found))
        sizes = [found[name]["bytes"] for name in found]
        right = all(type(text) is str for text in texts) and all(type(size) is int for size in sizes)
        right &= len(found) > 0 and set(found) <= set(CONTENT)
        if not right or type(document["report"]) is not dict:
            raise ValueError("a member of it is of the wrong kind")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise StateDamagedError(f"{path}: is damaged: {reason(error)}") from error
    return dict(document)


def is_as_sealed(directory: str) -> bool:
    """True if the report.json in a directory is, byte for byte, what `Candidate.seal` wrote, or from before it did.

    False if it cannot be read.
    """
    try:
        with open(os.path.join(directory, REPORT), "rb") as file:
            found, check = plainjson.loads_sealed(file.read(), _CHECK_MARK)
        return found.get("check", "") in ("", check)
    except (OSError, ValueError, AttributeError):
        return False


def dump(value: Any) -> bytes:
    """JSON as the state directory's files hold it: ASCII, indented, with a newline at its end."""
    return (json.dumps(value, indent=1, ensure_ascii=True, allow_nan=False) + "\n").encode("ascii")
