"""Tokens: their file, what each may do, and how a change of the file is followed."""

import logging
import os
from pathlib import Path

import pytest

from geolookup.model.errors import SettingsError
from geolookup.web.auth import VARIABLE, Scope, Tokens, append, line_for, new_token
from geolookup.web.options import Options
from tests.support.clocks import Clock
from tests.support.services.running_service import FIELDS, RunningService


def write(path: Path, *lines: str, mode: int = 0o600) -> str:
    path.write_text("".join(f"{line}\n" for line in lines))
    path.chmod(mode)
    return str(path)


def bearer(token: str) -> str:
    return f"Bearer {token}"


# Fixed, since tests that are named by them must have one name in every process.
READER, WRITER = "glk_" + "Rr3-_" * 9, "glk_" + "Ww7-_" * 9
LINES = (line_for("reader", Scope.READ, READER), line_for("writer", Scope.WRITE, WRITER))


def test_tokens_are_long_random_and_kept_as_hashes_only(tmp_path: Path) -> None:
    made = {new_token() for _ in range(50)}
    assert len(made) == 50
    assert all(len(token) >= 43 for token in made)
    assert READER not in LINES[0]
    assert READER.removeprefix("glk_") not in LINES[0]


def test_a_file_says_who_may_do_what(tmp_path: Path) -> None:
    tokens = Tokens.load(write(tmp_path / "t", "# ours", "", *LINES, f"{LINES[0][:0]}# end"), environ={})
    assert tokens is not None
    reader, writer = tokens.find(bearer(READER)), tokens.find(bearer(WRITER))
    assert (reader.name, reader.scope, writer.name, writer.scope) == ("reader", Scope.READ, "writer", Scope.WRITE)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        READER,
        f"Basic {READER}",
        f"Bearer {READER}x",
        f"Bearer {READER[:-1]}",
        f"Bearer {READER.lower()}",
        f"Bearer {READER} {WRITER}",
        f"Bearer {READER},",
        "Bearer " + "a" * 600,
        "Bearer \u00fc",
        f"Bearer {LINES[0].rpartition(':')[2]}",
    ],
)
def test_anything_but_a_known_token_is_nobodys(tmp_path: Path, header: str) -> None:
    tokens = Tokens.load(write(tmp_path / "t", *LINES), environ={})
    assert tokens is not None
    assert tokens.find(header) is None
    assert tokens.find(f"bearer  {READER}") is not None  # the scheme compares without regard to case


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ((), "holds no token"),
        (("# nothing",), "holds no token"),
        (("reader read",), "line 1"),
        ((LINES[0], f"x {READER}"), "line 2"),
        ((LINES[0].replace(" read ", " admin "),), "line 1"),
        ((LINES[0].replace("sha256:", ""),), "line 1"),
        ((LINES[0][:-1],), "line 1"),
        ((LINES[0], LINES[0].replace(" read ", " write ")), "line 2: the same token"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_by_line_and_shows_no_token(
    tmp_path: Path, lines: tuple[str, ...], said: str
) -> None:
    path = write(tmp_path / "t", *lines)
    with pytest.raises(SettingsError) as refused:
        Tokens.load(path, environ={})
    assert said in str(refused.value)
    assert path in str(refused.value)
    assert READER not in str(refused.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o666])
def test_a_file_that_others_can_read_or_change_is_refused_by_name(tmp_path: Path, mode: int) -> None:
    path = write(tmp_path / "t", *LINES, mode=mode)
    with pytest.raises(SettingsError, match=f"{path}.*chmod 600"):
        Tokens.load(path, environ={})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused_by_name(tmp_path: Path) -> None:
    path = write(tmp_path / "t", *LINES)
    os.chown(path, 65534, 65534)
    with pytest.raises(SettingsError, match=f"{path}.*another user"):
        Tokens.load(path, environ={})


