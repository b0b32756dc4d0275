"""Running `geolookup console`: one process on loopback, until a signal ends it."""

import contextlib
import gc
import os
import threading
from collections.abc import Callable, Iterator

from geolookup.console.app import application
from geolookup.console.console import Console
from geolookup.console.runs import Run, Runs
from geolookup.settings.load import load
from geolookup.web.application import Application, Opens
from geolookup.web.launch import launch
from geolookup.web.options import Options

#: Loopback only, and an address: a name might mean others too.
HOST = "127.0.0.1"


def console(
    *,
    port: int = 0,
    path: str | os.PathLike[str] | None = None,
    read_only: bool = False,
    on_ready: Callable[[str, Runs], None],
    on_wait: Callable[[Run], None],
    on_end: Callable[[Run], None],
) -> None:
    """Serve the pages of a state on loopback until SIGTERM or SIGINT; then wait for what is under way, and return.

    ``path`` is the state as `geolookup.open` takes it, ``port`` 0 any free one. ``on_ready`` is called with the address
    to open, which opens the console once, and the runs; ``on_wait`` with each run that is waited for, and ``on_end``
    once it has ended.

    :raises KeyboardInterrupt: at another SIGINT while it waits
    :raises ServiceError: if the port cannot be used
    :raises SettingsError: if the settings cannot be used
    """
    load()  # what is wrong with them is said before anything is served
    home = None if path is None else os.path.abspath(os.fspath(path))
    served = Console(load, home=home, read_only=read_only)

    @contextlib.contextmanager
    def opened(_folder: str | None) -> Iterator[Application]:
        yield application(served)

    @contextlib.contextmanager
    def prepared() -> Iterator[Opens]:
        yield opened

    def ready(url: str) -> None:
        threading.Thread(target=_warm_up, args=(served,), name="geolookup-warm-up", daemon=True).start()
        on_ready(served.session.address(url), served.runs)

    launch(
        prepared(),
        host=HOST,
        port=port,
        options=Options(asks_itself=True),
        on_ready=ready,
    )
    going = served.runs.under_way()
    for run in going:
        on_wait(run)
    served.runs.wait()
    for run in going:
        on_end(run)


def _warm_up(served: Console) -> None:
    served.warm_up()
    # What is loaded by now stays: a collection that looked at all of it would make every tenth page slow.
    gc.collect()
    gc.freeze()
