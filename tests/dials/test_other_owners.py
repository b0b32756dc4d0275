"""A number gets another owner, as a person comes upon it: nothing of ours goes to him."""

import json
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.dials.dials import Dials
from tests.dials.faces import OverHttp
from tests.dials.person import BERLIN, ELSEWHERE, Person, settle
from tests.dials.upstream import CLIENT, Place, Upstream

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

    def apply(self, *sites: str, keep: str | None = None, exits: int = 0) -> None:
        self._path.write_text("".join(sites))
        self._person("custom", "apply", self._path, *(() if keep is None else ("--keep", keep)), exits=exits)

    def are_there(self) -> None:
        self.apply(ROME, MUNICH.format(city="Munich"))
        self._person.pushes_for_all_to_see()

    def lose_munich_to_tokyo(self, *blocks: str) -> int:
        """A colleague deletes Munich, and creates Tokyo, which is given its number, and blocks of it."""
        (number,) = (locid for locid, (city, _) in self._person.there.items() if city == "Munich")
        self._person.upstream.colleague_changes(number, None, who="colleague")
        ranges = [(f"{block}.0", f"{block}.255") for block in ("10.9.0", *blocks)]
        assert self._person.upstream.colleague_creates(TOKYO, ranges, who="colleague") == number
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


def test_a_place_that_has_a_block_of_ours_and_nothing_else_of_it_is_another(person: Person, sites: Sites) -> None:
    """Somebody moved one of two blocks to it: it is neither edited, made Munich, nor deleted."""
    two = MUNICH.format(city="Munich").replace('"10.1.0.0/24"', '"10.1.0.0/24", "10.2.0.0/24"')
    sites.apply(ROME, two)
    person.pushes_for_all_to_see()
    number = sites.lose_munich_to_tokyo("10.2.0")
    person("custom", "add-block", "Munich", "10.3.0.0/24")
    person("push", exits=3)
    assert f"the service has given the number {number} to something else (Tokyo, JP with 10.2.0.0" in person.said
    assert "`geolookup outbox adopt" in person.said
    assert ours_to(person, number) == []
    assert person.looks_up("10.3.0.1") == [number] or "Munich" in person("lookup", "10.3.0.1")
    edit = json.loads(person("outbox", "list", "--json"))[0]["id"]
    person("outbox", "drop", edit)
    settle()
    person("sync", exits=None)
    sites.apply(ROME, exits=None)  # without Munich
    person("push", exits=None)
    assert ours_to(person, number) == []
    assert person.there[number] == ("Tokyo", ["10.2.0.0", "10.9.0.0"])


def test_a_site_that_leaves_lookups_is_named(person: Person, sites: Sites) -> None:
    sites.lose_munich_to_tokyo()
    settle()
    person("sync", exits=3)
    assert "Munich" in person.said


def test_apply_makes_the_site_anew_and_leaves_the_number_to_whom_it_was_given(person: Person, sites: Sites) -> None:
    number = sites.lose_munich_to_tokyo()
    settle()
    person("sync", exits=None)
    sites.apply(ROME, MUNICH.format(city="Munich"), exits=3)
    assert "the service deleted it, and the file has it" in person.said
    sites.apply(ROME, MUNICH.format(city="Munich"), keep="mine")
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
        person("sync", "--url-moved")
        sites.apply(ROME, MUNICH.format(city="München"))
        person("push")
        assert person.there == {
            number: ("München" if city == "Munich" else city, blocks) for number, (city, blocks) in before.items()
        }


