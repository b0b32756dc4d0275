"""Commands that serve: ``serve`` and ``serve-token`` of the reference service, ``share``, ``console``."""

import contextlib
import threading
import webbrowser
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from geolookup.cli import interrupt, output
from geolookup.cli.options import json_option, load_settings
from geolookup.cli.service.run_options import Sectioned, missing_packages, options_from, options_of, service_options
from geolookup.cli.units import share_unit

if TYPE_CHECKING:
    from geolookup.console.runs import Run, Runs


class _Serve(Sectioned):
    own = ("Data", ("db", "load", "load_hotels", "demo", "replace", "ignore_idempotency_keys"))


_data = options_of(
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
    click.option(
        "--replace",
        is_flag=True,
        help="Remove the default geolocations and blocks that --load and --demo do not bring. Custom ones, which "
        "clients made, stay.",
    ),
    click.option("--ignore-idempotency-keys", is_flag=True, help="Behave like services without Idempotency-Key."),
)


@click.command(cls=_Serve)
@_data
@service_options
def serve(
    host: str,
    port: int,
    db: str | None,
    load: tuple[str, ...],
    load_hotels: tuple[str, ...],
    demo: bool,
    replace: bool,
    **given: Any,
) -> None:
    """Run the reference service: the upstream interface with its own database.

    \b
    --load takes a file of any kind that `geolookup check` knows, or a CSV with the columns startip,
    endip, locid and the eight fields, or startip, endip and country. If any row is bad, the bad rows
    are named and nothing is loaded; the same is true for hotels. It listens when loading is done, and
    prints its address on standard error. Loading adds and changes; with --replace it also removes.

    \b
    Example: geolookup serve --demo --port 8080
    """
    try:
        from geolookup.service import serve as service
    except ImportError as error:
        raise missing_packages(error) from error
    if replace and not (load or demo):
        raise click.UsageError("--replace needs the files that replace what is there: --load FILE")
    options = options_from(given)
    rows = 0
    with contextlib.ExitStack() as loading:
        progress = loading.enter_context(output.progress("loading", "row"))

        def on_rows(more: int) -> None:
            nonlocal rows
            rows += more
            progress(rows, None)

        def on_ready(url: str) -> None:
            loading.close()  # before anything else stands on a terminal
            output.note(f"geolookup: serving on {url}")

        service.serve(
            host=host,
            port=port,
            db=db,
            load=load,
            load_hotels=load_hotels,
            demo=demo,
            replace=replace,
            ignore_idempotency_keys=given["ignore_idempotency_keys"],
            options=options,
            on_ready=on_ready,
            on_replaced=lambda loaded: output.note(
                f"geolookup: replaced: geolocations +{loaded.geolocations_added} -{loaded.geolocations_removed} "
                f"~{loaded.geolocations_changed}, blocks +{loaded.blocks_added} -{loaded.blocks_removed}"
            ),
            on_rows=on_rows,
        )


@click.command("serve-token")
@click.argument("name")
@click.option(
    "--scope", type=click.Choice(["read", "write"]), required=True, help="What the client may do; write includes read."
)
@click.option(
    "--file", "path", metavar="FILE", help="Add the line to this file, the one given to the service as --tokens."
)
@json_option
def serve_token(name: str, scope: str, path: str | None, as_json: bool) -> None:
    """Make a token for the client NAME and print it on standard output, once.

    \b
    The service keeps a line with the token's hash, which does not reveal the token: the line is
    added to FILE, or else printed on standard error. A running service reads its file again when
    it changes. To revoke a token, remove its line.

    \b
    Example: geolookup serve-token warehouse --scope read --file tokens
    """
    try:
        from geolookup.web import auth
    except ImportError as error:
        raise missing_packages(error) from error
    token = auth.new_token()
    line = auth.line_for(name, auth.Scope[scope.upper()], token)
    if path is not None:
        auth.append(path, line)
    elif not as_json:
        output.note(line)
    output.emit(as_json, {"name": name, "scope": scope, "token": token, "line": line, "file": path}, token)


class _Share(Sectioned):
    own = ("Data", ("edition", "licence_allows"))


