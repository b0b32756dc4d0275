"""Strace's log of one run, played again call by call on the model of a disk."""

import codecs
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.faults.disk.disk_model import Directory, Disk, File, Node

#: What must be recorded; strings whole, descriptors as plain numbers.
TRACE = (
    "openat,open,creat,close,write,pwrite64,writev,pwritev,pwritev2,lseek,read,ftruncate,truncate,fallocate,mmap,"
    "copy_file_range,sendfile,fsync,fdatasync,sync_file_range,rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,"
    "mkdirat,link,linkat,symlink,symlinkat,dup,dup2,dup3,sendto"
)
OPTIONS = ("-s", "1000000000")
SYNCS = ("fsync", "fdatasync")
_BY_DESCRIPTOR = {
    *SYNCS,
    "write",
    "pwrite64",
    "writev",
    "pwritev",
    "pwritev2",
    "lseek",
    "read",
    "ftruncate",
    "fallocate",
}

_CALL = re.compile(r"(\w+)\((.*)\) += (-?\d+|0x[0-9a-f]+)")
_RESUMED = re.compile(r"<\.\.\. \w+ resumed>")
_BEGUN = " <unfinished ...>"
_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')
_TEMPORARY = re.compile(r"(\.candidate-|\.tmp-)[\w-]+")
_REQUEST = re.compile(rb"(POST|PUT|PATCH|DELETE) ")


class UnknownCallError(Exception):
    """A call touched the state that the model does not know: its verdict would be worth nothing."""


@dataclass(frozen=True, slots=True)
class Event:
    """A call that changed the disk, or sent a request that changes something at the service (``request``)."""

    label: str
    request: bool = False


@dataclass(slots=True)
class _Open:
    node: Node
    path: str
    offset: int = 0
    append: bool = False


class Playback:
    """Plays a log on a disk: iterating does one call after another, each yielded once it is done.

    ``without`` are numbers (from 0) of calls of fsync and fdatasync on the state that are left out. ``syncs`` are the
    labels of all met so far.
    """

    def __init__(self, log: str, home: str, disk: Disk, *, without: frozenset[int] = frozenset()) -> None:
        self._log, self._home, self._disk, self._without = log, home, disk, without
        self._open: dict[int, _Open] = {}
        self._process: str | None = None
        self.syncs: list[str] = []

    def __iter__(self) -> Iterator[Event]:
        begun: dict[str, str] = {}
        with open(self._log, encoding="ascii", errors="replace") as file:
            for line in file:
                process, _, call = line.partition(" ")
                call = call.strip()
                if call.endswith(_BEGUN):  # a thread did something meanwhile
                    begun[process] = call.removesuffix(_BEGUN)
                    continue
                resumed = _RESUMED.match(call)
                match = _CALL.match(call if resumed is None else begun.pop(process, "") + call[resumed.end() :])
                if match is None or match[3].startswith("-"):
                    continue
                event = self._play(match[1], match[2], int(match[3], 0))
                if event is not None:
                    if self._process not in (None, process):
                        raise UnknownCallError(f"two threads change the state: {line:.200}")
                    self._process = process
                    yield event

    def _play(self, name: str, arguments: str, result: int) -> Event | None:
        texts = [codecs.escape_decode(text.encode("ascii"))[0] for text in _TEXT.findall(arguments)]
        if name == "sendto":
            return Event("request", request=True) if texts and _REQUEST.match(texts[0]) else None
        numbers = arguments.split(", ")
        descriptor = numbers[4] if name == "mmap" else numbers[0]
        opened = self._open.get(int(descriptor)) if descriptor.isdecimal() else None
        if name in ("open", "openat", "creat"):
            return self._open_file(name, arguments, texts[0], result)
        if name == "close":
            self._open.pop(int(numbers[0]), None)
            return None
        if opened is not None and name != "unlinkat":
            return self._on_open(name, opened, arguments, texts, result)
        if name in _BY_DESCRIPTOR:
            return None
        paths = self._paths(arguments)
        if not any(path is not None for path in paths):
            return None
        first = paths[0]
        assert first is not None, arguments
        if name in ("unlink", "rmdir", "unlinkat"):
            return self._remove(first)
        if name in ("mkdir", "mkdirat"):
            self._disk.create(first, Directory())
            return Event(f"mkdir {_label(first)}")
        if name in ("rename", "renameat", "renameat2"):
            target = paths[1]
            if target is None or "RENAME_" in arguments:
                raise UnknownCallError(arguments)
            self._disk.rename(first, target)
            return Event(f"rename {_label(first)} {_label(target)}")
        raise UnknownCallError(f"{name}({arguments:.200}")

    def _on_open(self, name: str, opened: _Open, arguments: str, texts: list[bytes], result: int) -> Event | None:
        node, label = opened.node, _label(opened.path)
        if name in SYNCS:
            self.syncs.append(f"{name} {label}")
            if len(self.syncs) - 1 not in self._without:
                self._disk.sync(node)
            return Event(self.syncs[-1])
        if name == "mmap":
            if "PROT_WRITE" in arguments and "MAP_SHARED" in arguments:
                raise UnknownCallError(f"{label} is written to by mmap")
            return None
        if name == "lseek":
            opened.offset = result
            return None
        if isinstance(node, Directory):
            if name in ("dup", "read"):
                return None
            raise UnknownCallError(f"{name}({arguments:.200}")
        if name == "read":
            opened.offset += result
            return None
        if name == "ftruncate":
            node.truncate(int(arguments.split(", ")[1]))
        elif name == "pwrite64":
            node.write(int(arguments.rpartition(", ")[2]), texts[0][:result])
        elif name in ("write", "writev"):
            if opened.append:
                opened.offset = len(node.content("all"))
            node.write(opened.offset, b"".join(texts)[:result])
            opened.offset += result
        else:
            raise UnknownCallError(f"{name}({arguments:.200}")
        return Event(f"{name} {label}")

    def _open_file(self, name: str, arguments: str, text: bytes, descriptor: int) -> Event | None:
        self._open.pop(descriptor, None)
        path = self._paths(arguments)[0]
        if path is None:
            return None
        node, event = self._disk.find(path), None
        if node is None:
            if name != "creat" and "O_CREAT" not in arguments:
                raise UnknownCallError(f"{name}({arguments}: there is no such file on the model's disk")
            node = File()
            self._disk.create(path, node)
            event = Event(f"create {_label(path)}")
        elif isinstance(node, File) and ("O_TRUNC" in arguments or name == "creat"):
            node.truncate(0)
            event = Event(f"truncate {_label(path)}")
        self._open[descriptor] = _Open(node, path, append="O_APPEND" in arguments)
        return event

    def _remove(self, path: str | None) -> Event:
        assert path is not None
        self._disk.remove(path)
        return Event(f"remove {_label(path)}")

    def _paths(self, arguments: str) -> list[str | None]:
        """Each path among the arguments, relative to the state; None for one that is elsewhere."""
        found: list[str | None] = []
        for match in _TEXT.finditer(arguments):
            path = os.fsdecode(codecs.escape_decode(match[1].encode("ascii"))[0])
            before = arguments[: match.start()].rstrip(", ").rpartition(", ")[2]
            if not os.path.isabs(path) and before.isdecimal():
                base = self._open.get(int(before))
                found.append(None if base is None else os.path.join(base.path, path))
            elif path == self._home or path.startswith(self._home + "/"):
                found.append(path[len(self._home) + 1 :])
            else:
                found.append(None)
        return found


def _label(path: str) -> str:
    return _TEMPORARY.sub(r"\1*", path) or "."
