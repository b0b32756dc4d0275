"""Which blocks are so wide that a person is asked, held against `ipaddress` and a plain count."""

import ipaddress
import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.model.public import PUBLIC, too_wide
from geolookup.model.types import IPBlock

EDGES = {
    4: [0, *(end for first, last in PUBLIC[4] for end in (first, last + 1)), 9 << 24, 12 << 24, 1 << 32],
    6: [0, *(end for first, last in PUBLIC[6] for end in (first, last + 1)), 0x2400 << 112, 1 << 128],
}


@st.composite
def blocks(draw: st.DrawFn) -> list[IPBlock]:
    family = draw(st.sampled_from((4, 6)))
    edge = st.builds(
        lambda at, by: min(max(at + by, 0), EDGES[family][-1]), st.sampled_from(EDGES[family]), st.integers(-2, 2)
    )
    pairs = draw(st.lists(st.tuples(edge, edge).filter(lambda pair: pair[0] != pair[1]), max_size=4))
    return [IPBlock(family=family, first=min(pair), last=max(pair) - 1) for pair in pairs]


def public(found: list[IPBlock]) -> int:
    """The public addresses of blocks, each counted once: between neighbouring ends all are alike."""
    family = found[0].family
    ends = sorted({*EDGES[family], *(end for block in found for end in (block.first, block.last + 1))})
    return sum(
        high - low
        for low, high in itertools.pairwise(ends)
        if any(block.first <= low <= block.last for block in found)
        and any(first <= low <= last for first, last in PUBLIC[family])
    )


@given(blocks())
def test_what_is_too_wide_is_what_a_plain_count_says(found: list[IPBlock]) -> None:
    def asked(block: IPBlock) -> bool:
        most = 1 << (24 if block.family == 4 else 104)
        is_it = block.last - block.first + 1 == most and block.first % most == 0
        return not is_it and 0 < public([block]) < block.last - block.first + 1

    many = bool(found) and public(found) > 1 << (24 if found[0].family == 4 else 104)
    assert (too_wide(found) is not None) == (many or any(map(asked, found)))


@pytest.mark.parametrize("network", ["8.0.0.0/8", "192.0.0.0/8", "10.0.0.0/8", "2400::/24", "fc00::/7", "240.0.0.0/4"])
def test_a_slash_eight_and_private_space_alone_draw_no_question(network: str) -> None:
    assert too_wide([IPBlock.parse(network)]) is None


@pytest.mark.parametrize(
    ("ends", "told"),
    [
        (
            ("0.0.0.0", "245.255.255.255"),
            r"0\.0-245\.255\.255\.255 covers 3,702,258,688 public addresses, 86 % of",
        ),
        (("8.0.0.0/7",), r"8\.0\.0\.0-9\.255\.255\.255 covers 33,554,432 public addresses, 0\.78 % of IPv4"),
        (("10.0.0.0", "11.0.0.255"), r"covers private addresses and 256 public addresses$"),
        (("2400::/23",), r"covers as many public addresses as a /23 of IPv6"),
        (("2400::", "2400:2ff:ffff::"), r"covers as many public addresses as more than a /23 of IPv6"),
    ],
)
def test_the_reason_has_numbers(ends: tuple[str, ...], told: str) -> None:
    assert re.search(told, too_wide([IPBlock.parse(*ends)]) or "")


def test_public_is_what_the_standard_library_calls_global() -> None:
    for first, last in PUBLIC[4]:
        assert ipaddress.IPv4Address(first).is_global
        assert ipaddress.IPv4Address(last).is_global
