"""Statuses, retries, waits and foreign errors: each comes out as the error that says what to do."""

import ssl
import time
from email.utils import formatdate
from typing import Any

import h11
import httpcore
import httpx
import pytest

from geolookup.http import transport as transport_module
from geolookup.http.errors import Waits, retry_after_s
from geolookup.http.transport import Transport
from geolookup.model.errors import (
    EditError,
    GeoLookupError,
    SettingsError,
    UpstreamAnswerError,
    UpstreamAuthError,
    UpstreamError,
    UpstreamRefusedError,
    UpstreamUnavailableError,
)
from geolookup.settings.table import Settings
from tests.faults.raw_server import RawServer, Script, answer
from tests.upstream.helpers import locids, transport

BODIES: list[bytes] = [
    b"",
    b"<html><body>\x1b[31mno\xe2\x80\xae</body>",
    b"\x00\xff\xfe\x80" * 50,
    b'{"type":',
    b"[" * 100_000,
    b'{"type":' + b"[" * 100_000,
    b'{"type":' + b"9" * 10_000 + b"}",
    b"null",
    b'"text"',
    b'{"type": 5, "title": [], "detail": {}, "errors": {"a": 1}}',
    b'{"errors": [1, null, {"pointer": 5}, {"detail": "\\u0000\\u202e"}]}',
    b"x" * 300_000,
]
KINDS: dict[int, type[UpstreamError]] = {
    400: UpstreamRefusedError,
    401: UpstreamAuthError,
    403: UpstreamAuthError,
    404: UpstreamRefusedError,
    408: UpstreamUnavailableError,
    409: UpstreamRefusedError,
    412: UpstreamRefusedError,
    413: UpstreamRefusedError,
    422: UpstreamRefusedError,
    429: UpstreamUnavailableError,
    500: UpstreamUnavailableError,
    503: UpstreamUnavailableError,
    599: UpstreamUnavailableError,
    301: UpstreamAnswerError,
    307: UpstreamAnswerError,
    304: UpstreamAnswerError,
}


def ask(connection: Transport, *, idempotent: bool = True, **more: Any) -> transport_module.Answer:
    return connection.request("GET", "/x", idempotent=idempotent, **more)


def refused(raw: bytes, **changes: Any) -> UpstreamError:
    with RawServer(raw) as server, transport(server, **changes) as connection, pytest.raises(UpstreamError) as caught:
        ask(connection)
    return caught.value


@pytest.mark.parametrize("status", sorted(KINDS))
def test_a_status_means_the_same_whatever_its_body(status: int) -> None:
    whole = [answer(body, status=f"{status} X", framing=framing) for body in BODIES for framing in ("length", "close")]
    broken = [Script([answer(b'{"title":"x"}', status=f"{status} X")[:-3]], reset=reset) for reset in (True, False)]
    with RawServer(*whole, *broken) as server, transport(server) as connection:
        for _ in (*whole, *broken):
            with pytest.raises(KINDS[status]) as caught:
                ask(connection)
            assert type(caught.value) is KINDS[status]
            assert str(status) in str(caught.value)
            assert str(caught.value).isprintable()
            assert len(str(caught.value)) < 1000


def problem(status: int, body: bytes) -> UpstreamError:
    return refused(answer(body, status=f"{status} X", headers=["Content-Type: application/problem+json"]))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("https://example.org/problems/block-taken", "block-taken"),
        ("urn:problem:block-taken", "block-taken"),
        ("block-taken/", "block-taken"),
        ("about:blank", ""),
        ("", ""),
    ],
)
def test_a_refusal_has_the_problems_type_errors_and_detail(kind: str, name: str) -> None:
    body = f'{{"type":"{kind}","title":"Taken","detail":"by -7","errors":[{{"pointer":"/startip","detail":"bad"}}]}}'
    error = problem(409, body.encode())
    assert isinstance(error, UpstreamRefusedError)
    assert (error.status, error.problem_type, error.errors) == (409, name, (("/startip", "bad"),))
    assert "Taken: by -7 (/startip: bad)" in str(error)


