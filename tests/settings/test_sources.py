"""The tables ``[[source]]`` of the settings file: read, checked in our own words, and ordered with the service."""

import re
from pathlib import Path

import pytest

from geolookup.model.errors import SettingsError
from geolookup.settings.load import load
from geolookup.settings.secrets import read_source_secret
from geolookup.settings.source import KIND_NAMES, SourceSettings, described_source
from geolookup.sources.detect import KINDS


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "geolookup.toml"
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(path))
    return path


def test_sources_are_read_in_their_order_with_paths_beside_the_file(config: Path, tmp_path: Path) -> None:
    config.write_text(
        '[[source]]\nname = "office"\nlocation = "office.csv"\nfields = {country = "a.b"}\n'
        '[[source]]\nname = "dbip"\npreset = "dbip-city-lite"\nmax_age = "40d"\nkeep_days = 30\n'
        '[[source]]\nname = "far"\nlocation = "https://geo.example/x.mmdb"\ntoken_file = "far.token"\n'
        "redistribute = false\n"
    )
    office, dbip, far = load().sources
    assert office == SourceSettings(name="office", location=str(tmp_path / "office.csv"), fields={"country": "a.b"})
    assert (dbip.preset, dbip.max_age_s, dbip.keep_days, dbip.redistribute) == ("dbip-city-lite", 3456000.0, 30, None)
    assert (far.location, far.token_file) == ("https://geo.example/x.mmdb", str(tmp_path / "far.token"))
    assert far.redistribute is False
    assert load().stack == load().sources


def test_the_url_alone_is_one_source_and_else_stands_first_or_where_the_file_says(config: Path) -> None:
    config.write_text('url = "https://geo.example"\n')
    assert load().stack == (SourceSettings(name="service", kind="service"),)
    config.write_text('url = "https://geo.example"\n[[source]]\nname = "a"\nlocation = "a.csv"\n')
    assert [source.name for source in load().stack] == ["service", "a"]
    config.write_text(config.read_text() + '[[source]]\nname = "hq"\nkind = "service"\n')
    assert [source.name for source in load().stack] == ["a", "hq"]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('name = "a"\nlocatoin = "x"', "source a: unknown setting locatoin: did you mean location?"),
        ('name = "A b"\nlocation = "x"', "source A b: name = A b: use a-z, 0-9 and -, at most 32 of them"),
        ('name = "custom"\nlocation = "x"', "source custom: name = custom: the custom layer has this name"),
        ('location = "x"', "source number 1: it needs a `name`"),
        ('name = "a"', "source a: it needs a `location` or a `preset`"),
        ('name = "a"\nkind = "mmbd"\nlocation = "x"', "source a: kind = mmbd: must be one of service, registry, mmdb"),
        ('name = "a"\nkind = "service"', "source a: a service needs the setting `url`"),
        ('name = "a"\nkind = "service"\nlocation = "x"', "source a: `location` is not for a service"),
        ('name = "a"\nlocation = "http://geo.example/x"', "plain http:// is for loopback addresses only"),
        ('name = "a"\nlocation = "x"\nmax_age = "soon"', "source a: max_age: 'soon' is not a length of time"),
        ('name = "a"\nlocation = "x"\nmax_age = -1', "source a: max_age: -1 must be greater than zero"),
        (
            'name = "a"\nlocation = "x"\nkeep_days = -1',
            "source a: keep_days = -1: must be a whole number, 0 or greater",
        ),
        ('name = "a"\nlocation = "x"\nredistribute = 1', "source a: redistribute = 1: must be true or false"),
        ('name = "a"\nlocation = "x"\nauth = "digest"', "auth = digest: must be one of bearer, basic, header"),
        ('name = "a"\nlocation = "x"\nauth = "header"', "needs the name of the header in `auth_header`"),
        ('name = "a"\nlocation = "x"\ntoken = "s"', "source a: `token` must not stand here"),
        ('name = "a"\nlocation = "x"\nfields = {cuontry = "c"}', "unknown setting cuontry: did you mean country?"),
        ('name = "a"\nlocation = "x"\nfields = "c"', "source a: fields = c: must be a table of texts"),
        ('name = "a"\nlocation = "x"\n[[source]]\nname = "a"\nlocation = "y"', "another source has this name"),
    ],
)
def test_what_a_source_cannot_be_is_told_in_our_own_words(config: Path, table: str, message: str) -> None:
    config.write_text(f"[[source]]\n{table}\n")
    with pytest.raises(SettingsError, match=re.escape(message)) as caught:
        load()
    assert str(caught.value).startswith((str(config), "source"))


def test_something_else_than_tables_is_refused(config: Path) -> None:
    config.write_text('source = "x"\n')
    with pytest.raises(SettingsError, match=re.escape("begin each source with a line [[source]]")):
        load()


def test_two_services_and_the_name_of_the_one_of_the_url_are_refused(config: Path) -> None:
    config.write_text('url = "https://geo.example"\n[[source]]\nname = "service"\nlocation = "x"\n')
    with pytest.raises(SettingsError, match="this is the name of the service of `url`"):
        load()
    both = "".join(f'[[source]]\nname = "{name}"\nkind = "service"\n' for name in "ab")
    config.write_text(f'url = "https://geo.example"\n{both}')
    with pytest.raises(SettingsError, match="source b: there is one service"):
        load()


def test_plain_http_is_for_loopback(config: Path) -> None:
    config.write_text('[[source]]\nname = "a"\nlocation = "http://127.0.0.1:8080/x"\n')
    assert load().sources[0].location == "http://127.0.0.1:8080/x"


def test_each_source_has_its_own_secret_and_no_variable_stands_in(tmp_path: Path) -> None:
    secret = tmp_path / "a.token"
    secret.write_text("canary-1\n")
    secret.chmod(0o600)
    environ = {"GEOLOOKUP_TOKEN": "canary-of-the-service"}
    assert read_source_secret(SourceSettings(name="a", token_file=str(secret)), environ=environ) == "canary-1"
    assert read_source_secret(SourceSettings(name="b"), environ=environ) is None
    secret.chmod(0o644)
    with pytest.raises(SettingsError, match="chmod 600"):
        read_source_secret(SourceSettings(name="a", token_file=str(secret)), environ=environ)


def test_the_kinds_of_the_settings_are_those_that_can_be_read() -> None:
    assert set(KIND_NAMES) == {"service", *(kind.name for kind in KINDS)}


def test_every_key_of_a_source_is_described() -> None:
    assert [setting.name for setting in described_source()] == list(SourceSettings.__struct_fields__)
