"""One call for one address: what the accelerator answers alone, and when it is there at all."""

from contextlib import suppress
from pathlib import Path

import pytest

from geolookup.index.native import accelerator, open_places, open_searcher
from geolookup.index.reader import IndexReader
from geolookup.lookup.views import view_type
from tests.index.building import build
from tests.index.native.searchers import CUSTOM, DEFAULT, native, needs_native


class OddText(str):
    """Text that is not exactly text."""

    __slots__ = ()


@needs_native
def test_the_slow_way_is_asked_for_all_that_the_accelerator_cannot_answer(tmp_path: Path) -> None:
    assert native is not None
    build(tmp_path / "base", DEFAULT)
    build(tmp_path / "overlay", CUSTOM, layer="custom")
    with IndexReader.open(tmp_path / "base") as base, IndexReader.open(tmp_path / "overlay") as overlay:
        places = [open_places(native, view_type(native), reader) for reader in (base, overlay)]
        bare, searcher = open_searcher(native, base, overlay), open_searcher(native, base, overlay, (*places,))
    asked: list[object] = []
    finder = native.Finder(asked.append)
    assert finder.lookup("8.1.2.3") is None
    finder.use(searcher)
    assert finder.lookup("8.1.2.3") is None
    finder.look_at = float("inf")
    assert [finder.lookup(text).locid for text in ("8.1.2.3", "8.8.2.3")] == [1, -1]
    for odd in (OddText("8.1.2.3"), 5, None, b"8.1.2.3", "8.1.2", "\ud800", "9.9.9.9"):
        assert finder.lookup(odd) is None
    # Without a searcher, before looking, and what is not strict text; not the last, which nothing covers.
    assert asked == ["8.1.2.3", "8.1.2.3", "8.1.2.3", 5, None, b"8.1.2.3", "8.1.2", "\ud800"]
    with suppress(TypeError):
        finder.use("nothing of the kind")
    assert finder.lookup("8.1.2.3").locid == 1
    finder.use(bare)
    assert finder.lookup("8.1.2.3") is None  # it has no places
    finder.use(None)
    assert finder.lookup("8.1.2.3") is None
    assert len(asked) == 10


@pytest.mark.parametrize("value", ["1", "yes"])
def test_the_pure_reader_can_be_forced(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("GEOLOOKUP_PURE", value)
    assert accelerator() is None
    monkeypatch.setenv("GEOLOOKUP_PURE", "0")
    assert accelerator() is native
