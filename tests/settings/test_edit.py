"""Editing the sources in the settings file: comments, order, mode and links stay, and half an edit is never seen."""

import os
import threading
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.model.errors import SettingsError, StateBusyError
from geolookup.settings import edit
from geolookup.settings.edit import Before, add_source, move_source, remove_source
from geolookup.settings.load import load
from tests.support.examples import examples

FILE = """\
# Ours.
keep_generations = 3  # three are enough

# The office,
# by Ada.
[[source]]   # first
name = "office"
location = '/srv/geo/office.csv'   # quoted so
fields = {country = "Land"}
# this is still about the office

# from the provider
[[ source ]]
name = "dbip"
preset = "dbip-city-lite"
max_age = "40d"

[[source]]
name = "feed"
location = "/srv/geo/feed.csv"
[source.fields]
country = "x"
# the end
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config" / "geolookup.toml"
    path.parent.mkdir()
    path.write_text(FILE)
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(path))
    return path


def names(path: Path) -> list[str]:
    return [table["name"] for table in tomllib.loads(path.read_text()).get("source", [])]


def test_a_source_is_added_at_the_end_first_or_before_another(file: Path) -> None:
    add_source({"name": "last", "location": "/a"}, "last")
    assert file.read_text() == FILE + '\n[[source]]\nname = "last"\nlocation = "/a"\n'
    add_source({"name": "first", "location": "/b", "fields": {"city": "a.b"}}, "first")
    add_source({"name": "middle", "preset": "rir"}, Before("feed"))
    assert names(file) == ["first", "office", "dbip", "middle", "feed", "last"]
    assert load().sources[0].fields == {"city": "a.b"}
    for line in FILE.splitlines():
        assert line in file.read_text().splitlines()


def test_a_comment_above_a_source_goes_where_the_source_goes(file: Path) -> None:
    move_source("dbip", "first")
    text = file.read_text()
    assert names(file) == ["dbip", "office", "feed"]
    assert '\n# from the provider\n[[ source ]]\nname = "dbip"\n' in text
    assert '\n# The office,\n# by Ada.\n[[source]]   # first\nname = "office"\n' in text
    assert text.index("# this is still about the office") > text.index("by Ada")
    remove_source("office")
    text = file.read_text()
    assert names(file) == ["dbip", "feed"]
    assert "Ada" not in text
    assert "still about" not in text
    assert text.startswith("# Ours.\nkeep_generations = 3  # three are enough\n")
    assert text.endswith('country = "x"\n# the end\n')


def test_what_is_not_edited_stays_to_the_letter(file: Path) -> None:
    move_source("office", Before("office"))
    assert file.read_text() == FILE
    remove_source("feed")
    move_source("dbip", "last")
    assert file.read_text() == FILE[: FILE.index('\n[[source]]\nname = "feed"')]


@examples(40)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcd"), st.sampled_from(["add", "remove", "move"]), st.sampled_from(["first", "last", "a"])
        ),
        max_size=12,
    )
)
def test_any_edits_keep_each_source_with_its_comment(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[str, str, str]]
) -> None:
    path = tmp_path_factory.mktemp("edits") / "geolookup.toml"
    text = "".join(
        f"# about {name}\n[[source]]\nname = '{name}'\nlocation = '/{name}' # at {name}\n\n" for name in "abc"
    )
    path.write_text(f"keep_generations = 2\n\n{text}")
    expected = ["a", "b", "c"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GEOLOOKUP_CONFIG", str(path))
        for name, what, where in edits:
            position = where if where in ("first", "last") else Before(where)
            if (name in expected) is (what == "add") or (where == "a" and ("a" not in expected)):
                continue
            if what == "remove":
                remove_source(name)
                expected.remove(name)
                continue
            if what == "move" and where == name:
                continue
            if what == "move":
                move_source(name, position)  # type: ignore[arg-type]
                expected.remove(name)
            else:
                add_source({"name": name, "location": f"/{name}"}, position)  # type: ignore[arg-type]
            at = {"first": 0, "last": len(expected)}.get(where)
            expected.insert(expected.index(where) if at is None else at, name)
        assert names(path) == expected
        assert [source.location for source in load().sources] == [f"/{name}" for name in expected]
        lines = path.read_text().splitlines()
        for at, line in enumerate(lines):
            if line.startswith("# about"):
                assert lines[at + 1 : at + 3] == ["[[source]]", f"name = '{line[-1]}'"]


def test_an_edit_that_could_not_be_loaded_is_not_written(file: Path) -> None:
    for values in (
        {"name": "office", "location": "/x"},
        {"name": "custom", "location": "/x"},
        {"name": "x", "location": "http://example.com/x"},
        {"name": "x", "colour": "red"},
        {"name": "x"},
    ):
        with pytest.raises(SettingsError):
            add_source(values, "last")
    with pytest.raises(SettingsError, match=r"unknown source 'x': .* has the sources office, dbip, feed"):
        remove_source("x")
    with pytest.raises(SettingsError, match="unknown source 'x'"):
        add_source({"name": "new", "location": "/x"}, Before("x"))
    assert file.read_text() == FILE
    assert os.listdir(file.parent) == [file.name]
    file.write_text("colour = 'red'\n")
    with pytest.raises(SettingsError, match="unknown setting colour"):
        add_source({"name": "x", "location": "/x"}, "last")
    file.write_text("source = [{name = 'x', location = '/x'}]\n")
    with pytest.raises(SettingsError, match=r"begin each source with a line \[\[source\]\]"):
        remove_source("x")


def test_the_file_is_made_with_its_folder_and_later_keeps_mode_and_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = tmp_path / "dotfiles" / "real.toml"
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(real))
    assert add_source({"name": "a", "preset": "rir"}, "first") == str(real)
    assert real.read_text() == '[[source]]\nname = "a"\npreset = "rir"\n'
    real.chmod(0o640)
    link = tmp_path / "link.toml"
    link.symlink_to(real)
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(link))
    add_source({"name": "b", "preset": "rir"}, "last")
    assert link.is_symlink()
    assert names(real) == ["a", "b"]
    assert real.stat().st_mode & 0o777 == 0o640
    remove_source("a")
    remove_source("b")
    assert real.read_text() == ""


def test_line_ends_of_another_system_stay(file: Path) -> None:
    file.write_bytes(FILE.replace("\n", "\r\n").encode())
    add_source({"name": "x", "location": "/x"}, "first")
    assert file.read_bytes().count(b"\n") == file.read_bytes().count(b"\r\n") > 20
    assert names(file) == ["x", "office", "dbip", "feed"]


def test_a_text_that_looks_like_a_comment_is_never_cut(file: Path) -> None:
    text = 'source = "x"\n\n[[source]]\nname = "a"\npreset = "rir"\nattribution = """by\n# us"""\n'.partition("\n\n")[2]
    file.write_text(text + '[[source]]\nname = "b"\npreset = "rir"\n')
    with pytest.raises(SettingsError, match="edit the file by hand"):
        move_source("b", "first")
    assert names(file) == ["a", "b"]
    assert load().sources[0].attribution == "by\n# us"


