"""``geolookup annotate``: what is an address in a log and what is not, every other byte, and pipes."""

import re
import shlex
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.cli.app import run
from geolookup.cli.inputs import Tally
from geolookup.cli.lookup.annotate import Annotator
from geolookup.sync import opening
from tests.support.data.states import place, publish
from tests.support.users.quick_commands import forked


@pytest.fixture(autouse=True)
def state(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(
        home,
        [
            place(1, "0.0.0.0/1", "2000::/3", "::/16", country="US", region="CA", city="-"),
            place(-1, "8.8.0.0/16", country="FR", city="Orl\x1b\u202eans"),
            place(3, "200.0.0.0/8"),
        ],
    )
    monkeypatch.setenv("GEOLOOKUP_HOME", home)


def command(*options: str, stdin: bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*forked(), "-m", "geolookup", "annotate", *options],
        input=stdin, capture_output=True, check=False, timeout=60,
    )  # fmt: skip


def annotated(line: bytes) -> bytes:
    with opening.open() as geo:
        return Annotator(geo, ("country",), Tally()).line(line, 1)


@pytest.mark.parametrize(
    "line",
    [
        "<1.2.3.4>", "<1.2.3.4>:8080", "ip=<1.2.3.4>,<8.8.8.8>", '"<1.2.3.4>"', "(<1.2.3.4>)", "saw <1.2.3.4>.",
        "http://<1.2.3.4>/x", "<1.2.3.4>/24", "addr:<1.2.3.4>", "来自<1.2.3.4>的请求", "é<1.2.3.4>ü", "a -> <1.2.3.4>-",
        "<2001:db8::1>", "[<2001:db8::1>]:443", "<2001:db8::>", "see <2001:db8::1>: gone", "<::1>", "<::ffff:8.8.8.8>",
        "x <2001:db8::8.8.8.8> y", "<2001:DB8:0:0:0:0:0:1>, <2001:db8::2>;", "::ffff:<1.2.3.4>:8080",
        "12:30:00:<1.2.3.4>", "to /<1.2.3.4>:80", "<1.2.3.4>\t<1.2.3.4>", "<1.2.3.4>%20", "<2001:db8::1>/64",
        "|<1.2.3.4>|",
    ],
)  # fmt: skip
def test_an_address_is_found_whatever_stands_beside_it(line: str) -> None:
    found = re.compile("<([^<> ]+)>")
    plain = found.sub(r"\1", line)
    expected = found.sub(lambda m: f"{m[1]} [{'FR' if '8.8.8.8' in m[1] and 'db8' not in m[1] else 'US'}]", line)
    assert annotated(plain.encode()).decode() == expected


@pytest.mark.parametrize(
    "line",
    [
        "1.2.3.4.5", "1.2.3", "v1.2.3.4", "lib-1.2.3.4", "1.2.3.4-rc1", "Chrome/120.0.0.0 Safari", "1.2.3.4x",
        "x1.2.3.4",
        "1.2.3.4_5", "a.1.2.3.4", "1.2.3.4.example.com", "1234.1.1.1", "1.1.1.1234", "12:30:59", "00:1a:2b:3c:4d:5e",
        "std::vector", "a :: b", "::", "fe80::1%eth0", "2001:db8::1.443", "1:2:3:4:5:6:7:8:9", "g::1", "2001:db8:::1",
        "foo::1.2.3.4x", "1.2.3.4.5.6.7.8", "2001:db8::12345", "::ffff:1.2.3.4.5", "2001:db8::1-rc",
    ],
)  # fmt: skip
def test_what_is_part_of_something_longer_is_left_alone(line: str) -> None:
    assert annotated(line.encode()) == line.encode()


