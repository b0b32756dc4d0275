"""What the contract tests say and look for: paths, bodies, problems."""

from typing import Any

import httpx

PATH = "/geolocations"
BLOCKS = "/geolocations/ipblocks"


def block(first: str, last: str) -> dict[str, str]:
    return {"startip": first, "endip": last}


def refused(answer: httpx.Response, status: int, name: str) -> dict[str, Any]:
    """Check that an answer is the named problem: its body."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == status
    assert body["type"].endswith(f":{name}")
    assert body["title"]
    return dict(body)


def pointers(body: dict[str, Any]) -> list[str]:
    assert all(error["detail"] for error in body["errors"])
    return [error["pointer"] for error in body["errors"]]


def blocks_of(client: httpx.Client, locid: int) -> list[tuple[str, str]]:
    (found,) = [place for place in client.get(PATH).json() if place["locid"] == locid]
    return [(one["startip"], one["endip"]) for one in found["ipblocks"]]


def replacement(old: tuple[str, str], new: tuple[str, str]) -> dict[str, str]:
    return {"startip": old[0], "endip": old[1], "newstartip": new[0], "newendip": new[1]}
