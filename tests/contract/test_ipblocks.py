"""Operations 3, 5, 6 and 7 over HTTP: one test a sentence of the interface."""

from typing import Any

import httpx
import pytest

from tests.contract.answers import BLOCKS, PATH, block, blocks_of, pointers, refused, replacement
from tests.support.services.running_service import RunningService

# --- 3. create block


def test_create_block_answers_201_with_the_locid_and_keeps_canonical_text(
    service: RunningService, client: httpx.Client
) -> None:
    """Interface: "Create block (given): body `startip, endip`; answers `{"locid": -n}`"."""
    locid = service.create()
    answer = client.post(BLOCKS, params={"locid": locid}, json=block("2001:DB8:0::1", "2001:db8::00ff"))
    assert (answer.status_code, answer.json()) == (201, {"locid": locid})
    client.post(BLOCKS, params={"locid": locid}, json=block("::ffff:10.0.0.1", "::ffff:10.0.0.2")).raise_for_status()
    assert blocks_of(client, locid) == [("10.0.0.1", "10.0.0.2"), ("2001:db8::1", "2001:db8::ff")]


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({}, ["/startip", "/endip"]),
        (block("10.0.0.1", "x"), ["/endip"]),
        (block("010.0.0.1", "10.0.0.2"), ["/startip"]),
        (block("10.0.0.0/8", "10.0.0.1"), ["/startip"]),
        (block("fe80::1%eth0", "fe80::2"), ["/startip"]),
        (block("10.0.0.2", "10.0.0.1"), ["/endip"]),
        (block("10.0.0.2", "::1"), ["/endip"]),
        ({"startip": 167772160, "endip": None}, ["/startip", "/endip"]),
    ],
)
def test_a_block_that_is_no_strict_range_of_one_family_in_order_is_422(
    service: RunningService, client: httpx.Client, body: dict[str, Any], named: list[str]
) -> None:
    """Interface: "Both ends are of one family and in order; a block that is not is rejected"."""
    answer = client.post(BLOCKS, params={"locid": service.create()}, json=body)
    assert pointers(refused(answer, 422, "invalid-body")) == named


def test_an_identical_block_is_409_by_whose_it_is(service: RunningService, client: httpx.Client) -> None:
    """Interface: "A block identical to one of this or another custom geolocation is 409 (`block-exists`,
    `block-taken`)".
    """
    mine, other = service.create(("10.0.0.0", "10.0.0.9")), service.create()
    again = block("10.0.0.0", "10.0.0.9")
    refused(client.post(BLOCKS, params={"locid": mine}, json=again), 409, "block-exists")
    refused(client.post(BLOCKS, params={"locid": other}, json=again), 409, "block-taken")
    assert blocks_of(client, other) == []


def test_nested_and_crossing_blocks_and_one_identical_to_a_default_are_allowed(
    service: RunningService, client: httpx.Client
) -> None:
    """Interface: "nested and crossing blocks are allowed"."""
    service.create(("10.0.0.0", "10.0.0.9"), ("10.0.0.5", "10.0.0.20"), ("10.0.0.2", "10.0.0.3"))
    locid = service.create(("10.0.0.0", "10.0.0.8"), ("192.0.2.0", "192.0.2.127"))
    assert len(blocks_of(client, locid)) == 2


def test_the_same_numbers_in_the_other_family_are_another_block(service: RunningService, client: httpx.Client) -> None:
    """Interface: "both ends are inclusive; IPv4 and IPv6"."""
    service.create(("0.0.0.1", "0.0.0.2"))
    assert blocks_of(client, service.create(("::1", "::2"))) == [("::1", "::2")]


# --- 5. replace block


def test_replace_puts_the_new_block_in_the_old_ones_place(service: RunningService, client: httpx.Client) -> None:
    """Interface: "Replace block (given): body `startip, endip, newstartip, newendip`. Ours: answers `{"locid":
    -n}`".
    """
    locid = service.create(("10.0.0.0", "10.0.0.9"), ("10.1.0.0", "10.1.0.9"))
    body = replacement(("10.0.0.0", "10.0.0.9"), ("2001:db8::", "2001:db8::1"))
    answer = client.put(BLOCKS, params={"locid": locid}, json=body)
    assert (answer.status_code, answer.json()) == (200, {"locid": locid})
    assert blocks_of(client, locid) == [("10.1.0.0", "10.1.0.9"), ("2001:db8::", "2001:db8::1")]


