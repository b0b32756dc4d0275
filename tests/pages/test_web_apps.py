"""The recipes of docs/how-to-web-apps.md, each run as it stands there, while an edit changes what they answer."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from geolookup.sync.opening import open_editor
from tests.support.data.states import place, publish
from tests.support.services.plain_http import PLAIN
from tests.support.users.page_commands import ROOT, SHELL, Block, PageShell, blocks_of

BLOCKS = blocks_of(ROOT / "docs" / "how-to-web-apps.md")
BROKER = """\
broker_url = "filesystem://"
broker_transport_options = {"data_folder_in": "queue", "data_folder_out": "queue", "control_folder": "control"}
result_backend = "file://results"
broker_connection_retry_on_startup = True
"""
CLIENT = """\
import json, sys
from with_celery import locate
for _ in sys.stdin:
    print(json.dumps(locate.delay(["127.0.0.1", "localhost", "192.0.2.1"]).get(timeout=30, interval=0.02)), flush=True)
"""
#: Two processes answer: as many in a row of the new place mean that both have it.
IN_A_ROW = 12
_PATIENCE_S = 30


def server(word: str) -> Block:
    """The block that starts this server."""
    (found,) = (block for block in BLOCKS if block.language == SHELL and word in block.text)
    return found


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageShell]:
    """A reader who has saved every file of the page, and given the loopback network a place in Berlin."""
    with PageShell(tmp_path_factory.mktemp("page") / "reader") as shell:
        publish(shell.state, [place(1, "8.0.0.0/8")])
        for block in BLOCKS:
            if block.file_name is not None:
                shell.run(block)
        shell.run(server("custom create"))
        yield shell


@pytest.fixture
def shell(reader: PageShell) -> Iterator[PageShell]:
    """The same; the place is in Berlin again for the next test."""
    yield reader
    move_to(reader, "Berlin")


def move_to(shell: PageShell, city: str) -> None:
    with open_editor(shell.state) as editor:
        editor.update(editor.sites()["This machine"], city=city)


def seen_by_all(ask: Callable[[], Any]) -> None:
    """Ask until the answer is the new place, so many times in a row."""
    until, row = time.monotonic() + _PATIENCE_S, 0
    while row < IN_A_ROW:
        assert time.monotonic() < until, "a process does not follow"
        row = row + 1 if ask() == "Hamburg" else 0
        time.sleep(0.02)


@pytest.mark.parametrize("name", ["with_fastapi", "with_flask", "with_django"])
def test_a_recipe_answers_and_each_of_its_processes_follows_an_edit(shell: PageShell, name: str) -> None:
    shell.run(server(name))
    url = f"http://127.0.0.1:{shell.ports[8000]}/where"

    def ask() -> Any:
        # A connection each: the next one may reach another process.
        return httpx.get(url, trust_env=False, timeout=_PATIENCE_S, verify=PLAIN).raise_for_status().json()["city"]

    assert [ask() for _ in range(IN_A_ROW)] == ["Berlin"] * IN_A_ROW
    move_to(shell, "Hamburg")
    seen_by_all(ask)


def test_the_tasks_of_a_worker_that_forks_answer_and_follow_an_edit(shell: PageShell) -> None:
    (shell.folder / "celeryconfig.py").write_text(BROKER)
    (shell.folder / "client.py").write_text(CLIENT)
    for name in ("queue", "control", "results"):
        (shell.folder / name).mkdir()
    shell.run(server("celery"))
    # Another process, as the application that has the work done is.
    client = subprocess.Popen(
        ["bash", "-c", "exec python client.py"],
        cwd=shell.folder,
        env=shell.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert client.stdin is not None
    assert client.stdout is not None
    stdin, stdout = client.stdin, client.stdout

    def ask() -> Any:
        stdin.write("\n")
        stdin.flush()
        known, malformed, unknown = json.loads(stdout.readline())
        assert (malformed, unknown) == (None, None)
        return known["city"]

    try:
        assert ask() == "Berlin"
        move_to(shell, "Hamburg")
        seen_by_all(ask)
    finally:
        stdin.close()
        client.wait(_PATIENCE_S)
        stdout.close()
