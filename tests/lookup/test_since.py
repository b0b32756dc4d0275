"""Explanations as of another time, and since when an answer is the answer: which generation or edit brought it."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import geolookup
from geolookup.cli.app import run
from geolookup.lookup.engine import GeoLookup
from geolookup.state.base import clock
from geolookup.state.base.clock import text_of
from geolookup.state.editor import Editor
from geolookup.state.publishing.directory import StateDirectory
from tests.state.edits.editing import BERLIN
from tests.support.data.states import place, publish
from tests.support.examples import examples

ADDRESS = "10.1.1.1"


class Nights:
    """Publishes night after night, and remembers since when each answer has been given, as a plain list."""

    def __init__(self, home: str, monkeypatch: pytest.MonkeyPatch, keep: int = 20) -> None:
        self.home, self.keep = home, keep
        self.now = datetime(2026, 3, 1, 6, tzinfo=UTC)
        self.told: list[tuple[int, str, str | None]] = []
        monkeypatch.setattr(clock, "wall", lambda: self.now)

    def _noted(self, generation: int, city: str | None) -> None:
        self.told.append((generation, text_of(self.now), city))
        self.now += timedelta(days=1)

    def publish(self, city: str | None) -> None:
        rows = [place(9, "9.0.0.0/8", city=str(len(self.told)))]  # so that every night is another generation
        rows += [] if city is None else [place(1, "10.0.0.0/8", city=city)]
        self._noted(publish(self.home, rows, keep=self.keep).generation, city)

    def go_back(self, generation: int) -> None:
        city = next(city for number, _, city in self.told if number == generation)
        self._noted(StateDirectory(self.home).keeping.rollback(generation).generation, city)

    def expected(self, at: int) -> tuple[int, str, str | None]:
        """Who brought the answer of a night, when, and what was answered before."""
        city = self.told[at][2]
        while at and self.told[at - 1][2] == city:
            at -= 1
        return self.told[at][0], self.told[at][1], self.told[at - 1][2] if at else None


@examples(20)
@given(nights=st.lists(st.sampled_from([None, "Austin", "Dallas", "back"]), min_size=1, max_size=5), data=st.data())
def test_an_answer_is_as_old_as_a_plain_list_of_all_nights_says(
    nights: list[str | None], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = str(tmp_path_factory.mktemp("nights") / "state")
    with pytest.MonkeyPatch.context() as monkeypatch:
        played = Nights(home, monkeypatch)
        for night in nights:
            others = sorted({number for number, _, _ in played.told} - {played.told[-1][0]}) if played.told else []
            if night == "back":
                if others:
                    played.go_back(data.draw(st.sampled_from(others)))
            else:
                played.publish(night)
        if not played.told:
            return
        for generation in {number for number, _, _ in played.told}:
            at = max(at for at, (number, _, _) in enumerate(played.told) if number == generation)
            with GeoLookup(home, as_of=generation) as geo:
                since = geo.explain(ADDRESS).since
            assert since is not None
            before = None if since.before is None else since.before.city
            assert (since.generation, since.at, before) == played.expected(at)
            assert since.is_exact
            assert since.age_s == (played.now - datetime.fromisoformat(since.at)).total_seconds()


def test_what_is_no_longer_kept_makes_it_at_least_so_old(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nights = Nights(home, monkeypatch, keep=3)
    for _ in range(6):
        nights.publish("Austin")
    with geolookup.open(home) as geo:
        since = geo.explain(ADDRESS).since
    assert since is not None
    assert (since.generation, since.is_exact, since.generation_before) == (4, False, None)


def test_an_edit_here_brought_the_answer_if_it_is_younger_and_about_this_address(
    home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    nights = Nights(home, monkeypatch)
    nights.publish("Austin")
    with Editor(home) as editor:
        berlin = editor.create(**BERLIN)
        editor.add_block(berlin, "10.1.0.0/16")
        made = text_of(nights.now)
        nights.now += timedelta(hours=1)
        editor.add_block(berlin, "172.16.0.0/12")
        nights.now += timedelta(hours=1)
    with geolookup.open(home) as geo:
        since = geo.explain(ADDRESS).since
    assert since is not None
    assert (since.generation, since.at, since.age_s) == (None, made, 7200)
    assert "10.1.0.0-10.1.255.255" in str(since.edit)
    for _ in range(2):
        nights.publish("Austin")
        with geolookup.open(home) as geo:  # the next generations do not make it younger, nor older
            assert geo.explain(ADDRESS).since.at == made  # type: ignore[union-attr]
    with geolookup.open(home, as_of=1) as geo:
        assert geo.explain(ADDRESS).since.at == made  # type: ignore[union-attr]


def test_an_explanation_as_of_then_has_the_blocks_of_then(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nights = Nights(home, monkeypatch)
    publish(home, [place(1, "10.0.0.0/8", city="Austin"), place(-1, "10.1.0.0/16", "10.2.0.0/16", city="Bonn")])
    with Editor(home) as editor:
        editor.remove_block(-1, "10.2.0.0/16")
        berlin = editor.create(**BERLIN)
        editor.add_block(berlin, "10.3.0.0/16")
    nights.now += timedelta(days=1)
    publish(home, [place(2, "10.0.0.0/9", city="Dallas")])
    with geolookup.open(home, as_of="yesterday") as then:
        bonn, removed, ours = (then.explain(address) for address in ("10.1.1.1", "10.2.1.1", "10.3.1.1"))
    assert [(str(each.block), each.wins, each.layer) for each in bonn.covering] == [
        ("10.1.0.0-10.1.255.255", True, "custom"),
        ("10.0.0.0-10.255.255.255", False, "default"),
    ]
    assert [(str(each.block), each.geolocation.city) for each in removed.covering] == [
        ("10.0.0.0-10.255.255.255", "Austin")
    ]
    assert [(str(each.block), each.geolocation.city) for each in ours.covering] == [
        ("10.3.0.0-10.3.255.255", "Berlin"),
        ("10.0.0.0-10.255.255.255", "Austin"),
    ]
    assert (bonn.generation, ours.generation) == (1, 1)
    for found in (bonn, removed, ours):  # the explanation is of the answer
        assert found.match is not None
        assert found.covering[0].geolocation.city == found.match.city


def test_the_command_says_it(home: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    nights = Nights(home, monkeypatch)
    for city in ("Austin", "Dallas", "Dallas"):
        nights.publish(city)

    def said(*arguments: str) -> str:
        capsys.readouterr()
        assert run(["explain", *arguments]) == 0
        return capsys.readouterr().out

    line = (
        "the answer since 2026-03-02 06:00:00Z (2 days ago), with generation 2; in generation 1: default 1 (Austin)\n"
    )
    assert line in said(ADDRESS)
    assert "the answer since 2026-03-01 06:00:00Z (3 days ago), with generation 1, the first one here\n" in said(
        ADDRESS, "--as-of", "2026-03-01"
    )
    found = json.loads(said(ADDRESS, "--json"))["since"]
    assert (found["generation"], found["generation_before"], found["before"]["city"]) == (2, 1, "Austin")
    assert found["age_s"] == 2 * 86400


def test_a_generation_that_is_damaged_ends_what_can_be_told(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nights = Nights(home, monkeypatch)
    for _ in range(3):
        nights.publish("Austin")
    Path(home, "generations", "000002", "index").write_bytes(b"damaged")
    with geolookup.open(home) as geo:
        since = geo.explain(ADDRESS).since
    assert since is not None
    assert (since.generation, since.is_exact) == (3, False)


def test_the_facts_of_a_network_are_as_old_as_the_generation_that_brought_them(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    file, now = tmp_path / "asn.csv", datetime(2026, 3, 1, 6, tzinfo=UTC)
    monkeypatch.setattr(clock, "wall", lambda: now)
    rows = {f"10.{n}.0.0,10.{n}.255.255": f"{n + 1},Name of {n}" for n in range(100)}

    def night(**changed: str) -> None:
        nonlocal now
        rows.update({f"10.{key[1:]}.0.0,10.{key[1:]}.255.255": value for key, value in changed.items()})
        file.write_text("".join(f"{block},{of}\n" for block, of in rows.items()))
        assert run(["sync", str(file)]) == 0
        now += timedelta(days=1)

    def since(address: str) -> tuple[object, ...]:
        with geolookup.open(home) as geo:
            found = geo.explain(address).facts_since
        assert found is not None
        return found.generation, found.at[:10], found.is_exact, found.generation_before, found.before

    night()
    night(_1="7,Seven")  # another AS number, and another name
    night(_2="3,Three", _100="9,New")
    assert since("10.3.0.1") == (1, "2026-03-01", True, None, None)
    was = {"asn": 2, "as_organization": "Name of 1"}
    assert since("10.1.0.1") == (2, "2026-03-02", True, 1, was)
    assert since("10.2.0.1") == (3, "2026-03-03", True, 2, {"asn": 3, "as_organization": "Name of 2"})
    assert since("10.100.0.1") == (3, "2026-03-03", True, 2, {})
    with geolookup.open(home) as geo:
        assert geo.explain("11.0.0.1").facts_since is None
    capsys.readouterr()
    run(["explain", "10.2.0.1"])
    when = "the network since 2026-03-03 06:00:00Z (24 hours ago), with generation 3; in generation 2: "
    assert f"{when}as_organization Name of 2\n" in capsys.readouterr().out
    run(["explain", "10.100.0.1"])
    assert f"{when}nothing known\n" in capsys.readouterr().out
    run(["explain", "10.1.0.1", "--json"])
    told = json.loads(capsys.readouterr().out)["facts_since"]
    assert (told["generation"], told["generation_before"], told["before"]) == (2, 1, was)
