"""What is listed, what is downloaded, and conditional requests and ranges of it."""

import gzip
import hashlib
import io
import os
import random
import socket
import time
from email.utils import formatdate, parsedate_to_datetime
from pathlib import Path

import httpx
import maxminddb
import pytest

from geolookup.exports.export import export
from tests.support.data.two_sources import NAMES, state
from tests.support.services.running_share import RunningShare

CITY = "/databases/geolookup-City.mmdb"


def test_each_edition_is_what_export_writes_with_its_name(
    shared: RunningShare, client: httpx.Client, tmp_path: Path
) -> None:
    for name in ("geolookup-City", "geolookup-Country", *NAMES):
        fields = "country" if name.endswith("Country") else "city"
        out = io.BytesIO()
        export(shared.geo, "mmdb", out, fields=fields, database_type=name)
        plain = client.get(f"/databases/{name}.mmdb")
        assert plain.content == out.getvalue()
        assert gzip.decompress(client.get(f"/databases/{name}.mmdb.gz").content) == plain.content
        path = tmp_path / f"{name}.mmdb"
        path.write_bytes(plain.content)
        with maxminddb.open_database(path) as reader:
            assert reader.metadata().database_type == name
            assert reader.get("10.20.3.4") == reader.get("10.20.255.255")


def test_the_list_says_what_each_file_is_and_where(client: httpx.Client) -> None:
    listed = client.get("/databases").json()
    assert {each["edition"] for each in listed["databases"]} == {"geolookup-City", "geolookup-Country", *NAMES}
    files = [each[form] for each in listed["databases"] for form in ("mmdb", "mmdb.gz")] + [listed["geofeed"]]
    for file in files:
        answer = client.get(file["url"])
        assert file["sha256"] in file["url"]
        assert hashlib.sha256(answer.content).hexdigest() == file["sha256"]
        assert hashlib.md5(answer.content).hexdigest() == file["md5"]
        assert len(answer.content) == file["bytes"]
        modified = parsedate_to_datetime(answer.headers["last-modified"])
        assert modified.strftime("%Y-%m-%dT%H:%M:%SZ") == file["modified"]


def test_the_geofeed_has_our_own_blocks_in_public_space_alone(client: httpx.Client) -> None:
    answer = client.get("/geofeed.csv")
    assert answer.headers["content-type"].startswith("text/csv")
    lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
    assert lines == ["44.10.20.0/24,US,US-TX,Austin,"]


