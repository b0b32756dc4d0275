"""The editor: what it refuses, a damaged edits.db, names of sites, and what a person decides."""

import contextlib
import os
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import geolookup
from geolookup.cli.app import run
from geolookup.lookup.engine import GeoLookup
from geolookup.model.errors import (
    BlockError,
    DefaultGeolocationError,
    EditError,
    EditsDamagedError,
    GeoLookupError,
    InvalidAddressError,
    InvalidRangeError,
    NoStateError,
    StateDamagedError,
    StateTooNewError,
    StateUnwritableError,
    UnknownGeolocationError,
)
from geolookup.model.types import PROVISIONAL_LOCID
from geolookup.sites.undo import undo
from geolookup.state.editor import Editor
from geolookup.state.edits.outbox.row import State
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.restore import restore
from tests.state.edits.editing import BERLIN, DEFAULTS, acknowledge, content, located, put
from tests.support.data.states import place, publish


@pytest.fixture
def editor(home: str) -> Editor:
    """An editor of a state with two default geolocations and one custom."""
    publish(home, [*DEFAULTS, place(-1, "10.9.0.0/16", latitude=1.0, longitude=2.0)])
    return Editor(home)


# Refusals


def refused(editor: Editor) -> Iterator[tuple[str, type[GeoLookupError], Any]]:
    yield "a default geolocation", DefaultGeolocationError, lambda: editor.update(1, city="x")
    yield "a default geolocation", DefaultGeolocationError, lambda: editor.delete(2)
    yield "a default geolocation", DefaultGeolocationError, lambda: editor.add_block(1, "10.1.0.0/16")
    yield "a default geolocation", DefaultGeolocationError, lambda: editor.replace_block(1, "10.0.0.0/8", None, "::1")
    yield "a default geolocation", DefaultGeolocationError, lambda: editor.remove_block(1, "10.0.0.0/8")
    yield "a default geolocation", DefaultGeolocationError, lambda: editor.clear_blocks(1)
    yield "an unknown one", UnknownGeolocationError, lambda: editor.update(-9, city="x")
    yield "an unknown one", UnknownGeolocationError, lambda: editor.delete(-9)
    yield "an unknown one", UnknownGeolocationError, lambda: editor.add_block(0, "10.1.0.0/16")
    yield "an unknown one", UnknownGeolocationError, lambda: editor.clear_blocks(PROVISIONAL_LOCID - 1)
    yield "no field", EditError, lambda: editor.update(-1, town="x")
    yield "a change that is none", EditError, lambda: editor.update(-1, city="city -1")
    yield "text of a number", EditError, lambda: editor.update(-1, postalcode=10115)
    yield "too much text", EditError, lambda: editor.update(-1, city="x" * 1001)
    yield "half a character", EditError, lambda: editor.update(-1, city="\ud800")
    for degrees in (90.5, float("nan"), "north", True, None):
        yield "no latitude", EditError, lambda degrees=degrees: editor.update(-1, latitude=degrees)
    yield "no longitude", EditError, lambda: editor.create(**{**BERLIN, "longitude": -180.1})
    yield "a block it has", BlockError, lambda: editor.add_block(-1, "10.9.0.0", "10.9.255.255")
    yield "another's block", BlockError, lambda: editor.add_block(-2, "10.9.0.0/16")
    yield "another's block", BlockError, lambda: editor.replace_block(-2, "10.3.0.0/16", None, "10.9.0.0/16")
    yield "a block it lacks", BlockError, lambda: editor.remove_block(-1, "10.9.0.0/17")
    yield "a block it lacks", BlockError, lambda: editor.replace_block(-1, "10.3.0.0/16", None, "10.4.0.0/16")
    yield "host bits", InvalidRangeError, lambda: editor.add_block(-1, "10.9.0.1/16")
    yield "ends out of order", InvalidRangeError, lambda: editor.add_block(-1, "10.9.0.2", "10.9.0.1")
    yield "no address", InvalidAddressError, lambda: editor.add_block(-1, "10.9.0")
    yield "no such edit", EditError, lambda: editor.edit(7)


def test_what_cannot_be_is_refused_and_changes_nothing(editor: Editor, home: str) -> None:
    publish(home, [*DEFAULTS, place(-1, "10.9.0.0/16", latitude=1.0, longitude=2.0), place(-2, "10.3.0.0/16")])
    before = content(editor)
    for what, kind, attempt in refused(editor):
        with pytest.raises(GeoLookupError) as caught:
            attempt()
        assert type(caught.value) is kind, what
    assert content(editor) == before


