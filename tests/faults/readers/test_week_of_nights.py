"""A service that misbehaves a different way each night, and the refresh that nobody watches."""

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.faults.readers.week_of_nights import LAST_STAMP, NIGHTS, Week, live_through, table
from tests.support.users.quick_commands import forked


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("week")


@pytest.fixture(scope="module")
def week(work: Path) -> Week:
    return live_through(work, forked())


def test_each_night_ends_as_it_must_and_serves_what_it_must(week: Week) -> None:
    found = [
        (night.name, code, report["next_action"]["code"], generation)
        for night, code, report, generation in zip(NIGHTS, week.exits, week.reports, week.served, strict=True)
    ]
    assert found == [(night.name, night.exits, night.next, night.serves) for night in NIGHTS], table(week.rows)
    for code, report in zip(week.exits, week.reports, strict=True):
        assert report["exit_status"] == code
        # What became of the lost create is seen in the list of the same night; its block goes the next.
        assert bool(report["failures"]) == (code != 0 and report["next_action"]["code"] != "run-again")


def test_each_night_sends_what_it_can_and_loses_no_edit(week: Week) -> None:
    for night, report in zip(NIGHTS, week.reports, strict=True):
        push = report["push"]
        left = sum(push[state] for state in ("queued", "unknown", "held", "rejected"))
        assert (push["done"], left) == night.pushed, night.name


def test_a_reader_meets_no_error_no_mixture_and_nothing_but_the_good_lists(week: Week) -> None:
    assert week.reader["problems"] == []
    assert week.reader["seen"] == list(range(1, LAST_STAMP + 1))
    assert week.reader["lookups"] > len(NIGHTS)


def test_answers_count_as_changed_exactly_where_an_address_has_another_one(week: Week) -> None:
    before = 0
    for night, report in zip(NIGHTS, week.reports, strict=True):
        assert report["changed"] == (night.serves != before), night.name
        before = night.serves


def test_what_the_provider_lost_is_told_though_the_night_went_well(week: Week) -> None:
    (report,) = (report for night, report in zip(NIGHTS, week.reports, strict=True) if "depot" in night.name)
    assert any(" is gone from the service, and from lookups: " in warning for warning in report["warnings"]), report
    assert report["pull"]["difference"]["geolocations"]["removed"] == 1


def test_the_monitor_is_told_of_each_start_and_of_how_it_ended(week: Week) -> None:
    ends = ["/nightly" if night.exits == 0 else f"/nightly/{night.exits}" for night in NIGHTS]
    assert week.pings == [target for end in ends for target in ("/nightly/start", end)]


def test_the_metrics_are_those_of_the_last_night(week: Week, work: Path) -> None:
    text = (work / "geolookup.prom").read_text(encoding="utf-8")
    values = {sample.name: sample.value for family in text_string_to_metric_families(text) for sample in family.samples}
    assert values["geolookup_generation"] == NIGHTS[-1].serves
    assert values["geolookup_refresh_exit_status"] == 0


def test_nothing_is_left_behind(week: Week, work: Path) -> None:
    names = [path.name for path in work.rglob("*")]
    assert not [name for name in names if re.search(r"^\.|tmp-|held$", name)]
