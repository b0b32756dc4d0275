"""The layers of routing domains (VRFs): the one file that CURRENT names for them, and opening one over the others.

A VRF is a further custom layer, of places that no service hears of. The file, ``custom/vrfs/NUMBER.json``, lists each
with its compiled blocks, ``custom/vrfs/NUMBER``. It is opened only if a VRF is asked for.
"""

import os
import tempfile

from geolookup.base import plainjson
from geolookup.index.mapped import Header
from geolookup.index.reader import IndexReader
from geolookup.model.errors import IndexDamagedError, IndexFileError, StateDamagedError, UnknownVrfError
from geolookup.state.base.current import Current, Published, generation_name, require_version

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Since 1.1 a compiled block says its VRF.
FORMAT_VERSION = "1.1"
_CHECK_MARK = b'"check": "'
_SHOWN = 8


class ListedVrf:
    """A VRF in the list: the number of its file and that file's record, and ``revision``, the edit it has last."""

    __slots__ = ("file", "name", "number", "revision")

    def __init__(self, name: str, number: int, revision: int, file: "dict[str, Any]") -> None:
        self.name = name
        self.number = number
        self.revision = revision
        self.file = file


def folder(home: str) -> str:
    """Where the files of VRFs stand."""
    return os.path.join(home, "custom", "vrfs")


def layer_path(home: str, number: int) -> str:
    """The compiled blocks of a VRF."""
    return os.path.join(folder(home), generation_name(number))


def list_path(home: str, number: int) -> str:
    """The list of VRFs."""
    return f"{layer_path(home, number)}.json"


def encoded(listed: "list[ListedVrf]") -> bytes:
    """The list as its file has it, with its checksum."""
    import json

    vrfs = [{"name": each.name, "file": each.number, "edits": each.revision, **each.file} for each in listed]
    text = json.dumps({"version": FORMAT_VERSION, "vrfs": vrfs, "check": "0" * 16}, indent=1)
    return plainjson.sealed(f"{text}\n".encode("ascii"), _CHECK_MARK)


def read_vrfs(home: str, current: Current) -> "dict[str, ListedVrf]":
    """The VRFs that CURRENT names, by name; none if it names no list.

    :raises StateDamagedError: if the list is gone, or is not what was written
    :raises StateTooNewError: if a newer release wrote it
    """
    if not current.vrfs:
        return {}
    path = list_path(home, current.vrfs)
    try:
        with open(path, "rb") as file:
            found, check = plainjson.loads_sealed(file.read(), _CHECK_MARK)
        require_version(str(found["version"]), path)
        if found["check"] != check:
            raise ValueError("its checksum does not fit its content")
        listed = {}
        for each in found["vrfs"]:
            record = {"bytes": each["bytes"], "sha256": each["sha256"], "places": each["places"]}
            # Of another version it is no revision that there is: the next publish compiles it anew.
            revision = int(each["edits"]) if found["version"] == FORMAT_VERSION else -1
            listed[str(each["name"])] = ListedVrf(each["name"], int(each["file"]), revision, record)
    except OSError as error:
        raise StateDamagedError(f"{path}: reading failed: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise StateDamagedError(f"{path}: is damaged: the next edit of a VRF makes it anew") from error
    return listed


def vrf_files(home: str, current: Current) -> "dict[str, dict[str, Any]]":
    """The files of the VRFs that CURRENT names, each with its record; the list, which has a checksum, with none.

    :raises StateDamagedError: as `read_vrfs` does
    """
    if not current.vrfs:
        return {}
    listed = read_vrfs(home, current).values()
    return {list_path(home, current.vrfs): {}, **{layer_path(home, each.number): each.file for each in listed}}


def in_vrf(home: str, published: Published, name: str) -> Published:
    """What is published, with the blocks of a VRF above the custom layer; it takes over the open files.

    :raises UnknownVrfError: if there is no VRF of this name
    :raises StateDamagedError: if its file is not what was published
    """
    listed = read_vrfs(home, published.current)
    if name not in listed:
        raise unknown_vrf(name, listed)
    found = listed[name]
    path = layer_path(home, found.number)
    try:
        layer = IndexReader.open(path)
        _require_layer(layer.header, path, found)
        overlay = over(layer, published.overlay)
    except IndexFileError as error:
        raise StateDamagedError(f"the layer of the VRF {name} cannot be used: {error}") from error
    return Published(published.current, published.base, overlay, published.network)


def unknown_vrf(name: str, known: "dict[str, ListedVrf]") -> UnknownVrfError:
    """The error about a VRF that is not there; it names those that are."""
    names = sorted(known)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    there = f"there are {', '.join(names[:_SHOWN])}{more}" if names else "there are none"
    return UnknownVrfError(f"no VRF is named {name!r:.60}: {there}")


def _require_layer(header: Header, path: str, found: ListedVrf) -> None:
    if header.layer != "custom" or header.size_bytes != found.file["bytes"]:
        raise IndexDamagedError(f"{path}: is not the file that was published: its size or layer differs")


def over(layer: IndexReader, custom: IndexReader) -> IndexReader:
    """A VRF's blocks over the global custom layer, as one; if that is empty, they are all there is."""
    if not custom.location_count:
        return layer
    from geolookup.index.stack import write_stack  # late: it needs numpy

    with tempfile.TemporaryDirectory(prefix="geolookup-vrf-") as inside:
        path = os.path.join(inside, "layer")
        write_stack(path, [("", layer), ("", custom)], layer="custom")
        return IndexReader.open(path)  # what is mapped stays, though its name goes
