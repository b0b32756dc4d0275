"""A process of its own that forks writers, has them killed everywhere, and looks at what they left.

Its argument is a JSON list of lists: a scenario's name, a directory to work in, an upstream's URL, the most points to
try and the delays to try as well. It prints one JSON object for each, in a list: how many ``calls`` the scenario makes,
the ``points`` tried, ``problems``.
"""

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from geolookup.model.errors import NoStateError
from geolookup.settings.table import Settings
from geolookup.state.base.candidate import read_report
from geolookup.state.base.current import generation_path
from geolookup.state.base.parts import SERVICE
from geolookup.state.packs.patch import whole_file
from geolookup.state.packs.reading import readable
from geolookup.state.publishing.catalogue import Generations
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.verify import verify
from geolookup.sync.pull.accept import accept
from geolookup.sync.pull.context import PullReport
from geolookup.sync.pull.pull import pull
from geolookup.sync.refresh import refresh
from tests.faults.spread import each_kind
from tests.state.generations.staged import served, staged, stamped, strays
from tests.state.packs.nights import pack_all
from tests.support.data.states import publish
from tests.support.data.three_sources import sync_three

KILLED_AT = ("open", "fsync", "rename", "mkdir", "unlink", "rmdir", "listdir", "close", "statvfs")


@dataclass(frozen=True)
class Scenario:
    """``act`` leads from what ``prepare`` made (generation 1) to ``after`` (or back to before, where it was killed)."""

    prepare: Callable[[str], Any]
    act: Callable[[str], Any]
    after: int
    #: What must hold besides, once the next run has begun; returns what is wrong, or nothing.
    also: Callable[[str], str | None] = lambda _home: None


def _hold(home: str, number: int) -> None:
    directory = StateDirectory(home)
    with staged(directory, stamped(number)) as candidate:
        directory.holding.hold(candidate, SERVICE)


def _held_or_served(home: str) -> str | None:
    held = StateDirectory(home).held()
    if served(home)[0] == 2:
        return None if held is None else "what was accepted is still held"
    if held is None:
        return "neither held nor served"
    held.verify()
    return None


def _one_is_held(home: str) -> str | None:
    held = StateDirectory(home).held()
    if held is None:
        return "nothing is held any more"
    held.verify()
    return None


def _accept(home: str) -> None:
    held = StateDirectory(home).held()
    if held is not None:
        accept(StateDirectory(home), held.document()["published"]["digest"], Settings())


def _roll_back(home: str) -> None:
    if served(home)[0] == 2:
        StateDirectory(home).keeping.rollback()


def _publish_two(home: str) -> None:
    publish(home, stamped(1))
    publish(home, stamped(2))


def _publish_three(home: str) -> None:
    _publish_two(home)
    publish(home, stamped(3))


def _both_are_kept(home: str) -> str | None:
    current = StateDirectory(home).require_current()
    found = [each.number for each in Generations(StateDirectory(home)).kept()]
    return None if found == [1, 2] and current.pins in ((), (1,)) else f"kept {found}, pinned {current.pins}"


def _publish_and_pack(home: str) -> None:
    _publish_three(home)
    pack_all(home)


def _roll_back_to_packed(home: str) -> None:
    if served(home)[0] == 3:
        StateDirectory(home).keeping.rollback(1)


def _every_file_comes_back(home: str) -> str | None:
    for number in (1, 2, 3):
        folder = generation_path(home, number)
        for name, record in read_report(folder)["published"]["files"].items():
            if whole_file(readable(os.path.join(folder, name)))._asdict() != record:
                return f"{name} of generation {number} is another"
    return None


def _pull(url: str) -> Callable[[str], PullReport]:
    return lambda home: pull(StateDirectory(home, keep_generations=1), Settings(url=url, attempts=1))


def _refresh(url: str) -> Callable[[str], object]:
    return lambda home: refresh(StateDirectory(home, keep_generations=1), Settings(url=url, attempts=1))


def scenarios(url: str) -> dict[str, Scenario]:
    """All there are, by name; ``url`` answers with the list of generation 1 first, and then with another."""
    return {
        "first publish": Scenario(os.mkdir, lambda home: publish(home, stamped(1)), after=1),
        "publish": Scenario(
            lambda home: publish(home, stamped(1)), lambda home: publish(home, stamped(2), keep=1), after=2
        ),
        "pull": Scenario(_pull(url), _pull(url), after=2),
        "sync of three": Scenario(
            lambda home: sync_three(home, 1, url), lambda home: sync_three(home, 2, url), after=2
        ),
        "refresh": Scenario(_pull(url), _refresh(url), after=2),
        "accept": Scenario(
            lambda home: (publish(home, stamped(1)), _hold(home, 2)), _accept, after=2, also=_held_or_served
        ),
        "hold": Scenario(
            lambda home: (publish(home, stamped(1)), _hold(home, 2)),
            lambda home: _hold(home, 3),
            after=1,
            also=_one_is_held,
        ),
        "edit": Scenario(
            lambda home: publish(home, stamped(1)), lambda home: StateDirectory(home).republish(), after=1
        ),
        "rollback": Scenario(_publish_two, _roll_back, after=1),
        "pin": Scenario(_publish_two, lambda home: StateDirectory(home).keeping.pin(1), after=2, also=_both_are_kept),
        "pack": Scenario(_publish_three, pack_all, after=3, also=_every_file_comes_back),
        "unpack": Scenario(_publish_and_pack, _roll_back_to_packed, after=1, also=_every_file_comes_back),
        "prune": Scenario(_publish_three, lambda home: StateDirectory(home).keeping.prune(keep=1), after=3),
    }


