"""Power cuts at every moment of a command, replayed on a model of a disk: ``python -m tests.faults.disk.power_cut``.

The command runs once under strace. Its calls are then made again, one by one, on a model disk; after each, every state
that a power cut may leave there is written out and opened. With ``--without-each-sync`` it is replayed once more for
each fsync and fdatasync, with that one left out, and a table says which of them turn it red.
"""

import argparse
import contextlib
import json
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from geolookup.model.errors import GeoLookupError
from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.edits.outbox.row import State
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.verify import verify
from tests.faults.disk import recording
from tests.faults.disk.disk_model import Disk, Tree
from tests.faults.disk.recording import Playback
from tests.faults.kills.scenarios import SCENARIOS, Facts, Workshop, facts
from tests.faults.kills.strace_sweep import ENVIRONMENT
from tests.faults.kills.traced import traced, why_not
from tests.faults.service_process import ServiceProcess, stamped_csv
from tests.state.generations.staged import strays, tree

#: The call that commits a transaction; it is durable with the next, which syncs the directory.
_COMMIT = "remove edits.db-journal"


@dataclass(frozen=True, slots=True)
class Moment:
    """When the power is cut: after the command's end, or right before a request; and what edits.db may hold then."""

    finished: bool
    request: bool
    committed: frozenset[int]


class Recording:
    """One scenario's command, recorded; what was there before, and after."""

    def __init__(self, name: str, shop: Workshop) -> None:
        scenario = SCENARIOS[name]
        scenario.prepare(shop)
        self.before, self.template = facts(shop.template), tree(shop.template)
        shop.fresh()
        run = traced(
            scenario.arguments, home=shop.home, work=shop.folder, trace=recording.TRACE, options=recording.OPTIONS
        )
        assert run.code == 0, run.stderr
        self.after, self.home, self.folder = facts(shop.home), shop.home, shop.folder
        self.history = len(StateDirectory(shop.home).edits.history())
        self.pushes = scenario.pushes
        self.log = os.path.join(shop.folder, "trace")
        #: What was found to be good need not be opened again.
        self.good: set[int] = set()
        self._commits = self._committed()

    def _committed(self) -> list[frozenset[int]]:
        """For each moment, from the beginning to the end: what edits.db may hold then.

        That is what was committed last, or is being committed: never a part of a transaction, and never again what was
        before a commit that is over.
        """
        disk = Disk(self.template)
        playback = Playback(self.log, self.home, disk)
        contents, labels = [self._content_of(disk)], ["the beginning"]
        for event in playback:
            changed = "edits.db" in event.label
            contents.append(self._content_of(disk) if changed else contents[-1])
            labels.append(event.label)
        self.calls, self.syncs = len(labels) - 1, list(playback.syncs)
        allowed = []
        upcoming = contents[-1]
        for number in range(len(contents) - 1, -1, -1):
            if number + 1 < len(contents) and contents[number + 1] != contents[number]:
                upcoming = contents[number + 1]
            before = {contents[number - 1]} if labels[number] == _COMMIT else set()
            allowed.append(frozenset({contents[number], upcoming, *before}))
        return allowed[::-1]

    def _content_of(self, disk: Disk) -> int:
        """What SQLite finds in edits.db, were the process killed now."""
        folder = os.path.join(self.folder, "edits")
        write_out({name: data for name, data in disk.now().items() if name.startswith("edits.db")}, folder)
        return content_of(os.path.join(folder, "edits.db"))

    def states(self, *, without: frozenset[int] = frozenset()) -> Iterator[tuple[int, str, Tree, Moment]]:
        """Every state that a power cut may leave, each once: its hash, which, what, and at which moment."""
        disk = Disk(self.template)
        playback = Playback(self.log, self.home, disk, without=without)
        seen = set(self.good)
        for number, event in enumerate(playback, start=1):
            for finished in (False, True) if number == self.calls else (False,):
                moment = Moment(finished, event.request, self._commits[-1 if finished else number])
                when = "after the end" if finished else f"after call {number} ({event.label})"
                for what, left in disk.after_a_power_cut():
                    key = hash((frozenset(left.items()), moment))
                    if key not in seen:
                        seen.add(key)
                        yield key, f"{when}: {what}", left, moment

    def problems(self, left: Tree, moment: Moment) -> list[str]:
        """What is wrong with a state that a power cut left, once it is written out and opened."""
        write_out(left, self.home)
        finished = moment.finished
        try:
            content = content_of(os.path.join(self.home, "edits.db"))
            found = facts(self.home)
            wrong = [] if found.answers is None else verify(self.home)
            wrong += self._compared(found, finished=finished)
            if content not in moment.committed:
                wrong.append("edits.db has a part of a transaction, or lacks one that was committed")
            wrong += damaged_copies(self.home)
            directory = StateDirectory(self.home)
            directory.edits.check()
            if finished and len(directory.edits.history()) < self.history:
                wrong.append("the history lacks what was done")
            if finished and self.pushes and directory.local.pending():
                wrong.append("what was pushed is pending again")
            if moment.request:
                with directory.edits.transaction() as database:
                    if not Outbox(database).rows(State.SENDING):
                        wrong.append("a request leaves, and no edit is known to be on its way")
            with directory.locks.run():
                if found.answers is not None:
                    directory.republish()
                directory.edits.record("look", "done")  # a journal that holds nothing goes when SQLite writes next
            # An edit that is durable and was not published yet is published by whoever comes next.
            edited = self.before.custom != self.after.custom == found.custom
            if facts(self.home) != (self.after if edited else found):
                wrong.append(f"the next publish led from {found} to {facts(self.home)}")
            left_over = strays(self.home)
            if found.answers is None:
                # Without a CURRENT nobody can tell what was committed: a whole generation stays, for the next sync.
                left_over = [path for path in left_over if not path.rpartition("/")[2].isdecimal()]
            if left_over:
                wrong.append(f"left after the next run: {left_over}")
        except (GeoLookupError, sqlite3.Error) as error:
            return [repr(error)]
        return wrong

    def _compared(self, found: Facts, *, finished: bool) -> list[str]:
        wrong = []
        allowed = (self.after,) if finished else (self.before, self.after)
        if found.answers not in [each.answers for each in allowed]:
            wrong.append(f"these answers are of no whole state: {found.answers}")
        if found.custom not in [each.custom for each in allowed]:
            wrong.append(f"these edits are of no whole state: {found.custom}")
        return wrong


