"""The reader of what a person pastes: each text, what it means, and what of it is named as not read."""

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.lookup.pasted import is_log, read_pasted, still_unread
from geolookup.model.types import IPBlock
from geolookup.sites.site import block_text


def blocks(text: str) -> list[str]:
    """The blocks of a text of which all was read."""
    found = read_pasted(text)
    assert found.unread == [], text
    return [*map(block_text, found.blocks)]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("Networks: 81.64.20.0/28.", ["81.64.20.0/28"]),
        ("gateway - 81.64.20.1 - printer - 81.64.20.5", ["81.64.20.1", "81.64.20.5"]),
        ("81.64.20.40/30 - office\n81.64.20.44/30 - wifi", ["81.64.20.40/30", "81.64.20.44/30"]),
        ("81.64.20.0 /28, 81.64.20.16 / 28", ["81.64.20.0/28", "81.64.20.16/28"]),
        ("81.64.20.1\n- 81.64.20.9\n-81.64.20.7", ["81.64.20.1", "81.64.20.9", "81.64.20.7"]),
        ("> 1. 81.64.20.1\n> 2) 81.64.20.9", ["81.64.20.1", "81.64.20.9"]),
        ("IP:81.6.96.4 81.6.96.10! 81.6.96.30: ip=81.6.96.9", ["81.6.96.4", "81.6.96.10", "81.6.96.30", "81.6.96.9"]),
        ("http://81.64.96.5/ https://81.64.96.6/a 81[.]64[.]96[.]25", ["81.64.96.5", "81.64.96.6", "81.64.96.25"]),
        ("81.64.96.13/81.64.96.14 81.64.96.7|81.64.96.8.", ["81.64.96.13", "81.64.96.14", "81.64.96.7", "81.64.96.8"]),
        ("2001:db8::. [2001:db8:1::1]:80, a :: b", ["2001:db8::", "2001:db8:1::1"]),
        ("Sent: 27.11.2026 12:30:01, Chrome/120.0.0.0, 00:1a:2b:3c:4d:5e, v1.2.3.4, 9.9.9.9", ["9.9.9.9"]),
        ("81.64.20.1 (the printer on floor 2), 81.64.20.2", ["81.64.20.1", "81.64.20.2"]),
        ("VLAN 20: 81.64.20.9", ["81.64.20.9"]),
        ("10.0.0.0-10.255.255.255, from 10.1.0.0 to 10.1.255.255", ["10.0.0.0/8", "10.1.0.0/16"]),
        ("81.64.20.1\u200b, \ufeff81.64.20.2", ["81.64.20.1", "81.64.20.2"]),
        ("start=81.64.20.1 end=81.64.20.9", ["81.64.20.1-81.64.20.9"]),
        ("first 81.64.20.1 last 81.64.20.9", ["81.64.20.1-81.64.20.9"]),
        ("Office\tFirst\tLast\nLyon\t81.64.20.1\t81.64.20.9\nNice\t81.64.21.1\t81.64.21.4",
         ["81.64.20.1-81.64.20.9", "81.64.21.1-81.64.21.4"]),
        ("Office\tGateway\nLyon\t81.64.20.1\t81.64.20.9", ["81.64.20.1", "81.64.20.9"]),
    ],
)  # fmt: skip
def test_addresses_are_found_as_people_write_them(text: str, meant: list[str]) -> None:
    assert blocks(text) == meant


@pytest.mark.parametrize(
    "between",
    ["-", " - ", "–", " -", " to ", " till ", " until ", " up to ", " up to and including ", " through ", " -> ", " → ",
     "..", " … ", " bis ", " bis zu ", " à ", " jusqu'à ", " jusqu’au ", " hasta ", " fino a ", " tot "],
)  # fmt: skip
def test_a_range_is_one_whatever_stands_between_its_ends(between: str) -> None:
    assert blocks(f"from 81.64.20.20{between}81.64.20.35 please") == ["81.64.20.20-81.64.20.35"]
    for last in (".35", "35"):
        found = read_pasted(f"81.64.20.20{between}{last}")
        assert [*map(str, found.blocks)] == ["81.64.20.20-81.64.20.35"], last
        assert found.meant[0].endswith(" as 81.64.20.20-81.64.20.35"), "what was guessed is said"


