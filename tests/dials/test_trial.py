"""What an independent trial found, by thinking, on services that are no dial's; each as a person would come upon it."""

import json
import time
from pathlib import Path
from random import Random

import pytest

from tests.dials.dials import Dials
from tests.dials.faces import OverHttp
from tests.dials.person import ELSEWHERE, Person, settle
from tests.dials.upstream import CLIENT, Upstream

_SITE = """[[site]]
name = "{name}"
country = "{country}"
region = ""
city = "{city}"
postalcode = ""
latitude = {latitude}
longitude = 11.6
dmacode = ""
areacode = ""
blocks = ["{block}"]
"""
MUNICH = _SITE.format(name="Munich", country="DE", city="{city}", latitude=48.1, block="10.1.0.0/24")
ROME = _SITE.format(name="Rome", country="IT", city="Rome", latitude=41.9, block="10.5.0.0/24")
TOKYO = {**ELSEWHERE, "country": "JP", "city": "Tokyo", "latitude": 35.7, "longitude": 139.7}


class Sites:
    """A person's sites.toml, with Munich (and Rome beside it, so that no file is without any)."""

    def __init__(self, person: Person, path: Path) -> None:
        self._person, self._path = person, path
        person.upstream.dials = Dials(reuse=True)

    def apply(self, *sites: str, **how: int) -> None:
        self._path.write_text("".join(sites))
        self._person("custom", "apply", self._path, **how)

    def are_there(self) -> None:
        self.apply(ROME, MUNICH.format(city="Munich"))
        self._person.pushes_for_all_to_see()

    def lose_munich_to_tokyo(self) -> int:
        """A colleague deletes Munich, and creates Tokyo, which is given its number."""
        (number,) = (locid for locid, (city, _) in self._person.there.items() if city == "Munich")
        self._person.upstream.colleague_changes(number, None, who="colleague")
        assert self._person.upstream.colleague_creates(TOKYO, [("10.9.0.0", "10.9.0.255")], who="colleague") == number
        return number


@pytest.fixture
def sites(person: Person, tmp_path: Path) -> Sites:
    found = Sites(person, tmp_path / "sites.toml")
    found.are_there()
    return found


def ours_to(person: Person, number: int) -> list[str]:
    """What was written from here to a number since Tokyo has it."""
    log = person.upstream.log
    since = max(at for at, write in enumerate(log) if write.locid == number and write.what == "create")
    return [write.what for write in log[since + 1 :] if write.locid == number and write.who == CLIENT]


# A place is not a number


def test_a_site_that_leaves_lookups_is_named(person: Person, sites: Sites) -> None:
    sites.lose_munich_to_tokyo()
    settle()
    person("sync", exits=3)
    assert "Munich" in person.said


def test_apply_makes_the_site_anew_and_leaves_the_number_to_whom_it_was_given(person: Person, sites: Sites) -> None:
    number = sites.lose_munich_to_tokyo()
    settle()
    person("sync", exits=None)
    sites.apply(ROME, MUNICH.format(city="Munich"))
    person.pushes_for_all_to_see()
    assert ours_to(person, number) == []
    assert person.there[number] == ("Tokyo", ["10.9.0.0"])
    assert ("Munich", ["10.1.0.0"]) in person.there.values()


def test_a_file_without_the_site_deletes_nothing_of_anothers(person: Person, sites: Sites) -> None:
    number = sites.lose_munich_to_tokyo()
    settle()
    person("sync", exits=None)
    sites.apply(ROME)
    person("push")
    assert ours_to(person, number) == []
    assert person.there[number] == ("Tokyo", ["10.9.0.0"])


