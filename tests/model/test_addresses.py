"""Addresses as text and integers, played against `ipaddress`."""

import ipaddress
import pickle
import re

import netaddr
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from geolookup.model import addresses
from geolookup.model.errors import InvalidAddressError, InvalidRangeError

# Few characters, so that what is nearly an address comes up often.
nearly_ipv4 = st.lists(
    st.sampled_from(["0", "1", "00", "01", "255", "256", "9", "", "0x1", " 1"]), min_size=1, max_size=5
)
nearly_ipv6 = st.lists(
    st.sampled_from(["", "", "0", "1", "ffff", "fffff", "::", "1.2.3.4", "01.2.3.4", "%1"]), max_size=10
)


def by_ipaddress(text: str) -> tuple[int, int] | None:
    """What the standard library's parser says, with our three rules on top."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(found, ipaddress.IPv6Address):
        if found.scope_id is not None or "%" in text:
            return None
        if found.ipv4_mapped is not None:
            return 4, int(found.ipv4_mapped)
    return found.version, int(found)


def parsed(text: str) -> tuple[int, int] | None:
    try:
        return addresses.parse(text)
    except InvalidAddressError:
        return None


@given(
    st.one_of(nearly_ipv4.map(".".join), nearly_ipv6.map(":".join), st.text("0123456789abcdef:.%/ \x00", max_size=40))
)
@example("1::2:3:4:5:6:7:8")
@example("::ffff:1.2.3.04")
@example("1.2.3.4\n")
@example("１.2.3.4")
@example("\ud800")
def test_text_is_read_as_the_standard_library_reads_it(text: str) -> None:
    assert parsed(text) == by_ipaddress(text)


@given(st.sampled_from([4, 6]), st.data())
def test_an_address_survives_writing_and_reading(family: int, data: st.DataObject) -> None:
    edges = st.sampled_from([0, 1, 2**16 - 1, 2**16, 2**32 - 1, 2**32, 2**48 - 1, 2**64, 2**127, 2**128 - 1])
    value = data.draw(st.one_of(edges, st.integers(0, 2**128 - 1)))
    value = value % 2**32 if family == 4 else value
    text = addresses.to_text(family, value)
    assert addresses.parse(text) == addresses.from_integer(family, value)
    if not (family == 6 and value >> 32 == 0xFFFF):
        assert text == str(ipaddress.ip_address(value.to_bytes(4 if family == 4 else 16, "big")))


@pytest.mark.parametrize(
    "text",
    ["127.1", "0x7f.1", "010.8.8.8", "1.2.3", "1.2.3.4.5", "8.8.8.8 ", "", "fe80::1%eth0", "1.2.3.4/32", "localhost"],
)
def test_ambiguous_text_is_refused_and_named(text: str) -> None:
    with pytest.raises(InvalidAddressError, match="text is empty" if not text else r"not an IP address"):
        addresses.parse(text)


def test_a_mapped_address_is_the_ipv4_address() -> None:
    assert addresses.parse("::ffff:8.8.8.8") == addresses.parse("8.8.8.8") == (4, 0x08080808)


@pytest.mark.parametrize("kind", [ipaddress.ip_address, netaddr.IPAddress])
@pytest.mark.parametrize("text", ["8.8.8.8", "2001:db8::1", "::ffff:8.8.8.8"])
def test_address_objects_are_taken(kind: type, text: str) -> None:
    assert addresses.parse_any(kind(text)) == addresses.parse(text)


@pytest.mark.parametrize(
    "wrong",
    [
        True,
        1,
        b"8.8.8.8",
        None,
        8.8,
        ipaddress.ip_network("8.8.8.0/24"),
        ipaddress.ip_interface("8.8.8.8/24"),
        ipaddress.IPv6Address("fe80::1%eth0"),
        netaddr.IPNetwork("8.8.8.0/24"),
        ipaddress.IPv4Address,
    ],
)
def test_what_is_no_address_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidAddressError):
        addresses.parse_any(wrong)


@given(st.sampled_from([4, 6]), st.integers(0, 2**128 - 1), st.integers(0, 128))
def test_a_network_is_read_as_the_standard_library_reads_it(family: int, value: int, bits: int) -> None:
    value, bits = (value % 2**32, bits % 33) if family == 4 else (value, bits)
    text = f"{addresses.to_text(family, value)}/{bits}"
    try:
        network = ipaddress.ip_network(text)
    except ValueError:
        with pytest.raises(InvalidRangeError):
            addresses.parse_range(text)
    else:
        expected = (network.version, int(network.network_address), int(network.broadcast_address))
        assert addresses.parse_range(text) == expected


@pytest.mark.parametrize(
    ("first", "last", "problem"),
    [
        ("1.2.3.4", "1.2.3.3", "comes after"),
        ("1.2.3.4", "2001:db8::1", "not of one family"),
        ("10.20.1.0/16", None, r"did you mean 10\.20\.0\.0/16"),
        ("10.0.0.0/33", None, "0 to 32"),
        ("10.0.0.0/-1", None, "0 to 32"),
        ("10.0.0.0/", None, "0 to 32"),
        ("::ffff:0:0/90", None, "host bits"),
        ("10.7.0.0/255.255.0.0", None, r"has a netmask: write 10\.7\.0\.0/16$"),
        ("10.7.3.1/0.0.255.255", None, r"has a netmask: write 10\.7\.0\.0/16$"),
        ("10.7.0.0/255.0.255.0", None, "0 to 32"),
        ("10.7.0.5", "99", r"write 10\.7\.0\.5-10\.7\.0\.99$"),
    ],
)
def test_what_is_no_range_is_refused_with_the_reason(first: str, last: str | None, problem: str) -> None:
    with pytest.raises(InvalidRangeError, match=problem):
        addresses.parse_range(first, last)


def test_a_mapped_network_is_the_ipv4_network() -> None:
    assert addresses.parse_range("::ffff:10.0.0.0/104") == addresses.parse_range("10.0.0.0/8")


@given(st.sampled_from([(4, 32), (6, 128)]), st.data())
def test_networks_of_a_range_are_the_fewest_that_cover_it(family: tuple[int, int], data: st.DataObject) -> None:
    version, width = family
    address = st.one_of(st.integers(0, (1 << width) - 1), st.sampled_from([0, 1, (1 << width) - 1, 1 << (width - 1)]))
    first, last = sorted((data.draw(address), data.draw(address)))
    found = [f"{addresses.to_text(version, start)}/{length}" for start, length in addresses.cidrs(version, first, last)]
    oracle = netaddr.iprange_to_cidrs(netaddr.IPAddress(first, version), netaddr.IPAddress(last, version))
    assert [netaddr.IPNetwork(text) for text in found] == oracle


@pytest.mark.parametrize(
    ("host", "local"),
    [
        *((host, True) for host in ("localhost", "127.0.0.1", "127.255.0.9", "::1", "0:0:0:0:0:0:0:1")),
        *((host, True) for host in ("::ffff:127.0.0.1", "::FFFF:7f00:1")),
        *((host, False) for host in ("", "127", "127.1", "127.0.0.01", "128.0.0.1", "126.255.255.255", "0.0.0.0")),
        *((host, False) for host in ("::", "::2", "::127.0.0.1", "7f00::1", "[::1]", "::1%lo", "localhost.")),
        *((host, False) for host in ("localhost.example", "127.0.0.1.example", "127.0.0.1:80", " ::1", "\0")),
    ],
)
def test_loopback_is_this_machine_and_nothing_else(host: str, local: bool) -> None:
    assert addresses.is_loopback(host) is local


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("http://8.8.8.8/", "is a URL, not an IP address: look up its host, 8.8.8.8"),
        ("https://u:p@[2001:db8::1]:443/x?y#z", "is a URL, not an IP address: look up its host, 2001:db8::1"),
        ("https://www.example.com/8.8.8.8", "is a URL, .*dig [+]short www.example.com`"),
        ("http://$(x)/", "is a URL, not an IP address$"),
        ("www.example.com", "is a host name, .*dig [+]short www.example.com`"),
        ("www.example.com:443", "is a host name, .*dig [+]short www.example.com`"),
        ("ada@example.com", "is an e-mail address, not an IP address: the Received lines"),
        ("8.8.8.0/24", "is a network, .*`geolookup 8.8.8.0/24` shows"),
        ("2001:db8::/32", "is a network, .*`geolookup 2001:db8::/32` shows"),
        ("8.8.8.0 - 8.8.8.9", "is a range, .*`geolookup 8.8.8.0-8.8.8.9` shows"),
        ("8.8.8.8 - - [x]", "is more than an IP address: .*`--delimiter space`"),
        ("8.8.8.8:8443", r"is an address with a port, not an IP address: write 8\.8\.8\.8$"),
        ("[2001:db8::1]:80", "is an address with a port, not an IP address: write 2001:db8::1$"),
        ("8.8.8.8:65536", "is not an IP address$"),
        ("8.8.8.0/24,", "is not an IP address$"),
        ("08.8.8.0/24", "is not an IP address: write its numbers without leading zeros .*$"),
        ("10.7.*.*", r"is a pattern, not an IP address: write 10\.7\.0\.0/16$"),
        ("10.7.1.x", r"is a pattern, not an IP address: write 10\.7\.1\.0/24$"),
        ("10.*", r"is a pattern, not an IP address: write 10\.0\.0\.0/8$"),
        ("8.8.8.0/255.255.255.0", r"is a network with a netmask, not an IP address: write 8\.8\.8\.0/24$"),
        ("8.8.8.0-99", r"is a range, not an IP address: write 8\.8\.8\.0-8\.8\.8\.99$"),
        ("8.8.8.99-9", "is not an IP address$"),
        ("8.8.*.8", "is not an IP address$"),
        ("8.8.8.8/2x", "is not an IP address$"),
        ("status", "is not an IP address$"),
        ("a b.c", "is not an IP address$"),
        ("8.8.8.x.1", "is not an IP address$"),
    ],
)
def test_what_is_known_by_its_form_is_called_so_with_what_to_do(text: str, said: str) -> None:
    with pytest.raises(InvalidAddressError, match=f"^{re.escape(repr(text))} {said}"):
        addresses.parse(text)


def test_what_only_a_command_can_do_stands_apart_from_what_was_wrong() -> None:
    with pytest.raises(InvalidAddressError) as caught:
        addresses.parse("8.8.8.8 - - [x]")
    assert caught.value.told.endswith("leave out what stands after the blank")
    assert str(caught.value) == f"{caught.value.told}: {caught.value.do}"
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)


def test_what_is_no_network_is_quoted_whole() -> None:
    with pytest.raises(InvalidAddressError, match=r"^'<b>x</b>' is not an IP address$"):
        addresses.parse_range("<b>x</b>")
