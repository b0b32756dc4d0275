"""Many refreshes on changing data, with edits and four readers: ``python -m tests.faults.readers.many_refreshes``.

Each refresh is the command, in a forked process of its own. It prints one JSON object: what the readers saw, what they
took of the machine, and what the state directory took of the disk.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from geolookup.state.editor import Editor
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.verify import verify
from tests.faults.kills.strace_sweep import ENVIRONMENT
from tests.faults.kills.traced import untraced
from tests.faults.service_process import ServiceProcess, stamped_csv
from tests.state.generations.staged import strays

ROOT = Path(__file__).parents[3]
READERS = 4
KEEP = 3
_HERE, _THERE = "172.16.0.0/16", "172.17.0.0/16"
_PATIENCE_S = 120


def disk_usage(home: str) -> dict[str, int]:
    """What a state directory takes: bytes and files, edits.db and its copies (which hold the whole history) apart."""
    found = {"bytes": 0, "edits_bytes": 0, "files": 0}
    for directory, _, names in os.walk(home):
        for name in names:
            edits = directory == home and name.startswith("edits.")
            found["edits_bytes" if edits else "bytes"] += os.path.getsize(os.path.join(directory, name))
            found["files"] += 1
    return found


class Run:
    """Refreshes one after another."""

    def __init__(self, folder: str, service: ServiceProcess) -> None:
        self._folder, self._service = folder, service
        self.home = os.path.join(folder, "state")
        self.problems: list[str] = []
        self.disk: list[dict[str, int]] = []
        self._moved: int | None = None

    def begin(self) -> None:
        """A first generation, and the block that is moved from here to there and back."""
        self.refresh(1)
        fields = {"country": "DE", "region": "", "city": "ours", "postalcode": "", "dmacode": "", "areacode": ""}
        editor = Editor(self.home)
        with editor.transaction():
            self._moved = editor.create(**fields, latitude=1.0, longitude=2.0)
            editor.add_block(self._moved, _HERE)

    def refresh(self, number: int) -> None:
        """Have the service change everything, and refresh."""
        self._service.load(stamped_csv(str(number)))
        run = untraced(["refresh"], home=self.home, work=self._folder)
        if run.code != 0:
            self.problems.append(f"refresh {number}: exit status {run.code}: {run.stderr}")
        self.disk.append({"number": number, **disk_usage(self.home)})

    def edit(self, number: int) -> None:
        """Move the block: one replace, so that no reader finds it in neither place or in both."""
        assert self._moved is not None
        old, new = (_HERE, _THERE) if number % 2 == 0 else (_THERE, _HERE)
        Editor(self.home).replace_block(self._moved, old, None, new)


def go(folder: str, count: int) -> dict[str, Any]:
    """That many refreshes, each followed by an edit."""
    done = os.path.join(folder, "done")
    with ServiceProcess(os.path.join(folder, "service"), stamped_csv("0")) as service:
        os.environ.update(
            GEOLOOKUP_URL=service.url, GEOLOOKUP_KEEP_GENERATIONS=str(KEEP), GEOLOOKUP_SETTLE_S="0", GEOLOOKUP_HOME=""
        )
        run = Run(folder, service)
        run.begin()
        readers = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.faults.readers.resident_reader", run.home, done],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for _ in range(READERS)
        ]
        try:
            for number in range(2, count + 1):
                run.edit(number)
                run.refresh(number)
            Path(done).touch()
            answers = [reader.communicate(timeout=_PATIENCE_S) for reader in readers]
        finally:
            for reader in readers:
                reader.kill()
                reader.wait()
        there = [place for place in service.custom() if place["city"] == "ours"]
    blocks = [block["startip"] for place in there for block in place["ipblocks"]]
    if blocks != ["172.17.0.0" if count % 2 == 0 else "172.16.0.0"]:
        run.problems.append(f"the service has {there}")
    seen = []
    for reader, (output, errors) in zip(readers, answers, strict=True):
        if reader.returncode:
            run.problems.append(f"a reader ended with {reader.returncode}: {errors}")
            continue
        seen.append(json.loads(output))
        run.problems += seen[-1].pop("problems")
    left = (
        sorted(os.listdir(os.path.join(run.home, "generations"))),
        sorted(os.listdir(os.path.join(run.home, "custom"))),
    )
    run.problems += verify(run.home) + strays(run.home)
    history = len(StateDirectory(run.home).edits.history())
    return {"refreshes": count, "problems": run.problems, "readers": seen, "disk": run.disk,
            "generations": left[0], "overlays": left[1], "history": history}  # fmt: skip


def main() -> int:
    """Run it, and say in words what grew; 1 where there was any problem."""
    if any(os.environ.get(name) != value for name, value in ENVIRONMENT.items()):
        os.execve(sys.executable, [sys.executable, "-m", "tests.faults.readers.many_refreshes", *sys.argv[1:]],
                  {**os.environ, **ENVIRONMENT})  # fmt: skip
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=200)
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object instead")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="many-refreshes-") as folder:
        found = go(folder, options.count)
    if options.json:
        print(json.dumps(found))
        return 1 if found["problems"] else 0
    print(
        f"{found['refreshes']} refreshes and as many edits, {len(found['problems'])} problems {found['problems'][:5]}"
    )
    for number, reader in enumerate(found["readers"], start=1):
        print(
            f"reader {number}: {reader['lookups']} looks at {reader['seen']} generations, the last {reader['newest']}"
        )
        for sample in (reader["samples"][0], reader["samples"][len(reader["samples"]) // 2], reader["samples"][-1]):
            print(
                f"  at {sample['number']:3}: {sample['memory_kib']} KiB of its own, {sample['descriptors']} "
                f"descriptors, {sample['maps']} maps"
            )
    for usage in (found["disk"][min(9, len(found["disk"]) - 1)], found["disk"][-1]):
        print(
            f"disk at {usage['number']:3}: {usage['bytes']} bytes in {usage['files']} files, and "
            f"{usage['edits_bytes']} of edits.db with its copies"
        )
    print(
        f"kept: generations {found['generations']}, overlays {found['overlays']}; {found['history']} lines of history"
    )
    return 1 if found["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
