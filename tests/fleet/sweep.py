"""Kills and faults at every system call of a publish and of a reader's sync: ``python -m tests.fleet.sweep``.

A publish that is stopped anywhere leaves a folder from which readers take what was published before, or this; the next
publish leads to this. A sync that is stopped leaves the old answers or the new ones, whole, and versions that never
fall; the next sync leads to the new ones.
"""

import argparse
import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from geolookup.fleet import publish, reader
from geolookup.fleet.store import Folder
from geolookup.lookup.engine import GeoLookup
from geolookup.model.errors import GeoLookupError
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.run import running
from geolookup.state.publishing.verify import verify
from tests.faults.kills.strace_sweep import ENVIRONMENT, FAILING, KILL, NOT_COUNTED, _changes, _faults
from tests.faults.kills.traced import Call, Run, import_what_was_imported, traced, untraced
from tests.faults.spread import each_kind, spread
from tests.fleet.served import SETTINGS, Builder, Reader, fingerprint

_CHANCE = re.compile(r"(?<=fleet/)tmp\w+|[0-9a-f]{64}")
_ADDRESSES = ("20.0.1.9", "10.1.0.9", "10.2.0.9")


@contextmanager
def _web_server(folder: str) -> Iterator[str]:
    """Any web server on a folder, in a process of its own: this one forks."""
    command = [sys.executable, "-u", "-m", "http.server", "0", "-b", "127.0.0.1", "-d", folder]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        match = re.search(r"port (\d+)", server.stdout.readline())
        assert match is not None
        try:
            yield f"http://127.0.0.1:{match[1]}"
        finally:
            server.terminate()


def _answers(home: str) -> dict[str, Any]:
    with GeoLookup(home) as geo:
        return {address: geo.lookup(address) for address in _ADDRESSES}


