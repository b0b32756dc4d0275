"""Kills and faults at every system call that touches the state: ``python -m tests.faults.kills.strace_sweep``.

Each scenario is one command of geolookup on a copy of one state. It is recorded once under strace; then it runs again
for each point: SIGKILL right before the call, or the call fails (once, or it and all of its kind from then on). After
each, what was left is looked at, and so is what the next ordinary run makes of it.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from geolookup.model.errors import GeoLookupError
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.verify import verify
from tests.faults.kills.scenarios import SCENARIOS, Facts, Workshop, facts
from tests.faults.kills.traced import Call, Run, import_what_was_imported, traced, untraced, why_not
from tests.faults.service_process import ServiceProcess, stamped_csv
from tests.faults.spread import each_kind, spread
from tests.state.generations.staged import strays

#: A process as the sweep needs it: no threads of numpy's in what forks, and the same calls in every run.
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}

#: The calls that are made to fail. All others are only killed at: what they do not do can be told from these.
FAILING = {
    *("openat", "creat", "mkdir", "mkdirat", "rmdir", "unlink", "unlinkat", "rename", "renameat", "renameat2", "flock"),
    *("write", "pwrite64", "writev", "pwritev", "pwritev2", "ftruncate", "truncate", "fallocate", "copy_file_range"),
    *("fsync", "fdatasync", "sync_file_range", "fchmod", "fchown", "statfs", "getdents64"),
}
#: Those of them that change nothing, as does an open that creates nothing.
READING = {"flock", "statfs", "getdents64"}
ONCE = tuple(f"error={code}:when={{}}" for code in ("ENOSPC", "EIO", "EROFS", "EMFILE"))
READING_ONCE = ("error=EIO:when={}", "error=EMFILE:when={}")
FOR_GOOD = tuple(f"error={code}:when={{}}+" for code in ("ENOSPC", "EROFS"))
#: How often these come before is up to the allocator, and to what a file's first use needs: they cannot be met again.
NOT_COUNTED = {"mmap", "ioctl"}
_NOT_YET_SEEN = "lookups will not see it until"
KILL = "signal=SIGKILL:when={}"


class Sweep:
    """One scenario: recorded, and then stopped at one point after another."""

    def __init__(self, name: str, shop: Workshop, *, every_call: bool = False) -> None:
        self._scenario, self._shop, self._every_call = SCENARIOS[name], shop, every_call
        self._scenario.prepare(shop)
        self._before = facts(shop.template)
        shop.fresh()
        whole = self._traced()
        assert whole.code == 0, whole.stderr
        import_what_was_imported(shop.folder)
        self._after = facts(shop.home)
        problems = self._look_at(whole.code, whole)
        assert not problems, problems
        # Recorded once more: by now, this process has done whatever is done once (what is imported, the time zone).
        self.calls = self._recorded()

    def _recorded(self) -> list[Call]:
        self._shop.fresh()
        return [call for call in self._traced().calls if call.name not in NOT_COUNTED]

    @property
    def whole(self) -> int:
        """How many points there are in all."""
        return sum(1 for _ in self.points(None))

    def points(self, budget: int | None) -> Iterator[tuple[Call, str]]:
        """The points to try: all of them, or that many, a third of them kills, spread evenly.

        Each kind of call that can fail has its share of the others.
        Of several reading calls in a row the first stands for all: a kill at any of them leaves the same disk.
        """
        failing = [call for call in self.calls if call.name in FAILING]
        killed_at = [
            call
            for call, before in zip(self.calls, [None, *self.calls], strict=False)
            if self._every_call or before is None or _changes(call) or _changes(before)
        ]
        if budget is None:
            yield from ((call, KILL) for call in killed_at)
            yield from ((call, fault) for call in failing for fault in _faults(call))
            return
        kills = budget // 3
        yield from ((call, KILL) for call in spread(killed_at, kills))
        for number, call in enumerate(each_kind(failing, budget - kills, lambda call: call.name)):
            faults = _faults(call)
            yield call, faults[number % len(faults)]

    def attempt(self, call: Call, fault: str) -> tuple[Run, list[str]]:
        """Run the command with the fault at the call: the run, and what is wrong about it."""
        position = self.calls.index(call)
        for _ in range(3):
            self._shop.fresh()
            run = self._traced(trace=call.name, inject=f"{call.name}:{fault.format(call.nth)}")
            if any(each == call for each in run.calls):
                return run, self._look_at(-9 if fault == KILL else None, run)
            # It may have another number by now, where something that is done once was done only since.
            again = self._recorded()
            if position < len(again) and again[position].label == call.label:
                call = again[position]
        return run, ["the call did not come again"]

    def _traced(self, **options: Any) -> Run:
        shop = self._shop
        return traced(self._scenario.arguments, home=shop.home, work=shop.folder, **options)

    def _look_at(self, expected: int | None, run: Run) -> list[str]:
        """What is wrong with what a run left, and with what the following ones make of it; changes the state."""
        scenario, home = self._scenario, self._shop.home
        wrong = []
        if run.code is None:
            wrong.append("it hung")
        elif expected is not None and run.code != expected:
            wrong.append(f"exit status {run.code} instead of {expected}: {run.stderr}")
        elif expected is None and run.code not in scenario.codes:
            wrong.append(f"exit status {run.code}: {run.stderr}")
        if "Traceback" in run.stderr:
            wrong.append(run.stderr)
        try:
            found = facts(home)
            wrong += [] if found.answers is None else verify(home)
            wrong += self._compared(found, run)
            if run.code == 0 and scenario.pushes:
                wrong += self._at_the_service()
            for arguments in scenario.following:
                following = untraced(arguments, home=home, work=self._shop.folder)
                if following.code != 0:
                    wrong.append(f"the next {arguments}: exit status {following.code}: {following.stderr}")
            wrong += self._compared_after(found, facts(home))
            wrong += verify(home)
            StateDirectory(home).edits.check()
        except GeoLookupError as error:
            return [*wrong, repr(error)]
        if strays(home):
            wrong.append(f"left after the next run: {strays(home)}")
        if scenario.pushes:
            wrong += self._at_the_service()
        return wrong

    def _compared(self, found: Facts, run: Run) -> list[str]:
        wrong = []
        if found.answers not in (self._before.answers, self._after.answers):
            wrong.append(f"neither the old answers nor the new ones: {found.answers}")
        if found.custom not in (self._before.custom, self._after.custom):
            wrong.append(f"neither the old edits nor the new ones: {found.custom}")
        if run.code == 0:
            if found.custom != self._after.custom:
                wrong.append("it said that all went well, and the edit is not there")
            if found.answers != self._after.answers and _NOT_YET_SEEN not in run.stderr:
                wrong.append("it said that all went well, and the old state is there")
        return wrong

    def _compared_after(self, found: Facts, then: Facts) -> list[str]:
        scenario = self._scenario
        if scenario.converges:
            return [] if then == self._after else [f"the next run led to {then}"]
        added = scenario.following[0][-1] if scenario.following[0][0] == "custom" else None
        if added is None:
            return [] if then == found else [f"the next run led from {found} to {then}"]
        wrong = [] if "10.78.0.1" in (then.answers or {}) else ["lookups do not see the next edit"]
        if (
            "10.77.0.0/16" in str(found.custom)
            and (then.answers or {}).get("10.77.0.1") != ((self._after.answers or {})["10.77.0.1"])
        ):
            wrong.append("the edit that was there is not seen after the next one")
        return wrong

    def _at_the_service(self) -> list[str]:
        """What is wrong about what the service has: all that was edited here must be there, once."""
        ours = [place for place in self._shop.service.custom() if place["locid"] not in self._shop.known]
        blocks = sorted(block["startip"] for place in ours for block in place["ipblocks"])
        if len(ours) != 1 or blocks != ["172.16.0.0", "172.17.0.0"]:
            return [f"the service has {ours}"]
        return []


def _changes(call: Call) -> bool:
    """Whether the disk may be another after the call."""
    return call.name in FAILING - READING and (call.name != "openat" or "O_CREAT" in call.label)


def _faults(call: Call) -> tuple[str, ...]:
    if not _changes(call):
        return READING_ONCE
    # If it failed for good, `write` would take standard error along.
    return ONCE if call.name == "write" else ONCE + FOR_GOOD


def sweep(
    name: str, folder: str, budget: int | None, *, part: tuple[int, int] = (1, 1), every_call: bool = False
) -> dict[str, Any]:
    """One scenario's figures: ``calls`` that touch the state, ``all`` points, ``points`` tried, and what came of them.

    ``failed`` counts the runs that a fault made fail; the others did their job in spite of it.
    """
    with ExitStack() as opened:
        service = opened.enter_context(ServiceProcess(os.path.join(folder, "service"), stamped_csv("0")))
        os.environ.update(GEOLOOKUP_URL=service.url, GEOLOOKUP_KEEP_GENERATIONS="2", GEOLOOKUP_SETTLE_S="0")
        one = Sweep(name, Workshop(folder, service, opened), every_call=every_call)
        found: dict[str, Any] = {
            "calls": len(one.calls),
            "all": one.whole,
            "points": 0,
            "killed": 0,
            "failed": 0,
            "bad": [],
        }
        for call, fault in list(one.points(budget))[part[0] - 1 :: part[1]]:
            run, problems = one.attempt(call, fault)
            found["points"] += 1
            found["killed"] += run.code == -9
            found["failed"] += run.code == 1
            if problems:
                found["bad"].append({"call": call.label, "inject": fault.format(call.nth), "problems": problems})
                print(f"BAD {name}: {found['bad'][-1]}", file=sys.stderr, flush=True)
    return found


def main() -> int:
    """Sweep the scenarios named, or all, print a line for each and the sum; 1 where any point was bad."""
    if any(os.environ.get(name) != value for name, value in ENVIRONMENT.items()):
        os.execve(sys.executable, [sys.executable, "-m", "tests.faults.kills.strace_sweep", *sys.argv[1:]],
                  {**os.environ, **ENVIRONMENT})  # fmt: skip
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenarios", nargs="*", choices=[*SCENARIOS, []], help="all where none is named")
    parser.add_argument("--points", type=int, help="try this many of each; all where not given")
    parser.add_argument("--every-call", action="store_true", help="kill at each of several reading calls in a row, too")
    parser.add_argument("--part", default="1/1", help="2/5 tries the second of five parts of the points")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")
    options = parser.parse_args()
    reason = why_not()
    if reason is not None:
        parser.error(reason)
    first, _, parts = options.part.partition("/")
    figures = {}
    for name in options.scenarios or SCENARIOS:
        with tempfile.TemporaryDirectory(prefix="strace-sweep-") as folder:
            part = int(first), int(parts)
            found = figures[name] = sweep(name, folder, options.points, part=part, every_call=options.every_call)
        if not options.json:
            print(
                f"{name}: {found['calls']} calls touch the state; {found['points']} points tried of "
                f"{found['all']}, {found['killed']} "
                f"killed, {found['failed']} failed with a reason, {len(found['bad'])} bad",
                flush=True,
            )
    bad = sum(len(found["bad"]) for found in figures.values())
    if options.json:
        print(json.dumps(figures))
    else:
        print(f"{sum(found['points'] for found in figures.values())} points tried, {bad} bad")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
