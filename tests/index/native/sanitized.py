"""The accelerator's tests with AddressSanitizer and UndefinedBehaviorSanitizer.

``python -m tests.index.native.sanitized`` compiles the accelerator with both into a temporary folder, and runs the
tests that reach it with that build: those of `TESTS`, or the files that are named. Options are pytest's; what an option
takes stands behind "=" (``--maxfail=3``). As a plugin of that pytest, this module puts the build in the place of the
ordinary one.
"""

import importlib.machinery
import importlib.util
import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

BUILD = "GEOLOOKUP_TEST_SANITIZED"
ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src/geolookup/index/_native.c"
TESTS = (
    *(f"tests/index/native/test_{name}.py" for name in ("text", "search", "columns", "damage", "finder")),
    *(
        f"tests/index/native/test_{name}.py"
        for name in ("any_column", "quads", "lines", "take", "misuse", "match", "values")
    ),
    *("tests/index/test_damage.py", "tests/index/test_places.py"),
    *("tests/columns/test_arrow.py", "tests/exports/test_mmdb_encoder.py"),
)
#: -O1 keeps the loops that -O3 would turn into others; a finding ends the process.
FLAGS = "-shared -fPIC -g -O1 -fwrapv -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all"
MACROS = "-DPy_LIMITED_API=0x030B0000"


def compile_sanitized(path: Path) -> None:
    """Compile the accelerator with both sanitizers to ``path``."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    include = sysconfig.get_path("include")
    subprocess.run([*compiler, *FLAGS.split(), MACROS, f"-I{include}", str(SOURCE), "-o", str(path)], check=True)


def environment(path: Path) -> dict[str, str]:
    """What a process needs in order to load the build."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    libraries = [
        subprocess.run([*compiler, f"-print-file-name={name}"], check=True, stdout=subprocess.PIPE, text=True).stdout
        for name in ("libasan.so", "libubsan.so")
    ]
    return {
        **os.environ,
        BUILD: str(path),
        "LD_PRELOAD": " ".join(library.strip() for library in libraries),
        # The interpreter itself leaks on purpose.
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        # One block of memory for each object, so that the bytes around it are guarded.
        "PYTHONMALLOC": "malloc",
    }


def use(path: str) -> None:
    """Have this process load the build at ``path`` as the accelerator."""
    name = "geolookup.index._native"
    loader = importlib.machinery.ExtensionFileLoader(name, path)
    specification = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert specification is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    loader.exec_module(module)


def main() -> int:
    """Compile, run the tests, and return their exit status."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "_native.abi3.so")
        compile_sanitized(path)
        words = sys.argv[1:]
        # An option alone is not the list of what to run: without a list pytest would run everything.
        options = words if any(not word.startswith("-") for word in words) else [*words, *TESTS]
        # Not captured: a finding ends the process, and its report would be lost.
        plugins = ["-p", "tests.index.native.sanitized", "-p", "no:cacheprovider"]
        command = [sys.executable, "-m", "pytest", *plugins, "-q", "-s"]
        return subprocess.run([*command, *options], cwd=ROOT, env=environment(path), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
if BUILD in os.environ:
    use(os.environ[BUILD])
