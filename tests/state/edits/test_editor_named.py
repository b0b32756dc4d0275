"""How the editor's callers name blocks and geolocations: as text, and as the objects that programs have."""

import ipaddress
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import netaddr
import numpy as np
import pytest

import geolookup
from geolookup.model.errors import EditError, InvalidAddressError, InvalidRangeError
from geolookup.model.types import IPBlock
from geolookup.state.editor import Editor
from tests.state.edits.editing import BERLIN, DEFAULTS
from tests.support.data.states import place, publish

NAMED: dict[str, tuple[Any, ...]] = {
    "10.8.0.0-10.8.255.255": ("10.8.0.0-10.8.255.255",),
    "10.8.0.0-10.8.0.9": ("10.8.0.0 - 10.8.0.9",),
    "10.8.0.0-10.8.0.255": (ipaddress.ip_network("10.8.0.0/24"),),
    "2001:db8::-2001:db8::ff": (ipaddress.ip_network("2001:db8::/120"),),
    "10.8.0.7": (ipaddress.ip_address("10.8.0.7"),),
    "10.8.0.5-10.8.0.7": (ipaddress.ip_address("10.8.0.5"), "10.8.0.7"),
    "10.8.4.0-10.8.7.255": (netaddr.IPNetwork("10.8.4.0/22"),),
    "10.8.1.1-10.8.1.4": (netaddr.IPRange("10.8.1.1", "10.8.1.4"),),
    "10.8.2.1-10.8.2.2": (netaddr.IPAddress("10.8.2.1"), netaddr.IPAddress("10.8.2.2")),
    "10.8.3.0-10.8.3.7": (IPBlock.parse("10.8.3.0/29"),),
    "10.6.0.0-10.6.255.255": (ipaddress.ip_network("::ffff:10.6.0.0/112"),),
}


@pytest.fixture
def editor(home: str) -> Editor:
    """An editor of a state with two default geolocations and one custom."""
    publish(home, [*DEFAULTS, place(-1, "10.9.0.0/16", latitude=1.0, longitude=2.0)])
    return Editor(home)


@pytest.mark.parametrize(("block", "named"), NAMED.items(), ids=NAMED)
def test_blocks_may_be_ranges_and_objects_wherever_an_edit_names_one(
    editor: Editor, block: str, named: tuple[Any, ...]
) -> None:
    first, last = named[0], named[1] if named[1:] else None
    assert str(editor.add_block(-1, first, last)) == block
    assert str(editor.replace_block(-1, first, last, "10.7.0.0/16")[0]) == block
    assert str(editor.replace_block(-1, "10.7.0.0/16", None, first, last)[1]) == block
    assert str(editor.remove_block(-1, first, last)) == block
    assert [str(left) for left in editor.get(-1).place.ipblocks] == ["10.9.0.0-10.9.255.255"]


def test_every_block_of_a_geolocation_can_be_taken_away_as_it_is(editor: Editor) -> None:
    for block in editor.get(-1).place.ipblocks:
        editor.remove_block(-1, block)
    assert editor.get(-1).place.ipblocks == ()


@pytest.mark.parametrize(
    ("named", "error", "said"),
    [
        ((None,), InvalidRangeError, "not NoneType: None"),
        ((5,), InvalidRangeError, "not int: 5"),
        ((b"10.8.0.0/16",), InvalidRangeError, "not bytes: b'10.8"),
        ((["10.8.0.0", "10.8.0.9"],), InvalidRangeError, "not list: "),
        (("10.8.0.0", 7), InvalidRangeError, "not int: 7"),
        ((ipaddress.ip_interface("10.8.0.1/16"),), InvalidRangeError, "host bits"),
        ((ipaddress.ip_network("10.8.0.0/16"), "10.8.0.9"), InvalidRangeError, "not IPv4Network"),
        ((ipaddress.ip_address("fe80::1%eth0"),), InvalidAddressError, "zone"),
        (("10.8.0.9-10.8.0.1",), InvalidRangeError, "comes after"),
        (("10.8.0.0-",), InvalidAddressError, "missing"),
        (("", None), InvalidAddressError, "empty"),
    ],
)
def test_what_names_no_block_is_an_error_of_ours(
    editor: Editor, named: tuple[Any, ...], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said) as caught:
        editor.add_block(-1, *named)
    assert type(caught.value) is error


def test_a_locid_may_be_any_whole_number(editor: Editor) -> None:
    editor.update(np.int64(-1), city="Potsdam")
    editor.add_block(np.int64(-1), "10.8.0.0/16")
    assert (editor.get(-1).place.city, len(editor.history(np.int64(-1)))) == ("Potsdam", 2)


@pytest.mark.parametrize("value", ["Berlin", "-1", None, -1.0, Fraction(-1)])
def test_what_is_no_locid_is_an_error_of_ours(editor: Editor, value: Any) -> None:
    calls: list[Callable[[], object]] = [
        lambda: editor.get(value),
        lambda: editor.update(value, city="x"),
        lambda: editor.delete(value),
        lambda: editor.add_block(value, "10.8.0.0/16"),
    ]
    for call in calls:
        with pytest.raises(EditError, match="its locid, a whole number"):
            call()


def test_degrees_in_bytes_are_refused(editor: Editor) -> None:
    with pytest.raises(EditError, match="latitude is a number of degrees"):
        editor.create(**{**BERLIN, "latitude": b"52.5"})


def test_a_home_may_be_a_path(home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for open_ in (Editor, geolookup.GeoLookup):
        with pytest.raises(geolookup.NoStateError, match=r"nothing|does not exist"):
            open_(Path(home)).get(-1) if open_ is Editor else open_(Path(home))
    publish(home, [*DEFAULTS, place(-1, "10.9.0.0/16", latitude=1.0, longitude=2.0)])
    Editor(Path(home)).add_block(-1, "10.8.0.0/16")
    monkeypatch.chdir(Path(home).parent)
    with geolookup.GeoLookup(Path(home).name) as geo:
        editor = Editor(Path(home).name)
        monkeypatch.chdir(tmp_path.parent)
        editor.add_block(-1, "10.7.0.0/16")
        assert [geo.lookup(f"10.{number}.0.1") is not None for number in (8, 7)] == [True, True]
        assert (geo.home, geo.match("10.7.0.1").locid) == (home, -1)  # type: ignore[union-attr]
