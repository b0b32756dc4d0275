"""Build the source distribution and the wheels of the last commit, byte for byte the same wherever that is done.

    python tools/dist.py FOLDER           # the source distribution, a wheel for this machine, and one for any machine
    python tools/dist.py FOLDER --twice   # and once more, in another folder under other habits, which must not matter

Whoever has the same commit, Python, compiler and setuptools gets the same bytes. The wheels are built from the source
distribution, which must have each file of the commit. What is stamped is the time of the commit, or SOURCE_DATE_EPOCH.
"""

import argparse
import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
#: What setuptools adds to the files of the commit.
ADDED = {"PKG-INFO", "setup.cfg"}
BACKEND = "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"


class NotTheSameError(Exception):
    """Two builds differ, or a source distribution and its commit do."""


def epoch_of(commit: str) -> str:
    """When a commit was made, in seconds since 1970."""
    return os.environ.get("SOURCE_DATE_EPOCH") or git("log", "-1", "--format=%ct", commit).decode().strip()


def git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout


def build(commit: str, folder: Path, habits: "dict[str, str] | None" = None) -> list[Path]:
    """All distributions of a commit, in a new folder; ``habits`` are variables of the environment, for a trial."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": epoch_of(commit), **(habits or {})}
    environment.pop("GEOLOOKUP_PURE", None)
    tree = folder / "tree"
    with tarfile.open(fileobj=io.BytesIO(git("archive", "--format=tar", commit))) as archive:
        unpack(archive, tree)
    files = {path.relative_to(tree).as_posix() for path in tree.rglob("*") if path.is_file()}
    sdist = run_backend("build_sdist", tree, folder, environment)
    normalize(sdist, int(environment["SOURCE_DATE_EPOCH"]))
    unpacked = folder / "unpacked"
    with tarfile.open(sdist) as archive:
        unpack(archive, unpacked)
    (inside,) = unpacked.iterdir()
    packed = {path.relative_to(inside).as_posix() for path in inside.rglob("*") if path.is_file()}
    packed = {name for name in packed if name not in ADDED and not name.startswith("src/geolookup.egg-info/")}
    if packed != files:
        raise NotTheSameError(f"the source distribution and the commit differ (MANIFEST.in): {sorted(packed ^ files)}")
    native = run_backend("build_wheel", inside, folder / "native", environment)
    with zipfile.ZipFile(native) as wheel:
        if not any("_native" in name and name.endswith(".so") for name in wheel.namelist()):
            raise SystemExit("the accelerator was not built: is there a C compiler?")
    shutil.rmtree(inside / "build")
    pure = run_backend("build_wheel", inside, folder / "pure", {**environment, "GEOLOOKUP_PURE": "1"})
    return [sdist, native, pure]


def unpack(archive: tarfile.TarFile, folder: Path) -> None:
    """Unpack files with the modes that they have in git, 644 or 755, whatever the umask is."""
    folder.mkdir()
    archive.extractall(folder, filter="data")
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)


def run_backend(hook: str, source: Path, folder: Path, environment: dict[str, str]) -> Path:
    """What the build backend makes of a folder, with the setuptools of this environment."""
    into = folder / hook
    into.mkdir(parents=True)
    command = [sys.executable, "-c", BACKEND, hook, str(into)]
    done = subprocess.run(
        command, cwd=source, env=environment, umask=0o022, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode:
        raise SystemExit(done.stdout)
    (made,) = into.iterdir()
    return made


def normalize(sdist: Path, epoch: int) -> None:
    """Leave nothing in a source distribution of who packed it, and when; its files are sorted."""
    packed = io.BytesIO()
    with tarfile.open(sdist) as before, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as after:
        for member in sorted(before.getmembers(), key=lambda member: PurePosixPath(member.name).parts):
            mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            kept = member.replace(mtime=epoch, mode=mode, uid=0, gid=0, uname="", gname="", deep=False)
            kept.pax_headers = {}
            after.addfile(kept, before.extractfile(member))
    with sdist.open("wb") as file, gzip.GzipFile("", "wb", mtime=epoch, fileobj=file) as zipped:
        zipped.write(packed.getvalue())


def main() -> int:
    """Build, compare if that is wanted, and say what was built."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--twice", action="store_true", help="build again elsewhere, and compare the bytes")
    parser.add_argument("--commit", default="HEAD")
    asked = parser.parse_args()
    if git("status", "--porcelain", "--untracked-files=no"):
        print("what is not committed is left out", file=sys.stderr)
    asked.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        made = build(asked.commit, Path(scratch))
        if asked.twice:
            other = Path(scratch, "another", "and much longer name")
            other.mkdir(parents=True)
            habits = {"TZ": "Pacific/Auckland", "LC_ALL": "C", "HOME": str(other), "PYTHONHASHSEED": "7"}
            umask = os.umask(0o077)
            again = build(asked.commit, other, habits)
            os.umask(umask)
            for one, same in zip(made, again, strict=True):
                if one.name != same.name or one.read_bytes() != same.read_bytes():
                    raise NotTheSameError(f"{one.name} is different if it is built again in another folder")
        for path in made:
            kept = shutil.copyfile(path, asked.folder / path.name)
            print(hashlib.sha256(kept.read_bytes()).hexdigest(), kept)
        if asked.twice:
            print("built twice, the same bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