class Sweep:
    """One of the two commands, stopped at one point after another; see `tests.faults.kills.strace_sweep.Sweep`."""

    def __init__(self, what: str, folder: str, url: str) -> None:
        self._what, self._folder = what, folder
        self._before, self._state = os.path.join(folder, "before"), os.path.join(folder, "state")
        self._www = os.path.join(folder, "state", "www")
        builder = self.builder = Builder(Path(folder), Path(self._www))
        reader_home = Reader(Path(folder))
        builder.edit()
        builder.publish()
        reader_home.join(url, builder.root)
        builder.night(1)
        builder.edit("10.2.0.0/24", "Lager")
        if what == "sync":
            builder.publish()
            shutil.move(self._www, os.path.join(folder, "served"))
            os.makedirs(self._state, exist_ok=True)
            os.symlink(os.path.join(folder, "served"), self._www)
            shutil.copytree(reader_home.home, self._before, symlinks=True)
            self._arguments: tuple[str, ...] = ("sync",)
        else:
            shutil.copytree(builder.home, self._before, symlinks=True)
            shutil.move(self._www, os.path.join(self._before, "www"))
            self._arguments = ("fleet", "publish", self._www, "--keys", builder.keys)
        self._reader = reader_home.home
        self._old = _answers(self._reader)
        self._new = _answers(builder.home)
        assert self._old != self._new
        self.fresh()
        whole = self._traced()
        assert whole.code == 0, whole.stderr
        import_what_was_imported(folder)
        problems = self._look_at(0, whole)
        assert not problems, problems
        self.calls = self._recorded()

    def fresh(self) -> None:
        """The state as it was before the command."""
        shutil.rmtree(self._home, ignore_errors=True)
        shutil.copytree(self._before, self._home, symlinks=True)

    @property
    def _home(self) -> str:
        return os.path.join(self._folder, "reading") if self._what == "sync" else self._state

    def _traced(self, **options: Any) -> Run:
        run = traced(self._arguments, home=self._home, work=self._folder, **options)
        # The client of python-tuf names its temporary files by chance, and blobs hold the time.
        calls = tuple(dataclasses.replace(call, label=_CHANCE.sub("*", call.label)) for call in run.calls)
        return dataclasses.replace(run, calls=calls)

    def _recorded(self) -> list[Call]:
        self.fresh()
        return [call for call in self._traced().calls if call.name not in NOT_COUNTED]

    def points(self, budget: int | None) -> Iterator[tuple[Call, str]]:
        """The points to try: all of them, or that many, a third of them kills."""
        failing = [call for call in self.calls if call.name in FAILING]
        killed_at = [call for call in self.calls if _changes(call)]
        if budget is None:
            yield from ((call, KILL) for call in killed_at)
            yield from ((call, fault) for call in failing for fault in _faults(call))
            return
        yield from ((call, KILL) for call in spread(killed_at, budget // 2))
        for number, call in enumerate(each_kind(failing, budget - budget // 2, lambda call: call.name)):
            faults = _faults(call)
            yield call, faults[number % len(faults)]

    def attempt(self, call: Call, fault: str) -> tuple[Run, list[str]]:
        """Run the command with the fault at the call: the run, and what is wrong about it."""
        position = self.calls.index(call)
        for _ in range(3):
            self.fresh()
            run = self._traced(trace=call.name, inject=f"{call.name}:{fault.format(call.nth)}")
            if any(each == call for each in run.calls):
                return run, self._look_at(-9 if fault == KILL else None, run)
            again = self._recorded()
            if position < len(again) and again[position].label == call.label:
                call = again[position]
        return run, ["the call did not come again"]

    def _look_at(self, expected: int | None, run: Run) -> list[str]:
        wrong = []
        if run.code is None:
            return ["it hung"]
        if expected is not None and run.code != expected:
            wrong.append(f"exit status {run.code} instead of {expected}: {run.stderr}")
        elif expected is None and run.code not in (0, 1):
            wrong.append(f"exit status {run.code}: {run.stderr}")
        if "Traceback" in run.stderr:
            wrong.append(run.stderr)
        try:
            return wrong + (self._after_sync(run) if self._what == "sync" else self._after_publish(run))
        except GeoLookupError as error:
            return [*wrong, repr(error)]

    def _after_sync(self, run: Run) -> list[str]:
        found = _answers(self._home)
        wrong = verify(self._home)
        if found not in (self._old, self._new) or (run.code == 0 and found != self._new):
            wrong.append(f"it answers {found} after exit status {run.code}")
        seen = reader.joined(self._home)
        following = untraced(("sync",), home=self._home, work=self._folder)
        then = reader.joined(self._home)
        if following.code != 0 or _answers(self._home) != self._new:
            wrong.append(f"the next sync: {following.code}, {following.stderr}")
        if seen is None or then is None or then.versions is None or (seen.versions or then.versions) > then.versions:
            wrong.append(f"the versions that were seen went from {seen} to {then}")
        left = os.listdir(os.path.join(self._home, "fleet"))
        if any(name.startswith(("tmp", "work")) or ".tmp-" in name for name in left):
            wrong.append(f"left after the next run: {left}")
        return wrong + verify(self._home)

    def _after_publish(self, run: Run) -> list[str]:
        wrong = []
        taken = os.path.join(self._folder, "taken")
        shutil.rmtree(taken, ignore_errors=True)
        shutil.copytree(self._reader, taken, symlinks=True)
        directory = StateDirectory(taken)
        with running(directory) as a_run:
            reader.sync(a_run, SETTINGS)
        found = _answers(taken)
        if found not in (self._old, self._new) or (run.code == 0 and found != self._new):
            wrong.append(f"a reader of it answers {found} after exit status {run.code}")
        following = untraced(self._arguments, home=self._home, work=self._folder)
        if following.code != 0:
            wrong.append(f"the next publish: {following.code}, {following.stderr}")
        with running(directory) as a_run:
            reader.sync(a_run, SETTINGS)
        if fingerprint(taken) != fingerprint(self._home):
            wrong.append("a reader does not answer as its builder after the next publish")
        left = [name for _, _, names in os.walk(Folder(self._www).path) for name in names if ".tmp-" in name]
        out = os.listdir(os.path.join(self._home, publish.OUT))
        if left or "work" in out:
            wrong.append(f"left after the next publish: {left} {out}")
        return wrong


def sweep(what: str, folder: str, budget: int | None) -> dict[str, Any]:
    """The figures of one command, as those of `tests.faults.kills.strace_sweep.sweep`."""
    served = os.path.join(folder, "served" if what == "sync" else "state/www")
    os.makedirs(os.path.dirname(served), exist_ok=True)
    www = os.path.join(folder, "state", "www")
    os.makedirs(os.path.dirname(www), exist_ok=True)
    with _web_server(www) as url:
        one = Sweep(what, folder, url)
        found: dict[str, Any] = {"calls": len(one.calls), "points": 0, "killed": 0, "failed": 0, "bad": []}
        for call, fault in list(one.points(budget)):
            run, problems = one.attempt(call, fault)
            found["points"] += 1
            found["killed"] += run.code == -9
            found["failed"] += run.code == 1
            if problems:
                found["bad"].append({"call": call.label, "inject": fault.format(call.nth), "problems": problems})
                print(f"BAD {what}: {found['bad'][-1]}", file=sys.stderr, flush=True)
    return found


def main() -> int:
    """Sweep both commands, and print a line for each; 1 where any point was bad."""
    if any(os.environ.get(name) != value for name, value in ENVIRONMENT.items()):
        os.execve(sys.executable, [sys.executable, "-m", "tests.fleet.sweep", *sys.argv[1:]],
                  {**os.environ, **ENVIRONMENT})  # fmt: skip
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commands", nargs="*", choices=["publish", "sync", []], help="both where none is named")
    parser.add_argument("--points", type=int, help="try this many of each; all where not given")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")
    options = parser.parse_args()
    figures = {}
    for what in options.commands or ("publish", "sync"):
        with tempfile.TemporaryDirectory(prefix="fleet-sweep-") as folder:
            found = figures[what] = sweep(what, folder, options.points)
        if not options.json:
            print(
                f"{what}: {found['calls']} calls; {found['points']} points tried, {found['killed']} killed, "
                f"{found['failed']} failed with a reason, {len(found['bad'])} bad",
                flush=True,
            )
    if options.json:
        print(json.dumps(figures))
    return 1 if any(found["bad"] for found in figures.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