@pytest.mark.parametrize(
    "path",
    [
        "/databases/GeoLite2-ASN.mmdb",
        "/databases/geolookup-City.tar.gz",
        "/databases/geolookup-City",
        "/databases/geofeed.csv",
        "/databases/..%2f..%2fCURRENT",
        f"{CITY}?sha256=00",
    ],
)
def test_what_there_is_not_is_not_found(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")


# RFC 9110, section 13


def test_who_has_the_file_is_not_sent_it_again(client: httpx.Client) -> None:
    first = client.get(CITY)
    etag, modified = first.headers["etag"], first.headers["last-modified"]
    later = formatdate(parsedate_to_datetime(modified).timestamp() + 60, usegmt=True)
    earlier = formatdate(parsedate_to_datetime(modified).timestamp() - 1, usegmt=True)
    rows: list[tuple[dict[str, str], int]] = [
        ({"If-None-Match": etag}, 304),
        ({"If-None-Match": f'"x", W/{etag}'}, 304),
        ({"If-None-Match": "*"}, 304),
        ({"If-None-Match": '"x"'}, 200),
        ({"If-None-Match": '"x"', "If-Modified-Since": modified}, 200),  # the tag goes before the date
        ({"If-Modified-Since": modified}, 304),
        ({"If-Modified-Since": later}, 304),
        ({"If-Modified-Since": earlier}, 200),
        ({"If-Modified-Since": "yesterday"}, 200),
        ({"If-Match": etag}, 200),
        ({"If-Match": '"x"'}, 412),
        ({"If-Match": f"W/{etag}"}, 412),  # weak tags never match strongly
        ({"If-Match": '"x"', "If-None-Match": etag}, 412),
        ({"If-Unmodified-Since": modified}, 200),
        ({"If-Unmodified-Since": earlier}, 412),
    ]
    for headers, status in rows:
        answer = client.get(CITY, headers=headers)
        assert (answer.status_code, answer.content) == (status, first.content if status == 200 else b""), headers
        assert answer.headers["etag"] == etag
        head = client.head(CITY, headers=headers)
        assert (head.status_code, head.content) == (status, b""), headers
        assert head.headers.get("content-length") == answer.headers.get("content-length")


# RFC 9110, section 14


def test_ranges_are_the_bytes_that_were_asked_for(client: httpx.Client) -> None:
    whole = client.get(CITY).content
    size = len(whole)
    rows: list[tuple[str, int, bytes]] = [
        ("bytes=0-0", 206, whole[:1]),
        ("bytes=10-", 206, whole[10:]),
        (f"bytes=10-{size + 100}", 206, whole[10:]),
        ("bytes=-5", 206, whole[-5:]),
        (f"bytes=-{size + 100}", 206, whole),
        (f"bytes={size - 1}-", 206, whole[-1:]),
        (f"bytes={size}-", 416, b""),
        ("bytes=-0", 416, b""),
        ("bytes=5-2", 200, whole),
        ("bytes=0-1,4-5", 200, whole),
        ("bytes=", 200, whole),
        ("lines=0-1", 200, whole),
        ("bytes=" + "9" * 400 + "-", 200, whole),
    ]
    for header, status, content in rows:
        answer = client.get(CITY, headers={"Range": header})
        assert (answer.status_code, answer.content) == (status, content), header
        assert int(answer.headers["content-length"]) == len(content)
    assert client.get(CITY, headers={"Range": "bytes=2-3"}).headers["content-range"] == f"bytes 2-3/{size}"
    assert client.get(CITY, headers={"Range": f"bytes={size}-"}).headers["content-range"] == f"bytes */{size}"


def test_a_broken_download_goes_on_only_with_the_same_content(client: httpx.Client) -> None:
    whole = client.get(CITY)
    for condition, status in (
        (whole.headers["etag"], 206),
        (f"W/{whole.headers['etag']}", 200),
        ('"another"', 200),
        (whole.headers["last-modified"], 206),
        (formatdate(1, usegmt=True), 200),
        ("nonsense", 200),
    ):
        answer = client.get(CITY, headers={"Range": "bytes=100-", "If-Range": condition})
        assert (answer.status_code, answer.content) == (status, whole.content[100 if status == 206 else 0 :]), condition


def test_any_pieces_together_are_the_file(client: httpx.Client) -> None:
    whole = client.get(CITY).content
    chance = random.Random(13)
    for _ in range(30):
        first, last = sorted(chance.randrange(len(whole)) for _ in range(2))
        answer = client.get(CITY, headers={"Range": f"bytes={first}-{last}"})
        assert answer.content == whole[first : last + 1]


def test_clients_that_read_nothing_hold_nobody_up(tmp_path: Path) -> None:
    large = random.Random(1).randbytes(16 << 20)
    with RunningShare(state(tmp_path), tmp_path / "built") as running, running.client() as client:
        name = client.get(CITY).headers["etag"].strip('"')
        (running.folder / "files" / name).write_bytes(large)
        host, port = running.url.removeprefix("http://").split(":")
        silent = [socket.create_connection((host, int(port))) for _ in range(20)]
        try:
            for one in silent:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                one.sendall(f"GET {CITY} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            time.sleep(1.0)
            assert client.get(CITY).content == large
            assert client.get("/lookup/10.20.0.1").json()["city"] == "Berlin"
        finally:
            for one in silent:
                one.close()
        # The files that they had open are closed.
        until = time.monotonic() + 30
        while any(os.path.realpath(f"/proc/self/fd/{each}").endswith(name) for each in os.listdir("/proc/self/fd")):
            assert time.monotonic() < until
            time.sleep(0.1)
