"""For each reason to hold an edit: the message names the place, and each command in it, as it stands, ends it."""

import json
import os
import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from geolookup.model.errors import UpstreamRefusedError
from geolookup.state.edits.places.choosing import CHOICES, Choice, Reason
from geolookup.upstream.geolocations import GeolocationsClient
from tests.dials.dials import Dials
from tests.dials.person import BERLIN, ELSEWHERE, Person, settle
from tests.dials.upstream import Place

BLOCK = "10.1.0.0/24"


def conflict(person: Person) -> None:
    """A colleague changes the field that we change."""
    locid = person.has(BLOCK)
    person("custom", "update", locid, "--city", "Potsdam")
    place = person.upstream.places[-1]
    fields = ["Spandau" if value == "Berlin" else value for value in place.fields]
    person.upstream.colleague_changes(-1, replace(place, fields=tuple(fields)), who="colleague")


def gone(person: Person) -> None:
    """A colleague deletes what we change."""
    locid = person.has(BLOCK)
    person("custom", "update", locid, "--city", "Potsdam")
    person.upstream.colleague_changes(-1, None, who="colleague")


def another(person: Person) -> None:
    """A colleague deletes what we change, and its number is given again."""
    person.upstream.dials = Dials(reuse=True)
    gone(person)
    assert person.upstream.colleague_creates(ELSEWHERE, [("10.9.0.0", "10.9.0.255")], who="colleague") == -1


def not_shown(person: Person) -> None:
    """The service says yes, and has it no more afterwards."""
    empty = person.upstream.places
    person.creates(BLOCK)
    person("push")
    person.upstream.fail_over(empty)


def half_lost(person: Person) -> None:
    """A fail-over loses the second half of a removal."""
    locid = person.has(BLOCK, "10.3.0.0/24", "10.4.0.0/24")
    person("custom", "remove-block", locid, BLOCK)
    person("push")
    person.upstream.colleague_changes(-1, Place(person.upstream.places[-1].fields), who="fail-over")


def unclear(person: Person) -> None:
    """The answer to a create is lost, and something appears that is like it, and not it."""
    person.creates(BLOCK)
    person.upstream.faults = ["before"]
    person("push", exits=1)
    near = {**ELSEWHERE, **BERLIN, "city": "Mitte", "latitude": BERLIN["latitude"] + 0.001}
    person.upstream.colleague_creates(near, who="colleague")


def refused(person: Person) -> None:
    """A colleague's geolocation has the block that we add."""
    locid = person.has(BLOCK)
    person.upstream.colleague_creates(ELSEWHERE, [("10.2.0.0", "10.2.0.255")], who="colleague")
    person("custom", "add-block", locid, "10.2.0.0/24")


def doubted(person: Person, city: str = "Berlin") -> None:
    """An older copy of the edits is put back, and a colleague has undone meanwhile what it says."""
    locid = person.has(BLOCK)
    person("custom", "update", locid, "--city", "Potsdam")
    person("push")
    person("outbox", "restore", exits=None)
    place = person.upstream.places[-1]
    fields = [city if value == "Potsdam" else value for value in place.fields]
    person.upstream.colleague_changes(-1, replace(place, fields=tuple(fields)), who="colleague")


def conflict_of_an_older_copy(person: Person) -> None:
    """The same, and what is there now was never seen here."""
    doubted(person, "Spandau")


def removed_since(person: Person) -> None:
    """An older copy of the edits is put back, and has a removal that was done; another block was taken since."""
    locid = person.has(BLOCK, "10.3.0.0/24", "10.4.0.0/24")
    person("custom", "remove-block", locid, BLOCK)
    older = shutil.copy(Path(os.environ["GEOLOOKUP_HOME"], "edits.db"), Path(os.environ["GEOLOOKUP_HOME"], "older.db"))
    person.pushes_for_all_to_see()
    person("custom", "remove-block", locid, "10.3.0.0/24")
    person.pushes_for_all_to_see()
    person("outbox", "restore", older, exits=None)