def test_replacing_a_block_that_the_geolocation_has_not_is_404(service: RunningService, client: httpx.Client) -> None:
    """Interface: "404 where the geolocation has no such block"."""
    service.create(("10.0.0.0", "10.0.0.9"))
    locid = service.create(("10.0.0.0", "10.0.0.8"))
    body = replacement(("10.0.0.0", "10.0.0.9"), ("10.9.0.0", "10.9.0.9"))
    refused(client.put(BLOCKS, params={"locid": locid}, json=body), 404, "unknown-block")


def test_replacing_a_block_by_itself_changes_nothing(service: RunningService, client: httpx.Client) -> None:
    """Interface: "Replace block (given): body `startip, endip, newstartip, newendip`"."""
    locid = service.create(("10.0.0.0", "10.0.0.9"))
    tag = client.get(PATH).headers["etag"]
    body = replacement(("10.0.0.0", "10.0.0.9"), ("10.0.0.0", "10.0.0.9"))
    assert client.put(BLOCKS, params={"locid": locid}, json=body).json() == {"locid": locid}
    assert client.get(PATH).headers["etag"] == tag


def test_replacing_by_a_block_that_is_there_already_is_409(service: RunningService, client: httpx.Client) -> None:
    """Interface: "A block identical to one of this or another custom geolocation is 409"."""
    service.create(("10.5.0.0", "10.5.0.9"))
    locid = service.create(("10.0.0.0", "10.0.0.9"), ("10.1.0.0", "10.1.0.9"))
    for new, name in ((("10.1.0.0", "10.1.0.9"), "block-exists"), (("10.5.0.0", "10.5.0.9"), "block-taken")):
        body = replacement(("10.0.0.0", "10.0.0.9"), new)
        refused(client.put(BLOCKS, params={"locid": locid}, json=body), 409, name)
    assert len(blocks_of(client, locid)) == 2


def test_replace_names_the_member_that_is_wrong(service: RunningService, client: httpx.Client) -> None:
    """Interface: "`errors: [{pointer, detail}]` for fields"."""
    locid = service.create(("10.0.0.0", "10.0.0.9"))
    body = replacement(("10.0.0.0", "10.0.0.9"), ("10.0.0.9", "10.0.0.0"))
    answer = client.put(BLOCKS, params={"locid": locid}, json=body)
    assert pointers(refused(answer, 422, "invalid-body")) == ["/newendip"]


# --- 6. and 7. delete


def test_delete_takes_the_blocks_along(service: RunningService, client: httpx.Client) -> None:
    """Interface: "Delete (given): answers `{"locid": -n}`. Ours: its blocks go with it"."""
    locid = service.create(("10.0.0.0", "10.0.0.9"))
    answer = client.delete(PATH, params={"locid": locid})
    assert (answer.status_code, answer.json()) == (200, {"locid": locid})
    assert [place["locid"] for place in client.get(PATH).json()] == [1, 2]
    assert service.create(("10.0.0.0", "10.0.0.9")) != locid  # the block is nobody's now


def test_delete_blocks_counts_what_matched_and_what_was_deleted(service: RunningService, client: httpx.Client) -> None:
    """Interface: "answers `{"totalMatchingBlocks": n, "customerDefinedMatchingBlocks": m}`: how many blocks of the
    location matched, and how many were deleted".
    """
    locid = service.create(("10.0.0.0", "10.0.0.9"), ("::1", "::2"))
    for count in (2, 0):
        answer = client.delete(BLOCKS, params={"locid": locid})
        assert answer.status_code == 200
        assert answer.json() == {"totalMatchingBlocks": count, "customerDefinedMatchingBlocks": count}
    assert blocks_of(client, locid) == []
