"""What a colleague gives to our place, or takes back, while edits of it are open."""

import json

import pytest

from tests.dials.dials import Dials
from tests.dials.person import BERLIN, ELSEWHERE, Person, settle
from tests.dials.upstream import Place


def _changes(person: Person, *blocks: str, **fields: str) -> None:
    """A colleague gives blocks to our place, and changes fields of it."""
    place = person.upstream.places[-1]
    changed = tuple({**place.as_fields(), **fields}.values())
    given = frozenset((f"{block}.0", f"{block}.255") for block in blocks)
    person.upstream.colleague_changes(-1, type(place)(changed, place.blocks | given), who="colleague")


@pytest.mark.parametrize("seen", [False, True])
def test_a_block_of_a_colleague_is_in_lookups_while_the_place_is_held(person: Person, seen: bool) -> None:
    locid = person.has("10.1.0.0/24") if seen else person.creates("10.1.0.0/24")
    person("push")
    person("custom", "update", locid, "--city", "Potsdam")
    person("push")
    _changes(person, "10.2.0", city="Spandau")
    settle()
    person("sync", exits=3)
    assert "does not show them" in person.said
    assert person.looks_up("10.1.0.1", "10.2.0.1") == [-1, -1]
    shown = json.loads(person("lookup", "10.2.0.1", "--format", "ndjson"))
    assert shown["city"] == "Potsdam"  # until a person decides
    place = person.upstream.places[-1]
    blocks = place.blocks - {("10.2.0.0", "10.2.0.255")}
    person.upstream.colleague_changes(-1, type(place)(place.fields, blocks), who="colleague")
    settle()
    person("sync", exits=None)
    assert person.looks_up("10.1.0.1", "10.2.0.1") == [-1, 1]