@pytest.mark.parametrize("kind", ["default-geolocation-immutable", "https://example.org/quota-reached"])
def test_403_for_another_reason_than_permission_is_a_refusal(kind: str) -> None:
    error = problem(403, f'{{"type":"{kind}"}}'.encode())
    assert isinstance(error, UpstreamRefusedError)


@pytest.mark.parametrize("kind", ["insufficient-scope", "about:blank", "urn:x:forbidden", "unauthorized"])
def test_403_for_want_of_permission_is_an_auth_error(kind: str) -> None:
    assert isinstance(problem(403, f'{{"type":"{kind}"}}'.encode()), UpstreamAuthError)


def test_a_redirect_is_not_followed_and_says_to_set_url() -> None:
    with RawServer(answer(b"[]")) as elsewhere:
        head = [f"Location: {elsewhere.url}/geolocations"]
        error = refused(answer(b"", status="302 Found", headers=head))
        assert "`url`" in str(error)
        assert elsewhere.url in str(error)
        assert elsewhere.connections == 0


def test_not_modified_without_a_condition_is_not_called_a_redirect() -> None:
    said = str(refused(answer(b"", status="304 Not Modified")))
    assert "redirect" not in said
    assert "answered 304 (not modified), though the request had no condition" in said


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504])
def test_an_idempotent_request_is_tried_again_and_ends(status: int) -> None:
    busy = answer(b"", status=f"{status} X")
    with RawServer(busy, busy, answer(b"[]")) as server, transport(server, attempts=3) as connection:
        assert ask(connection).body == b"[]"
        assert server.connections == 3
    with RawServer(busy) as server, transport(server, attempts=3) as connection:
        with pytest.raises(UpstreamUnavailableError):
            ask(connection)
        assert server.connections == 3


@pytest.mark.parametrize(
    "fault", [Script([]), Script([], reset=True), Script([b"HTTP/1.1 200 OK\r\nContent-Le"], reset=True)]
)
def test_a_broken_connection_is_tried_again_where_idempotent(fault: Script) -> None:
    with RawServer(fault, answer(b"[]")) as server, transport(server, attempts=2) as connection:
        assert ask(connection).body == b"[]"


def test_a_list_is_tried_again_until_an_answer_begins() -> None:
    with RawServer(Script([], reset=True), answer(b"", status="503 X"), answer(b"[]")) as server:
        assert locids(server, attempts=3) == []
        assert server.connections == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 500, 501, 302])
def test_other_statuses_are_not_tried_again(status: int) -> None:
    with RawServer(answer(b"", status=f"{status} X")) as server, transport(server, attempts=5) as connection:
        with pytest.raises(UpstreamError):
            ask(connection)
        assert server.connections == 1


@pytest.mark.parametrize(
    "fault",
    [answer(b"", status="503 X", headers=["Retry-After: 0"]), answer(b"", status="429 X"), Script([], reset=True)],
)
def test_a_request_that_is_not_idempotent_is_never_sent_again(fault: Any) -> None:
    with RawServer(fault) as server, transport(server, attempts=5) as connection:
        with pytest.raises(UpstreamUnavailableError) as caught:
            ask(connection, idempotent=False)
        assert caught.value.sent is True
        assert server.connections == 1


def test_a_refused_connection_was_not_sent() -> None:
    server = RawServer(b"")
    server.close()
    with transport(server) as connection, pytest.raises(UpstreamUnavailableError) as caught:
        ask(connection, idempotent=False)
    assert caught.value.sent is False
    assert str(caught.value) == f"GET /x: {server.url} cannot be reached: Connection refused"


def test_the_address_of_an_error_has_no_user_path_or_query() -> None:
    with (
        transport("http://user:pass@127.0.0.1:9/base") as connection,
        pytest.raises(UpstreamUnavailableError) as caught,
    ):
        ask(connection)
    assert str(caught.value) == "GET /x: http://127.0.0.1:9 cannot be reached: Connection refused"


