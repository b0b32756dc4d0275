"""Run an application: take the address, prepare, serve in one process or several, until SIGTERM or SIGINT ends it."""

import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from types import FrameType

from geolookup.web.application import Opens
from geolookup.web.host import canonical_address, host_of
from geolookup.web.options import Options, with_files
from geolookup.web.server import Server, bind, certificate_of, tokens_of, url_of
from geolookup.web.workers import Supervisor


def launch(
    prepared: AbstractContextManager[Opens],
    *,
    host: str,
    port: int,
    options: Options,
    on_ready: Callable[[str], None],
) -> None:
    """Serve until SIGTERM or SIGINT, then end what is under way and return.

    The address is reserved first; the service listens only after ``prepared`` was entered. That may take long, and a
    signal ends it too. ``prepared`` is left when the last process that serves has ended. ``on_ready`` is called with
    the base address once all processes serve.

    :raises KeyboardInterrupt: at SIGINT before it serves: the caller that waits for that must hear that it will not
    :raises ServiceError: if the host is beyond loopback and no tokens are given, the address cannot be used, or a
        worker cannot start
    :raises SettingsError: if the tokens, the certificate or the access log cannot be used
    """
    with _stopped_before_serving(), contextlib.ExitStack() as stack:
        stop = stack.enter_context(stopped_by_signals())
        options = replace(options, limits=with_files(options.limits))
        tokens = tokens_of(options)
        certificate_of(options)  # so that what is wrong with it is said before anything is prepared
        address = stack.enter_context(bind(host, port, beyond_loopback=tokens is not None))
        opens = stack.enter_context(prepared)
        if (name := host_of(host)) is not None and canonical_address(name) is None:
            options = replace(options, allow_hosts=(name, *options.allow_hosts))
        if options.workers == 1:
            server = Server(stack.enter_context(opens(None)), address, options)
            server.when_ready = on_ready
            stop.call = server.handle_exit
            server.run(sockets=[address])
            return
        supervisor = Supervisor(
            partial(_work, opens, address, options),
            count=options.workers,
            stop_within_s=options.drain_s + options.grace_s,
        )
        stop.call = supervisor.stop
        supervisor.run(lambda: on_ready(url_of(address, tls=options.tls_cert is not None)), [address])


@contextlib.contextmanager
def _stopped_before_serving() -> Iterator[None]:
    try:
        yield
    except StopRequested as stopped:
        if stopped.number == signal.SIGINT:
            raise KeyboardInterrupt from None


def _work(opens: Opens, address: socket.socket, options: Options, folder: str, ready: Callable[[], None]) -> None:
    """One worker, in a process of its own: ``folder`` is one that all workers share."""
    with contextlib.suppress(StopRequested), contextlib.ExitStack() as stack:
        stop = stack.enter_context(stopped_by_signals())
        stack.enter_context(address)
        server = Server(stack.enter_context(opens(folder)), address, options)
        server.when_ready = lambda _url: ready()
        stop.call = server.handle_exit
        server.run(sockets=[address])


class StopRequested(BaseException):
    """A signal asked to stop before there was a server; a BaseException, so that it is not handled as a failure."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Stop:
    """The handler of both signals: it ends the server, or raises `StopRequested` before there is one.

    uvicorn has handlers of its own while it runs, and raises the signal again when it ends: these handlers catch it,
    so that the process can clean up.
    """

    def __init__(self) -> None:
        self.call: Callable[[int, FrameType | None], None] | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        if self.call is None:
            raise StopRequested(number)
        self.call(number, frame)


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[Stop]:
    """Handle both signals in the ``with``; only in the main thread, since no other gets signals."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
