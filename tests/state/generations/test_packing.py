"""What was superseded is kept as what differs, and comes back byte for byte, whatever is asked of it."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from geolookup.history.diff import opened
from geolookup.lookup.engine import GeoLookup
from geolookup.model.errors import StateDamagedError, StateUnwritableError
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.state.base.files import UNPACKED
from geolookup.state.generations import packing
from geolookup.state.packs.patch import read_patch, whole_file
from geolookup.state.packs.reading import readable
from geolookup.state.packs.unpacking import made_again
from geolookup.state.publishing.catalogue import Generations
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.verify import verify
from geolookup.sync.pull.pull import pull
from tests.state.generations.staged import strays, tree
from tests.state.packs.nights import (
    PLACES,
    generation_bytes,
    hashes,
    kept_bytes,
    pack_all,
    seven_nights,
    similar_nights,
)
from tests.support.data.states import publish


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[int, dict[str, str]]]:
    """Seven nights that are packed, and the SHA-256 of the files of each as they were."""
    home = str(tmp_path_factory.mktemp("nights") / "state")
    before = seven_nights(home)
    pack_all(home)
    return home, before


@pytest.fixture
def home(nights: tuple[str, dict[int, dict[str, str]]], tmp_path: Path) -> str:
    """A copy of them."""
    copy = str(tmp_path / "state")
    shutil.copytree(nights[0], copy)
    return copy


def _file(home: str, generation: int, name: str) -> str:
    return StateDirectory(home).path("generations", f"{generation:06d}", name)


def test_seven_similar_nights_keep_at_most_one_and_a_half_times_one(tmp_path: Path) -> None:
    home = str(tmp_path / "state")
    seven_nights(home, places=4000, blocks=10)
    assert kept_bytes(home) > 6.9 * generation_bytes(home, 7)
    pack_all(home)
    assert [each.number for each in Generations(StateDirectory(home)).kept()] == [1, 2, 3, 4, 5, 6, 7]
    assert kept_bytes(home) <= 1.5 * generation_bytes(home, 7)
    assert verify(home) == []
    assert strays(home) == []


def test_every_file_comes_back_byte_for_byte_and_copies_are_bounded(
    nights: tuple[str, dict[int, dict[str, str]]], home: str
) -> None:
    for generation, expected in nights[1].items():
        for name in PLACES:
            assert whole_file(readable(_file(home, generation, name))).sha256 == expected[name]
    assert len(os.listdir(os.path.join(home, UNPACKED))) <= 4


def test_what_was_served_before_answers_though_all_that_is_served_is_damaged(
    nights: tuple[str, dict[int, dict[str, str]]], home: str
) -> None:
    packed = os.path.join(home, "snapshots", "000006", "index.pack")
    assert read_patch(packed).base_file is None
    for name in PLACES:
        for path in (_file(home, 7, name), os.path.join(home, "snapshots", "000007", name)):
            Path(path).unlink()
            Path(path).write_bytes(b"damaged")
    with GeoLookup(home) as geo:
        assert geo.match("1.0.16.0") is not None
        assert geo.status().generation == 6
    assert whole_file(readable(_file(home, 6, "index"))).sha256 == nights[1][6]["index"]


def test_what_was_served_before_is_packed_anew_once_it_is_older(home: str) -> None:
    packed = os.path.join(home, "snapshots", "000006", "index.pack")
    alone = os.path.getsize(packed)
    publish(home, list(similar_nights(8))[-1])
    pack_all(home)
    assert read_patch(packed).base == "snapshots/000008/index"
    assert os.path.getsize(packed) < alone / 2
    assert read_patch(os.path.join(home, "snapshots", "000007", "index.pack")).base_file is None
    assert verify(home) == []


def test_an_older_generation_answers_and_is_compared_as_if_it_were_whole(
    nights: tuple[str, dict[int, dict[str, str]]], home: str, tmp_path: Path
) -> None:
    plain = str(tmp_path / "plain")
    seven_nights(plain)
    for address in ("1.0.16.0", "1.0.17.120", "1.0.30.200", "192.168.1.1"):
        with GeoLookup(plain, as_of=2) as expected, GeoLookup(home, as_of=2) as found:
            assert found.match(address) == expected.match(address)
    seen = []
    for each in (plain, home):
        with opened(StateDirectory(each), 1, 3) as sides:
            (source,) = sides.sources(top=None, blocks=True)
            assert source.rows is not None
            seen.append((source.rows, sides.impact()))
    assert seen[0] == seen[1]
    assert not seen[0][0].is_empty


@pytest.mark.parametrize("target", [6, 3, 1])
def test_any_of_them_can_be_gone_back_to_and_the_rest_stays(
    nights: tuple[str, dict[int, dict[str, str]]], home: str, target: int
) -> None:
    directory = StateDirectory(home)
    assert directory.keeping.rollback(target).generation == target
    assert hashes(home, target) == nights[1][target]
    assert verify(home) == []
    pack_all(home)
    assert verify(home) == []
    assert len(packing.packed_files(home)) == 12  # both files of each of the six others
    for generation, expected in nights[1].items():
        assert whole_file(readable(_file(home, generation, "cache.db"))).sha256 == expected["cache.db"]
    # The next night is published from there, and packed.
    publish(home, list(similar_nights(9))[-1])
    pack_all(home)
    assert verify(home) == []
    assert Generations(directory).open(target).current.generation == target


def test_packing_again_changes_nothing(home: str) -> None:
    before = tree(home)
    pack_all(home)
    assert tree(home) == before


def test_a_pinned_generation_survives_what_it_referred_to(tmp_path: Path) -> None:
    home = str(tmp_path / "state")
    for listed in similar_nights(5, places=60):
        publish(home, listed)
        pack_all(home)  # each night, so that each refers to the one after it
    expected = whole_file(readable(_file(home, 2, "cache.db")))
    shutil.rmtree(os.path.join(home, UNPACKED))
    directory = StateDirectory(home, keep_generations=2)
    directory.keeping.pin(2)  # which keeps two more by now: 3 goes, and 2 is packed against that
    assert [each.number for each in Generations(directory).kept()] == [2, 4, 5]
    assert verify(home) == []
    pack_all(home)
    assert verify(home) == []
    assert sorted(os.listdir(os.path.join(home, "snapshots"))) == ["000002", "000004", "000005"]
    assert whole_file(made_again(_file(home, 2, "cache.db"))) == expected


def test_a_damaged_one_is_named_and_the_others_are_unharmed(
    nights: tuple[str, dict[int, dict[str, str]]], home: str
) -> None:
    path = os.path.join(home, "snapshots", "000001", "cache.db.pack")
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 3)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 64]))
    (problem,) = verify(home)
    assert problem.startswith(f"{path}: is damaged")
    with pytest.raises(StateDamagedError, match=r"cache\.db\.pack: cannot be unpacked"):
        readable(_file(home, 1, "cache.db"))
    with pytest.raises(StateDamagedError, match=r"cache\.db\.pack"):
        StateDirectory(home).keeping.rollback(1)
    assert StateDirectory(home).require_current().generation == 7
    for generation in range(2, 8):
        for name in PLACES:
            assert whole_file(readable(_file(home, generation, name))).sha256 == nights[1][generation][name]
    assert strays(home) == []
    pack_all(home)  # goes on with the others, and leaves this as it is
    assert verify(home) == [problem]


def test_what_is_damaged_already_is_not_packed(tmp_path: Path) -> None:
    home = str(tmp_path / "state")
    for listed in similar_nights(3, places=50):
        publish(home, listed)
    path = os.path.join(home, "snapshots", "000001", "cache.db")
    data = Path(path).read_bytes()
    os.unlink(path)
    Path(path).write_bytes(data[:-1] + b"x")
    with pytest.raises(StateDamagedError, match="is not what was published, so it is not packed"):
        pack_all(home)
    assert os.path.exists(path)
    assert not os.path.exists(f"{path}.pack")
    assert os.path.exists(os.path.join(home, "snapshots", "000002", "cache.db.pack"))


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = str(tmp_path / "state")
    expected = seven_nights(home)
    real = os.fsync
    failed = 0
    for allowed in range(0, 40, 2):
        left = [allowed]

        def full(descriptor: int, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            real(descriptor)

        monkeypatch.setattr(os, "fsync", full)
        try:
            pack_all(home)
        except StateUnwritableError as error:
            failed += "the disk is full" in str(error)
        monkeypatch.setattr(os, "fsync", real)
        assert verify(home) == []
        assert strays(home) == []
    assert failed > 4
    assert len(packing.packed_files(home)) == 12
    for generation, hashed in expected.items():
        for name in PLACES:
            assert whole_file(readable(_file(home, generation, name))).sha256 == hashed[name]


def test_without_room_a_rollback_says_so_and_nothing_changes(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = tree(home)
    monkeypatch.setattr("geolookup.state.base.files.free_bytes", lambda _path: 1 << 10)
    with pytest.raises(StateUnwritableError, match="make room there"):
        StateDirectory(home).keeping.rollback(2)
    assert {name: data for name, data in tree(home).items() if not name.startswith(UNPACKED)} == before


def test_small_files_are_left_alone(tmp_path: Path) -> None:
    home = str(tmp_path / "state")
    seven_nights(home)
    with StateDirectory(home).locks.run():
        packing.pack(home)
    assert packing.packed_files(home) == []


def test_several_sources_share_what_did_not_change_and_their_index_is_laid_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "LEAST_BYTES", 0)
    home, files = str(tmp_path / "state"), [tmp_path / "one.csv", tmp_path / "two.csv"]
    settings = Settings(sources=tuple(SourceSettings(name=path.stem, location=str(path)) for path in files))
    expected = {}
    for night in range(5):
        for number, path in enumerate(files):
            rows = [f"10.{number}.{row // 250}.{row % 250},DE,town {row}" for row in range(2000) if (row + night) % 200]
            if not (number and night % 2):  # the second changes every other night only
                path.write_text("\n".join(["network,country,city", *rows, ""]), "utf-8")
        pulled = pull(StateDirectory(home), settings)
        assert pulled.outcome == "published"
        assert pulled.warnings == []
        expected[night + 1] = hashes(home, night + 1)
    assert not os.path.exists(_file(home, 3, "index"))
    assert os.path.exists(_file(home, 4, "index"))
    assert verify(home) == []
    for generation, hashed in expected.items():
        for name in PLACES:
            assert whole_file(readable(_file(home, generation, name))).sha256 == hashed[name]
    directory = StateDirectory(home)
    directory.keeping.rollback(2)
    assert hashes(home, 2) == expected[2]
    assert verify(home) == []
