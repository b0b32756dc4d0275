"""A real server of S3's interface: one node of Ceph on loopback, whose objects are in memory.

``python -m tests.fleet.s3`` starts one, and runs the tests of buckets with it in place of the mock. It needs Debian's
packages ceph-mon, ceph-osd and radosgw.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

#: The address of a server that is there, in place of the mock.
ENVIRONMENT = "FLEET_S3_URL"
KEY, SECRET = "key", "secret"
_PROGRAMS = ("ceph", "ceph-authtool", "ceph-mon", "ceph-osd", "monmaptool", "radosgw", "radosgw-admin")
_PATIENCE_S = 180.0
_SETTINGS = """[global]
fsid = {fsid}
mon host = v2:127.0.0.1:{mon}
mon initial members = a
public addr = 127.0.0.1
cluster addr = 127.0.0.1
ms bind msgr1 = false
run dir = {folder}
log file = {folder}/$name.log
admin socket = {folder}/$name.$pid.asok
pid file = {folder}/$name.pid
crash dir = {folder}
keyring = {folder}/keyring
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd pool default pgp num = 1
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon data = {folder}/mon
mon data avail crit = 0
osd data = {folder}/osd
osd objectstore = memstore
memstore device bytes = 268435456
rgw data = {folder}/rgw
rgw frontends = beast endpoint=127.0.0.1:{s3}
rgw run sync thread = false
"""


@contextlib.contextmanager
def node() -> Iterator[str]:
    """Run a monitor, a store in memory and a gateway; yields the address of the gateway, which knows `KEY`."""
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing:
        raise SystemExit(f"{', '.join(missing)}: not found: apt-get install ceph-mon ceph-osd radosgw")
    with tempfile.TemporaryDirectory(prefix="s3-") as name, contextlib.ExitStack() as running:
        folder, mon, s3 = Path(name), _free_port(), _free_port()
        fsid = str(uuid.uuid4())
        settings = folder / "ceph.conf"
        settings.write_text(_SETTINGS.format(fsid=fsid, folder=folder, mon=mon, s3=s3))
        for each in ("mon", "osd", "rgw"):
            (folder / each).mkdir()

        def run(*words: str) -> None:
            done = subprocess.run(words, capture_output=True, text=True, timeout=_PATIENCE_S)
            if done.returncode:
                raise SystemExit(f"{' '.join(words)}: {done.stderr[-2000:]}")

        def start(*words: str) -> None:
            with (folder / f"{words[0]}.out").open("wb") as out:
                process = subprocess.Popen([*words, "-f"], stdout=out, stderr=out)
            running.callback(process.wait)
            running.callback(process.kill)  # all that it has is in memory, or goes with the folder

        keyring, conf = str(folder / "keyring"), ("-c", str(settings))
        run("ceph-authtool", "-C", keyring, "--gen-key", "-n", "mon.", "--cap", "mon", "allow *")
        for each in ("client.admin", "client.rgw", "osd.0"):
            leave = [word for what in ("mon", "osd", "mgr") for word in ("--cap", what, "allow *")]
            run("ceph-authtool", keyring, "--gen-key", "-n", each, *leave)
        monmap = str(folder / "monmap")
        run("monmaptool", "--create", "--fsid", fsid, "--addv", "a", f"[v2:127.0.0.1:{mon}]", monmap)
        run("ceph-mon", *conf, "-i", "a", "--mkfs", "--monmap", monmap, "--keyring", keyring)
        start("ceph-mon", *conf, "-i", "a")
        disk = str(uuid.uuid4())
        run("ceph", *conf, "osd", "new", disk, "0")
        run("ceph-osd", *conf, "-i", "0", "--mkfs", "--osd-uuid", disk)
        start("ceph-osd", *conf, "-i", "0")
        start("radosgw", *conf, "-n", "client.rgw")
        url = f"http://127.0.0.1:{s3}"
        _await(url)
        run("radosgw-admin", *conf, "user", "create", "--uid=geo", "--display-name=geo",
            f"--access-key={KEY}", f"--secret-key={SECRET}")  # fmt: skip
        yield url


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


def _await(url: str) -> None:
    began = time.monotonic()
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except OSError:
            if time.monotonic() - began > _PATIENCE_S:
                raise
            time.sleep(0.2)
        else:
            return


def main() -> int:
    """Run the tests of buckets with a node of Ceph; what follows the module's name goes to pytest."""
    with node() as url:
        tests = str(Path(__file__).with_name("test_bucket.py"))
        command = [sys.executable, "-m", "pytest", "-q", tests, *sys.argv[1:]]
        return subprocess.run(command, env={**os.environ, ENVIRONMENT: url}).returncode


if __name__ == "__main__":
    sys.exit(main())
