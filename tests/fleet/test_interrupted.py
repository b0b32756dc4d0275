"""Ctrl-C in a publish and in a reader's sync, at known moments, in processes of their own.

Kills at every system call are those of ``python -m tests.fleet.sweep``.
"""

import os
import re
import subprocess
import sys

import pytest

from geolookup.state.publishing.verify import verify
from tests.fleet.served import Builder, Reader, fingerprint, marker
from tests.support.users.quick_commands import forked

_INTERRUPTED = """
import os, signal, sys
import geolookup.{module} as module
real = module.{owner}.{name}
def interrupted(*arguments, **named):
    os.kill(os.getpid(), signal.SIGINT)
    return real(*arguments, **named)
module.{owner}.{name} = interrupted
sys.argv = ["geolookup", *sys.argv[1:]]
from geolookup.__main__ import main
sys.exit(main())
"""


def _interrupted(where: str, *words: str, home: str) -> str:
    """The last line of a command that gets Ctrl-C as it first calls this function."""
    module, owner, name = where.rsplit(".", 2)
    code = _INTERRUPTED.format(module=module, owner=owner, name=name)
    env = {**os.environ, "GEOLOOKUP_HOME": home}
    done = subprocess.run([*forked(), "-c", code, *words], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (130, False), done.stderr
    return done.stderr.splitlines()[-1]


def _run(*words: str, home: str) -> None:
    env = {**os.environ, "GEOLOOKUP_HOME": home}
    subprocess.run([sys.executable, "-m", "geolookup", *words], env=env, capture_output=True, check=True)


@pytest.mark.parametrize("where", ["_Publish._own", "_Publish._put_blob", "_Publish._sign", "_Publish._remember"])
def test_an_interrupted_publish_leaves_what_was_published_or_this(builder: Builder, joined: Reader, where: str) -> None:
    before = fingerprint(joined.home)
    builder.edit("10.2.0.0/24", "Lager")
    words = ("fleet", "publish", builder.store.path, "--keys", builder.keys)
    said = _interrupted(f"fleet.publish.{where}", *words, home=builder.home)
    assert said == "geolookup: interrupted: readers have what was published before, or this; run it again"
    joined.sync()
    assert fingerprint(joined.home) in (before, fingerprint(builder.home))
    _run(*words, home=builder.home)
    joined.sync()
    assert fingerprint(joined.home) == fingerprint(builder.home)


@pytest.mark.parametrize("where", ["client.Client.look", "client.Client.fetch", "reader.Run.receive"])
def test_an_interrupted_sync_leaves_the_old_answers(builder: Builder, joined: Reader, where: str) -> None:
    before, (_, _, versions) = fingerprint(joined.home), marker(joined.home)
    builder.edit("10.2.0.0/24", "Lager")
    builder.publish()
    said = _interrupted(f"fleet.{where}", "sync", home=joined.home)
    reached = r"( after [\d,]+ of [\d,]+ bytes)?" if where != "client.Client.look" else ""
    kept = "nothing was published, and generation 1 goes on serving; run it again, it begins anew"
    assert re.fullmatch(f"geolookup: interrupted{reached}: {kept}", said)
    assert (fingerprint(joined.home), verify(joined.home)) == (before, [])
    assert marker(joined.home)[2] >= versions  # what is remembered never falls
    _run("sync", home=joined.home)
    assert fingerprint(joined.home) == fingerprint(builder.home)