_MADE: dict[Reason, tuple[Callable[[Person], None], ...]] = {
    "conflict": (conflict, conflict_of_an_older_copy),
    "gone": (gone,),
    "another": (another,),
    "not shown": (not_shown, half_lost),
    "unclear": (unclear,),
    "refused": (refused,),
    "doubted": (doubted, removed_since),
}
_EVERY = [
    pytest.param(make, choice, id=f"{make.__name__}-{choice}")
    for reason, choices in CHOICES.items()
    for make in _MADE[reason]
    for choice in choices
    if (make, choice) not in ((doubted, "same"), (not_shown, "same"))  # nothing is missing that others give back
]


def waiting(person: Person) -> list[dict[str, str]]:
    """The edits that are not over."""
    return [row for row in json.loads(person("outbox", "list", "--json")) if row["state"] not in ("done", "dropped")]


@pytest.mark.parametrize(("make", "choice"), _EVERY)
def test_each_choice_comes_to_rest_within_two_pushes(
    person: Person, make: Callable[[Person], None], choice: Choice
) -> None:
    make(person)
    settle()
    person("push" if waiting(person) else "sync", exits=3)
    held = [row for row in waiting(person) if row["state"] in ("held", "rejected")]
    assert held, person.said
    problem = held[0]["problem"]
    assert re.search(r"Berlin|Potsdam", problem), problem
    commands = re.findall(r"`geolookup (outbox [^`]+)`", problem)
    (choices,) = (CHOICES[reason] for reason, all_of_it in _MADE.items() if make in all_of_it)
    if make is refused:  # it says why: the person sees to that first
        assert "-2 (" in problem
        assert problem.endswith("gives it up, `outbox edit` corrects it")
        assert [command.split()[1] for command in commands] == ["drop"]
    if make is refused and choice == "retry":
        person.upstream.colleague_changes(-2, None, who="colleague")
        settle()
        person("sync", exits=3)
        problem = waiting(person)[0]["problem"]
        commands = re.findall(r"`geolookup (outbox [^`]+)`", problem)
    elif make is refused:
        choices = ("drop",)
    elif make in (doubted, not_shown):
        choices = ("retry", "drop")
    assert len(commands) == len(choices), problem
    person(*shlex.split(commands[choices.index(choice)]))
    for _ in range(2):
        settle()
        person("push", exits=None)
    settle()
    person("sync", exits=None)
    assert waiting(person) == [], problem
    person("push")


@pytest.mark.parametrize("how", ["held", "refused"])
@pytest.mark.parametrize("back", ["undo", "apply"])
def test_a_deletion_that_the_service_has_not_done_is_taken_back_and_makes_no_second_place(
    person: Person, tmp_path: Path, how: str, back: str
) -> None:
    (tmp_path / "sites.toml").write_text(
        '[[site]]\nname = "Depot"\ncountry = "DE"\nregion = ""\ncity = "Berlin"\npostalcode = ""\nlatitude = 52.5\n'
        f'longitude = 13.4\ndmacode = ""\nareacode = ""\nblocks = ["{BLOCK}"]\n'
    )
    person("custom", "apply", tmp_path / "sites.toml")
    person.pushes_for_all_to_see()
    person("custom", "delete", "Depot")
    if how == "held":
        place = person.upstream.places[-1]
        fields = tuple("030" if at == len(place.fields) - 1 else value for at, value in enumerate(place.fields))
        person.upstream.colleague_changes(-1, replace(place, fields=fields), who="colleague")
        person("push", exits=3)
    else:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(GeolocationsClient, "delete", _refuse)
            person("push", exits=3)
    if back == "undo":
        person("custom", "undo", "--run")
    else:
        person("custom", "apply", tmp_path / "sites.toml", "--keep", "mine")
    assert "create" not in person.said
    person.pushes_for_all_to_see()
    assert person.there == {-1: ("Berlin", ["10.1.0.0"])}
    (found,) = json.loads(person("lookup", "10.1.0.1", "--json"))
    assert found["site"] == "Depot"
    assert person.upstream.places[-1].fields[-1] == ("030" if how == "held" else "")


