"""An address as logs write it: whatever is put around addresses, the same ones are read."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.lookup.asked import read_field
from geolookup.model.errors import InvalidAddressError

PORTS = st.integers(0, 65535)
BLANKS = st.text(" \t\u00a0", max_size=3)
QUOTES = st.sampled_from(["", '"', "'"])
V4 = st.integers(0, 2**32 - 1).map(lambda value: str(ipaddress.IPv4Address(value)))
V6 = st.integers(0, 2**128 - 1).map(lambda value: str(ipaddress.IPv6Address(value)))
NOTHING = st.sampled_from(["", "-", "unknown", '""', "' '"])


@st.composite
def entries(draw: st.DrawFn) -> tuple[str, str]:
    """An address, and how a log may write it."""
    address = draw(V4 | V6)
    is_v6 = ":" in address
    written = draw(
        st.sampled_from([address, f"[{address}]", f"({address})", f"<{address}>", f"{address}/{128 if is_v6 else 32}"])
        | PORTS.map(lambda port: f"[{address}]:{port}" if is_v6 else f"{address}:{port}")
    )
    quote = draw(QUOTES)
    return address, f"{draw(BLANKS)}{quote}{draw(BLANKS)}{written}{draw(BLANKS)}{quote}{draw(BLANKS)}"


@given(st.lists(entries() | NOTHING.map(lambda text: ("", text)), max_size=5), QUOTES)
def test_what_stands_around_addresses_is_left_out(written: list[tuple[str, str]], quote: str) -> None:
    text = f"{quote}{','.join(text for _, text in written)}{quote}"
    if len(written) > 1 and text.strip()[:1] == text.strip()[-1:] != "":
        text = f" {text} ,"  # else the quotes of the first and the last entry would be those of the whole
    addresses = [address for address, _ in written if address]
    if quote and len(written) > 1:
        return
    assert read_field(text, "all") == addresses
    assert read_field(text) == read_field(text, "first") == addresses[:1]
    assert read_field(text, "last") == addresses[-1:]


@pytest.mark.parametrize(
    "text",
    [
        "bad", "8.8.8", "8.8.8.8:", "8.8.8.8:99999", "8.8.8.8:http", "[8.8.8.8", "8.8.8.8]", "[::1]:", "[::1]80",
        "[[::1]]:80", "8.8.8.0/24", "8.8.8.8/3", "::1/32", "8.8.8.8 9.9.9.9", "\"8.8.8.8'", "[]", "()", "bad, 8.8.8.8",
        "8.8.8.8:８０",
    ],
)  # fmt: skip
def test_everything_else_is_refused_by_what_stands_there(text: str) -> None:
    with pytest.raises(InvalidAddressError):
        read_field(text)


def test_only_what_is_picked_must_be_an_address() -> None:
    assert read_field("8.8.8.8, bad") == ["8.8.8.8"]
    assert read_field("bad, 8.8.8.8", "last") == ["8.8.8.8"]
    with pytest.raises(InvalidAddressError, match="'bad:1'"):
        read_field("8.8.8.8, bad:1, -", "all")
