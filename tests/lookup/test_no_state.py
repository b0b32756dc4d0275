"""What becomes of a path that holds no state: an error that says what is there and what to do; nothing is made."""

import getpass
import os
import pwd
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import geolookup
import geolookup_data
from geolookup.cli.app import run
from geolookup.columns.common import default_geo
from geolookup.model.errors import NoStateError, SettingsError
from geolookup.settings import paths
from tests.state.edits.editing import BERLIN
from tests.support.data.states import place, publish
from tests.support.users.as_nobody import as_nobody, as_root
from tests.support.users.running_console import RunningConsole

CITY = Path(__file__).parents[1] / "data" / "mmdb" / "GeoLite2-City-Test.mmdb"
#: What reads a state, each in a process that names one.
READERS = (
    ["8.8.8.8"],
    ["lookup", "8.8.8.8"],
    ["explain", "8.8.8.8"],
    ["status"],
    ["list"],
    ["verify"],
    ["generations", "list"],
    ["export", "csv", "out.csv"],
    ["outbox", "list"],
    ["custom", "list"],
    ["custom", "create", "--country", "DE", "--latitude", "1", "--longitude", "2"],
)


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("opened", [geolookup.open, geolookup.open_editor])
def test_a_database_of_a_provider_is_told_apart_from_a_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Callable[..., object]
) -> None:
    file = tmp_path / "GeoLite2-City.mmdb"
    file.write_bytes(CITY.read_bytes())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        NoStateError, match=r"is a file, not a state directory.*`geolookup sync \S+/GeoLite2-City.mmdb`"
    ):
        opened("GeoLite2-City.mmdb")
    assert tree(tmp_path) == {"GeoLite2-City.mmdb"}


@pytest.mark.parametrize("opened", [geolookup.open, geolookup.open_editor])
def test_a_mistyped_path_is_an_error_and_is_not_made(tmp_path: Path, opened: Callable[..., object]) -> None:
    with pytest.raises(NoStateError, match=r"/mistyped/state: does not exist.*check the path.* geolookup sync"):
        opened(tmp_path / "mistyped" / "state")
    assert tree(tmp_path) == set()


def test_an_empty_folder_is_no_state(tmp_path: Path) -> None:
    (tmp_path / "empty folder").mkdir()
    with pytest.raises(
        NoStateError, match=r"nothing has been published here yet.*GEOLOOKUP_HOME='\S+ folder' geolookup sync"
    ):
        geolookup.open(tmp_path / "empty folder")
    assert tree(tmp_path) == {"empty folder"}


def test_the_state_that_is_probably_meant_is_named(tmp_path: Path) -> None:
    state = tmp_path / "geo" / "production"
    publish(str(state), [place(1, "8.0.0.0/8")])
    for path in (tmp_path / "geo" / "produktion", state / "generations", tmp_path / "geo"):
        with pytest.raises(NoStateError, match=rf"did you mean {state}\?$"):
            geolookup.open(path)
    with pytest.raises(NoStateError, match=rf"name the directory, {state}$"):
        geolookup.open(state / "CURRENT")


@pytest.mark.parametrize("arguments", READERS, ids=lambda arguments: " ".join(arguments[:2]))
def test_no_command_that_reads_makes_the_state_that_is_named(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GEOLOOKUP_HOME", str(tmp_path / "typo"))
    assert run(arguments) == 1
    assert f"{tmp_path}/typo: does not exist, so it holds no state: check the path" in capsys.readouterr().err
    assert tree(tmp_path) == set()


def test_the_home_of_the_settings_file_is_a_path_that_somebody_chose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "geolookup.toml").write_text('home = "typo"\n')
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(tmp_path / "geolookup.toml"))
    assert run(["8.8.8.8"]) == 1
    assert f"{tmp_path}/typo: does not exist" in capsys.readouterr().err
    with pytest.raises(NoStateError):
        default_geo()


