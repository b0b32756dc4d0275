"""Settings: the file, the environment over it, options over that; and where both directories are."""

import ast
import os
import re
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import platformdirs
import pytest

import geolookup
from geolookup.model.errors import SettingsError
from geolookup.settings import paths as locations
from geolookup.settings.load import load, load_with_origins, normalise_url
from geolookup.settings.secrets import read_ping_url, read_secret
from geolookup.settings.table import GROUPS, Settings, described
from geolookup.sync.opening import resolve
from tests.docs.settings import default_text

CANARY = "canary-token-7f3a"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "geolookup.toml"
    path.write_text("")
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(path))
    return path


def test_options_beat_the_environment_and_that_beats_the_file(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text('url = "https://file.example"\nattempts = 2\nsettle_s = 1.5\n')
    monkeypatch.setenv("GEOLOOKUP_URL", "https://environment.example")
    monkeypatch.setenv("GEOLOOKUP_SETTLE_S", "3")
    found = load({"url": "https://option.example", "home": None})
    assert (found.url, found.settle_s, found.attempts) == ("https://option.example", 3.0, 2)


def test_an_unknown_key_is_named_with_its_file_and_the_nearest_setting(config: Path) -> None:
    config.write_text('urll = "https://x.example"\n')
    with pytest.raises(SettingsError, match=r"geolookup\.toml: unknown setting urll: did you mean url\?"):
        load()
    config.write_text("zzzzzzz = 1\n")
    with pytest.raises(SettingsError, match=r"geolookup\.toml: unknown setting zzzzzzz: remove it"):
        load()


def test_an_unknown_variable_is_named_with_the_nearest_one(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOLOOKUP_SETTEL_S", "1")
    with pytest.raises(SettingsError, match=r"unknown setting GEOLOOKUP_SETTEL_S: did you mean GEOLOOKUP_SETTLE_S\?"):
        load()


@pytest.mark.parametrize("name", ["GEOLOOKUP_SERVICE_HOST", "GEOLOOKUP_PORT", "GEOLOOKUP_PORT_8080_TCP"])
def test_what_a_cluster_sets_for_a_service_of_that_name_is_no_setting(
    config: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "tcp://10.0.0.1:8080")
    assert load() == Settings()


@pytest.mark.parametrize("text", ["attempts = 0", 'attempts = "many"', "guard_blocks = 1.5", 'auth = "digest"', "= 1"])
def test_a_value_that_cannot_be_is_refused_with_the_file(config: Path, text: str) -> None:
    config.write_text(text + "\n")
    with pytest.raises(SettingsError, match=r"geolookup\.toml"):
        load()


@pytest.mark.parametrize("value", ["-3", "nan", "[1]", "{a = 1}", '"x"', "true", "1.5", "2026-02-01", "07:32:00"])
@pytest.mark.parametrize("name", sorted(setting.name for setting in described()))
def test_a_refused_value_is_told_in_our_own_words(config: Path, name: str, value: str) -> None:
    config.write_text(f"{name} = {value}\n")
    try:
        load()
    except SettingsError as error:
        message = str(error)
        assert name in message
        assert not re.search(r"Expected|Object|`\$|Invalid|unsupported|msgspec|NoneType", message)


def test_a_refused_value_is_told_with_its_place_and_what_is_allowed(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text("attempts = -3\n")
    with pytest.raises(SettingsError, match=r"geolookup\.toml: attempts = -3: must be a whole number from 1 to 100$"):
        load()
    config.write_text("")
    monkeypatch.setenv("GEOLOOKUP_CONNECT_TIMEOUT_S", "0")
    with pytest.raises(SettingsError, match=r"^GEOLOOKUP_CONNECT_TIMEOUT_S = 0: must be a number greater than zero$"):
        load()
    with pytest.raises(SettingsError, match=r"^auth = digest: must be one of basic, bearer, header$"):
        load({"auth": "digest"}, environ={})


def test_every_setting_is_described_and_its_default_is_allowed(config: Path) -> None:
    found = described()
    assert [setting.name for setting in found] == [
        name for name in Settings.__struct_fields__ if name not in ("sources", "sites")
    ]
    for setting in found:
        assert setting.variable == f"GEOLOOKUP_{setting.name.upper()}"
        assert setting.group in GROUPS
        assert setting.text.endswith(".")
        assert setting.allowed
        if default_text(setting):
            config.write_text(f"{setting.name} = {default_text(setting)}\n")
            assert load(environ={}) == Settings()


def test_every_setting_that_code_for_lookups_reads_is_marked_as_bearing_on_lookups() -> None:
    names = {setting.name for setting in described()}
    marked = {setting.name for setting in described() if setting.bears_on_lookups}
    read: set[str] = set()
    root = Path(geolookup.__file__).parent
    rooms = [path for room in ("lookup", "index", "state") for path in (root / room).rglob("*.py")]
    for path in [root / "sync" / "opening.py", *rooms]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "settings":
                # Without a state the bundled one is built, unless there is an upstream: the fast path builds none.
                read |= {node.attr.removesuffix("_s") if node.attr == "max_age_s" else node.attr} & names - {"url"}
    assert read == {"max_age", "stale", "vrf"}
    assert marked == read | {"home"}  # by `state_home`


@pytest.mark.parametrize("name", sorted(setting.name for setting in described() if setting.is_path))
def test_a_path_in_the_file_is_relative_to_the_files_folder(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path.parent)
    config.write_text(f'{name} = "some/where"\n')
    assert getattr(load(), name) == str(config.parent / "some" / "where")
    config.write_text(f'{name} = "~/there"\n')
    assert getattr(load(), name) == os.path.expanduser("~/there")
    config.write_text(f'{name} = "/absolute"\n')
    assert getattr(load(), name) == "/absolute"
    # What a person types stays relative to where they stand.
    monkeypatch.setenv(f"GEOLOOKUP_{name.upper()}", "here")
    assert getattr(load(), name) == "here"


def test_a_relative_home_is_where_the_variable_or_the_file_stands(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    config.write_text('home = "state"\n')
    assert load().state_home() == str(config.parent / "state")
    monkeypatch.setenv("GEOLOOKUP_HOME", "state")
    assert load().state_home() == str(elsewhere / "state")


def test_a_token_in_the_file_is_refused(config: Path) -> None:
    config.write_text(f'token = "{CANARY}"\n')
    with pytest.raises(SettingsError, match="token_file") as caught:
        load()
    assert CANARY not in str(caught.value)


def test_a_secret_file_is_found_beside_the_settings_and_not_in_the_working_directory(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text('token_file = "secrets/token"\nping_url_file = "/etc/ping"\n')
    monkeypatch.chdir(tmp_path.parent)
    found = load()
    assert found.token_file == str(config.parent / "secrets" / "token")
    assert found.ping_url_file == "/etc/ping"


def test_the_working_directory_is_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "geolookup.toml").write_text('url = "https://stranger.example"\n')
    monkeypatch.chdir(tmp_path)
    assert load().url is None


def test_a_named_file_that_is_missing_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(tmp_path / "none.toml"))
    with pytest.raises(SettingsError, match=r"none\.toml"):
        load()


@pytest.mark.parametrize(
    ("url", "normal"),
    [
        ("HTTPS://Geo.Example:443/base/", "https://geo.example/base"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://[::1]:80", "http://[::1]"),
        ("", None),
    ],
)
def test_one_service_has_one_url(url: str, normal: str | None) -> None:
    assert normalise_url(url) == normal


@pytest.mark.parametrize(
    "url", ["geo.example", "ftp://geo.example", "https://u:p@geo.example", "https://geo.example?x=1", "http://a:b"]
)
def test_what_is_no_base_address_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="url"):
        normalise_url(url)


def test_a_secret_comes_from_a_private_file_or_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(f"{CANARY}\n")
    path.chmod(0o600)
    assert read_secret(Settings(token_file=str(path)), environ={}) == CANARY
    assert read_secret(Settings(), environ={"GEOLOOKUP_TOKEN": CANARY}) == CANARY
    assert read_secret(Settings(), environ={}) is None


def test_a_secret_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(CANARY)
    path.chmod(0o640)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    with pytest.raises(SettingsError, match="chmod 600") as caught:
        read_secret(Settings(token_file=str(path)), environ={})
    assert CANARY not in str(caught.value)


def test_the_address_to_ping_is_kept_like_a_secret(config: Path, tmp_path: Path) -> None:
    url = f"https://hc.example/{CANARY}"
    path = tmp_path / "ping"
    path.write_text(f"{url}\n")
    path.chmod(0o600)
    assert read_ping_url(Settings(ping_url_file=str(path)), environ={}) == url
    assert read_ping_url(Settings(), environ={"GEOLOOKUP_PING_URL": url}) == url
    assert read_ping_url(Settings(), environ={}) is None
    assert CANARY not in repr(load(environ={"GEOLOOKUP_PING_URL": url}))
    config.write_text(f'ping_url = "{url}"\n')
    with pytest.raises(SettingsError, match="ping_url_file") as caught:
        load()
    assert CANARY not in str(caught.value)
    path.chmod(0o644)
    with pytest.raises(SettingsError, match="chmod 600"):
        read_ping_url(Settings(ping_url_file=str(path)), environ={})


def test_a_credential_of_the_service_manager_may_show_its_access_list_as_a_groups_mode(tmp_path: Path) -> None:
    manager = tmp_path / "credentials"
    manager.mkdir()
    path = manager / "token"
    path.write_text(CANARY)
    given = Settings(token_file=str(path))
    path.chmod(0o440)
    assert read_secret(given, environ={"CREDENTIALS_DIRECTORY": str(manager)}) == CANARY
    for mode, environ in ((0o440, {}), (0o440, {"CREDENTIALS_DIRECTORY": str(tmp_path)}), (0o444, None), (0o460, None)):
        path.chmod(mode)
        with pytest.raises(SettingsError, match="chmod 600"):
            read_secret(given, environ={"CREDENTIALS_DIRECTORY": str(manager)} if environ is None else environ)


@pytest.mark.parametrize("base", ["/data/x", "", " ", "relative/data", None])
def test_the_directories_are_those_of_platformdirs(monkeypatch: pytest.MonkeyPatch, base: str | None) -> None:
    for variable in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        if base is None:
            monkeypatch.delenv(variable, raising=False)
        else:
            monkeypatch.setenv(variable, base)
    if base != "relative/data":  # platformdirs has changed its mind about these
        assert locations.default_home() == platformdirs.user_data_dir("geolookup", appauthor=False)
        config = platformdirs.user_config_dir("geolookup", appauthor=False)
        assert locations.settings_path() == os.path.join(config, "geolookup.toml")
    assert os.path.isabs(locations.default_home())


@pytest.fixture
def two_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The user's settings, and a state that has its own; and one that has none."""
    monkeypatch.delenv("GEOLOOKUP_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    own, plain = tmp_path / "own", tmp_path / "plain"
    for folder in (own, plain, tmp_path / "config" / "geolookup"):
        folder.mkdir(parents=True)
    (tmp_path / "config" / "geolookup" / "geolookup.toml").write_text('max_age = "9d"\nkeep_generations = 3\n')
    (own / "geolookup.toml").write_text('max_age = "2d"\n[[source]]\nname = "office"\nlocation = "office.csv"\n')
    return own, plain


def test_a_state_may_have_settings_of_its_own_in_place_of_the_users(
    two_states: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, plain = two_states
    monkeypatch.setenv("GEOLOOKUP_HOME", str(plain))
    assert (load().max_age, load().keep_generations, load().sources) == ("9d", 3, ())
    monkeypatch.setenv("GEOLOOKUP_HOME", str(own))
    found, origins = load_with_origins()
    assert (found.max_age, found.keep_generations) == ("2d", 7)
    assert [source.location for source in found.sources] == [str(own / "office.csv")], "relative to its folder"
    assert origins["max_age"].where == str(own / "geolookup.toml")
    assert locations.plain_home() is None, "even one lookup reads it"
    monkeypatch.setenv("GEOLOOKUP_MAX_AGE", "1d")
    assert load().max_age == "1d"
    assert load({"max_age": "5d"}).max_age == "5d"
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(tmp_path / "config" / "geolookup" / "geolookup.toml"))
    assert load().keep_generations == 3


def test_a_state_that_a_program_opens_has_its_own_settings_too(
    two_states: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    own, plain = two_states
    monkeypatch.setenv("GEOLOOKUP_HOME", str(plain))
    for path, max_age in ((own, "2d"), (plain, "9d")):
        settings, home = resolve(path, None)
        assert settings is not None
        assert (home, settings.max_age) == (str(path), max_age)


@pytest.mark.parametrize("how", ["writable", "another's"])
def test_a_settings_file_that_others_could_have_written_does_not_count(
    two_states: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    own, _ = two_states
    monkeypatch.setenv("GEOLOOKUP_HOME", str(own))
    assert load().max_age == "2d"
    if how == "writable":
        (own / "geolookup.toml").chmod(0o620)
    else:
        stranger = os.stat(own).st_uid + 1
        real = os.stat

        def look(path: str, **options: Any) -> Any:
            found = real(path, **options)
            is_meant = str(path) == str(own / "geolookup.toml")
            return SimpleNamespace(st_uid=stranger, st_mode=found.st_mode) if is_meant else found

        monkeypatch.setattr(locations.os, "stat", look)
    assert load().max_age == "9d"
