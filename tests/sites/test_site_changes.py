"""Planning and applying a file of sites: the custom layer becomes what the file says, and nothing else changes."""

import contextlib
import itertools
import os
import re
import sqlite3
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from geolookup.lookup.engine import GeoLookup
from geolookup.model.errors import DataFileError, EditError
from geolookup.model.types import FIELD_NAMES, PROVISIONAL_LOCID, IPBlock
from geolookup.sites.file import read_sites, write_sites
from geolookup.sites.plan import apply_sites, export_sites, plan_sites
from geolookup.sites.since import Keep
from geolookup.sites.site import Site
from geolookup.sites.undo import undo
from geolookup.state.editor import Editor
from geolookup.state.edits.outbox import kept, outbox, row
from geolookup.state.publishing.directory import StateDirectory
from tests.state.edits.editing import acknowledge
from tests.support.data.states import place, publish
from tests.support.examples import examples


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)


def site(name: str, *ranges: str, **fields: Any) -> Site:
    members = {**dict.fromkeys(FIELD_NAMES, ""), "city": f"city of {name}", "latitude": 1.5, "longitude": 2.5, **fields}
    blocks = tuple(sorted(IPBlock.parse(*text.split("-")) for text in ranges))
    return Site(name=name, fields=members, blocks=blocks)


@pytest.fixture
def editor(home: str) -> Editor:
    """A state with a default geolocation and one custom, which no file named."""
    publish(home, [place(1, "10.0.0.0/8"), place(-1, "10.9.0.0/16", latitude=0.5, longitude=0.5)])
    return Editor(home)


def apply(editor: Editor, *sites: Site, prune_all: bool = False) -> list[str]:
    """Apply, and check that doing it again does nothing: the steps in words, without locids and contents."""
    planned = plan_sites(editor, list(sites), prune_all=prune_all)
    made = apply_sites(editor, list(sites), file="sites.toml", prune_all=prune_all)
    assert [step.kind for step in planned.changes] == [step.kind for step in made.changes]
    assert made.names.keys() == {each.name for each in sites}
    before = editor.outbox(), editor.history()
    again = apply_sites(editor, list(sites), file="sites.toml", prune_all=prune_all)
    assert again.changes == ()
    assert (editor.outbox(), editor.history()) == before
    return [
        told.partition(":")[0] if told.startswith(("+ create", "- delete")) else told
        for told in (step.describe().replace(f" ({step.locid})", "") for step in made.changes)
    ]


def layer(editor: Editor) -> dict[int, tuple[tuple[Any, ...], tuple[IPBlock, ...]]]:
    return {
        laid.place.locid: (tuple(laid.place.fields().values()), tuple(sorted(laid.place.ipblocks)))
        for laid in editor.custom()
    }


def located(home: str, address: str) -> str | None:
    with GeoLookup(home) as geo:
        found = geo.lookup(address)
    return None if found is None else found.city


# Applying


def test_a_first_apply_creates_and_a_second_changes_blocks_and_fields(editor: Editor, home: str) -> None:
    assert apply(editor, site("a", "10.20.0.0/16"), site("b")) == [
        "+ create a",
        "+ create b",
        "+ add 10.20.0.0/16 to a",
    ]
    assert located(home, "10.20.0.1") == "city of a"
    assert apply(editor, site("a", "10.21.0.0/16", "10.20.0.0/16"), site("b", city="x", region="y")) == [
        "~ update b: region '' -> 'y', city 'city of b' -> 'x'",
        "+ add 10.21.0.0/16 to a",
    ]
    acknowledge(home)
    assert apply(editor, site("a", "10.21.0.0/16"), site("b", city="x", region="y")) == ["- remove 10.20.0.0/16 from a"]
    assert [located(home, f"10.{number}.0.1") for number in (9, 20, 21)] == ["city -1", "city 1", "city of a"]


