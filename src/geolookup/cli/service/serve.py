"""``geolookup serve`` and ``serve-token``: run the reference service, and make the tokens that it knows."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from geolookup.cli import output
from geolookup.errors import ServiceError

_Command = TypeVar("_Command", bound=Callable[..., Any])

_SECTIONS = {
    "Data": ("db", "load", "load_hotels", "demo", "ignore_idempotency_keys"),
    "Access": ("host", "port", "tokens", "allow_host", "trusted_proxy"),
    "Limits": ("rate_limit", "max_connections", "request_timeout", "stall_timeout"),
    "Running": ("workers", "access_log", "access_log_format", "drain", "grace"),
}


class _Sectioned(click.Command):
    """A command whose help has its options by section."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options; those without a section stand at the end."""
        rows = {parameter.name: row for parameter in self.get_params(ctx) if (row := parameter.get_help_record(ctx))}
        for title, names in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([rows.pop(name) for name in names if name in rows])
        with formatter.section("Options"):
            formatter.write_dl(list(rows.values()))


def _options(*options: Callable[[_Command], _Command]) -> Callable[[_Command], _Command]:
    """Several options as one decorator, in their order."""

    def decorate(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


_data = _options(
    click.option(
        "--db",
        metavar="FILE|URL",
        help="The database: an SQLite file, or postgresql://USER@HOST/NAME without the password, which everybody could "
        "see here: put it into ~/.pgpass or PGPASSWORD. Without --db, a temporary one that is deleted at the end.",
    ),
    click.option(
        "--load",
        multiple=True,
        metavar="FILE",
        help="Load geolocations first, from any file that `geolookup check` knows; may be repeated.",
    ),
    click.option(
        "--load-hotels", multiple=True, metavar="NDJSON", help="Load hotels first, one a line; may be repeated."
    ),
    click.option(
        "--demo", is_flag=True, help="Load the bundled data: countries by registry delegation, and made-up hotels."
    ),
    click.option("--ignore-idempotency-keys", is_flag=True, help="Behave like services without Idempotency-Key."),
)
_access = _options(
    click.option(
        "--host",
        default="127.0.0.1",
        show_default=True,
        help="The address to listen on; beyond loopback only with tokens.",
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
        "--allow-host", multiple=True, metavar="NAME", help="A host name that clients may use; may be repeated."
    ),
    click.option(
        "--trusted-proxy",
        multiple=True,
        metavar="ADDRESS",
        help="An address or network whose X-Forwarded-For is believed; may be repeated.",
    ),
)
_limits = _options(
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
_running = _options(
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


@click.command(cls=_Sectioned)
@_data
@_access
@_limits
@_running
def serve(
    host: str,
    port: int,
    db: str | None,
    load: tuple[str, ...],
    load_hotels: tuple[str, ...],
    demo: bool,
    **given: Any,
) -> None:
    """Run the reference service: the upstream interface with its own database.

    \b
    --load takes a file of any kind that `geolookup check` knows, or a CSV with the columns startip,
    endip, locid and the eight fields, or startip, endip and country. If any row is bad, the bad rows
    are named and nothing is loaded; the same is true for hotels. It listens when loading is done, and
    prints its address on standard error.

    \b
    Example: geolookup serve --demo --port 8080
    """
    try:
        from geolookup.service import serve as service
        from geolookup.service.http.access.limits import Limits
        from geolookup.service.process.log import log_to_standard_error
        from geolookup.service.process.options import Options
    except ImportError as error:
        raise ServiceError(f"the service needs more packages: pip install 'geolookup[serve]' ({error})") from error
    limits = Limits(
        request_s=given["request_timeout"],
        stall_s=given["stall_timeout"],
        connections=given["max_connections"],
        rate=given["rate_limit"],
    )
    options = Options(
        tokens=given["tokens"],
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
    service.serve(
        host=host,
        port=port,
        db=db,
        load=load,
        load_hotels=load_hotels,
        demo=demo,
        ignore_idempotency_keys=given["ignore_idempotency_keys"],
        options=options,
        on_ready=lambda url: output.note(f"geolookup: serving on {url}"),
    )


@click.command("serve-token")
@click.argument("name")
@click.option(
    "--scope", type=click.Choice(["read", "write"]), required=True, help="What the client may do; write includes read."
)
@click.option(
    "--file", "path", metavar="FILE", help="Add the line to this file, the one given to the service as --tokens."
)
def serve_token(name: str, scope: str, path: str | None) -> None:
    """Make a token for the client NAME and print it on standard output, once.

    \b
    The service keeps a line with the token's hash, which does not reveal the token: the line is
    added to FILE, or else printed on standard error. A running service reads its file again when
    it changes. To revoke a token, remove its line.

    \b
    Example: geolookup serve-token warehouse --scope read --file tokens
    """
    try:
        from geolookup.service.http.access import auth
    except ImportError as error:
        raise ServiceError(f"the service needs more packages: pip install 'geolookup[serve]' ({error})") from error
    token = auth.new_token()
    line = auth.line_for(name, auth.Scope[scope.upper()], token)
    if path is None:
        output.note(line)
    else:
        auth.append(path, line)
    output.done(token)