_share_data = options_of(
    click.option(
        "--edition",
        multiple=True,
        metavar="NAME",
        help="A further name for the databases, for programs that insist on one (GeoLite2-City); may be repeated. "
        "A word in it says what it holds: City, Country, ASN, ISP, Anonymous-IP, Connection-Type, Domain, Enterprise "
        "and so on; one that no source says anything of is not offered. Such names are MaxMind's.",
    ),
    click.option(
        "--licence-allows",
        is_flag=True,
        help="Your licence lets others have the data, though the source says otherwise.",
    ),
)


@click.command(cls=_Share)
@_share_data
@service_options
@click.option(
    "--print-systemd", is_flag=True, help="Print a hardened service for systemd with these options; do nothing else."
)
@click.pass_context
def share(context: click.Context, /, print_systemd: bool, **given: Any) -> None:
    """Share what lookups answer here, by HTTP: with tools that read or download MaxMind DBs.

    \b
    It answers /lookup, /databases, /geofeed.csv, the protocol of geoipupdate, the database endpoint
    of Elasticsearch and Logstash, and the GeoIP2 web services. It follows what is published and edited
    here, and changes nothing. There are databases of places, and, if a source says who runs addresses,
    of networks and of everything. If a source's licence does not let others have its data, it does not
    start (exit status 2).

    \b
    Example: geolookup share --edition GeoLite2-City --tokens tokens --host 0.0.0.0
    """
    if print_systemd:
        defaults = {parameter.name or "": parameter.get_default(context) for parameter in context.command.params}
        text, notes = share_unit(load_settings(), given, defaults)
        for note in notes:
            output.note(f"geolookup: {note}")
        output.content(text.rstrip("\n"))
        return
    options = options_from(given)
    try:
        from geolookup.share import run
    except ImportError as error:
        raise missing_packages(error) from error
    run.share(
        host=given["host"],
        port=given["port"],
        editions=given["edition"],
        licence_allows=given["licence_allows"],
        options=options,
        on_ready=lambda url: output.note(f"geolookup: sharing on {url}"),
    )


@click.command()
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="The port; without it, any free one.")
@click.option("--no-browser", is_flag=True, help="Only print the address; open no browser.")
@click.option("--read-only", is_flag=True, help="Show everything, and change nothing.")
def console(port: int, no_browser: bool, read_only: bool) -> None:
    """Open pages in the browser that look up, explain and edit what is here.

    \b
    It listens on this machine only. The address that it prints opens it once, in one browser; Ctrl-C
    ends it, after a push or sync that is under way. Each thing that the pages do, a command does too. The browser
    is sent there by a private file, so that no other user sees the address among its arguments.

    \b
    Example: geolookup console --read-only
    """
    try:
        from geolookup.console import app
        from geolookup.console.entry import opening_page
        from geolookup.web.logs import log_to_standard_error
    except ImportError as error:
        raise missing_packages(error) from error

    def ready(address: str, runs: "Runs", admitted: threading.Event) -> None:
        interrupt.saying("runs", runs.left)
        output.note(f"geolookup: open {address}")
        if not no_browser:
            with suppress(OSError):  # the address was printed
                page = stack.enter_context(opening_page(address))
                # Two, since some browsers end only when they are closed.
                threading.Thread(target=_open_browser, args=(page.as_uri(),), daemon=True).start()
                threading.Thread(target=_remove_once, args=(admitted, page), daemon=True).start()

    log_to_standard_error()
    with ExitStack() as stack:
        app.console(port=port, read_only=read_only, on_ready=ready, on_wait=_say_wait, on_end=_say_end)


def _say_wait(run: "Run") -> None:
    output.note(
        f"geolookup: a {run.kind} is under way ({run.reached()}): the console ends once it has ended; "
        "Ctrl-C again cuts it off"
    )


def _say_end(run: "Run") -> None:
    what = f"failed: {run.error}" if run.error is not None else f"ended after {run.reached()}"
    output.note(f"geolookup: the {run.kind} {what}")


def _open_browser(address: str) -> None:
    with suppress(webbrowser.Error):
        webbrowser.open(address)


def _remove_once(admitted: threading.Event, page: Path) -> None:
    admitted.wait()
    with suppress(OSError):
        page.unlink()
