"""What every test gets: settings and state of its own, none of the person's who runs it."""

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

import geolookup_data
from tests.support.data import small_data
from tests.support.examples import TIMES, WHOLE
from tests.support.in_memory import folder_in_memory
from tests.support.users.quick_commands import end_shared

if TYPE_CHECKING:
    from tests.support.services.postgres import PostgresServer

# A shell ignores Ctrl-C for what it runs in the background, and nohup a terminal's end; every process of a test would
# inherit that.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)

#: Where the part of the bundled data is that the tests have, for the processes that pytest-xdist starts.
_SMALL_DATA = "SMALL_BUNDLED_DATA"

# Collecting makes objects by the hundred thousand and drops none: `pytest_runtestloop` has garbage collected again.
gc.disable()

settings.register_profile(
    "geolookup", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
# Whoever changes the code plays new examples each time; CI the same ones, so that what fails there fails again.
settings.register_profile("same", parent=settings.get_profile("geolookup"), derandomize=True)
settings.register_profile(WHOLE, parent=settings.get_profile("geolookup"), max_examples=100 * TIMES)
settings.load_profile("same" if os.environ.get("SAME_EXAMPLES") == "1" else "geolookup")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--implementation",
        metavar="COMMAND",
        help="for tests/contract: what starts the service to check, with {port}, {defaults} and {hotels}",
    )
    parser.addoption("--full-sweep", action="store_true", help="run the whole of every sweep that CI runs in part")


@pytest.hookimpl(optionalhook=True)  # known only if pytest-xdist is there
def pytest_xdist_auto_num_workers() -> int:
    """More than there are cores, for ``-n auto``: the tests wait about half of their time, for processes and disks."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + cores // 2


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests that stand together run in one process, for ``-n auto``, so that what a module shares is made once."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getoption("dist") == "load" else None


def pytest_configure(config: pytest.Config) -> None:
    # Before any test file is imported: that is when tests say how many examples they play.
    if config.getoption("--full-sweep"):
        settings.load_profile(WHOLE)
    # For the processes that this one starts, too. What failed tests left is there until the third run after them.
    if "TMPDIR" not in os.environ and (folder := folder_in_memory()) is not None:
        os.environ["TMPDIR"], tempfile.tempdir = folder, None
    if not config.getoption("--full-sweep"):
        _have_small_data(config)


def _have_small_data(config: pytest.Config) -> None:
    """Have this process, and those that it starts, find a part of the bundled data for the whole of it."""
    if (folder := os.environ.get(_SMALL_DATA)) is None:
        folder = os.environ[_SMALL_DATA] = tempfile.mkdtemp(prefix="geolookup-small-")
        config.add_cleanup(lambda: shutil.rmtree(folder))
        config.add_cleanup(lambda: os.environ.pop(_SMALL_DATA))
        small_data.small_data(Path(folder))
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))
    geolookup_data.__file__ = os.path.join(folder, "geolookup_data", "__init__.py")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    # What was collected stays: it is looked through neither each time nor at the end, nor is it copied after each fork.
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator["PostgresServer"]:
    """A running PostgreSQL, one for all tests of this process."""
    from tests.support.services import postgres  # here, since most tests need no driver

    postgres.require()
    server = postgres.PostgresServer()
    yield server
    server.stop()


@pytest.fixture(scope="session", autouse=True)
def commands_end() -> Iterator[None]:
    """The process of which commands are forks ends with the tests."""
    yield
    end_shared()


@pytest.fixture
def whole_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of the bundled data, of which other tests have a part."""
    monkeypatch.setattr(geolookup_data, "__file__", small_data.WHOLE)


@pytest.fixture
def full_sweep(request: pytest.FixtureRequest) -> bool:
    """Whether the whole of a sweep was asked for."""
    return bool(request.config.getoption("--full-sweep"))


@pytest.fixture(autouse=True)
def own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the settings or state of the person who runs it."""
    for name in list(os.environ):
        if name.startswith("GEOLOOKUP_"):
            monkeypatch.delenv(name)
    for variable in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / "home" / variable.lower()))


@pytest.fixture
def home(tmp_path: Path) -> str:
    """Where a state directory may be made."""
    return str(tmp_path / "state")


@pytest.fixture
def default_home(own_settings: None) -> str:
    """The platform's state directory, which nobody made yet: the one in which lookups begin with the bundled data."""
    from geolookup.settings.paths import default_home

    return default_home()
