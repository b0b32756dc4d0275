"""Settings: the file, the environment over it, options over that; and where both directories are."""

import os
import stat
from pathlib import Path

import platformdirs
import pytest

from geolookup.errors import SettingsError
from geolookup.settings import paths as locations
from geolookup.settings import table as settings

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
    found = settings.load({"url": "https://option.example", "home": None})
    assert (found.url, found.settle_s, found.attempts) == ("https://option.example", 3.0, 2)


def test_an_unknown_key_is_named_with_its_file(config: Path) -> None:
    config.write_text('urll = "https://x.example"\n')
    with pytest.raises(SettingsError, match=r"geolookup\.toml.*urll"):
        settings.load()


def test_an_unknown_variable_is_named(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOLOOKUP_SETTEL_S", "1")
    with pytest.raises(SettingsError, match="GEOLOOKUP_SETTEL_S"):
        settings.load()


@pytest.mark.parametrize("name", ["GEOLOOKUP_SERVICE_HOST", "GEOLOOKUP_PORT", "GEOLOOKUP_PORT_8080_TCP"])
def test_what_a_cluster_sets_for_a_service_of_that_name_is_no_setting(
    config: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "tcp://10.0.0.1:8080")
    assert settings.load() == settings.Settings()


@pytest.mark.parametrize("text", ["attempts = 0", 'attempts = "many"', "guard_blocks = 1.5", 'auth = "digest"', "= 1"])
def test_a_value_that_cannot_be_is_refused_with_the_file(config: Path, text: str) -> None:
    config.write_text(text + "\n")
    with pytest.raises(SettingsError, match=r"geolookup\.toml"):
        settings.load()


def test_a_token_in_the_file_is_refused(config: Path) -> None:
    config.write_text(f'token = "{CANARY}"\n')
    with pytest.raises(SettingsError, match="token_file") as caught:
        settings.load()
    assert CANARY not in str(caught.value)


def test_a_secret_file_is_found_beside_the_settings_and_not_in_the_working_directory(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text('token_file = "secrets/token"\nping_url_file = "/etc/ping"\n')
    monkeypatch.chdir(tmp_path.parent)
    found = settings.load()
    assert found.token_file == str(config.parent / "secrets" / "token")
    assert found.ping_url_file == "/etc/ping"


def test_the_working_directory_is_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "geolookup.toml").write_text('url = "https://stranger.example"\n')
    monkeypatch.chdir(tmp_path)
    assert settings.load().url is None


def test_a_named_file_that_is_missing_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(tmp_path / "none.toml"))
    with pytest.raises(SettingsError, match=r"none\.toml"):
        settings.load()


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
    assert settings.normalise_url(url) == normal


@pytest.mark.parametrize(
    "url", ["geo.example", "ftp://geo.example", "https://u:p@geo.example", "https://geo.example?x=1", "http://a:b"]
)
def test_what_is_no_base_address_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="url"):
        settings.normalise_url(url)


def test_a_secret_comes_from_a_private_file_or_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(f"{CANARY}\n")
    path.chmod(0o600)
    assert settings.read_secret(settings.Settings(token_file=str(path)), environ={}) == CANARY
    assert settings.read_secret(settings.Settings(), environ={"GEOLOOKUP_TOKEN": CANARY}) == CANARY
    assert settings.read_secret(settings.Settings(), environ={}) is None


def test_a_secret_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(CANARY)
    path.chmod(0o640)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    with pytest.raises(SettingsError, match="chmod 600") as caught:
        settings.read_secret(settings.Settings(token_file=str(path)), environ={})
    assert CANARY not in str(caught.value)


def test_the_address_to_ping_is_kept_like_a_secret(config: Path, tmp_path: Path) -> None:
    url = f"https://hc.example/{CANARY}"
    path = tmp_path / "ping"
    path.write_text(f"{url}\n")
    path.chmod(0o600)
    assert settings.read_ping_url(settings.Settings(ping_url_file=str(path)), environ={}) == url
    assert settings.read_ping_url(settings.Settings(), environ={"GEOLOOKUP_PING_URL": url}) == url
    assert settings.read_ping_url(settings.Settings(), environ={}) is None
    assert CANARY not in repr(settings.load(environ={"GEOLOOKUP_PING_URL": url}))
    config.write_text(f'ping_url = "{url}"\n')
    with pytest.raises(SettingsError, match="ping_url_file") as caught:
        settings.load()
    assert CANARY not in str(caught.value)
    path.chmod(0o644)
    with pytest.raises(SettingsError, match="chmod 600"):
        settings.read_ping_url(settings.Settings(ping_url_file=str(path)), environ={})


def test_a_credential_of_the_service_manager_may_show_its_access_list_as_a_groups_mode(tmp_path: Path) -> None:
    manager = tmp_path / "credentials"
    manager.mkdir()
    path = manager / "token"
    path.write_text(CANARY)
    given = settings.Settings(token_file=str(path))
    path.chmod(0o440)
    assert settings.read_secret(given, environ={"CREDENTIALS_DIRECTORY": str(manager)}) == CANARY
    for mode, environ in ((0o440, {}), (0o440, {"CREDENTIALS_DIRECTORY": str(tmp_path)}), (0o444, None), (0o460, None)):
        path.chmod(mode)
        with pytest.raises(SettingsError, match="chmod 600"):
            settings.read_secret(given, environ={"CREDENTIALS_DIRECTORY": str(manager)} if environ is None else environ)


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
