"""Networks and ranges: what lookups answer in them, and the addresses of the geolocations that fit."""

import csv
import io
import ipaddress
import json
import subprocess
import sys
from pathlib import Path

import netaddr
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

import geolookup
from geolookup.cli.app import run
from geolookup.lookup.asked import read_range
from geolookup.lookup.ranges import parts_of_range
from tests.support.data.states import place, publish


@pytest.fixture
def state(home: str, monkeypatch: pytest.MonkeyPatch) -> str:
    publish(
        home,
        [
            place(1, "8.8.8.0/25", "2001:db8::/33", country="US", city="A\x1b"),
            place(2, "8.8.8.64-8.8.8.95", "8.8.9.0/24", country="DE", city="=B"),
            place(3, "8.8.10.0/24", "2001:db8:8000::/33", country="de"),
            place(-1, "8.8.8.90-8.8.8.99", country="DE"),
        ],
    )
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    return home


PARTS = [
    "8.8.8.0/24\tnot covered\t8.8.8.128-8.8.8.255\t-\t128 addresses\t50.0%",
    "8.8.8.0/24\tA\\x1b, US\t8.8.8.0-8.8.8.63\tdefault 1\t64 addresses\t25.0%",
    "8.8.8.0/24\tA\\x1b, US\t8.8.8.100-8.8.8.127\tdefault 1\t28 addresses\t10.9%",
    "8.8.8.0/24\t=B, DE\t8.8.8.64-8.8.8.89\tdefault 2\t26 addresses\t10.2%",
    "8.8.8.0/24\tcity -1, DE\t8.8.8.90-8.8.8.99\tcustom -1\t10 addresses\t3.9%",
]


