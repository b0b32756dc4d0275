"""What the kernel is told of a mapped index: a few lookups read single pages, and more read ahead."""

import mmap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import geolookup
from geolookup.index.fingerprint import fingerprint
from geolookup.index.native import accelerator
from geolookup.index.verify import verify_index
from geolookup.lookup.engine import GeoLookup
from geolookup.state.base.current import index_path, overlay_path
from tests.support.data.states import place, publish

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/smaps").exists() or not hasattr(mmap, "MADV_RANDOM"),
    reason="only Linux tells what it was advised",
)
needs_accelerator = pytest.mark.skipif(accelerator() is None, reason="it was not built here")


@pytest.fixture
def home(tmp_path: Path) -> str:
    home = str(tmp_path / "state")
    publish(home, [place(1, "8.8.8.0/24"), place(2, "2a00::/112")])
    return home


def reads_ahead(path: str) -> bool:
    """Whether the kernel reads ahead in the file's pages as this process has mapped them: all of them, or none."""
    found = set()
    is_ours = False
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            is_ours = words[-1] == path
        elif words[0] == "VmFlags:" and is_ours:
            found.add("rr" not in words)
    (only,) = found
    return only


def both(home: str) -> tuple[bool, bool]:
    return reads_ahead(index_path(home, 1)), reads_ahead(overlay_path(home, 1))


def test_a_few_lookups_read_single_pages(home: str) -> None:
    with geolookup.open(home) as geo:
        for _ in range(50):
            assert geo.lookup("8.8.8.8") is not None
            assert geo.match("2a00::1") is not None
        assert both(home) == (False, False)


@needs_accelerator
@pytest.mark.parametrize("ask", ["lookup", "lookup_many"])
def test_after_some_lookups_the_kernel_may_read_ahead(home: str, ask: str) -> None:
    with geolookup.open(home) as geo:
        asked = ["8.8.8.8", "9.9.9.9", "2a00::1"] * 50
        if ask == "lookup":
            for text in asked:
                geo.lookup(text)
        else:
            geo.lookup_many(asked)
        assert both(home) == (True, True)


@pytest.mark.parametrize("pure", ["", "1"])
def test_lookups_that_go_on_have_it_read_ahead_however_they_are_made(
    home: str, pure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEOLOOKUP_PURE", pure)
    with geolookup.open(home) as geo:
        for expected in (False, True):  # the first look is of whoever opened it a second before the first lookup
            geo.look_soon()
            assert geo.match("8.8.8.8") is not None
            assert both(home) == (expected, expected)


WHOLE: dict[str, Callable[[GeoLookup], Any]] = {
    "segments": lambda geo: (list(geo.segments(4)), geo.with_readers(lambda _, overlay: list(overlay.segments(4)))),
    "fingerprint": lambda geo: geo.with_readers(lambda *readers: fingerprint(readers)),
    "verify": lambda geo: geo.with_readers(lambda *readers: [verify_index(reader) for reader in readers]),
}


@pytest.mark.parametrize("ask", WHOLE)
def test_what_reads_a_file_through_has_it_read_ahead(home: str, ask: str) -> None:
    with geolookup.open(home) as geo:
        WHOLE[ask](geo)
        assert both(home) == (True, True)