def test_a_block_of_a_colleague_is_in_lookups_though_what_was_pushed_has_not_settled(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", "add-block", locid, "10.3.0.0/24")
    person("push")
    _changes(person, "10.2.0")
    person("sync")
    assert person.looks_up("10.1.0.1", "10.2.0.1", "10.3.0.1") == [-1, -1, -1]


def test_two_names_that_differ_in_capitals_alone_are_both_stored_by_a_service_of_capitals(person: Person) -> None:
    person.upstream.dials = Dials(capitals=True)
    locid = person.has("10.1.0.0/24")
    for city in ("Potsdam", "potsdam"):
        person("custom", "update", locid, "--city", city)
        person("push")
    settle()
    person("sync")
    assert person.there == {-1: ("POTSDAM", ["10.1.0.0"])}
    assert json.loads(person("outbox", "list", "--json")) == []


def test_an_edit_that_went_along_with_another_one_says_so(person: Person) -> None:
    locid = person.has()
    person("custom", "update", locid, "--city", "Potsdam")
    person("custom", "update", locid, "--region", "Brandenburg")
    person.upstream.colleague_changes(-1, None, who="colleague")
    settle()
    person("push", exits=3)
    first, second = (row["id"] for row in json.loads(person("outbox", "list", "--json")))
    person("outbox", "retry", first)
    person("outbox", "retry", second, exits=2)
    assert f"edit {second} is dropped (it went along with edit {first})" in person.said
    person.pushes_for_all_to_see()
    (place,) = person.upstream.places.values()
    assert (place.as_fields()["city"], place.as_fields()["region"]) == ("Potsdam", "Brandenburg")


def test_a_sync_names_what_is_held_each_time(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", "update", locid, "--city", "Potsdam")
    _changes(person, city="Spandau")
    settle()
    person("push", exits=3)
    for _ in range(2):
        person("sync", exits=3)
        assert "`geolookup outbox retry" in person.said
    (edit,) = (row["id"] for row in json.loads(person("outbox", "list", "--json")))
    person("outbox", "drop", edit)
    person("sync")


def _undone_areacode(person: Person, locid: int) -> None:
    """An area code is acknowledged, and a colleague empties it before a list."""
    person("custom", "update", locid, "--areacode", "1")
    person("push")
    _changes(person, areacode="")
    settle()
    person("sync", exits=3)
    assert "does not show them" in person.said
    (edit,) = (row["id"] for row in json.loads(person("outbox", "list", "--json")))
    person("outbox", "drop", edit)


@pytest.mark.parametrize(
    "edited", [("areacode", "030"), ("city", "BERLIN"), ("latitude", "52.5201"), ("city", "Potsdam")]
)
@pytest.mark.parametrize("along", [(), ("--postalcode", "10115")], ids=["alone", "with another field"])
def test_what_is_as_it_was_before_the_edit_is_no_form_of_it(
    person: Person, edited: tuple[str, str], along: tuple[str, ...]
) -> None:
    locid = person.has("10.1.0.0/24", latitude=52.52)
    was = person.upstream.places[-1].as_fields()[edited[0]]
    person("custom", "update", locid, f"--{edited[0]}", edited[1], *along)
    person("push")
    _changes(person, **{edited[0]: was})
    settle()
    person("sync", exits=3)
    assert "does not show them" in person.said
    shown = json.loads(person("lookup", "10.1.0.1", "--format", "ndjson"))[edited[0]]
    assert str(shown) == edited[1]  # until a person decides
    (edit,) = (row["id"] for row in json.loads(person("outbox", "list", "--json")))
    person("outbox", "retry", edit)
    person.pushes_for_all_to_see()
    assert str(person.upstream.places[-1].as_fields()[edited[0]]) == edited[1]


@pytest.mark.parametrize("which", [0, 1], ids=["the same place", "another place"])
def test_what_somebody_undid_does_not_make_a_lost_update_count_as_done(person: Person, which: int) -> None:
    locids = [person.has("10.1.0.0/24"), person.has("10.2.0.0/24", city="Bonn", latitude=50.73)]
    _undone_areacode(person, locids[0])
    person("custom", "update", locids[which], "--areacode", "2")
    person.upstream.faults = ["before"]
    person("push", exits=1)
    settle()
    person("push")
    assert person.upstream.places[-1 - which].as_fields()["areacode"] == "2"


def test_what_somebody_undid_does_not_make_a_colleagues_place_ours(person: Person) -> None:
    _undone_areacode(person, person.has("10.1.0.0/24"))
    person.creates("10.2.0.0/24", city="Kiel", latitude=54.3, areacode="0431")
    person.upstream.faults = ["before"]
    person("push", exits=1)
    theirs = {**person.upstream.places[-1].as_fields(), "city": "Kiel", "latitude": 54.3}
    person.upstream.colleague_creates(theirs, who="colleague")
    settle()
    person("push", exits=None)
    assert person.there[-2] == ("Kiel", [])


def test_a_name_that_is_another_since_a_list_showed_ours_is_a_colleagues(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    locid = person.creates("10.1.0.0/24")
    person("push")
    with monkeypatch.context() as soon:
        soon.setenv("GEOLOOKUP_SETTLE_S", "600")
        person("sync")  # what was sent has not settled then
    _changes(person, "10.1.0", city="Potsdam")
    settle()
    person("custom", "delete", locid)
    person("push", exits=3)
    assert "Potsdam" in person.said
    assert "the service stores city" not in person.said
    assert person.there == {-1: ("Potsdam", ["10.1.0.0"])}


@pytest.mark.parametrize("choice", ["mine", "theirs"])
def test_a_choice_for_all_conflicts_is_one_for_those_that_are_held_already(person: Person, choice: str) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", "update", locid, "--areacode", "1")
    _changes(person, areacode="2")
    person("push", exits=3)
    person("custom", "update", locid, "--postalcode", "10115")
    person("push", "--on-conflict", choice)
    fields = person.upstream.places[-1].as_fields()
    assert (fields["areacode"], fields["postalcode"]) == ("1" if choice == "mine" else "2", "10115")
    assert json.loads(person("outbox", "list", "--json")) == []


def test_a_twin_of_what_a_person_kept_against_a_colleague_is_told_at_each_sync(person: Person) -> None:
    locid = person.creates()
    person("push")
    person("custom", "update", locid, "--region", "Mitte")
    _changes(person, region="Spandau")
    person("push", "--on-conflict", "mine")  # the edit that created it updates it since
    assert person.upstream.places[-1].as_fields()["region"] == "Mitte"
    settle()
    person.upstream.colleague_creates({**ELSEWHERE, **BERLIN}, [], who="colleague")
    for _ in range(2):
        person("sync", exits=3)
        assert "geolocation -2 (Berlin, DE) is the same as geolocation -1 from here" in person.said
    person("outbox", "keep", -2)
    person("sync")


@pytest.mark.parametrize("edit", ["add-block", "replace-block"])
@pytest.mark.parametrize("is_sent", [False, True], ids=["alone", "beside what was sent"])
def test_a_block_that_was_told_to_be_there_already_is_taken_from_there(
    person: Person, edit: str, is_sent: bool
) -> None:
    """Two administrators give the same block to a site, and one of them takes it back before the next list."""
    locid = person.has("10.1.0.0/24", "10.3.0.0/24")
    place = person.upstream.places[-1]
    given = place.blocks | {("10.2.0.0", "10.2.0.255")}
    given -= {("10.1.0.0", "10.1.0.255")} if edit == "replace-block" else set()
    person.upstream.colleague_changes(-1, Place(place.fields, given), who="colleague")
    person("custom", edit, locid, *(["10.1.0.0/24"] if edit == "replace-block" else []), "10.2.0.0/24")
    if is_sent:
        person("custom", "update", locid, "--areacode", "030")
    person("push")
    person("custom", "remove-block", locid, "10.2.0.0/24")
    person("push")
    assert "done: remove 10.2.0.0-10.2.0.255 from -1: the service has it" in person.said
    left = ["10.3.0.0"] if edit == "replace-block" else ["10.1.0.0", "10.3.0.0"]
    assert person.there == {-1: ("Berlin", left)}
    settle()
    person("sync")
    assert person.looks_up("10.2.0.1") == [1]


@pytest.mark.parametrize("when", ["before the edit", "after it"])
def test_a_sync_warns_of_a_block_of_ours_that_another_geolocation_has_too(person: Person, when: str) -> None:
    person.upstream.dials = Dials(shares=True)
    person.has("10.1.0.0/24")
    if when == "before the edit":
        person.upstream.colleague_creates(ELSEWHERE, [("10.2.0.0", "10.2.0.255")], who="colleague")
    person("custom", "add-block", -1, "10.2.0.0/24")
    person("push")
    if when == "after it":
        person.upstream.colleague_creates(ELSEWHERE, [("10.2.0.0", "10.2.0.255")], who="colleague")
    settle()
    person("sync")
    assert "10.2.0.0-10.2.0.255: Berlin (-1) and Sydney (-2)" in person.said
    person.upstream.colleague_changes(-2, None, who="colleague")
    person("sync")
    assert "have the same block" not in person.said


@pytest.mark.parametrize("block", ["10.2.0", "10.3.0"])
def test_a_sync_tells_that_a_colleague_has_given_a_block_that_waits_to_be_sent(person: Person, block: str) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", "add-block", locid, "10.2.0.0/24")
    person.upstream.colleague_creates(ELSEWHERE, [(f"{block}.0", f"{block}.255")], who="colleague")
    person("sync", exits=3 if block == "10.2.0" else 0)
    told = (
        "10.2.0.0-10.2.0.255 waits to be sent to Berlin (-1), and geolocation -2 of the service has it now (Sydney, AU"
    )
    assert (told in person.said) == (block == "10.2.0")
    if block == "10.2.0":
        person("outbox", "drop", 3)
    person.pushes_for_all_to_see()
    assert person.looks_up("10.2.0.1") == [-2 if block == "10.2.0" else -1]


def test_an_undo_of_a_create_says_that_it_takes_a_colleagues_change_along(person: Person) -> None:
    locid = person.creates("10.1.0.0/24", city="Bonn", latitude=50.123456789)
    person("custom", "update", locid, "--city", "Ulm")
    person("outbox", "drop", 3)
    person.pushes_for_all_to_see()
    person("custom", "undo", "--last", 3)
    assert "delete geolocation" in person.said
    assert "goes with" not in person.said, "nobody has changed it"
    _changes(person, "10.9.0")
    person("sync")
    person("custom", "undo", "--last", 3)
    assert "geolocation -1 goes with what was changed of it since, by somebody at the service" in person.said


@pytest.mark.parametrize("choice", ["retry", "drop"])
def test_a_field_that_was_emptied_before_the_create_and_a_colleague_filled_in_is_asked_about(
    person: Person, choice: str
) -> None:
    """A create with an empty field says nothing of it: so nothing was promised, and nothing is left to be sent."""
    person("custom", "update", person.creates("10.1.0.0/24"), "--city", "")
    person("push")
    _changes(person, city="Ulm")
    settle()
    person("sync", exits=3)
    assert "the service has changed geolocation (-1) since the edit was made" in person.said
    person("outbox", choice, 3)
    person("push")
    settle()
    person("sync")
    city = {"retry": "", "drop": "Ulm"}[choice]
    assert person.there == {-1: (city, ["10.1.0.0"])}
    shown = json.loads(person("lookup", "10.1.0.1", "--format", "ndjson"))
    assert shown["city"] == city


def test_a_dropped_edit_takes_nothing_of_a_colleagues_out_of_lookups(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", "update", locid, "--dmacode", "9")
    person("push")
    person("custom", "update", locid, "--areacode", "1")
    _changes(person, "10.9.0")
    person("sync", exits=None)
    assert person.looks_up("10.1.0.1", "10.9.0.1") == [-1, -1]
    person("outbox", "drop", 4)
    assert person.looks_up("10.1.0.1", "10.9.0.1") == [-1, -1]


@pytest.mark.parametrize("has_moved", [False, True], ids=["the block", "the block and the town"])
def test_what_another_machine_has_done_already_is_done(person: Person, has_moved: bool) -> None:
    locid = person.has("10.1.0.0/24")
    place = person.upstream.places[-1]
    person("custom", "replace-block", locid, "10.1.0.0/24", "10.2.0.0/24")
    fields = place.as_fields()
    if has_moved:
        fields |= {"city": "Bonn", "latitude": 50.73, "longitude": 7.1}
        person("custom", "update", locid, "--city", "Bonn", "--latitude", "50.73", "--longitude", "7.1")
    there = type(place)(tuple(fields.values()), frozenset({("10.2.0.0", "10.2.0.255")}))
    person.upstream.colleague_changes(-1, there, who="colleague")
    settle()
    person("push")
    assert "the service has it" in person.said
    assert person.upstream.places == {-1: there}
    assert person.looks_up("10.1.0.1", "10.2.0.1") == [1, -1]


def test_a_field_that_a_colleague_changes_right_after_our_push_is_not_overwritten_by_the_next(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    locid = person.has("10.1.0.0/24", areacode="01")
    monkeypatch.setenv("GEOLOOKUP_SETTLE_S", "600")
    person("custom", "update", locid, "--areacode", "089")
    person("push")
    _changes(person, areacode="556")
    person("custom", "update", locid, "--dmacode", "500")
    person("push", exits=1)
    assert "the service may not show yet what it has" in person.said
    assert person.upstream.places[-1].as_fields()["areacode"] == "556"
    monkeypatch.setenv("GEOLOOKUP_SETTLE_S", "0.3")
    settle()
    person("sync", exits=3)
    assert "areacode 556 instead of 089" in person.said
    person("outbox", "drop", 3)
    person("push")
    person.pushes_for_all_to_see()
    fields = person.upstream.places[-1].as_fields()
    assert (fields["areacode"], fields["dmacode"]) == ("556", "500")


def test_one_of_two_equal_geolocations_is_deleted_without_a_question(person: Person) -> None:
    for _ in range(2):
        person.upstream.colleague_creates(ELSEWHERE, who="colleague")
    person("sync")
    person("custom", "delete", -1)
    person.pushes_for_all_to_see()
    assert [*person.there] == [-2]
    assert json.loads(person("outbox", "list", "--json")) == []


X, Y, Z = "10.5.0.0/24", "10.6.0.0/24", "10.7.0.0/24"


def _gets(person: Person, *blocks: str, lacks: str = "", **fields: str) -> None:
    """A colleague gives our place blocks, takes one, and writes fields."""
    place = person.upstream.places[-1]
    ranges = {(block.removesuffix("/24"), f"{block.removesuffix('0/24')}255") for block in blocks}
    left = {each for each in place.blocks if not lacks or each[0] != lacks.removesuffix("/24")}
    values = tuple((place.as_fields() | fields).values())
    person.upstream.colleague_changes(-1, Place(values, frozenset(left | ranges)), who="colleague")


@pytest.mark.parametrize(
    ("edits", "theirs", "is_held"),
    [
        ([("update", "--postalcode", "1"), ("update", "--postalcode", "2")], {"postalcode": "1"}, True),
        ([("update", "--postalcode", "1"), ("update", "--postalcode", "")], {"postalcode": "1"}, True),
        ([("remove-block", X), ("add-block", X)], {"lacks": X}, True),
        ([("replace-block", X, Y), ("replace-block", Y, X)], {"lacks": X, "gets": Y}, True),
        ([("add-block", Z), ("replace-block", Z, Y)], {"gets": Z}, False),
        ([("add-block", Z), ("clear-blocks",)], {"gets": Z}, True),
        ([("add-block", Z), ("delete",)], {"gets": Z}, True),
        ([("update", "--postalcode", "1"), ("delete",)], {"postalcode": "1"}, True),
    ],
    ids=[
        "mended",
        "set back",
        "given back",
        "exchanged back",
        "exchanged",
        "cleared",
        "deleted",
        "changed and deleted",
    ],
)
def test_what_only_an_edit_that_was_never_sent_had_is_a_colleagues(
    person: Person, edits: list[tuple[str, ...]], theirs: dict[str, str], is_held: bool
) -> None:
    locid = person.has("10.1.0.0/24", X)
    for what, *words in edits:
        person("custom", what, locid, *words)
    gets = [theirs.pop("gets")] if "gets" in theirs else []
    _gets(person, *gets, **theirs)
    before = person.upstream.places[-1]
    person("push", exits=3 if is_held else 0)
    now = person.upstream.places[-1]
    assert now.fields == before.fields
    assert before.blocks <= now.blocks
    assert (now != before) is not is_held


@pytest.mark.parametrize("when", ["at once", "before another edit"])
def test_what_a_push_never_sent_is_not_taken_from_who_gives_it_later(person: Person, when: str) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", "add-block", locid, Z)
    person("custom", "replace-block", locid, Z, Y)
    person("push")
    _gets(person, Z)
    settle()
    if when == "before another edit":
        person("custom", "update", locid, "--dmacode", "5")
    person.pushes_for_all_to_see()
    assert person.there == {-1: ("Berlin", ["10.1.0.0", "10.6.0.0", "10.7.0.0"])}


@pytest.mark.parametrize("choice", ["drop", "retry"])
@pytest.mark.parametrize(
    ("edit", "theirs"),
    [(("remove-block", X), {"gets": X}), (("update", "--postalcode", "1"), {"postalcode": ""})],
    ids=["a block", "a field"],
)
def test_a_deletion_takes_nothing_along_that_a_colleague_gave_back_after_our_push(
    person: Person, edit: tuple[str, ...], theirs: dict[str, str], choice: str
) -> None:
    locid = person.has("10.1.0.0/24", X)
    person("custom", edit[0], locid, *edit[1:])
    person("push")
    gets = [theirs["gets"]] if "gets" in theirs else []
    _gets(person, *gets, **{name: value for name, value in theirs.items() if name != "gets"})
    settle()
    person("custom", "delete", locid)
    person("push", exits=3)
    assert [*person.there] == [-1]
    held = [row["id"] for row in json.loads(person("outbox", "list", "--json")) if row["state"] == "held"]
    person("outbox", choice, held[-1])
    person.pushes_for_all_to_see()
    assert [*person.there] == ([-1] if choice == "drop" else [])
    assert json.loads(person("outbox", "list", "--json")) == []


def test_a_block_that_our_push_took_and_a_colleague_gave_back_is_not_taken_by_edits_that_cancel(
    person: Person,
) -> None:
    locid = person.has("10.1.0.0/24", X)
    person("custom", "remove-block", locid, X)
    person("push")
    person("custom", "add-block", locid, X)
    person("custom", "remove-block", locid, X)
    _gets(person, X)
    settle()  # until then a replica may show it that lags behind
    person("push", exits=3)
    assert person.there == {-1: ("Berlin", ["10.1.0.0", "10.5.0.0"])}


def test_a_block_that_a_push_saw_to_be_gone_is_given_back_without_a_question(person: Person) -> None:
    locid = person.has(X)
    person("custom", "update", locid, "--postalcode", "1")
    person("push")  # so that the next list proves nothing yet
    person("custom", "replace-block", locid, X, Y)
    _gets(person, lacks=X)
    person("push")
    person("custom", "replace-block", locid, Y, X)
    person("push")
    assert person.there == {-1: ("Berlin", ["10.5.0.0"])}


@pytest.mark.parametrize("wanted", ["1", "2"])
def test_the_first_of_two_edits_of_a_field_is_no_conflict_of_its_own(person: Person, wanted: str) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", "update", locid, "--postalcode", "1")
    person("custom", "update", locid, "--postalcode", "2")
    _gets(person, postalcode=wanted)
    if wanted == "2":  # just what we want
        person("push")
        return
    person("push", exits=3)
    assert "done:" not in person.said
    person("outbox", "drop", json.loads(person("outbox", "list", "--json"))[-1]["id"])
    person.pushes_for_all_to_see()
    assert person.upstream.places[-1].as_fields()["postalcode"] == "1"


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        (("add-block", Z), ("replace-block", Z, X), [X, Y, Z]),
        (("replace-block", Y, Z), ("replace-block", Z, X), [X, Z]),
        (("add-block", Z), ("clear-blocks",), [Y, Z]),  # which is asked: his would be gone for a moment
    ],
    ids=["added", "replaced", "cleared"],
)
def test_a_block_that_cancelling_edits_gave_stays_a_colleagues_also_as_a_whole_list_is_read(
    person: Person, first: tuple[str, ...], second: tuple[str, ...], kept: list[str]
) -> None:
    locid = person.has(X, Y)
    other = person.has("10.9.0.0/24", city="Ulm", latitude=48.4)
    person("custom", "remove-block", locid, X)
    person("push")
    settle()
    person("custom", first[0], locid, *first[1:])
    person("custom", second[0], locid, *second[1:])
    person("custom", "update", other, "--areacode", "1")
    _gets(person, Z)
    person.upstream.colleague_changes(-2, None, who="colleague")  # so that the push reads a whole list
    for command in ("push", "sync", "push"):
        person(command, exits=3)
        settle()
    assert person.there[-1] == ("Berlin", [block.removesuffix("/24") for block in kept])


def test_a_block_that_was_taken_and_given_back_before_a_push_stays_though_it_is_there_already(person: Person) -> None:
    locid = person.has(X, Y)
    person("custom", "replace-block", locid, X, Z)
    person("push")
    settle()
    person("custom", "replace-block", locid, Y, X)
    person("custom", "add-block", locid, Y)
    _gets(person, X)
    person("push")
    person.pushes_for_all_to_see()
    assert person.there == {-1: ("Berlin", ["10.5.0.0", "10.6.0.0", "10.7.0.0"])}


def test_one_decision_is_enough_for_a_block_that_was_exchanged_twice(person: Person) -> None:
    locid = person.has(X)
    person("custom", "replace-block", locid, X, Y)
    person("push")
    person("custom", "replace-block", locid, Y, X)
    person("custom", "add-block", locid, Y)
    settle()
    _gets(person, lacks=Y)
    person("push", exits=3)
    person("outbox", "retry", json.loads(person("outbox", "list", "--json"))[-1]["id"])
    person.pushes_for_all_to_see()
    assert person.there == {-1: ("Berlin", ["10.5.0.0", "10.6.0.0"])}


@pytest.mark.parametrize("choice", ["retry", "drop"])
@pytest.mark.parametrize("waits", ["a field", "all blocks"])
def test_a_decision_about_what_was_lost_is_not_about_the_edits_that_wait(
    person: Person, choice: str, waits: str
) -> None:
    locid = person.has(X)
    person("custom", "update", locid, "--postalcode", "80331")
    person("push")
    edit = ("update", "--areacode", "089") if waits == "a field" else ("clear-blocks",)
    person("custom", edit[0], locid, *edit[1:])
    _gets(person, Z, postalcode="80999", areacode="0172")
    settle()
    person("push", exits=3)
    (held,) = (row["id"] for row in json.loads(person("outbox", "list", "--json")) if row["state"] == "held")
    person("outbox", choice, held)
    person("push", exits=3)
    place = person.upstream.places[-1]
    assert place.as_fields()["areacode"] == "0172"
    assert ("10.7.0.0", "10.7.0.255") in place.blocks
    assert place.as_fields()["postalcode"] in ("80999", "80331")


A, B, C, D = ("10.1.0.0/24", "10.2.0.0/24", "10.3.0.0/24", "10.4.0.0/24")


@pytest.mark.parametrize(
    ("fault", "edit", "theirs", "is_held"),
    [
        ("before", ("remove-block", A), {"lacks": B}, True),
        ("before", ("remove-block", A), {}, False),
        ("after", ("remove-block", A), {"gets": A}, True),
        ("after", ("clear-blocks",), {"gets": A}, True),
        ("after", ("replace-block", A, D), {"gets": A}, True),
        ("before", ("replace-block", A, D), {"lacks": B}, False),
    ],
)
def test_a_lost_removal_neither_takes_nor_gives_what_a_colleague_did_meanwhile(
    person: Person, fault: str, edit: tuple[str, ...], theirs: dict[str, str], is_held: bool
) -> None:
    locid = person.has(A, B, C)
    person("custom", edit[0], locid, *edit[1:])
    person.upstream.faults = [fault]
    person("push", exits=1)
    _gets(person, *([theirs["gets"]] if "gets" in theirs else []), lacks=theirs.get("lacks", ""))
    was = person.upstream.places[-1].blocks
    settle()
    if not is_held:
        person.pushes_for_all_to_see()
        kept = was - {("10.1.0.0", "10.1.0.255")} | ({("10.4.0.0", "10.4.0.255")} if D in edit else set())
        assert person.upstream.places[-1].blocks == kept
        return
    person("push", exits=3)
    assert person.upstream.places[-1].blocks == was
    person("outbox", "drop", json.loads(person("outbox", "list", "--json"))[-1]["id"])
    person.pushes_for_all_to_see()
    assert person.upstream.places[-1].blocks == was
