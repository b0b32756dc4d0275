"""Files applied in turn without a push: what is left to send is the way from the service to the last file, no more."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geolookup.sites.site import Site
from geolookup.state.editor import Editor
from tests.sites.test_site_changes import by_name, files, site, wanted
from tests.sites.test_undo import apply, contents, pending, push
from tests.sites.test_undo import shared as shared


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)


def turns(editor: Editor, first: list[Site], others: list[list[Site]]) -> None:
    """Oracle: once the file that was sent is applied again, all is as it says, and nothing is left to send.

    Two sites that were deleted, and came back with each other's description, are each other's geolocation from then on.
    """
    apply(editor, first)
    push(editor)
    before, named = contents(editor), editor.sites()
    if all(apply(editor, file) for file in [*others, first]):
        assert by_name(editor) == wanted(first)
        assert contents(editor) == before
        if editor.sites() == named:
            assert pending(editor) == []


@settings(max_examples=60)
@given(first=files(), others=st.lists(files(), min_size=1, max_size=4))
def test_the_file_that_was_sent_applied_again_after_any_others_leaves_nothing_to_send(
    shared: Editor, first: list[Site], others: list[list[Site]]
) -> None:
    with shared.rehearsal():
        turns(shared, first, others)


def equal(names: str, **cities: str) -> list[Site]:
    return [site(name, city=cities.get(name, "p")) for name in names]


@pytest.mark.parametrize(
    "others",
    [
        # A site gets another name, and then its old name is given to something new, which is not sent either.
        [equal("abd"), equal("c", c="q")],
        # The same, but what was renamed is changed and not deleted.
        [equal("abd"), equal("abdc", d="q", c="r")],
        # It is renamed and changed, and has its old name back at last.
        [equal("abd"), equal("abd", d="q")],
        # A name goes to something new while its geolocation stays, without an edit.
        [equal("dab"), equal("dabc", b="r")],
    ],
)
def test_a_site_whose_old_name_went_to_something_new_is_itself_again(shared: Editor, others: list[list[Site]]) -> None:
    with shared.rehearsal():
        turns(shared, equal("abc"), others)


def test_a_name_that_passed_to_another_geolocation_passes_back(shared: Editor) -> None:
    first = [site("a", city="q"), site("b", "10.0.1.0/24", city="p"), site("c", "::1", city="p")]
    others = [
        [*equal("c"), site("d", city="q"), *equal("b")],
        [site("d", "10.0.0.5", city="r"), site("a", "10.0.1.0/24", city="p")],
    ]
    with shared.rehearsal():
        turns(shared, first, others)


def test_names_of_some_of_what_was_sent_do_not_pass_to_others(shared: Editor) -> None:
    first = [site("b", "10.0.0.5", city="p"), *equal("cda", c="r")]
    with shared.rehearsal():
        turns(shared, first, [equal("a"), equal("cd", d="r")])
