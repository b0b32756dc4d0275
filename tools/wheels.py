"""Make the wheels of a release, of the distributions that `tools/dist.py` left in a folder, and try them.

    python tools/wheels.py dist

With Docker running, or on macOS, cibuildwheel makes all that pyproject.toml says this machine can make. Else auditwheel
makes one for this machine's C library and processor. Each that fits this machine is installed into a new environment,
tried with no compiler in reach, and its use of the stable ABI is checked.
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BIN = Path(sys.executable).parent


def run(*command: "str | Path", **options: object) -> None:
    print("$", *command, flush=True)
    subprocess.run([str(part) for part in command], check=True, **options)  # type: ignore[call-overload]


def has_docker() -> bool:
    """Whether an engine answers, not only whether the command exists."""
    return bool(shutil.which("docker")) and not subprocess.run(["docker", "info"], capture_output=True).returncode


def fits(wheel: Path) -> bool:
    """Whether this machine can run a wheel: on Linux, the C library and the processor decide."""
    tag = wheel.stem.rpartition("-")[2]
    if sys.platform == "linux":
        libc = "manylinux" if platform.libc_ver()[0] == "glibc" else "musllinux"
        return tag == "any" or (libc in tag and tag.endswith(platform.machine()))
    return tag == "any" or tag.endswith((platform.machine(), "universal2"))


def interpreters() -> list[str]:
    """This Python, and the other releases that are installed here: one wheel must serve them all."""
    found = [sys.executable]
    for minor in range(11, 16):
        name = shutil.which(f"python3.{minor}")
        if minor != sys.version_info[1] and name:
            done = subprocess.run([name, "-c", "import venv, ensurepip"], capture_output=True)
            found += [name] if done.returncode == 0 else []
    return found


def tried(wheel: Path, interpreter: str) -> None:
    """Install a wheel into a new environment, and use it where there is no compiler."""
    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder, "env")
        run(interpreter, "-m", "venv", "--without-pip", environment)
        python = environment / "bin" / "python"
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
        run(*pip, "install", "--quiet", "--only-binary", ":all:", wheel)
        assert not any(shutil.which(name, path=str(python.parent)) for name in ("cc", "gcc", "clang", "c++"))
        script = shutil.copy(Path(__file__).parent / "tried.py", folder)
        more = ["--pure"] if wheel.stem.endswith("-any") else []
        run(python, script, *more, cwd=folder, env={"PATH": str(python.parent)})


def main() -> int:
    """Make what this machine can make, then try what fits it."""
    folder = Path(sys.argv[1]).resolve()
    (sdist,) = folder.glob("geolookup-*.tar.gz")
    epoch = subprocess.run(["git", "log", "-1", "--format=%ct"], stdout=subprocess.PIPE, text=True, check=True).stdout
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"  # auditwheel calls patchelf
    stamped = {"SOURCE_DATE_EPOCH": epoch.strip(), **os.environ, "PATH": path}
    if sys.platform == "darwin" or has_docker():
        run(BIN / "cibuildwheel", "--output-dir", folder, sdist, env=stamped)
    else:
        print("no Docker here: one wheel, for this machine's C library and processor; CI of a release makes the others")
        (built,) = folder.glob("geolookup-*-linux_*.whl")
        run(BIN / "auditwheel", "repair", "--wheel-dir", folder, built, env=stamped)
    for built in folder.glob("geolookup-*-linux_*.whl"):
        built.unlink()  # no index takes it: it promises nothing about the C library
    wheels = sorted(folder.glob("geolookup-*.whl"))
    for wheel in wheels:
        if "abi3" in wheel.stem:
            run(BIN / "abi3audit", "--strict", "--summary", wheel)
        for interpreter in interpreters() if fits(wheel) else ():
            tried(wheel, interpreter)
    print("\n".join(wheel.name for wheel in wheels))
    return 0


if __name__ == "__main__":
    sys.exit(main())