def _refuse(*_: object, **__: object) -> None:
    raise UpstreamRefusedError("no", status=400)


def test_what_a_list_in_the_middle_of_a_push_holds_no_more_goes_on_with_that_push(person: Person) -> None:
    first, second = person.has(BLOCK), person.has("10.2.0.0/24", city="Bonn", latitude=50.73)
    place = person.upstream.places[-1]
    given = Place(place.fields, place.blocks | {("10.3.0.0", "10.3.0.255")})
    person.upstream.colleague_changes(-1, given, who="colleague")
    person("custom", "delete", first)
    person("push", exits=3)
    person.upstream.colleague_changes(-1, place, who="colleague")
    person("custom", "update", second, "--areacode", "9")
    person.upstream.colleague_changes(
        -2, None, who="colleague"
    )  # so that a list is read, after the first was passed by
    settle()
    person("push", exits=3)
    assert "waits for you no more" in person.said
    assert "done: delete geolocation -1" in person.said
    assert person.there == {}


@pytest.mark.parametrize("choice", ["adopt", "drop"])
def test_what_a_colleague_made_like_a_site_that_was_deleted_and_is_wanted_again_is_said_to_be_it(
    person: Person, choice: str
) -> None:
    locid = person.has(BLOCK)
    fields = person.upstream.places[-1].as_fields()
    person("custom", "delete", locid)
    person("push")
    assert person.upstream.colleague_creates(fields, [("10.1.0.0", "10.1.0.255")], who="colleague") == -2
    person("custom", "undo", "--run")
    settle()
    person("push", exits=3)
    deletion, create = (row["id"] for row in waiting(person) if row["state"] == "held")
    assert f"`geolookup outbox adopt {create} -2` says that -2 is it" in person.said
    person("outbox", *(("adopt", create, -2) if choice == "adopt" else ("drop", deletion)))
    person("sync")
    assert (f"(edit {create}) waits for you no more" in person.said) == (choice == "drop")
    if choice == "adopt":
        person.pushes_for_all_to_see()
        assert waiting(person) == []
        assert person.there == {-2: ("Berlin", ["10.1.0.0"])}


def test_what_a_sheet_says_and_a_person_gave_up_is_sent_if_the_person_says_mine(person: Person, tmp_path: Path) -> None:
    sites = tmp_path / "sites.toml"
    sites.write_text(
        '[[site]]\nname = "Depot"\ncountry = "DE"\nregion = ""\ncity = "Berlin"\npostalcode = ""\nlatitude = 52.5\n'
        f'longitude = 13.4\ndmacode = ""\nareacode = "09"\nblocks = ["{BLOCK}"]\n'
    )
    theirs = {**ELSEWHERE, **BERLIN, "latitude": 52.5, "longitude": 13.4, "areacode": "01", "region": ""}
    person.upstream.colleague_creates(theirs, [("10.1.0.0", "10.1.0.255")], who="colleague")
    person("custom", "apply", sites)
    person("push", exits=3)
    person("outbox", "adopt", waiting(person)[0]["id"], -1)
    person("custom", "apply", sites)
    assert "areacode '01' for '09' of Depot (-1), as it stores that, or as you decided" in person.said
    person("custom", "apply", sites, "--keep", "mine")
    person.pushes_for_all_to_see()
    assert person.upstream.places[-1].as_fields()["areacode"] == "09"
    person("custom", "apply", sites)
    assert "nothing to change" in person.said


def test_an_update_of_what_somebody_deleted_is_taken_back(person: Person) -> None:
    gone(person)
    person("push", exits=3)
    person("custom", "undo", "--run")
    settle()
    person("sync", exits=None)
    person("push")
    assert person.there == {}
    assert json.loads(person("outbox", "list", "--json")) == []