def test_a_failed_tls_handshake_was_not_sent() -> None:
    with RawServer(Script([b"this is not TLS\r\n"], read_request=False)) as server:
        url = server.url.replace("http:", "https:")
        with transport(url) as connection, pytest.raises(UpstreamUnavailableError) as caught:
            ask(connection, idempotent=False)
    assert caught.value.sent is False


def test_a_name_that_does_not_resolve_was_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    def fail(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with transport("https://upstream.invalid") as connection, pytest.raises(UpstreamUnavailableError) as caught:
        ask(connection, idempotent=False)
    assert caught.value.sent is False


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_retry_after_beyond_the_longest_wait_ends_the_request_and_is_told(form: str) -> None:
    value = "120" if form == "seconds" else formatdate(time.time() + 120, usegmt=True)
    with RawServer(answer(b"", status="503 X", headers=[f"Retry-After: {value}"])) as server:
        with (
            transport(server, attempts=5, max_wait_s=60) as connection,
            pytest.raises(UpstreamUnavailableError) as caught,
        ):
            ask(connection)
        assert server.connections == 1
    assert caught.value.status == 503
    assert caught.value.retry_after_s == pytest.approx(120, abs=15)


def test_retry_after_is_waited_for_and_all_waits_together_are_bounded() -> None:
    waits = Waits(0.0, 60)
    busy = UpstreamUnavailableError("x", status=429, retry_after_s=25)
    assert [waits.before_retrying(busy) for _ in range(3)] == [25, 25, False]


def test_waits_are_jittered_over_a_doubling_range() -> None:
    error = UpstreamUnavailableError("x", sent=False)
    longest, shortest = [0.0] * 4, [60.0] * 4
    for _ in range(300):
        waits = Waits(1.0, 60)
        drawn = [float(waits.before_retrying(error)) for _ in range(4)]
        assert all(0 <= wait <= 2**number for number, wait in enumerate(drawn))
        longest = list(map(max, longest, drawn))
        shortest = list(map(min, shortest, drawn))
    assert all(most > 2**number * 0.75 for number, most in enumerate(longest))
    assert all(least < 2**number * 0.25 for number, least in enumerate(shortest))


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0.0),
        ("7", 7.0),
        (" 7 ", 7.0),
        ("1.5", 1.5),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("", None),
        (None, None),
        ("-1", None),
        ("soon", None),
        ("nan", None),
        ("9" * 400, None),
        ("Wed, 99 Oct 2015 07:28:00 GMT", None),
        ("Wed, 21 Oct 99999 07:28:00 GMT", None),
    ],
)
def test_retry_after_is_read_in_both_forms_and_never_negative(value: str | None, seconds: float | None) -> None:
    assert retry_after_s(value) == seconds


def leaves(kind: type[Exception]) -> set[type[Exception]]:
    return {kind}.union(*(leaves(each) for each in kind.__subclasses__()))


FOREIGN: list[Exception] = [
    *[kind("foreign") for kind in sorted(leaves(httpx.TransportError), key=lambda kind: kind.__name__)],
    httpx.DecodingError("foreign"),
    httpx.TooManyRedirects("foreign"),
    httpx.RequestError("foreign"),
    httpx.HTTPStatusError("foreign", request=httpx.Request("GET", "http://x"), response=httpx.Response(500)),
    httpx.InvalidURL("foreign"),
    httpx.CookieConflict("foreign"),
    httpx.StreamConsumed(),
    httpx.StreamClosed(),
    httpx.ResponseNotRead(),
    httpx.StreamError("foreign"),
    *[kind("foreign") for kind in (h11.LocalProtocolError, h11.RemoteProtocolError)],
    *[kind("foreign") for kind in sorted(leaves(httpcore.NetworkError), key=lambda kind: kind.__name__)],
    *[kind("foreign") for kind in sorted(leaves(httpcore.TimeoutException), key=lambda kind: kind.__name__)],
    *[kind("foreign") for kind in sorted(leaves(httpcore.ProtocolError), key=lambda kind: kind.__name__)],
    ssl.SSLError("foreign"),
    OSError(5, "foreign"),
    TimeoutError("foreign"),
    ConnectionResetError("foreign"),
]
NOT_SENT = {"ConnectError", "ConnectTimeout", "PoolTimeout"}


