"""``geolookup custom create NAME --block …`` and `Editor.create`: a site at once, and its coordinates."""

from dataclasses import replace
from pathlib import Path

import pytest

from geolookup.lookup.engine import GeoLookup
from geolookup.model.errors import BlockError, EditError, WideBlockError
from geolookup.model.types import PROVISIONAL_LOCID
from geolookup.sites.plan import apply_sites, export_sites, plan_sites
from geolookup.sites.undo import undo
from geolookup.state.editor import Editor
from tests.cli.edits.test_custom import Command
from tests.cli.edits.test_custom import command as command  # a fixture
from tests.support.data.states import place, publish

FIRST = PROVISIONAL_LOCID - 1
#: Of Berlin's places the middle one has most addresses; of Springfield's regions MO, in two places.
CITIES = """\
first,last,country,region,city,latitude,longitude
198.51.100.0,198.51.100.3,DE,BE,Berlin,52.1,13.1
198.51.100.4,198.51.100.99,DE,BE,Berlin,52.52,13.41
198.51.100.100,198.51.100.101,DE,BE,Berlin,52.3,13.3
203.0.113.0,203.0.113.59,US,IL,Springfield,39.8,-89.6
203.0.113.60,203.0.113.99,US,MO,Springfield,37.2,-93.3
203.0.113.100,203.0.113.149,US,MO,Springfield,37.3,-93.4
203.0.113.150,203.0.113.255,FR,IDF,Paris,,
"""
BERLIN = ("custom", "create", "Berlin office", "--country", "DE", "--city", "berlin")


