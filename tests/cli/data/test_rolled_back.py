"""A roll-back lasts: a list that brings back most of what was rolled back is held, whatever else differs in it."""

import json
import re
from pathlib import Path

import pytest

from geolookup.state.base.current import read_current
from geolookup.state.publishing.directory import StateDirectory
from tests.support.users.in_process import asked, asked_json, said

POLAND, GERMANY = "PL,Warszawa", "DE,Berlin"
AGAIN = r"it brings back the answers of (all|\S+ of the) ([\d,]+) IPv4 addresses that \S+ rolled back at \S+ \S+"


class World:
    """A list of many countries, in which Poland has a /16; and a list of one's own above it, if there is one."""

    def __init__(self, home: str, folder: Path) -> None:
        self.home, self.folder = home, folder

    def write(self, poland: str = POLAND, *, rows: int = 0, name: str = "list", paris: str = "FR,Paris") -> str:
        """The list with so many rows more than it began with; its path."""
        lines = [f"83.0.0.0/16,{poland}", "84.0.0.0/16,PL,Gdańsk", f"85.0.0.0/16,{paris}"]
        lines += [f"100.{at}.0.0/16,DE,City {at}" for at in range(40)]
        lines += [f"120.0.{at}.0/24,FR,Row {at}" for at in range(rows)]
        path = self.folder / f"{name}.csv"
        path.write_text("\n".join(["network,country,city", *lines, ""]))
        return str(path)

    def sources(self, *names: str, more: str = "") -> None:
        stack = "".join(f'[[source]]\nname = "{name}"\nlocation = "{name}.csv"\n' for name in names)
        (self.folder / "geolookup.toml").write_text(more + stack)

    @property
    def served(self) -> int:
        return read_current(self.home).generation


@pytest.fixture
def world(home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(tmp_path / "geolookup.toml"))
    return World(home, tmp_path)


@pytest.fixture
def wrong(world: World, capsys: pytest.CaptureFixture[str]) -> World:
    """Generation 2 moved a part of Poland to Germany, and was rolled back to 1."""
    world.sources("list")
    world.write()
    asked(capsys, "sync")
    world.write(GERMANY, rows=1)
    asked(capsys, "sync")
    asked(capsys, "generations", "rollback", "--yes", "--reason", "Poland is wrong")
    assert world.served == 1
    return world


def country(capsys: pytest.CaptureFixture[str], address: str = "83.0.1.1") -> str:
    return str(asked_json(capsys, "lookup", "--json", address)[0]["country"])