def test_only_what_an_earlier_file_named_is_deleted_unless_all_is_pruned(editor: Editor) -> None:
    apply(editor, site("a", "10.20.0.0/16"), site("b"))
    by_hand = editor.create(**site("x").fields)
    assert apply(editor, site("b")) == ["- delete a"]
    assert set(layer(editor)) == {-1, by_hand, PROVISIONAL_LOCID - 2}
    assert apply(editor, site("b"), prune_all=True) == ["- delete geolocation", "- delete geolocation"]
    assert set(layer(editor)) == {PROVISIONAL_LOCID - 2}
    assert apply(editor) == ["- delete b"]
    assert layer(editor) == {}


def test_a_block_moves_from_one_site_to_another_by_a_removal_and_then_an_addition(editor: Editor, home: str) -> None:
    apply(editor, site("a", "10.20.0.0/16"), site("b", "10.21.0.0/16"), site("c", "10.22.0.0/16"))
    acknowledge(home)
    done = len(editor.outbox())
    apply(editor, site("a", "10.21.0.0/16"), site("b", "10.20.0.0/16", "10.22.0.0/16"))
    operations = [row.operation for row in editor.outbox() if row.id > done]
    assert operations == ["delete", "remove_block", "remove_block", "add_block", "add_block", "add_block"]


def test_where_no_block_of_several_stays_they_are_cleared_at_once(editor: Editor, home: str) -> None:
    apply(editor, site("a", "10.20.0.0/16", "10.21.0.0/16"))
    acknowledge(home)
    assert apply(editor, site("a", "10.22.0.0/16")) == ["- remove all networks of a", "+ add 10.22.0.0/16 to a"]


def test_a_site_whose_geolocation_was_deleted_by_hand_is_created_again(editor: Editor) -> None:
    apply(editor, site("a", "10.20.0.0/16"))
    editor.delete(editor.sites()["a"])
    assert apply(editor, site("a", "10.20.0.0/16")) == ["+ create a", "+ add 10.20.0.0/16 to a"]


def test_names_survive_the_services_own_locids(editor: Editor, home: str) -> None:
    apply(editor, site("a", "10.20.0.0/16"))
    acknowledge(home, p1=-7)
    publish(home, [place(1, "10.0.0.0/8"), place(-7, "10.20.0.0/16", **site("a").fields)])
    assert apply(editor, site("a", "10.20.0.0/16")) == []
    assert apply(editor, site("a", "10.20.0.0/16", city="x")) == ["~ update a: city 'city of a' -> 'x'"]
    acknowledge(home)
    assert apply(editor) == ["- delete a"]
    assert layer(editor) == {}


# Claims


def test_on_a_fresh_machine_a_name_claims_what_equals_it_and_edits_only_what_differs(editor: Editor, home: str) -> None:
    fields = site("a").fields
    publish(home, [place(-3, "10.20.0.0/16", "10.22.0.0/16", **fields), place(-4, **{**fields, "areacode": "1"})])
    assert apply(editor, site("a", "10.20.0.0/16", "10.21.0.0/16")) == [
        "= a is there already",
        "- remove 10.22.0.0/16 from a",
        "+ add 10.21.0.0/16 to a",
    ]
    assert editor.sites() == {"a": -3}
    acknowledge(home)
    assert apply(editor) == ["- delete a"], "what a name claimed is the file's from then on"


@pytest.mark.parametrize("differing", FIELD_NAMES)
def test_what_differs_in_any_field_is_not_claimed(editor: Editor, home: str, differing: str) -> None:
    publish(home, [place(-3, **{**site("a").fields, differing: 3.5 if "itude" in differing else "other"})])
    assert apply(editor, site("a")) == ["+ create a"]


