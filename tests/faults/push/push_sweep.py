"""A process of its own that forks `geolookup push`, has it killed everywhere, and looks at what the next makes of it.

Its arguments are a directory to work in, the service's URL, the most points to try, the delays to try besides, and
``keys`` where the service honours idempotency keys; it prints one JSON object: how many ``calls`` a push makes, the
``points`` tried, ``killed``, ``problems``.
"""

import contextlib
import itertools
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from geolookup.cli.exit_codes import of_push
from geolookup.http.transport import Transport
from geolookup.model.types import Geolocation
from geolookup.settings.table import Settings
from geolookup.state.editor import Editor
from geolookup.state.edits.store import Edits
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.verify import verify
from geolookup.sync.pull.pull import pull
from geolookup.sync.push.push import push

BLOCKS = [f"10.{number}.0.0/16" for number in range(1, 7)]


def edit(home: str, city: str) -> None:
    """Edits of every kind, of two geolocations that are equal and a third; each run has a city of its own."""
    fields = {"country": "DE", "region": "", "city": city, "postalcode": "", "dmacode": "", "areacode": ""}
    editor = Editor(home)
    with editor.transaction():
        one, two, three = (editor.create(**fields, latitude=1.0, longitude=float(east)) for east in (2, 2, 3))
        for block in BLOCKS[:3]:
            editor.add_block(one, block)
        editor.add_block(two, BLOCKS[3])
        editor.remove_block(one, BLOCKS[1])
        editor.update(one, postalcode="10115")
        editor.replace_block(one, BLOCKS[0], None, BLOCKS[4])
        editor.clear_blocks(two)
        editor.add_block(three, BLOCKS[5])
        editor.delete(three) if city.endswith("0") else editor.add_block(two, BLOCKS[1])


def _points(number: int, report: Callable[[], Any]) -> None:
    """From now on this process dies at its point of that number: around a request, a commit, or a renaming."""
    points = itertools.count(1)

    def point() -> None:
        passed = next(points)  # one step: a push's connections are threads, and none of them may skip a point
        report()
        if passed == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **options: Any) -> Any:
            point()
            answer = real(*given, **options)
            point()
            return answer

        return call

    transaction = Edits.transaction

    @contextlib.contextmanager
    def watched(edits: Edits) -> Iterator[Any]:
        with transaction(edits) as database:
            yield database
            point()
        point()

    Edits.transaction = watched  # type: ignore[method-assign]
    Transport.request = around(Transport.request)  # type: ignore[method-assign]
    Transport.stream = around(Transport.stream)  # type: ignore[method-assign]
    for name in ("rename", "unlink"):
        setattr(os, name, around(getattr(os, name)))


def _push_in_a_child(home: str, prepare: Callable[[], None], kill: Callable[[int], None] = lambda _child: None) -> int:
    """Run the command in a forked child; its status as `os.waitpid` has it."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            from geolookup.cli.app import app

            os.environ["GEOLOOKUP_HOME"] = home
            with open(os.devnull, "w", encoding="utf-8") as nowhere:
                os.dup2(nowhere.fileno(), 1)
                prepare()
                status = int(app.main(["push"], standalone_mode=False) or 0)
        finally:
            os._exit(status)
    kill(child)
    return os.waitpid(child, 0)[1]


def _look_at(home: str, settings: Settings, city: str) -> list[str]:
    """What is wrong after one more push, from a process that knows nothing."""
    wrong = []
    wanted = sorted(_described(laid.place) for laid in Editor(home).custom())
    report = push(StateDirectory(home), settings)
    if of_push(report):
        wrong.append(f"the next push did not converge: {report}")
    pull(StateDirectory(home), settings)
    custom = StateDirectory(home).cache(StateDirectory(home).require_current().generation).custom()
    there = [place for place in custom if place.city == city]
    found = sorted(_described(place) for place in there)
    if found != wanted:
        wrong.append(f"the service has {found} where {wanted} was meant")
    if sorted(place.locid for place in there) != sorted(laid.place.locid for laid in Editor(home).custom()):
        wrong.append("lookups know other geolocations than the service")
    if len(there) != (2 if city.endswith("0") else 3):
        wrong.append(f"{len(there)} geolocations: {there}")
    for place in there:
        _delete(settings, place.locid)
    return wrong + verify(home)


def _described(place: Geolocation) -> tuple[str, ...]:
    return (*map(str, place.fields().values()), *map(str, place.ipblocks))


def _delete(settings: Settings, locid: int) -> None:
    with Transport(settings) as transport:
        transport.request("DELETE", settings.path_delete, params={"locid": locid}, idempotent=False)


def sweep(work: str, url: str, points: int, delays: int, keys: bool) -> dict[str, Any]:
    """Kill a push at that many of its points, evenly, and after that many delays."""
    os.environ.update({"GEOLOOKUP_URL": url, "GEOLOOKUP_IDEMPOTENCY_KEYS": "true" if keys else "false"})
    settings = Settings(url=url, settle_s=0.0, idempotency_keys=keys)
    template, home = os.path.join(work, "before"), os.path.join(work, "state")
    pull(StateDirectory(template), settings)
    reader, writer = os.pipe()

    def fresh(city: str) -> None:
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(template, home)
        edit(home, city)

    fresh("whole 1")
    began = time.monotonic()
    status = _push_in_a_child(home, lambda: _points(0, lambda: os.write(writer, b".")))
    assert os.WIFEXITED(status), status
    assert os.WEXITSTATUS(status) == 0, status
    duration_s = time.monotonic() - began
    calls = len(os.read(reader, 65536))
    problems, tried, killed = _look_at(home, settings, "whole 1"), 0, 0
    points = min(points, calls)
    numbers = sorted({round(1 + step * (calls - 1) / max(1, points - 1)) for step in range(points)})
    attempts: list[tuple[str, Callable[[], None], Callable[[int], None]]] = [
        (f"point {number}", lambda number=number: _points(number, lambda: None), lambda _child: None)
        for number in numbers
    ]
    for pause_s in (duration_s * step / delays for step in range(delays)):

        def kill(child: int, pause_s: float = pause_s) -> None:
            time.sleep(pause_s)
            os.kill(child, signal.SIGKILL)

        attempts.append((f"{pause_s:.4f} s", lambda: None, kill))
    for count, (label, prepare, kill_at) in enumerate(attempts):
        city = f"run {count}"
        fresh(city)
        status = _push_in_a_child(home, prepare, kill_at)
        tried += 1
        killed += os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        if os.WIFEXITED(status) and os.WEXITSTATUS(status):
            problems.append(f"{label}: the push failed by itself: {os.WEXITSTATUS(status)}")
        problems += [f"{label}: {problem}" for problem in _look_at(home, settings, city)]
    return {"calls": calls, "points": tried, "killed": killed, "problems": problems}


if __name__ == "__main__":
    os.fsync = lambda _descriptor: None  # a kill loses nothing that was written, so there is nothing to wait for
    given = sys.argv
    print(json.dumps(sweep(given[1], given[2], int(given[3]), int(given[4]), given[5] == "keys")))