def named(error: Exception) -> str:
    return f"{type(error).__module__}.{type(error).__name__}"


@pytest.mark.parametrize("error", FOREIGN, ids=named)
def test_each_foreign_error_before_an_answer_comes_out_as_ours(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    with transport("http://127.0.0.1:9") as connection:
        monkeypatch.setattr(connection._client, "send", fail)
        with pytest.raises(GeoLookupError) as caught:
            ask(connection, idempotent=False)
    assert caught.value.__cause__ is error
    if isinstance(caught.value, UpstreamUnavailableError):
        certain = isinstance(error, httpx.TransportError) and type(error).__name__ in NOT_SENT
        assert caught.value.sent is not certain


@pytest.mark.parametrize("error", FOREIGN, ids=named)
def test_each_foreign_error_within_an_answer_comes_out_as_ours(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RawServer(answer(b"[]")) as server, transport(server) as connection:
        body = connection.stream("/x")

        def fail(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr(body._response, "iter_raw", fail)
        with pytest.raises(GeoLookupError) as caught:
            list(body)
        body.close()
    assert caught.value.__cause__ is error


def test_an_answer_larger_than_the_bound_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_module, "MAX_ANSWER_BYTES", 1000)
    assert isinstance(refused(answer(b"x" * 1001)), UpstreamAnswerError)
    with RawServer(answer(b"x" * 1000)) as server, transport(server) as connection:
        assert len(ask(connection).body) == 1000


def test_a_request_carries_its_parameters_body_and_headers() -> None:
    with RawServer(answer(b"{}")) as server, transport(f"{server.url}/base") as connection:
        connection.request(
            "PUT",
            "/a?op=1",
            params={"locid": -7, "none": None},
            json={"city": "Zürich"},
            headers={"X-More": "1"},
            idempotent=False,
        )
        [request] = server.requests
    assert (request.method, request.target) == ("PUT", "/base/a?op=1&locid=-7")
    assert request.body == b'{"city":"Z\\u00fcrich"}'
    assert request.headers["x-more"] == "1"
    assert request.headers["user-agent"].startswith("geolookup/")


@pytest.mark.parametrize("path", ["", "x", "@evil.example/", ":80/", "/a b", "/a#b", "/\n", "/ü", ".evil.example/x"])
def test_a_path_that_could_lead_elsewhere_is_refused(path: str) -> None:
    with transport("http://127.0.0.1:9") as connection, pytest.raises(SettingsError, match="path"):
        connection.request("GET", path, idempotent=True)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), b"x"])
def test_what_cannot_be_written_as_json_is_not_sent(value: object) -> None:
    with RawServer(answer(b"{}")) as server, transport(server) as connection:
        with pytest.raises(EditError):
            ask(connection, json={"x": value})
        assert server.connections == 0


@pytest.mark.parametrize("value", ["a\r\nX: y", "\x00", "ü", "\ud800"])
def test_a_header_that_cannot_be_sent_is_our_error(value: str) -> None:
    with RawServer(answer(b"{}")) as server, transport(server) as connection:
        with pytest.raises(GeoLookupError):
            ask(connection, headers={"X": value})
        assert all("y" not in request.headers.values() for request in server.requests)


def test_without_a_url_there_is_no_transport() -> None:
    with pytest.raises(SettingsError, match="url"):
        Transport(Settings(), secret="x")


def test_the_environments_proxies_are_used_only_where_set_and_never_for_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with RawServer(answer(b"[]")) as proxy, RawServer(answer(b"[]")) as server:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        assert locids(server, trust_env=True) == []
        assert proxy.connections == 0
        with transport("http://upstream.invalid", secret=None, trust_env=True) as connection:
            ask(connection)
        assert proxy.requests[0].target == "http://upstream.invalid/x"
        with transport("http://upstream.invalid", secret=None) as connection, pytest.raises(UpstreamUnavailableError):
            ask(connection)
        assert proxy.connections == 1
