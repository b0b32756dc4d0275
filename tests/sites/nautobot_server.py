"""A Nautobot of the tests' own: from PyPI, with PostgreSQL and Redis of Debian, in a folder.

`NautobotServer` starts one; `tests.sites.nautobot` is the job that plays against it. Neither is part of the
quick suite.
"""

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.support.services.postgres import PostgresServer

#: Of what it is made: Nautobot 2 and 3 answer alike where sites are concerned.
RELEASE = "nautobot>=2,<4"
_PATIENCE_S = 1800

_CONFIG = """\
import os
from nautobot.core.settings import *
from nautobot.core.settings_funcs import is_truthy, parse_redis_connection

SECRET_KEY = {secret!r}
ALLOWED_HOSTS = ["127.0.0.1"]
INSTALLATION_METRICS_ENABLED = False
DATABASES = {{
    "default": {{
        "ENGINE": "django.db.backends.postgresql", "NAME": "nautobot", "USER": "postgres", "HOST": {host!r}
    }}
}}
CACHES["default"]["LOCATION"] = "redis://127.0.0.1:{redis}/1"
CELERY_BROKER_URL = "redis://127.0.0.1:{redis}/0"
METRICS_ENABLED = False
"""


def free_port() -> int:
    """A port of loopback that nobody listens at."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class NautobotServer:
    """Nautobot at ``url``, with its files in ``folder``; a token of ``tokens`` reads all, or what its name says.

    What it is installed from stays in the folder for the next time; the database does not.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._root = folder / "root"
        self._programs = folder / "venv" / "bin"
        self._started: list[subprocess.Popen[bytes]] = []
        self.url = ""
        self.version = ""
        self._postgres: PostgresServer | None = None

    def __enter__(self) -> "NautobotServer":
        try:
            self._install()
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _install(self) -> None:
        if not (self._programs / "nautobot-server").exists():
            subprocess.run([sys.executable, "-m", "venv", str(self._folder / "venv")], check=True)
            subprocess.run([str(self._programs / "pip"), "install", "--quiet", RELEASE], check=True)
        told = subprocess.run(
            [str(self._programs / "pip"), "show", "nautobot"], check=True, capture_output=True, text=True
        ).stdout
        self.version = next(line.split()[1] for line in told.splitlines() if line.startswith("Version:"))

    def _start(self) -> None:
        shutil.rmtree(self._root, ignore_errors=True)
        self._root.mkdir(parents=True)
        self._postgres = PostgresServer(autovacuum="on", shared_buffers="256MB")
        self._postgres.execute("CREATE DATABASE nautobot")
        host = self._postgres.url("nautobot").partition("host=")[2]
        redis = free_port()
        program = shutil.which("redis-server")
        assert program is not None, "Redis is not installed (Debian: apt-get install redis-server)"
        self._run([program, "--port", str(redis), "--bind", "127.0.0.1", "--save", "", "--dir", str(self._root)])
        config = self._root / "nautobot_config.py"
        config.write_text(_CONFIG.format(secret=secrets.token_urlsafe(50), host=host, redis=redis), encoding="utf-8")
        self.manage("migrate", "--no-input")
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        workers = ["--http-socket", f"127.0.0.1:{port}", "--master", "--processes", "4", "--buffer-size", "32768"]
        module = ["--module", "nautobot.core.wsgi", "--need-app", "--die-on-term", "--disable-logging"]
        self._run([str(self._programs / "nautobot-server"), "start", "--ini", str(self._ini([*workers, *module]))])
        until = time.monotonic() + _PATIENCE_S
        while True:
            try:
                urllib.request.urlopen(f"{self.url}/api/", timeout=60).close()
                return
            except urllib.error.HTTPError:  # 403: it asks for a token
                return
            except OSError:
                assert time.monotonic() < until, self._log()
                assert self._started[-1].poll() is None, self._log()
                time.sleep(1)

    def _ini(self, words: list[str]) -> Path:
        lines = ["[uwsgi]"]
        for word in words:
            if word.startswith("--"):
                lines.append(f"{word[2:]} = true")
            else:
                lines[-1] = lines[-1].replace("true", word)
        path = self._root / "uwsgi.ini"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    def _environment(self) -> dict[str, str]:
        kept = {"PATH": f"{self._programs}:{os.environ['PATH']}", "HOME": str(self._root), "LC_ALL": "C.UTF-8"}
        return {**kept, "NAUTOBOT_ROOT": str(self._root)}

    def _run(self, command: list[str]) -> None:
        with open(self._root / "log", "ab") as log:
            self._started.append(
                subprocess.Popen(command, cwd=self._root, env=self._environment(), stdout=log, stderr=log)
            )

    def _log(self) -> str:
        return (self._root / "log").read_text(encoding="utf-8", errors="replace")[-3000:]

    def manage(self, *words: str, program: str | None = None) -> str:
        """Run a command of ``nautobot-server``; ``program`` is for its standard input. The result is what it said."""
        done = subprocess.run(
            [str(self._programs / "nautobot-server"), *words],
            cwd=self._root,
            env=self._environment(),
            input=program,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3000:]
        return done.stdout

    def close(self) -> None:
        """End what was started, and remove the database."""
        for process in reversed(self._started):
            process.terminate()
        for process in self._started:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
        if self._postgres is not None:
            self._postgres.stop()
