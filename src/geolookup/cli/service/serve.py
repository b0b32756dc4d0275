"""``geolookup serve`` and ``serve-token``: run the reference service, and make the tokens that it knows."""

import contextlib
from typing import Any

import click

from geolookup.cli import output
from geolookup.cli.options import json_option
from geolookup.cli.service.run_options import Sectioned, missing_packages, options_from, options_of, service_options


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
    if as_json:
        output.json_result({"name": name, "scope": scope, "token": token, "line": line, "file": path})
    else:
        output.done(token)