@pytest.mark.parametrize(
    ("text", "read", "told"),
    [
        ("81.64.20.40,41,42", ["81.64.20.40"], ["41 beside 81.64.20.40: write 81.64.20.41", "42 beside"]),
        ("81.64.20.40, 41 and 42", ["81.64.20.40"], ["41 beside", "42 beside"]),
        ("81.64.20.40 300", ["81.64.20.40"], ["300 beside 81.64.20.40"]),
        ("10.1.7.0 255.255.255.0", [], ["10.1.7.0 has the netmask 255.255.255.0: write 10.1.7.0/24"]),
        ("10.1.7.0, 255.255.255.0", [], ["write 10.1.7.0/24"]),
        ("Gateway 10.1.7.1 Mask 255.255.255.0", [], ["write 10.1.7.0/24"]),
        ("10.1.7.5 0.0.0.255", [], ["write 10.1.7.0/24"]),
        ("10.1.7.0/255.255.255.0", [], ["has the netmask 255.255.255.0: write 10.1.7.0/24"]),
        ("10.1.7.5/0.0.0.0", [], ["has a netmask: write 10.1.7.5/32"]),
        ("IP 10.1.7.1\nMask 255.255.255.0", ["10.1.7.1"], ["255.255.255.0 is a netmask, not an address"]),
        ("10.0.0.5 -> 81.64.20.5", [], ["may be a range or single addresses"]),
        ("please move 10.1.0.5 to 10.2.0.5", [], ["may be a range or single addresses"]),
        ("81,10,9,91 and 81-10-9-92", [], ["write 81.10.9.91", "write 81.10.9.92"]),
        ("10.0.0.3-10.0.0.11-10.0.0.12", [], ["'10.0.0.3 - 10.0.0.11 - 10.0.0.12' may be a range"]),
        ("10.0.0.3 -\n10.0.0.5", [], ["may be a range"]),
        ("from 10.0.0.3\nto 10.0.0.5", [], ["may be a range"]),
        ("10.0.0.3 (printer) - 10.0.0.5", [], ["may be a range"]),
        ("between 10.0.0.3 and 10.0.0.5", [], ["may be a range"]),
        ("10.0.0.0/30 - 10.0.0.4/30", [], ["may be a range"]),
        ("10.0.0.9-10.0.0.3", [], ["comes after"]),
        ("10.20.0.1/24 10.1.2.3:80000 81.64.20 10.7.*.*", [], ["host bits", "80000", "all four", "write 10.7.0.0/16"]),
        ("81.64.20.{1,2}, 81.64.21.[1-5]", [], ["81.64.20.{1", "write 81.64.20.2", "81.64.21.[1-5]"]),
        ("81.64.20.0/28 (gateway .1)", ["81.64.20.0/28"], [".1 beside 81.64.20.0/28: write 81.64.20.1"]),
        ("81.64.20.40, up to 81.64.20.48", [], ["may be a range"]),
        ("81.64.20.40 + 8", ["81.64.20.40"], ["8 beside 81.64.20.40"]),
        ("printer-81.64.20.1 http://[2001:db8::1]/x", [], ["printer-81.64.20.1", "its host, 2001:db8::1"]),
        ("root@81.64.20.5 fe80::1%eth0", [], ["root@81.64.20.5", "leave out the zone"]),
    ],
)  # fmt: skip
def test_what_may_mean_something_else_is_named_and_never_a_word(text: str, read: list[str], told: list[str]) -> None:
    found = read_pasted(text)
    assert [*map(block_text, found.blocks)] == read
    assert len(found.unread) == len(told)
    for one, said in zip(found.unread, told, strict=True):
        assert said in one.told
    assert not [word for word in found.words if word.text.strip(".").isdigit()]


an_address = st.integers(0x51000000, 0x51FFFFFF).map(lambda value: IPBlock(family=4, first=value, last=value))


@given(st.lists(an_address, min_size=1, max_size=6), st.sampled_from(["\n", ", ", "; ", " ", "\n- ", " and ", "|"]))
def test_every_address_of_a_list_is_read_or_named(listed: list[IPBlock], between: str) -> None:
    found = read_pasted("Please add " + between.join(map(str, listed)) + ". Thanks, Marie")
    assert found.blocks == listed
    assert [word.text for word in found.words] == [
        "Please",
        "add",
        *["and"] * (len(listed) - 1) * (between == " and "),
        "Thanks",
        "Marie",
    ]


@given(st.text(st.sampled_from("81.6420-/ ,to\n()>:af255"), max_size=60))
def test_no_number_beside_an_address_is_lost(text: str) -> None:
    found = read_pasted(text)
    known = " ".join([*(each.text + each.told for each in found.unread), *found.meant, *map(str, found.blocks)])
    for word in found.words:
        assert read_pasted(word.text).blocks == [] or word.text == "::", known


def test_what_was_added_by_hand_is_not_unread_any_more() -> None:
    found = read_pasted("81.64.20.3-81.64.20.11-81.64.20.12\n81.64.20.300\n10.1.7.0 255.255.255.0")
    assert found.left == "81.64.20.3 - 81.64.20.11 - 81.64.20.12, 81.64.20.300, 10.1.7.0/24?"
    left = found.left.split(", ")
    assert still_unread(left, read_pasted("81.64.20.3 81.64.20.11 10.1.7.0/25").blocks) == left
    assert still_unread(left, read_pasted("81.64.20.0/27 10.1.7.0/24").blocks) == ["81.64.20.300"]


def test_a_log_is_told_from_a_mail() -> None:
    assert is_log("12:00:01 10.0.0.1 -> 10.0.0.9\n12:00:02 10.0.0.1 -> 10.0.0.9\n\n")
    assert not is_log("Sent: 12:00:01\n\n10.0.0.1 - 10.0.0.9\n10.0.0.12\n")
    assert not is_log("")


def test_long_text_is_read_in_a_time_that_grows_with_it() -> None:
    def seconds(text: str) -> float:
        began = process_time()
        read_pasted(text)
        return process_time() - began

    for hostile in ("( 1.2.3.4 - ", "1.2.3.4-", "1.2.3.4 to (", "1.2.3.4 , to ", "::1:", "(((((", "from\tto ", "1."):
        assert seconds(hostile * 16_000) < 12 * seconds(hostile * 4_000) + 0.5, hostile
