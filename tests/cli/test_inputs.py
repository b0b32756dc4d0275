"""What lookup, enrich and annotate read: compressed files by their content, archives and UTF-16 told apart."""

import bz2
import gzip
import io
import lzma
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from backports import zstd

from geolookup.cli.app import run
from geolookup.files.opened import content_of
from geolookup.model.errors import DataFileError
from tests.support.data.states import place, publish
from tests.support.users.quick_commands import forked

COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".zst": lambda data: zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1}),  # as its command
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}
EXPANSIONS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".zst": zstd.decompress,
    ".bz2": bz2.decompress,
    ".xz": lzma.decompress,
}


@pytest.fixture(autouse=True)
def state(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(home, [place(1, "8.0.0.0/8", country="US")])
    monkeypatch.setenv("GEOLOOKUP_HOME", home)


def expanded(data: bytes) -> bytes:
    """What commands read of a pipe with these bytes."""
    return content_of("standard input", io.BufferedReader(io.BytesIO(data))).read()


@pytest.mark.parametrize("end", COMPRESSIONS)
def test_compressed_files_are_read_whatever_they_are_called(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes], end: str
) -> None:
    path = tmp_path / "log"
    path.write_bytes(COMPRESSIONS[end](b"8.8.8.8\n") + COMPRESSIONS[end](b"8.0.0.1\n"))  # as logs are appended
    assert run(["lookup", "--file", str(path)]) == 0
    assert [line.split(b"\t")[0] for line in capsysbinary.readouterr().out.splitlines()] == [b"8.8.8.8", b"8.0.0.1"]
    assert run(["annotate", "--fields", "country", str(path), str(path)]) == 0
    assert capsysbinary.readouterr().out == b"8.8.8.8 [US]\n8.0.0.1 [US]\n" * 2


@pytest.mark.parametrize("end", COMPRESSIONS)
def test_enrich_reads_and_writes_what_the_names_say(tmp_path: Path, end: str) -> None:
    source, target = tmp_path / f"in.csv{end}", tmp_path / f"out.csv{end}"
    source.write_bytes(COMPRESSIONS[end](b"ip\n8.8.8.8\n"))
    for path in (target, source):  # the second time in place
        assert run(["enrich", str(source), str(path), "--fields", "country"]) == 0
        assert EXPANSIONS[end](path.read_bytes()) == b"ip,geo_country\n8.8.8.8,US\n"


@pytest.mark.parametrize("end", COMPRESSIONS)
def test_what_was_cut_short_or_damaged_is_an_error_that_names_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], end: str
) -> None:
    whole = COMPRESSIONS[end]("\n".join(f"8.{n % 251}.{n % 241}.{n % 239}" for n in range(50_000)).encode())
    path = tmp_path / "log"
    for data in (whole[: len(whole) // 2], whole[:-1], whole[:100] + bytes(50) + whole[150:]):
        path.write_bytes(data)
        assert run(["annotate", str(path)]) == 1
        assert capsys.readouterr().err.splitlines()[-1].startswith(f"geolookup: {path}: ")


def test_a_pipe_that_brings_one_byte_at_a_time_is_told_apart_all_the_same() -> None:
    class Trickle(io.RawIOBase):
        def __init__(self, data: bytes) -> None:
            self.left = data

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
            data, self.left = self.left[:1], self.left[1:]
            buffer[: len(data)] = data
            return len(data)

    for plain in (b"", b"(", b"(\n", b"B", b"BZh9 8.8.8.8", b"\x1f", b"8.8.8.8\n", b"(\xb5/ 8.8.8.8"):
        for data in (plain, *(compress(plain) for compress in COMPRESSIONS.values())):
            assert content_of("x", io.BufferedReader(Trickle(data))).read() == plain
    for compress in COMPRESSIONS.values():
        assert expanded(gzip.compress(compress(b"8.8.8.8\n"))) == b"8.8.8.8\n"


def test_the_first_line_of_a_pipe_does_not_wait_for_the_next() -> None:
    with subprocess.Popen(
        [*forked(), "-m", "geolookup", "annotate", "--fields", "country"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"B\n")  # as bzip2 begins
        process.stdin.flush()
        assert process.stdout.readline() == b"B\n"
        process.stdin.close()
    assert process.returncode == 0


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("command", [["lookup", "--file"], ["annotate"], ["enrich"]], ids=lambda words: words[0])
def test_utf_16_is_read_as_utf_8(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str], encoding: str
) -> None:
    path = tmp_path / "in.csv"
    more = ["-"] if command == ["enrich"] else []
    path.write_bytes(b"ip\n8.8.8.8\n")
    run([*command, str(path), *more])
    wanted = capsys.readouterr()
    for data in ("ip\n8.8.8.8\n".encode(encoding), gzip.compress("ip\n8.8.8.8\n".encode(encoding))):
        path.write_bytes(data)
        run([*command, str(path), *more])
        assert capsys.readouterr() == wanted


def test_archives_are_told() -> None:
    with pytest.raises(DataFileError, match=r"is a zip archive: .*unzip -p"):
        expanded(b"PK\x03\x04...")
    with pytest.raises(DataFileError, match=r"is a tar archive: .*tar -xO"):
        expanded(gzip.compress(bytes(257) + b"ustar\0"))


def test_without_the_package_for_zstandard_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.zst"
    path.write_bytes(zstd.compress(b"8.8.8.8\n"))
    for name in ("compression", "backports", "backports.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    assert run(["annotate", str(path)]) == 2
    assert "pip install 'geolookup[zstd]'" in capsys.readouterr().err
