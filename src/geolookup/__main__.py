"""The command's entry: plain addresses are answered at once, anything else goes to the click application.

Half of the time of ``geolookup 8.8.8.8`` would be imports. So where the arguments are nothing but addresses, this file
maps the index, searches and prints with what costs nothing to import; at the first sign of anything else (an option, a
malformed address, no state, damage, a setting that bears on lookups) nothing has been printed yet, and the ordinary
path does it all.
"""

import os
import sys

# Settings that have no bearing on a lookup: with any other, the ordinary path reads them properly.
_NO_BEARING = frozenset(
    {
        "url", "token", "token_file", "auth", "auth_header", "trust_env", "compression",
        "connect_timeout_s", "read_timeout_s", "total_timeout_s", "attempts", "max_wait_s",
        "keep_generations", "settle_s", "idempotency_keys", "idempotency_window_s",
        "ping_url", "ping_url_file", "textfile", "log_format",
    }
)  # fmt: skip


def main() -> int:
    """Run the command with the process's arguments and return its exit status."""
    arguments = sys.argv[1:]
    if arguments and all(map(_may_be_address, arguments)):
        code = _answer(arguments)
        if code is not None:
            return code
    from geolookup.cli.app import run

    return run()


def _may_be_address(argument: str) -> bool:
    return "." in argument or ":" in argument


def _home() -> str | None:
    """The state directory, or None where a setting needs the ordinary path to be understood."""
    home = None
    for name, value in os.environ.items():
        if name.startswith("GEOLOOKUP_") and value:
            key = name[10:].lower()
            if key == "home":
                home = os.path.abspath(os.path.expanduser(value))
            elif key not in _NO_BEARING and key != "config":
                return None
    from geolookup.settings.paths import default_home, settings_path

    try:
        with open(settings_path(), encoding="utf-8") as file:
            for line in file:
                key = line.partition("=")[0].strip()
                if key and not key.startswith("#") and key not in _NO_BEARING:
                    return None
    except FileNotFoundError:
        if os.environ.get("GEOLOOKUP_CONFIG"):
            return None
    except (OSError, ValueError):
        return None
    return home or default_home()


def _answer(arguments: list[str]) -> int | None:
    """Print the answers and return the exit status, or None with nothing printed."""
    from geolookup.addresses import parse, to_text
    from geolookup.cli.plain import match_line, not_covered_line
    from geolookup.errors import GeoLookupError
    from geolookup.index.layout import EMPTY
    from geolookup.state.current import open_published

    home = _home()
    if home is None:
        return None
    lines = []
    code = 0
    try:
        parsed = [parse(argument) for argument in arguments]
        published = open_published(home)
        for argument, (family, value) in zip(arguments, parsed, strict=True):
            layer, reader = "custom", published.overlay
            slot, first, last = reader.segment(family, value)
            if slot == EMPTY:
                layer, reader = "default", published.base
                slot, base_first, base_last = reader.segment(family, value)
                if slot == EMPTY:
                    code = 4
                    lines.append(not_covered_line(argument))
                    continue
                first, last = max(first, base_first), min(last, base_last)
            locid, country, region, city, postalcode = reader.location(slot)[:5]
            lines.append(
                match_line(
                    argument,
                    locid=locid,
                    country=country,
                    region=region,
                    city=city,
                    postalcode=postalcode,
                    first=to_text(family, first),
                    last=to_text(family, last),
                    layer=layer,
                    pending=reader.pending(slot),
                )
            )
    except GeoLookupError:
        return None
    try:
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


if __name__ == "__main__":
    sys.exit(main())