@pytest.mark.parametrize(
    "pair",
    [
        [("add-block", "10.4.0.0/24"), ("remove-block", "10.4.0.0/24")],
        [("remove-block", "10.1.0.0/24"), ("add-block", "10.1.0.0/24")],
        [("update", "--areacode", "7"), ("update", "--areacode", "")],
    ],
    ids=["given and taken", "taken and given", "set and set back"],
)
@pytest.mark.parametrize("is_pushed", [False, True])
def test_theirs_brings_back_nothing_that_two_edits_took_back(
    person: Person, pair: list[tuple[str, ...]], is_pushed: bool
) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    for command, *words in pair:
        person("custom", command, locid, *words)
    if is_pushed:
        person("push")
    place = person.upstream.places[-1]
    theirs = Place(tuple({**place.as_fields(), "city": "Spandau"}.values()), place.blocks)
    person.upstream.colleague_changes(-1, theirs, who="colleague")
    person("custom", "update", locid, "--city", "Potsdam")
    person("push", exits=3)
    person("outbox", "drop", max(row["id"] for row in json.loads(person("outbox", "list", "--json"))))
    person.pushes_for_all_to_see()
    assert person.upstream.places[-1] == theirs
    assert json.loads(person("outbox", "list", "--json")) == []


@pytest.mark.parametrize("how", ["drop", "drop, and a sync", "--on-conflict theirs"])
def test_what_an_unanswered_deletion_shall_leave_as_it_is_there_stays(person: Person, how: str) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    person("custom", "delete", locid)
    person.upstream.faults = ["before"]
    person("push", exits=1)
    place = person.upstream.places[-1]
    fewer = Place(place.fields, frozenset({("10.1.0.0", "10.1.0.255")}))
    person.upstream.colleague_changes(-1, fewer, who="colleague")
    settle()
    if how.startswith("drop"):
        person("push", exits=3)
        person("outbox", "drop", json.loads(person("outbox", "list", "--json"))[0]["id"])
        assert json.loads(person("outbox", "list", "--json")) == []
    if how == "drop, and a sync":
        settle()
        person("sync")
        assert person.looks_up("10.1.0.1") == [-1]
    person("push", *(how.split() if how.startswith("--") else []))
    assert person.upstream.places == {-1: fewer}


@pytest.mark.parametrize("when", ["never", "before", "after"])
@pytest.mark.parametrize("choice", ["adopt", "retry", "drop"])
def test_a_create_that_was_refused_after_the_work_can_be_decided_with_an_edit_behind_it(
    person: Person, when: str, choice: str
) -> None:
    locid = person.creates("10.1.0.0/24")
    if when == "before":
        person("custom", "update", locid, "--dmacode", "9")
    person.upstream.faults = ["refused after"]
    person("push", exits=3)
    if when == "after":
        person("custom", "update", locid, "--dmacode", "9")
    settle()
    person("sync", exits=3)
    assert "`geolookup outbox adopt 1 -1` says that -1 is it" in person.said
    person("outbox", choice, 1, *([-1] if choice == "adopt" else []))
    person("push")
    person("push")
    assert "nothing left over" in person.said
    if choice == "drop":
        assert person.there == {-1: ("Berlin", [])}
        return
    made = -2 if choice == "retry" else -1
    assert person.there == {-1: ("Berlin", []), made: ("Berlin", ["10.1.0.0"])}
    assert person.upstream.places[made].as_fields()["dmacode"] == ("" if when == "never" else "9")


