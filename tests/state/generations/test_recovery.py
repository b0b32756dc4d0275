"""Damage: CURRENT and what it names, byte by byte; the versions of all formats; what serves then; what verify finds."""

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import geolookup
from geolookup.index.reader import IndexReader
from geolookup.index.writer import encode_header
from geolookup.model.errors import IndexTooNewError, StateDamagedError, StateError, StateTooNewError
from geolookup.state.base.current import parse_current, read_current
from geolookup.state.base.parts import SERVICE
from geolookup.state.publishing import verify as verify_module
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.run import running
from geolookup.state.publishing.verify import verify
from tests.state.generations.staged import served, staged, staged_by, stamped, strays, tree
from tests.support.data.states import publish


@pytest.fixture
def two(home: str) -> str:
    """A state whose generations 1 and 2 answer with their numbers."""
    publish(home, stamped(1))
    publish(home, stamped(2))
    return home


def damages(data: bytes, masks: tuple[int, ...]) -> Iterator[bytes]:
    """Each byte flipped by each mask, and each truncation."""
    for position in range(len(data)):
        for mask in masks:
            yield data[:position] + bytes([data[position] ^ mask]) + data[position + 1 :]
        yield data[:position]


# CURRENT


def test_every_flipped_bit_and_truncation_of_current_is_noticed_or_harmless(two: str) -> None:
    data = Path(two, "CURRENT").read_bytes()
    whole = parse_current(data, "CURRENT").as_json()
    unnoticed = []
    for damaged in damages(data, tuple(1 << bit for bit in range(8))):
        try:
            found = parse_current(damaged, "CURRENT")
        except StateError:
            continue
        # A flip in the name of the member `check` itself is all that can go unnoticed.
        unnoticed.append(damaged)
        assert found.as_json() == whole
    assert all(b'"check"' not in damaged for damaged in unnoticed)


def test_no_flipped_byte_or_truncation_of_current_makes_a_mixture_or_a_crash(two: str, full_sweep: bool) -> None:
    path = Path(two, "CURRENT")
    data = path.read_bytes()
    outcomes = {"served": 0, "refused": 0}
    for number, damaged in enumerate(damages(data, (0x01, 0x80, 0xFF) if full_sweep else (0x01,))):
        if not full_sweep and number % 3:
            continue
        path.write_bytes(damaged)
        try:
            assert served(two) == (2, {"2"})
            outcomes["served"] += 1
        except StateTooNewError:
            outcomes["refused"] += 1
    assert outcomes["served"] > 100 * outcomes["refused"]


def test_where_current_is_gone_what_was_published_last_serves_and_nothing_takes_its_place(two: str) -> None:
    os.unlink(os.path.join(two, "CURRENT"))
    before = tree(two)
    assert served(two) == (2, {"2"})
    with geolookup.open(two) as geo:
        assert geo.status().generation == 2
        assert "is gone, though something was published" in str(geo.status().problem)
    assert tree(two) == before


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 600,
        b"null",
        b"[]",
        b'"1.0"',
        b"[" * 100_000,
        b'{"version": "1.0"}',
        b'{"version": "1.0", "sequence": ' + b"9" * 10_000 + b"}",
        b'{"version": "1.0", "sequence": NaN}',
        b"\xff\xfe{\x00}\x00",
        b" " * (2 << 20),
    ],
    ids=range(11),
)
def test_whatever_stands_in_current_the_newest_whole_generation_serves(two: str, content: bytes) -> None:
    Path(two, "CURRENT").write_bytes(content)
    assert served(two) == (2, {"2"})
    found = StateDirectory(two).current()
    assert found is not None
    assert "CURRENT" in str(found.recovered)
    with pytest.raises(StateDamagedError, match="CURRENT"):
        verify(two)


@pytest.mark.parametrize("value", [-1, 1 << 53, 1.5, "2", None, True, [], {}])
@pytest.mark.parametrize("name", ["sequence", "generation", "overlay", "edits", "newest"])
def test_a_counter_in_current_that_is_none_is_damage(two: str, name: str, value: object) -> None:
    document = json.loads(Path(two, "CURRENT").read_bytes())
    del document["check"]
    parse_current(json.dumps(document).encode(), "CURRENT")
    with pytest.raises(StateDamagedError, match="CURRENT"):
        parse_current(json.dumps({**document, name: value}).encode(), "CURRENT")


@pytest.mark.parametrize("name", ["published", "overlay_file", "refused", "published_at", "check"])
@pytest.mark.parametrize("value", [None, 7, {}, ["x", 1]])
def test_a_member_of_current_of_the_wrong_kind_is_damage(two: str, name: str, value: object) -> None:
    document = json.loads(Path(two, "CURRENT").read_bytes())
    del document["check"]
    with pytest.raises(StateDamagedError, match="CURRENT"):
        parse_current(json.dumps({**document, name: value}).encode(), "CURRENT")


