"""The promise: an edit made with `geolookup custom` is seen, without a restart, by every tool that reads our map."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import maxminddb
import pytest

from geolookup.web.auth import Scope, line_for, new_token
from tests.share import consumers
from tests.share.consumers import EDITION, ElasticDownloader, Updater
from tests.support.data.two_sources import state
from tests.support.services.certificates import Certificates
from tests.support.services.running_share import ShareCommand

ADDRESS = "10.20.30.40"
TOKEN = new_token()


CITIES = ("Berlin", "Potsdam")


class Promise:
    """A share by TLS, a tool that keeps a file fresh, and edits: Berlin is Potsdam, then Berlin again, and so on."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.city, self._next = CITIES
        certificates = Certificates(folder)
        for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
            monkeypatch.setenv(name, str(certificates.bundle))
        arguments = ("--edition", EDITION, "--tls-cert", str(certificates.cert), "--tls-key", str(certificates.key))
        self.share = ShareCommand(state(folder), *arguments, tokens=line_for("tools", Scope.READ, TOKEN))
        self.http = httpx.Client(base_url=self.share.url, verify=certificates.trusting(), timeout=60)
        self.share.wait_until(lambda: self.http.get("/readyz").status_code == 200, "the first build")
        self.updater = Updater(self.share.url, TOKEN, folder, certificates.bundle)
        assert self.updater.run(), "nothing was downloaded"
        assert not self.updater.run(), "what is there was downloaded again"
        self.path = self.updater.path

    def edit(self) -> str:
        """Correct the city with the command, and let the file be refreshed by the tool until it is the new one.

        :return: the city from now on
        """
        locid = self.http.get(f"/lookup/{ADDRESS}", headers=self.bearer()).json()["locid"]
        self.share.run("custom", "update", str(locid), "--city", self._next)
        self.city, self._next = self._next, self.city
        until = time.monotonic() + 60
        while not self.updater.run():
            assert time.monotonic() < until, (self.share.said, "pygeoipupdate does not see the edit")
            time.sleep(0.2)
        return self.city

    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {TOKEN}"}

    def stop(self) -> None:
        self.http.close()
        assert self.share.stop() == 0
        assert not any("Traceback" in line for line in self.share.said), self.share.said


@pytest.fixture(scope="module")
def promise(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Promise]:
    """One for all tools: to start the share and to build its files takes longer than an edit."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        made = Promise(tmp_path_factory.mktemp("promise"), monkeypatch)
        yield made
        made.stop()


def test_an_edit_is_seen_by_every_tool_without_a_restart(promise: Promise, tmp_path: Path) -> None:
    path = promise.path
    elastic = ElasticDownloader(promise.http, f"{promise.share.url}/{TOKEN}/elastic/database")

    def by_elastic() -> str | None:
        elastic.run()
        return elastic.city(ADDRESS, tmp_path)

    def by_lookup() -> str | None:
        answer = promise.http.get(f"/lookup/{ADDRESS}", headers=promise.bearer())
        return str(answer.raise_for_status().json()["city"])

    tools: dict[str, Callable[[], str | None]] = {
        "lookup": by_lookup,
        "maxminddb in C": lambda: consumers.by_maxminddb(path, ADDRESS, maxminddb.MODE_MMAP_EXT),
        "maxminddb in Python": lambda: consumers.by_maxminddb(path, ADDRESS, maxminddb.MODE_MEMORY),
        "the reader of geoip2": lambda: consumers.by_geoip2(path, ADDRESS),
        "the web service of geoip2": lambda: consumers.by_web_service(promise.share.url, TOKEN, ADDRESS),
        "Elasticsearch and Logstash": by_elastic,
    }
    assert {name: see() for name, see in tools.items()} == dict.fromkeys(tools, promise.city)
    city = promise.edit()
    # Whoever has the file sees it; lookups over HTTP look for what is new twice a second.
    asked = {"lookup", "the web service of geoip2"}
    assert {name: see() for name, see in tools.items() if name not in asked} == dict.fromkeys(set(tools) - asked, city)
    until = time.monotonic() + 30
    while {tools[name]() for name in asked} != {city}:
        assert time.monotonic() < until
        time.sleep(0.1)
    by_elastic()
    assert elastic.brought == 2
    assert not promise.updater.run()


@pytest.mark.parametrize("read", [consumers.by_mmdblookup, consumers.by_node, consumers.by_goaccess])
def test_an_edit_is_seen_by_a_program_that_may_be_missing(
    promise: Promise, read: Callable[[Path, str], str | None]
) -> None:
    assert read(promise.path, ADDRESS) == promise.city
    assert read(promise.path, "203.0.113.1") is None
    city = promise.edit()
    assert read(promise.path, ADDRESS) == city


def test_an_edit_is_seen_by_nginx_while_it_runs(promise: Promise) -> None:
    with consumers.nginx(promise.path, promise.folder) as nginx:
        assert nginx.city(ADDRESS) == promise.city
        # Its module takes a file for new only if that was changed in a later second than that in which nginx began.
        time.sleep(1)
        city = promise.edit()
        until = time.monotonic() + 30
        while nginx.city(ADDRESS) != city:
            assert time.monotonic() < until
            time.sleep(0.2)
        assert nginx.city("203.0.113.1") is None
