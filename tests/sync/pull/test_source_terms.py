"""What each source's terms do: its own age limit, its licence's retention, and what the status says of it."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import geolookup
from geolookup.model.errors import DataFileError, PullError, StaleDataError
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.state.base import clock
from geolookup.state.generations.recovery import numbered
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.verify import verify
from geolookup.sync.pull.context import PullReport
from geolookup.sync.pull.pull import pull


@pytest.fixture
def day(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets the day of the wall clock."""

    def set_day(number: int) -> None:
        moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number)
        monkeypatch.setattr(clock, "wall", lambda: moment)

    set_day(0)
    return set_day


def sync(folder: Path, number: int, **source: object) -> PullReport:
    for name, octet in (("lite", 10), ("own", 20)):
        (folder / f"{name}.csv").write_text(
            f"first,last,country,city\n{octet}.0.0.0,{octet}.0.0.255,DE,{name} {number}\n"
        )
    sources = (
        SourceSettings(name="lite", location=str(folder / "lite.csv"), **source),  # type: ignore[arg-type]
        SourceSettings(name="own", location=str(folder / "own.csv"), attribution="made by us"),
    )
    return pull(StateDirectory(str(folder / "state")), Settings(sources=sources))


def generations(folder: Path) -> list[int]:
    return sorted(numbered(str(folder / "state" / "generations")))


def test_superseded_snapshots_go_with_their_generations_once_the_licence_wants_it(
    tmp_path: Path, day: Callable[[int], None]
) -> None:
    for number in range(3):
        day(number)
        sync(tmp_path, number, keep_days=30)
    StateDirectory(str(tmp_path / "state")).keeping.pin(1)
    day(29)
    sync(tmp_path, 2, keep_days=30)
    assert generations(tmp_path) == [1, 2, 3]
    day(32)
    report = sync(tmp_path, 2, keep_days=30)
    assert generations(tmp_path) == [2, 3], "generation 1 was replaced on day 1, generation 2 on day 2"
    assert any("generation 1 was pinned and is gone: the licence of lite" in text for text in report.warnings)
    day(33)
    sync(tmp_path, 2, keep_days=30)
    assert generations(tmp_path) == [3], "what is served is never destroyed"
    assert verify(str(tmp_path / "state")) == []


def test_without_such_a_licence_nothing_goes_before_retention(tmp_path: Path, day: Callable[[int], None]) -> None:
    for number in range(3):
        day(number)
        sync(tmp_path, number)
    day(400)
    sync(tmp_path, 3)
    assert generations(tmp_path) == [1, 2, 3, 4]


def test_after_a_rollback_the_status_says_that_what_is_served_is_overdue(
    tmp_path: Path, day: Callable[[int], None]
) -> None:
    sync(tmp_path, 0, keep_days=30)
    day(1)
    sync(tmp_path, 1, keep_days=30)
    StateDirectory(str(tmp_path / "state")).keeping.rollback()

    def overdue() -> dict[str, bool]:
        with geolookup.GeoLookup(str(tmp_path / "state")) as geo:
            return {source.name: source.overdue for source in geo.status().sources}

    assert overdue() == {"lite": False, "own": False}
    day(40)
    assert overdue() == {"lite": True, "own": False}


def test_a_sources_own_age_limit_goes_before_the_states(tmp_path: Path, day: Callable[[int], None]) -> None:
    sync(tmp_path, 0, max_age="2d")
    home = str(tmp_path / "state")
    day(1)
    with geolookup.open(home, settings=Settings(), stale="refuse") as geo:
        assert geo.lookup("20.0.0.1") is not None
    (tmp_path / "lite.csv").unlink()
    day(3)
    with pytest.raises((DataFileError, PullError)):
        pull(
            StateDirectory(home),
            Settings(
                sources=(
                    SourceSettings(name="lite", location=str(tmp_path / "lite.csv"), max_age="2d"),
                    SourceSettings(name="own", location=str(tmp_path / "own.csv")),
                )
            ),
        )
    with geolookup.open(home, settings=Settings(), stale="refuse") as geo:
        with pytest.raises(StaleDataError, match="the data of lite are 3 days old"):
            geo.lookup("20.0.0.1")
        found = {source.name: (source.stale, source.max_age_s) for source in geo.status().sources}
    assert found == {"lite": (True, 172800.0), "own": (False, None)}


def test_the_status_shows_each_source_with_what_it_answers_and_what_is_wrong_with_it(
    tmp_path: Path, day: Callable[[int], None]
) -> None:
    sync(tmp_path, 0, licence="CC BY 4.0", redistribute=False)
    home = str(tmp_path / "state")
    with geolookup.GeoLookup(home) as geo:
        lite, own = geo.status().sources
    assert (lite.name, lite.kind, lite.licence, lite.redistribute) == ("lite", "ranges-csv", "CC BY 4.0", False)
    assert (lite.addresses_v4, lite.addresses_v6, lite.blocks, lite.problem) == (256, 0, 1, None)
    assert (own.attribution, own.serves, own.location) == ("made by us", True, str(tmp_path / "own.csv"))
    (tmp_path / "own.csv").write_text("hello\n")
    day(1)
    with pytest.raises(PullError):
        pull(
            StateDirectory(home),
            Settings(
                sources=tuple(
                    SourceSettings(name=name, location=str(tmp_path / f"{name}.csv")) for name in ("lite", "own")
                )
            ),
        )
    with geolookup.GeoLookup(home) as geo:
        lite, own = geo.status().sources
    assert (lite.age_s, own.age_s) == (0.0, 86400.0)
    assert own.problem is not None
    assert "no kind of source begins so" in own.problem
    assert own.problem_since == "2026-01-02T00:00:00.000Z"
    assert geo_age(home) == 86400.0, "the state's age is that of the oldest source"


def geo_age(home: str) -> float:
    with geolookup.GeoLookup(home) as geo:
        return geo.status().age_s