def test_a_current_that_denies_the_generation_it_serves_never_makes_a_run_remove_it(two: str) -> None:
    path = Path(two, "CURRENT")
    document = json.loads(path.read_bytes())
    del document["check"]
    path.write_text(json.dumps({**document, "newest": 1}))
    with StateDirectory(two).locks.run():
        assert served(two) == (2, {"2"})


# What CURRENT names


def cut(path: str) -> None:
    os.truncate(path, os.path.getsize(path) - 1)


@pytest.mark.parametrize("damage", [cut, os.unlink, lambda path: os.truncate(path, 0)], ids=["cut", "gone", "empty"])
@pytest.mark.parametrize("name", ["generations/000002/index", "custom/000002"])
def test_a_damaged_file_falls_back_to_the_generation_before_and_the_next_publish_repairs(
    two: str, name: str, damage: Callable[[str], None]
) -> None:
    damage(os.path.join(two, name))
    assert served(two) == (1, {"1"})
    found = StateDirectory(two).current()
    assert found is not None
    assert os.path.join(two, name) in str(found.recovered)
    assert any(name in problem for problem in verify(two))
    repaired = publish(two, stamped(3))
    assert (repaired.sequence, repaired.generation, repaired.recovered) == (3, 3, None)
    assert (served(two), verify(two), strays(two)) == ((3, {"3"}), [], [])


def test_confirming_what_recovery_found_makes_current_whole_again(two: str) -> None:
    Path(two, "CURRENT").write_bytes(b"{")
    directory = StateDirectory(two)
    with running(directory) as run:
        confirmed = run.confirm(etag=None)
    assert (confirmed.sequence, confirmed.generation, confirmed.recovered) == (3, 2, None)
    assert (served(two), verify(two)) == ((2, {"2"}), [])


def test_recovery_after_a_rollback_does_not_go_forward_again(two: str) -> None:
    rolled_back = StateDirectory(two).keeping.rollback()
    Path(two, "CURRENT").write_bytes(b"{")
    assert served(two) == (1, {"1"})
    with running(StateDirectory(two)) as run:
        assert run.confirm(etag=None).sequence == rolled_back.sequence + 1


def test_an_overlay_is_never_laid_over_another_generation(two: str) -> None:
    """Files that are whole, and of the right size, but of two publishes."""
    for number in range(3, 7):  # what their headers remember is of one length by then
        publish(two, stamped(number), keep=2)
    overlay, other = Path(two, "custom", "000006"), Path(two, "custom", "000005")
    assert overlay.stat().st_size == other.stat().st_size
    overlay.write_bytes(other.read_bytes())
    assert served(two) == (5, {"5"})


def test_with_nothing_whole_left_the_error_says_what_to_do_and_a_sync_does_it(two: str) -> None:
    for number in (1, 2):
        cut(os.path.join(two, "generations", f"{number:06d}", "index"))
    with pytest.raises(StateDamagedError, match="run `geolookup sync`"):
        served(two)
    publish(two, stamped(3))
    assert (served(two), verify(two)) == ((3, {"3"}), [])


# Versions


def rewrite_json(path: str, **members: object) -> None:
    document = json.loads(Path(path).read_bytes())
    document.pop("check", None)
    Path(path).write_text(json.dumps({**document, **members}))


def newer_index(path: str) -> None:
    with IndexReader.open(path) as reader:
        header, data = reader.header, Path(path).read_bytes()
    header.tree["__metadata__"]["version"] = "3.0"
    raw = encode_header(header.tree)
    Path(path).write_bytes(len(raw).to_bytes(8, "little") + raw + data[8 + len(header.raw) :])
    with pytest.raises(IndexTooNewError):
        IndexReader.open(path)