def test_a_network_is_answered_by_its_parts_the_largest_first(state: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lookup", "8.8.8.0/24"]) == 4, "half of it is not covered"
    assert capsys.readouterr() == ("\n".join(PARTS) + "\n", "")
    assert run(["lookup", "8.8.8.0/24", "--top", "2"]) == 4
    out, err = capsys.readouterr()
    assert (out.splitlines(), err) == (PARTS[:2], "8.8.8.0/24: and 3 smaller parts: --top 5 shows all\n")


def test_ranges_and_addresses_combine_in_every_format(state: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["8.8.8.8", "8.8.8.60-8.8.8.67", "2001:db8:7fff:ffff:ffff:ffff:ffff:ffff - 2001:db8:8000::1", "7.7.7.7"]
    assert run(["lookup", *asked, "--format", "json"]) == 4
    found = json.loads(capsys.readouterr().out)
    assert [(each["ip"], each["locid"], each["first"], each.get("addresses"), each.get("share")) for each in found] == [
        (asked[0], 1, "8.8.8.0", None, None),
        (asked[1], 1, "8.8.8.60", 4, 0.5),
        (asked[1], 2, "8.8.8.64", 4, 0.5),
        (asked[2], 3, "2001:db8:8000::", 2, 2 / 3),
        (asked[2], 1, "2001:db8:7fff:ffff:ffff:ffff:ffff:ffff", 1, 1 / 3),
        (asked[3], None, None, None, None),
    ]
    assert run(["lookup", *asked, "--format", "csv"]) == 4
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["ip"], row["last"], row["addresses"]) for row in rows[:3]] == [
        (asked[0], "8.8.8.63", ""), (asked[1], "8.8.8.63", "4"), (asked[1], "8.8.8.67", "4"),
    ]  # fmt: skip
    assert run(["lookup", "8.8.8.8", "--format", "csv"]) == 0
    assert "share" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("8.8.8.8/24", "did you mean 8.8.8.0/24?"),
        ("8.8.8.9-8.8.8.8", "give the first address of the range first"),
        ("8.8.8.8-2001:db8::1", "not of one family"),
        ("8.8.8.0/33", "a number of bits, 0 to 32"),
        ("8.8.8.8-foo", "'8.8.8.8-foo' is not an IP address"),
    ],
)
def test_what_is_no_range_is_named_and_the_others_are_answered(
    state: str, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    assert run(["lookup", text, "8.8.8.8"]) == 5
    out, err = capsys.readouterr()
    assert out.startswith(f"{text}\tmalformed\n8.8.8.8\t")
    assert message in err


def test_one_address_may_be_written_as_a_range(state: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lookup", "8.8.8.8-8.8.8.8", "8.8.8.8/32"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == "8.8.8.8-8.8.8.8\tA\\x1b, US\t8.8.8.8-8.8.8.8\tdefault 1\t1 address\t100.0%"
    assert second == "8.8.8.8\tA\\x1b, US\t8.8.8.0-8.8.8.63\tdefault 1"


ENDS = st.integers(0, 255)


@settings(max_examples=30)
@given(
    st.lists(st.tuples(ENDS, ENDS, st.integers(-3, 3).filter(bool), st.booleans()), max_size=6),
    ENDS, ENDS, st.integers(1, 9), st.booleans(),
)  # fmt: skip
def test_parts_are_what_single_lookups_say(
    tmp_path_factory: pytest.TempPathFactory,
    blocks: list[tuple[int, int, int, bool]],
    one: int,
    other: int,
    most: int,
    is_v6: bool,
) -> None:
    prefix = ("2001:db8::1:{:x}" if is_v6 else "9.9.9.{}").format
    home = str(tmp_path_factory.mktemp("state") / "s")
    ranges: dict[int, set[str]] = {}
    for a, b, locid, v6 in blocks:
        text = ("2001:db8::1:{:x}" if v6 else "9.9.9.{}").format
        ranges.setdefault(locid, set()).add(f"{text(min(a, b))}-{text(max(a, b))}")
    publish(home, [place(locid, *texts, country="DE") for locid, texts in ranges.items()])
    asked = f"{prefix(min(one, other))}-{prefix(max(one, other))}"
    wanted = read_range(asked)
    assert wanted is not None
    with geolookup.open(home) as geo:
        answer = geo.with_snapshot(lambda snapshot: parts_of_range(snapshot, asked, *wanted, most))
        plain = []  # of every address by itself: its answer, and where it is
        for at in range(min(one, other), max(one, other) + 1):
            match = geo.match(prefix(at))
            found = None if match is None else (match.geolocation.locid, match.layer)
            if plain and plain[-1][0] == found:
                plain[-1][1].append(prefix(at))
            else:
                plain.append((found, [prefix(at)]))
    plain.sort(key=lambda each: -len(each[1]))  # stable: of equal size, the first comes first
    size = abs(one - other) + 1
    expected = [(found, each[0], each[-1], len(each), len(each) / size) for found, each in plain]
    answered = []
    for part in answer.parts:
        who = part.match and (part.match.geolocation.locid, part.match.layer)
        answered.append((who, part.first, part.last, part.addresses, part.share))
    assert answered == expected[:most]
    assert (answer.count, answer.covered) == (len(plain), all(found for found, _ in plain))


def test_a_huge_range_needs_little_memory(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(home, [place(n, f"{n >> 8}.{n & 255}.0.0/17") for n in range(256, 40_000)])
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    program = (
        "import resource, sys\nfrom geolookup.cli.app import run\nrun(['lookup', sys.argv[1], '--top', '2'])\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )

    def peak(asked: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-c", program, asked], capture_output=True, text=True, check=True, timeout=120
        )
        return int(done.stdout.splitlines()[-1]), done.stderr

    unit = 1 if sys.platform == "darwin" else 1024
    (small, _), (large, told) = peak("8.0.0.0/16"), peak("0.0.0.0/0")
    assert "and 79,487 smaller parts" in told
    # The geolocations themselves are kept ready, up to a number of them: some 300 bytes each.
    assert (large - small) * unit < 24 << 20


# Addresses of what fits


def listed(capsys: pytest.CaptureFixture[str], *options: str) -> list[str]:
    assert run(["list", *options]) == 0
    return capsys.readouterr().out.splitlines()


def test_networks_are_one_a_line_and_as_few_as_possible(state: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert listed(capsys, "--country", "DE", "--networks") == [
        "8.8.8.64/27", "8.8.8.96/30", "8.8.9.0/24", "8.8.10.0/24", "2001:db8:8000::/33",
    ]  # fmt: skip
    assert listed(capsys, "--custom", "--networks") == ["8.8.8.90/31", "8.8.8.92/30", "8.8.8.96/30"]
    assert listed(capsys, "--country", "US", "--networks", "--city", "a\x1b")[-1] == "2001:db8::/33"
    assert listed(capsys, "--networks")[-1] == "2001:db8::/32"


def test_ranges_have_their_place(state: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert listed(capsys, "--country", "de", "--blocks", "--default") == [
        "8.8.8.64-8.8.8.95\t2\tcountry DE, city =B",
        "8.8.9.0-8.8.9.255\t2\tcountry DE, city =B",
        "8.8.10.0-8.8.10.255\t3\tcountry de, city city 3",
        "2001:db8:8000::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff\t3\tcountry de, city city 3",
    ]
    assert "\x1b" not in "".join(listed(capsys, "--blocks", "--country", "US"))


def test_csv_json_and_parquet_have_the_same_rows_for_joins(
    state: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    options = ["list", "--country", "DE", "--networks"]
    assert run([*options, "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capfdbinary.readouterr().out.decode())))
    assert run([*options, "--json"]) == 0
    objects = json.loads(capfdbinary.readouterr().out)
    assert run([*options, "--format", "parquet"]) == 0
    table = parquet.read_table(pa.BufferReader(capfdbinary.readouterr().out)).to_pylist()
    assert table == objects
    assert [row["network"] for row in rows] == [each["network"] for each in objects]
    assert rows[0] == {name: "" if value is None else str(value) for name, value in objects[0].items()}
    assert [(row["network"], row["locid"], row["country"]) for row in rows][:3] == [
        ("8.8.8.64/28", "2", "DE"), ("8.8.8.80/29", "2", "DE"), ("8.8.8.88/31", "2", "DE"),
    ]  # fmt: skip


@settings(max_examples=15)
@given(st.lists(st.tuples(ENDS, ENDS, st.sampled_from(["DE", "FR"]), st.booleans()), max_size=12))
def test_networks_are_those_of_other_libraries(
    tmp_path_factory: pytest.TempPathFactory, blocks: list[tuple[int, int, str, bool]]
) -> None:
    home = str(tmp_path_factory.mktemp("state") / "s")
    texts = []
    for a, b, country, v6 in blocks:
        text = ("2001:db8::{:x}" if v6 else "9.9.9.{}").format
        texts.append((country, f"{text(min(a, b))}-{text(max(a, b))}"))
    publish(home, [place(n, text, country=country) for n, (country, text) in enumerate(texts, 1)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GEOLOOKUP_HOME", home)
        out = io.StringIO()
        patch.setattr(sys, "stdout", out)
        assert run(["list", "--networks", "--country", "DE"]) == 0
    addresses = [f"9.9.9.{n}" for n in range(256)] + [f"2001:db8::{n:x}" for n in range(256)]
    with geolookup.open(home) as geo:
        found = [text for text in addresses if (answer := geo.lookup(text)) is not None and answer.country == "DE"]
    lines = out.getvalue().splitlines()
    assert lines == [str(each) for each in netaddr.cidr_merge(found)]
    for version in (4, 6):
        own = [ipaddress.ip_network(text) for text in found if (":" in text) == (version == 6)]
        collapsed = [str(each) for each in ipaddress.collapse_addresses(own)]
        assert [line for line in lines if (":" in line) == (version == 6)] == collapsed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--format", "csv"], "give --blocks or --networks"),
        (["--blocks", "--top", "3"], "--top is for geolocations"),
    ],
)
def test_wrong_usage_is_told(state: str, capsys: pytest.CaptureFixture[str], options: list[str], message: str) -> None:
    assert run(["list", *options]) == 2
    assert message in capsys.readouterr().err


def test_filters_that_nothing_fits_are_told(state: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list", "--networks", "--city", "nowhere"]) == 0
    assert capsys.readouterr() == ("", "geolookup: no address fits\n")
    assert run(["list", "--city", "nowhere"]) == 0
    assert capsys.readouterr() == ("", "geolookup: no geolocation fits\n")
    for options, what in ((["--networks"], "address"), ([], "geolocation"), (["--field", "city"], "geolocation")):
        assert run(["list", *options, "--country", "Germany"]) == 0
        why = "the country 'Germany' is not a code of two letters: write DE"
        assert capsys.readouterr() == ("", f"geolookup: no {what} fits: {why}\n")
    assert run(["list", "--city", "nowhere", "--json"]) == 0
    assert capsys.readouterr() == ("[]\n", "geolookup: no geolocation fits\n")
