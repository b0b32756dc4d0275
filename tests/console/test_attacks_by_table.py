"""The tables of attacks that the service is tried with, played against the console: refused, and nothing changed."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from geolookup.console import app
from geolookup.web.options import Limits
from tests.support.data.two_sources import state
from tests.support.services.raw_http import connected, exchange, read_all
from tests.support.users.running_console import RunningConsole, Visitor
from tests.web.test_attacks import (
    BAD_ESCAPES,
    BODIES,
    CREDENTIALS,
    HOSTILE_MEMBERS,
    HOSTS,
    INJECTIONS,
    NUMBERS,
    ORIGINS,
)
from tests.web.test_attacks_by_bytes import FRAMINGS, NO_REQUESTS, SMUGGLED, TARGETS, TRAVERSALS

pytestmark = pytest.mark.usefixtures("unharmed")

MINE = -1000000000000001
#: What a page may answer to what it cannot use: never that the console failed.
REFUSED = (400, 403, 404, 409, 422)
QUERY = (
    *("q", "find", "country", "sort", "page", "state", "told", "block", "city", "show", "old", "new", "why", "count"),
    *("on_conflict", "locid", "latitude"),
)
FIELDS = (
    *("seen", "checked", "once", "old", "block", "locid", "country", "region", "city", "postalcode", "latitude"),
    *("longitude", "dmacode", "areacode", "number", "served", "reason", "digest", "on_conflict"),
)


def paths(method: str) -> list[str]:
    """Every page that takes a method, filled in."""
    filled = []
    for handler in [handler for page in (*app.PAGES, *app._BEHIND) for handler in page.HANDLERS]:
        if method in handler.http_methods:
            path = next(iter(handler.paths)).replace("{locid:int}", str(MINE)).replace("{number:int}", "1")
            names = ("update", "add-block", "replace-block") if "/custom/" in path else ("edit", "drop")
            filled += [path.replace("{what:str}", what) for what in (names if "{what" in path else [""])]
    return [path.replace("{digest:str}", "0") for path in filled]


#: A run reaches for what is outside of the page, so it has tests of its own.
WRITES = [path for path in paths("POST") if path not in ("/outbox/push", "/sources/sync")]


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    """A console that waits two seconds for a body."""
    with RunningConsole(state(tmp_path_factory.mktemp("console")), limits=Limits(request_s=2.0)) as running:
        yield running


def own(console: RunningConsole) -> bytes:
    """The headers of the browser that was let in."""
    name, value = console.cookie
    return f"Host: localhost\r\nCookie: {name}={value}\r\nConnection: close\r\n".encode()


def refused(status: int, text: str) -> None:
    assert status in REFUSED, (status, text)
    assert "The console failed" not in text


def test_the_tables_are_played_on_all_pages() -> None:
    assert len(paths("GET")) >= 15
    assert len(WRITES) >= 8


@pytest.mark.parametrize(("headers", "status"), [row[1:3] for row in FRAMINGS], ids=[row[0] for row in FRAMINGS])
def test_doubtful_framing_is_refused_and_nothing_behind_it_is_a_request(
    console: RunningConsole, headers: bytes, status: int
) -> None:
    with connected(console.url) as connection:
        connection.sendall(b"POST /custom/create HTTP/1.1\r\n" + own(console) + headers + SMUGGLED)
        data = read_all(connection)
    assert data.startswith(f"HTTP/1.1 {status} ".encode()), data
    assert b"connection: close" in data.lower()
    assert data.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("data", NO_REQUESTS.values(), ids=NO_REQUESTS)
def test_what_is_no_request_gets_no_page_of_ours(console: RunningConsole, data: bytes) -> None:
    answer = exchange(console.url, data)
    assert answer.status == 400
    assert b"Open the address" in answer.body


@pytest.mark.parametrize("value", TRAVERSALS)
def test_no_part_of_a_path_leads_out_of_its_place(console: RunningConsole, value: str) -> None:
    for path in ("/{}", "/files/{}/console.css", "/files/x/{}", "/custom/{}", "/outbox/1/{}", "/map/outlines/{}"):
        answer = exchange(console.url, f"GET {path.format(value)} HTTP/1.1\r\n".encode() + own(console) + b"\r\n")
        if answer.status != 200:  # what is left of it may be another page
            refused(answer.status, answer.body.decode())
        assert "set-cookie" not in answer.headers
        assert b"root:" not in answer.body


@pytest.mark.parametrize("target", TARGETS)
def test_no_odd_target_is_taken_for_a_good_one(console: RunningConsole, target: str) -> None:
    answer = exchange(console.url, f"GET {target} HTTP/1.1\r\n".encode() + own(console) + b"\r\n")
    assert answer.status == 404, answer


@pytest.mark.parametrize("headers", [row[1] for row in CREDENTIALS], ids=[row[0] for row in CREDENTIALS])
def test_whoever_has_no_cookie_gets_nothing(console: RunningConsole, headers: list[tuple[str, str]]) -> None:
    with console.stranger() as client:
        encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers]
        for method, path in [*(("GET", path) for path in paths("GET")), *(("POST", path) for path in WRITES)]:
            answer = client.request(method, path, headers=encoded)
            assert answer.status_code == 403, (method, path)
            assert "Berlin" not in answer.text


@pytest.mark.parametrize("host", HOSTS)
def test_a_foreign_name_is_refused(mine: Visitor, host: str) -> None:
    for method, path in [*(("GET", path) for path in paths("GET")), *(("POST", path) for path in WRITES)]:
        assert mine.request(method, path, headers={"Host": host}).status_code == 421, (method, path)


@pytest.mark.parametrize("origin", ORIGINS)
def test_a_foreign_page_writes_nothing(console: RunningConsole, mine: Visitor, origin: str) -> None:
    token = {"form-token": console.console.session.form_token, "step": "save"}
    for path in (*WRITES, "/outbox/push", "/sources/sync"):
        assert mine.post(path, data=token, headers={"Origin": origin}).status_code == 403, path


KINDS = ("application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json", b"\xe4")


@pytest.mark.parametrize("row", BODIES, ids=[row[0] for row in BODIES])
def test_a_body_that_is_no_form_is_refused(mine: Visitor, row: tuple[str, bytes, Any]) -> None:
    for path in WRITES:
        for kind in KINDS:
            answer = mine.post(path, content=row[1], headers={"Content-Type": kind})
            refused(answer.status_code, answer.text)


@pytest.mark.parametrize("value", [row[1] for row in HOSTILE_MEMBERS], ids=[row[0] for row in HOSTILE_MEMBERS])
def test_a_hostile_value_in_any_field_is_never_saved_unseen(
    console: RunningConsole, mine: Visitor, value: object
) -> None:
    text = quote(str(value), errors="surrogatepass")
    token = f"form-token={console.console.session.form_token}"
    for path in WRITES:
        for step in ("save", "check", "rollback"):
            body = "&".join([token, f"step={step}", *(f"{name}={text}" for name in FIELDS)])
            answer = mine.post(path, content=body, headers={"Content-Type": "application/x-www-form-urlencoded"})
            assert answer.status_code in (200, *REFUSED), (path, step, answer.text)
            assert "The console failed" not in answer.text, (path, step)


@pytest.mark.parametrize("value", [*INJECTIONS, *NUMBERS])
def test_no_text_or_number_in_a_parameter_breaks_a_page(mine: Visitor, value: str) -> None:
    names = QUERY[: max(1, 7000 // (len(quote(value)) + 10))]
    for path in paths("GET"):
        answer = mine.get(path, params=dict.fromkeys(names, value))
        assert answer.status_code in (200, 414, *REFUSED), (path, answer.text)
        assert "The console failed" not in answer.text, path
        assert "set-cookie" not in answer.headers
        assert "\r" not in "".join(answer.headers.values())


@pytest.mark.parametrize("value", BAD_ESCAPES)
def test_a_nul_or_bad_utf8_breaks_no_page(mine: Visitor, value: str) -> None:
    for path in paths("GET"):
        answer = mine.get(f"{path}?{'&'.join(f'{name}={value}' for name in QUERY)}")
        assert answer.status_code in (200, *REFUSED), (path, answer.text)
        assert "The console failed" not in answer.text, path


def test_a_field_that_is_given_twice_is_refused_and_hundreds_are_ignored(
    console: RunningConsole, mine: Visitor
) -> None:
    token = {"form-token": console.console.session.form_token, "step": "save"}
    for path in WRITES:
        for name in ("form-token", "step"):
            answer = mine.post(path, data={**token, name: [token[name]] * 2})
            assert answer.status_code in REFUSED, (path, name)
        answer = mine.post(path, data={**token, **{f"a{number}": "1" for number in range(500)}})
        assert answer.status_code in (200, *REFUSED), path
    for path in paths("GET"):
        assert mine.get(path, params={f"a{number}": "1" for number in range(500)}).status_code in (200, *REFUSED)


def test_a_body_that_never_comes_is_given_up(console: RunningConsole) -> None:
    head = b"POST /custom/create HTTP/1.1\r\n" + own(console)
    form = b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\nform-token=x"
    answer = exchange(console.url, head + form)
    assert answer.status == 408
    assert b"did not arrive in time" in answer.body
