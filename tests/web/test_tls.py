"""A service by TLS: who can ask, a renewed certificate, connections that never say anything, files that are none."""

import contextlib
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from geolookup.model.errors import SettingsError
from geolookup.web.options import Limits, Options
from geolookup.web.tls import Certificate
from tests.support.services.certificates import Certificates
from tests.support.services.running_service import RunningService


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


@pytest.fixture
def running(tmp_path: Path, certificates: Certificates) -> Iterator[RunningService]:
    limits = Limits(request_s=2, connections=5)
    options = Options(tls_cert=str(certificates.cert), tls_key=str(certificates.key), limits=limits)
    with RunningService(tmp_path / "service.db", options=options) as running:
        yield running


def serial(running: RunningService, certificates: Certificates) -> int:
    host, port = running.url.removeprefix("https://").rsplit(":", 1)
    with (
        socket.create_connection((host, int(port)), 10) as plain,
        certificates.trusting().wrap_socket(plain, server_hostname=host) as secure,
    ):
        found = secure.getpeercert()
    assert found is not None
    return int(str(found["serialNumber"]), 16)


def test_who_trusts_the_authority_gets_answers_and_nobody_else(
    running: RunningService, certificates: Certificates
) -> None:
    assert running.url.startswith("https://")
    with httpx.Client(base_url=running.url, verify=certificates.trusting(), trust_env=False) as client:
        assert client.get("/healthz").json() == {"status": "alive"}
        assert client.get("/lookup/192.0.2.1").status_code == 200
    with httpx.Client(base_url=running.url, trust_env=False) as client, pytest.raises(httpx.ConnectError):
        client.get("/healthz")
    plain = running.url.replace("https", "http")
    with httpx.Client(base_url=plain, trust_env=False) as client, pytest.raises(httpx.RemoteProtocolError):
        client.get("/healthz")


def test_what_is_no_request_gets_its_problem_by_tls_too(running: RunningService, certificates: Certificates) -> None:
    host, port = running.url.removeprefix("https://").rsplit(":", 1)
    with (
        socket.create_connection((host, int(port)), 10) as plain,
        certificates.trusting().wrap_socket(plain, server_hostname=host) as secure,
    ):
        secure.sendall(b"NOT A REQUEST\r\n\r\n")
        answer = secure.recv(65536)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"bad-request" in answer


def test_a_renewed_certificate_serves_without_a_restart(running: RunningService, certificates: Certificates) -> None:
    before = serial(running, certificates)
    certificates.issue()
    until = time.monotonic() + 30
    while serial(running, certificates) == before:
        assert time.monotonic() < until, "the renewed certificate is not served"
        time.sleep(0.1)


def test_a_renewal_that_is_half_done_changes_nothing(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    certificate = Certificate(str(certificates.cert), str(certificates.key))
    whole = certificates.cert.read_bytes()
    certificates.issue()
    renewed = certificates.cert.read_bytes()
    certificates.cert.write_bytes(whole)  # now the key is the new one, and the certificate the old one
    certificate.follow()
    assert "the certificate from before goes on" in caplog.text
    caplog.clear()
    certificate.follow()
    assert caplog.text == ""
    certificates.cert.write_bytes(renewed)
    certificate.follow()
    assert "was read again" in caplog.text


def test_connections_that_say_nothing_leave_room_and_end(running: RunningService, certificates: Certificates) -> None:
    host, port = running.url.removeprefix("https://").rsplit(":", 1)
    silent = [socket.create_connection((host, int(port)), 10) for _ in range(30)]
    try:
        began = time.monotonic()
        for one in silent:
            one.settimeout(20)
            with contextlib.suppress(ConnectionResetError):
                assert one.recv(1) == b""
        assert time.monotonic() - began < 15  # asyncio's own patience is 60 s
    finally:
        for one in silent:
            one.close()
    with httpx.Client(base_url=running.url, verify=certificates.trusting(), trust_env=False) as client:
        assert client.get("/healthz").status_code == 200


def test_files_that_are_no_certificate_are_refused_by_name(tmp_path: Path, certificates: Certificates) -> None:
    with pytest.raises(SettingsError, match=r"missing\.pem: reading failed"):
        Certificate(str(tmp_path / "missing.pem"), str(certificates.key))
    with pytest.raises(SettingsError, match="not a certificate chain and its key"):
        Certificate(str(certificates.key), str(certificates.cert))
    locked = tmp_path / "locked.pem"
    subprocess.run(
        ["openssl", "pkey", "-in", certificates.key, "-aes256", "-passout", "pass:x", "-out", locked], check=True
    )
    with pytest.raises(SettingsError, match="without a password"):
        Certificate(str(certificates.cert), str(locked))
    with pytest.raises(SettingsError, match="--tls-cert and --tls-key"):
        Options(tls_cert=str(certificates.cert))


def test_old_versions_of_tls_are_refused(running: RunningService, certificates: Certificates) -> None:
    old = certificates.trusting()
    old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    old.maximum_version = ssl.TLSVersion.TLSv1_1
    host, port = running.url.removeprefix("https://").rsplit(":", 1)
    with socket.create_connection((host, int(port)), 10) as plain, pytest.raises(ssl.SSLError):
        old.wrap_socket(plain, server_hostname=host)
