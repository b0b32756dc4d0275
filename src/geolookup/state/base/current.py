"""CURRENT, the commit point: which generation and overlay are published. Light enough for one lookup from the shell."""

import os

from geolookup.base import plainjson
from geolookup.index.mapped import header_of
from geolookup.index.reader import IndexReader
from geolookup.model.errors import (
    IndexDamagedError,
    IndexFileError,
    IndexTooNewError,
    NoStateError,
    StateDamagedError,
    StateTooNewError,
    StateUnreadableError,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from geolookup.index.mapped import Header

FORMAT_VERSION = "1.0"
#: Builds before the first release called theirs 2, and an earlier one 1, with no stack in its record. So no release
#: may have the version 2.
_UNRELEASED_MAJOR = "2"
#: Before the checksum of the whole file, which stands in it.
_CHECK_MARK = b'"check": "'
_MAX_BYTES = 1 << 20
#: A publish may land between reading CURRENT and opening what it names, again and again, but not this often.
_OPEN_ATTEMPTS = 50


def generation_name(number: int) -> str:
    """A generation's folder under ``generations/``, an overlay's file under ``custom/``."""
    return f"{number:06d}"


class Current:
    """The members of CURRENT.

    ``sequence`` always rises; ``edits`` is the newest local edit that the overlay includes; ``newest`` the highest
    generation ever committed; ``published`` is the generation's own record (source, url, digest, etag, times, row
    counts, files with their sizes and SHA-256), ``overlay_file`` the same for the overlay; ``refused`` holds digests of
    content that was rolled back; ``pins`` the generations that retention always keeps; ``served`` which
    generation was served since when (see `advanced`); ``sources`` what is known of each source (see
    `generations.entries`); ``newest_snapshot`` the highest snapshot ever committed;
    ``next_locid`` the next number for a place that has none of its own, 0 if none was ever given; ``vrfs`` the number
    of the file that lists the VRFs (see `state.base.vrfs`), 0 if there are none. ``recovered``
    says what was wrong if CURRENT itself could not be used. ``pushed`` is the counter of edits.db when the newest
    push began (see `state.base.marks`), and ``line`` the newest line of its history, as `Outbox.line` has it: with
    ``edits`` they tell whether edits.db has gone back since, or is another state's.
    """

    __slots__ = (
        "checked_at",
        "edits",
        "generation",
        "line",
        "newest",
        "newest_snapshot",
        "next_locid",
        "overlay",
        "overlay_file",
        "pins",
        "published",
        "published_at",
        "pushed",
        "recovered",
        "refused",
        "sequence",
        "served",
        "sources",
        "vrfs",
    )

    def __init__(
        self,
        *,
        sequence: int,
        generation: int,
        overlay: int,
        edits: int,
        newest: int,
        published: "dict[str, Any]",
        overlay_file: "dict[str, Any]",
        published_at: str,
        checked_at: str,
        refused: "tuple[str, ...]" = (),
        pins: "tuple[int, ...]" = (),
        served: "tuple[tuple[int, str], ...]" = (),
        sources: "tuple[dict[str, Any], ...]" = (),
        newest_snapshot: int = 0,
        next_locid: int = 0,
        recovered: "str | None" = None,
        pushed: int = 0,
        line: str = "",
        vrfs: int = 0,
    ) -> None:
        self.sequence = sequence
        self.generation = generation
        self.overlay = overlay
        self.edits = edits
        self.newest = newest
        self.published = published
        self.overlay_file = overlay_file
        self.published_at = published_at
        self.checked_at = checked_at
        self.refused = refused
        self.pins = pins
        self.served = served
        self.sources = sources
        self.newest_snapshot = newest_snapshot
        self.next_locid = next_locid
        self.recovered = recovered
        self.pushed = pushed
        self.line = line
        self.vrfs = vrfs

    def replace(self, **changes: "Any") -> "Current":
        """A copy with some members changed.

        :raises TypeError: if a name is not a member
        """
        return Current(**{**{name: getattr(self, name) for name in self.__slots__}, **changes})

    @property
    def source(self) -> str:
        """Where the generation came from: the upstream's URL, or ``bundled``."""
        return str(self.published["source"])

    @property
    def digest(self) -> str:
        """The digest of the generation's content, the same on every machine."""
        return str(self.published["digest"])

    @property
    def serving(self) -> "list[dict[str, Any]]":
        """The entries of the sources that answer."""
        named = self.serves
        return [entry for entry in self.sources if entry["name"] in named]

    @property
    def serves(self) -> "frozenset[str]":
        """The names of the sources that answer: of a reader, those of its fleet's builder."""
        own = self.published.get("serves")
        return frozenset(own or [str(part["name"]) for part in self.published.get("stack", ())])

    @property
    def dated(self) -> "str | None":
        """The oldest date or moment (ISO 8601, UTC) that a source which answers says its data are of.

        None if none says one.
        """
        found = [str(entry["dated"]) for entry in self.serving if entry.get("dated")]
        return min(found, default=None) or self.published.get("dated")

    @property
    def had_edits(self) -> bool:
        """True if anything was ever published or pushed from edits.db: then there must be one."""
        return bool(self.edits or self.pushed)

    @property
    def is_embedded(self) -> bool:
        """True if the embedded default is all that answers: no sync confirms it."""
        return self.source == "bundled"

    @property
    def confirmed(self) -> str:
        """The moment from which the age of what is served counts: when its sources were last asked with success.

        The embedded default is never asked for, and its age counts from its own date.
        """
        return str((self.is_embedded and self.dated) or self.checked_at)

    def encoded(self) -> bytes:
        """The bytes of the file, with their checksum."""
        import json  # late: to read the file takes none of it

        text = json.dumps({**self.as_json(), "check": "0" * 16}, indent=1, ensure_ascii=True, allow_nan=False)
        return plainjson.sealed(f"{text}\n".encode("ascii"), _CHECK_MARK)

    def as_json(self) -> "dict[str, Any]":
        """The members as they stand in the file."""
        return {
            "version": FORMAT_VERSION,
            "sequence": self.sequence,
            "generation": self.generation,
            "overlay": self.overlay,
            "edits": self.edits,
            "newest": self.newest,
            "published_at": self.published_at,
            "checked_at": self.checked_at,
            "refused": list(self.refused),
            "pins": list(self.pins),
            "served": [list(step) for step in self.served],
            "pushed": self.pushed,
            "line": self.line,
            "sources": list(self.sources),
            "newest_snapshot": self.newest_snapshot,
            "next_locid": self.next_locid,
            "published": self.published,
            "overlay_file": self.overlay_file,
            "vrfs": self.vrfs,
        }


def read_current(home: str) -> Current:
    """Read CURRENT.

    :raises NoStateError: if there is none
    :raises StateDamagedError: if it is not what was written
    :raises StateTooNewError: if a newer release, or a build before the first, wrote it
    :raises StateUnreadableError: if this user may not read it
    """
    return _current_of(home, current_bytes(home))


def read_to_publish(home: str, whole: Current | None = None) -> tuple[bytes | None, Current | None, str | None]:
    """CURRENT under the publish lock: its bytes, what they say, and why that cannot be served.

    This looks into every file that CURRENT names, unless they are those of ``whole``, which the caller has opened.
    Without a CURRENT, all three are None. If CURRENT itself is damaged, the second is None. The third is None if
    everything is whole.

    :raises StateTooNewError: if a newer release wrote it, or what it names
    """
    data = current_bytes(home)
    try:
        current = _current_of(home, data)
    except NoStateError:
        return data, None, None
    except StateDamagedError as error:
        return data, None, str(error)
    if whole is not None and (whole.generation, whole.overlay) == (current.generation, current.overlay):
        return data, current, None
    try:
        _check_named(home, current)
    except IndexTooNewError as error:
        raise StateTooNewError(str(error)) from error
    except IndexFileError as error:
        return data, current, f"generation {current.generation} cannot be used: {error}"
    return data, current, None


def current_bytes(home: str) -> bytes | None:
    """CURRENT as it stands in the file, None if there is none; of one that is too long, the beginning.

    :raises StateDamagedError: if it cannot be read
    :raises StateUnreadableError: if this user may not read it
    """
    path = os.path.join(home, "CURRENT")
    try:
        with open(path, "rb") as file:
            return file.read(_MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as error:
        from geolookup.settings.paths import default_home, is_below_anothers_home  # late: usually it may be read

        if home == default_home() and is_below_anothers_home(home):
            return None  # a state there would not be this user's
        raise _unreadable(path) from error  # not damage: nothing may be put in its place
    except OSError as error:
        raise StateDamagedError(f"{path}: reading failed: {error.strerror}") from error


def _unreadable(path: str) -> StateUnreadableError:
    from geolookup.state.base.files import unreadable  # late: one lookup from the shell needs none of it

    return unreadable(path)


def _current_of(home: str, data: bytes | None) -> Current:
    """CURRENT by the bytes that `current_bytes` read; the errors are those of `read_current`."""
    path = os.path.join(home, "CURRENT")
    if data is not None:
        return parse_current(data, path)
    if _has_overlays(home):
        raise StateDamagedError(f"{path}: is gone, though something was published here")
    raise NoStateError(f"{home}: nothing has been published here yet")


def _has_overlays(home: str) -> bool:
    """True if more was published than the first time: a first publish that was interrupted leaves one overlay, too."""
    try:
        return any(name.isdecimal() and int(name) > 1 for name in os.listdir(os.path.join(home, "custom")))
    except OSError:
        return False


def parse_current(data: bytes, path: str) -> Current:
    """Read CURRENT's bytes; ``path`` is for the messages. Unknown members are ignored.

    The errors are those of `read_current`.
    """
    try:
        found, check = plainjson.loads_sealed(data, _CHECK_MARK)
        version = str(found["version"])
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise _damaged(path, error) from error
    require_version(version, path)
    record = found.get("published")
    if type(record) is dict and "source" in record and "stack" not in record:
        raise _unreleased(path)
    try:
        if found.get("check", "") not in ("", check):
            raise ValueError("its checksum does not fit its content")
        current = Current(
            sequence=found["sequence"],
            generation=found["generation"],
            overlay=found["overlay"],
            edits=found["edits"],
            newest=found["newest"],
            published=found["published"],
            overlay_file=found["overlay_file"],
            published_at=found["published_at"],
            checked_at=found["checked_at"],
            refused=tuple(found["refused"]),
            pins=tuple(found["pins"]),
            served=tuple([(number, since) for number, since in found["served"]]),
            sources=tuple(found["sources"]),
            newest_snapshot=found["newest_snapshot"],
            next_locid=found["next_locid"],
            pushed=found["pushed"],
            line=found.get("line", ""),
            vrfs=found.get("vrfs", 0),
        )
        if type(found["refused"]) is not list:
            raise ValueError("`refused` is not an array")
        numbers = [current.sequence, current.generation, current.overlay, current.edits, current.newest]
        numbers += [
            *current.pins,
            *[number for number, _ in current.served],
            current.newest_snapshot,
            current.next_locid,
            current.pushed,
            current.vrfs,
        ]
        named = [*current.published["stack"], *current.sources]
        numbers += [entry["snapshot"] for entry in named]
        if not all(type(entry[name]) is str for entry in named for name in ("name", "kind", "digest")):
            raise ValueError("a source in it has no name")
        if not all(type(number) is int and 0 <= number < 1 << 53 for number in numbers):
            raise ValueError("a number in it is not a counter")
        if current.newest < current.generation:
            raise ValueError("it serves a generation that was never committed")
        texts = (
            current.published_at,
            current.checked_at,
            current.line,
            current.published["source"],
            current.published["digest"],
        )
        moments = [since for _, since in current.served]
        if not all(type(text) is str for text in (*texts, *current.refused, *moments)):
            raise ValueError("a text in it is not text")
        found_files = current.published["files"]
        for record in (found_files["index"], found_files["cache.db"], *found_files.values(), current.overlay_file):
            if type(record["bytes"]) is not int or type(record["sha256"]) is not str:
                raise ValueError("a file's size or SHA-256 in it is malformed")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(path, error) from error
    return current


def require_version(version: str, path: str) -> None:
    """See that this release reads a file of the state directory that has this version.

    :raises StateTooNewError: if a newer release, or a build before the first, wrote it
    """
    major = version.partition(".")[0]
    if major == _UNRELEASED_MAJOR:
        raise _unreleased(path)
    if major != "1":
        raise StateTooNewError(
            f"{path}: has version {version!r:.40}, and this release reads version {FORMAT_VERSION}: upgrade geolookup"
        )


def _unreleased(path: str) -> StateTooNewError:
    from geolookup.state.base.files import unreleased  # late: one lookup from the shell needs none of it

    return unreleased(path)


def _damaged(path: str, error: Exception) -> StateDamagedError:
    from geolookup.base.reasons import reason  # late: a plain lookup passes here and meets no damage

    return StateDamagedError(f"{path}: is damaged: {reason(error)}")


class Published:
    """One consistent pair of open files: the base (default layer) and the overlay (custom layer).

    ``network`` is where the index of networks stands, which is opened when it is asked for, or None if there is none.
    It may be packed: see `readable`.
    """

    __slots__ = ("base", "current", "network", "overlay")

    def __init__(self, current: Current, base: IndexReader, overlay: IndexReader, network: str | None = None) -> None:
        self.current = current
        self.base = base
        self.overlay = overlay
        self.network = network

    def close(self) -> None:
        """Close both maps, once nothing else uses them."""
        self.base.close()
        self.overlay.close()


def generation_path(home: str, generation: int) -> str:
    """The directory of a generation."""
    return os.path.join(home, "generations", generation_name(generation))


def cache_path(home: str, generation: int) -> str:
    """The cache.db of a generation."""
    return os.path.join(generation_path(home, generation), "cache.db")


def index_path(home: str, generation: int) -> str:
    """The compiled default layer of a generation."""
    return os.path.join(generation_path(home, generation), "index")


def network_path(home: str, generation: int) -> str:
    """The compiled networks of a generation; there are none if no source says who runs addresses."""
    return os.path.join(generation_path(home, generation), "network")


def overlay_path(home: str, overlay: int) -> str:
    """A compiled custom layer."""
    return os.path.join(home, "custom", generation_name(overlay))


def open_published(home: str, read: Current | None = None) -> Published:
    """Open what CURRENT names; ``read`` is what it said a moment ago, if it has been read.

    :raises NoStateError: if nothing has been published
    :raises StateDamagedError: if CURRENT or what it names is not what was written
    :raises StateTooNewError: if the major version of CURRENT or of what it names is unknown to this release
    :raises StateUnreadableError: if this user may not read it
    """
    current = read or read_current(home)
    for _ in range(_OPEN_ATTEMPTS):
        try:
            return open_named(home, current)
        except IndexTooNewError as error:
            raise StateTooNewError(str(error)) from error
        except IndexFileError as error:
            if isinstance(error.__cause__, PermissionError):
                raise _unreadable(error.__cause__.filename or home) from error
            # Retention may have removed what the CURRENT that was read a moment ago still named.
            again = read_current(home)
            if again.sequence == current.sequence:
                raise StateDamagedError(f"generation {current.generation} cannot be used: {error}") from error
            current = again
    raise StateDamagedError(f"{home}: CURRENT changes faster than what it names can be opened")


def open_named(home: str, current: Current, index: str | None = None) -> Published:
    """Open the two files that ``current`` names, and check that they are the ones that were published.

    ``index`` is where the generation's index stands if it is packed.

    :raises IndexFileError: if they are not
    """
    index = index or index_path(home, current.generation)
    base = overlay = None
    try:
        base = IndexReader.open(index)
        _require_index(base.header, index, current)
        overlay = IndexReader.open(overlay_path(home, current.overlay))
        _require_overlay(overlay.header, overlay.path, current)
    except IndexFileError:
        for reader in (base, overlay):
            if reader is not None:
                reader.close()
        raise
    network = network_path(home, current.generation) if "network" in current.published["files"] else None
    return Published(current, base, overlay, network)


def _check_named(home: str, current: Current) -> None:
    """Check the files as `open_named` does, without opening them for lookups."""
    index, overlay = index_path(home, current.generation), overlay_path(home, current.overlay)
    _require_index(header_of(index), index, current)
    _require_overlay(header_of(overlay), overlay, current)
    if "network" in current.published["files"]:
        network = network_path(home, current.generation)
        require_network(header_of(network), network, current)


def require_network(header: "Header", path: str, current: Current) -> None:
    """See that an index of networks is the one that was published.

    :raises IndexDamagedError: if it is not
    """
    size = current.published["files"].get("network", {}).get("bytes", header.size_bytes)
    if header.layer != "network" or header.size_bytes != size:
        raise IndexDamagedError(f"{path}: is not the file that was published: its size or layer differs")


def _require_index(header: "Header", path: str, current: Current) -> None:
    if header.layer != "default" or header.size_bytes != current.published["files"]["index"]["bytes"]:
        raise IndexDamagedError(f"{path}: is not the file that was published: its size or layer differs")


def _require_overlay(header: "Header", path: str, current: Current) -> None:
    if header.layer != "custom" or header.size_bytes != current.overlay_file["bytes"]:
        raise IndexDamagedError(f"{path}: is not the file that was published: its size or layer differs")
    if header.metadata.get("generation") != str(current.generation):
        raise IndexDamagedError(f"{path}: was compiled for another generation than {current.generation}")