@pytest.mark.parametrize("blocks", [("10.21.0.0/16",), ()])
def test_a_new_site_takes_no_network_of_another_branch_in_its_town(
    editor: Editor, home: str, blocks: tuple[str, ...]
) -> None:
    publish(home, [place(-3, "10.20.0.0/16", **site("a").fields)])
    plan = apply_sites(editor, [site("a", *blocks)], file="sites.toml")
    assert [each.kind for each in plan.changes] == ["create", *("add_block" for _ in blocks)]
    (note,) = (each for each in plan.notes if "-3" in each)
    assert note.startswith("a is a new site, though it is equal in all fields to geolocation -3 (10.20.0.0/16)")
    assert note.endswith("--take a=-3 says that it is that one")


def test_what_a_file_that_only_adds_does_not_name_keeps_its_name(editor: Editor) -> None:
    apply(editor, site("a"))
    locid = editor.sites()["a"]
    new = site("new", city="city of a")
    apply_sites(editor, [new], file="more.toml", keep=Keep(sites={}, absent=True))
    assert editor.sites()["a"] == locid
    assert editor.sites().keys() == {"a", "new"}


def test_two_equal_geolocations_are_an_error_that_names_them_and_changes_nothing(editor: Editor, home: str) -> None:
    fields = site("a").fields
    publish(home, [place(number, **fields) for number in (-3, -4, -5)])
    for attempt in ([site("a")], [site("a"), site("b", **fields)], [site("c"), site("a")]):
        with pytest.raises(DataFileError, match=r"equal in all fields to 3 geolocations: -3 .*, -4 .*Which one is it"):
            apply_sites(editor, attempt, file="sites.toml")
    assert editor.pending() == []
    assert editor.sites() == {}


def test_two_equal_geolocations_are_told_apart_where_the_file_describes_both_exactly(editor: Editor, home: str) -> None:
    fields = site("a").fields
    publish(home, [place(-3, "10.20.0.0/16", **fields), place(-4, **fields)])
    apply(editor, site("x", **fields), site("y", "10.20.0.0/16", **fields))
    assert editor.sites() == {"x": -4, "y": -3}
    assert editor.pending() == []


def test_of_two_equal_sites_the_one_with_the_same_blocks_claims_and_the_other_is_created(
    editor: Editor, home: str
) -> None:
    fields = site("a").fields
    publish(home, [place(-3, "10.20.0.0/16", **fields)])
    assert apply(editor, site("x", **fields), site("y", "10.20.0.0/16", **fields)) == [
        "= y is there already",
        "+ create x",
    ]


def test_a_renamed_site_keeps_its_geolocation(editor: Editor) -> None:
    apply(editor, site("a", "10.20.0.0/16"), site("b"))
    locid = editor.sites()["a"]
    assert apply(editor, site("new", "10.20.0.0/16", city="city of a"), site("b")) == [
        "= new is there already, named a until now"
    ]
    assert editor.sites()["new"] == locid


def test_names_may_be_exchanged(editor: Editor) -> None:
    apply(editor, site("a", "10.20.0.0/16"), site("b"))
    before = editor.sites()
    apply(editor, site("a", city="city of b"), site("b", "10.20.0.0/16", city="city of a"))
    assert editor.sites() == before, "a name stays where it is: its fields and blocks are edited"


def test_a_place_that_was_named_by_hand_is_not_taken_for_an_unsent_one(editor: Editor, home: str) -> None:
    publish(home, [place(-3, "10.20.0.0/16", **site("a").fields)])
    editor.rename(-3, "a")
    made = editor.create(name="x", blocks=["10.30.0.0/16"], country="DE", latitude=1.0, longitude=2.0)
    with pytest.raises(DataFileError, match=r"10\.20\.0\.0/16 belongs to custom geolocation -3"):
        apply_sites(editor, [site("x", "10.20.0.0/16", **site("a").fields)], file="sites.toml")
    assert editor.sites() == {"a": -3, "x": made}


# Refusals


