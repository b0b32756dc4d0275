"""``geolookup map``: one file, complete or not there; what it needs is said before a log is read."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from geolookup.cli.app import run
from geolookup.columns import map_rendering
from tests.support.data.states import place, publish
from tests.support.users.quick_commands import forked

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def state(home: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    publish(
        home,
        [
            place(1, "8.0.0.0/8", country="US", city="Los Angeles", latitude=34.0, longitude=-118.2),
            place(-1, "9.9.9.0/24", country="DE", city="Berlin", latitude=52.5, longitude=13.4),
        ],
    )
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "access.log").write_text("8.8.8.8 x\n8.8.8.8 y\n9.9.9.9\n200.0.0.1\n")


@pytest.fixture
def draw(capsys: pytest.CaptureFixture[str]) -> Command:
    def command(*arguments: str) -> tuple[int, str, str]:
        code = run(["map", *arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return command


def test_a_log_is_drawn_into_one_file(draw: Command) -> None:
    code, out, err = draw("access.log", "-o", "visitors.svg")
    assert (code, out) == (0, "")
    assert err == "written: visitors.svg: 4 requests; 2 countries; 1 not covered\n"
    texts = {element.text for element in ElementTree.parse("visitors.svg").iter()}
    assert {"The addresses of access.log", "United States", "Los Angeles, US", "50.0%"} <= texts
    assert sorted(os.listdir()) == ["access.log", "state", "visitors.svg"]


def test_a_map_goes_to_standard_output_by_its_format() -> None:
    done = subprocess.run(
        [*forked(), "-m", "geolookup", "map", "-o", "-", "--format", "png", "--by", "addresses"],
        input=b"8.8.8.8\n", capture_output=True, check=True, timeout=120,
    )  # fmt: skip
    assert done.stdout.startswith(b"\x89PNG")
    assert done.stderr == b""


def test_custom_geolocations_are_drawn(draw: Command) -> None:
    code, _, err = draw("--custom", "-o", "sites.html", "--title", "Our <sites>")
    assert (code, err.rpartition(": ")[2]) == (0, "1 custom geolocation; 256 IPv4 addresses; 0 IPv6 networks (/64)\n")
    page = Path("sites.html").read_text("utf-8")
    assert "<h1>Our &lt;sites&gt;</h1>" in page
    assert '<th scope="row">Berlin, DE (-1)</th>' in page


def test_a_focus_and_a_count_are_chosen(draw: Command) -> None:
    code, _, err = draw("access.log", "-o", "v.html", "--focus", "europe", "--by", "addresses", "--top", "1")
    assert (code, err.partition("v.html: ")[2]) == (0, "3 addresses; 1 in Europe, 1 elsewhere; 1 not covered\n")


def test_what_is_malformed_is_named_and_the_map_is_drawn(draw: Command) -> None:
    Path("access.log").write_text("08.8.8.8\n8.8.8.8\n")
    code, _, err = draw("access.log", "-o", "v.svg")
    assert (code, "access.log, line 1: '08.8.8.8' is not an IP address" in err) == (5, True)
    assert Path("v.svg").exists()
    assert draw("access.log", "-o", "v.svg", "--ok-malformed")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "map.pdf"), "map.pdf: the name of a map ends in .html, .svg, .png"),
        (
            ("-o", "map.svg", "--focus", "atlantis"),
            "unknown focus 'atlantis': give the code of a country (DE), or one of",
        ),
        (("--custom", "access.log", "-o", "map.svg"), "--custom draws no file: leave out either of the two"),
        (("access.log",), "Missing option '-o' / '--output'"),
    ],
)
def test_wrong_usage_is_said_before_anything_is_read(
    draw: Command, arguments: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)  # reading it would fail in another way
    code, _, err = draw(*arguments)
    assert (code, message in err) == (2, True), err
    assert sorted(os.listdir()) == ["access.log", "state"]


def test_a_failure_leaves_what_was_there(draw: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("v.svg").write_text("the old one")

    def fail(*_: object, **__: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(map_rendering, "svg", fail)
    assert draw("access.log", "-o", "v.svg")[0] == 130
    assert Path("v.svg").read_text() == "the old one"
    assert draw("access.log", "-o", "nowhere/v.svg")[0] != 0
    assert sorted(os.listdir()) == ["access.log", "state", "v.svg"]


def test_without_vl_convert_it_says_what_to_install(tmp_path: Path) -> None:
    program = (
        "import sys\nsys.modules['vl_convert'] = None\nfrom geolookup.cli.app import run\n"
        "sys.exit(run(['map', 'access.log', '-o', 'v.svg']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, timeout=60)
    assert done.returncode == 2
    assert b"maps need vl-convert: pip install 'geolookup[map]'" in done.stderr
