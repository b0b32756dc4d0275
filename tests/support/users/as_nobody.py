"""Work as another user: without privileges, in one group, with another environment."""

import contextlib
import importlib
import io
import logging
import os
import pkgutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest

import geolookup.cli

#: A user whom every system has, and under whom no test runs.
NOBODY = 65534
_ELSEWHERE = {"HOME": "/nonexistent"}
_ABOUT_PLACES = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run something as another user")


@dataclass(frozen=True)
class Ended:
    returncode: int
    stdout: str
    stderr: str


def as_nobody(work: Callable[[], int], group: int = NOBODY, environment: Mapping[str, str] = _ELSEWHERE) -> Ended:
    """Do the work as another user in ``group`` alone; the modules are loaded before, since Python may be root's."""
    for module in pkgutil.walk_packages(geolookup.cli.__path__, "geolookup.cli."):
        importlib.import_module(module.name)
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = os.fork()
        if child == 0:
            status = 99
            try:
                nowhere = io.StringIO()
                with (
                    contextlib.redirect_stdout(nowhere),
                    contextlib.redirect_stderr(nowhere),
                    contextlib.suppress(Exception),
                ):
                    work()  # which loads the rest
                for variable in _ABOUT_PLACES:
                    os.environ.pop(variable, None)
                os.environ.update(environment)
                tempfile.tempdir = None
                os.setgroups([])
                os.setgid(group)
                os.setuid(NOBODY)
                os.chdir("/")
                sys.stdout, sys.stderr = out, err
                logging.getLogger("geolookup").handlers.clear()
                status = work()
            except BaseException:
                traceback.print_exc(file=err)
            finally:
                out.flush()
                err.flush()
                os._exit(status)
        _, status = os.waitpid(child, 0)
        out.seek(0)
        err.seek(0)
        return Ended(os.waitstatus_to_exitcode(status), out.read(), err.read())
