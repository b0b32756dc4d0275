"""What hostile pages and clients try on a console that somebody has open: the refusal of each, and nothing changed."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import pytest

from geolookup.console import app
from tests.share.test_attacks import INJECTIONS
from tests.support.data.two_sources import state
from tests.support.services.raw_http import exchange
from tests.support.users.running_console import RunningConsole, Visitor

pytestmark = pytest.mark.usefixtures("unharmed")

PAGES = ("/", "/custom", "/custom/-1000000000000001", "/custom/create", "/outbox", "/outbox?state=all")


@pytest.mark.parametrize("text", INJECTIONS)
def test_no_text_in_an_address_breaks_a_page(mine: Visitor, text: str) -> None:
    for path in ("/", "/custom", "/custom/create", "/outbox"):
        for name in ("q", "find", "country", "sort", "page", "state", "told", "block", "city", "show"):
            answer = mine.get(path, params={name: text})
            assert answer.status_code in (200, 422), (path, name, answer.text)
            assert "{{7*7}}" not in answer.text or text == "{{7*7}}"
            assert "Set-Cookie" not in answer.headers
    for path in ("/custom", "/outbox", "/files/x", "/custom/-1000000000000001", ""):
        assert mine.get(f"{path}/{quote(text, safe='/')}").status_code in (200, 400, 404, 409)


@pytest.mark.parametrize("text", INJECTIONS)
def test_no_text_in_a_form_is_saved_unseen_or_breaks_it(console: RunningConsole, mine: Visitor, text: str) -> None:
    fields = dict.fromkeys(("form-token", "seen", "checked", "step", "once", "old", "block", "locid", "city"), text)
    for path in ("/custom/create", "/custom/-1000000000000001/add-block", "/outbox/1/edit", "/outbox/push"):
        assert mine.post(path, data=fields).status_code == 403
        own = {**fields, "form-token": console.console.session.form_token}
        if path != "/outbox/push":
            assert mine.post(path, data=own).status_code in (200, 404, 409, 422)


@pytest.mark.parametrize(
    ("line", "headers", "status"),
    [
        ("GET / HTTP/1.1", ("Host: evil.example",), 421),
        ("GET / HTTP/1.1", (), 400),
        ("GET / HTTP/1.1", ("Host: localhost", "Host: localhost"), 400),
        (f"GET /?q={'x' * 9000} HTTP/1.1", ("Host: localhost",), 414),
        ("GET / HTTP/1.1", ("Host: localhost", f"X: {'x' * 20000}"), 431),
        ("POST /custom/create HTTP/1.1", ("Host: localhost", "Content-Length: 9", "Transfer-Encoding: chunked"), 400),
        ("GET /../../etc/passwd HTTP/1.1", ("Host: localhost",), 403),
        ("GET / HTTP/1.1", ("Host: localhost", "Upgrade: websocket", "Connection: Upgrade, close"), 403),
        ("TRACE / HTTP/1.1", ("Host: localhost",), 403),
    ],
)
def test_what_is_no_request_of_a_browser_gets_no_page(
    console: RunningConsole, line: str, headers: tuple[str, ...], status: int
) -> None:
    answer = exchange(console.url, "\r\n".join([line, "Connection: close", *headers, "", ""]).encode())
    assert answer.status == status, answer


def test_a_form_that_is_too_large_is_refused(console: RunningConsole, mine: Visitor) -> None:
    fields = {"form-token": console.console.session.form_token, "city": "x" * (1 << 20), "step": "check"}
    assert mine.post("/custom/create", data=fields).status_code == 413


def test_json_is_no_form(console: RunningConsole, mine: Visitor) -> None:
    token = console.console.session.form_token
    assert mine.post("/custom/create", json={"form-token": token, "step": "save"}).status_code in (400, 403)
    plain = mine.post("/custom/create", content=f"form-token={token}", headers={"Content-Type": "text/plain"})
    assert plain.status_code in (400, 403)


class _Evil(BaseHTTPRequestHandler):
    """A page of another origin on the same machine: another port is the same site, so cookies go with its requests."""

    target: ClassVar[str] = ""

    def do_GET(self) -> None:
        text = _PAGE.replace("TARGET", self.target)
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_arguments: Any) -> None:
        pass


_PAGE = """<!doctype html><title>evil</title>
<form id="form" method="post" action="TARGET/custom/-1000000000000001/delete" target="sink">
<input name="step" value="save"><input name="form-token" value="x"></form>
<iframe name="sink"></iframe><iframe id="framed" src="TARGET/?q=10.20.0.1"></iframe>
<script src="TARGET/?q=10.20.0.1"></script><img id="image" src="TARGET/?q=10.20.0.1">
<script>
window.results = {};
const note = (name, work) => work.then(value => { results[name] = value; }, () => { results[name] = "refused"; });
const post = (body, type) => fetch("TARGET/custom/-1000000000000001/delete",
  { method: "POST", body, credentials: "include", mode: type ? "cors" : "no-cors",
    headers: type ? { "Content-Type": type } : {} });