def test_a_country_in_words_is_refused_as_by_the_commands_and_not_what_is_there_already(
    editor: Editor, home: str
) -> None:
    said = "its country 'Germany' is not a code of two letters: write DE"
    with pytest.raises(EditError, match=said):
        editor.create(**{**BERLIN, "country": "Germany"})
    with pytest.raises(EditError, match=said):
        editor.update(-1, country="Germany")
    locid = editor.create(**{**BERLIN, "country": "de"})
    with pytest.raises(EditError, match=said):
        editor.amend(1, fields={"country": "Germany"})
    editor.update(locid, country="")
    # What the service sent may stay, is edited elsewhere, and comes back with an undo.
    before = place(-1, "10.9.0.0/16", country="Germany", latitude=1.0, longitude=2.0)
    publish(home, [*DEFAULTS, before])
    editor.update(-1, country="Germany", city="Bonn")
    editor.update(-1, country="DE")
    acknowledge(home)  # what was sent is not taken back: its reverse is made
    undo(editor)
    assert editor.get(-1).place.country == "Germany"
    editor.delete(-1)
    acknowledge(home)
    undo(editor)
    assert [laid.place.country for laid in editor.custom()].count("Germany") == 1


def test_a_refusal_names_the_geolocation_and_what_is_in_the_way(editor: Editor) -> None:
    with pytest.raises(DefaultGeolocationError, match=r"geolocation 1 is a default one.*create a custom one"):
        editor.delete(1)
    with pytest.raises(BlockError, match=r"-1 has no block 10\.9\.0\.0-10\.9\.0\.255: it has 10\.9\.0\.0-10\.9\.255"):
        editor.remove_block(-1, "10.9.0.0/24")
    locid = editor.create(**BERLIN)
    with pytest.raises(BlockError, match="belongs to custom geolocation -1"):
        editor.add_block(locid, "10.9.0.0/16")
    named = editor.create(name="Depot", blocks=["10.7.0.1", "10.7.0.2"], **BERLIN)
    before = editor.custom()
    told = f"10.7.0.1 and 10.7.0.2 belong to Depot ({named}); 10.9.0.0-10.9.255.255 belongs to custom geolocation -1: "
    with pytest.raises(BlockError, match=re.escape(told)) as caught:
        editor.create(blocks=["10.7.0.1", "10.6.0.1", "10.9.0.0/16", "10.7.0.2"], **BERLIN)
    assert [*caught.value.owners.values()] == [named, -1, named]
    with pytest.raises(BlockError, match=r"has 10\.6\.0\.1 already"):
        editor.create(blocks=["10.6.0.1", "10.6.0.1"], **BERLIN)
    assert editor.custom() == before


def test_blocks_may_nest_and_cross_those_of_other_geolocations(editor: Editor, home: str) -> None:
    locid = editor.create(**BERLIN)
    for first, last in (("10.9.1.0", "10.9.1.255"), ("10.8.0.0", "10.9.0.255"), ("10.0.0.0", "10.255.255.255")):
        editor.add_block(locid, first, last)
    assert [located(home, address) for address in ("10.9.1.1", "10.9.0.1", "10.9.2.1", "10.1.1.1")] == [
        locid,
        -1,
        -1,
        locid,
    ]


def test_clearing_blocks_tells_how_many_there_were_and_queues_nothing_for_none(editor: Editor) -> None:
    editor.add_block(-1, "10.20.0.0/16")
    assert editor.clear_blocks(-1) == 2
    assert editor.clear_blocks(-1) == 0
    assert [row.operation for row in editor.pending()] == ["add_block", "clear_blocks"]


def test_replacing_a_block_moves_lookups(editor: Editor, home: str) -> None:
    old, new = editor.replace_block(-1, "10.9.0.0/16", None, "10.20.0.5", "10.20.0.9")
    assert (str(old), str(new)) == ("10.9.0.0-10.9.255.255", "10.20.0.5-10.20.0.9")
    assert [located(home, address) for address in ("10.9.0.1", "10.20.0.5", "10.20.0.10")] == [1, -1, 1]


# edits.db itself