@contextlib.contextmanager
def unsynced() -> Iterator[None]:
    """Nothing is synced: what is written out and looked at is thrown away. What is recorded must not see this."""
    real, os.fsync = os.fsync, lambda fd: None
    try:
        yield
    finally:
        os.fsync = real


def write_out(left: Tree, home: str) -> None:
    """Make a directory what the model says."""
    shutil.rmtree(home, ignore_errors=True)
    os.mkdir(home, 0o700)
    for path, data in left.items():  # a directory comes before what is in it
        if data is None:
            os.mkdir(os.path.join(home, path), 0o700)
        else:
            with open(os.path.join(home, path), "wb") as file:
                file.write(data)


def content_of(path: str) -> int:
    """A hash of all that a database holds, once SQLite has settled what was left beside it; of nothing, for none."""
    if not os.path.exists(path):
        return hash("")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        checked = connection.execute("PRAGMA integrity_check").fetchall()
        tables = connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
        rows = [
            sorted(map(repr, connection.execute(f'SELECT * FROM "{name}"')))
            for name, sql in tables
            if sql and sql.startswith("CREATE TABLE")
        ]
    return hash(repr((checked, tables, rows))) if tables else hash("")


def damaged_copies(home: str) -> list[str]:
    """The copies of edits.db that nobody could go back to."""
    wrong = []
    for name in ("edits.backup.1.db", "edits.backup.2.db", "edits.backup.3.db"):
        path = os.path.join(home, name)
        if os.path.exists(path):
            with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
                found = connection.execute("PRAGMA quick_check").fetchall()
                if found != [("ok",)] or not connection.execute("SELECT 1 FROM sqlite_master").fetchall():
                    wrong.append(f"{name}: {found}")
    return wrong


def replay(one: Recording, *, without: frozenset[int] = frozenset(), enough: int | None = None) -> dict[str, Any]:
    """How many states were opened, and which were ``bad``; no more after ``enough`` bad ones."""
    found: dict[str, Any] = {"states": 0, "bad": []}
    for key, what, left, moment in one.states(without=without):
        problems = one.problems(left, moment)
        found["states"] += 1
        if not problems:
            one.good.add(key)
        else:
            found["bad"].append({"state": what, "problems": problems})
            if enough is not None and len(found["bad"]) >= enough:
                break
    return found


def _report(name: str, folder: str, *, each_sync: bool) -> dict[str, Any]:
    with ExitStack() as opened:
        service = opened.enter_context(ServiceProcess(os.path.join(folder, "service"), stamped_csv("0")))
        os.environ.update(GEOLOOKUP_URL=service.url, GEOLOOKUP_KEEP_GENERATIONS="2", GEOLOOKUP_SETTLE_S="0")
        one = Recording(name, Workshop(folder, service, opened))
    with unsynced():
        figures = replay(one)
    syncs = list(one.syncs)
    print(
        f"{name}: {one.calls} calls, {len(syncs)} syncs: {figures['states']} states opened, {len(figures['bad'])} bad"
    )
    for bad in figures["bad"][:10]:
        print(f"  BAD {bad}", file=sys.stderr)
    for number, label in enumerate(syncs if each_sync else ()):
        with unsynced():
            without = replay(one, without=frozenset({number}), enough=1)
        verdict = without["bad"][0] if without["bad"] else None
        figures.setdefault("without", []).append({"sync": label, "bad": verdict})
        why = "still good" if verdict is None else f"{verdict['state']}: {verdict['problems'][0]:.100}"
        print(f"  without {number + 1:2} {label:45} {why}", flush=True)
    return figures


def main() -> int:
    """Replay the scenarios named, or all; 1 where any state was bad."""
    if any(os.environ.get(name) != value for name, value in ENVIRONMENT.items()):
        os.execve(sys.executable, [sys.executable, "-m", "tests.faults.disk.power_cut", *sys.argv[1:]],
                  {**os.environ, **ENVIRONMENT})  # fmt: skip
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenarios", nargs="*", choices=[*SCENARIOS, []], help="all where none is named")
    parser.add_argument("--without-each-sync", action="store_true", help="then leave out one sync after another")
    parser.add_argument("--json", metavar="FILE", help="write all that was found to FILE")
    options = parser.parse_args()
    reason = why_not()
    if reason is not None:
        parser.error(reason)
    figures = {}
    for name in options.scenarios or SCENARIOS:
        with tempfile.TemporaryDirectory(prefix="power-cut-") as folder:
            figures[name] = _report(name, folder, each_sync=options.without_each_sync)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=1)
    bad = sum(len(found["bad"]) for found in figures.values())
    print(f"{sum(found['states'] for found in figures.values())} states opened, {bad} bad")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