note("read", fetch("TARGET/?q=10.20.0.1", { credentials: "include" }).then(answer => answer.text()));
note("opaque", fetch("TARGET/?q=10.20.0.1", { credentials: "include", mode: "no-cors" }).then(answer => answer.type));
note("simple", post(new URLSearchParams({ step: "save" })).then(answer => answer.type));
note("json", post("{}", "application/json").then(answer => answer.status));
note("socket", new Promise((good, bad) => {
  const socket = new WebSocket("TARGET".replace("http", "ws") + "/");
  socket.onopen = () => good("open"); socket.onerror = bad; }));
document.getElementById("form").submit();
</script>"""


@pytest.fixture
def evil(console: RunningConsole) -> Iterator[str]:
    handler = type("Handler", (_Evil,), {"target": console.url})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_page_of_another_origin_can_neither_read_nor_write_nor_frame(
    console: RunningConsole, browser: Any, evil: str, name: str
) -> None:
    """On 127.0.0.1 it is of the same site, and its requests carry the cookie; on localhost it is of another."""
    watched = console.tab(browser)
    tab = watched.page()
    statuses: dict[str, set[int]] = {}
    tab.on("response", lambda answer: statuses.setdefault(answer.request.method, set()).add(answer.status))
    tab.goto(evil.replace("127.0.0.1", name))
    tab.wait_for_function("Object.keys(window.results).length === 5", timeout=60_000)
    results = tab.evaluate("window.results")
    assert {key: value for key, value in results.items() if key in ("read", "json", "socket")} == {
        "read": "refused",
        "json": "refused",
        "socket": "refused",
    }
    assert statuses["POST"] <= {403}
    assert tab.evaluate("document.getElementById('image').naturalWidth") == 0
    frame = tab.frames[-1]
    assert "Berlin" not in frame.content()
    # A link leads there, but of another site without the cookie, so it shows nothing of what is here.
    tab.goto(evil.replace("127.0.0.1", name))
    with tab.expect_navigation():
        tab.evaluate(f"location.href = '{console.url}/?q=10.20.0.1'")
    seen = "Berlin" in tab.content()
    assert seen == (name == "127.0.0.1")  # read by the person, not by the page
    watched.close()


def test_read_only_has_no_form_that_writes_and_refuses_every_write(tmp_path: Path) -> None:
    home = state(tmp_path)
    with RunningConsole(home, read_only=True) as console, console.client() as client:
        token = {"form-token": console.console.session.form_token}
        for path in PAGES:
            text = client.get(path).text
            posts = text.count('method="post"')
            assert posts == (1 if path == "/" else 0), path  # the file that is counted changes nothing
            assert "only reads" in text
            assert "Correct this" not in text
            assert "/delete" not in text
        before = console.content()
        tried = 0
        writes = [each for page in (*app.PAGES, *app._BEHIND) for each in page.HANDLERS if "POST" in each.http_methods]
        for handler in writes:
            (path,) = handler.paths
            filled = path.replace("{locid:int}", "-1000000000000001").replace("{number:int}", "1")
            for what in ("delete", "drop"):
                answer = client.post(filled.replace("{what:str}", what), data={**token, "step": "save"})
                tried += 1
                if handler.opt.get("reads"):
                    assert answer.status_code == 422
                else:
                    assert answer.status_code == 403, (path, answer.text)
                    assert "--read-only" in answer.text
        assert tried >= 10
        assert console.content() == before
        for path in ("/custom/create", "/custom/-1000000000000001/delete", "/custom/-1000000000000001/update"):
            assert client.get(path).status_code == 403