def test_what_is_no_file_is_refused_without_waiting(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    for path, said in ((pipe, "is not a file"), (tmp_path, "is not a file"), (tmp_path / "none", "No such file")):
        with pytest.raises(SettingsError, match=said):
            Tokens.load(path, environ={})


def test_the_environment_serves_where_there_is_no_file_and_never_beside_one(tmp_path: Path) -> None:
    environ = {VARIABLE: ";".join(LINES)}
    tokens = Tokens.load(None, environ=environ)
    assert tokens is not None
    assert tokens.find(bearer(WRITER)) is not None
    with pytest.raises(SettingsError, match=VARIABLE):
        Tokens.load(write(tmp_path / "t", *LINES), environ=environ)
    with pytest.raises(SettingsError, match=f"{VARIABLE}, line 1"):
        Tokens.load(None, environ={VARIABLE: READER})
    assert Tokens.load(None, environ={}) is None


def test_a_changed_file_is_followed_within_a_second_and_looked_at_once_in_it(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "t"
    tokens = Tokens.load(write(path, *LINES), environ={}, clock=clock)
    assert tokens is not None
    told: list[bool] = []
    tokens.reloaded = told.append
    write(path, LINES[1])
    clock.now += 0.9
    assert tokens.find(bearer(READER)) is not None
    clock.now += 0.2
    assert tokens.find(bearer(READER)) is None
    assert tokens.find(bearer(WRITER)) is not None
    assert told == [True]


def test_a_file_that_turns_bad_keeps_the_tokens_from_before_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock, path = Clock(), tmp_path / "t"
    tokens = Tokens.load(write(path, *LINES), environ={}, clock=clock)
    assert tokens is not None
    told: list[bool] = []
    tokens.reloaded = told.append
    for change in (
        lambda: write(path, "rubbish"),
        lambda: write(path),
        lambda: path.chmod(0o644),
        path.unlink,
    ):
        change()
        caplog.clear()
        with caplog.at_level(logging.ERROR):
            for _ in range(3):
                clock.now += 2
                assert tokens.find(bearer(READER)) is not None
        assert caplog.text.count("the tokens from before remain valid") == 1
    assert told == [False] * 4
    write(path, LINES[1])
    clock.now += 2
    assert tokens.find(bearer(READER)) is None
    assert told[-1] is True


def test_a_token_line_is_added_to_a_private_file_and_nothing_there_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "t"
    append(str(path), LINES[0])
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text(LINES[0])  # without its line end, as some editors leave it
    append(str(path), LINES[1])
    assert path.read_text() == f"{LINES[0]}\n{LINES[1]}\n"
    path.chmod(0o644)
    with pytest.raises(SettingsError, match="chmod 600"):
        append(str(path), LINES[1])


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return Options(tokens=write(tmp_path / "tokens", *LINES))


def test_reading_needs_a_token_and_writing_one_that_may_write(tmp_path: Path, options: Options) -> None:
    with RunningService(tmp_path / "x.db", options=options) as service, service.client() as client:
        nobody = client.get("/geolocations")
        assert nobody.status_code == 401
        assert nobody.headers["www-authenticate"] == 'Bearer realm="geolookup"'
        stranger = client.get("/geolocations", headers={"Authorization": bearer(new_token())})
        assert stranger.status_code == 401
        assert 'error="invalid_token"' in stranger.headers["www-authenticate"]
        reader, writer = ({"Authorization": bearer(token)} for token in (READER, WRITER))
        assert client.get("/geolocations", headers=reader).json() == []
        refused = client.post("/geolocations", json=FIELDS, headers=reader)
        assert refused.status_code == 403
        assert refused.json()["type"].endswith(":insufficient-scope")
        assert 'scope="write"' in refused.headers["www-authenticate"]
        assert client.post("/geolocations", json=FIELDS, headers=writer).status_code == 201
        assert len(client.get("/geolocations", headers=writer).json()) == 1


def test_two_authorizations_are_nobodys(tmp_path: Path, options: Options) -> None:
    with RunningService(tmp_path / "x.db", options=options) as service, service.client() as client:
        twice = [("Authorization", bearer(WRITER)), ("Authorization", bearer(WRITER))]
        assert client.get("/geolocations", headers=twice).status_code == 401


@pytest.mark.parametrize(
    ("method", "path", "scope"),
    [
        ("GET", "/", Scope.READ),
        ("GET", "/metrics", Scope.READ),
        ("GET", "/schema/openapi.json", Scope.READ),
        ("GET", "/lookup/192.0.2.1", Scope.READ),
        ("POST", "/lookup", Scope.READ),
        ("POST", "/lookup/", Scope.READ),
        ("GET", "/v1/api/hotel/list", Scope.READ),
        ("GET", "/v1/api/hotel/x/details", Scope.READ),
        ("HEAD", "/geolocations", Scope.READ),
        ("OPTIONS", "/geolocations", Scope.READ),
        ("GET", "/no/such/path", Scope.READ),
        ("POST", "/admin/product/ratePlans", Scope.WRITE),
        ("PUT", "/geolocations", Scope.WRITE),
        ("DELETE", "/geolocations", Scope.WRITE),
        ("POST", "/geolocations/ipblocks", Scope.WRITE),
        ("PUT", "/geolocations/ipblocks", Scope.WRITE),
        ("DELETE", "/geolocations/ipblocks", Scope.WRITE),
        ("PATCH", "/lookup", Scope.WRITE),
        ("BREW", "/geolocations", Scope.WRITE),
    ],
)
def test_every_path_needs_the_scope_that_its_method_tells(
    tmp_path: Path, options: Options, method: str, path: str, scope: Scope
) -> None:
    with RunningService(tmp_path / "x.db", options=options) as service, service.client() as client:
        assert client.request(method, path).status_code == 401
        answer = client.request(method, path, headers={"Authorization": bearer(READER)})
        assert (answer.status_code == 403) == (scope is Scope.WRITE)
        answer = client.request(method, path, headers={"Authorization": bearer(WRITER)})
        assert answer.status_code not in (401, 403)


def test_health_is_told_to_anybody(tmp_path: Path, options: Options) -> None:
    with RunningService(tmp_path / "x.db", options=options) as service, service.client() as client:
        for path in ("/healthz", "/readyz"):
            assert client.get(path, headers={"Host": "10.1.2.3"}).status_code in (200, 503)
            assert client.post(path, json={}).status_code == 401


def test_a_removed_token_is_refused_by_a_running_service(tmp_path: Path, options: Options) -> None:
    with RunningService(tmp_path / "x.db", options=options) as service, service.client() as client:
        headers = {"Authorization": bearer(READER)}
        assert client.get("/", headers=headers).status_code == 200
        write(tmp_path / "tokens", LINES[1])
        assert service.server.tokens is not None
        service.server.tokens._looked -= 10  # a second is over
        assert client.get("/", headers=headers).status_code == 401
