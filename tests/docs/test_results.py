"""The page of results begins with a table that is made from the recorded figures, and from nothing else."""

from pathlib import Path

import pytest
from benchmarks import figures, goals

PAGE = Path(__file__).parents[2] / "benchmarks" / "RESULTS.md"


def test_the_table_is_that_of_the_recorded_figures() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert "\n".join(goals.table()) in page, "write it anew: python -m benchmarks.run --only startup --renew"


def test_a_recorded_figure_replaces_the_older_one_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = tmp_path / "recorded"
    monkeypatch.setattr(figures, "FIGURES", str(tmp_path / "figures.json"))
    monkeypatch.setenv(figures.RECORDED, str(recorded))
    figures.record("edits/push/a second", 83)
    figures.record("disk/nights/times", 7)
    figures.gather(str(recorded), "2026-11-20")
    recorded.unlink()
    figures.record("disk/nights/times", 1.25)
    figures.gather(str(recorded), "2026-11-22")
    assert figures.figures() == {"disk/nights/times": 1.25, "edits/push/a second": 83}
    assert figures.days() == ["2026-11-20", "2026-11-22"]
    lines = {line.split(" | ")[0]: line for line in goals.table()}
    assert lines["| push over loopback"].endswith("| 83 a second |  | 400 | no |")
    [limit] = [line for line in goals.table() if line.startswith("- ")]
    assert limit.startswith("- push over loopback: ")  # no other was measured to miss its goal
    assert "| 1.25 times |" in lines["| seven similar nights on disk, to one"]
    assert lines["| seven similar nights on disk, to one"].endswith("| yes |")


def test_a_line_without_its_figures_says_what_prints_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "FIGURES", str(tmp_path / "none.json"))
    assert figures.figures() == {}
    [line] = [line for line in goals.table() if line.startswith("| push over loopback")]
    assert "not measured: `python -m benchmarks.run --only edits --renew`" in line
    assert line.endswith("| 400 |  |")