def test_with_a_damaged_file_lookups_go_on_and_the_message_restores_the_backup(
    editor: Editor, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor.add_block(-1, "10.20.0.0/16")
    editor._directory.edits.back_up()
    editor.add_block(-1, "10.21.0.0/16")
    path = Path(home, "edits.db")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as interrupted:
        interrupted.execute("PRAGMA synchronous = off")  # so that its journal is valid before it is synced
        interrupted.execute("BEGIN")
        interrupted.execute("UPDATE outbox SET problem = 'x'")
        interrupted.execute("UPDATE counters SET value = 7")
        journal = path.with_name("edits.db-journal").read_bytes()
    path.write_bytes(b"\x11" * path.stat().st_size)
    with GeoLookup(home) as geo:
        status, explained = geo.status(), geo.explain("10.9.0.1")
        assert (status.pending_edits, "edits.db" in str(status.problem)) == (None, True)
        assert explained.match is not None
        assert "cannot be read" in explained.edits[0]
    with GeoLookup(home) as geo, geo.edit() as damaged:
        with pytest.raises(
            StateDamagedError, match=r"edits\.db.*lookups go on.*puts the newest backup in its place"
        ) as caught:
            damaged.add_block(-1, "10.22.0.0/16")
        assert [geo.lookup(f"10.{number}.0.1").locid for number in (20, 21, 22)] == [-1, -1, 1]  # type: ignore[union-attr]
        command = str(caught.value).split("`")[1]
        path.with_name("edits.db-journal").write_bytes(journal)  # as a process that was killed leaves it
        monkeypatch.setenv("GEOLOOKUP_HOME", home)
        backups = [path.with_name(f"edits.backup.{number}.db") for number in (1, 2)]
        backups[1].replace(backups[0])  # from before the last edit
        assert run(command.split()[1:]) == 3  # it names what lookups lose
        damaged.add_block(-1, "10.22.0.0/16")
        assert [geo.lookup(f"10.{number}.0.1").locid for number in (20, 21, 22)] == [-1, 1, -1]  # type: ignore[union-attr]


@pytest.mark.parametrize("value", ["nonsense", 2**40, 1.5, b"\xff"])
def test_a_changed_number_of_the_services_is_an_error_of_ours(editor: Editor, home: str, value: object) -> None:
    editor.create(**BERLIN)
    acknowledge(home, p1=-7)
    with contextlib.closing(sqlite3.connect(Path(home, "edits.db"))) as database:
        database.execute("UPDATE places SET number = ? WHERE number = -7", (value,))
        database.commit()
    with pytest.raises(EditsDamagedError, match=r"places .* is damaged.*geolookup outbox restore"):
        editor.add_block(-1, "10.20.0.0/16")


@pytest.mark.parametrize("column", ["seen", "made", "before"])
def test_a_changed_counter_of_a_place_is_an_error_of_ours(editor: Editor, home: str, column: str) -> None:
    editor.create(**BERLIN)
    path = Path(home, "edits.db")
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute(f"UPDATE places SET {column} = ?", (b"\xff",))
        database.commit()
    with pytest.raises(EditsDamagedError, match=rf"places .* is damaged \({column} is not a number\)"):
        restore(StateDirectory(home), str(path))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("intent", "3"),
        ("intent", "[]"),
        ("stored", '{"city": [1]}'),
        ("locid", "nonsense"),
        ("attempts", "often"),
        ("created_at", b"2026"),
        ("acknowledged_at", b"2026"),
        ("concluded", "first"),
    ],
)
def test_a_column_of_an_edit_that_is_nothing_we_write_is_an_error_that_names_it(
    editor: Editor, home: str, column: str, value: object
) -> None:
    editor.create(**BERLIN)
    with contextlib.closing(sqlite3.connect(Path(home, "edits.db"))) as database:
        database.execute(f"UPDATE outbox SET {column} = ?", (value,))
        database.commit()
    with pytest.raises(EditsDamagedError, match=rf"edit 1 is damaged \({column}\b.*geolookup outbox restore"):
        editor.pending()


def test_without_a_backup_the_message_lets_one_begin_anew(
    editor: Editor, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(home, "edits.db")
    path.write_bytes(b"no database" * 500)
    with pytest.raises(StateDamagedError) as caught:
        editor.add_block(-1, "10.20.0.0/16")
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    assert run(str(caught.value).split("`")[3].split()[1:]) == 0
    editor.add_block(-1, "10.20.0.0/16")
    assert located(home, "10.20.0.1") == -1


def test_damage_elsewhere_is_not_blamed_on_the_edits(editor: Editor, home: str) -> None:
    cache = Path(home, "generations", "000001", "cache.db")
    cache.write_bytes(b"\x11" * cache.stat().st_size)
    with pytest.raises(StateDamagedError, match=r"cache\.db") as caught:
        editor.add_block(-1, "10.20.0.0/16")
    assert "cp " not in str(caught.value)


def test_a_file_of_a_newer_release_is_refused_untouched_and_lookups_go_on(editor: Editor, home: str) -> None:
    editor.add_block(-1, "10.20.0.0/16")
    path = Path(home, "edits.db")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 999")
    before = path.read_bytes()
    with pytest.raises(StateTooNewError, match="schema 999"):
        editor.add_block(-1, "10.21.0.0/16")
    assert path.read_bytes() == before
    assert located(home, "10.20.0.1") == -1


def test_a_directory_that_cannot_be_written_refuses_the_edit(editor: Editor, home: str) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    os.chmod(home, 0o500)
    try:
        with pytest.raises(StateUnwritableError):
            editor.add_block(-1, "10.20.0.0/16")
    finally:
        os.chmod(home, 0o700)
    assert located(home, "10.20.0.1") == 1


def test_a_state_where_nothing_was_published_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoStateError, match="geolookup sync"):
        Editor(str(tmp_path / "empty")).create(**BERLIN)