def test_a_site_that_cannot_be_made_so_changes_nothing(editor: Editor, tmp_path: Any) -> None:
    apply(editor, site("a", "10.20.0.0/16"))
    editor.create(name="by hand", blocks=["10.99.0.0/16"], country="DE", latitude=1.0, longitude=2.0)
    before = layer(editor), editor.outbox(), editor.sites()
    path = tmp_path / "sites.toml"
    bad = site("b", "10.99.0.0/16"), site("b", latitude=None), site("b", latitude=91.0), site("b", city="x" * 1001)
    reasons = (
        r"line 19: site 'b': 10.99.0.0/16 belongs to custom geolocation -\d+, which no file",
        r"line \d+: site 'b': latitude is missing",
        r"line \d+: site 'b': latitude is a number of degrees from -90 to 90, not 91.0",
        r"line \d+: site 'b': city has 1001 characters",
    )
    for wrong, reason in zip(bad, reasons, strict=True):
        path.write_text(write_sites([wrong, site("a"), site("c")], "toml").replace("# The", "\n\n\n\n\n# The"))
        for act in (plan_sites, lambda editor, sites: apply_sites(editor, sites, file="x")):
            with pytest.raises(DataFileError, match=reason):
                act(editor, read_sites(str(path)))
    assert (layer(editor), editor.outbox(), editor.sites()) == before


def test_an_apply_is_published_once_and_one_that_fails_halfway_leaves_nothing(
    editor: Editor, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_given: object, **_more: object) -> None:
        raise EditError("of the test")

    before, sequence = layer(editor), StateDirectory(home).open().current.sequence
    sites = [site("a", "10.20.0.0/16"), site("b", "10.21.0.0/16")]
    with monkeypatch.context() as broken:
        broken.setattr(editor, "add_block", refuse)
        with pytest.raises(DataFileError, match="site 'a': of the test"):
            apply_sites(editor, [replace(each, where=replace(each.where, name=each.name)) for each in sites], file="x")
    assert (layer(editor), editor.outbox(), editor.history()) == (before, [], [])
    assert StateDirectory(home).open().current.sequence == sequence
    apply_sites(editor, sites, file="x")
    assert StateDirectory(home).open().current.sequence == sequence + 1


def test_a_block_of_a_geolocation_that_goes_in_the_same_apply_is_free(editor: Editor) -> None:
    apply(editor, site("a", "10.20.0.0/16"))
    by_hand = {"blocks": ["10.99.0.0/16"], "country": "DE", "latitude": 1.0, "longitude": 2.0}
    editor.create(name="by hand", **by_hand)
    assert apply(editor, site("b", "10.20.0.0/16", "10.99.0.0/16"), prune_all=True) == [
        "- delete geolocation",
        "- delete a",
        "- delete by hand",
        "+ create b",
        "+ add 10.20.0.0/16 to b",
        "+ add 10.99.0.0/16 to b",
    ]


def test_a_second_machine_takes_the_services_geolocations_by_their_blocks(editor: Editor, home: str) -> None:
    publish(home, [place(-3, "10.20.0.0/16", city="Koeln"), place(-4, "10.21.0.0/16", "10.22.0.0/16", city="Bonn")])
    apply(editor, site("a", "10.20.0.0/16"), site("b", "10.21.0.0/16", "10.22.0.0/16", "10.23.0.0/16"))
    assert editor.sites() == {"a": -3, "b": -4}
    assert {locid: len(blocks) for locid, (_, blocks) in layer(editor).items()} == {-3: 1, -4: 3}


def test_a_site_that_fits_two_by_blocks_is_asked_for_and_a_person_says_which(editor: Editor, home: str) -> None:
    publish(home, [place(-3, "10.20.0.0/16", city="x"), place(-4, "10.21.0.0/16", city="y")])
    sites = [site("a", "10.20.0.0/16", "10.21.0.0/16")]
    with pytest.raises(
        DataFileError, match=r"'a' shares .* with 2 geolocations: -3 \(10.20.0.0/16\), -4 \(10.21.0.0/16\)"
    ):
        plan_sites(editor, sites)
    plan = plan_sites(editor, sites, takes={"a": -4}, prune_all=True)
    assert plan.names == {"a": -4}
    assert [str(change.kind) for change in plan.changes] == ["claim", "delete", "update", "add_block"]