@pytest.mark.parametrize(
    ("edit", "blocks"),
    [
        (("remove-block", "10.0.1.0/24"), []),
        (("add-block", "10.0.2.0/24"), [("10.0.2.0", "10.0.2.255")]),
        (("update", "--areacode", "03"), []),
        (("delete",), []),
    ],
    ids=lambda given: given[0] if isinstance(given, tuple) else "",
)
def test_an_undo_writes_nothing_to_the_new_owner_of_a_number(
    person: Person, edit: tuple[str, ...], blocks: list[tuple[str, str]]
) -> None:
    person.upstream.dials = Dials(reuse=True)
    locid = person.has("10.0.0.0/24", "10.0.1.0/24")
    person("custom", edit[0], locid, *edit[1:])
    person.pushes_for_all_to_see()
    if edit != ("delete",):
        person.upstream.colleague_changes(-1, None, who="colleague")
    assert person.upstream.colleague_creates({**TOKYO, "areacode": "03"}, blocks, who="colleague") == -1
    settle()
    person("sync", exits=None)
    person("custom", "undo", "--run")
    assert ("is gone since" in person.said) is (edit != ("delete",))
    person("push")
    assert ours_to(person, -1) == []
    assert (person.there.get(-2) == ("Berlin", ["10.0.0.0", "10.0.1.0"])) is (edit == ("delete",))


@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize("pushed", [True, False])
def test_undos_go_back_to_a_place_that_was_deleted_though_another_one_of_ours_had_its_number(
    person: Person, *, pushed: bool, reuse: bool
) -> None:
    person.upstream.dials = Dials(reuse=reuse)
    for name, block in (("Depot", "10.0.1.0/24"), ("Dock", "10.0.2.0/24")):
        options = [f"--{field}={value}" for field, value in {**TOKYO, "city": name}.items()]
        person("custom", "create", name, *options, "--block", block)
        person.pushes_for_all_to_see()
        person("custom", "update", name, "--areacode", "9")
        person.pushes_for_all_to_see()
        if name == "Depot":
            person("custom", "delete", "Depot")
            person.pushes_for_all_to_see()
    assert person.there == {-1 if reuse else -2: ("Dock", ["10.0.2.0"])}
    person("custom", "undo", "--run")
    assert json.loads(person("lookup", "10.0.2.1", "--json"))[0]["areacode"] == ""
    for back in ((None, ""), ("Depot", "9"), ("Depot", "")):  # Dock was made, Depot deleted, Depot changed
        person("custom", "undo", "--run")
        if pushed:
            person.pushes_for_all_to_see()
        (found,) = json.loads(person("lookup", "10.0.1.1", "--json"))
        assert (found["site"], found["areacode"]) == back
    if not pushed:
        person.pushes_for_all_to_see()
    assert [place for place, _ in person.there.values()] == ["Depot"]
    person("custom", "undo", "--run")
    person.pushes_for_all_to_see()
    assert person.there == {}


@pytest.mark.parametrize("steps", [1, 2])
def test_undos_of_files_go_back_to_a_site_whose_number_another_one_had(
    person: Person, sites: Sites, steps: int
) -> None:
    if steps == 2:
        sites.apply(ROME)
        person.pushes_for_all_to_see()
    sites.apply(ROME, MUNICH.format(city="Dachau").replace("Munich", "Dachau"))
    person.pushes_for_all_to_see()
    for _ in range(steps):
        person("custom", "undo", "--run")
        person.pushes_for_all_to_see()
    assert sorted(city for city, _ in person.there.values()) == ["Munich", "Rome"]
    assert json.loads(person("lookup", "10.1.0.1", "--json"))[0]["site"] == "Munich"


