"""Running an application: take the address, prepare, serve in one process or several, until a signal ends it."""

import contextlib
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial

from geolookup.web.application import Opens
from geolookup.web.host import canonical_address, host_of
from geolookup.web.limits import with_files
from geolookup.web.listener import bind, url_of
from geolookup.web.options import Options
from geolookup.web.server import Server, certificate_of, tokens_of
from geolookup.web.signals import StopRequested, stopped_by_signals
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

    :raises KeyboardInterrupt: at SIGINT before it serves: whoever waits for that must hear that it will not
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
