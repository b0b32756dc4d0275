"""What the benchmarks share: their options, tables, clean child processes, and facts about the machine."""

import argparse
import contextlib
import os
import platform
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MIB = 1 << 20


def arguments(description: str | None) -> argparse.ArgumentParser:
    """The options of every benchmark; each adds its own."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--small", action="store_true", help="200,000 blocks in place of 4.5 million")
    parser.add_argument(
        "--data",
        metavar="DIR",
        default=os.path.join(tempfile.gettempdir(), f"geolookup-benchmarks-{os.getuid()}"),
        help="where generated data is kept from run to run (default: %(default)s)",
    )
    # What a benchmark runs in a process of its own, so that its memory and imports are its own.
    parser.add_argument("--child", nargs="+", metavar="ARG", help=argparse.SUPPRESS)
    return parser


def environment(**extra: str) -> dict[str, str]:
    """This process's environment without what would change a measurement, and with ``extra``."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GEOLOOKUP_", "COV_", "PYTHON", "XDG_"))
    }
    return {**kept, **extra}


def child(module: str, *words: str, data: str, env: Mapping[str, str] | None = None) -> str:
    """What ``--child`` of a benchmark's own module prints, run by itself."""
    command = [sys.executable, "-m", f"benchmarks.{module}", "--data", data, "--child", *words]
    done = subprocess.run(command, cwd=ROOT, env=env or environment(), stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *notes: str) -> None:
    """Plain aligned text: the first column to the left, all others to the right."""
    cells = [[str(cell) for cell in row] for row in (columns, *rows)]
    widths = [max(len(row[index]) for row in cells) for index in range(len(columns))]
    print(title)
    for number, row in enumerate(cells):
        first, *others = (
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join([first, *others]).rstrip())
        if number == 0:
            print("  ".join("-" * width for width in widths))
    for note in notes:
        print(note)
    print(flush=True)


def machine() -> list[tuple[str, str]]:
    """Cores, memory, CPU model and system; a fact that the system does not tell is "unknown"."""
    return [
        ("cores", str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count())),
        ("memory", f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / (1 << 30):.0f} GiB"),
        ("CPU", _first_value("/proc/cpuinfo", "model name") or platform.processor() or "unknown"),
        ("system", f"{platform.system()} {platform.release()}, {platform.machine()}"),
    ]


def _first_value(path: str, name: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return next((line.partition(":")[2].strip() for line in file if line.startswith(name)), "")
    except OSError:
        return ""


def versions(*packages: str) -> list[tuple[str, str]]:
    """Python and SQLite, and the installed version of each package, or "not installed"."""
    import sqlite3

    found = [("Python", platform.python_version()), ("SQLite", sqlite3.sqlite_version)]
    for package in packages:
        try:
            found.append((package, version(package)))
        except PackageNotFoundError:
            found.append((package, "not installed"))
    return found


def resident_mib() -> float:
    """Memory that this process has now; its peak where the system tells no more than that."""
    return _status_mib("VmRSS") or _peak_mib()


def peak_mib() -> float:
    """The most memory that this process had, since `forget_peak` where the system can forget.

    Not by `getrusage`, where that can be helped: Linux hands the peak of the process that started this one on to it.
    """
    return _status_mib("VmHWM") or _peak_mib()


def forget_peak() -> None:
    """Begin anew to look for the peak (Linux: proc(5), clear_refs)."""
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def _status_mib(name: str) -> float:
    value = _first_value("/proc/self/status", name)
    return int(value.split()[0]) / 1024 if value else 0.0


def _peak_mib() -> float:
    return usage_mib(resource.getrusage(resource.RUSAGE_SELF))


def usage_mib(usage: resource.struct_rusage) -> float:
    """The peak memory of a finished process: kibibytes on Linux, bytes on macOS."""
    return usage.ru_maxrss / (MIB if sys.platform == "darwin" else 1024)


def load_average() -> str:
    """How busy the machine was over the last minute: what was measured beside other work says so."""
    return f"{os.getloadavg()[0]:.1f}"