@pytest.mark.parametrize("reuse", [True, False])
def test_steps_of_a_place_that_was_created_anew_are_undone_there(person: Person, *, reuse: bool) -> None:
    person.upstream.dials = Dials(reuse=reuse)
    options = [f"--{field}={value}" for field, value in {**TOKYO, "city": "Depot"}.items()]
    person("custom", "create", "Depot", *options, "--block", "10.0.1.0/24", "--block", "10.0.2.0/24")
    person.pushes_for_all_to_see()
    person("custom", "update", "Depot", "--areacode", "9")
    person.pushes_for_all_to_see()
    person("custom", "rename", "Depot", "Dock")
    person("custom", "remove-block", "Dock", "10.0.2.0/24")
    person.upstream.colleague_changes(-1, None, who="colleague")
    person.upstream.colleague_creates({**ELSEWHERE, "city": "Rome"}, [], who="colleague")
    settle()
    person("push", exits=3)
    (edit, *_) = (row["id"] for row in json.loads(person("outbox", "list", "--json")) if row["state"] == "held")
    person("outbox", "retry", edit)
    person.pushes_for_all_to_see()
    for back in (("Dock", "9"), ("Depot", "9"), ("Depot", "")):
        person("custom", "undo", "--run")
        assert "gone since" not in person.said
        person.pushes_for_all_to_see()
        found = json.loads(person("lookup", "10.0.1.1", "10.0.2.1", "--json"))
        assert [(each["site"], each["areacode"]) for each in found] == [back, back]
    assert sorted(city for city, _ in person.there.values()) == ["Depot", "Rome"]