def test_fields_are_written_as_asked_and_made_harmless() -> None:
    result = command("--fields", "city,region,country", stdin=b"8.8.8.8 1.2.3.4 200.0.0.1\n")
    assert result.stdout == b"8.8.8.8 [Orl\\x1b\\u202eans, FR] 1.2.3.4 [-, CA, US] 200.0.0.1 [city 3]\n"
    assert command("--fields", "country", stdin=b"200.0.0.1\n").stdout == b"200.0.0.1 [-]\n"
    assert command("--fields", "locid,latitude", stdin=b"8.8.8.8").stdout == b"8.8.8.8 [-1]"
    assert command("--fields", "planet", stdin=b"").returncode == 2


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        (b"8.8.8.8 and nothing else\n", 0, []),
        (b"no address\n", 0, []),
        (b"130.0.0.1 8.8.8.8\n", 4, [b"geolookup: 2 addresses: 1 found, 1 not covered, 0 malformed"]),
        (
            b"\n130.0.0.1 1.2.3.256\n",
            5,
            [
                b"geolookup: standard input, line 2: '1.2.3.256' is not an IP address",
                b"geolookup: 2 addresses: 0 found, 1 not covered, 1 malformed",
            ],
        ),
    ],
)
def test_the_exit_status_tells_not_covered_from_malformed(line: bytes, code: int, told: list[bytes]) -> None:
    result = command(stdin=line)
    assert (result.returncode, result.stderr.splitlines()) == (code, told)
    assert b"130.0.0.1 [" not in result.stdout
    assert command("--ok-uncovered", "--ok-malformed", stdin=line).returncode == 0


@given(
    st.binary(max_size=200), st.lists(st.sampled_from([b"8.8.8.8", b"::1", b"\xff\xfe", b"\r\n", b"\0"]), max_size=5)
)
def test_every_other_byte_stays(noise: bytes, tokens: list[bytes]) -> None:
    data = noise.join(tokens) + noise
    assert annotated(data).replace(b" [US]", b"").replace(b" [FR]", b"") == data.replace(b" [US]", b"").replace(
        b" [FR]", b""
    )


def test_each_line_is_written_as_soon_as_it_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # which would flush where the command forgot to
    with subprocess.Popen(
        [*forked(), "-m", "geolookup", "annotate", "--fields", "country"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(3):
            process.stdin.write(b"8.8.8.8 x\r\n")
            process.stdin.flush()
            assert process.stdout.readline() == b"8.8.8.8 [FR] x\r\n"
        process.stdin.write(b"8.8.8.8 without an end")
        process.stdin.close()
        assert process.stdout.read() == b"8.8.8.8 [FR] without an end"
    assert process.returncode == 0


def test_a_line_read_in_pieces_is_annotated_without_cutting_an_address() -> None:
    filler = (b"w" * 99 + b" ") * 10_500
    lines, expected = [], []
    for inside in range(9):  # the piece ends before, at, and after each character of the address
        before = filler[: (1 << 20) - inside - 1] + b" "
        lines.append(before + b"8.8.8.8 " + filler + b"8.8.8.8\n")
        expected.append(before + b"8.8.8.8 [FR] " + filler + b"8.8.8.8 [FR]\n")
    found = command("--fields", "country", stdin=b"".join(lines)).stdout
    assert [line == right for line, right in zip(found.splitlines(True), expected, strict=True)] == [True] * 9


def test_a_word_without_an_end_passes_through() -> None:
    data = b"8.8.8.8," * 400_000 + b"\n08.8.8.8\n"
    result = command("--fields", "country", stdin=data)
    assert result.stdout == data
    assert b"line 2: '08.8.8.8'" in result.stderr


def test_a_hostile_line_takes_no_longer_than_its_length() -> None:
    # Quadratic time over a piece would be days, and the command's own deadline ends that.
    for unit in (b"1:", b"1.", b":", b"::", b"1::", b"ffff:1.1.1."):
        assert command(stdin=unit * (500_000 // len(unit)) + b" \n").stdout == unit * (500_000 // len(unit)) + b" \n"


def test_a_closed_pipe_is_no_error() -> None:
    script = f"set -o pipefail; yes 8.8.8.8 | head -n 30000 | {shlex.join(forked())} -m geolookup annotate | head -n 1"
    result = subprocess.run(["bash", "-c", script], capture_output=True, check=False, timeout=60)
    assert (result.stderr, result.stdout) == (b"", b"8.8.8.8 [FR, Orl\\x1b\\u202eans]\n")


def test_it_needs_no_pyarrow(capsys: pytest.CaptureFixture[str]) -> None:
    program = (
        "import sys\nsys.modules['pyarrow'] = None\nfrom geolookup.cli.app import run\nsys.exit(run(['annotate']))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], input=b"8.8.8.8\n", capture_output=True, check=False, timeout=60
    )
    assert (result.returncode, result.stderr) == (0, b"")
    assert run(["annotate", "--help"]) == 0
