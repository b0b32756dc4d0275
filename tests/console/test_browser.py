"""The browser that `geolookup console` opens: its arguments, which every user can read, do not have the token."""

import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from geolookup.console.entry import opening_page
from tests.support.data.states import place, publish
from tests.support.users.running_console import RunningConsole

PATIENCE_S = 60

#: Stands for a browser: notes its arguments and what it was led to, goes there, and notes what is left of the file.
BROWSER = """\
#!{python}
import json, os, re, stat, sys, time, urllib.request
from urllib.parse import unquote, urlsplit

path = unquote(urlsplit(sys.argv[1]).path)
with open(path) as file:
    address = re.search('content="0; url=([^"]+)"', file.read())[1]
modes = [stat.S_IMODE(os.stat(each).st_mode) for each in (path, os.path.dirname(path))]
owners = [os.stat(each).st_uid for each in (path, os.path.dirname(path))]
with open("/proc/self/cmdline", "rb") as file:
    cmdline = file.read().decode()
opener = urllib.request.build_opener(urllib.request.ProxyHandler({{}}), urllib.request.HTTPCookieProcessor())
status = opener.open(address).status
for _ in range(600):
    if not os.path.exists(path):
        break
    time.sleep(0.05)
found = {{"argv": sys.argv, "cmdline": cmdline, "address": address, "modes": modes, "owners": owners}}
found |= {{"status": status, "left": os.path.exists(path), "folder": os.path.dirname(path)}}
with open({noted!r} + ".new", "w") as file:
    json.dump(found, file)
os.rename({noted!r} + ".new", {noted!r})
"""


def test_the_token_is_not_among_the_arguments_of_the_browser(tmp_path: Path) -> None:
    home, noted, browser = str(tmp_path / "home"), tmp_path / "noted", tmp_path / "browser"
    person = tmp_path / "person"
    person.mkdir()
    publish(home, [place(1, "8.0.0.0/8", country="US")])
    browser.write_text(BROWSER.format(python=sys.executable, noted=str(noted)))
    browser.chmod(0o755)
    environment = {"GEOLOOKUP_HOME": home, "PATH": os.defpath, "BROWSER": f"{browser} %s", "HOME": str(person)}
    command = [sys.executable, "-m", "geolookup", "console"]
    before = os.umask(0)
    try:
        process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    finally:
        os.umask(before)
    with process:
        try:
            assert process.stderr is not None
            address = process.stderr.readline().split()[-1]
            while not noted.exists():
                assert process.poll() is None
            found = json.loads(noted.read_text())
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()
    token = address.partition("token=")[2]
    assert len(token) > 20
    assert (found["address"], found["status"]) == (address, 200)
    assert token not in json.dumps(found["argv"]) + found["cmdline"]
    assert (found["modes"], set(found["owners"])) == ([0o600, 0o700], {os.getuid()})
    assert not found["left"]
    assert not os.path.exists(found["folder"])
    # Browsers of a snap or flatpak read no hidden folder, and none outside the home.
    assert os.path.dirname(found["folder"]) == str(person)
    assert not os.path.basename(found["folder"]).startswith(".")
    assert list(person.iterdir()) == []


def test_without_a_home_to_write_to_the_page_is_a_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "missing"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with opening_page("http://127.0.0.1:1/?token=x") as page:
        assert page.parent.parent == tmp_path
        assert stat.S_IMODE(page.stat().st_mode) == 0o600


def test_a_real_browser_goes_through_the_file_into_the_console(browser: Any, home: str) -> None:
    publish(home, [place(1, "8.0.0.0/8", country="US")])
    with RunningConsole(home) as running, opening_page(running.address) as page:
        tab = browser.new_context().new_page()
        tab.goto(page.as_uri())
        tab.wait_for_url(f"{running.url}/")
        assert tab.get_by_role("navigation").count() == 1
        assert running.console.session.admitted.is_set()
        other = browser.new_context().new_page()
        other.goto(running.address)
        assert "was used already" in other.content()
    assert not page.parent.exists()
