"""Netmasks and their inverses where the end of a range belongs, held against `ipaddress`."""

import ipaddress

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from geolookup.model import addresses
from geolookup.model.errors import InvalidRangeError
from geolookup.model.types import IPBlock
from geolookup.sources import blocks

MASKS = {str(ipaddress.IPv4Network((0, bits)).netmask) for bits in range(8, 32)}
INVERSE = {str(ipaddress.IPv4Network((0, bits)).hostmask) for bits in range(8, 32)}

edges = st.sampled_from([0, 1, 0x0A000000, 0xFF000000, 0xFFFFFFFE, 2**32 - 1])
an_address = st.one_of(st.integers(0, 2**32 - 1), edges).map(lambda value: str(ipaddress.IPv4Address(value)))
an_end = st.one_of(an_address, st.sampled_from([*MASKS, *INVERSE]))


def meant(first: str, last: str) -> str | None:
    """The network that two addresses mean by the standard library, or None if they are not one with a mask."""
    is_mask = last in MASKS and first != last
    is_inverse = last in INVERSE and ipaddress.IPv4Address(first) > ipaddress.IPv4Address(last)
    return str(ipaddress.IPv4Network(f"{first}/{last}", strict=False)) if is_mask or is_inverse else None


@given(an_address, an_end)
@example("10.0.0.0", "255.255.255.255")
@example("0.0.0.0", "255.0.0.0")
@example("0.0.0.0", "254.0.0.0")
@example("255.255.255.0", "255.255.255.0")
@example("0.0.0.0", "0.255.255.255")
@example("10.0.0.0", "0.0.0.255")
def test_a_range_that_is_a_network_with_its_mask_is_refused_with_the_network(first: str, last: str) -> None:
    network = meant(first, last)
    bad: list[str] = []
    batch = blocks.from_text([first], [last], np.zeros(1, np.uint32), lambda _row, why: bad.append(why))
    for read in (
        lambda: addresses.parse_range(first, last),
        lambda: addresses.parse_range(*addresses.range_ends(f"{first} - {last}")),
        lambda: addresses.parse_range(*addresses.range_ends(f"{first} {last}")),
    ):
        if network is not None:
            with pytest.raises(InvalidRangeError, match=f"is a netmask, .*write {network}$"):
                read()
            assert bad[0].endswith(f"write {network}")
        elif ipaddress.IPv4Address(first) > ipaddress.IPv4Address(last):
            with pytest.raises(InvalidRangeError, match="comes after"):
                read()
        else:
            assert read() == (4, int(ipaddress.IPv4Address(first)), int(ipaddress.IPv4Address(last)))
    assert len(batch) == (not bad)


@pytest.mark.parametrize(
    ("text", "network"),
    [
        ("10.1.7.0 255.255.255.0", "10.1.7.0/24"),
        ("10.200.0.0/255.255.0.0", "10.200.0.0/16"),
        ("10.200.0.0 - 255.255.0.0", "10.200.0.0/16"),
        ("10.200.0.0-255.255.0.0", "10.200.0.0/16"),
        ("10.200.0.0–255.255.0.0", "10.200.0.0/16"),
        ("10.1.7.5 0.0.0.255", "10.1.7.0/24"),
        ("10.1.7.5/0.0.0.0", "10.1.7.5/32"),
    ],
)
def test_the_network_to_write_is_named_in_each_form(text: str, network: str) -> None:
    with pytest.raises(InvalidRangeError, match=f"write {network}$"):
        IPBlock.parse(*addresses.range_ends(text))
    with pytest.raises(addresses.InvalidAddressError, match=f"a network with a netmask, .*: write {network}$"):
        addresses.parse(text)


def test_the_ends_that_a_program_wrote_are_no_masks() -> None:
    assert str(IPBlock.from_ends("240.0.0.0", "255.255.255.254")) == "240.0.0.0-255.255.255.254"
