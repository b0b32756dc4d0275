"""Dotted quads read 16 characters at once, as compiled for this kind of processor and, under an emulator, for ARM.

``quads.c`` beside this plays them against the plain parser. For ARM it needs Debian's ``gcc-aarch64-linux-gnu``,
``libc6-dev-arm64-cross`` and ``qemu-user``, and is skipped without them: this machine's own kind is always tried.
"""

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SOURCES = HERE.parents[2] / "src/geolookup/index"
HERE_CC = shutil.which("cc") or shutil.which("gcc")
ARM_CC, ARM_RUN = shutil.which("aarch64-linux-gnu-gcc"), shutil.which("qemu-aarch64")


def play(compiler: str, folder: Path, *runner: str) -> str:
    program = folder / "quads"
    flags = ("-O3", "-fwrapv", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-static")
    subprocess.run([compiler, *flags, f"-I{SOURCES}", str(HERE / "quads.c"), "-o", str(program)], check=True)
    done = subprocess.run([*runner, str(program)], stdout=subprocess.PIPE, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout or "this processor reads no quads at once"
    return done.stdout


@pytest.mark.skipif(HERE_CC is None or platform.machine() not in ("x86_64", "aarch64"), reason="no compiler, or no way")
def test_what_this_processor_reads_at_once(tmp_path: Path) -> None:
    assert HERE_CC is not None
    assert play(HERE_CC, tmp_path) == "264767 texts, 29460 addresses\n"


@pytest.mark.skipif(ARM_CC is None or ARM_RUN is None, reason="no compiler for ARM, or no emulator")
def test_what_an_arm_processor_reads_at_once(tmp_path: Path) -> None:
    assert ARM_CC is not None
    assert ARM_RUN is not None
    assert play(ARM_CC, tmp_path, ARM_RUN) == "264767 texts, 29460 addresses\n"
