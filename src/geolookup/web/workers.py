"""Several processes that serve from one listening socket, and the one that watches over them."""

import contextlib
import logging
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import FrameType

from prometheus_client.multiprocess import mark_process_dead

from geolookup.model.errors import GeoLookupError, ServiceError
from geolookup.web.logs import log_to_standard_error
from geolookup.web.probes import SHARED_DIRECTORY

logger = logging.getLogger("geolookup.service")

#: What a worker runs: it gets a folder that all workers share, and a function to call once it serves.
Target = Callable[[str, Callable[[], None]], None]

#: A worker that dies is replaced at once; after a short life, it is replaced after a wait that doubles.
_LONG_LIFE_S = 60.0
_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 30.0
#: Seconds after the time that workers have to end, before they are killed.
_PATIENCE_S = 5.0
_TICK_S = 0.5

# Spawned, not forked: a fork copies this process while its threads work, and SQLite forbids it.
_spawn = multiprocessing.get_context("spawn")


@dataclass(slots=True)
class _Worker:
    """One place; ``process`` is None while it waits for its next process."""

    process: SpawnProcess | None = None
    ready: Connection | None = None
    is_ready: bool = False
    born: float = 0.0
    wait_s: float = 0.0
    start_at: float = 0.0


class Supervisor:
    """Keeps ``count`` processes running ``target`` until it is told to `stop`.

    Workers end with it, however it ends: each holds the end of a pipe that closes when this process is gone. They get
    SIGTERM then, as they do when it is told to stop, and SIGKILL if they take longer than ``stop_within_s``.
    """

    def __init__(self, target: Target, *, count: int, stop_within_s: float) -> None:
        self._target = target
        self._workers = [_Worker() for _ in range(count)]
        self._stop_within_s = stop_within_s
        self._stopping = False
        self._served = False
        # A signal may arrive at any moment, even just before a wait begins: a byte in a pipe ends that wait.
        self._wake, self._woken = _spawn.Pipe(duplex=False)
        os.set_blocking(self._woken.fileno(), False)

    def stop(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        """Let `run` end; to be called from a signal handler or another thread."""
        self._stopping = True
        with contextlib.suppress(OSError):
            os.write(self._woken.fileno(), b"x")

    def run(self, on_ready: Callable[[], None], held: Iterable[socket.socket] = ()) -> None:
        """Start the workers, replace those that die, end them in order; ``on_ready`` is called once all serve.

        ``held`` are sockets that are closed as soon as it is told to stop: as long as a process has them open, clients
        wait instead of being refused.

        :raises ServiceError: if a worker ends before it ever served
        """
        with _shared_folders() as (metrics, folder):
            try:
                while not self._stopping:
                    self._start_due(folder)
                    self._wait()
                    self._bury(metrics)
                    if not self._served and all(worker.is_ready for worker in self._workers):
                        self._served = True
                        on_ready()
            finally:
                for one in held:
                    one.close()
                self._end_all()

    def _start_due(self, folder: str) -> None:
        for worker in self._workers:
            if worker.process is None and time.monotonic() >= worker.start_at:
                worker.ready, theirs = _spawn.Pipe(duplex=False)
                worker.process = _spawn.Process(
                    target=_main, args=(self._target, folder, theirs, self._stop_within_s), name="geolookup-worker"
                )
                worker.process.start()
                theirs.close()
                worker.born, worker.is_ready = time.monotonic(), False

    def _wait(self) -> None:
        watched: list[Connection | int] = [self._wake]
        for worker in self._workers:
            if worker.process is not None:
                watched.append(worker.process.sentinel)
            if worker.ready is not None:
                watched.append(worker.ready)
        for found in wait(watched, _TICK_S):
            for worker in self._workers:
                if found is worker.ready and worker.ready is not None:
                    with contextlib.suppress(EOFError, OSError):
                        worker.ready.recv_bytes()
                        worker.is_ready = True
                    worker.ready.close()
                    worker.ready = None

    def _bury(self, metrics: str) -> None:
        """Note which workers died, and when each is replaced."""
        for worker in self._workers:
            process = worker.process
            if process is None or process.exitcode is None:
                continue
            lived_s, worker.process = time.monotonic() - worker.born, None
            assert process.pid is not None
            mark_process_dead(process.pid, metrics)  # type: ignore[no-untyped-call]
            if self._stopping:
                continue
            how = f"worker {process.pid} ended with {_how(process.exitcode)}"
            if not self._served:
                raise ServiceError(f"{how} before it could serve: see its message above")
            if lived_s >= _LONG_LIFE_S:
                worker.wait_s = 0.0
            logger.error("%s: it is replaced in %.1f s", how, worker.wait_s)
            worker.start_at = time.monotonic() + worker.wait_s
            worker.wait_s = min(_LONGEST_WAIT_S, max(_FIRST_WAIT_S, 2 * worker.wait_s))

    def _end_all(self) -> None:
        processes = [worker.process for worker in self._workers if worker.process is not None]
        for process in processes:
            process.terminate()
        until = time.monotonic() + self._stop_within_s + _PATIENCE_S
        for process in processes:
            process.join(max(0.0, until - time.monotonic()))
            if process.exitcode is None:
                logger.error("worker %s does not end in time: it is killed", process.pid)
                process.kill()
                process.join()


def _how(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"status {code}"


@contextlib.contextmanager
def _shared_folders() -> Iterator[tuple[str, str]]:
    """Two private folders: one for the metrics, which the workers' environment names, and one for anything else."""
    before = os.environ.get(SHARED_DIRECTORY)
    with tempfile.TemporaryDirectory(prefix="geolookup-workers-", ignore_cleanup_errors=True) as folder:
        os.environ[SHARED_DIRECTORY] = metrics = os.path.join(folder, "metrics")
        shared = os.path.join(folder, "shared")
        os.mkdir(metrics)
        os.mkdir(shared)
        try:
            yield metrics, shared
        finally:
            if before is None:
                del os.environ[SHARED_DIRECTORY]
            else:
                os.environ[SHARED_DIRECTORY] = before


def _main(target: Target, folder: str, ready: Connection, stop_within_s: float) -> None:
    """Run the target, in a worker's process."""
    log_to_standard_error()
    threading.Thread(target=_end_with_parent, args=(stop_within_s,), daemon=True, name="parent").start()

    def tell() -> None:
        with contextlib.suppress(OSError):
            ready.send_bytes(b"ready")
        ready.close()

    try:
        target(folder, tell)
    except GeoLookupError as error:
        logger.error("%s", error)  # noqa: TRY400 - its message is for people
        sys.exit(1)


def _end_with_parent(stop_within_s: float) -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    logger.error("the process that started this worker is gone: the worker ends")
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(stop_within_s + _PATIENCE_S)
    os._exit(1)
