"""Publishing to an object store.

The server is a mock, moto, which speaks S3's interface and keeps what it gets in memory; or, by
``python -m tests.fleet.s3``, a node of Ceph.
"""

import json
import os
import shutil
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

from geolookup.fleet import publish
from geolookup.fleet.bucket import Bucket
from geolookup.model.errors import StateBusyError, StateUnwritableError
from tests.fleet.s3 import ENVIRONMENT, KEY, SECRET
from tests.fleet.served import Builder, Reader, fingerprint


@contextmanager
def _mock() -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    yield url
    urllib.request.urlopen(urllib.request.Request(f"{url}/moto-api/reset", method="POST"))
    server.stop()


@contextmanager
def _server() -> Iterator[str]:
    url = os.environ.get(ENVIRONMENT)
    if url:
        yield url
    else:
        with _mock() as mock:
            yield mock


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of the server, with an empty bucket that anybody may read."""
    with _server() as url:
        for name, value in {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": url,
        }.items():
            monkeypatch.setenv(name, value)
        client = boto3.client("s3", endpoint_url=url, region_name="us-east-1")
        client.create_bucket(Bucket="fleet")
        anybody = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::fleet/*"}
        client.put_bucket_policy(Bucket="fleet", Policy=json.dumps({"Version": "2012-10-17", "Statement": [anybody]}))
        yield url
        for each in client.list_objects_v2(Bucket="fleet").get("Contents", ()):
            client.delete_object(Bucket="fleet", Key=each["Key"])
        client.delete_bucket(Bucket="fleet")


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
    with store.locked(other.home), pytest.raises(StateBusyError, match=r"is publishing there .* after 20\d\d-"):
        _publish(builder)
    assert store.sizes("blobs") | store.sizes("metadata") == before
    _publish(other, take_over=True)
    with pytest.raises(StateBusyError):
        _publish(builder)


def test_a_lock_of_a_killed_publish_keeps_its_own_state_out_no_longer(builder: Builder, s3: str) -> None:
    """Another publish of that state is kept out by the state's own lock, which ended with the process."""
    store = Bucket("s3://fleet/geo")
    killed = store.locked(builder.home)
    killed.__enter__()
    assert _publish(builder).new
    assert store.read("publishing.json", 1000) is None


def test_a_lock_of_a_killed_publish_ends_by_itself(builder: Builder, s3: str) -> None:
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


def test_of_two_that_publish_at_once_each_is_whole_or_refused(builder: Builder, s3: str, tmp_path: Path) -> None:
    """A copy of the builder's machine passes for it, and has other edits."""
    _publish(builder)
    copy = Builder(tmp_path / "copy", tmp_path / "elsewhere")
    shutil.rmtree(copy.home)
    shutil.copytree(builder.home, copy.home, symlinks=True)
    copy.keys = builder.keys
    reader = Reader(tmp_path)
    reader.join(f"{s3}/fleet/geo", builder.root)
    for number in range(4):
        said: list[publish.Published | StateBusyError] = []

        def at_once(who: Builder, said: list[publish.Published | StateBusyError] = said) -> None:
            try:
                said.append(_publish(who))
            except StateBusyError as error:
                said.append(error)

        for who, city in ((builder, "Hus"), (copy, "Haus")):
            who.edit(f"10.4.{number}.0/24", f"{city} {number}")
        threads = [threading.Thread(target=at_once, args=(who,)) for who in (builder, copy)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(said) == 2
        if any(isinstance(each, publish.Published) for each in said):
            reader.sync()
            assert fingerprint(reader.home) in (fingerprint(builder.home), fingerprint(copy.home))


def test_what_fails_says_where(s3: str) -> None:
    with pytest.raises(StateUnwritableError, match="s3://missing/geo/blobs"):
        Bucket("s3://missing/geo").sizes("blobs")
