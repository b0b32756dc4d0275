"""A PostgreSQL server of the tests' own: Debian's package, in a directory and at a socket that nobody else uses."""

import contextlib
import glob
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator

import psycopg
import pytest

#: Where this is set, tests fail that would be skipped for want of PostgreSQL.
REQUIRED = "REQUIRE_POSTGRESQL"

_PATIENCE_S = 60
# A test server has nothing to lose, except where a test kills it to see that nothing is lost.
_CARELESS = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
_SETTINGS = {
    "listen_addresses": "",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "max_wal_size": "512MB",
    "autovacuum": "off",
    "log_min_messages": "fatal",
}


def programs() -> str | None:
    """The directory of the server's programs, None where there is none: Debian keeps them out of the PATH."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda path: float(path.split("/")[4]))
    initdb = found[-1] if found else shutil.which("initdb")
    return os.path.dirname(initdb) if initdb else None


class PostgresServer:
    """A server that was started, with its files in a directory of its own; `stop` ends it and removes them.

    ``careful`` lets it write as it should, with an fsync at each commit; ``settings`` go before those of tests.
    """

    def __init__(self, *, careful: bool = False, **settings: str) -> None:
        programs_folder = programs()
        assert programs_folder is not None
        self._programs = programs_folder
        self._settings = _SETTINGS | ({} if careful else _CARELESS) | settings
        # The server refuses to run as root. A directory of pytest's would be closed to any other user.
        self._user = "postgres" if os.geteuid() == 0 else None
        self._folder = tempfile.mkdtemp(prefix="geolookup-pg-", dir="/tmp")
        self._numbers = itertools.count(1)
        self._emptied: list[str] = []
        self.process: subprocess.Popen[bytes] | None = None
        try:
            if self._user is not None:
                account = pwd.getpwnam(self._user)
                os.chown(self._folder, account.pw_uid, account.pw_gid)
            self._data = os.path.join(self._folder, "data")
            words = ["-D", self._data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
            done = subprocess.run(
                [os.path.join(self._programs, "initdb"), *words],
                **self._as_its_user(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout
            self.start()
        except BaseException:
            self.stop()
            raise

    def _as_its_user(self) -> dict[str, object]:
        user = {"user": self._user, "group": pwd.getpwnam(self._user).pw_gid, "extra_groups": []} if self._user else {}
        return {**user, "cwd": self._folder, "env": {"PATH": os.environ["PATH"], "LC_ALL": "C"}}

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [os.path.join(self._programs, "postgres"), "-D", self._data, "-k", self._folder]
        for name, value in self._settings.items():
            command += ["-c", f"{name}={value}"]
        if (setpriv := shutil.which("setpriv")) is not None:
            command = [setpriv, "--pdeathsig", "INT", *command]  # so that it does not outlive tests that are killed
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            with open(os.path.join(self._folder, "log"), "ab") as log:
                self.process = subprocess.Popen(command, **self._as_its_user(), stdout=log, stderr=log)
            while self.process.poll() is None and time.monotonic() < deadline:
                with contextlib.suppress(psycopg.OperationalError):
                    psycopg.connect(self.url("postgres")).close()
                    return
                time.sleep(0.02)
            time.sleep(0.1)  # children of one that was killed may still hold its memory
        with open(os.path.join(self._folder, "log"), encoding="utf-8", errors="replace") as text:
            pytest.fail(f"PostgreSQL did not start: {text.read()[-2000:]}")

    def kill(self) -> None:
        """End it as a power cut would, as far as a process can be."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(_PATIENCE_S)

    def stop(self) -> None:
        """End it without waiting for its clients, and remove its files; harmless when repeated."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def url(self, name: str) -> str:
        """The URL of a database."""
        return f"postgresql://postgres@/{name}?host={self._folder}"

    def execute(self, *statements: str, database: str = "postgres") -> None:
        """Run statements, each in a transaction of its own."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    @contextlib.contextmanager
    def database(self) -> Iterator[str]:
        """The URL of an empty database, which is emptied in the end and loses whoever is connected to it.

        The next test gets it again: to create and drop one takes the server five times as long as to empty it.
        """
        if self._emptied:
            name = self._emptied.pop()
        else:
            name = f"test_{next(self._numbers)}"
            self.execute(f"CREATE DATABASE {name}")
        try:
            yield self.url(name)
        finally:
            self._empty(name)

    def _empty(self, name: str) -> None:
        """Keep the database for another test if it can be made as new, or else drop it."""
        try:
            with psycopg.connect(self.url(name), autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
                connection.execute("DROP SCHEMA public CASCADE")
                connection.execute("CREATE SCHEMA public")
                others = connection.execute(
                    "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'"
                    " UNION ALL SELECT 'settings of its own' FROM pg_db_role_setting"
                    " JOIN pg_database ON pg_database.oid = setdatabase WHERE datname = current_database()"
                ).fetchall()
            as_new = others == [("public",)]
        except psycopg.Error:
            as_new = False
        if as_new:
            self._emptied.append(name)
        else:
            self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def require() -> None:
    """Skip the test where there is no PostgreSQL, or fail where one is required."""
    if programs() is None:
        reason = "PostgreSQL is not installed (Debian: apt-get install postgresql)"
        if os.environ.get(REQUIRED):
            pytest.fail(reason)
        pytest.skip(reason)
