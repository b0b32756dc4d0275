"""One editor for several threads or asyncio tasks, or in a forked child: each has its own transactions."""

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from geolookup.model.errors import EditError, StateBusyError
from geolookup.state import sessions
from geolookup.state.editor import Editor
from geolookup.state.edits import session
from geolookup.state.edits.layer import laid
from tests.state.edits.editing import BERLIN, DEFAULTS
from tests.support.data.states import place, publish


@pytest.fixture
def editor(home: str) -> Editor:
    """An editor of a state with two default geolocations and one custom."""
    publish(home, [*DEFAULTS, place(-1, "10.9.0.0/16")])
    return Editor(home)


def cities(editor: Editor) -> set[str]:
    return {laid.place.city for laid in editor.custom()} - {"city -1"}


def while_another_thread_edits(editor: Editor, work: Callable[[], object]) -> None:
    """Call ``work`` while a thread is in a transaction of this editor, which then rolls back."""
    begun, over = threading.Event(), threading.Event()

    def roll_back() -> None:
        with contextlib.suppress(LookupError), editor.transaction():
            editor.create(**{**BERLIN, "city": "rolled back"})
            begun.set()
            over.wait(60)
            raise LookupError

    with ThreadPoolExecutor(1) as threads:
        rolled_back = threads.submit(roll_back)
        try:
            assert begun.wait(60)
            work()
        finally:
            over.set()
            rolled_back.result(60)


def test_questions_of_one_thread_do_not_see_what_another_has_not_committed(editor: Editor) -> None:
    while_another_thread_edits(editor, lambda: cities(editor) == set() or pytest.fail("seen before it was committed"))


def test_an_edit_of_one_thread_is_not_part_of_the_transaction_of_another(
    editor: Editor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "PUBLISH_WAIT_S", 0.2)

    def edit() -> None:
        with pytest.raises(StateBusyError):
            editor.create(**BERLIN)

    while_another_thread_edits(editor, edit)
    editor.create(**BERLIN)
    assert cities(editor) == {"Berlin"}


def test_what_others_edited_is_laid_once_for_all_that_comes_after(
    editor: Editor, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    times: list[int] = []
    monkeypatch.setattr(session, "laid", lambda *given: times.append(1) or laid(*given))
    Editor(home).create(**BERLIN)
    times.clear()
    (berlin,) = [each.place.locid for each in editor.custom() if each.place.city == "Berlin"]
    with editor.rehearsal():
        editor.delete(berlin)
        assert cities(editor) == set()
    assert cities(editor) == {"Berlin"}  # a rehearsal left no trace
    editor.add_block(berlin, "10.8.0.0/24")
    assert editor.get(berlin).place.ipblocks
    assert len(times) == 1
    Editor(home).update(berlin, city="Potsdam")
    times.clear()
    assert cities(editor) == {"Potsdam"}
    editor.delete(berlin)
    assert len(times) == 1


def test_threads_that_share_an_editor_lose_no_edit(editor: Editor) -> None:
    def create(number: int) -> int:
        with editor.transaction():
            locid = editor.create(**{**BERLIN, "city": f"Berlin {number}"})
            editor.add_block(locid, f"10.{number}.0.0/24")
        return locid

    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(create, range(12)))
    assert len(set(made)) == 12
    assert cities(editor) == {f"Berlin {number}" for number in range(12)}


def test_an_edit_of_a_forked_child_is_not_part_of_the_transaction_of_its_parent(
    editor: Editor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "PUBLISH_WAIT_S", 0.2)
    with editor.transaction():
        editor.create(**BERLIN)
        child = os.fork()
        if child == 0:
            try:
                editor.create(**{**BERLIN, "city": "of the child"})
            except StateBusyError:
                os._exit(75)
            finally:
                os._exit(1)  # it returned, though its edit would never be committed
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 75
    assert cities(editor) == {"Berlin"}


async def while_another_task_edits(editor: Editor, work: Callable[[], object], *, rehearses: bool = False) -> None:
    """Call ``work`` in a task, and in a callback, while another one awaits in a transaction, which then rolls back."""
    begun, over = asyncio.Event(), asyncio.Event()

    async def roll_back() -> None:
        with contextlib.suppress(LookupError), editor.rehearsal() if rehearses else editor.transaction():
            editor.create(**{**BERLIN, "city": "rolled back"})
            begun.set()
            await over.wait()
            assert cities(editor) == {"rolled back"}
            raise LookupError

    async def working() -> None:
        work()

    rolled_back = asyncio.create_task(roll_back())
    try:
        await begun.wait()
        await asyncio.create_task(working())
        called: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(lambda: called.set_result(work()))
        await called
    finally:
        over.set()
        await rolled_back


def test_an_edit_of_one_task_is_not_part_of_the_transaction_of_another(editor: Editor) -> None:
    def edit() -> None:
        assert cities(editor) == set()
        with editor.rehearsal():
            editor.create(**{**BERLIN, "city": "rehearsed"})
            assert cities(editor) == {"rehearsed"}
        with pytest.raises(EditError, match="another task is in a transaction of this editor"):
            editor.create(**BERLIN)
        with pytest.raises(EditError, match="another task is in a transaction"), editor.transaction():
            pass

    asyncio.run(while_another_task_edits(editor, edit))
    assert cities(editor) == set()
    editor.create(**BERLIN)
    assert cities(editor) == {"Berlin"}


def test_an_edit_of_one_task_is_not_forgotten_with_the_rehearsal_of_another(editor: Editor) -> None:
    made = iter(["Bonn", "Ulm"])

    def edit() -> None:
        editor.create(**{**BERLIN, "city": next(made)})

    asyncio.run(while_another_task_edits(editor, edit, rehearses=True))
    assert cities(editor) == {"Bonn", "Ulm"}


def test_a_transaction_around_the_whole_loop_has_the_edits_of_its_tasks(editor: Editor) -> None:
    async def edit(city: str) -> None:
        editor.create(**{**BERLIN, "city": city})
        with editor.transaction():
            await asyncio.sleep(0)
            editor.create(**{**BERLIN, "city": city * 2})

    async def edit_all() -> None:
        await asyncio.gather(*map(edit, "abc"))

    with editor.transaction():
        asyncio.run(edit_all())
        assert cities(editor) == {"a", "aa", "b", "bb", "c", "cc"}
    assert len(editor.custom()) == 7
