"""What the pages say of hotels and rates, run as it stands there against a demo service."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from geolookup.service.hotels.loader import LoadedHotels, load_hotels
from geolookup.service.store.store import Store
from tests.support.page_commands import end, offer_command

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "how-to-hotels.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:8080"


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str) -> Iterator[str]:
    """The address of a service with the bundled data; `geolookup` is a command, and the folder an empty one."""
    offer_command(tmp_path, monkeypatch, home)
    serve = next(
        line for block in blocks(PAGE, "sh") for line in block.splitlines() if line.startswith("geolookup serve")
    )
    service = subprocess.Popen([*shlex.split(serve), "--port", "0"], stderr=subprocess.PIPE, text=True)
    try:
        assert service.stderr is not None
        yield re.search(r"http://\S+", service.stderr.readline())[0]  # type: ignore[index]
    finally:
        end(service)


def run(script: str, address: str) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script.replace(ADDRESS, address)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_commands_of_the_pages_and_the_library_example_work(
    demo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = [block for block in blocks(PAGE, "sh") if "serve" not in block]
    tried, rates = shell
    assert "hotels of the country US" in run(tried, demo)
    monkeypatch.setenv("GEOLOOKUP_URL", demo)
    assert run(rates, demo) == "created\tH1001\tBAR\ncreated\tH1001\tMEET\n"
    (readme,) = (block for block in blocks(README, "sh") if "geolookup hotel" in block)
    out = run(readme, demo)
    assert out.endswith("unchanged\tH1001\tBAR\nunchanged\tH1001\tMEET\n")
    assert "  ContactInfo: {" in out
    (example,) = blocks(PAGE, "python")
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.startswith("country US ['"), done.stderr


def test_the_hotel_that_the_page_shows_can_be_loaded(tmp_path: Path) -> None:
    (line,) = blocks(PAGE, "json")
    path = tmp_path / "hotels.ndjson"
    path.write_text(line, encoding="utf-8")
    with Store.open(tmp_path / "x.db") as store:
        assert load_hotels(store, [path]) == LoadedHotels(added=1, changed=0)
