"""Code that takes the accelerator's types apart, or writes into arrays while they are read, ends no process."""

import subprocess
import sys
import textwrap

import pytest

from tests.index.native.sanitized import ROOT
from tests.index.native.searchers import native, needs_native

pytestmark = needs_native

ANSWER = """
from geolookup.index.native import accelerator
from geolookup.lookup.views import view_type
from geolookup.model.fields import FIELDS

native = accelerator()
fields = tuple((bytes(4 if field.limit is None else 8), field.limit is None) for field in FIELDS)
answer = native.Places(view_type(native), 1, bytes(8), fields, bytes(8), b"")[0]
"""


def run(code: str) -> None:
    """Run code in a process of its own, so that a crash ends only that one."""
    code = "import tests.index.native.sanitized\n" + textwrap.dedent(code)  # so that it has the build that this one has
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"{ran.returncode}: {ran.stderr}"


@pytest.mark.parametrize("name", ["Facts", "Finder", "Layer", "Searcher", "Places"])
def test_types_of_the_accelerator_are_immutable(name: str) -> None:
    of = getattr(native, name)
    for attribute in [*vars(of), "more"]:
        with pytest.raises(TypeError, match="immutable"):
            setattr(of, attribute, None)
        with pytest.raises(TypeError, match="immutable"):
            delattr(of, attribute)


def test_an_answer_outlives_whatever_is_deleted_from_its_type() -> None:
    run(
        ANSWER
        + """
import gc
from geolookup.model.fields import FIELD_NAMES
from geolookup.model.types import Geolocation

of = type(answer)
country = vars(of)["country"]
assert not [name for name in vars(of) if name in ("_getters", "_class")]
for name in list(vars(of)):
    if name not in ("locid", "__class__", *FIELD_NAMES):
        try:
            delattr(of, name)
        except (AttributeError, TypeError):
            pass
gc.collect()
taken = [bytearray(b"x" * size) for size in range(16, 4096, 16) for _ in range(20)]  # what was freed is written over
assert answer.__class__ is Geolocation
assert [getattr(answer, name) for name in ("locid", "country", "city")] == [0, "", ""]
for base in (int, str, Geolocation, type("Other", (), {"__slots__": ()})):
    try:
        of.__bases__ = (base,)
    except TypeError:
        pass
for name in list(vars(of)):
    try:
        delattr(of, name)
    except (AttributeError, TypeError):
        pass
assert country.__get__(answer) == ""
repr(answer), answer == 1, dir(answer)
for other in (Geolocation, int, type("Other", (), {})):
    try:
        answer.__class__ = other
    except (AttributeError, TypeError):
        pass
assert type(answer) is of
"""
    )


def test_a_match_outlives_whatever_is_deleted_from_its_type_and_networks_that_cannot_be_opened() -> None:
    run(
        """
        import gc, tempfile
        from pathlib import Path
        from geolookup.index.native import accelerator, open_places, open_searcher
        from geolookup.index.reader import IndexReader
        from geolookup.lookup.facts import open_facts
        from geolookup.lookup.views import match_type, view_type
        from geolookup.model.facts import PLACE_FACTS
        from geolookup.model.types import Match
        from tests.index.building import build
        from tests.index.native.searchers import CUSTOM, DEFAULT

        native = accelerator()
        opened = []

        def open_networks():
            opened.append(None)
            if len(opened) == 1:
                raise OSError("not yet")
            return "nothing of the kind" if len(opened) == 2 else None

        with tempfile.TemporaryDirectory() as folder:
            readers = []
            for name, blocks, layer in (("base", DEFAULT, "default"), ("overlay", CUSTOM, "custom")):
                build(Path(folder, name), blocks, layer=layer)
                readers.append(IndexReader.open(Path(folder, name)))
            places = [open_places(native, view_type(native), reader) for reader in readers]
            facts = [open_facts(native, reader, PLACE_FACTS) for reader in readers]
            for wrong in (view_type(native), int, 5):
                try:
                    open_searcher(native, *readers, (*places,), (*facts,), wrong)
                except TypeError:
                    continue
                raise AssertionError(wrong)
            searcher = open_searcher(native, *readers, (*places,), (*facts,), match_type(native), open_networks)
        finder = native.Finder(print, print)
        finder.look_at = float("inf")
        finder.use(searcher)
        answer = finder.match("8.1.2.3")
        for error in (OSError, TypeError):
            try:
                answer.asn
            except error:
                continue
            raise AssertionError(error)
        assert (answer.asn, answer.as_organization, len(opened)) == (None, None, 3)
        of = type(answer)
        first, fact = vars(of)["first"], vars(of)["country_name"]
        finder.use(None)
        del searcher, finder, places, facts, readers
        for name in list(vars(of)):
            if name not in ("__class__", "last"):
                try:
                    delattr(of, name)
                except (AttributeError, TypeError):
                    pass
        gc.collect()
        taken = [bytearray(b"x" * size) for size in range(16, 4096, 16) for _ in range(20)]
        assert answer.__class__ is Match
        assert (answer.last, first.__get__(answer)) == ("8.7.255.255", "8.0.0.0")
        assert fact.__get__(answer) == "United States"
        """
    )


