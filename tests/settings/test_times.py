"""Moments as people write them, against plain arithmetic on the calendar; and that what is shown is read again."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.settings import times
from geolookup.settings.times import moment
from tests.support.zones import local_zone

ZONES = ("UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu", "Pacific/Kiritimati", "Australia/Lord_Howe")
#: With two turns of most zones' clocks in them.
NOWS = st.floats(1_735_689_600, 1_798_761_600).map(lambda seconds: datetime.fromtimestamp(round(seconds, 3), UTC))
WORDS = {
    "weeks": ("w", "week", "weeks"),
    "days": ("d", "day", "days"),
    "hours": ("h", "hour", "hours", "H"),
    "minutes": ("m", "min", "minutes"),
    "seconds": ("s", "sec", "seconds"),
}


def to_the_second(found: datetime) -> datetime:
    return found.replace(microsecond=0)


@given(data=st.data(), now=NOWS, zone=st.sampled_from(ZONES))
def test_a_length_of_time_is_so_long_before_now_in_every_zone(data: st.DataObject, now: datetime, zone: str) -> None:
    units = data.draw(st.lists(st.sampled_from(list(WORDS)), min_size=1, unique=True))
    lengths = {unit: data.draw(st.integers(0, 400)) for unit in units}
    space = data.draw(st.sampled_from(["", " "]))
    text = space.join(f"{length}{space}{data.draw(st.sampled_from(WORDS[unit]))}" for unit, length in lengths.items())
    text = data.draw(st.sampled_from([text, f"-{text}", f"{text} ago", f"  {text} "]))
    with local_zone(zone):
        assert moment(text, now) == now - timedelta(**lengths)
        assert times.is_ago(text)


@given(now=NOWS, zone=st.sampled_from(ZONES), back=st.integers(0, 1))
def test_a_day_is_the_last_moment_that_its_own_calendar_gives_it(now: datetime, zone: str, back: int) -> None:
    with local_zone(zone) as here:
        today = now.astimezone(here).date()
        asked = today - timedelta(days=back)
        found = {moment(text, now) for text in (["today", "yesterday"][back], asked.isoformat())}
        (end,) = found | {times.end_of(asked, now)}
        if back:
            local = end.astimezone(here)
            assert local.date() == asked
            assert (local + timedelta(milliseconds=1)).astimezone(UTC).astimezone(here).date() >= asked
            assert (end + timedelta(milliseconds=1)).astimezone(here).date() == today
        else:
            assert end == now


@given(now=NOWS, zone=st.sampled_from(ZONES), wanted=NOWS.map(lambda moment: moment.replace(tzinfo=None)))
def test_a_time_without_a_zone_is_local_and_a_named_zone_is_meant(now: datetime, zone: str, wanted: datetime) -> None:
    wanted = to_the_second(wanted)
    written = wanted.isoformat(" ")
    here = ZoneInfo(zone)
    expected = wanted.replace(tzinfo=here).astimezone(UTC)
    if expected == to_the_second(now):
        return
    if expected.astimezone(here).replace(tzinfo=None) == wanted:  # else the clock was put forward over it
        with local_zone(zone):
            assert to_the_second(moment(written, now)) == expected
    with local_zone("Asia/Tokyo"):
        assert to_the_second(moment(f"{written} {zone}", now)) == expected
        day = now.astimezone(ZoneInfo("Asia/Tokyo")).date()
        assert to_the_second(moment(f"yesterday {wanted:%H:%M}", now)) == datetime.combine(
            day - timedelta(days=1), wanted.time().replace(second=0), ZoneInfo("Asia/Tokyo")
        )


@given(when=NOWS, zone=st.sampled_from(ZONES))
def test_what_is_shown_names_its_zone_and_is_read_again(when: datetime, zone: str) -> None:
    with local_zone(zone):
        shown = times.shown(when)
        assert shown[-1] == "Z" or shown[-6] in "+-"
        read = moment(shown, datetime(2030, 1, 1, tzinfo=UTC))
        assert to_the_second(read) == to_the_second(when)
        assert read >= when.replace(microsecond=when.microsecond // 1000 * 1000)  # it includes what happened then
        assert times.shown(when.isoformat()) == shown


def test_examples_in_berlin() -> None:
    now = datetime(2026, 11, 22, 4, 19, 15, tzinfo=UTC)
    with local_zone("Europe/Berlin"):
        read = {
            text: times.shown(moment(text, now))
            for text in ("now", "06:00", "6:00", "yesterday", "yesterday 6:00", "2026-07-01", "2026-07-01T06:00:00Z")
        }
    assert read == {
        "now": "2026-11-22 05:19:15+01:00",
        "06:00": "2026-11-22 06:00:00+01:00",
        "6:00": "2026-11-22 06:00:00+01:00",
        "yesterday": "2026-11-21 23:59:59+01:00",
        "yesterday 6:00": "2026-11-21 06:00:00+01:00",
        "2026-07-01": "2026-07-01 23:59:59+02:00",
        "2026-07-01T06:00:00Z": "2026-07-01 08:00:00+02:00",
    }


def test_a_moment_of_the_state_directory_is_exact() -> None:
    now = datetime(2026, 11, 22, tzinfo=UTC)
    assert moment("2026-02-01T06:00:00.000Z", now) == datetime(2026, 2, 1, 6, tzinfo=UTC)
    assert moment("2026-02-01T06:00:00Z", now) == datetime(2026, 2, 1, 6, 0, 0, 999000, tzinfo=UTC)
    assert times.shown("") == ""
    assert times.shown("never") == "never"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "ago",
        "2",
        "2x",
        "1mo",
        "+1h",
        "tomorrow",
        "2026-02-30",
        "25:00",
        "yesterday morning",
        "01/02/2026",
        "999999999w",
        "2026-02-01 06:00 Mars/Base",
        "2d 3",
        "٢d",
        "2026-02-01\x1b[31m",
    ],
)
def test_anything_else_is_an_error_that_says_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a moment: write yesterday, 2d, "):
        moment(text, datetime(2026, 11, 22, tzinfo=UTC))


def test_days_at_the_ends_of_the_calendar() -> None:
    now = datetime(2026, 11, 22, tzinfo=UTC)
    with local_zone("Pacific/Kiritimati"):
        assert moment("0001-01-02", now).year == 1
        with pytest.raises(OverflowError):
            times.end_of(date.max, now)
