"""`geolookup ADDRESS` beside an installed console script that does nothing, and beside the bare interpreter."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from statistics import median

import numpy as np

from benchmarks.common import ROOT, arguments, environment, load_average, print_table
from benchmarks.data import FULL, SMALL, DataSet

_TARGET = 1.5
_NOTHING = {
    "pyproject.toml": """[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "benchmark-nothing"
version = "1"

[project.scripts]
benchmark-nothing = "benchmark_nothing:main"

[tool.setuptools]
py-modules = ["benchmark_nothing"]
""",
    "benchmark_nothing.py": "def main():\n    return 0\n",
}
_SOURCES = ("src", "docs", "pyproject.toml", "setup.py", "README.md", "LICENSE")


def install(folder: str) -> tuple[str, str]:
    """A fresh environment with geolookup and the script that does nothing: its commands, and pip's version."""
    environment_folder, nothing, source = (os.path.join(folder, name) for name in ("env", "nothing", "source"))
    os.mkdir(nothing)
    for name, text in _NOTHING.items():
        with open(os.path.join(nothing, name), "w", encoding="utf-8") as file:
            file.write(text)
    # A copy: building in the checkout would leave files there.
    os.mkdir(source)
    for name in _SOURCES:
        path = os.path.join(ROOT, name)
        if os.path.isdir(path):
            shutil.copytree(
                path, os.path.join(source, name), ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
            )
        else:
            shutil.copy(path, source)
    subprocess.run([sys.executable, "-m", "venv", environment_folder], check=True, env=environment())
    binaries = os.path.join(environment_folder, "bin")
    pip = [os.path.join(binaries, "python"), "-m", "pip"]
    # Without PYTHONDONTWRITEBYTECODE, among others: written byte code is what users have.
    kept = environment()
    subprocess.run(
        [*pip, "install", "-qqq", "--disable-pip-version-check", "--compile", source, nothing], check=True, env=kept
    )
    found = subprocess.run([*pip, "--version"], check=True, env=kept, stdout=subprocess.PIPE, text=True).stdout
    return binaries, " ".join(found.split()[:2])


def _seconds(command: list[str], env: dict[str, str], quiet: int) -> float:
    began = time.perf_counter()
    process = os.posix_spawn(command[0], command, env, file_actions=[(os.POSIX_SPAWN_DUP2, quiet, 1)])
    _, status = os.waitpid(process, 0)
    elapsed = time.perf_counter() - began
    if status:
        raise SystemExit(f"{' '.join(command[:3])} ended with {os.waitstatus_to_exitcode(status)}")
    return elapsed


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=150, help="alternated runs of each (default: 150)")
    options = parser.parse_args()
    data = DataSet(SMALL if options.small else FULL, options.data)
    rng = np.random.default_rng(11)
    v4, v6 = data.covered4(options.rounds, rng), data.covered6(options.rounds, rng)
    with tempfile.TemporaryDirectory() as folder:
        # Its default place: what XDG_DATA_HOME names, with no setting of ours in the environment.
        env = environment(XDG_DATA_HOME=os.path.dirname(data.home), XDG_CONFIG_HOME=folder)
        config = os.path.join(folder, "settings.toml")
        with open(config, "w", encoding="utf-8") as file:
            file.write('url = "https://geo.example"\nattempts = 3\n')
        binaries, pip = install(folder)
        python, nothing, ours = (os.path.join(binaries, name) for name in ("python", "benchmark-nothing", "geolookup"))
        found: dict[str, list[float]] = {}
        quiet = os.open(os.devnull, os.O_WRONLY)
        for number in range(-5, options.rounds):
            for name, command in (
                ("python -c pass", [python, "-c", "pass"]),
                ("a console script that does nothing", [nothing]),
                ("geolookup, an IPv4 address", [ours, v4[number]]),
                ("geolookup, an IPv6 address", [ours, v6[number]]),
                ("geolookup, with a settings file", [ours, v4[number]]),
                ("geolookup, ten addresses", [ours, *(v4[(number + step) % options.rounds] for step in range(10))]),
            ):
                # Then it is read and checked, as for any other command.
                set_up = {**env, "GEOLOOKUP_CONFIG": config} if name.endswith("settings file") else env
                elapsed = _seconds(command, set_up, quiet)
                if number >= 0:  # the first few only warm the disk's cache
                    found.setdefault(name, []).append(elapsed * 1000)
        os.close(quiet)
    base = found["a console script that does nothing"]
    rows = []
    for name, times in found.items():
        ratio = median(own / other for own, other in zip(times, base, strict=True))
        target = f"<= {_TARGET}" if name.startswith("geolookup, an ") else ""
        rows.append((name, f"{median(times):.1f}", f"{min(times):.1f}", f"{ratio:.2f}", target))
    print_table(
        f"Start-up to answer, on: {data.describe()}",
        ("command", "median ms", "least ms", "to nothing", "target"),
        rows,
        f"{options.rounds} alternated runs of each; the ratio is the median of pairs; load average {load_average()}",
        f"installed by {pip}, not editable, byte code compiled; the state found in its default place",
    )


if __name__ == "__main__":
    main()