def test_an_undo_after_a_move_of_the_service_writes_to_the_place_and_not_to_its_number(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    locid = person.has("10.0.0.0/24", "10.0.1.0/24")
    person("custom", "remove-block", locid, "10.0.1.0/24")
    person.pushes_for_all_to_see()
    moved = Upstream(Dials(), Random(1), time.monotonic)
    assert moved.colleague_creates(TOKYO, [("10.9.0.0", "10.9.0.255")], who="colleague") == -1
    moved.colleague_creates(person.upstream.places[-1].as_fields(), person.upstream.places[-1].blocks, who="moving")
    with OverHttp(moved) as service:
        monkeypatch.setenv("GEOLOOKUP_URL", service.url)
        person.upstream = moved
        settle()
        person("sync", "--url-moved", exits=None)
        person("custom", "undo", "--run")
        assert "gone since" not in person.said
        person("push")
        assert person.there == {-1: ("Tokyo", ["10.9.0.0"]), -2: ("Berlin", ["10.0.0.0", "10.0.1.0"])}


def test_a_number_that_was_deleted_a_moment_ago_has_neither_the_name_nor_the_edits_of_then(person: Person) -> None:
    person.upstream.dials = Dials(reuse=True)
    person.upstream.colleague_creates({**TOKYO, "city": "Kobe", "latitude": 34.7}, [], who="colleague")
    person("sync")
    person("custom", "rename", -1, "Kobe")
    person("custom", "delete", "Kobe")
    person("push")
    assert person.upstream.colleague_creates(TOKYO, [("10.9.0.0", "10.9.0.255")], who="colleague") == -1
    person("sync")  # before the deletion has settled
    assert json.loads(person("lookup", "10.9.0.1", "--json"))[0]["site"] is None
    person("custom", "update", -1, "--areacode", "5")
    person("custom", "undo", "--last", "2", "--run")
    assert "create Kobe" in person.said
    person.pushes_for_all_to_see()
    assert person.there == {-1: ("Tokyo", ["10.9.0.0"]), -2: ("Kobe", [])}


@pytest.mark.parametrize("then", ["nothing", "delete", "add-block"])
def test_a_number_whose_new_owner_took_over_a_block_before_a_list_showed_ours_is_not_written_to(
    person: Person, then: str
) -> None:
    person.upstream.dials = Dials(reuse=True)
    locid = person.creates("10.0.0.0/24", "10.0.1.0/24")
    person("push")
    person.upstream.colleague_changes(-1, None, who="colleague")
    assert person.upstream.colleague_creates(TOKYO, [("10.0.0.0", "10.0.0.255")], who="colleague") == -1
    if then != "nothing":
        person("custom", then, locid, *(["10.0.2.0/24"] if then == "add-block" else []))
    settle()
    person("push" if then != "nothing" else "sync", exits=3)
    assert "the service has given the number -1 to something else (Tokyo" in person.said
    assert "the service stores" not in person.said
    (edit, *_) = (row["id"] for row in json.loads(person("outbox", "list", "--json")) if row["state"] == "held")
    person("outbox", "retry", edit)
    person("push", exits=None)  # his block is refused
    assert ours_to(person, -1) == []
    assert person.there[-1] == ("Tokyo", ["10.0.0.0"])
    assert ("Berlin" in {city for city, _ in person.there.values()}) is (then != "delete")


@pytest.mark.parametrize("command", ["sync", "push"])
@pytest.mark.parametrize("then", ["pushed", "published"])
def test_an_older_copy_that_numbers_otherwise_gets_no_edit_in_place_of_its_neighbour(
    person: Person, monkeypatch: pytest.MonkeyPatch, command: str, then: str
) -> None:
    """Two branches in one town, of which one got a block of the other, at a service that moved to what was before."""
    before = {"1": ["10.1.0.0", "10.2.0.0"], "2": ["10.3.0.0"]}
    for branch, blocks in before.items():
        ranges = [(block, f"{block.removesuffix('0')}255") for block in blocks]
        person.upstream.colleague_creates({**ELSEWHERE, "areacode": branch}, ranges, who="colleague")
    settle()
    person("sync")
    copy = [(place.as_fields(), [*place.blocks]) for place in person.upstream.places.values()]
    person("custom", "remove-block", -1, "10.1.0.0/24")
    person("custom", "add-block", -2, "10.1.0.0/24")
    person("push")
    settle()
    if then == "published":
        person("sync")
    moved = Upstream(Dials(), Random(1), time.monotonic)
    for fields, ranges in reversed(copy):
        moved.colleague_creates(fields, ranges, who="moving")
    with OverHttp(moved) as service:
        monkeypatch.setenv("GEOLOOKUP_URL", service.url)
        person.upstream = moved
        person("custom", "update", -2, "--postalcode", "10115")
        person(command, "--url-moved", exits=3)
        person("push", exits=3)
        assert ours_to(person, -1) == ours_to(person, -2) == []
        for row in json.loads(person("outbox", "list", "--json")):
            if row["state"] == "held":  # each choice of all that are told is right
                command = (("retry", row["id"]), ("adopt", row["id"], -1))[then == "published"]
                person("outbox", *command)
        person.pushes_for_all_to_see()
        branches = {place.as_fields()["areacode"]: place.as_fields()["postalcode"] for place in moved.places.values()}
        assert branches == {"1": "", "2": "10115"}


def test_a_block_that_a_colleague_gave_to_a_neighbour_while_the_service_moved_raises_no_question(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    for branch, block in (("1", "10.1"), ("2", "10.3")):
        blocks = [(f"{block}.{number}.0", f"{block}.{number}.255") for number in (0, 1)]
        person.upstream.colleague_creates({**ELSEWHERE, "areacode": branch}, blocks, who="colleague")
    settle()
    person("sync")
    person("custom", "rename", -1, "One")  # it is a place of ours
    one, other = person.upstream.places[-1], person.upstream.places[-2]
    given = ("10.1.0.0", "10.1.0.255")
    person.upstream.colleague_changes(-1, Place(one.fields, one.blocks - {given}), who="colleague")
    person.upstream.colleague_changes(-2, Place(other.fields, other.blocks | {given}), who="colleague")
    with OverHttp(person.upstream) as service:
        monkeypatch.setenv("GEOLOOKUP_URL", service.url)
        person("custom", "update", -2, "--postalcode", "10115")
        person("push", "--url-moved")
        settle()
        person("sync")
    assert person.looks_up("10.1.0.1", "10.3.0.1") == [-2, -2]


@pytest.mark.parametrize("command", ["sync", "push"])
def test_a_service_that_moved_and_numbers_otherwise_is_not_reproached_with_its_answers(
    person: Person, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    locid = person.creates("10.1.0.0/24")
    person.creates("10.2.0.0/24", city="Bonn", latitude=50.73)
    person("push")  # no list has shown it when the service moves
    moved = Upstream(Dials(), Random(1), time.monotonic)
    for place in reversed(person.upstream.places.values()):
        moved.colleague_creates(place.as_fields(), place.blocks, who="moving")
    with OverHttp(moved) as service:
        monkeypatch.setenv("GEOLOOKUP_URL", service.url)
        settle()
        if command == "push":
            person("custom", "update", locid, "--postalcode", "10115")
        person(command, "--url-moved")
        settle()
        person("sync")
        assert "answered" not in person.said
        assert person.looks_up("10.1.0.1", "10.2.0.1") == [-2, -1]


def test_a_sync_after_a_push_to_a_service_that_moved_tells_of_nothing_that_is_gone(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    locid = person.has("10.1.0.0/24")
    person.has("10.2.0.0/24", city="Bonn", latitude=50.73)
    moved = Upstream(Dials(), Random(1), time.monotonic)
    moved.colleague_creates(TOKYO, who="colleague")
    for place in person.upstream.places.values():
        moved.colleague_creates(place.as_fields(), place.blocks, who="moving")
    moved.colleague_changes(-1, None, who="colleague")  # each number is one lower there
    with OverHttp(moved) as service:
        monkeypatch.setenv("GEOLOOKUP_URL", service.url)
        person("custom", "update", locid, "--postalcode", "10115")
        person("push", "--url-moved")
        settle()
        person("sync")
        assert "gone" not in person.said


@pytest.mark.parametrize("blocks", [[1, 2, 7], [1], [1, 2]], ids=["one more", "one less", "all"])
@pytest.mark.parametrize("command", ["sync", "push"])
def test_a_branch_with_blocks_and_one_without_are_told_apart_by_all_that_they_are(
    person: Person, monkeypatch: pytest.MonkeyPatch, command: str, blocks: list[int]
) -> None:
    """A service exchanges their numbers after a colleague gave a block of one away, or one more to it."""
    person.has(postalcode="100")
    office = person.has("10.1.0.0/24", "10.2.0.0/24", postalcode="200")
    moved = Upstream(Dials(), Random(1), time.monotonic)
    ranges = [(f"10.{block}.0.0", f"10.{block}.0.255") for block in blocks]
    moved.colleague_creates(person.upstream.places[-2].as_fields(), ranges, who="moving")
    moved.colleague_creates(person.upstream.places[-1].as_fields(), who="moving")
    with OverHttp(moved) as service:
        monkeypatch.setenv("GEOLOOKUP_URL", service.url)
        person.upstream = moved
        person("custom", "update", office, "--areacode", "5")
        person(command, "--url-moved")
        person.pushes_for_all_to_see()
        found = {
            number: (place.as_fields()["postalcode"], place.as_fields()["areacode"])
            for number, place in moved.places.items()
        }
        assert found == {-1: ("200", "5"), -2: ("100", "")}
        assert [person.looks_up("10.1.0.1")] == [[-1]]


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


@pytest.mark.parametrize("who_has_it", ["nobody", "Tokyo"])
def test_a_place_whose_edit_was_refused_lets_its_number_go(person: Person, who_has_it: str) -> None:
    person.upstream.dials = Dials(reuse=True)
    locid = person.has()
    person.upstream.colleague_creates(ELSEWHERE, [("10.2.0.0", "10.2.0.255")], who="colleague")
    person("custom", "add-block", locid, "10.2.0.0/24")
    person("push", exits=3)
    person.upstream.colleague_changes(-1, None, who="colleague")
    if who_has_it == "Tokyo":
        assert person.upstream.colleague_creates(TOKYO, [("10.9.0.0", "10.9.0.255")], who="colleague") == -1
    settle()
    person("sync", exits=3)
    shown = {place["locid"]: place["city"] for place in json.loads(person("custom", "list", "--json"))}
    assert shown.get(-1) == (who_has_it if who_has_it == "Tokyo" else None)
    assert "Berlin" in shown.values()  # until a person decides, under a number of this machine
    person.upstream.colleague_changes(-2, None, who="colleague")
    (edit,) = (row["id"] for row in json.loads(person("outbox", "list", "--json")))
    person("outbox", "retry", edit)
    person.pushes_for_all_to_see()
    assert ("Berlin", ["10.2.0.0"]) in person.there.values()
    if who_has_it == "Tokyo":
        assert ours_to(person, -1) == []


@pytest.mark.parametrize("choice", ["drop", "retry"])
def test_a_choice_about_what_is_gone_leaves_another_site_in_lookups_that_has_its_number(
    person: Person, choice: str
) -> None:
    person.upstream.dials = Dials(reuse=True)
    gone = person.has("10.1.0.0/24")
    person.upstream.colleague_changes(-1, None, who="colleague")
    person("custom", "update", gone, "--city", "Ulm")
    person("push", exits=3)
    person.creates("10.2.0.0/24", city="Bonn", latitude=50.73)
    person("push", exits=3)
    settle()
    person("sync", exits=None)
    assert person.looks_up("10.2.0.1") == [-1]
    person("outbox", choice, 3)
    assert person.looks_up("10.2.0.1") == [-1]
    person("push")
    settle()
    person("sync")
    assert person.looks_up("10.2.0.1") == [-1]
    assert len(person.there) == {"drop": 1, "retry": 2}[choice]


def test_no_number_of_another_place_of_ours_is_offered(person: Person) -> None:
    person.upstream.dials = Dials(reuse=True)
    person.creates("10.1.0.0/24")
    person("push")
    person.upstream.colleague_changes(-1, None, who="colleague")
    settle()
    person("sync", exits=3)
    person.creates("10.2.0.0/24", city="Bonn", latitude=50.73)
    person("push", exits=3)
    person("sync", exits=3)
    assert "has nothing; `geolookup outbox retry 1` creates it anew" in person.said
    assert "adopt" not in person.said


def test_a_create_that_was_answered_with_404_after_its_work_makes_no_twin(person: Person) -> None:
    person.upstream.faults = ["not found"]
    locid = person.creates("10.1.0.0/24")
    person("push", exits=1)
    person("custom", "add-block", locid, "10.2.0.0/24")
    place = person.upstream.places[-1]
    theirs = Place(place.fields, frozenset({("172.16.0.0", "172.16.0.0")}))
    person.upstream.colleague_changes(-1, theirs, who="colleague")
    settle()
    person("push", exits=3)
    person("sync", exits=3)
    person("push", exits=3)
    assert len(person.there) == 1
    person("outbox", "adopt", 1, -1)
    person("push")
    assert person.there == {-1: ("Berlin", ["10.1.0.0", "10.2.0.0", "172.16.0.0"])}


def test_what_was_gone_and_made_anew_is_told_if_it_is_there_again(person: Person) -> None:
    person.has("10.3.0.0/24")
    place = person.upstream.places[-1]
    person.upstream.colleague_changes(-1, None, who="colleague")
    settle()
    person("sync", exits=None)
    person.creates("10.3.0.0/24")
    person.pushes_for_all_to_see()
    assert person.there == {-2: ("Berlin", ["10.3.0.0"])}
    person.upstream.fail_over({-1: place, -2: person.upstream.places[-2]})
    settle()
    person("sync", exits=3)
    again = "geolocation -1 (Berlin, DE with 10.3.0.0-10.3.0.255) was gone from the service, and is there again"
    assert again in person.said
    person("custom", "delete", -1)
    person.pushes_for_all_to_see()
    assert person.there == {-2: ("Berlin", ["10.3.0.0"])}


def test_a_new_owner_whose_coordinates_are_ours_rounded_is_known_by_his_own_block(person: Person) -> None:
    person.creates("10.1.0.0/24", "10.2.0.0/24", latitude=49.6404, longitude=10.3, postalcode="80331")
    person.upstream.faults = ["", "before"]
    person("push", exits=1)
    where = {"region": "", "city": "Theirs", "latitude": 50.0, "longitude": 10.0}
    theirs = Place(tuple({**ELSEWHERE, **BERLIN, **where}.values()), frozenset({("10.9.0.0", "10.9.0.255")}))
    person.upstream.colleague_changes(-1, theirs, who="colleague")
    settle()
    person("push", exits=3)
    assert "the service has given the number -1 to something else" in person.said
    assert person.upstream.places == {-1: theirs}


def test_what_has_our_very_blocks_is_not_to_be_made_anew(person: Person) -> None:
    person.creates("10.1.0.0/24")
    person.upstream.colleague_creates(
        {**ELSEWHERE, **BERLIN, "region": ""}, [("10.1.0.0", "10.1.0.255")], who="colleague"
    )
    person("push", exits=3)
    assert "`geolookup outbox adopt 1 -1` says that -1 is it, `geolookup outbox drop 1` gives it up" in person.said
    assert "retry" not in person.said


@pytest.mark.parametrize("choice", ["adopt", "retry", "drop"])
def test_what_a_colleague_makes_anew_after_a_delete_whose_answer_was_lost_is_asked_about(
    person: Person, choice: str
) -> None:
    locid = person.has("10.1.0.0/24")
    place = person.upstream.places[-1]
    person("custom", "delete", locid)
    person.upstream.faults = ["after"]
    person("push", exits=1)
    person.upstream.colleague_creates(place.as_fields(), place.blocks, who="colleague")
    settle()
    person("push", exits=3)
    assert person.there == {-2: ("Berlin", ["10.1.0.0"])}
    person("outbox", choice, 3, *([-2] if choice == "adopt" else []))
    person("push")
    person.pushes_for_all_to_see()
    assert person.there == ({} if choice == "adopt" else {-2: ("Berlin", ["10.1.0.0"])})


@pytest.mark.parametrize("blocks", [("10.1.0.0/24",), ("10.1.0.0/24", "10.2.0.0/24")])
def test_the_blocks_of_a_colleagues_geolocation_that_is_deleted_pass_to_a_new_one_in_the_same_push(
    person: Person, blocks: tuple[str, ...]
) -> None:
    ends = [(block.removesuffix("/24"), block.removesuffix("0/24") + "255") for block in blocks]
    person.upstream.colleague_creates({**ELSEWHERE, "region": "", **BERLIN}, ends, who="colleague")
    settle()
    person("sync")
    person("custom", "delete", -1)
    person.creates(*blocks, city="Ulm", latitude=48.4)
    person("push")
    assert person.there == {-2: ("Ulm", [block.removesuffix("/24") for block in blocks])}


@pytest.mark.parametrize("choice", ["adopt", "drop"])
@pytest.mark.parametrize(
    "fields",
    [{}, {"city": "BERLIN"}, {"city": "Berlin-Mitte"}, {"latitude": 52.53}, {"city": "Mitte", "latitude": 52.53}],
    ids=["there", "in capitals", "with more", "near", "near, and named otherwise"],
)
def test_a_create_waits_if_somebody_made_something_with_its_block_in_its_town(
    person: Person, fields: dict[str, Any], choice: str
) -> None:
    person("sync")
    person.creates("10.1.0.0/24", "10.2.0.0/24")
    theirs = {**ELSEWHERE, "region": "", **BERLIN, **fields, "areacode": "040"}
    person.upstream.colleague_creates(theirs, [("10.1.0.0", "10.1.0.255")], who="colleague")
    person("push", exits=3)
    assert "`geolookup outbox adopt 1 -1` says that -1 is it" in person.said
    assert "retry" not in person.said  # which would be refused
    person("outbox", choice, 1, *([-1] if choice == "adopt" else []))
    person("push")
    city = theirs["city"]
    assert person.there == {-1: (city, ["10.1.0.0", "10.2.0.0"] if choice == "adopt" else ["10.1.0.0"])}
    assert person.upstream.places[-1].as_fields()["areacode"] == "040"


@pytest.mark.parametrize("blocks", [(), ("10.1.0.0/24",)], ids=["without blocks", "with its block"])
def test_a_sheet_that_another_machine_has_pushed_to_a_service_with_capitals_makes_nothing_twice(
    person: Person, home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blocks: tuple[str, ...]
) -> None:
    person.upstream.dials = Dials(capitals=True)
    for state in (home, str(tmp_path / "other")):
        monkeypatch.setenv("GEOLOOKUP_HOME", state)
        person("sync")
        person.creates(*blocks)
    person("push")
    settle()
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    person("push", exits=3)
    assert "`geolookup outbox adopt 1 -1` says that -1 is it" in person.said
    assert list(person.there) == [-1]


def test_a_create_in_another_town_than_what_has_its_block_is_made_without_that(person: Person) -> None:
    person("sync")
    person.creates("10.1.0.0/24", city="Ulm", latitude=48.4)
    theirs = {**ELSEWHERE, "region": "", **BERLIN}
    person.upstream.colleague_creates(theirs, [("10.1.0.0", "10.1.0.255")], who="colleague")
    person("push", exits=3)
    assert "-1 (Berlin, DE with 10.1.0.0-10.1.0.255) has the block" in person.said
    assert person.there == {-1: ("Berlin", ["10.1.0.0"]), -2: ("Ulm", [])}


@pytest.mark.parametrize("wide", [("10.1.0.0", "10.1.1.255"), ("10.1.0.0", "10.1.0.127")], ids=["widened", "narrowed"])
@pytest.mark.parametrize("edit", [(), ("--areacode", "9")], ids=["no edit", "an edit waits"])
def test_a_place_of_which_somebody_widened_or_narrowed_the_only_block_is_itself(
    person: Person, edit: tuple[str, ...], wide: tuple[str, str]
) -> None:
    person("custom", "create", "X", "--block", "10.1.0.0/24", *(f"--{key}={value}" for key, value in BERLIN.items()))
    person.pushes_for_all_to_see()
    if edit:
        person("custom", "update", "X", *edit)
    place = Place(person.upstream.places[-1].fields, frozenset({wide}))
    person.upstream.colleague_changes(-1, place, who="colleague")
    settle()
    person("refresh")
    assert "gone" not in person.said
    assert "had changed" not in person.said
    settle()
    person("refresh")
    answer = json.loads(person("lookup", "10.1.0.1", "--format", "ndjson"))
    assert (answer["site"], answer["areacode"]) == ("X", "9" if edit else "")
    assert person.upstream.places[-1].blocks == {wide}


@pytest.mark.parametrize("lost", ["by a colleague", "by the service"])
def test_what_cannot_be_made_anew_as_another_has_its_block_is_not_offered_so(person: Person, lost: str) -> None:
    person("sync")
    locid = person.creates("10.1.0.0/24")
    person("push")
    if lost == "by a colleague":  # else no list has shown it
        settle()
        person("sync")
    person("custom", "update", locid, "--postalcode", "10115")
    person.upstream.colleague_changes(-1, None, who="colleague")
    number = person.upstream.colleague_creates(TOKYO, [("10.1.0.0", "10.1.0.255")], who="colleague")
    settle()
    person("push", exits=3)
    assert f"{number} (Tokyo, JP with 10.1.0.0-10.1.0.255) has a block of it" in person.said
    assert "outbox drop" in person.said
    assert "outbox retry" not in person.said
    person.upstream.colleague_changes(number, Place(person.upstream.places[number].fields), who="colleague")
    settle()
    person("sync", exits=3)
    edit = min(row["id"] for row in json.loads(person("outbox", "list", "--json")) if row["state"] == "held")
    assert f"`geolookup outbox retry {edit}` creates it anew" in person.said
    person("outbox", "retry", edit)
    person.pushes_for_all_to_see()
    assert sorted(person.there.values()) == [("Berlin", ["10.1.0.0"]), ("Tokyo", [])]