def test_an_editor_makes_no_state_and_edits_the_bundled_data_that_a_command_published(
    default_home: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(NoStateError, match="geolookup sync"):
        geolookup.open_editor()
    assert not os.path.exists(default_home)
    assert run(["8.8.8.8"]) == 0
    with geolookup.open_editor(default_home) as editor:
        locid = editor.create(**BERLIN)
        editor.add_block(locid, "8.8.8.0/24")
    with geolookup.open(default_home) as geo:
        assert [geo.lookup(address).country for address in ("8.8.8.8", "8.8.4.4")] == ["DE", "US"]  # type: ignore[union-attr]


# Names of sites, and geolocations that are gone


def test_names_of_sites_follow_the_services_locids_and_replace_each_other(editor: Editor, home: str) -> None:
    locid = editor.create(**BERLIN)
    editor.keep_sites({"berlin": locid, "one": -1}, file="a.toml")
    acknowledge(home, p1=-7)
    publish(home, [*DEFAULTS, place(-1, "10.9.0.0/16"), place(-7, **BERLIN)])
    assert Editor(home).sites() == {"berlin": -7, "one": -1}
    editor.keep_sites({"one": -7}, file="b.toml")
    assert editor.sites() == {"one": -7}
    with pytest.raises(UnknownGeolocationError):
        editor.keep_sites({"x": -99}, file="b.toml")
    assert editor.sites() == {"one": -7}


def test_gone_is_what_only_pending_edits_still_hold(editor: Editor, home: str) -> None:
    created = editor.create(**BERLIN)
    editor.add_block(created, "10.20.0.0/16")
    editor.add_block(-1, "10.21.0.0/16")
    assert editor.gone() == []
    publish(home, DEFAULTS)
    assert editor.gone() == [-1]
    assert located(home, "10.21.0.1") == -1, "until a person decides, the edit shows as it was meant"


# A person's decisions


def test_an_edit_that_waits_for_a_person_goes_on_once_retried(editor: Editor, home: str) -> None:
    editor.add_block(-1, "10.20.0.0/16")
    with pytest.raises(EditError, match="does not wait"):
        editor.retry(1)
    for state in (State.HELD, State.REJECTED):
        put(home, 1, state)
        row = editor.retry(1)
        assert (row.state, row.problem) == (State.QUEUED, None)


def test_a_dropped_edit_is_out_of_lookups_at_once(editor: Editor, home: str) -> None:
    editor.add_block(-1, "10.20.0.0/16")
    editor.add_block(-1, "10.21.0.0/16")
    with GeoLookup(home) as geo:
        assert [row.id for row in editor.drop(1)] == [1]
        assert [geo.lookup(f"10.{number}.0.1").locid for number in (20, 21)] == [1, -1]  # type: ignore[union-attr]
    with pytest.raises(EditError, match="dropped"):
        editor.drop(1)


def test_dropping_a_create_drops_all_edits_of_that_geolocation_and_no_others(editor: Editor, home: str) -> None:
    locid = editor.create(**BERLIN)
    editor.add_block(locid, "10.20.0.0/16")
    editor.add_block(-1, "10.21.0.0/16")
    put(home, 1, State.REJECTED)
    assert [row.id for row in editor.drop(1)] == [1, 2]
    assert [row.id for row in editor.pending()] == [3]
    assert [located(home, f"10.{number}.0.1") for number in (20, 21)] == [1, -1]


def test_a_create_that_was_dropped_in_a_transaction_takes_no_more_edits_in_it(editor: Editor, home: str) -> None:
    locid = editor.create(**BERLIN)
    before = content(editor)

    def drop_and_go_on() -> None:
        with editor.transaction():
            editor.drop(1)
            editor.add_block(locid, "10.20.0.0/16")

    with pytest.raises(UnknownGeolocationError):
        drop_and_go_on()
    assert content(editor) == before
    with editor.transaction():
        editor.drop(1)
        editor.add_block(-1, "10.20.0.0/16")
    assert [laid.place.locid for laid in editor.custom()] == [-1]
    assert located(home, "10.20.0.1") == -1


def test_a_block_is_free_again_in_the_transaction_that_drops_its_edit(editor: Editor, home: str) -> None:
    locid = editor.create(**BERLIN)
    editor.add_block(-1, "10.20.0.0/16")
    with editor.transaction():
        editor.add_block(locid, "10.21.0.0/16")  # by now the transaction knows who has which block
        editor.drop(2)
        editor.add_block(locid, "10.20.0.0/16")
    assert located(home, "10.20.0.1") == locid


def test_an_adopted_create_has_its_new_number_in_the_same_transaction(editor: Editor, home: str) -> None:
    publish(home, [*DEFAULTS, place(-1, "10.9.0.0/16"), place(-7, **BERLIN)])
    locid = editor.create(**BERLIN)
    put(home, 1, State.HELD)
    with editor.transaction():
        editor.adopt(1, -7)
        assert editor.get(locid).place.locid == -7
        editor.add_block(-7, "10.20.0.0/16")
    assert located(home, "10.20.0.1") == -7


@pytest.mark.parametrize("state", [State.SENDING, State.UNKNOWN, State.DONE])
def test_what_may_be_under_way_or_is_over_can_be_neither_dropped_nor_changed(
    editor: Editor, home: str, state: State
) -> None:
    editor.add_block(-1, "10.20.0.0/16")
    put(home, 1, state)
    for attempt in (editor.drop, lambda number: editor.amend(number, block=("10.21.0.0/16", None)), editor.retry):
        with pytest.raises(EditError, match=f"edit 1 is {state}"):
            attempt(1)


def test_a_changed_edit_is_another_request_and_is_seen_at_once(editor: Editor, home: str) -> None:
    editor.add_block(-1, "10.20.0.0/16")
    editor.update(-1, city="edited")
    put(home, 1, State.REJECTED)
    assert editor.amend(1, block=("10.21.0.0", "10.21.0.255")).state == State.QUEUED
    editor.amend(2, fields={"city": "again"})
    assert [located(home, f"10.{number}.0.1") for number in (20, 21)] == [1, -1]
    assert editor.get(-1).place.city == "again"
    with pytest.raises(EditError, match="has no fields"):
        editor.amend(1, fields={"city": "x"})
    with pytest.raises(EditError, match="latitude"):
        editor.amend(2, fields={"latitude": 91})


def test_a_held_create_is_adopted_as_what_the_person_says(editor: Editor, home: str) -> None:
    tokyo = place(-4, country="JP", city="Tokyo", latitude=35.7, longitude=139.7)
    publish(home, [*DEFAULTS, place(-1, "10.9.0.0/16"), place(-7, **BERLIN), tokyo])
    locid = editor.create(**BERLIN)
    editor.add_block(locid, "10.20.0.0/16")
    put(home, 1, State.HELD)
    for wrong in (1, 0, locid):
        with pytest.raises(EditError, match="not a locid that a service gives"):
            editor.adopt(1, wrong)
    with pytest.raises(EditError, match="does not wait"):
        editor.adopt(2, -7)
    with pytest.raises(EditError, match="the newest list has no geolocation -77"):
        editor.adopt(1, -77)
    with pytest.raises(EditError, match=r"geolocation -4 \(Tokyo, JP\) is not like what edit 1 creates"):
        editor.adopt(1, -4)
    assert editor.adopt(1, -7).state == State.DONE
    assert editor.get(locid).place.locid == -7
    assert located(home, "10.20.0.1") == -7
    put(home, 2, State.HELD)
    with pytest.raises(EditError, match="nothing to adopt"):
        editor.adopt(2, -7)


def test_every_edit_and_decision_is_in_the_history_with_before_and_after(editor: Editor) -> None:
    editor.update(-1, city="edited")
    editor.drop(1)
    update, drop = editor.history()
    assert (update["what"], update["locid"], update["outcome"]) == ("update", -1, "queued")
    assert update["before"]["fields"]["city"] == "city -1"
    assert update["after"]["fields"]["city"] == "edited"
    assert update["after"]["blocks"] == [["10.9.0.0", "10.9.255.255"]]
    assert (drop["what"], drop["outcome"], drop["before"]) == ("drop", "dropped", {"edit": 1, "state": "queued"})
