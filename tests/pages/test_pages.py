"""The README's commands, run as they stand there; those that install from a registry in part."""

import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.page_commands import end, offer_command

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
SHELL = re.findall(r"^```sh\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
PYTHON = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str) -> Path:
    """A folder in which `geolookup` is a command and `access.log` is there."""
    offer_command(tmp_path, monkeypatch, home)
    (tmp_path / "access.log").write_text("8.8.8.8 - - GET /\n1.1.1.1 - - GET /\n")
    return tmp_path


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], capture_output=True, text=True, check=False, timeout=120
    )


def test_the_first_two_blocks_set_up_and_run_on_one_line_each() -> None:
    first, second = (block.strip() for block in SHELL[:2])
    for block in (first, second):
        assert "\n" not in block
        assert block.startswith("python3 -m venv .venv && .venv/bin/pip install ")
    assert ".venv/bin/geolookup 8.8.8.8" in first
    assert "pytest" in second


def test_the_first_commands_answer(shell: Path) -> None:
    command = SHELL[0].strip().rpartition(" && ")[2].replace(".venv/bin/", "")
    result = run(command)
    assert result.returncode == 0, result.stderr
    assert [line.split("\t")[1] for line in result.stdout.splitlines()] == ["US", "AU", "US"]


def test_the_commands_of_the_command_section_work(shell: Path) -> None:
    lines = SHELL[2].strip().splitlines()
    assert len(lines) >= 5
    for line in lines:
        result = run(line)
        assert result.returncode == 0, (line, result.stderr)
        assert result.stdout


def test_the_sources_of_the_readme_and_of_their_page_are_added(shell: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (shell / "office.csv").write_text("first,last,city\n10.0.0.1,10.0.0.2,Austin\n")
    page = (ROOT / "docs" / "how-to-sources.md").read_text(encoding="utf-8")
    for text, count in ((TEXT, 2), (page, 3)):
        monkeypatch.setenv("XDG_CONFIG_HOME", str(shell / str(count)))
        lines = re.findall(r"^geolookup source add [^\n]*(?:dbip|office|registry)[^\n]*", text, re.MULTILINE)
        assert len(lines) == count
        for line in lines:
            result = run(line)
            assert result.returncode == 0, (line, result.stderr)
        assert run("geolookup source list").stdout.splitlines()[0].startswith("office\t")


def test_the_library_example_works(shell: Path) -> None:
    (example,) = PYTHON
    result = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("US\n")


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def test_the_service_and_the_sync_work_together(shell: Path, port: int) -> None:
    blocks = [block.strip() for block in SHELL]
    serve = next(block for block in blocks if block.startswith("geolookup serve"))
    sync = next(block for block in blocks if block.startswith("geolookup sync"))
    service = subprocess.Popen(
        [*shlex.split(serve), "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        assert service.stderr is not None
        assert f"http://127.0.0.1:{port}" in service.stderr.readline()
        result = run(sync.replace("8080", str(port)))
        assert result.returncode == 0, result.stderr
        assert "237 geolocations (0 custom), 207564 blocks" in result.stdout
    finally:
        end(service)


def test_every_document_that_is_linked_exists() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
