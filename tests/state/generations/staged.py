"""Candidates that are sealed and not yet published, and what stands in a state directory."""

import contextlib
import os
from collections.abc import Iterable, Iterator

from geolookup.index.reader import EMPTY
from geolookup.model.addresses import parse
from geolookup.state.base.candidate import Candidate
from geolookup.state.base.clock import now_text
from geolookup.state.base.current import Published
from geolookup.state.generations.recovery import numbered
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.run import Run, running
from geolookup.sync.pull.staging import Staging
from geolookup.upstream.decode import PulledGeolocation
from tests.support.data.states import URL, place


@contextlib.contextmanager
def staged(directory: StateDirectory, places: Iterable[PulledGeolocation]) -> Iterator[Candidate]:
    """A sealed candidate, under the run lock."""
    with running(directory) as run, staged_by(run, places) as candidate:
        yield candidate


@contextlib.contextmanager
def staged_by(run: Run, places: Iterable[PulledGeolocation]) -> Iterator[Candidate]:
    """A sealed candidate of a run under way."""
    with run.candidate() as candidate:
        with Staging(candidate) as staging:
            staging.add(list(places))
            done = staging.finish({"url": URL})
        record = {"source": URL, "url": URL, "digest": done.digest, "etag": None, "pulled_at": now_text()}
        candidate.seal({**record, "began_at": now_text(), "rows": done.rows}, {})
        yield candidate


def stamped(number: int) -> list[PulledGeolocation]:
    """Both layers, each row stamped with the number."""
    stamp = {"city": str(number), "region": str(number), "postalcode": str(number)}
    return [
        place(1, "10.0.0.0/8", "2001:db8::/32", **stamp),
        place(2, "11.0.0.0/8", **stamp),
        place(-1, "192.168.0.0/16", **stamp),
    ]


def stamps(published: Published) -> set[str]:
    """Every stamp that lookups in both layers find."""
    found = set()
    for reader, addresses in (
        (published.base, ("10.1.1.1", "11.1.1.1", "2001:db8::1")),
        (published.overlay, ("192.168.1.1",)),
    ):
        for address in addresses:
            slot = reader.segment(*parse(address))[0]
            found |= {"nothing"} if slot == EMPTY else set(reader.location(slot)[2:5])
    return found


def served(home: str) -> tuple[int, set[str]]:
    """The generation that is served, and the stamps that it answers with."""
    published = StateDirectory(home).open()
    try:
        return published.current.generation, stamps(published)
    finally:
        published.close()


def tree(home: str) -> dict[str, bytes | None]:
    """Every name under a directory with its bytes; None for a directory."""
    found: dict[str, bytes | None] = {}
    for directory, folders, names in os.walk(home):
        for name in folders:
            found[os.path.relpath(os.path.join(directory, name), home)] = None
        for name in names:
            path = os.path.join(directory, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, home)] = file.read()
    return found


def strays(home: str) -> list[str]:
    """Names that no whole state directory has: temporaries, and numbers that CURRENT's counters do not reach."""
    current = StateDirectory(home).current()
    limits = {
        "generations": current.newest if current else 0,
        "snapshots": current.newest_snapshot if current else 0,
        "custom": current.overlay if current else 0,
    }
    found = []
    for path in tree(home):
        parts = path.split(os.sep)
        temporary = any(
            ".tmp-" in part or part.startswith(".candidate-") or part.endswith("-journal") for part in parts
        )
        uncommitted = len(parts) == 2 and parts[1].isdecimal() and int(parts[1]) > limits.get(parts[0], 0)
        if temporary or uncommitted:
            found.append(path)
    return found


def generations(home: str) -> list[int]:
    """The numbers of the generations that stand there, ascending."""
    return sorted(numbered(os.path.join(home, "generations")))


def overlays(home: str) -> list[int]:
    """The numbers of the overlays that stand there, ascending."""
    return sorted(numbered(os.path.join(home, "custom")))
