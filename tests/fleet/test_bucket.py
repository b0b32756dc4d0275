"""Publishing to an object store. The server is a mock: moto speaks S3's interface, and keeps what it gets in memory."""

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer

from geolookup.fleet import publish
from geolookup.fleet.bucket import Bucket
from geolookup.model.errors import StateBusyError, StateUnwritableError
from tests.fleet.served import Builder, Reader, fingerprint


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of the mock, with an empty bucket that anybody may read."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    for name, value in {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": url,
    }.items():
        monkeypatch.setenv(name, value)
    urllib.request.urlopen(urllib.request.Request(f"{url}/fleet", method="PUT", headers={"x-amz-acl": "public-read"}))
    yield url
    urllib.request.urlopen(urllib.request.Request(f"{url}/moto-api/reset", method="POST"))
    server.stop()


def _publish(builder: Builder, **options: object) -> publish.Published:
    return publish.publish(builder.home, Bucket("s3://fleet/geo"), keys=builder.keys, **options)  # type: ignore[arg-type]


def test_a_reader_follows_a_bucket_by_https_alone(builder: Builder, s3: str, tmp_path: Path) -> None:
    builder.edit_many(40)
    _publish(builder)
    reader = Reader(tmp_path)
    reader.join(f"{s3}/fleet/geo", builder.root)
    builder.edit("10.2.0.0/24", "Lager")
    _publish(builder)
    found = reader.sync()
    assert found.way["custom"] == "steps"
    assert found.requests == 6
    assert fingerprint(reader.home) == fingerprint(builder.home)
    with urllib.request.urlopen(f"{s3}/fleet/geo/metadata/timestamp.json") as answer:
        assert answer.headers["Cache-Control"] == "no-cache"


def test_a_second_builder_is_refused_before_it_writes(builder: Builder, s3: str, tmp_path: Path) -> None:
    _publish(builder)
    store = Bucket("s3://fleet/geo")
    before = store.sizes("blobs") | store.sizes("metadata")
    other = Builder(tmp_path / "other", tmp_path / "elsewhere")
    other.keys = builder.keys
    with pytest.raises(StateBusyError, match="published by another builder"):
        _publish(other)
    with store.locked(), pytest.raises(StateBusyError, match="another process is publishing there"):
        _publish(builder)
    assert store.sizes("blobs") | store.sizes("metadata") == before
    _publish(other, take_over=True)
    with pytest.raises(StateBusyError):
        _publish(builder)


def test_a_lock_of_a_killed_publish_ends_by_itself(builder: Builder, s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Bucket("s3://fleet/geo")
    assert store.claim("publishing.json", json.dumps({"host": "gone", "until": 1.0}).encode())
    assert _publish(builder).new
    assert store.read("publishing.json", 1000) is None


def test_what_another_one_wrote_meanwhile_is_not_written_over(s3: str) -> None:
    one, two = Bucket("s3://fleet/geo"), Bucket("s3://fleet/geo")
    assert one.read("metadata/timestamp.json", 1000) is None
    two.write("metadata/timestamp.json", b"two")
    with pytest.raises(StateBusyError, match="another builder wrote it meanwhile"):
        one.write("metadata/timestamp.json", b"one")
    assert one.read("metadata/timestamp.json", 1000) == b"two"
    two.write("metadata/timestamp.json", b"two again")
    with pytest.raises(StateBusyError, match="another builder wrote it meanwhile"):
        one.write("metadata/timestamp.json", b"one")
    assert two.read("metadata/timestamp.json", 3) == b"two"


def test_what_fails_says_where(s3: str) -> None:
    with pytest.raises(StateUnwritableError, match="s3://missing/geo/blobs"):
        Bucket("s3://missing/geo").sizes("blobs")
