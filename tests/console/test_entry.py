"""Who gets in: the address opens the console once, and nobody without its cookie sees anything."""

from typing import Any

import pytest

from tests.support.services.raw_http import exchange
from tests.support.users.running_console import RunningConsole, Visitor


def test_the_address_opens_it_once(console: RunningConsole, mine: Visitor) -> None:
    assert mine.get("/").status_code == 200
    with console.stranger() as stranger:
        for address in (console.address, "/?token=x", "/?token=x&token=y"):
            answer = stranger.get(address)
            assert answer.status_code == 403
            assert "This address was used already, or is of an earlier console" in answer.text
            assert "run <code>geolookup console</code> again" in answer.text
            assert "set-cookie" not in answer.headers


def test_in_the_browser_that_it_let_in_the_address_leads_to_the_start(console: RunningConsole, mine: Visitor) -> None:
    answer = mine.get(console.address)
    assert (answer.status_code, answer.url.path, answer.url.query) == (200, "/", b"")
    assert [each.status_code for each in answer.history] == [303]
    assert "set-cookie" not in answer.history[0].headers


#: What a browser sends that the guard refuses, or the parser before it: with words that the page has.
REFUSED: tuple[tuple[str, bytes, int, str], ...] = (
    ("another name", b"GET / HTTP/1.1\r\nHost: evil.example\r\n", 421, "it begins with http://127.0.0.1"),
    (
        "another origin",
        b"POST /custom/create HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\nContent-Length: 0\r\n",
        403,
        "The console changes nothing if another page asks for it",
    ),
    (
        "a long address",
        b"GET /?q=" + b"x" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n",
        414,
        "look for something shorter",
    ),
    ("cookies", b"GET / HTTP/1.1\r\nHost: localhost\r\nCookie: " + b"x" * 17000 + b"\r\n", 431, "Delete the cookies"),
    (
        "many cookies",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nCookie: " + b"x" * 90_000 + b"\r\n",
        431,
        "Delete the cookies",
    ),
    ("no request", b"GET / HTTP/9.9\r\n", 400, "in a current browser"),
)


@pytest.mark.parametrize(("head", "status", "words"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_is_refused_before_the_door_is_a_page_and_for_programs_a_problem(
    console: RunningConsole, head: bytes, status: int, words: str
) -> None:
    line, _, rest = head.partition(b"\r\n")
    page = exchange(console.url, line + b"\r\nAccept: text/html,*/*;q=0.8\r\nConnection: close\r\n" + rest + b"\r\n")
    assert (page.status, page.headers["content-type"]) == (status, "text/html; charset=utf-8"), page
    assert words in page.body.decode()
    assert "Berlin" not in page.body.decode()
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-store"
    if status != 400:  # of what is no request nobody knows what is accepted
        line += b"\r\nAccept: Application/JSON\r\nConnection: close\r\n"
        assert exchange(console.url, line + rest + b"\r\n").problem


def test_a_refusal_behind_the_door_says_what_to_do(console: RunningConsole, mine: Visitor) -> None:
    answer = mine.post("/custom/create", data={"form-token": "x", "city": "Typed"})
    assert answer.status_code == 403
    assert "This form does not come from the console" in answer.text
    large = {"form-token": console.console.session.form_token, "city": "x" * (1 << 20), "step": "check"}
    answer = mine.post("/custom/create", data=large)
    assert answer.status_code == 413
    assert "A form may have 1 MiB" in answer.text
    sent: Any = {"data": {"form-token": large["form-token"]}, "files": {"file": ("x.mmdb", b"x" * (33 << 20))}}
    answer = mine.post("/custom/sheet", **sent)
    assert answer.status_code == 413
    assert "Here a file may have 32.0 MiB. Data of addresses are added as a source" in answer.text


def test_the_cookie_is_for_this_console_alone_and_out_of_reach_of_scripts(home: str) -> None:
    with RunningConsole(home) as running, running.stranger() as client:
        answer = client.get(running.address)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith(f"geolookup-{running.url.rpartition(':')[2]}=")
        assert cookie.partition("; ")[2] == "Path=/; HttpOnly; SameSite=Strict"


def test_from_a_link_of_another_site_it_opens_by_a_page_of_its_own(home: str) -> None:
    """The cookie would not go with a redirect, which still counts as the other site's."""
    with RunningConsole(home) as running, running.stranger() as client:
        answer = client.get(running.address, headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"})
        assert answer.status_code == 200
        assert '<meta http-equiv="refresh" content="0; url=/">' in answer.text
        assert "HttpOnly" in answer.headers["set-cookie"]


@pytest.mark.parametrize(
    "path", ["/", "/?q=10.20.0.1", "/nothing", "/healthz", "/readyz", "/metrics", "/files/x/console.css"]
)
@pytest.mark.parametrize("token", [None, "", "x", "é"])
def test_without_the_cookie_there_is_one_page(console: RunningConsole, path: str, token: str | None) -> None:
    with console.stranger() as client:
        name = f"geolookup-{console.url.rpartition(':')[2]}"
        headers = {} if token is None else {"Cookie": f"{name}={token}".encode()}
        answer = client.get(path, headers=headers)
        assert answer.status_code == 403
        assert "does not know this browser" in answer.text
        assert "Berlin" not in answer.text


@pytest.mark.parametrize("path", ["/", "/?q=10.20.0.1", "/nothing", "/?token=x"])
def test_every_answer_forbids_frames_scripts_of_others_and_keeping(mine: Visitor, path: str) -> None:
    headers = mine.get(path).headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil", ""])
def test_another_name_gets_nothing_whatever_it_knows(mine: Visitor, host: str) -> None:
    for path in ("/", "/nothing"):
        assert mine.get(path, headers={"Host": host}).status_code == 421


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_other_sites_cannot_load_a_page_as_a_part_of_theirs(mine: Visitor, site: str) -> None:
    assert mine.get("/", headers={"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}).status_code == 403
    assert mine.get("/", headers={"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}).status_code == 200


def test_a_missing_page_is_a_page(mine: Visitor) -> None:
    answer = mine.get("/nothing")
    assert answer.status_code == 404
    assert "There is no such page" in answer.text
    assert mine.head("/").content == b""


def test_it_logs_nothing_that_was_looked_up(console: RunningConsole) -> None:
    assert console.server.application.paths.logged("/?q=10.20.0.1") == "/"