@pytest.fixture(autouse=True)
def cities(home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    (tmp_path / "cities.csv").write_text(CITIES)
    command("sync", tmp_path / "cities.csv")


def test_an_office_is_one_command_and_known_by_its_name(command: Command, home: str) -> None:
    said = command(*BERLIN, "--block", "10.20.0.0/16", "--block", "10.30.0.5-10.30.0.9")
    assert said == (
        "latitude 52.52, longitude 13.41: those of Berlin, BE, DE in cities\n"
        f"created Berlin office ({FIRST}): 10.20.0.0-10.20.255.255, 10.30.0.5-10.30.0.9 now resolve to it\n"
    )
    command("custom", "add-block", "Berlin office", "10.40.0.0/16")
    with GeoLookup(home) as geo:
        for address in ("10.20.30.40", "10.30.0.9", "10.40.0.1"):
            found = geo.lookup(address)
            assert found is not None
            assert (found.city, found.latitude, found.longitude) == ("berlin", 52.52, 13.41)
    assert command.json("custom", "show", "Berlin office")["site"] == "Berlin office"


def test_its_object_has_locid_name_blocks_and_where_the_coordinates_are_from(command: Command) -> None:
    found = command.json(*BERLIN, "--block", "10.20.0.0/16")
    assert (found["locid"], found["name"]) == (FIRST, "Berlin office")
    assert found["blocks"] == [{"startip": "10.20.0.0", "endip": "10.20.255.255"}]
    assert (found["coordinates_of"]["source"], found["coordinates_of"]["latitude"]) == ("cities", 52.52)
    own = command.json("custom", "create", "--country", "DE", "--latitude", "50", "--longitude", "8")
    assert (own["name"], own["blocks"], own["coordinates_of"]) == (None, [], None)


def test_of_several_regions_the_largest_is_taken_and_the_others_are_named(command: Command) -> None:
    create = ("custom", "create", "--country", "US", "--city", "Springfield")
    assert command(*create).startswith(
        "latitude 37.3, longitude -93.4: those of Springfield, MO, US in cities (also in IL: give --region if that is"
    )
    assert command(*create, "--region", "il").startswith(
        "latitude 39.8, longitude -89.6: those of Springfield, IL, US in cities\n"
    )
    assert command(*create, "--region", "OR").startswith("no coordinates: the default data have none of country US")


def test_without_coordinates_in_the_data_it_has_none_and_can_be_changed_taken_back_and_applied(
    command: Command, home: str
) -> None:
    said = command("custom", "create", "Paris office", "--country", "FR", "--city", "Paris", "--block", "10.1.0.0/16")
    assert said.startswith("no coordinates: the default data have none of country FR, city Paris\n")
    command("custom", "update", "Paris office", "--postalcode", "75001")
    editor = Editor(home)
    sites = export_sites(editor)
    assert [(site.name, site.fields["latitude"]) for site in sites] == [("Paris office", None)]
    assert plan_sites(editor, sites).changes == ()
    command("custom", "delete", "Paris office")
    undo(editor)
    (found,) = editor.custom()
    assert (found.place.latitude, found.place.postalcode) == (None, "75001")
    command("custom", "update", "Paris office", "--latitude", "48.9", exits=2)
    assert "longitude is missing" in command.error


def test_a_service_takes_none_without_and_its_data_are_asked_too(command: Command, home: str) -> None:
    publish(home, [place(1, "8.0.0.0/8", country="DE", city="Bonn", latitude=50.7, longitude=7.1)])
    assert "those of Bonn, DE in " in command("custom", "create", "--country", "DE", "--city", "Bonn")
    command("custom", "create", "--country", "DE", "--city", "Ulm", exits=2)
    assert "latitude and longitude are missing: the service takes no custom geolocation without" in command.error
    assert "have no coordinates of country DE, city Ulm" in command.error


def test_a_name_that_is_taken_or_cannot_be_and_a_block_of_another_change_nothing(command: Command, home: str) -> None:
    command(*BERLIN, "--block", "10.20.0.0/16")
    history = Editor(home).history()
    for arguments, said in (
        (BERLIN, f"there is a site 'Berlin office' already: geolocation {FIRST}"),
        (("custom", "create", " Bonn", "--country", "DE"), "a site's name is one line"),
        (
            ("custom", "create", "Bonn", "--country", "DE", "--block", "10.20.0.0/16"),
            f"belongs to Berlin office ({FIRST})",
        ),
        (("custom", "create", "Bonn", "--block", "10.21.0.0/16"), "a place needs them or a country"),
    ):
        command(*arguments, exits=2)
        assert said in command.error
    assert Editor(home).history() == history
    command("custom", "delete", "Berlin office")
    command(*BERLIN)  # the name is free again


def test_preview_changes_nothing_and_wide_blocks_need_yes_together(command: Command, home: str) -> None:
    said = command(*BERLIN, "--block", "10.20.0.0/16", "--preview")
    assert said.startswith("latitude 52.52, longitude 13.41: those of Berlin")
    assert "65,536 IPv4" in said
    wide = ("--block", "8.0.0.0/8", "--block", "9.0.0.0/8")
    command(*BERLIN, *wide, exits=3)
    assert "2 IPv4 blocks together cover 33,554,432 public addresses" in command.error
    command(*BERLIN, *wide, "--preview")
    assert Editor(home).custom() == []
    command(*BERLIN, *wide, "--yes")
    assert len(Editor(home).custom()[0].place.ipblocks) == 2


def test_the_library_makes_all_of_it_or_nothing_and_one_undo_takes_it_back(home: str) -> None:
    editor = Editor(home)
    locid = editor.create(name="Berlin office", blocks=["10.20.0.0/16"], country="DE", city="Berlin")
    assert editor.sites() == {"Berlin office": locid}
    assert editor.get(locid).place.latitude == 52.52
    with pytest.raises(BlockError):
        editor.create(name="Bonn", blocks=["10.30.0.0/16", "10.20.0.0/16"], country="DE", city="Bonn")
    with pytest.raises(EditError, match="already"):
        editor.create(name="Berlin office", country="DE")
    with pytest.raises(WideBlockError):
        editor.create(name="Bonn", blocks=["8.0.0.0/7"], country="DE")
    assert editor.sites() == {"Berlin office": locid}
    assert len(editor.custom()) == 1
    undo(editor)
    assert editor.custom() == []
    assert editor.create(name="Berlin office", country="DE") != locid  # the name is free again


def test_a_file_leaves_alone_what_only_a_person_named_until_it_has_the_name(home: str) -> None:
    editor = Editor(home)
    editor.create(name="Berlin office", blocks=["10.20.0.0/16"], country="DE", city="Berlin")
    editor.create(name="Bonn office", blocks=["10.30.0.0/16"], country="DE", city="Bonn")
    berlin, bonn = export_sites(editor)
    assert apply_sites(editor, [berlin], file="sites.toml").changes == ()
    assert editor.sites().keys() == {"Berlin office", "Bonn office"}
    paris = replace(berlin, name="Paris office", fields={**berlin.fields, "city": "Paris"}, blocks=())
    apply_sites(editor, [paris], file="sites.toml")  # Berlin was in the file that was applied last
    assert editor.sites().keys() - {"Berlin office"} == {"Bonn office", "Paris office"}
    assert {laid.place.city for laid in editor.custom()} == {"Bonn", "Paris"}
    apply_sites(editor, [bonn], file="sites.toml", prune_all=True)
    assert {laid.place.city for laid in editor.custom()} == {"Bonn"}
