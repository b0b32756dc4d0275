"""A provider's monthly files are published without a question for a year; a spoiled one never is."""

import shutil
from pathlib import Path

import pytest

from geolookup.cli.app import run
from geolookup.state.base.current import read_current
from tests.support.data.monthly_files import SPOILED, first_month, write, year
from tests.support.users.in_process import said


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "geolookup.toml"
    path.touch()
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(path))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("seed", range(3))
def test_a_year_of_honest_files_is_never_held(
    tmp_path: Path, home: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    for month, rows in enumerate(year(seed)):
        # Some people download over the file of last month, others keep them all.
        name = "city.csv" if seed % 2 else f"city-{2025 + month // 12}-{month % 12 + 1:02d}.csv"
        write(tmp_path / name, rows)
        said(capsys, "sync", *([name] if month == 0 or seed % 2 == 0 else []))
    assert read_current(home).generation == 13


@pytest.fixture(scope="module")
def january(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state with the file of January, to be copied, and that file beside it."""
    folder = tmp_path_factory.mktemp("january")
    write(folder / "city.csv", first_month(7))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GEOLOOKUP_CONFIG", "/dev/null")
        patch.setenv("GEOLOOKUP_HOME", str(folder / "state"))
        assert run(["sync", str(folder / "city.csv")]) == 0
    return folder


@pytest.mark.parametrize("spoiled", SPOILED)
def test_a_spoiled_file_is_always_held_under_the_same_name_and_under_another(
    january: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], spoiled: str
) -> None:
    home = tmp_path / "state"
    shutil.copytree(january / "state", home, symlinks=True)
    monkeypatch.setenv("GEOLOOKUP_HOME", str(home))
    _, rows, *_ = year(7)
    write(tmp_path / "city-2026-02.csv", SPOILED[spoiled](rows))
    said(capsys, "sync", "city-2026-02.csv", code=3)
    original = (january / "city.csv").read_bytes()
    try:
        shutil.copy(tmp_path / "city-2026-02.csv", january / "city.csv")
        said(capsys, "sync", code=3)
    finally:
        (january / "city.csv").write_bytes(original)
    assert read_current(str(home)).generation == 1
    write(tmp_path / "city-2026-02.csv", rows)
    said(capsys, "sync", "city-2026-02.csv")
    assert read_current(str(home)).generation == 2