def test_the_next_list_with_the_same_error_is_held_and_accepting_it_ends_the_roll_back(
    wrong: World, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong.write(GERMANY, rows=2)
    told = said(capsys, "sync", code=3)
    found = re.search(AGAIN, told)
    assert found is not None, told
    assert found.groups() == ("all", "65,792")  # the /16, and the row of the list that was rolled back
    assert "Z: 'Poland is wrong' (most of them from Poland (PL) to Germany (DE))" in told
    assert country(capsys) == "PL"
    assert re.search(f"why: +{AGAIN}", asked(capsys, "generations", "show", "held"))
    told = asked(capsys, "history")
    assert re.search(f"HeldError: .*{AGAIN}", told), told
    asked(capsys, "sync", "--accept", re.search(r"--accept (\w+)", said(capsys, "sync", code=3))[1])  # type: ignore[index]
    assert (country(capsys), wrong.served) == ("DE", 3)
    wrong.write(GERMANY, rows=3)
    asked(capsys, "sync")
    assert (country(capsys), wrong.served) == ("DE", 4)


def test_a_nightly_refresh_ends_with_3_and_a_preview_says_so_before(
    wrong: World, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong.write(GERMANY, rows=2)
    assert re.search(AGAIN, said(capsys, "sync", "--preview", code=3))
    found = asked_json(capsys, "refresh", "--json", code=3)
    assert re.search(AGAIN, json.dumps(found))
    assert "decide-on-the-list" in json.dumps(found)
    told = asked(capsys, "status")
    assert re.search(AGAIN, told)
    assert "rolled back:" in told
    assert "generation 2: an update that brings most of it back is held" in told
    assert asked_json(capsys, "status", "--json")["rolled_back"] == [2]


def test_a_list_without_the_error_is_published_and_one_that_has_it_again_later_is_held(
    wrong: World, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong.write(rows=1)
    asked(capsys, "sync")
    assert (country(capsys), wrong.served) == ("PL", 3)
    wrong.write(GERMANY, rows=5)
    assert re.search(AGAIN, said(capsys, "sync", code=3))


def test_less_than_half_of_it_is_a_change_like_any_other(wrong: World, capsys: pytest.CaptureFixture[str]) -> None:
    path = wrong.write(rows=2)
    half = "83.0.128.0/17,DE,Berlin\n83.0.0.0/17,PL,Warszawa\n"
    Path(path).write_text(Path(path).read_text().replace(f"83.0.0.0/16,{POLAND}\n", half))
    asked(capsys, "sync", code=3)  # with the row it is more than half of what was rolled back
    Path(path).write_text(Path(path).read_text().replace("83.0.128.0/17,DE", "83.0.192.0/18,DE"))
    asked(capsys, "sync")
    assert country(capsys) == "PL"


def test_the_same_country_with_another_place_in_it_is_the_same_error(
    wrong: World, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong.write("DE,Potsdam", rows=0)
    told = said(capsys, "sync", code=3)
    assert re.search(r"it brings back the countries of 65,536 of the 65,792 IPv4 addresses that", told), told


def test_addresses_of_sites_do_not_count(wrong: World, capsys: pytest.CaptureFixture[str]) -> None:
    asked(capsys, "custom", "create", "--country", "PL", "--city", "Wola", "--block", "83.0.7.0/24")
    wrong.write(GERMANY, rows=2)
    told = said(capsys, "sync", code=3)
    assert "of all 65,536 IPv4 addresses" in told  # 256 more of the row, 256 fewer of the site


@pytest.mark.parametrize("way", ["another name", "another source", "another order"])
def test_it_does_not_matter_by_which_way_it_comes_back(
    wrong: World, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if way == "another name":
        wrong.sources()
        told = said(capsys, "sync", wrong.write(GERMANY, rows=2, name="other"), code=3)
    else:
        wrong.write(GERMANY, rows=2, name="other")
        wrong.sources("other", "list") if way == "another source" else wrong.sources("list", "other")
        if way == "another order":
            asked(capsys, "sync")
            assert country(capsys) == "PL"
            wrong.sources("other", "list")
        told = said(capsys, "sync", code=3)
    assert re.search(AGAIN, told), told
    assert country(capsys) == "PL"
    asked(capsys, "sync", "--accept", re.search(r"--accept (\w+)", told)[1])  # type: ignore[index]
    assert country(capsys) == "DE"
    wrong.write(GERMANY, rows=3)
    asked(capsys, "sync")


def test_another_source_that_changes_something_else_is_published_and_the_roll_back_goes_on(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    (world.folder / "feed.csv").write_text("network,country,city\n10.0.0.0/24,SE,Lund\n")
    world.sources("feed", "list", more="keep_generations = 2\n")
    world.write()
    asked(capsys, "sync")
    world.write(GERMANY)
    asked(capsys, "sync")
    asked(capsys, "generations", "rollback", "--yes")
    for night in range(4):  # more nights than generations are kept
        (world.folder / "feed.csv").write_text(f"network,country,city\n10.0.0.0/24,SE,Lund {night}\n")
        world.write(GERMANY, rows=night + 1)
        assert re.search(AGAIN, said(capsys, "sync", code=3))
        assert (country(capsys), country(capsys, "10.0.0.1")) == ("PL", "SE")
        assert world.served == 3 + night
    kept = [each["number"] for each in asked_json(capsys, "generations", "list", "--json") if each["number"]]
    assert kept == [1, 2, 5, 6]
    world.write(rows=9)
    told = said(capsys, "sync")
    assert re.search(r"generation 2, which \S+ rolled back at \S+ \S+, is not kept any more", told), told
    kept = [each["number"] for each in asked_json(capsys, "generations", "list", "--json") if each["number"]]
    assert kept == [6, 7]
    world.write(GERMANY, rows=10)
    asked(capsys, "sync")
    assert country(capsys) == "DE"


def test_each_of_several_roll_backs_lasts(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.sources("list")
    for poland, paris in ((POLAND, "FR,Paris"), (GERMANY, "FR,Paris"), (GERMANY, "BE,Mons")):
        world.write(poland, paris=paris)
        asked(capsys, "sync")
    asked(capsys, "generations", "rollback", "--yes")
    asked(capsys, "generations", "rollback", "--yes")
    assert world.served == 1
    world.write(GERMANY, rows=1)
    assert "from Poland (PL) to Germany (DE)" in said(capsys, "sync", code=3)
    world.write(rows=1, paris="BE,Mons")
    assert "from France (FR) to Belgium (BE)" in said(capsys, "sync", code=3)
    world.write(rows=1)
    asked(capsys, "sync")


def test_to_go_forward_again_ends_it_for_older_ones_too(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.sources("list")
    for poland, paris in ((POLAND, "FR,Paris"), (GERMANY, "FR,Paris"), (GERMANY, "BE,Mons")):
        world.write(poland, paris=paris)
        asked(capsys, "sync")
    asked(capsys, "generations", "rollback", "--yes")
    asked(capsys, "generations", "rollback", "--yes")
    asked(capsys, "generations", "rollback", "3", "--yes")
    world.write(GERMANY, paris="BE,Mons", rows=1)
    asked(capsys, "sync")
    assert (country(capsys), country(capsys, "85.0.0.1")) == ("DE", "BE")
    world.write(rows=2)  # back to Poland by a list: nobody rolled that back
    asked(capsys, "sync")
    assert country(capsys) == "PL"


def test_to_go_back_to_the_bundled_countries_lasts_too(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.sources()
    asked(capsys, "sync", "--bundled")
    assert asked_json(capsys, "history", "--json")[0]["after"]["generation"] == 1
    world.sources("list")
    world.write(GERMANY)
    asked(capsys, "sync")
    asked(capsys, "generations", "rollback", "--yes")
    world.write(GERMANY, rows=1)
    told = said(capsys, "sync", code=3)
    assert re.search(AGAIN, told), told
    assert world.served == 1
    asked(capsys, "sync", "--accept", re.search(r"--accept (\w+)", told)[1])  # type: ignore[index]
    assert country(capsys) == "DE"
    world.write(GERMANY, rows=2)
    asked(capsys, "sync")


def test_what_was_rolled_back_is_compared_when_it_is_packed(
    wrong: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("geolookup.state.generations.packing.LEAST_BYTES", 0)
    wrong.write(rows=1)
    asked(capsys, "sync")
    assert not Path(wrong.home, "generations", "000002", "index").exists()
    wrong.write(GERMANY, rows=5)
    assert re.search(AGAIN, said(capsys, "sync", code=3))


def test_ipv6_is_told_by_itself(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.sources("list")
    for number, text in enumerate(("PL", "DE"), 1):
        path = world.write(rows=number)
        Path(path).write_text(f"{Path(path).read_text()}2a00:1::/32,{text},X\n")
        asked(capsys, "sync")
    asked(capsys, "generations", "rollback", "--yes")
    path = world.write(rows=1)
    Path(path).write_text(f"{Path(path).read_text()}2a00:1::/32,DE,X\n")
    told = said(capsys, "sync", code=3)
    assert "all 4.3 billion networks (/64) of IPv6" in told, told
    assert "IPv4 addresses that" not in told
    assert StateDirectory(world.home).require_current().generation == 1
