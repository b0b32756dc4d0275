"""The secret reaches the service, and nothing else: no error, log, repr or traceback shows it."""

import base64
import logging
import traceback
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import pytest

from geolookup.http.transport import Transport
from geolookup.model.errors import GeoLookupError, SettingsError
from geolookup.settings.table import Settings
from geolookup.upstream.geolocations import GeolocationsClient
from tests.faults.raw_server import RawServer, Script, answer
from tests.upstream.helpers import CANARY, FIELDS, TWO, locids, transport

USER = f"user:{CANARY}"
ENCODED = base64.b64encode(USER.encode()).decode()
AUTHS: list[tuple[dict[str, Any], str, str, str]] = [
    ({"auth": "bearer"}, CANARY, "authorization", f"Bearer {CANARY}"),
    ({"auth": "basic"}, USER, "authorization", f"Basic {ENCODED}"),
    ({"auth": "header", "auth_header": "X-Api-Key"}, CANARY, "x-api-key", CANARY),
]
#: As servers repeat a request: as it came, percent-encoded in either case, and that once more.
PERCENT = "".join(f"%{ord(character):02X}" for character in CANARY)
ECHO = f"{CANARY} {ENCODED} {USER} {PERCENT} {PERCENT.lower()} {PERCENT.replace('%', '%25')} {CANARY[:2]}{PERCENT[6:]}"


@pytest.mark.parametrize(("settings", "secret", "name", "value"), AUTHS, ids=["bearer", "basic", "header"])
def test_each_kind_of_authentication_reaches_the_service(
    settings: dict[str, Any], secret: str, name: str, value: str
) -> None:
    with RawServer(answer(b"[]")) as server:
        locids(server, secret=secret, **settings)
        assert server.requests[0].headers[name] == value


def test_without_a_secret_none_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GEOLOOKUP_TOKEN", raising=False)
    with RawServer(answer(b"[]")) as server:
        locids(server, secret=None)
        assert "authorization" not in server.requests[0].headers


def test_the_secret_is_read_as_the_settings_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOLOOKUP_TOKEN", "from-the-environment")
    with RawServer(answer(b"[]")) as server:
        locids(server, secret=None)
        assert server.requests[0].headers["authorization"] == "Bearer from-the-environment"


@pytest.mark.parametrize(
    "url", ["http://example.org", "http://10.0.0.1", "http://127.0.0.1.example.org", "http://localhost.example.org"]
)
def test_a_token_does_not_travel_unencrypted(url: str) -> None:
    with pytest.raises(SettingsError, match="https") as caught:
        transport(url)
    assert CANARY not in str(caught.value)
    transport(url, secret=None).close()


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1", "http://127.8.9.1", "http://[::1]:1", "http://localhost", "https://example.org"]
)
def test_a_token_travels_encrypted_or_to_this_machine(url: str) -> None:
    transport(url).close()


@pytest.mark.parametrize("secret", ["", " ", "a\nb", "ü", " padded", "padded ", "\x00"])
def test_a_secret_that_cannot_be_sent_is_refused_unseen(secret: str) -> None:
    with pytest.raises(SettingsError) as caught:
        transport("http://127.0.0.1:9", secret=secret + CANARY if "\n" in secret else secret)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("settings", [{"auth": "basic"}, {"auth": "header", "auth_header": "X\r\nY"}])
def test_authentication_that_cannot_be_made_is_refused_unseen(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingsError) as caught:
        transport("http://127.0.0.1:9", **settings)
    assert CANARY not in str(caught.value)


def _list(client: GeolocationsClient) -> object:
    return list(client.list())


def _create(client: GeolocationsClient) -> object:
    return client.create(FIELDS, idempotency_key="k")


echoed = ECHO.encode()
FAULTS: list[bytes | Script] = [
    *[
        answer(
            b'{"type":"%s","title":"%s","detail":"%s","errors":[{"pointer":"%s","detail":"%s"}]}' % ((echoed,) * 5),
            status=f"{status} X",
            headers=[f"Location: http://x/{CANARY}"],
        )
        for status in (200, 204, 302, 400, 401, 403, 409, 418, 422, 429, 500, 503)
    ],
    answer(b"<html>" + echoed),
    answer(b'{"%s":["x"],"%s":5}' % (echoed, echoed)),
    b"HTTP/1.1 200 " + echoed + b"\r\nContent-Length: 99\r\n\r\n[",
    echoed + b"\r\n\r\n",
    b"HTTP/1.1 2xx " + echoed + b"\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n" + echoed + b"\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: " + echoed + b"\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + echoed + b"\r\n",
    answer(TWO, headers=["Content-Encoding: gzip"]),
    answer(TWO)[:-1],
    Script([]),
    Script([], reset=True),
    Script([b"HTTP/1.1 200 OK\r\n"], hold=True),
]


@pytest.mark.parametrize(("settings", "secret", "name", "value"), AUTHS, ids=["bearer", "basic", "header"])
@pytest.mark.parametrize("use", [_list, _create])
def test_no_error_log_repr_or_traceback_shows_the_secret(
    use: Callable[[GeolocationsClient], object],
    settings: dict[str, Any],
    secret: str,
    name: str,
    value: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    shown: list[str] = []
    for fault in FAULTS:
        with RawServer(fault) as server:
            with transport(server, secret=secret, read_timeout_s=0.2, attempts=2, **settings) as connection:
                client = GeolocationsClient(connection)
                with pytest.raises(GeoLookupError) as caught:
                    use(client)
                shown += [repr(each) for each in (connection, client, connection._client, connection._client.auth)]
                shown += [repr(vars(connection._client)["_auth"]), str(connection.settings)]
            assert server.requests[0].headers[name] == value
        shown += [str(caught.value), repr(caught.value), repr(vars(caught.value))]
        shown += traceback.format_exception(caught.value)
    assert len(shown) > len(FAULTS) * 5
    logged = [record.getMessage() + str(record.__dict__) for record in caplog.records]
    assert any("[secret]" in text for text in logged)
    for text in shown + logged:
        assert CANARY not in unquote(unquote(text))
        assert ENCODED not in text or secret != USER  # another kind of authentication knows nothing of this form


@pytest.mark.parametrize("etag", [CANARY, PERCENT, f"a-{CANARY}-b"])
def test_an_etag_that_repeats_the_secret_is_not_kept(etag: str) -> None:
    for sent, kept in ((etag, None), ("harmless", '"harmless"')):
        with (
            RawServer(answer(b"[]", headers=[f'ETag: "{sent}"'])) as server,
            transport(server) as connection,
            GeolocationsClient(connection).list() as listing,
        ):
            assert listing.etag == kept


def test_the_transport_shows_where_it_leads_and_nothing_else() -> None:
    with Transport(Settings(url="https://example.org/a"), secret=CANARY) as connection:
        assert repr(connection) == "<Transport to https://example.org/a>"


def test_a_closed_transport_leaves_the_loggers_as_they_were() -> None:
    before = [list(logging.getLogger(name).filters) for name in ("httpx", "httpcore.http11")]
    transport("http://127.0.0.1:9").close()
    assert [list(logging.getLogger(name).filters) for name in ("httpx", "httpcore.http11")] == before