def test_an_update_by_the_number_of_then_is_not_written_to_another(person: Person, tmp_path: Path) -> None:
    person.upstream.dials = Dials(reuse=True)
    locid = person.has("10.1.0.0/24")
    person.upstream.colleague_changes(-1, None, who="colleague")
    person.upstream.colleague_creates(TOKYO, [("10.9.0.0", "10.9.0.255")], who="colleague")
    settle()
    person("sync", exits=None)
    person("custom", "update", locid, "--city", "Potsdam", exits=2)
    person("push")
    assert ours_to(person, -1) == []
    assert person.there == {-1: ("Tokyo", ["10.9.0.0"])}


def test_a_service_that_moved_and_numbers_otherwise_gets_nothing_of_another(
    person: Person, sites: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = person.there
    moved = Upstream(Dials(), Random(1), time.monotonic)
    moved.colleague_creates(TOKYO, [("10.9.0.0", "10.9.0.255")], who="colleague")
    for place in reversed(person.upstream.places.values()):
        moved.colleague_creates(place.as_fields(), place.blocks, who="moving")
    with OverHttp(moved) as service:
        monkeypatch.setenv("GEOLOOKUP_URL", service.url)
        person.upstream = moved
        before = person.there
        assert {place[0]: number for number, place in before.items()} != {
            place[0]: number for number, place in there.items()
        }
        settle()
        person("sync", "--url-moved", exits=3)  # whose places are gone
        sites.apply(ROME, MUNICH.format(city="München"))
        person("push")
        assert person.there == {
            number: ("München" if city == "Munich" else city, blocks) for number, (city, blocks) in before.items()
        }


# Only a conclusive list proves anything


def test_all_that_a_service_lost_is_named_and_kept_and_restored_by_one_retry(person: Person) -> None:
    empty = person.upstream.places
    locid = person.creates("10.1.0.0/24")
    person("custom", "update", locid, "--city", "Potsdam")
    person("push")
    person.upstream.fail_over(empty)
    settle()
    person("sync", exits=3)
    assert json.loads(person("lookup", "10.1.0.1", "--format", "ndjson"))["city"] == "Potsdam"
    held = [row["id"] for row in json.loads(person("outbox", "list", "--json")) if row["state"] == "held"]
    person("outbox", "retry", held[0])
    person.pushes_for_all_to_see()
    assert list(person.there.values()) == [("Potsdam", ["10.1.0.0"])]


def test_a_list_that_was_not_sent_again_proves_nothing(person: Person) -> None:
    person.upstream.etag = '"always"'
    person("sync")
    empty = person.upstream.places
    person.creates("10.1.0.0/24")
    person("push")
    person.upstream.fail_over(empty)
    settle()
    person("sync", exits=3)
    assert json.loads(person("lookup", "10.1.0.1", "--format", "ndjson"))["city"] == "Berlin"


def test_one_etag_for_ever_loses_nothing_and_makes_no_twin(person: Person) -> None:
    person.upstream.etag = '"always"'
    person("sync")
    person.creates("10.1.0.0/24")
    person.pushes_for_all_to_see()
    settle()
    person("sync")
    assert person.there == {-1: ("Berlin", ["10.1.0.0"])}
    assert person.looks_up("10.1.0.1") == [-1]


# One decision for every kind


def test_two_branches_in_one_town_whose_requests_are_lost_in_turn_are_not_held(person: Person) -> None:
    first, second = person.creates(), person.creates(latitude=52.521, longitude=13.41)
    person.upstream.faults = ["before", "after"]
    person("push", exits=1)
    settle()
    person("push")
    settle()
    person("sync")
    shown = [json.loads(person("custom", "show", locid, "--json")) for locid in (first, second)]
    assert [place["latitude"] for place in shown] == [52.520008, 52.521]
    assert len(person.there) == 2


def test_what_is_gone_can_be_made_anew_as_the_message_says(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", "update", locid, "--city", "Potsdam")
    person.upstream.colleague_changes(-1, None, who="colleague")
    settle()
    person("push", exits=3)
    (edit,) = (row["id"] for row in json.loads(person("outbox", "list", "--json")))
    person("outbox", "retry", edit)
    person.pushes_for_all_to_see()
    assert list(person.there.values()) == [("Potsdam", ["10.1.0.0"])]


@pytest.mark.parametrize("what", ["update", "clear"])
def test_a_conflict_that_was_answered_after_the_work_is_no_refusal(person: Person, what: str) -> None:
    locid = person.has("10.1.0.0/24")
    if what == "update":
        person("custom", "update", locid, "--city", "Potsdam")
    else:
        person("custom", "clear-blocks", locid)
    person.upstream.faults = ["conflict"]
    person("push")
    settle()
    person("push")
    assert person.there == {-1: ("Potsdam", ["10.1.0.0"]) if what == "update" else ("Berlin", [])}


def test_a_restored_outbox_does_not_send_again_what_was_added_and_removed_since(person: Person) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    person("custom", "add-block", locid, "10.3.0.0/24")
    person("push")
    person("custom", "remove-block", locid, "10.3.0.0/24")
    person("push")
    person("outbox", "restore")
    settle()
    person("push", exits=None)
    assert person.there == {-1: ("Berlin", ["10.1.0.0", "10.2.0.0"])}


# A second trial: removals and additions in turn, and colleagues who take back what nobody has seen here


def test_blocks_that_a_lost_delete_all_took_come_back_though_the_removed_one_was_given_again(person: Person) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    person("custom", "remove-block", locid, "10.2.0.0/24")
    person.upstream.faults = ["after"]  # all blocks are deleted, and nobody is told
    person("push", exits=1)
    assert person.there == {-1: ("Berlin", [])}
    person("custom", "add-block", locid, "10.2.0.0/24")
    settle()
    person("sync")
    assert person.looks_up("10.1.0.1", "10.2.0.1") == [-1, -1]
    person.pushes_for_all_to_see()
    assert person.there == {-1: ("Berlin", ["10.1.0.0", "10.2.0.0"])}
    person("push")
    assert json.loads(person("outbox", "list", "--json")) == []


def test_an_edit_that_a_colleague_took_back_is_not_sent_again_with_the_next_one(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", "update", locid, "--city", "Potsdam")
    person("push")
    place = person.upstream.places[-1]
    fields = tuple("Berlin" if value == "Potsdam" else value for value in place.fields)
    person.upstream.colleague_changes(-1, type(place)(fields, place.blocks), who="colleague")
    settle()
    person("custom", "add-block", locid, "10.2.0.0/24")
    person("push", exits=3)
    assert "does not show them" in person.said
    assert person.there == {-1: ("Berlin", ["10.1.0.0"])}
    edit = min(row["id"] for row in json.loads(person("outbox", "list", "--json")) if row["state"] == "held")
    person("outbox", "drop", edit)
    person.pushes_for_all_to_see()
    assert person.there[-1][0] == "Berlin"


def test_a_name_that_a_colleague_took_back_is_a_conflict_with_the_next_name(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", "update", locid, "--city", "Potsdam")
    person("push")
    person("custom", "update", locid, "--city", "Spandau")
    place = person.upstream.places[-1]
    fields = tuple("Berlin" if value == "Potsdam" else value for value in place.fields)
    person.upstream.colleague_changes(-1, type(place)(fields, place.blocks), who="colleague")
    settle()
    person("push", exits=3)
    assert "has changed Berlin" in person.said or "has changed Spandau" in person.said
    assert person.there[-1][0] == "Berlin"


# A third trial: what a colleague gave to a place that is held


def _changes(person: Person, *blocks: str, **fields: str) -> None:
    """A colleague gives blocks to our place, and changes fields of it."""
    place = person.upstream.places[-1]
    changed = tuple({**place.as_fields(), **fields}.values())
    given = frozenset((f"{block}.0", f"{block}.255") for block in blocks)
    person.upstream.colleague_changes(-1, type(place)(changed, place.blocks | given), who="colleague")


@pytest.mark.parametrize(("seen", "theirs"), [(False, {"areacode": "030"}), (True, {"city": "Spandau"})])
def test_a_block_of_a_colleague_is_in_lookups_while_the_place_is_held(
    person: Person, seen: bool, theirs: dict[str, str]
) -> None:
    locid = person.has("10.1.0.0/24") if seen else person.creates("10.1.0.0/24")
    if seen:
        person("custom", "update", locid, "--city", "Potsdam")
    person("push")
    _changes(person, "10.2.0", **theirs)
    settle()
    person("sync", exits=3)
    assert "does not show them" in person.said
    assert person.looks_up("10.1.0.1", "10.2.0.1") == [-1, -1]
    ours = "Potsdam" if seen else "Berlin"
    assert json.loads(person("lookup", "10.2.0.1", "--format", "ndjson"))["city"] == ours  # until a person decides
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


# A fourth trial: what was undone is no lesson, and who has the number now


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


def test_a_field_that_the_service_has_elsewhere_is_not_one_that_it_drops(person: Person) -> None:
    person.has("10.2.0.0/24", city="Bonn", latitude=50.73, areacode="0228")
    person.creates("10.1.0.0/24", areacode="030")
    person("push")
    place = person.upstream.places[-2]
    fields = tuple((place.as_fields() | {"areacode": ""}).values())
    person.upstream.colleague_changes(-2, type(place)(fields, place.blocks), who="colleague")
    settle()
    person("sync", exits=3)
    assert "does not show them" in person.said


def test_a_delete_is_not_repeated_on_what_has_fewer_blocks(person: Person) -> None:
    person.upstream.dials = Dials(reuse=True)
    locid = person.has("10.1.0.0/24")
    fields = person.upstream.places[-1].as_fields()
    person("custom", "delete", locid)
    person.upstream.faults = ["after"]
    person("push", exits=1)
    assert person.upstream.colleague_creates(fields, who="colleague") == -1
    settle()
    person("push", exits=3)
    assert person.there == {-1: ("Berlin", [])}
    (edit,) = (row["id"] for row in json.loads(person("outbox", "list", "--json")))
    person("outbox", "retry", edit)  # it is the same all the same
    person("push")
    assert person.there == {}


def test_a_lost_delete_is_repeated_on_what_is_as_it_was(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", "delete", locid)
    person.upstream.faults = ["before"]
    person("push", exits=1)
    settle()
    person("push")
    assert person.there == {}


def test_an_old_answer_to_a_repeated_create_is_not_believed_before_a_look(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    person.upstream.dials = Dials(reuse=True, keys=True)
    monkeypatch.setenv("GEOLOOKUP_IDEMPOTENCY_KEYS", "true")
    person("sync")
    person.creates("10.1.0.0/24")
    person.upstream.faults = ["after"]
    person("push", exits=1)
    person.upstream.colleague_changes(-1, None, who="colleague")
    assert person.upstream.colleague_creates(TOKYO, [("10.9.0.0", "10.9.0.255")], who="colleague") == -1
    person("push", exits=None)
    assert person.there == {-1: ("Tokyo", ["10.9.0.0"])}
    settle()
    person("sync", exits=3)
    edits = [row["id"] for row in json.loads(person("outbox", "list", "--json")) if row["state"] == "held"]
    person("outbox", "retry", edits[0])
    person.pushes_for_all_to_see()
    assert person.there == {-1: ("Tokyo", ["10.9.0.0"]), -2: ("Berlin", ["10.1.0.0"])}


def test_a_create_that_was_sent_again_by_its_key_goes_on_in_the_same_push(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    person.upstream.dials = Dials(keys=True)
    monkeypatch.setenv("GEOLOOKUP_IDEMPOTENCY_KEYS", "true")
    person.creates("10.1.0.0/24")
    person.upstream.faults = ["after"]
    person("push", exits=1)
    person("push")
    assert person.there == {-1: ("Berlin", ["10.1.0.0"])}
