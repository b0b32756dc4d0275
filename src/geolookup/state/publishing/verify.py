"""Verify what is published: every byte against CURRENT, every invariant of the files."""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from geolookup.index.reader import IndexReader
from geolookup.index.verify import verify_index
from geolookup.model.errors import GeoLookupError, NoStateError, StateBusyError, StateError, StateUnreadableError
from geolookup.model.reports import Progress, unwatched
from geolookup.state.base import files
from geolookup.state.base.candidate import REPORT, is_as_sealed, read_report
from geolookup.state.base.current import (
    Current,
    generation_path,
    index_path,
    network_path,
    open_published,
    overlay_path,
    read_current,
)
from geolookup.state.base.parts import parts_of, snapshot_path
from geolookup.state.base.vrfs import vrf_files
from geolookup.state.edits.store import Edits
from geolookup.state.generations import packing
from geolookup.state.generations.cache import Cache
from geolookup.state.generations.served import nothing_published


class _Work:
    """The number of bytes checked, and of all; a file counts for each time that it is read."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._done = self._total = 0

    def expect(self, sizes: Iterable[int]) -> None:
        self._total += sum(sizes)

    def checked(self, size: int) -> None:
        self._done += size
        self._progress(self._done, max(self._total, self._done))


def verify(home: str, *, progress: Progress = unwatched) -> list[str]:
    """Check every byte that CURRENT names, and every invariant of it: the problems found; none if all is well.

    ``progress`` is told how many bytes are checked, of how many.

    :raises NoStateError: if nothing has been published
    :raises StateDamagedError: if reading CURRENT fails
    :raises StateTooNewError: if a newer release wrote it
    :raises StateUnreadableError: if this user may not read all of it
    """
    while True:
        try:
            current = read_current(home)
        except NoStateError as error:
            raise nothing_published(home) from error
        problems = _problems(home, current, _Work(progress))
        # A publish removes what the CURRENT before it named: a file that is missing then is not a problem.
        if not problems or read_current(home).sequence == current.sequence:
            return problems


def changed_files(home: str, current: Current) -> list[str]:
    """The files that are not, byte for byte, what ``current`` names: the quick half of `verify`."""
    return [problem for path, record in _expected(home, current).items() for problem in _content_problems(path, record)]


def damaged_sources(home: str, current: Current) -> frozenset[str]:
    """The sources whose served snapshots are not what was written; "" stands for the generation's own files.

    Of a source that is a file the compiled rows are compared by their size only: it is there to be read again.
    """
    parts = parts_of(current.published)
    found = set()
    changed = _changed_quickly(home, current)
    if current.recovered is not None or changed:
        found.add("")
        if len(parts) == 1:
            found.add(parts[0].name)
    for part in parts:
        path = snapshot_path(home, part.snapshot)
        try:
            records = read_report(path)["published"]["files"]
            if not is_as_sealed(path):
                found.add(part.name)
            for name in records:
                size = os.stat(os.path.join(path, name)).st_size
                if size != records[name]["bytes"] or any(
                    _is_same_file(os.path.join(path, name), each) for each in changed
                ):
                    found.add(part.name)
        except (StateError, OSError):
            found.add(part.name)
    return frozenset(found)


def _changed_quickly(home: str, current: Current) -> list[str]:
    """The files that are not what ``current`` names; rows of sources that are files are compared by their size only."""
    generation = generation_path(home, current.generation)
    changed = [] if is_as_sealed(generation) else [os.path.join(generation, REPORT)]
    has_list = bool(current.published.get("url") or current.published.get("custom"))
    for path, record in _expected(home, current).items():
        if has_list or os.path.basename(path) != "cache.db":
            if _content_problems(path, record):
                changed.append(path)
        elif not os.path.exists(path) or os.path.getsize(path) != record["bytes"]:
            changed.append(path)
    return changed


def _expected(home: str, current: Current) -> dict[str, dict[str, Any]]:
    index = index_path(home, current.generation)
    records = current.published["files"]
    return {
        index: records["index"],
        os.path.join(os.path.dirname(index), "cache.db"): records["cache.db"],
        overlay_path(home, current.overlay): current.overlay_file,
        **({network_path(home, current.generation): records["network"]} if "network" in records else {}),
    }


def _problems(home: str, current: Current, work: _Work) -> list[str]:
    index = index_path(home, current.generation)
    generation = os.path.dirname(index)
    cache = os.path.join(generation, "cache.db")
    records = current.published["files"]
    snapshot_files, of_snapshots = _snapshots(home, current)
    expected = _expected(home, current)
    # The index, the overlay and cache.db are read twice: for their bytes, and for what these mean.
    work.expect(2 * record["bytes"] for record in expected.values())
    work.expect(record["bytes"] for record in snapshot_files.values())
    problems = _all_content_problems(expected, work)
    with _collected(problems):
        reported = read_report(generation)["published"]
        if reported["digest"] != current.digest or reported["files"] != records:
            problems.append(f"{generation}: report.json is of another generation than CURRENT names")
    with _collected(problems):
        Cache(cache).check()
    work.checked(expected[cache]["bytes"])
    with _collected(problems):
        Edits(home).check(current, sealed=True)
    problems += of_snapshots
    with _collected(problems):
        for path, record in vrf_files(home, current).items():
            problems += _content_problems(path, record) if record else []
            if record:
                with contextlib.closing(IndexReader.open(path)) as reader:
                    verify_index(reader)
    problems += _all_content_problems(snapshot_files, work)
    problems += packing.problems(home)
    problems += _report_problems(generation)
    try:
        published = open_published(home)
    except StateError as error:
        return [*problems, str(error)]
    readers = [published.base, published.overlay]
    if published.network is not None:
        with _collected(problems):
            readers.append(IndexReader.open(published.network))
    for reader in readers:
        with _collected(problems):
            verify_index(reader)
        # Another generation may be served by now: then all of this is looked at again.
        if reader.path in expected:
            work.checked(expected[reader.path]["bytes"])
    for reader in readers:
        reader.close()
    return problems


def _snapshots(home: str, current: Current) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """The files of the snapshots that are served, or that sources have newest, with their records, and what is wrong
    with these records. Files that are the generation's own by another name are looked at by that.
    """
    generation = os.path.dirname(index_path(home, current.generation))
    found: dict[str, dict[str, Any]] = {}
    problems: list[str] = []
    known = {int(entry["snapshot"]): str(entry["digest"]) for entry in current.sources}
    known |= {part.snapshot: part.digest for part in parts_of(current.published)}
    for number, digest in sorted(known.items()):
        if not number:
            continue
        path = snapshot_path(home, number)
        problems += _report_problems(path)
        with _collected(problems):
            record = read_report(path)["published"]
            if record["digest"] != digest:
                problems.append(f"{path}: report.json is of another snapshot than CURRENT names")
            for name in record["files"]:
                file = os.path.join(path, name)
                if not _is_same_file(file, os.path.join(generation, name)):
                    found[file] = record["files"][name]
    return found, problems


def _report_problems(directory: str) -> list[str]:
    if is_as_sealed(directory):
        return []
    return [f"{os.path.join(directory, REPORT)}: is not what was written: its checksum differs"]


def _is_same_file(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


def _all_content_problems(expected: dict[str, dict[str, Any]], work: _Work) -> list[str]:
    return [problem for path, record in expected.items() for problem in _content_problems(path, record, work.checked)]


def _content_problems(
    path: str, record: dict[str, Any], on_bytes: Callable[[int], object] = lambda _count: None
) -> list[str]:
    try:
        found = files.file_record(path, on_bytes)
    except PermissionError as error:
        raise files.unreadable(path) from error
    except OSError as error:
        return [f"{path}: cannot be read: {error.strerror}"]
    if found["bytes"] != record["bytes"] or found["sha256"] != record["sha256"]:
        return [f"{path}: is not what was published: its size or SHA-256 differs"]
    return []


@contextlib.contextmanager
def _collected(problems: list[str]) -> Iterator[None]:
    try:
        yield
    except (StateBusyError, StateUnreadableError):
        raise  # it may be whole
    except GeoLookupError as error:
        problems.append(str(error))