def test_the_bundled_data_are_published_where_somebody_asks_for_them(
    home: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    assert run(["sync", "--bundled", "--url", "http://127.0.0.1:9"]) == 2
    assert run(["sync", "--bundled"]) == 0
    assert "published generation 1: 237 geolocations" in capsys.readouterr().out
    assert run(["8.8.8.8"]) == 0
    assert "\tUS\t" in capsys.readouterr().out
    assert run(["sync", "--bundled"]) == 2
    assert "something is published here already" in capsys.readouterr().err


def test_the_default_directory_answers_from_the_bundled_data_by_every_name(
    default_home: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", os.path.join(default_home, "..", "geolookup"))
    assert run(["8.8.8.8"]) == 0
    assert "\tUS\t" in capsys.readouterr().out
    with geolookup.open(default_home) as geo:
        assert geo.status().source == "bundled"


# Why it was looked for there, and where there is one

_TYPED = (["8.8.8.8"], ["top", "-"], ["custom", "list"])


def _program(code: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """A program in Python with this environment alone, and the bundled data of all tests."""
    command = [sys.executable, "-c", code]
    environment = {"PYTHONPATH": os.environ.get("PYTHONPATH", ""), **environment}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL
    )


def test_the_library_makes_no_state_and_says_where_it_looked_and_why(default_home: str) -> None:
    for opened in (geolookup.open, geolookup.open_editor, default_geo):
        with pytest.raises(NoStateError) as raised:
            opened()
        text = str(raised.value)
        assert text.startswith(f"{default_home}: nothing has been published here yet: run `geolookup sync`")
        assert f"the user is {getpass.getuser()}, and XDG_DATA_HOME is {os.path.dirname(default_home)}" in text
        assert not os.path.exists(default_home)


def test_each_way_to_name_a_directory_is_the_reason_that_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "me"
    home.mkdir()
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(home))
    with pytest.raises(NoStateError, match=rf"^{home}/.local/share/geolookup: .*and HOME is {home}\)$"):
        geolookup.open()
    (tmp_path / "geolookup.toml").write_text('home = "typo"\n')
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(tmp_path / "geolookup.toml"))
    with pytest.raises(NoStateError, match=rf"`home` in {tmp_path}/geolookup.toml names this directory\)$"):
        geolookup.open()
    monkeypatch.setenv("GEOLOOKUP_HOME", str(tmp_path / "other"))
    with pytest.raises(NoStateError, match=rf"^{tmp_path}/other: .*GEOLOOKUP_HOME names this directory\)$"):
        geolookup.open()
    with pytest.raises(NoStateError, match=r"bundled registry data\)$"):
        geolookup.open(tmp_path / "given")


