"""Programs that read MaxMind DBs or ask for them: the real ones, each asked for the city of an address."""

import contextlib
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

import geoip2.database
import geoip2.errors
import geoip2.webservice
import httpx
import maxminddb
import pytest

#: Set where a missing program must fail and not skip.
REQUIRED = "REQUIRE_CONSUMERS"
EDITION = "GeoLite2-City"


def needed(program: str, package: str) -> str:
    """The program's path; without it, the test is skipped, or fails if it may not."""
    path = os.environ.get("PATH", "") + os.pathsep + "/usr/sbin"  # which is not in everybody's PATH
    found = shutil.which(program, path=path)
    return found or missing(f"{program} is not installed (Debian: {package})")


def missing(reason: str) -> str:
    """Skip, or fail where every consumer must be there."""
    if os.environ.get(REQUIRED):
        pytest.fail(reason)
    pytest.skip(reason)


class Updater:
    """``pygeoipupdate``, as a process of its own; it trusts what ``SSL_CERT_FILE`` names."""

    def __init__(
        self, url: str, token: str, folder: Path, bundle: Path | None = None, *, edition: str = EDITION
    ) -> None:
        self.folder = folder / "geoipupdate"
        self.folder.mkdir()
        self._config = folder / "GeoIP.conf"
        self._config.write_text(
            f"AccountID 12345\nLicenseKey {token}\nEditionIDs {edition}\nHost {url}\n"
            f"DatabaseDirectory {self.folder}\nPreserveFileTimes 1\nRetryFor 0s\n"
        )
        self._environment = {**os.environ, **({} if bundle is None else {"SSL_CERT_FILE": str(bundle)})}
        self.path = self.folder / f"{edition}.mmdb"

    def run(self) -> bool:
        """Run it once: whether it brought something new."""
        program = os.path.join(os.path.dirname(sys.executable), "pygeoipupdate")
        done = subprocess.run(
            [program, "-f", str(self._config), "-o"],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr + done.stdout
        (result,) = json.loads(done.stdout)
        assert result["new_hash"] == hashlib.md5(self.path.read_bytes()).hexdigest()
        return bool(result["old_hash"] != result["new_hash"])


# Readers of the file, each with its own code


def by_maxminddb(path: Path, address: str, mode: int) -> str | None:
    """``maxminddb``, in C or in Python."""
    with maxminddb.open_database(path, mode) as reader:
        found = reader.get(address)
    assert found is None or isinstance(found, dict)
    return None if found is None else found["city"]["names"]["en"]  # type: ignore[index,call-overload,no-any-return]


def by_geoip2(path: Path, address: str) -> str | None:
    """The reader of ``geoip2``."""
    with geoip2.database.Reader(path) as reader:
        try:
            return reader.city(address).city.name
        except geoip2.errors.AddressNotFoundError:
            return None


def by_mmdblookup(path: Path, address: str) -> str | None:
    """``mmdblookup`` of libmaxminddb."""
    program = needed("mmdblookup", "mmdb-bin")
    command = [program, "--file", str(path), "--ip", address, "city", "names", "en"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode == 6:  # nothing at this address
        return None
    assert done.returncode == 0, done.stderr
    return done.stdout.split('"')[1]


def by_node(path: Path, address: str) -> str | None:
    """The package ``maxmind`` of npm, found where ``NODE_PATH`` says."""
    program = needed("node", "nodejs")
    script = (
        "let m; try { m = require('maxmind') } catch { process.exit(77) }"
        "m.open(process.argv[1]).then(r => { const f = r.get(process.argv[2]);"
        "console.log(JSON.stringify(f === null ? null : f.city.names.en)) })"
    )
    command = [program, "-e", script, str(path), address]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode == 77:
        missing("the npm package maxmind is not installed where NODE_PATH says")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found is None or isinstance(found, str)
    return found


def by_goaccess(path: Path, address: str) -> str | None:
    """GoAccess: the city of the host in its report of a log with one request."""
    program = needed("goaccess", "goaccess")
    line = f'{address} - - [21/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 10 "-" "x"\n'
    command = [program, "-", "--log-format=COMBINED", "--no-global-config", f"--geoip-database={path}", "-o", "json"]
    done = subprocess.run(command, input=line, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    (host,) = json.loads(done.stdout)["hosts"]["data"]
    city = str(host.get("city", "")).partition(",")[0]
    return None if city in ("", "N/A City") else city


class Nginx:
    """nginx with its GeoIP2 module, which reads the file again when it changes; never restarted."""

    def __init__(self, path: Path, folder: Path) -> None:
        program = needed("nginx", "nginx")
        module = Path(program).parents[1] / "lib/nginx/modules/ngx_http_geoip2_module.so"
        if not module.exists():
            missing("nginx has no GeoIP2 module (Debian: libnginx-mod-http-geoip2)")
        prefix = folder / "nginx"
        (prefix / "logs").mkdir(parents=True)
        self._socket = prefix / "socket"
        config = prefix / "nginx.conf"
        temporary = "".join(
            f"  {kind}_temp_path {prefix}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        # Its workers read the file again, in folders that only their owner may enter.
        user = "user root;\n" if os.geteuid() == 0 else ""
        config.write_text(
            f"{user}load_module {module};\nworker_processes 1;\npid {prefix}/pid;\ndaemon off;\n"
            f"error_log {prefix}/error.log;\nevents {{}}\nhttp {{\n{temporary}  access_log off;\n"
            f"  geoip2 {path} {{\n    auto_reload 1s;\n    $city source=$arg_ip city names en;\n  }}\n"
            f"  server {{ listen unix:{self._socket}; location / {{ return 200 $city; }} }}\n}}\n"
        )
        self.process = subprocess.Popen(
            [program, "-p", str(prefix), "-c", str(config), "-e", str(prefix / "error.log")], stderr=subprocess.PIPE
        )
        until = time.monotonic() + 20
        while not self._socket.exists():
            assert self.process.poll() is None, (prefix / "error.log").read_text()
            assert time.monotonic() < until
            time.sleep(0.05)

    def city(self, address: str) -> str | None:
        """What nginx says."""
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(self._socket))) as client:
            return client.get(f"http://localhost/?ip={address}").text or None

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait(20)


@contextlib.contextmanager
def nginx(path: Path, folder: Path) -> Iterator[Nginx]:
    """nginx for the length of a test."""
    running = Nginx(path, folder)
    try:
        yield running
    finally:
        running.stop()


# Those that ask over HTTP


def by_web_service(url: str, token: str, address: str) -> str | None:
    """The client of the GeoIP2 web service, by TLS."""
    with geoip2.webservice.Client(12345, token, host=url.removeprefix("https://")) as client:
        try:
            return client.city(address).city.name
        except geoip2.errors.AddressNotFoundError:
            return None


class ElasticDownloader:
    """What Elasticsearch's GeoIpDownloader and Logstash's database manager are documented to do.

    They ask the endpoint with their terms, take the archive's address beside the endpoint, compare its MD5, and take
    the database from the archive's root. ``brought`` counts archives: one whose MD5 is known is not asked for.
    """

    def __init__(self, client: httpx.Client, endpoint: str) -> None:
        self._client = client
        self._endpoint = endpoint
        self._md5: str | None = None
        self.brought = 0
        self.database = b""

    def run(self) -> None:
        """One check."""
        asked = self._client.get(
            self._endpoint, params={"elastic_geoip_service_tos": "agree", "key": "x"}, headers={"Accept": "*/*"}
        )
        listed = {each["name"]: each for each in asked.raise_for_status().json()}
        wanted = listed[f"{EDITION}.tgz"]
        assert isinstance(wanted["updated"], int)
        if wanted["md5_hash"] == self._md5:
            return
        archive = self._client.get(urljoin(self._endpoint, wanted["url"])).raise_for_status().content
        assert hashlib.md5(archive).hexdigest() == wanted["md5_hash"]
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
            file = tar.extractfile(f"{EDITION}.mmdb")
            assert file is not None
            self.database = file.read()
        self._md5 = wanted["md5_hash"]
        self.brought += 1

    def city(self, address: str, folder: Path) -> str | None:
        """The city in the database that it has."""
        path = folder / "elastic.mmdb"
        path.write_bytes(self.database)
        return by_maxminddb(path, address, maxminddb.MODE_FILE)
