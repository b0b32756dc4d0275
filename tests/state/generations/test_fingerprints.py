"""The fingerprint that is kept is that of what is served, always; and it is no trouble where it cannot be kept."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import geolookup
from geolookup.base import disk
from geolookup.index import fingerprint as computing
from geolookup.lookup.engine import GeoLookup
from geolookup.state.generations import fingerprints
from geolookup.state.publishing.directory import StateDirectory
from tests.support.data.states import place, publish

FIRST = [place(1, "8.0.0.0/8", "2001:db8::/32", country="US"), place(2, "9.0.0.0/8", country="DE")]


@pytest.fixture(autouse=True)
def another_process() -> Iterator[None]:
    fingerprints._known.clear()
    yield
    fingerprints._known.clear()


def kept(home: str) -> Path:
    return Path(home, "fingerprints")


def computed(geo: GeoLookup) -> str:
    return geo.with_readers(lambda base, custom: computing.fingerprint((base, custom)))


def asked(home: str, **options: Any) -> str:
    """The fingerprint as a process that has just begun says it, after a look that it is the right one."""
    fingerprints._known.clear()
    with geolookup.open(home, **options) as geo:
        found = geo.fingerprint()
        assert found == computed(geo)
    return found


def test_it_is_computed_once(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(home, FIRST)
    one = asked(home)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fingerprints, "_computed", lambda _layers: "computed anew")
        assert asked_kept(home) == one
        kept(home).unlink()
        assert asked_kept(home) == "computed anew"


def asked_kept(home: str) -> str:
    fingerprints._known.clear()
    with geolookup.open(home) as geo:
        return geo.fingerprint()


def test_after_each_edit_sync_and_rollback_it_is_that_of_what_is_served(home: str) -> None:
    publish(home, FIRST)
    seen = [asked(home)]
    with geolookup.open(home) as geo, geo.edit() as editor:
        locid = editor.create(country="FR", region="", city="Nice", latitude=43.7, longitude=7.25)
        editor.add_block(locid, "8.8.8.0/24")
        geo.look_soon()
        assert geo.fingerprint() == computed(geo) == asked(home)
        seen.append(asked(home))
        editor.delete(locid)
    assert asked(home) == seen[0]
    publish(home, FIRST[:1])
    seen.append(asked(home))
    assert len(set(seen)) == 3
    assert asked(home, as_of="previous") in seen[:2]
    StateDirectory(home).keeping.rollback()
    assert asked(home) == seen[0]


def test_a_line_that_is_not_as_it_was_written_is_not_believed(home: str) -> None:
    publish(home, FIRST)
    right = asked(home)
    written = kept(home).read_bytes()
    for at in range(0, len(written) - 1, 7):
        changed = bytearray(written)
        changed[at] ^= 1
        kept(home).write_bytes(changed)
        assert asked_kept(home) == right
    for other in (b"", b"\xff" * 100, b"\n\n", b"a b c d\n", written * 10_000):
        kept(home).write_bytes(other)
        assert asked_kept(home) == right


def test_one_of_other_files_is_not_taken(home: str, tmp_path: Path) -> None:
    other = str(tmp_path / "other")
    publish(home, FIRST)
    publish(other, FIRST[:1])
    assert asked(home) != asked(other)
    kept(home).write_bytes(kept(other).read_bytes())
    assert asked_kept(home) == asked(home)


def test_where_it_cannot_be_kept_it_is_computed_in_each_process(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(home, FIRST)

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "replace", refuse)
        right = asked(home)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: os.stat(home).st_uid + 1)
        assert asked(home) == right
    assert not kept(home).exists()
    with geolookup.open(home) as geo:
        assert geo.fingerprint() == right
        monkeypatch.setattr(fingerprints, "_computed", lambda _layers: "computed anew")
        assert geo.fingerprint() == right, "in one process it is computed once"


def test_the_newest_are_kept_and_a_group_may_read_them_where_it_reads_the_state(home: str) -> None:
    publish(home, FIRST)
    os.chmod(home, 0o2750)
    with geolookup.open(home) as geo, geo.edit() as editor:
        locid = editor.create(country="FR", region="", city="Nice", latitude=43.7, longitude=7.25)
        for number in range(40):
            editor.add_block(locid, f"8.8.{number}.0/24")
            geo.look_soon()
            newest = geo.fingerprint()
    lines = kept(home).read_text().splitlines()
    assert len(lines) == 32
    assert lines[0].split(" ")[2] == newest
    assert stat.S_IMODE(kept(home).stat().st_mode) == 0o640
    os.chmod(home, 0o700)
    kept(home).unlink()
    asked(home)
    assert stat.S_IMODE(kept(home).stat().st_mode) == 0o600


def test_in_a_routing_domain_it_is_that_of_its_own_answers(home: str) -> None:
    publish(home, FIRST)
    right = asked(home)
    with geolookup.open(home) as geo, geo.edit() as editor:
        editor.put_vrf_place("CUST-A", "office", country="NL", city="Utrecht", blocks=["10.1.2.0/24"])
        geo.look_soon()
        within = geo.in_vrf("CUST-A")
        assert within.fingerprint() == computed(within) != right
        assert geo.fingerprint() == computed(geo) == asked(home) == right