def test_an_edit_that_would_change_another_source_is_not_written(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = edit._written
    monkeypatch.setattr(edit, "_written", lambda head, tables: written(head, tables).replace("40d", "41d"))
    with pytest.raises(SettingsError, match="edit the file by hand"):
        remove_source("office")
    assert file.read_text() == FILE


def test_writers_come_one_after_the_other_and_none_is_lost(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[BaseException] = []

    def add(number: int) -> None:
        try:
            add_source({"name": f"n{number}", "preset": "rir"}, "first" if number % 2 else "last")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert {f"n{number}" for number in range(8)} < set(names(file))
    monkeypatch.setattr(edit, "_WAIT_S", 0.05)
    with edit._one_writer(str(file.parent)), pytest.raises(StateBusyError):
        remove_source("office")


def test_a_change_by_an_editor_in_between_is_not_overwritten(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check = edit._check

    def slow(*arguments: object) -> None:
        file.write_text("keep_generations = 9\n")
        check(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(edit, "_check", slow)
    with pytest.raises(SettingsError, match="was changed meanwhile"):
        remove_source("office")
    assert file.read_text() == "keep_generations = 9\n"
    assert os.listdir(file.parent) == [file.name]


def test_above_the_service_of_url_a_table_says_where_the_service_stands(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text('url = "https://geo.example.com"\n')
    add_source({"name": "low", "preset": "rir"}, "last")
    assert [source.name for source in load().stack] == ["service", "low"]
    add_source({"name": "high", "preset": "rir"}, "first")
    assert [source.name for source in load().stack] == ["high", "service", "low"]
    move_source("service", "last")
    assert [source.name for source in load().stack] == ["high", "low", "service"]
    file.write_text("")
    monkeypatch.setenv("GEOLOOKUP_URL", "https://geo.example.com")
    with pytest.raises(SettingsError, match="write its `url` into"):
        add_source({"name": "high", "preset": "rir"}, "first")
