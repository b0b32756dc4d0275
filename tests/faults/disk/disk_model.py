"""A disk that forgets: what a directory may look like after a power cut, by the system calls that were made on it.

What was synced is there. Of what was not, anything may be there or missing: a file's bytes (none, a part, zeros in
their place) and each name that was made, replaced or removed. A rename is one step, as file systems with a journal do
it: half of one is never seen, and syncing either directory makes it durable.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

#: How a file whose bytes were not synced may come back.
ALL, NONE, FIRST_HALF, LAST_HALF, ZEROS, TRUNCATED = "all", "none", "first half", "last half", "zeros", "truncated"
_PARTLY = (NONE, FIRST_HALF, LAST_HALF, ZEROS, TRUNCATED)
#: Up to this many names in doubt, each is left out alone as well.
_SINGLE_NAMES = 24


@dataclass(eq=False, slots=True)
class File:
    """A file: the bytes that are durable, and what was written since, in order."""

    durable: bytes = b""
    unsynced: list[tuple[int, bytes | None]] = field(default_factory=list)
    _known: dict[str, bytes] = field(default_factory=dict)

    def write(self, offset: int, data: bytes) -> None:
        self.unsynced.append((offset, data))
        self._known.clear()

    def truncate(self, size: int) -> None:
        self.unsynced.append((size, None))
        self._known.clear()

    def sync(self) -> None:
        self.durable = self.content(ALL)
        self.unsynced.clear()
        self._known.clear()

    def content(self, mode: str) -> bytes:
        """Its bytes after a power cut, or (with ALL) as they are; the same object while nothing changes."""
        if mode not in self._known:
            self._known[mode] = self._content(mode)
        return self._known[mode]

    def _content(self, mode: str) -> bytes:
        half = (len(self.unsynced) + 1) // 2
        steps = {NONE: [], FIRST_HALF: self.unsynced[:half], LAST_HALF: self.unsynced[half:]}.get(mode, self.unsynced)
        data = bytearray(self.durable)
        for offset, written in steps:
            if written is None:
                data[offset:] = bytes(max(0, offset - len(data)))
                continue
            data.extend(bytes(max(0, offset - len(data))))
            data[offset : offset + len(written)] = bytes(len(written)) if mode == ZEROS else written
        # Only what is beyond the durable bytes can be cut off.
        kept = min(len(data), len(self.durable) + max(0, len(data) - len(self.durable)) // 2)
        return bytes(data[:kept] if mode == TRUNCATED else data)


@dataclass(eq=False, slots=True)
class Directory:
    """A directory: its durable names, and those that it has now."""

    durable: dict[str, "Node"] = field(default_factory=dict)
    names: dict[str, "Node"] = field(default_factory=dict)


Node = File | Directory
#: A step that changed names: (directory, name, what the name stands for from now on, None where for nothing).
Step = tuple[tuple[Directory, str, Node | None], ...]
#: What stands on a disk: every path with its bytes, None for a directory.
Tree = dict[str, bytes | None]


class Disk:
    """The disk below one directory, and all that calls did to it."""

    def __init__(self, tree: Tree) -> None:
        self.root = Directory()
        self._unsynced: list[Step] = []
        for path in sorted(tree):
            data = tree[path]
            directory, name = self.parent(path)
            directory.names[name] = directory.durable[name] = Directory() if data is None else File(durable=data)

    def parent(self, path: str) -> tuple[Directory, str]:
        """The directory that a path is in, and its name there."""
        head, name = os.path.split(path)
        directory = self.find(head)
        assert isinstance(directory, Directory), path
        return directory, name

    def find(self, path: str) -> Node | None:
        """What stands at a path now."""
        node: Node | None = self.root
        for part in path.split("/") if path else ():
            assert isinstance(node, Directory), path
            node = node.names.get(part)
        return node

    def create(self, path: str, node: Node) -> None:
        directory, name = self.parent(path)
        self._step((directory, name, node))

    def remove(self, path: str) -> None:
        directory, name = self.parent(path)
        self._step((directory, name, None))

    def rename(self, path: str, target: str) -> None:
        (directory, name), (other, new_name) = self.parent(path), self.parent(target)
        self._step((directory, name, None), (other, new_name, directory.names[name]))

    def _step(self, *changes: tuple[Directory, str, Node | None]) -> None:
        self._unsynced.append(changes)
        for directory, name, node in changes:
            _set(directory.names, name, node)

    def sync(self, node: Node) -> None:
        """What fsync does; of a directory, it makes the names in it durable."""
        if isinstance(node, File):
            node.sync()
            return
        left: list[Step] = []
        for step in self._unsynced:
            if not any(directory is node for directory, _, _ in step):
                left.append(step)
                continue
            for directory, name, entry in step:
                _set(directory.durable, name, entry)
                # What was done to that name before can only be seen before.
                left = [tuple(change for change in old if (change[0], change[1]) != (directory, name)) for old in left]
        self._unsynced = [step for step in left if step]

    def now(self) -> Tree:
        """What stands there, as a process sees it, and as one that is killed leaves it."""
        return self._tree(self._unsynced, lambda _file: ALL)

    def after_a_power_cut(self) -> Iterator[tuple[str, Tree]]:
        """Every state of the model in which a cut at this moment may leave the disk, and what it is, in words."""
        steps = self._unsynced
        unsynced = [file for file in self._files() if file.unsynced]
        everything: Callable[[File], str] = lambda _file: ALL  # noqa: E731
        nothing: Callable[[File], str] = lambda _file: NONE  # noqa: E731
        for what, bytes_of in (("all bytes", everything), ("no unsynced bytes", nothing)):
            yield f"{what}, all names", self._tree(steps, bytes_of)
            for count in range(len(steps)):
                yield f"{what}, the first {count} unsynced names", self._tree(steps[:count], bytes_of)
            for count in range(len(steps) if len(steps) <= _SINGLE_NAMES else 0):
                yield f"{what}, all names but {count}", self._tree(steps[:count] + steps[count + 1 :], bytes_of)
            for directory in {id(change[0]): change[0] for step in steps for change in step}.values():
                within = [step for step in steps if any(change[0] is directory for change in step)]
                others = [step for step in steps if step not in within]
                yield f"{what}, the names of one directory", self._tree(within, bytes_of)
                yield f"{what}, the names of all directories but one", self._tree(others, bytes_of)
        for number, file in enumerate(unsynced):
            for mode in _PARTLY:
                chosen = lambda each, file=file, mode=mode: mode if each is file else ALL  # noqa: E731
                yield f"all names, of file {number} {mode}", self._tree(steps, chosen)
                yield f"no unsynced names, of file {number} {mode}", self._tree([], chosen)
            alone = lambda each, file=file: ALL if each is file else NONE  # noqa: E731
            yield f"all names, bytes of file {number} alone", self._tree(steps, alone)

    def _files(self) -> Iterable[File]:
        found: dict[int, File] = {}
        waiting: list[Node] = [self.root, *(change[2] for step in self._unsynced for change in step if change[2])]
        seen = set()
        while waiting:
            node = waiting.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if isinstance(node, File):
                found[id(node)] = node
            else:
                waiting += [*node.names.values(), *node.durable.values()]
        return found.values()

    def _tree(self, steps: Iterable[Step], bytes_of: Callable[[File], str]) -> Tree:
        changed: dict[int, dict[str, Node]] = {}
        for step in steps:
            for directory, name, node in step:
                _set(changed.setdefault(id(directory), dict(directory.durable)), name, node)
        tree: Tree = {}

        def walk(directory: Directory, prefix: str) -> None:
            for name, node in changed.get(id(directory), directory.durable).items():
                if isinstance(node, File):
                    tree[prefix + name] = node.content(bytes_of(node)) if node.unsynced else node.durable
                else:
                    tree[prefix + name] = None
                    walk(node, f"{prefix}{name}/")

        walk(self.root, "")
        return tree


def _set(names: dict[str, Node], name: str, node: Node | None) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node
