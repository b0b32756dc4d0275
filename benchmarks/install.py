"""The size of an installation: of geolookup alone, which lookups need, and with the dependencies of everything else."""

import importlib.metadata
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.common import ROOT, arguments, environment, print_table
from benchmarks.figures import record

_GOAL_MB = 60
#: Commands, and which packages of the base each loads: asked of a process of each.
_COMMANDS = (
    ("8.8.8.8",),
    ("8.8.8.8", "--format", "ndjson"),
    ("sync", "--bundled"),
    ("custom", "create", "Here", "--block", "10.20.0.0/16", "--country", "DE"),
    ("custom", "list"),
    ("export", "mmdb", "out.mmdb"),
)
_LOADED = """
import importlib.metadata, sys
from geolookup.__main__ import main
sys.argv = ["geolookup", *sys.argv[1:]]
try:
    main()
except SystemExit:
    pass
loaded = {name.partition(".")[0] for name in sys.modules}
owners = importlib.metadata.packages_distributions()
names = {owner for name in loaded for owner in owners.get(name, ())} - {"geolookup"}
sys.stderr.write("\\n@" + " ".join(sorted(names, key=str.lower)))
"""


def _installed(folder: str, *words: str) -> Path:
    """A new environment with what pip makes of some words; byte code is written, as pip does."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, env=environment())
    python = Path(folder, "bin", "python")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    subprocess.run([*pip, "install", "-qqq", *words], check=True, env=environment())
    return python


def _megabytes(python: Path) -> dict[str, float]:
    """The size of each distribution of an environment, its byte code too."""
    (site,) = python.parents[1].glob("lib/python*/site-packages")
    found = {}
    for distribution in importlib.metadata.distributions(path=[str(site)]):
        files = {Path(os.path.normpath(file.locate())) for file in distribution.files or ()}  # type: ignore[arg-type]
        found[distribution.name] = sum(file.stat().st_size for file in files if file.exists()) / 1e6
    return found


def main() -> None:
    """Print both tables."""
    parser = arguments(__doc__)
    parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
        tree = os.path.join(folder, "tree")
        os.mkdir(tree)
        packed = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(["tar", "x"], cwd=tree, input=packed, check=True)
        subprocess.run([*pip, "wheel", "-qqq", "--no-deps", "-w", folder, tree], check=True, env=environment())
        (wheel,) = Path(folder).glob("geolookup-*.whl")
        alone = _megabytes(_installed(os.path.join(folder, "alone"), "--no-deps", str(wheel)))
        python = _installed(os.path.join(folder, "base"), str(wheel))
        base = _megabytes(python)
        record("install/alone/MB", sum(alone.values()))
        record("install/base/MB", sum(base.values()))
        record("install/base/packages", len(base) - 1)
        record("install/numpy/MB", base["numpy"])
        largest = sorted(base.items(), key=lambda one: -one[1])
        print_table(
            "The size of an installation, by pip, with its byte code (MB of 10^6 bytes)",
            ("installed", "packages beside geolookup", "MB", "target"),
            [
                ("pip install --no-deps geolookup", 0, f"{sum(alone.values()):.1f}", f"<= {_GOAL_MB}"),
                ("pip install geolookup", len(base) - 1, f"{sum(base.values()):.1f}", f"<= {_GOAL_MB}"),
                *((f"  {name}", "", f"{size:.1f}", "") for name, size in largest[:8]),
                ("  all others", "", f"{sum(size for _, size in largest[8:]):.1f}", ""),
            ],
        )
        env = environment(GEOLOOKUP_HOME=os.path.join(folder, "state"))
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True, "check": True}
        subprocess.run([python, "-m", "geolookup", "sync", "--bundled"], env=env, **quiet)
        print("\nWhat is loaded, of the packages beside geolookup")
        for command in _COMMANDS:
            done = subprocess.run([python, "-c", _LOADED, *command], env=env, cwd=folder, **quiet)
            names = re.findall(r"^@(.*)", done.stderr, re.MULTILINE)[-1].split()
            print(f"geolookup {' '.join(command)}: {len(names)}" + (f" ({', '.join(names)})" if names else ""))


if __name__ == "__main__":
    main()
