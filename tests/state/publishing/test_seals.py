"""`verify` and `status --check` notice a changed report.json."""

from pathlib import Path

import pytest

from geolookup.cli.app import run
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.verify import damaged_sources, verify
from tests.support.data.states import place, publish


@pytest.fixture(autouse=True)
def state(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    publish(home, [place(1, "8.8.8.0/24")])
    publish(home, [place(1, "8.8.8.0/24"), place(2, "9.9.9.0/24")])


@pytest.mark.parametrize("which", ["generations/000002", "snapshots/000002"])
def test_a_changed_report_is_not_whole(home: str, which: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(home) == []
    path = Path(home, which, "report.json")
    text = path.read_text()
    path.write_text(text.replace('"source": "', '"source": "x', 1))
    assert path.read_text() != text
    assert any(str(path) in problem for problem in verify(home))
    assert run(["verify"]) == 1
    assert "checksum differs" in capsys.readouterr().err
    current = StateDirectory(home).require_current()
    assert damaged_sources(home, current)  # so that the next sync writes it again