def test_a_plan_changes_nothing(editor: Editor) -> None:
    plan_sites(editor, [site("a", "10.20.0.0/16")], prune_all=True)
    assert (set(layer(editor)), editor.outbox(), editor.sites()) == ({-1}, [], {})


# Any file after any file, and exports

RANGES = ["10.0.0.0/28", "10.0.0.4-10.0.0.9", "10.0.0.5", "2001:db8::/64", "::1", "10.0.1.0/24"]


@st.composite
def files(draw: st.DrawFn) -> list[Site]:
    """Sites with few names, places and blocks, so that they meet."""
    names = draw(st.lists(st.sampled_from("abcd"), max_size=4, unique=True))
    ranges = draw(st.permutations(RANGES))
    cuts = sorted(draw(st.lists(st.integers(0, len(RANGES)), min_size=len(names), max_size=len(names))))
    return [
        site(name, *ranges[begin:end], city=draw(st.sampled_from(("p", "q", "r"))))
        for name, (begin, end) in zip(names, itertools.pairwise([0, *cuts]), strict=True)
    ]


@contextlib.contextmanager
def fresh(places: Any = ()) -> Iterator[Editor]:
    with tempfile.TemporaryDirectory() as home:
        publish(home, [place(1, "10.0.0.0/8"), *places])
        yield Editor(home)


def problem_with(editor: Editor, sites: list[Site]) -> str | None:
    try:
        plan_sites(editor, sites)
    except DataFileError as error:
        return str(error)
    return None


def by_name(editor: Editor) -> dict[str, Any]:
    names = {locid: name for name, locid in editor.sites().items()}
    return {names[locid]: found for locid, found in layer(editor).items() if locid in names}


def wanted(sites: list[Site]) -> dict[str, Any]:
    return {each.name: (tuple(each.fields[name] for name in FIELD_NAMES), each.blocks) for each in sites}


@examples(15)
@given(st.lists(files(), min_size=2, max_size=3))
def test_after_any_files_the_layer_is_what_the_last_one_says(many: list[list[Site]]) -> None:
    with fresh([place(-1, "172.16.0.0/12", city="foreign")]) as editor:
        foreign = layer(editor)
        for sites in many:
            problem = problem_with(editor, sites)
            if problem is not None:
                # Renamed among equals: which became which cannot be told, and is for a person.
                assert "equal in all fields" in problem
                continue
            apply(editor, *sites)
            assert by_name(editor) == wanted(sites)
            assert layer(editor).items() >= foreign.items()
            assert len(layer(editor)) == 1 + len(sites)


MOMENT = re.compile(r"[0-9T:.-]{23}Z")