@pytest.mark.parametrize("blocks", [[], ["10.1.0.0/24"]])
def test_what_is_to_be_made_anew_and_somebody_has_made_again_as_it_was_is_asked_about(
    person: Person, blocks: list[str]
) -> None:
    locid = person.has(*blocks)
    place = person.upstream.places[-1]
    person("custom", "update", locid, "--postalcode", "77")
    person.upstream.colleague_changes(-1, None, who="colleague")
    settle()
    person("push", exits=3)
    person.upstream.colleague_creates(place.as_fields(), place.blocks, who="colleague")
    number = int(json.loads(person("outbox", "list", "--json"))[0]["id"])
    person("outbox", "retry", number)
    person("push", exits=3)
    assert "the service has something new that may be it" in person.said or "may be Berlin" in person.said
    assert len(person.upstream.places) == 1
    person("outbox", "adopt", number, -2)
    person("push")
    settle()
    person("sync")
    assert person.there == {-2: ("Berlin", [block.partition("/")[0] for block in blocks])}
    assert person.upstream.places[-2].as_fields()["postalcode"] == "77"


@pytest.mark.parametrize("at", [0, 1])
def test_of_updates_that_were_refused_together_the_others_are_sent_as_one_is_dropped(person: Person, at: int) -> None:
    locid = person.has(BLOCK)
    person("custom", "update", locid, "--postalcode", "77")
    person("custom", "update", locid, "--areacode", "9")
    person.upstream.faults = ["refused"]
    person("push", exits=3)
    numbers = [int(each["id"]) for each in json.loads(person("outbox", "list", "--json"))]
    person("outbox", "drop", numbers[at])
    person("push")
    fields = person.upstream.places[-1].as_fields()
    assert (fields["postalcode"], fields["areacode"]) == (("", "9") if at == 0 else ("77", ""))
    assert "nothing left over" in person.said


def test_a_create_that_is_refused_as_if_it_were_there_already_each_time_says_how_it_is_given_up(
    person: Person,
) -> None:
    person.creates("10.1.0.0/24")
    for _ in range(2):  # what is in the way may be what this very request made
        person.upstream.faults = ["missing"]
        person("push", exits=1)
        settle()
    assert "to give it up, `geolookup sync` then, and `geolookup outbox drop 1`" in person.said
    person("sync")
    person("outbox", "drop", 1)
    person("push")
    assert person.there == {}


@pytest.fixture
def put_back(person: Person, tmp_path: Path) -> Callable[[], None]:
    """A place with two blocks that waits; what puts back the state of that moment once all of it has settled."""
    person.creates("10.1.0.0/24", "10.1.1.0/24")
    person("state", "backup", tmp_path / "state.tgz")
    person("push")

    def restore() -> None:
        settle()
        person("state", "restore", "--replace", tmp_path / "state.tgz")

    return restore


@pytest.mark.parametrize("words", ["clear-blocks", "update", "add-block", "remove-block"])
def test_an_edit_that_is_made_after_an_older_copy_was_put_back_is_sent_without_a_question(
    person: Person, put_back: Callable[[], None], words: str
) -> None:
    put_back()
    (locid,) = {each["locid"] for each in json.loads(person("custom", "list", "--json"))}
    more = {"update": ["--areacode", 30], "add-block": ["10.1.2.0/24"], "remove-block": ["10.1.0.0/24"]}
    person("custom", words, locid, *more.get(words, []))
    person("push", exits=None)  # what was created by the newer copy is looked for
    settle()
    person("push")
    person.pushes_for_all_to_see()
    blocks = {"clear-blocks": [], "add-block": ["10.1.0.0", "10.1.1.0", "10.1.2.0"], "remove-block": ["10.1.1.0"]}
    assert person.there == {-1: ("Berlin", blocks.get(words, ["10.1.0.0", "10.1.1.0"]))}


def test_what_an_older_copy_had_is_dropped_and_what_was_removed_since_stays_so(
    person: Person, put_back: Callable[[], None]
) -> None:
    person("custom", "clear-blocks", -1000000000000001)
    person.pushes_for_all_to_see()
    put_back()
    (locid,) = {each["locid"] for each in json.loads(person("custom", "list", "--json"))}
    person("custom", "remove-block", locid, "10.1.0.0/24")
    person("push", exits=None)
    settle()
    person("push", exits=3)
    person("outbox", "drop", 3)
    person.pushes_for_all_to_see()
    assert person.there == {-1: ("Berlin", [])}