def newer_cache(path: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 4")
    connection.close()


def newer_edits(path: str) -> None:
    StateDirectory(os.path.dirname(path)).edits.record("test", "done")
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 999")
    connection.close()


def sync_a_new_generation(directory: StateDirectory) -> None:
    with running(directory) as run, staged_by(run, stamped(3)) as candidate:
        run.publish(candidate)


def publish_what_is_held(directory: StateDirectory) -> None:
    held = directory.held()
    assert held is not None
    held.verify()


NEWER: dict[str, tuple[Callable[[str], None], Callable[[StateDirectory], object]]] = {
    "CURRENT": (lambda path: rewrite_json(path, version="3.0"), sync_a_new_generation),
    "generations/000002/index": (newer_index, sync_a_new_generation),
    "custom/000002": (newer_index, sync_a_new_generation),
    "generations/000001/report.json": (
        lambda path: rewrite_json(path, version="3.0"),
        lambda directory: directory.keeping.rollback(),
    ),
    "generations/000002/cache.db": (newer_cache, StateDirectory.republish),
    "edits.db": (newer_edits, lambda directory: directory.edits.record("test", "again")),
    "held/service/report.json": (lambda path: rewrite_json(path, version="3.0"), publish_what_is_held),
}


@pytest.mark.parametrize("name", NEWER)
def test_an_unknown_major_version_is_refused_by_name_and_nothing_is_touched(two: str, name: str) -> None:
    directory = StateDirectory(two)
    with staged(directory, stamped(9)) as candidate:
        directory.holding.hold(candidate, SERVICE)
    make_newer, attempt = NEWER[name]
    make_newer(os.path.join(two, name))
    before = tree(two)
    with pytest.raises(StateTooNewError, match=name):
        attempt(directory)
    assert tree(two) == before


def test_a_newer_current_creates_not_even_a_lock(two: str) -> None:
    rewrite_json(os.path.join(two, "CURRENT"), version="3.0")
    for name in ("run.lock", "publish.lock"):
        os.unlink(os.path.join(two, name))
    before = tree(two)
    directory = StateDirectory(two)
    for attempt in (directory.locks.run().__enter__, directory.locks.publish, directory.republish):
        with pytest.raises(StateTooNewError, match=r"CURRENT.*'3\.0'.*upgrade"):
            attempt()
    assert tree(two) == before


def test_unknown_members_and_minor_versions_are_tolerated(two: str) -> None:
    rewrite_json(os.path.join(two, "CURRENT"), version="1.9", later={"check": 1})
    for number in (1, 2):
        rewrite_json(os.path.join(two, "generations", f"{number:06d}", "report.json"), version="1.9", later=[1])
    assert (served(two), verify(two)) == ((2, {"2"}), [])
    assert StateDirectory(two).keeping.rollback().generation == 1
    assert (served(two), verify(two)) == ((1, {"1"}), [])


# verify


@pytest.mark.parametrize("name", ["generations/000002/index", "custom/000002", "generations/000002/cache.db"])
def test_verify_finds_a_flipped_byte_wherever_it_is(two: str, name: str, full_sweep: bool) -> None:
    path = Path(two, name)
    data = path.read_bytes()
    edges = {0, 7, 8, 100, len(data) - 1}
    for position in sorted(edges | set(range(3, len(data), len(data) // (2000 if full_sweep else 40)))):
        path.write_bytes(data[:position] + bytes([data[position] ^ 0x10]) + data[position + 1 :])
        assert any(name in problem for problem in verify(two)), position
    path.write_bytes(data)
    assert verify(two) == []


@pytest.mark.parametrize("name", ["generations/000002/index", "custom/000002", "generations/000002/cache.db"])
def test_verify_finds_what_current_itself_would_not_tell(two: str, name: str) -> None:
    """With sizes and digests that fit the damaged file, its own invariants still do not."""
    path = Path(two, name)
    data = bytearray(path.read_bytes())
    data[-100 if name.endswith("cache.db") else len(data) // 2] ^= 0x40
    if name.endswith("cache.db"):
        data[4096:4097] = b"\x00"  # the type of a b-tree page
    path.write_bytes(data)
    current = read_current(two)
    record = verify_module.files.file_record(str(path))
    if name.startswith("custom"):
        changed = current.replace(overlay_file={**current.overlay_file, **record})
    else:
        known = {**current.published["files"], path.name: record}
        changed = current.replace(published={**current.published, "files": known})
        report = os.path.join(two, "generations", "000002", "report.json")
        rewrite_json(report, published=changed.published)
    with StateDirectory(two).publishing() as publish:
        publish.write_current(changed)
    assert [problem for problem in verify(two) if name in problem and "SHA-256" not in problem] != []


@pytest.mark.parametrize("member", ["bytes", "sha256"])
@pytest.mark.parametrize("name", ["index", "cache.db", "overlay"])
def test_verify_finds_a_size_or_digest_in_current_that_does_not_fit(two: str, name: str, member: str) -> None:
    current = read_current(two)
    wrong: object = 12345 if member == "bytes" else "0" * 64
    if name == "overlay":
        changed = current.replace(overlay_file={**current.overlay_file, member: wrong})
    else:
        records = current.published["files"]
        records = {**records, name: {**records[name], member: wrong}}
        changed = current.replace(published={**current.published, "files": records})
    with StateDirectory(two).publishing() as publish:
        publish.write_current(changed)
    assert any("size or SHA-256" in problem for problem in verify(two))


def test_verify_finds_a_damaged_or_foreign_report(two: str) -> None:
    path = Path(two, "generations", "000002", "report.json")
    data = path.read_bytes()
    path.write_bytes(data[:-10])
    assert any("report.json" in problem for problem in verify(two))
    path.write_bytes(Path(two, "generations", "000001", "report.json").read_bytes())
    assert any("report.json" in problem for problem in verify(two))


def test_a_publish_during_verify_is_no_problem(two: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []

    def read(home: str) -> object:
        found = read_current(home)
        reads.append(found.sequence)
        if len(reads) == 1:
            publish(home, stamped(3), keep=1)
        return found

    monkeypatch.setattr(verify_module, "read_current", read)
    assert verify(two) == []
    assert reads == [2, 3, 3]