@examples(15)
@given(files(), files(), st.sampled_from(["toml", "csv"]))
@example([site("a", city="p"), site("b", city="p")], [], "toml")
def test_an_export_applied_changes_nothing_here_and_on_a_fresh_machine(
    named: list[Site], others: list[Site], form: Any
) -> None:
    taken = {block for each in named for block in each.blocks}
    places = [
        place(-number, *(f"{b.startip}-{b.endip}" for b in each.blocks if b not in taken), **each.fields)
        for number, each in enumerate(others, start=1)
    ]
    with fresh(places) as editor, tempfile.TemporaryDirectory() as folder:
        with contextlib.suppress(DataFileError):
            apply(editor, *named)
        path = os.path.join(folder, f"sites.{form}")
        text = write_sites(export_sites(editor), form)
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        before, pending = layer(editor), editor.outbox()
        copies = [
            place(
                -500 - number,
                *(f"{block.startip}-{block.endip}" for block in blocks),
                **dict(zip(FIELD_NAMES, fields, strict=True)),
            )
            for number, (fields, blocks) in enumerate(before.values())
        ]
        made = apply_sites(editor, read_sites(path), file=path)
        assert made.edits == ()
        assert (layer(editor), editor.outbox()) == (before, pending)
        # Of another moment, if the names of what no file had named are known by now.
        assert MOMENT.sub("", write_sites(export_sites(editor), form)) == MOMENT.sub("", text)
        assert apply_sites(editor, read_sites(path), file=path, prune_all=True).changes == ()
        with fresh(copies) as there:
            expected = layer(there)
            assert apply_sites(there, read_sites(path), file=path, prune_all=True).edits == ()
            assert layer(there) == expected
            assert there.outbox() == []
        with fresh() as empty:
            apply_sites(empty, read_sites(path), file=path)
            assert sorted(layer(empty).values(), key=repr) == sorted(before.values(), key=repr)


def test_an_exported_name_is_made_of_city_and_country_and_of_the_locid_where_that_is_not_enough(
    editor: Editor, home: str
) -> None:
    cities = {-2: "Bonn\x1b[31m", -3: "Ulm", -4: "Ulm", -5: ""}
    publish(home, [place(locid, country="DE", **{"city": city} if city else {}) for locid, city in cities.items()])
    with StateDirectory(home).edits.transaction():
        pass
    apply(editor, site("Ulm DE -4"))
    names = {each.name: each.fields["city"] for each in export_sites(editor)}
    assert names == {
        "Bonn[31m DE": "Bonn\x1b[31m",
        "Ulm DE -3": "Ulm",
        "Ulm DE -4": "city of Ulm DE -4",
        "Ulm DE -4 (2)": "Ulm",
        "city -5 DE": "city -5",
    }
    assert editor.sites().keys() == {"Ulm DE -4"}, "exporting records nothing"


def test_an_apply_of_few_changes_reads_each_edit_once_and_the_blocks_of_a_site_are_written_once(
    editor: Editor, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [site(f"Site {n}", *(f"10.{n}.{block}.0-10.{n}.{block}.255" for block in range(40))) for n in range(20, 25)]
    apply_sites(editor, many, file="sites.toml")
    rows = len(editor.outbox())
    assert rows == 5 * 41
    lines = [line for line in StateDirectory(home).edits.history() if line["what"] == "create"]
    assert [len(line["after"]["blocks"]) for line in lines] == [40] * 5, "a site's line has all that it got"
    assert not [line for line in StateDirectory(home).edits.history() if line["what"] == "add_block"]
    with contextlib.closing(sqlite3.connect(os.path.join(home, "edits.db"))) as database:
        ((longest,),) = database.execute("SELECT max(length(json_extract(intent, '$.base'))) FROM outbox").fetchall()
    assert longest < 300, "an edit has no blocks that the same apply gave"
    read = []
    real = row.read_row
    for module in (kept, outbox):
        monkeypatch.setattr(module, "read_row", lambda found: read.append(found[0]) or real(found))
    few = [replace(many[0], fields={**many[0].fields, "city": "Bonn"}), *many[1:]]
    made = apply_sites(Editor(home), few, file="sites.toml")
    assert [change.kind for change in made.changes] == ["update"]
    assert len(read) <= rows + 1
    undo(Editor(home))
    assert not plan_sites(Editor(home), many).changes


def test_a_site_is_not_said_to_be_what_another_one_of_the_file_is(editor: Editor, home: str) -> None:
    sites = [site("a", "10.1.0.0/24", city="x"), site("b", "10.2.0.0/24", city="y")]
    apply_sites(editor, sites, file="sites.toml")
    with pytest.raises(DataFileError, match="no free geolocation"):
        plan_sites(editor, sites, takes={"a": editor.sites()["b"]})
