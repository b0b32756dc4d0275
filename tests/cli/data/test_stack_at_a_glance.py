"""``list`` and ``status`` of a state with several sources, as whoever is on call meets them."""

import json
from pathlib import Path

import pytest

from geolookup.cli.app import run
from tests.support.users.in_process import asked

OWN = 10**9


@pytest.fixture(autouse=True)
def configured(tmp_path: Path, default_home: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GEOLOOKUP_HOME", default_home)
    path = tmp_path / "geolookup.toml"
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(path))
    tables = [f'[[source]]\nname = "{name}"\nlocation = "{tmp_path / name}.csv"\n' for name in ("a", "b")]
    path.write_text("".join(tables))
    return path


def write(folder: Path, name: str, *rows: str) -> None:
    (folder / f"{name}.csv").write_text("first,last,country,city\n" + "".join(f"{row}\n" for row in rows))


def test_all_sources_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "a", "10.0.0.0,10.0.0.255,DE,Bonn")
    write(tmp_path, "b", "10.0.0.0,10.0.0.99,FR,Nice", "11.0.0.0,11.0.0.255,DE,Ulm")
    assert run(["sync"]) == 0
    assert asked(capsys, "list").splitlines() == [
        f"{OWN}\tcountry DE, city Bonn\t1 block\ta",
        f"{OWN + 1}\tcountry FR, city Nice\t1 block\tb",
        f"{OWN + 2}\tcountry DE, city Ulm\t1 block\tb",
    ]
    found = json.loads(asked(capsys, "list", "--country", "de", "--json"))
    assert [(each["city"], each["source"]) for each in found] == [("Bonn", "a"), ("Ulm", "b")]
    assert [each["city"] for each in json.loads(asked(capsys, "list", "--top", "2", "--json"))] == ["Bonn", "Nice"]
    assert asked(capsys, "list", "--custom") == ""


def test_a_source_that_never_was_pulled_is_named_and_is_a_problem(
    tmp_path: Path, configured: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "a", "10.0.0.0,10.0.0.255,DE,Bonn")
    assert run(["sync"]) == 1
    line = f"source b:     {tmp_path}/b.csv; never pulled; PROBLEM since "
    assert line in asked(capsys, "status", "--check", code=1)
    assert json.loads(asked(capsys, "status", "--json"))["never_pulled"] == ["b"]
    write(tmp_path, "b", "11.0.0.0,11.0.0.255,DE,Ulm")
    assert run(["sync"]) == 0
    assert "never pulled" not in asked(capsys, "status", "--check")
    with configured.open("a") as settings:
        settings.write(f'[[source]]\nname = "c"\nlocation = "{tmp_path}/c.csv"\n')
    line = f"source c:     {tmp_path}/c.csv; never pulled: `geolookup sync` pulls it, or says why it cannot"
    assert line in asked(capsys, "status", "--check", code=1).splitlines()


def test_while_the_first_sync_fails_the_status_does_not_say_to_add_what_was_added(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["sync"]) == 1
    found = asked(capsys, "status", "--check", code=1)
    assert found.count("; never pulled") == 2
    assert "source add" not in found


def test_a_source_that_fails_is_a_problem_for_a_monitor_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "a", "10.0.0.0,10.0.0.255,DE,Bonn")
    write(tmp_path, "b", "11.0.0.0,11.0.0.255,DE,Ulm")
    assert run(["sync"]) == 0
    asked(capsys, "status", "--check")
    (tmp_path / "b.csv").write_text("Dear Madam,\n")
    assert run(["sync"]) == 1
    lines = asked(capsys, "status", "--check", code=1).splitlines()
    (line,) = (line for line in lines if line.startswith("source b:"))
    assert "PROBLEM since " in line
    assert 'its first line is "Dear Madam,": no kind of source begins so' in line
    assert all(": " in line for line in lines)
    assert not any(line.startswith("  mmdb") for line in lines)