def test_a_slot_that_changes_meanwhile_is_refused_or_answered() -> None:
    """Every slot is read once: were one checked and read again, this would read far outside of the values."""
    run(
        """
        import threading
        import numpy as np
        from geolookup.index.native import accelerator

        rows = 1 << 16
        slots = np.zeros(rows, np.uint32)
        base = np.full(4, 7, np.uint32)
        ended = threading.Event()

        def flip():
            while not ended.is_set():
                slots[:] = 0x7FFFFFF0
                slots[:] = 0

        flipping = threading.Thread(target=flip)
        flipping.start()
        out, validity = np.zeros(rows, np.uint32), np.zeros(rows // 8, np.uint8)
        wide = np.full(4, 7, np.uint64), np.zeros(0, np.uint64), np.zeros(rows, np.uint64), 8
        try:
            for _ in range(400):
                try:
                    accelerator().take(slots, 4, 0, ((base, base[:0], out, 4), wide), validity)
                except ValueError:
                    continue
                assert set(np.unique(out)) <= {7}
        finally:
            ended.set()
            flipping.join()
        """
    )


def test_slots_may_be_written_over_by_their_own_values() -> None:
    run(
        """
        import numpy as np
        from geolookup.index.native import accelerator

        slots = np.arange(3000, dtype=np.uint32) % 4
        base = np.array([0xFFFFFFF0, 0x7FFFFFF0, 5000, 3], np.uint32)
        more = np.array([1, 2, 3, 4], np.uint32)
        out = np.zeros(3000, np.uint32)
        accelerator().take(slots, 4, 0, ((base, base[:0], slots, 4), (more, base[:0], out, 4)), bytearray(375))
        assert out.tolist() == [1, 2, 3, 4] * 750
        """
    )


def test_columns_that_change_meanwhile_are_refused_or_answered() -> None:
    run(
        """
        import tempfile, threading
        from pathlib import Path
        import numpy as np
        from tests.index.native.searchers import CUSTOM, DEFAULT, native, opened

        rows = 1 << 15
        text = b"8.8.8.8 9.0.0.1 2001:db8::1     "
        offsets = np.zeros(rows + 1, np.int32)
        views = np.zeros((rows, 4), np.int32)
        out = np.zeros(rows, np.uint32)
        ended = threading.Event()

        def flip():
            while not ended.is_set():
                for size, place in ((13, 0), (0x7FFFFFFF, 2), (13, 0x7FFFFFF0), (-1, -1)):
                    views[:] = size, 0, 0, place
                    offsets[1::2] = place
                offsets[:] = 0

        with tempfile.TemporaryDirectory() as folder:
            searcher = opened(native, Path(folder), CUSTOM, DEFAULT)
        flipping = threading.Thread(target=flip)
        flipping.start()
        try:
            for _ in range(100):
                for call in (
                    lambda: searcher.locate_strings(text, offsets, None, 0, rows, out),
                    lambda: searcher.locate_views(views, (text,), None, 0, rows, out),
                ):
                    try:
                        call()
                    except ValueError:
                        pass
        finally:
            ended.set()
            flipping.join()
        """
    )