def _kill_at(number: int, report: Callable[[str], Any]) -> None:
    """From now on this process dies right before its call of that number; ``report`` is told the name of each."""
    calls = 0

    def counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            report(name)
            if calls == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*given, **options)

        return call

    for name in KILLED_AT:
        setattr(os, name, counted(name, getattr(os, name)))


def _in_a_child(act: Callable[[], object], kill: Callable[[int], None] = lambda _child: None) -> int:
    """Run ``act`` in a forked child, and ``kill`` here meanwhile; the child's status as `os.waitpid` has it."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            act()
            status = 0
        finally:
            os._exit(status)
    kill(child)
    return os.waitpid(child, 0)[1]


def _look_at(home: str, scenario: Scenario, before: tuple[int, set[str]] | None) -> list[str]:
    """What is wrong with what a killed child left, and with what the next run makes of it."""
    wrong = []
    try:
        found = served(home)
        wrong += verify(home)
        current = StateDirectory(home).current()
        if current is None or current.recovered is not None:
            wrong.append(f"recovered: {current and current.recovered}")
    except NoStateError:
        found = None
    if found != before and (found is None or found[0] != scenario.after):
        wrong.append(f"neither the old state nor the new one: {found}")
    if found is not None and len(found[1]) != 1:
        wrong.append(f"a mixture: {found}")
    with StateDirectory(home).locks.run():
        also = scenario.also(home)
    scenario.act(home)
    if served(home)[0] < scenario.after:
        wrong.append(f"the next run led to {served(home)}")
    wrong += [also] if also else []
    wrong += verify(home)
    edits = StateDirectory(home).edits
    edits.check()  # which also has SQLite settle a journal that the killed child left
    if edits.exists():
        edits.record("look", "done")  # and one that was not synced yet, and so holds nothing, goes at the next write
    if strays(home):
        wrong.append(f"left after the next run: {strays(home)}")
    return wrong


def sweep(name: str, work: str, url: str, points: int, delays: int) -> dict[str, Any]:
    """Kill the scenario's act at that many of its calls, some of each kind, and after that many delays."""
    scenario = scenarios(url)[name]
    template, home = os.path.join(work, "before"), os.path.join(work, "state")
    scenario.prepare(template)
    try:
        before = served(template)
    except NoStateError:
        before = None
    reader, writer = os.pipe()
    shutil.copytree(template, home)
    began = time.monotonic()

    def note(call: str) -> None:
        os.write(writer, call.encode() + b" ")

    assert _in_a_child(lambda: (_kill_at(0, note), scenario.act(home))) == 0
    duration_s = time.monotonic() - began
    calls = os.read(reader, 65536).decode().split()
    points = min(points, len(calls))
    problems, tried, killed = [], 0, 0
    numbers = sorted(each_kind(range(1, len(calls) + 1), points, lambda number: calls[number - 1]))

    def die_at(number: int) -> Callable[[], object]:
        return lambda: (_kill_at(number, lambda _: None), scenario.act(home))

    def kill_after(pause_s: float) -> Callable[[int], None]:
        def kill(child: int) -> None:
            time.sleep(pause_s)
            os.kill(child, signal.SIGKILL)

        return kill

    attempts: list[tuple[str, tuple[Callable[..., Any], ...]]] = [
        (f"call {number}", (die_at(number),)) for number in numbers
    ]
    for pause_s in (duration_s * step / delays for step in range(delays)):
        attempts.append((f"{pause_s:.4f} s", (lambda: scenario.act(home), kill_after(pause_s))))
    for label, attempt in attempts:
        shutil.rmtree(home)
        shutil.copytree(template, home)
        status = _in_a_child(*attempt)
        tried += 1
        killed += os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        if os.WIFEXITED(status) and os.WEXITSTATUS(status):
            problems.append(f"{name}, {label}: the child failed by itself")
        problems += [f"{name}, {label}: {problem}" for problem in _look_at(home, scenario, before)]
    return {"calls": len(calls), "points": tried, "killed": killed, "problems": problems}


if __name__ == "__main__":
    os.fsync = lambda _descriptor: None  # a kill loses nothing that was written, so there is nothing to wait for
    print(json.dumps([sweep(*arguments) for arguments in json.loads(sys.argv[1])]))
