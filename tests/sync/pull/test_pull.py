"""Pull: what is published, what never is, what is held; against a server that does what it is told."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import geolookup
from geolookup.model.errors import (
    GeoLookupError,
    HeldError,
    PullError,
    SettingsError,
    StateBusyError,
    StateDamagedError,
    StateError,
    StateUnwritableError,
    UpstreamAnswerError,
    UpstreamError,
)
from geolookup.settings.table import Settings
from geolookup.state.base.current import read_current
from geolookup.state.editor import Editor
from geolookup.state.edits.store import Edits
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.verify import verify
from geolookup.sync.pull.accept import accept
from geolookup.sync.pull.context import PullReport
from geolookup.sync.pull.guard import reasons_to_hold
from geolookup.sync.pull.pull import pull
from geolookup.upstream.geolocations import PROBE_TOP
from tests.faults.raw_server import RawServer, Script, answer
from tests.support.data.lists import item, listed, many
from tests.support.data.states import place, publish
from tests.support.services.running_service import FIELDS, RunningService

FRAMINGS = ("length", "chunked", "close")


def pull_from(home: str, *scripts: Script | bytes, **changes: Any) -> tuple[PullReport, RawServer]:
    """One pull from a server that plays the scripts, which is stopped afterwards."""
    with RawServer(*scripts) as server:
        settings = Settings(
            url=server.url,
            **{"attempts": 1, "read_timeout_s": 5.0, "total_timeout_s": 10.0, "max_wait_s": 0.0, **changes},
        )
        return pull(StateDirectory(home), settings), server


def published(home: str) -> tuple[int, list[str]]:
    """The served generation (0 where there is none) and everything that stands in the directory."""
    current = StateDirectory(home).current()
    names = sorted(os.listdir(home)) + sorted(os.listdir(os.path.join(home, "generations")))
    return current.generation if current else 0, names


def assert_nothing_published(home: str, generation: int) -> None:
    found, names = published(home)
    assert found == generation
    assert not [name for name in names if name.startswith(".") or "tmp" in name], "temporaries were left behind"
    if generation:
        assert verify(home) == []


@pytest.mark.parametrize("framing", FRAMINGS)
def test_a_whole_list_is_published(home: str, framing: str) -> None:
    report, _ = pull_from(home, listed([*many(3), item(-5, ("10.0.1.0", "10.0.1.9"))], framing=framing, count=4))
    assert (report.outcome, report.generation, report.warnings) == ("published", 1, [])
    assert report.rows is not None
    assert (report.rows["geolocations"], report.rows["custom_geolocations"], report.rows["blocks"]) == (4, 1, 7)
    assert verify(home) == []
    directory = StateDirectory(home)
    assert [line["what"] for line in directory.edits.history()] == ["pull"]
    assert directory.report(1)["report"]["rows"] == report.rows


@pytest.mark.parametrize("framing", FRAMINGS)
def test_a_list_cut_at_any_offset_is_never_published(home: str, framing: str, full_sweep: bool) -> None:
    whole = answer(b'[{"locid":1,"ipblocks":[{"startip":"10.0.0.0","endip":"10.255.255.255"}]}]', framing=framing)
    publish(home, [place(1, "10.0.0.0/8")])
    # A body that ends with the connection may lack nothing but what follows the closing bracket: nothing does.
    body = whole.index(b"[")
    # In CI each offset around the ends of head and body, and every fourth of the others, for each framing another.
    edges = {0, *range(body - 3, body + 3), *range(len(whole) - 8, len(whole))}
    some = edges | set(range(FRAMINGS.index(framing), len(whole), 4))
    offsets = range(len(whole)) if full_sweep else sorted(some)
    with RawServer(*[Script([whole[:offset]]) for offset in offsets]) as server:
        settings = Settings(url=server.url, attempts=1, max_wait_s=0.0)
        for offset in offsets:
            with pytest.raises(UpstreamError):
                pull(StateDirectory(home), settings)
            found, names = published(home)
            assert (found, [name for name in names if name.startswith(".")]) == (1, []), f"cut at {offset}"


BROKEN: dict[str, bytes] = {
    "HTML with 200": answer(b"<html><body>Sign in</body></html>"),
    "data after the end": answer(json.dumps(many(2)).encode() + b"[]"),
    "no closing bracket": answer(json.dumps(many(2)).encode()[:-1]),
    "empty body": answer(b""),
    "zero geolocations": answer(b"[]"),
    "null": answer(b"null"),
    "a number": answer(b"5"),
    "two arrays of geolocations": answer(json.dumps({"data": many(2), "items": many(2, first=5)}).encode()),
    "duplicate locids": listed([*many(2), *many(1)]),
    "fewer than declared": listed(many(2), count=3),
    "more than declared": listed(many(2), count=1),
    "404": answer(b"{}", status="404 Not Found"),
    "204": answer(b"", status="204 No Content"),
    "500": answer(json.dumps(many(2)).encode(), status="500 Internal Server Error"),
    "a redirect": answer(b"", status="302 Found", headers=["Location: http://127.0.0.1:9/"]),
    "compressed unasked": listed(many(2), headers=["Content-Encoding: gzip"]),
    "not UTF-8": answer(b'[{"locid": 1, "city": "\xff"}]'),
    "304 unasked": answer(b"", status="304 Not Modified"),
    "all rows bad": listed([item(0), item(-(10**15))]),
}


@pytest.mark.parametrize("what", BROKEN)
@pytest.mark.parametrize("first", [True, False])
def test_what_cannot_be_believed_is_never_published(home: str, what: str, first: bool) -> None:
    if not first:
        publish(home, [place(1, "10.0.0.0/8")])
    with pytest.raises((UpstreamError, PullError)) as caught:
        pull_from(home, BROKEN[what])
    assert not isinstance(caught.value, HeldError), "broken is not for a person to accept"
    assert_nothing_published(home, 0 if first else 1)
    assert StateDirectory(home).held() is None


def test_a_list_without_a_good_row_says_what_is_wrong_with_the_first(home: str) -> None:
    with pytest.raises(PullError, match="good; the first: locid is missing or not a whole number: nothing was"):
        pull_from(home, answer(b'[{"id":1,"country":"DE"}]'))


def test_a_slow_drip_ends_at_the_total_timeout(home: str) -> None:
    body = json.dumps(many(2)).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
    drip = Script([head, *[body[at : at + 1] for at in range(len(body))]], pause_s=0.2)
    with pytest.raises(UpstreamError, match=r"total|altogether|took|longer"):
        pull_from(home, drip, total_timeout_s=1.0)
    assert_nothing_published(home, 0)


@pytest.mark.parametrize(
    ("bad", "rows", "fine"), [(1, 5, True), (10, 40, True), (11, 40, False), (20, 2000, True), (21, 2000, False)]
)
def test_bad_rows_are_left_out_up_to_a_limit(home: str, bad: int, rows: int, fine: bool) -> None:
    items = many(rows)
    for number in range(bad):
        items[number]["locid"] = f"x{number}"
    if not fine:
        with pytest.raises(PullError, match=f"{bad} of {rows} geolocations"):
            pull_from(home, listed(items, count=rows))
        assert_nothing_published(home, 0)
        return
    report, _ = pull_from(home, listed(items, count=rows))
    assert report.outcome == "published"
    assert report.rejected_geolocations == bad
    assert len(report.rejected) == bad
    assert "left out" in report.warnings[0]


def test_a_bad_block_is_left_out_and_the_rest_goes_on(home: str) -> None:
    items = [*many(3), item(9, ("10.9.0.9", "10.9.0.0"), ("10.8.0.0", "10.8.0.9"))]
    report, _ = pull_from(home, listed(items))
    assert report.rows is not None
    assert (report.rejected_blocks, report.rows["blocks"]) == (1, 7)
    assert report.rejected[0]["locid"] == 9
    assert "10.9.0.9" in str(report.rejected[0])


@pytest.mark.parametrize("percent", [1, 4, 6, 20, 50, 99])
def test_a_shrink_is_held_beyond_the_guard_and_published_within(home: str, percent: int) -> None:
    pull_from(home, listed(many(100, country="DE"), count=100))
    left = many(100 - percent, country="DE")
    guard = {"guard_addresses": 0.95}
    with RawServer(listed(many(100, country="DE"), count=100), listed(left, count=len(left))) as server:
        settings = Settings(url=server.url, attempts=1, **guard)  # type: ignore[arg-type]
        directory = StateDirectory(home)
        pull(directory, settings)
        if percent <= 5:
            report = pull(directory, settings)
            assert report.difference is not None
            assert report.difference["geolocations"] == {"added": 0, "removed": percent, "changed": 0}
            assert report.difference["blocks"] == {"added": 0, "removed": 2 * percent, "changed": 0}
            moved = report.difference["addresses_whose_country_changed"]
            most = {"from": "DE", "to": None, "share": 1.0}
            assert moved == {"ipv4": 256 * percent, "ipv6": str(percent << 80), "most": most}
            return
        with pytest.raises(HeldError) as caught:
            pull(directory, settings)
    served = directory.current()
    assert served is not None
    assert served.published["rows"]["geolocations"] == 100
    assert verify(home) == []
    assert len(caught.value.reasons) >= 2
    assert directory.held() is not None
    report = accept(directory, caught.value.digest[:16], Settings())
    assert report.generation == 2  # the same list from another address made none
    accepted = directory.current()
    assert accepted is not None
    assert accepted.published["rows"]["geolocations"] == len(left)
    assert directory.held() is None
    assert verify(home) == []
    assert directory.edits.history()[-1]["what"] == "accept"


def test_accepting_needs_the_held_digest(home: str) -> None:
    publish(home, [place(number, f"10.0.{number}.0/24") for number in range(1, 50)])
    directory = StateDirectory(home)
    with pytest.raises(StateError, match="nothing is held"):
        accept(directory, "0" * 64, Settings())
    with pytest.raises(HeldError) as caught:
        pull_from(home, listed(many(1), count=1))
    for wrong in ("0" * 64, "", caught.value.digest[:4]):
        with pytest.raises(StateError, match=caught.value.digest):
            accept(directory, wrong, Settings())
    assert_nothing_published(home, 1)


def test_a_damaged_held_candidate_is_not_accepted(home: str) -> None:
    publish(home, [place(number, f"10.0.{number}.0/24") for number in range(1, 50)])
    with pytest.raises(HeldError) as caught:
        pull_from(home, listed(many(1), count=1))
    with open(os.path.join(home, "held", "service", "index"), "r+b") as file:
        file.seek(5000)
        file.write(b"\xff")
    with pytest.raises(StateError, match="sync again"):
        accept(StateDirectory(home), caught.value.digest, Settings())
    assert_nothing_published(home, 1)


def test_the_request_is_conditional_on_what_is_published_and_never_on_what_is_held(home: str) -> None:
    full = listed(many(40), count=40, etag='"full"')
    shrunk = listed(many(2), count=2, etag='"shrunk"')
    with RawServer(full, shrunk, answer(b"", status="304 Not Modified")) as server:
        settings = Settings(url=server.url, attempts=1)
        directory = StateDirectory(home)
        pull(directory, settings)
        with pytest.raises(HeldError):
            pull(directory, settings)
        report = pull(directory, settings)
    assert [request.headers.get("if-none-match") for request in server.requests] == [None, '"full"', '"full"']
    assert (report.outcome, report.generation) == ("unchanged", 1)


def test_the_same_content_in_another_order_is_no_new_generation(home: str) -> None:
    items = many(5)
    with RawServer(listed(items, etag='"a"', count=5), listed(items[::-1], etag='"b"', count=5)) as server:
        directory, settings = StateDirectory(home), Settings(url=server.url, attempts=1)
        pull(directory, settings)
        report = pull(directory, settings)
    current = directory.current()
    assert current is not None
    assert (report.outcome, current.generation, current.published["etag"]) == ("unchanged", 1, '"b"')


def test_rolled_back_content_is_not_published_again_by_itself(home: str) -> None:
    first, second, third = (listed(many(40 + extra), count=40 + extra) for extra in (0, 1, -1))
    with RawServer(first, second, second, third) as server:
        directory, settings = StateDirectory(home), Settings(url=server.url, attempts=1)
        pull(directory, settings)
        pull(directory, settings)
        assert directory.keeping.rollback().generation == 1
        again = pull(directory, settings)
        assert (again.outcome, again.generation) == ("rolled-back", 1)
        assert again.digest is not None
        other = pull(directory, settings)
        assert (other.outcome, other.generation) == ("published", 3)
    assert [line["what"] for line in directory.edits.history()] == ["pull", "pull", "rollback", "pull", "pull"]


def test_rolled_back_content_can_be_accepted(home: str) -> None:
    first, second = (listed(many(40 + extra), count=40 + extra) for extra in (0, 1))
    with RawServer(first, second) as server:
        directory, settings = StateDirectory(home), Settings(url=server.url, attempts=1)
        pull(directory, settings)
        pull(directory, settings)
        directory.keeping.rollback()
        held = pull(directory, settings)
        assert held.digest is not None
        accept(directory, held.digest, Settings())
        assert pull(directory, settings).outcome == "unchanged"


@pytest.mark.parametrize("count", [3, 100])
def test_a_silent_cap_is_found_by_asking_for_more(home: str, count: int) -> None:
    with (
        RawServer(listed(many(count)), listed(many(count + 1)), listed(many(count))) as server,
        pytest.raises(UpstreamAnswerError, match="truncated"),
    ):
        pull(StateDirectory(home), Settings(url=server.url, attempts=1))
    assert f"top={PROBE_TOP}" in server.requests[1].target
    assert_nothing_published(home, 0)


def test_a_cap_is_looked_for_at_the_first_pull_and_at_round_counts_only(home: str) -> None:
    with RawServer(
        listed(many(103)), listed(many(103)), listed(many(104)), listed(many(150)), listed(many(150))
    ) as server:
        directory, settings = StateDirectory(home), Settings(url=server.url, attempts=1)
        for _ in range(3):
            assert pull(directory, settings).warnings == []
    assert ["top" in request.target for request in server.requests] == [False, True, False, False, True]


def test_a_service_that_refuses_the_probe_is_believed_with_a_warning(home: str) -> None:
    report, _ = pull_from(home, listed(many(3)), answer(b"{}", status="400 Bad Request"))
    assert report.outcome == "published"
    assert "could not be checked" in report.warnings[0]


def test_the_embedded_default_is_no_baseline(home: str) -> None:
    publish(home, [place(number, f"11.0.{number}.0/24") for number in range(1, 250)], url=None)
    report, _ = pull_from(home, listed(many(1), count=1))
    assert (report.outcome, report.generation, report.difference) == ("published", 2, None)


def test_vanished_custom_geolocations_are_reported_and_held_when_many(home: str) -> None:
    def with_custom(custom: int) -> bytes:
        items = [
            *many(40),
            *(item(-number, (f"10.200.{number}.0", f"10.200.{number}.9")) for number in range(1, custom + 1)),
        ]
        return listed(items, count=len(items))

    with RawServer(with_custom(30), with_custom(20), with_custom(9)) as server:
        directory, settings = StateDirectory(home), Settings(url=server.url, attempts=1)
        pull(directory, settings)
        report = pull(directory, settings)
        assert report.difference is not None
        assert report.difference["custom_geolocations_gone"] == 10
        assert "10 custom geolocations are gone, and were not deleted here: " in report.warnings[0]
        with pytest.raises(HeldError, match="11 of 20"):
            pull(directory, settings)


def test_what_is_gone_is_named_and_what_only_moved_is_not_gone(home: str) -> None:
    before = [*many(5), item(-1, ("10.1.0.0", "10.1.0.9"), city="Rom"), item(-2, ("10.2.0.0", "10.2.0.9"), city="Ulm")]
    after = [*many(5), item(-3, ("10.1.0.0", "10.1.0.9"), city="Rom")]
    pull_from(home, listed(before, count=len(before)))
    report, _ = pull_from(home, listed(after, count=len(after)))
    (warning,) = (each for each in report.warnings if "gone" in each)
    assert warning.startswith("1 custom geolocation is gone, and was not deleted here: Ulm (-2). Somebody")


def test_another_run_under_way_is_busy(home: str) -> None:
    with StateDirectory(home).locks.run(), pytest.raises(StateBusyError):
        pull_from(home, listed(many(1)))


def test_a_pull_without_a_url_says_where_to_put_one(home: str) -> None:
    with pytest.raises(SettingsError, match=r"no source is configured.*sync FILE.*`url`"):
        pull(StateDirectory(home), Settings())


def test_a_history_that_cannot_be_written_does_not_hide_why_a_pull_failed(
    home: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_given: object, **_named: object) -> None:
        raise StateUnwritableError("the disk is full")

    monkeypatch.setattr(Edits, "record", full)
    with pytest.raises(PullError, match="the list is empty"):
        pull_from(home, listed([]))
    assert "the failed pull is missing from the history: the disk is full" in caplog.text


def test_a_failed_pull_is_in_the_history(home: str) -> None:
    with pytest.raises(GeoLookupError):
        pull_from(home, BROKEN["HTML with 200"])
    (line,) = StateDirectory(home).edits.history()
    assert (line["what"], "UpstreamAnswerError" in line["outcome"]) == ("pull", True)


def rows(geolocations: int, blocks: int, v4: int, v6: int) -> dict[str, Any]:
    return {
        "geolocations": geolocations,
        "custom_geolocations": 0,
        "blocks": blocks,
        "custom_blocks": 0,
        "addresses_v4": str(v4),
        "addresses_v6": str(v6),
    }


def held(
    old: dict[str, Any], new: dict[str, Any], countries: tuple[dict[str, int], dict[str, int]] = ({}, {})
) -> list[str]:
    return reasons_to_hold(
        Settings(),
        old=old,
        new=new,
        old_countries=countries[0],
        new_countries=countries[1],
        old_custom=0,
        custom_gone=0,
    )


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_the_guard_holds_exactly_below_its_shares(before: int, after: int) -> None:
    same = 10**6
    reasons = held(rows(same, before, same, same), rows(same, after, same, same))
    assert bool(reasons) == (after < 0.95 * before or (before > 0 and after > 2 * before))
    reasons = held(rows(same, same, before, same), rows(same, same, after, same))
    assert bool(reasons) == (after < 0.98 * before)
    reasons = held(rows(same, same, same, before << 100), rows(same, same, same, after << 100))
    assert bool(reasons) == (after < 0.98 * before)


@pytest.mark.parametrize(("blocks", "is_held"), [(99, False), (100, True)])
def test_a_large_country_that_is_gone_holds(blocks: int, is_held: bool) -> None:
    same = rows(10, 10**6, 10**6, 10**6)
    reasons = held(same, same, ({"DE": blocks, "FR": 5}, {"FR": 5}))
    assert bool(reasons) == is_held
    assert not is_held or "DE" in reasons[0]


@pytest.mark.parametrize("name", ["index", "cache.db"])
def test_a_damaged_generation_is_fetched_again_though_nothing_is_new(home: str, name: str) -> None:
    with RawServer(listed(many(40), count=40, etag='"a"')) as server:
        directory, settings = StateDirectory(home), Settings(url=server.url, attempts=1)
        pull(directory, settings)
        with open(os.path.join(home, "generations", "000001", name), "r+b") as file:
            file.seek(-1, os.SEEK_END)
            last = file.read(1)[0]
            file.seek(-1, os.SEEK_END)
            file.write(bytes([last ^ 1]))
        assert verify(home)
        report = pull(directory, settings)
    assert (report.outcome, report.generation, verify(home)) == ("published", 2, [])
    assert "damaged" in report.warnings[0]
    assert server.requests[1].headers.get("if-none-match") is None


def test_where_no_generation_is_whole_a_pull_publishes_anew_and_edits_are_kept(home: str) -> None:
    pull_from(home, listed([*many(3), item(-5, ("10.0.1.0", "10.0.1.9"))]))
    editor = Editor(home)
    created = editor.create(**{**FIELDS, "city": "Kept"})
    editor.add_block(created, "10.9.0.0/24")
    before = StateDirectory(home).current()
    assert before is not None
    os.truncate(os.path.join(home, "generations", "000001", "index"), 100)
    with pytest.raises(StateDamagedError, match="run `geolookup sync`"):
        geolookup.open(home)
    report, server = pull_from(home, listed(many(3)))
    assert (report.outcome, report.generation) == ("published", 2)
    assert "if-none-match" not in server.requests[0].headers
    current = StateDirectory(home).current()
    assert current is not None
    assert current.sequence > before.sequence
    with geolookup.open(home) as geo:
        found = geo.match("10.9.0.7")
        assert found is not None
        assert (found.geolocation.city, found.pending) == ("Kept", True)


def test_the_same_list_from_another_address_makes_no_generation_and_the_state_belongs_to_it(
    home: str, tmp_path: Path
) -> None:
    with RunningService(tmp_path / "service.db") as service:
        service.create(("10.0.0.0", "10.0.0.9"))
        directory, elsewhere = StateDirectory(home), service.url.replace("127.0.0.1", "localhost")
        pull(directory, Settings(url=service.url))
        first = read_current(home)
        report = pull(directory, Settings(url=elsewhere))
        assert (report.outcome, report.generation) == ("unchanged", 1)
        assert report.warnings == [
            f"{elsewhere} has exactly what {service.url} had, so nothing new was published",
            f"from now on this state belongs to {elsewhere}: before, it was {service.url}'s",
        ]
        second = read_current(home)
        assert (second.generation, second.digest) == (1, first.digest)
        assert (second.source, second.published["url"], directory.upstream_url()) == (elsewhere, elsewhere, elsewhere)
        assert os.listdir(os.path.join(home, "snapshots")) == ["000001"]
        assert pull(directory, Settings(url=elsewhere)).warnings == []  # by its ETag
        service.create(("10.9.0.0", "10.9.0.9"))
        assert pull(directory, Settings(url=elsewhere)).outcome == "published"
        assert verify(home) == []
