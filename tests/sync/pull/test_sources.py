"""Several sources in one state: which of them answers, what is shared between generations, what is held, what fails."""

import os
from pathlib import Path

import pytest

import geolookup
from geolookup.model.errors import DataFileError, HeldError, PullError, SettingsError, StateError
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.sources.definition import given
from geolookup.state.base.current import Current
from geolookup.state.base.parts import parts_of, snapshot_path
from geolookup.state.generations.cache import Cache
from geolookup.state.publishing.catalogue import Generations
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.verify import verify
from geolookup.sync.pull.accept import accept
from geolookup.sync.pull.context import PullReport
from geolookup.sync.pull.pull import pull
from tests.state.generations.staged import strays

HEADER = "first,last,country,city\n"


class Files:
    """Sources that are files in one folder, and the state that they are pulled into."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = str(folder / "state")
        self.names: list[str] = []

    def write(self, name: str, *rows: str) -> None:
        """A source of ranges: each row is first, last, country and city."""
        (self.folder / f"{name}.csv").write_text(HEADER + "".join(f"{row}\n" for row in rows))

    def feed(self, name: str, *rows: str) -> None:
        """A source that is a geofeed."""
        (self.folder / f"{name}.csv").write_text("# a geofeed\n" + "".join(f"{row}\n" for row in rows))

    def settings(self, *names: str, **changes: object) -> Settings:
        sources = tuple(SourceSettings(name=name, location=str(self.folder / f"{name}.csv")) for name in names)
        return Settings(sources=sources, **changes)  # type: ignore[arg-type] # what a test gives

    def sync(self, *names: str) -> PullReport:
        return pull(StateDirectory(self.home), self.settings(*names))

    def answer(self, address: str) -> tuple[str, str] | None:
        """The source and the city."""
        with geolookup.GeoLookup(self.home) as geo:
            match = geo.match(address)
        return None if match is None else (match.source, match.geolocation.city)

    def current(self) -> Current:
        return StateDirectory(self.home).require_current()

    def stack(self) -> list[str]:
        return [part.name for part in parts_of(self.current().published)]

    def whole(self) -> bool:
        return verify(self.home) == [] and strays(self.home) == []


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def many(count: int, city: str = "Town", octet: int = 20) -> list[str]:
    """As many ranges of a /24, each a place of its own."""
    return [
        f"{octet}.{number // 256}.{number % 256}.0,{octet}.{number // 256}.{number % 256}.255,DE,{city} {number}"
        for number in range(count)
    ]


def test_a_file_alone_is_remembered_and_pulled_again_by_a_later_sync(files: Files) -> None:
    files.write("a", "10.0.0.0,10.0.0.255,DE,Bonn")
    path = str(files.folder / "a.csv")
    directory = StateDirectory(files.home)
    report = pull(directory, Settings(), given=given([path]))
    assert (report.outcome, report.generation, files.answer("10.0.0.7")) == ("published", 1, ("a", "Bonn"))
    assert pull(directory, Settings()).outcome == "unchanged"
    assert files.current().generation == 1
    files.write("a", "10.0.0.0,10.0.0.255,DE,Köln")
    assert pull(directory, Settings()).outcome == "published"
    assert files.answer("10.0.0.7") == ("a", "Köln")
    files.write("b", "11.0.0.0,11.0.0.255,DE,Ulm")
    with pytest.raises(HeldError, match=r"b is held.*no answer|would have none") as caught:
        pull(directory, Settings(), given=given([str(files.folder / "b.csv")]))
    assert (files.answer("10.0.0.7"), files.stack()) == (("a", "Köln"), ["a"])
    accept(directory, caught.value.digest, Settings())
    assert (files.answer("10.0.0.7"), files.answer("11.0.0.1"), files.stack()) == (None, ("b", "Ulm"), ["b"])
    assert files.whole()


def test_files_that_are_given_together_are_held_and_accepted_together(files: Files) -> None:
    files.write("a", *many(30))
    directory = StateDirectory(files.home)
    pull(directory, Settings(), given=given([str(files.folder / "a.csv")]))
    files.write("b", *many(10))
    files.write("c", *many(10, octet=30))
    paths = [str(files.folder / f"{name}.csv") for name in "bc"]
    with pytest.raises(HeldError, match=r"b, c is held.*66\.7% of the IPv4 addresses that have an answer"):
        pull(directory, Settings(), given=given(paths))
    assert files.stack() == ["a"]
    held = directory.holding.candidates()
    assert list(held) == ["b", "c"]
    assert [each.stack for each in Generations(directory).kept() if each.held] == [("b", "c")]
    assert pull(directory, Settings()).outcome == "unchanged"
    assert list(directory.holding.candidates()) == ["b", "c"], "they wait while the file before goes on"
    accept(directory, str(held["c"].document()["published"]["digest"]), Settings())
    assert (files.stack(), files.answer("30.0.1.1")) == (["b", "c"], ("c", "Town 1"))
    assert (list(directory.holding.candidates()), directory.holding.stack()) == ([], None)
    assert pull(directory, Settings()).outcome == "unchanged"
    assert [each["name"] for each in files.current().sources] == ["b", "c"]
    assert files.whole()


def test_the_first_source_that_covers_an_address_answers_with_its_whole_record(files: Files) -> None:
    files.write("office", "10.0.1.0,10.0.1.255,,HQ")
    files.write("wide", "10.0.0.0,10.0.255.255,DE,Bonn", "10.0.1.7,10.0.1.7,DE,Ulm")
    files.sync("office", "wide")
    assert files.answer("10.0.1.7") == ("office", "HQ")
    assert files.answer("10.0.2.1") == ("wide", "Bonn")
    with geolookup.GeoLookup(files.home) as geo:
        match = geo.match("10.0.1.7")
        assert match is not None
        assert (match.geolocation.country, match.first, match.last) == ("", "10.0.1.0", "10.0.1.255")
    files.sync("wide", "office")
    assert files.answer("10.0.1.7") == ("wide", "Ulm")
    assert files.answer("10.0.1.8") == ("wide", "Bonn")


def test_inside_a_file_the_narrowest_wins_and_a_block_of_two_places_has_none(files: Files) -> None:
    files.write("a", "10.0.0.0,10.0.0.255,DE,Bonn", "10.0.0.0,10.0.255.255,DE,Ulm", "10.0.0.4,10.0.0.7,DE,Hof")
    files.sync("a")
    assert [files.answer(f"10.0.{last}") for last in ("0.3", "0.4", "1.8")] == [
        ("a", "Bonn"),
        ("a", "Hof"),
        ("a", "Ulm"),
    ]
    files.write("a", "10.0.0.0,10.0.0.255,DE,Ulm", "10.0.0.0,10.0.0.255,DE,Bonn", "10.0.0.4,10.0.0.7,DE,Hof")
    report = files.sync("a")
    assert [row["reason"].partition("is in line")[2] for row in report.rejected] == [
        " 3 too, with another place",
        " 2 too, with another place",
    ]
    assert [files.answer(f"10.0.0.{last}") for last in (3, 4)] == [None, ("a", "Hof")]


def test_places_that_only_bad_rows_name_are_not_published(files: Files) -> None:
    files.write(
        "a",
        "10.0.0.9,10.0.0.1,FR,Paris",
        "10.0.0.0,10.0.0.255,DE,Bonn",
        "10.1.0.0,10.1.0.09,FR,Nice",
        "10.2.0.0,10.2.0.255,DE,Ulm",
    )
    files.feed("b", "192.0.2.1/24,FR,,Lyon,", "192.0.2.0/24,ZZ,,,", "198.51.100.0/24,FR,,Brest,")
    files.sync("a", "b")
    current = files.current()
    caches = [
        Cache(os.path.join(snapshot_path(files.home, part.snapshot), "cache.db"))
        for part in parts_of(current.published)
    ]
    found = [[(each.locid, each.city) for each, _ in cache.find()] for cache in caches]
    assert found == [[(10**9, "Bonn"), (10**9 + 1, "Ulm")], [(10**9 + 2, "Brest")]]
    assert current.published["rows"]["geolocations"] == 3
    assert files.answer("10.2.0.7") == ("a", "Ulm")
    assert files.answer("192.0.2.7") is None
    assert files.answer("198.51.100.7") == ("b", "Brest")
    assert files.whole()


def test_a_mask_ends_the_search_and_custom_blocks_stand_above_it(files: Files) -> None:
    files.feed("feed", "10.0.1.0/24,DE,,Bonn,", "10.0.2.0/24,,,,")
    files.write("wide", "10.0.0.0,10.255.255.255,DE,Ulm")
    files.sync("feed", "wide")
    assert (files.answer("10.0.1.1"), files.answer("10.0.2.1")) == (("feed", "Bonn"), None)
    assert files.answer("10.0.3.1") == ("wide", "Ulm")
    with geolookup.GeoLookup(files.home) as geo:
        why = geo.explain("10.0.2.1")
        assert (why.match, [(item.source, item.wins, item.masks) for item in why.covering]) == (
            None,
            [("feed", True, True), ("wide", False, False)],
        )
        assert "feed says that it has no location" in why.covering[0].reason
        with geo.edit() as editor:
            locid = editor.create(**{**_fields(), "city": "Home"})
            editor.add_block(locid, "10.0.2.0/28")
        assert files.answer("10.0.2.1") == ("custom", "Home")
    assert files.whole()


def _fields() -> geolookup.NewGeolocation:
    return {
        "country": "DE",
        "region": "",
        "city": "",
        "postalcode": "",
        "latitude": 50.0,
        "longitude": 7.0,
        "dmacode": "",
        "areacode": "",
    }


def test_explain_shows_every_covering_block_of_every_source_and_why_one_wins(files: Files) -> None:
    files.write("office", "10.0.1.0,10.0.1.255,DE,HQ", "10.0.0.0,10.0.255.255,DE,Campus")
    files.write("wide", "10.0.1.7,10.0.1.7,DE,Ulm")
    files.sync("office", "wide")
    with geolookup.GeoLookup(files.home) as geo:
        found = [(item.source, item.geolocation.city, item.reason) for item in geo.explain("10.0.1.7")]
    assert found == [
        ("office", "HQ", "the narrowest network of office that covers it"),
        ("office", "Campus", "wider than 10.0.1.0-10.0.1.255"),
        ("wide", "Ulm", "a network of office covers it"),
    ]


def test_snapshots_are_shared_and_a_night_adds_one_index_and_the_changed_source(files: Files) -> None:
    for name, octet in (("a", 20), ("b", 30), ("c", 40)):
        files.write(name, *many(50, octet=octet))
    files.sync("a", "b", "c")
    before = {part.name: part.snapshot for part in parts_of(files.current().published)}
    for night in range(1, 4):
        files.write("c", *many(50, city=f"Night {night}", octet=40))
        assert files.sync("a", "b", "c").outcome == "published"
    after = {part.name: part.snapshot for part in parts_of(files.current().published)}
    assert (after["a"], after["b"]) == (before["a"], before["b"])
    assert sorted(os.listdir(os.path.join(files.home, "snapshots"))) == [
        f"{number:06d}" for number in (1, 2, 3, 4, 5, 6)
    ]
    assert files.sync("a", "b", "c").outcome == "unchanged"
    assert (files.current().generation, files.whole()) == (4, True)


def test_snapshots_go_with_the_last_generation_that_names_them(files: Files) -> None:
    directory = StateDirectory(files.home, keep_generations=2)
    for night in range(4):
        files.write("a", *many(20, city=f"Night {night}"))
        pull(directory, files.settings("a"))
    assert sorted(os.listdir(os.path.join(files.home, "snapshots"))) == ["000003", "000004"]
    assert files.whole()


def test_equal_places_keep_their_numbers_and_numbers_are_never_given_again(files: Files) -> None:
    def numbers() -> dict[str, int]:
        with geolookup.GeoLookup(files.home) as geo:
            return {segment.geolocation.city: segment.geolocation.locid for segment in geo.segments(4)}

    files.write("a", "10.0.0.0,10.0.0.255,DE,Bonn", "10.0.1.0,10.0.1.255,DE,Ulm")
    files.sync("a")
    assert numbers() == {"Bonn": 10**9, "Ulm": 10**9 + 1}
    files.write("a", "10.0.1.0,10.0.1.255,DE,Ulm", "10.0.2.0,10.0.2.255,DE,Hof")
    files.write("b", "11.0.1.0,11.0.1.255,DE,Ulm")
    files.sync("a", "b")
    assert numbers() == {"Ulm": 10**9 + 1, "Hof": 10**9 + 2} or numbers()["Hof"] == 10**9 + 2
    with geolookup.GeoLookup(files.home) as geo:
        assert [geo.lookup(a).locid for a in ("10.0.1.1", "11.0.1.1")] == [10**9 + 1, 10**9 + 3]  # type: ignore[union-attr]


def test_a_source_that_fails_keeps_its_last_snapshot_and_the_others_go_on(files: Files) -> None:
    files.write("a", "10.0.0.0,10.0.0.255,DE,Bonn")
    files.write("b", "11.0.0.0,11.0.0.255,DE,Ulm")
    files.sync("a", "b")
    files.write("b", "11.0.0.0,11.0.0.255,DE,Hof")
    (files.folder / "a.csv").unlink()
    with pytest.raises(
        PullError,
        match=r"1 of 2 sources failed.*is published: a \(its data are of unknown date, checked 2.*Z\): .*a\.csv",
    ):
        files.sync("a", "b")
    with pytest.raises(
        PullError, match=r"nothing new: a \(its data are of unknown date, checked 2.*Z, fails since 2.*Z\): .*a\.csv"
    ):
        files.sync("a", "b")
    assert (files.answer("10.0.0.1"), files.answer("11.0.0.1")) == (("a", "Bonn"), ("b", "Hof"))
    entry = next(entry for entry in files.current().sources if entry["name"] == "a")
    assert ("a.csv" in entry["problem"], entry["since"] > entry["checked_at"]) == (True, True)
    files.write("a", "10.0.0.0,10.0.0.255,DE,Kiel")
    files.sync("a", "b")
    assert files.answer("10.0.0.1") == ("a", "Kiel")
    assert all("problem" not in entry for entry in files.current().sources)
    assert files.whole()


def test_a_source_that_never_was_pulled_and_fails_is_left_out_loudly(files: Files) -> None:
    files.write("b", "11.0.0.0,11.0.0.255,DE,Ulm")
    with pytest.raises(PullError, match=r"1 of 2 sources failed.*: a \(never pulled\): "):
        files.sync("a", "b")
    assert (files.stack(), files.answer("11.0.0.1")) == (["b"], ("b", "Ulm"))
    with pytest.raises(DataFileError):
        pull(StateDirectory(str(files.folder / "other")), files.settings("a"))
    assert StateDirectory(str(files.folder / "other")).current() is None


def test_a_file_that_fits_no_kind_or_has_no_good_row_is_never_published(files: Files) -> None:
    (files.folder / "a.csv").write_text("hello\n")
    with pytest.raises(DataFileError, match="no kind of source begins so"):
        files.sync("a")
    files.write("a", "10.0.0.x,10.0.0.255,DE,Bonn")
    with pytest.raises(PullError, match="there is not one good row"):
        files.sync("a")
    assert StateDirectory(files.home).current() is None


def test_the_guard_holds_one_source_and_the_others_are_published(files: Files) -> None:
    files.write("a", *many(200))
    files.write("b", *many(50, octet=30))
    files.sync("a", "b")
    files.write("a", *many(100))
    files.write("b", *many(50, city="New", octet=30))
    with pytest.raises(HeldError, match=r"source a: the pulled list is held.*fewer than 95%") as caught:
        files.sync("a", "b")
    assert files.answer("20.0.150.1") == ("a", "Town 150")
    assert files.answer("30.0.1.1") == ("b", "New 1")
    assert list(StateDirectory(files.home).holding.candidates()) == ["a"]
    accept(StateDirectory(files.home), caught.value.digest[:16], Settings())
    assert (files.answer("20.0.150.1"), files.answer("30.0.1.1")) == (None, ("b", "New 1"))
    assert (StateDirectory(files.home).held(), files.whole()) == (None, True)
    assert files.sync("a", "b").outcome == "unchanged"


def test_a_few_rows_more_or_fewer_never_hold_a_source(files: Files) -> None:
    files.write("a", *many(12))
    files.sync("a")
    files.write("a", *many(3))
    assert files.sync("a").outcome == "published"
    files.write("a", *many(13))
    assert files.sync("a").outcome == "published"
    files.write("a", *many(2))
    with pytest.raises(HeldError):
        files.sync("a")


def test_masks_that_hide_much_hold_the_pull_and_the_addition(files: Files) -> None:
    files.write("wide", *many(200))
    files.feed("feed", "192.0.2.0/24,DE,,Bonn,")
    files.sync("feed", "wide")
    files.feed("feed", "192.0.2.0/24,DE,,Bonn,", "20.0.0.0/20,,,,")
    with pytest.raises(HeldError, match=r"8\.0% of the IPv4 addresses that have an answer would have none"):
        files.sync("feed", "wide")
    assert files.answer("20.0.0.1") == ("wide", "Town 0")
    files.feed("feed", "192.0.2.0/24,DE,,Bonn,", "20.0.0.0/23,,,,")
    assert files.sync("feed", "wide").outcome == "published"
    assert (files.answer("20.0.0.1"), files.answer("20.0.2.1")) == (None, ("wide", "Town 2"))
    files.feed("more", "192.0.3.0/24,DE,,Bonn,", "20.0.0.0/17,,,,")
    files.write("wide", *many(200, city="New"))
    with pytest.raises(HeldError, match="the change of the stack is held") as caught:
        files.sync("more", "feed", "wide")
    assert (files.stack(), files.answer("20.0.2.1")) == (["feed", "wide"], ("wide", "New 2"))
    accept(StateDirectory(files.home), caught.value.digest[:16], Settings())
    assert (files.stack(), files.answer("20.0.2.1")) == (["more", "feed", "wide"], None)
    assert files.sync("more", "feed", "wide").outcome == "unchanged"
    assert files.whole()


def test_removing_a_source_that_answers_much_is_held_until_it_is_accepted(files: Files) -> None:
    files.write("a", *many(100))
    files.write("b", *many(100, octet=30))
    files.sync("a", "b")
    with pytest.raises(HeldError, match=r"50\.0% of the IPv4 addresses that have an answer.*--accept") as caught:
        files.sync("b")
    assert (files.stack(), files.answer("20.0.1.1")) == (["a", "b"], ("a", "Town 1"))
    files.write("b", *many(100, city="New", octet=30))
    with pytest.raises(HeldError):
        files.sync("b")
    assert files.answer("30.0.1.1") == ("b", "New 1"), "the old stack goes on with the other's new snapshot"
    with pytest.raises(StateError, match="accept that one"):
        accept(StateDirectory(files.home), "0" * 16, Settings())
    accept(StateDirectory(files.home), caught.value.digest[:16], Settings())
    assert (files.stack(), files.answer("20.0.1.1")) == (["b"], None)
    assert files.sync("b").outcome == "unchanged"
    assert files.whole()


def _roll_back_what_is_bad(files: Files) -> None:
    """Sources a and b are served as they were before a bad snapshot of a, which was published in between."""
    files.write("a", *many(20))
    files.write("b", *many(20, octet=30))
    files.sync("a", "b")
    files.write("a", *many(20, city="Bad"))
    files.sync("a", "b")
    StateDirectory(files.home).keeping.rollback()


def test_a_rollback_refuses_each_snapshot_it_leaves_until_that_source_brings_another(files: Files) -> None:
    _roll_back_what_is_bad(files)
    assert files.answer("20.0.1.1") == ("a", "Town 1")
    files.write("b", *many(20, city="New", octet=30))
    report = files.sync("a", "b")
    assert any("still has the content that was rolled back" in text for text in report.warnings)
    assert (files.answer("20.0.1.1"), files.answer("30.0.1.1")) == (("a", "Town 1"), ("b", "New 1"))
    files.write("a", *many(20, city="Good"))
    files.sync("a", "b")
    assert files.answer("20.0.1.1") == ("a", "Good 1")
    assert files.whole()


def test_a_sync_after_a_rollback_publishes_nothing_if_nothing_is_new(files: Files) -> None:
    _roll_back_what_is_bad(files)
    assert files.sync("a", "b").outcome == "unchanged"
    assert (files.current().generation, files.current().newest) == (1, 2)
    assert files.answer("20.0.1.1") == ("a", "Town 1")


def test_a_stack_that_a_rollback_leaves_is_asked_about_when_the_settings_change(files: Files) -> None:
    for name, octet in (("a", 20), ("b", 30), ("c", 40)):
        files.write(name, *many(20, octet=octet))
    files.sync("a")
    files.sync("a", "b")
    StateDirectory(files.home).keeping.rollback()
    assert files.stack() == ["a"]
    files.sync("a", "b")
    assert files.stack() == ["a"]
    with pytest.raises(HeldError, match="brings back the answers of all 5,120 IPv4 addresses") as caught:
        files.sync("a", "b", "c")
    assert files.stack() == ["a"]
    accept(StateDirectory(files.home), caught.value.digest, Settings())
    assert files.stack() == ["a", "b", "c"]
    files.write("b", *many(21, octet=30))
    files.sync("a", "b", "c")
    assert files.answer("30.0.20.1") == ("b", "Town 20")


def test_nothing_configured_and_nothing_given_says_what_to_do(files: Files) -> None:
    with pytest.raises(SettingsError, match="geolookup sync FILE"):
        pull(StateDirectory(files.home), Settings())
