"""The options of every command that runs a service: who may ask, how much, and how it runs."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import click

from geolookup.model.errors import ServiceError

if TYPE_CHECKING:
    from geolookup.web.options import Options

_Command = TypeVar("_Command", bound=Callable[..., Any])

_SECTIONS = {
    "Access": ("host", "port", "tokens", "tls_cert", "tls_key", "allow_host", "trusted_proxy"),
    "Limits": ("rate_limit", "max_connections", "request_timeout", "stall_timeout"),
    "Running": ("workers", "access_log", "access_log_format", "drain", "grace"),
}


class Sectioned(click.Command):
    """A command whose help has its options by section: its own one first, then those of every service."""

    own: ClassVar[tuple[str, tuple[str, ...]]]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options; those without a section stand at the end."""
        rows = {parameter.name: row for parameter in self.get_params(ctx) if (row := parameter.get_help_record(ctx))}
        for title, names in (self.own, *_SECTIONS.items()):
            with formatter.section(title):
                formatter.write_dl([rows.pop(name) for name in names if name in rows])
        with formatter.section("Options"):
            formatter.write_dl(list(rows.values()))


def options_of(*options: Callable[[_Command], _Command]) -> Callable[[_Command], _Command]:
    """Several options as one decorator, in their order."""

    def decorate(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


_access = options_of(
    click.option(
        "--host",
        default="127.0.0.1",
        show_default=True,
        help="The address to listen on. One beyond loopback needs tokens.",
    ),
    click.option(
        "--port", default=8080, show_default=True, type=click.IntRange(0, 65535), help="The port; 0 takes a free one."
    ),
    click.option(
        "--tokens",
        metavar="FILE",
        help="Ask every client for a token of this file (mode 0600, see serve-token), which is read "
        "again when it changes. Or set GEOLOOKUP_SERVE_TOKENS to such lines.",
    ),
    click.option(
        "--tls-cert",
        metavar="FILE",
        help="Serve by TLS, with the certificate chain in this file (PEM), which is read again when it is renewed.",
    ),
    click.option("--tls-key", metavar="FILE", help="The certificate's key (PEM, without a password)."),
    click.option(
        "--allow-host", multiple=True, metavar="NAME", help="A host name that clients may use; may be repeated."
    ),
    click.option(
        "--trusted-proxy",
        multiple=True,
        metavar="ADDRESS",
        help="An address or network whose X-Forwarded-For is believed; may be repeated.",
    ),
)
_limits = options_of(
    click.option(
        "--rate-limit",
        default=0.0,
        show_default=True,
        type=click.FloatRange(0, 1e6),
        help="Requests per second for each token, or address without one; 0 sets no limit.",
    ),
    click.option(
        "--max-connections", default=1000, show_default=True, type=click.IntRange(1), help="Connections per process."
    ),
    click.option(
        "--request-timeout",
        default=30.0,
        show_default=True,
        type=click.FloatRange(0.1, 3600),
        help="Seconds for a request's head, and again for its body.",
    ),
    click.option(
        "--stall-timeout",
        default=120.0,
        show_default=True,
        type=click.FloatRange(1, 86400),
        help="Seconds after which a client that does not read its answer is dropped.",
    ),
)
_running = options_of(
    click.option(
        "--workers", default=1, show_default=True, type=click.IntRange(1, 64), help="Processes that answer requests."
    ),
    click.option("--access-log", metavar="FILE", help="Write a line for each request; - is standard error."),
    click.option(
        "--access-log-format",
        default="json",
        show_default=True,
        type=click.Choice(["json", "text"]),
        help="The format of the access log.",
    ),
    click.option(
        "--drain",
        default=0.0,
        show_default=True,
        type=click.FloatRange(0, 600),
        help="Seconds to keep serving after the signal to end, while /readyz says no.",
    ),
    click.option(
        "--grace",
        default=10.0,
        show_default=True,
        type=click.FloatRange(0, 600),
        help="Seconds after that for running answers to finish.",
    ),
)


def service_options(command: _Command) -> _Command:
    """The options that all services have; `options_from` reads them."""
    return _access(_limits(_running(command)))


def options_from(given: Mapping[str, Any]) -> "Options":
    """The options of a service, as they were given; from now on this process logs as a service does.

    :raises ServiceError: if the packages that a service needs are not installed
    :raises SettingsError: if a name or an address is not valid
    """
    try:
        from geolookup.web.logs import log_to_standard_error
        from geolookup.web.options import Limits, Options
    except ImportError as error:
        raise missing_packages(error) from error
    limits = Limits(
        request_s=given["request_timeout"],
        stall_s=given["stall_timeout"],
        connections=given["max_connections"],
        rate=given["rate_limit"],
    )
    options = Options(
        tokens=given["tokens"],
        tls_cert=given["tls_cert"],
        tls_key=given["tls_key"],
        allow_hosts=given["allow_host"],
        trusted_proxies=given["trusted_proxy"],
        access_log=given["access_log"],
        access_log_format=given["access_log_format"],
        workers=given["workers"],
        drain_s=given["drain"],
        grace_s=given["grace"],
        limits=limits,
    )
    log_to_standard_error()
    return options


def missing_packages(error: ImportError) -> ServiceError:
    """The error if the packages of a service are not installed."""
    return ServiceError(f"the service needs more packages: pip install 'geolookup[serve]' ({error})")