def test_the_state_of_the_machines_service_is_named_and_other_homes_are_not_searched(
    default_home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(str(tmp_path / "home" / "alice" / ".local" / "share" / "geolookup"), [place(1, "8.0.0.0/8")])
    service = str(tmp_path / "service")
    monkeypatch.setattr("geolookup.state.generations.absent.SYSTEM_HOME", service)
    with pytest.raises(NoStateError) as raised:
        geolookup.open()
    assert "service" not in str(raised.value)
    assert "alice" not in str(raised.value)
    publish(service, [place(1, "8.0.0.0/8")])
    with pytest.raises(NoStateError, match=rf"; there is a state in {service}: set GEOLOOKUP_HOME={service}\)$"):
        geolookup.open()


@pytest.mark.parametrize("environment", [{}, {"HOME": ""}, {"HOME": "/nonexistent"}], ids=str)
def test_without_a_home_the_library_and_the_command_fail_with_one_sentence(environment: dict[str, str]) -> None:
    expanded = pwd.getpwuid(os.geteuid()).pw_dir if "HOME" not in environment else environment["HOME"]
    where = f"{expanded}/.local/share/geolookup"
    if os.path.exists(where):
        pytest.skip(f"{where} is there")
    library = _program("import geolookup; geolookup.open()", environment)
    assert library.returncode == 1
    sentence = library.stderr.strip().splitlines()[-1].removeprefix("geolookup.model.errors.NoStateError: ")
    assert sentence.startswith(f"{where}: nothing has been published here yet")
    assert f"HOME is {environment.get('HOME') or 'not set'})" in sentence
    for words in _TYPED:
        code = f"import sys; sys.argv[1:] = {words!r}; from geolookup.__main__ import main; sys.exit(main())"
        typed = _program(code, environment)
        assert (typed.returncode, typed.stdout) == (1, ""), words
        assert typed.stderr.startswith(f"geolookup: {sentence.removesuffix(')')}"), words
    asked = _program(
        "import geolookup; print(geolookup.open(fallback='registry').lookup('8.8.8.8').country)", environment
    )
    assert asked.stdout == "US\n"
    assert not os.path.exists(where)


@as_root
@pytest.mark.parametrize("theirs", [0o755, 0o700], ids=oct)
def test_with_the_home_of_another_user_nothing_is_made_up(theirs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        # An installation that they may read, even if this one is in a folder of root's own.
        data = shutil.copytree(os.path.dirname(geolookup_data.__file__), os.path.join(folder, "geolookup_data"))
        monkeypatch.setattr(geolookup_data, "__file__", os.path.join(data, "__init__.py"))
        home = os.path.join(folder, "root")
        os.mkdir(home, theirs)
        environment = {"HOME": home}

        def opened() -> int:
            try:
                geolookup.open()
            except NoStateError as error:
                print(error)
                return 3
            return 0

        library = as_nobody(opened, environment=environment)
        assert library.returncode == 3, library
        assert f"{home}/.local/share/geolookup: nothing has been published here yet" in library.stdout
        assert f"and HOME is {home}" in library.stdout
        for words in (["8.8.8.8"], ["custom", "list"]):
            typed = as_nobody(partial(run, words), environment=environment)
            assert (typed.returncode, typed.stdout) == (1, ""), typed
            assert f"{home}/.local/share/geolookup: nothing has been published here yet" in typed.stderr
            assert typed.stderr.count("\n") == 1
        assert os.listdir(home) == []
        asked = {**environment, "GEOLOOKUP_FALLBACK": "registry", "TMPDIR": home}
        typed = as_nobody(partial(run, ["8.8.8.8"]), environment=asked)
        assert "\tUS\t" in typed.stdout, typed


# Countries only, on purpose


def test_a_fallback_answers_countries_until_something_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "typo"
    with pytest.raises(SettingsError, match="fallback = 'cities': must be registry"):
        geolookup.open(home, fallback="cities")  # type: ignore[arg-type]
    with pytest.raises(NoStateError):
        geolookup.open(home, fallback="registry", as_of="yesterday")
    with geolookup.open(home, fallback="registry") as geo:
        assert geo.lookup("8.8.8.8").country == "US"  # type: ignore[union-attr]
        assert geo.explain("8.8.8.8").match is not None
        assert geo.status().temporary
        assert not home.exists()
        with pytest.raises(NoStateError):
            geo.edit().create(**BERLIN)
        publish(str(home), [place(1, "8.0.0.0/8", city="Ulm")])
        assert geo.lookup("8.8.8.8").city == "Ulm"  # type: ignore[union-attr]
        assert not geo.status().temporary
        assert geo.home == str(home)
    with geolookup.open(home, fallback="registry") as geo:
        assert geo.lookup("8.8.8.8").city == "Ulm"  # type: ignore[union-attr]


def test_the_setting_asks_for_the_fallback_too(
    default_home: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GEOLOOKUP_FALLBACK", "registry")
    for geo in (geolookup.open(), default_geo()):
        assert geo.lookup("8.8.8.8").country == "US"  # type: ignore[union-attr]
        assert geo.status().temporary
    assert not os.path.exists(default_home)
    monkeypatch.setenv("GEOLOOKUP_FALLBACK", "cities")
    assert run(["8.8.8.8"]) == 2
    assert "GEOLOOKUP_FALLBACK = cities: must be registry" in capsys.readouterr().err


def _polars() -> object:
    import polars as pl

    import geolookup.columns.polars  # noqa: F401 - registers the namespace

    return pl.LazyFrame({"ip": ["8.8.8.8"]}).select(pl.col("ip").geo.country()).collect().item()  # type: ignore[attr-defined]


def _pandas() -> object:
    import pandas as pd

    import geolookup.columns.pandas  # noqa: F401 - registers the accessor

    return pd.Series(["8.8.8.8"]).geo.country()[0]


def _duckdb() -> object:
    import duckdb

    from geolookup.columns.duckdb import register

    connection = duckdb.connect()
    register(connection)
    return connection.sql("select geo_country('8.8.8.8')").fetchall()[0][0]


def _sqlite() -> object:
    from geolookup.columns.sqlite import register

    connection = sqlite3.connect(":memory:")
    register(connection)
    ((problem,),) = connection.execute("select geo_problem()")
    if problem is not None:
        raise NoStateError(problem)
    return connection.execute("select geo_country('8.8.8.8')").fetchall()[0][0]


@pytest.mark.parametrize("country", [_polars, _pandas, _duckdb, _sqlite])
def test_tables_are_not_answered_from_a_state_that_is_made_up(
    country: Callable[[], object], default_home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NoStateError, match=f"^{default_home}: nothing has been published here yet"):
        country()
    assert not os.path.exists(default_home)
    monkeypatch.setenv("GEOLOOKUP_FALLBACK", "registry")
    assert country() == "US"


def test_share_and_the_console_make_no_state_where_no_home_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "missing"))
    sentence = f"{tmp_path}/missing/.local/share/geolookup: nothing has been published here yet"
    assert run(["share", "--port", "0"]) == 1
    assert sentence in capsys.readouterr().err
    with RunningConsole(paths.default_home()) as console, console.client() as client:
        answer = client.get("/", params={"q": "8.8.8.8"})
        assert (answer.status_code, sentence in answer.text) == (422, True)
    assert tree(tmp_path) == set()


def test_a_command_makes_the_first_state_and_says_once_that_countries_answer(
    default_home: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["8.8.8.8"]) == 0
    assert f"no state yet: building one in {default_home}" in (told := capsys.readouterr().err)
    assert "countries only" in told
    assert run(["8.8.8.8"]) == 0
    assert capsys.readouterr().err == ""
    assert not geolookup.open().status().temporary


def test_a_sync_into_a_file_says_that_it_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "GeoLite2-City.mmdb"
    file.write_bytes(CITY.read_bytes())
    monkeypatch.setenv("GEOLOOKUP_HOME", str(file))
    assert run(["sync", str(CITY)]) == 1
    assert f"{file}: there is a file instead of a directory" in capsys.readouterr().err
    assert run(["8.8.8.8"]) == 1
    assert "unset GEOLOOKUP_HOME, which names it, and sync it into a state first" in capsys.readouterr().err
