"""How old the data may be: in the library, as time passes in one process, and for the embedded default."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import geolookup
from geolookup.lookup.engine import GeoLookup
from geolookup.model.errors import SettingsError, StaleDataError
from geolookup.settings import times
from geolookup.settings.table import Settings
from geolookup.state.base import clock
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.run import running
from geolookup.sync.first import build_bundled_state
from tests.support.data.states import place, publish


class Clock:
    """The wall clock, as far ahead of the real one as it was told."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(clock, "wall", found)
    return found


ASKED: dict[str, Callable[[GeoLookup], Any]] = {
    "lookup": lambda geo: geo.lookup("8.8.8.8"),
    "lookup_many": lambda geo: geo.lookup_many(["8.8.8.8"]),
    "lookup_integer": lambda geo: geo.lookup_integer(0x08080808, family=4),
    "match": lambda geo: geo.match("8.8.8.8"),
    "explain": lambda geo: geo.explain("8.8.8.8"),
    "segments": lambda geo: list(geo.segments(4)),
    "columns": lambda geo: geo.with_readers(lambda base, custom: base.find4(0x08080808)),
}


@pytest.mark.parametrize("question", ASKED)
@pytest.mark.parametrize("pure", ["0", "1"])
def test_stale_data_are_refused_whatever_is_asked_until_the_service_confirms_them(
    home: str, wall: Clock, monkeypatch: pytest.MonkeyPatch, question: str, pure: str
) -> None:
    monkeypatch.setenv("GEOLOOKUP_PURE", pure)
    publish(home, [place(1, "8.0.0.0/8")])
    ask = ASKED[question]
    with geolookup.open(home, max_age="36h", stale="refuse") as geo:
        fresh = ask(geo)
        wall.ahead = timedelta(hours=37)
        geo.look_soon()
        for _ in range(3):
            with pytest.raises(StaleDataError, match=r"37 hours old.*36 hours.*geolookup sync") as caught:
                ask(geo)
        assert 36 * 3600 < caught.value.age_s < 38 * 3600
        status = geo.status()
        assert (status.stale, status.max_age_s, status.problem) == (True, 36 * 3600, None)
        with pytest.raises(StaleDataError):
            ask(geo)
        directory = StateDirectory(home)
        with running(directory) as run:
            run.confirm(etag=None)
        again = ask(geo)
        assert again == fresh or question == "explain"
        assert not geo.status().stale


def test_data_that_are_stale_when_opened_are_refused_at_the_first_lookup(home: str, wall: Clock) -> None:
    publish(home, [place(1, "8.0.0.0/8")])
    wall.ahead = timedelta(days=3)
    with geolookup.open(home, max_age=timedelta(days=2), stale="refuse") as geo:
        with pytest.raises(StaleDataError):
            geo.lookup("8.8.8.8")
        assert geo.status().stale


def test_stale_data_are_warned_of_once_and_again_after_they_were_fresh(
    home: str, wall: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    publish(home, [place(1, "8.0.0.0/8")])
    directory = StateDirectory(home)

    def warnings() -> int:
        return sum("max_age" in record.getMessage() for record in caplog.records)

    with geolookup.open(home, max_age=3600) as geo:
        geo.lookup("8.8.8.8")
        assert warnings() == 0
        wall.ahead = timedelta(hours=2)
        for _ in range(3):
            geo.look_soon()
            assert geo.lookup("8.8.8.8") is not None
        assert warnings() == 1
        with running(directory) as run:
            run.confirm(etag=None)
        geo.lookup("8.8.8.8")
        wall.ahead = timedelta(hours=4)
        geo.look_soon()
        geo.lookup("8.8.8.8")
        assert warnings() == 2


def test_the_settings_say_how_old_and_arguments_stand_in_for_them(home: str, wall: Clock) -> None:
    publish(home, [place(1, "8.0.0.0/8")])
    wall.ahead = timedelta(hours=2)
    chosen = Settings(max_age="1h", stale="refuse")
    with geolookup.open(home, settings=chosen) as geo, pytest.raises(StaleDataError):
        geo.lookup("8.8.8.8")
    with geolookup.open(home, settings=chosen, stale="serve") as geo:
        assert geo.lookup("8.8.8.8") is not None
    with geolookup.open(home, settings=chosen, max_age="3h") as geo:
        assert geo.lookup("8.8.8.8") is not None
    with geolookup.open(home) as geo:
        assert (geo.status().stale, geo.status().max_age_s) == (False, None)


def test_a_lookup_as_of_another_time_is_never_stale(home: str, wall: Clock) -> None:
    publish(home, [place(1, "8.0.0.0/8")])
    publish(home, [place(2, "8.0.0.0/8")])
    wall.ahead = timedelta(days=30)
    with geolookup.open(home, max_age="1h", stale="refuse", as_of=1) as geo:
        found = geo.lookup("8.8.8.8")
        assert found is not None
        assert (found.locid, geo.status().stale) == (1, False)


def test_the_age_of_the_embedded_default_counts_from_its_own_date(default_home: str, wall: Clock) -> None:
    build_bundled_state(default_home)
    with geolookup.open(default_home) as geo:
        assert geo.lookup("8.8.8.8") is not None
        age_s = geo.status().age_s
        assert geo.explain("8.8.8.8").age_s == pytest.approx(age_s, abs=60)
    dated = datetime.fromisoformat("2026-02-01T00:00:00Z")
    assert age_s == pytest.approx(max(0.0, (datetime.now(UTC) - dated).total_seconds()), abs=60)
    wall.ahead = timedelta(days=800)
    with geolookup.open(default_home) as geo:
        assert geo.lookup("8.8.8.8") is not None  # no limit was set
    with (
        geolookup.open(default_home, max_age="700d", stale="refuse") as geo,
        pytest.raises(StaleDataError, match="dated"),
    ):
        geo.lookup("8.8.8.8")


def test_a_clock_that_goes_back_makes_nothing_stale(home: str, wall: Clock) -> None:
    publish(home, [place(1, "8.0.0.0/8")])
    wall.ahead = timedelta(days=-30)
    with geolookup.open(home, max_age="1h", stale="refuse") as geo:
        assert geo.lookup("8.8.8.8") is not None
        assert geo.status().age_s == 0


@pytest.mark.parametrize(
    ("text", "length_s"),
    [("90", 90), ("36h", 129600), (" 2d ", 172800), ("1.5 m", 90), ("1w", 604800), (30, 30), (0.5, 0.5)],
)
def test_lengths_of_time_are_read(text: str | float, length_s: float) -> None:
    assert times.seconds(text) == length_s
    assert Settings(max_age=text).max_age_s == length_s


@pytest.mark.parametrize("wrong", ["0", "0h", "-1h", "h", "1y", "1h30m", "inf", "nan", "١h", 0, -5, float("nan")])
def test_what_is_no_length_of_time_is_refused(home: str, wrong: str | float) -> None:
    with pytest.raises(ValueError, match=r"length of time|greater than zero"):
        times.seconds(wrong)
    publish(home, [place(1, "8.0.0.0/8")])
    with pytest.raises(SettingsError, match="max_age"):
        geolookup.open(home, max_age=wrong)


def test_an_unknown_rule_is_refused(home: str) -> None:
    with pytest.raises(SettingsError, match="stale = 'ignore': must be one of serve, warn, refuse"):
        geolookup.open(home, stale="ignore")  # type: ignore[arg-type]
