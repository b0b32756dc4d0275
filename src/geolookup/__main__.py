"""The command's entry: plain addresses are answered at once, everything else goes to the click application.

Half of the time of ``geolookup 8.8.8.8`` would be imports. So if the arguments are all addresses, this file
asks the same functions as the click application, without importing the rest of it. At the first sign of anything else
(an option, a malformed address, no state, damage, a setting that changes lookups or cannot be used) nothing has been
written yet, and the click application does it all.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from geolookup.model.addresses import Family
    from geolookup.state.base.current import Published


def main() -> int:
    """Run the command with the process's arguments and return its exit status."""
    try:
        return _main()
    except KeyboardInterrupt:  # of one command more than `run` sees: while its modules are read
        from geolookup.cli import exit_codes, streams

        streams.fail("interrupted: nothing was changed")
        return exit_codes.INTERRUPTED


def _main() -> int:
    arguments = sys.argv[1:]
    if arguments and all(map(_may_be_address, arguments)):
        from geolookup.cli import streams

        streams.prepare()  # before any file is opened: a closed stream's number would be the next file's
        found = _answers(arguments)
        if found is not None:
            return _write(*found)
    try:
        from geolookup.cli.app import run
    except ModuleNotFoundError as error:
        if (error.name or "geolookup").partition(".")[0] == "geolookup":
            raise
        from geolookup.cli import exit_codes, streams

        lacking = f"{error.name} is missing"
        streams.fail(f"this needs more than an address: pip install geolookup, with its dependencies ({lacking})")
        return exit_codes.FAILED
    return run()


def _may_be_address(argument: str) -> bool:
    return "." in argument or ":" in argument


def _answers(arguments: list[str]) -> tuple[str, int, str] | None:
    """The lines to print, the exit status and a note for a person; or None if the click application must answer."""
    from geolookup.cli import exit_codes
    from geolookup.cli.streams import match_line, not_covered_line, shows_networks
    from geolookup.index.layout import PART
    from geolookup.index.reader import segment_of_both
    from geolookup.model.addresses import parse, to_text
    from geolookup.model.errors import GeoLookupError
    from geolookup.state.base.current import open_published

    lines = []
    code = exit_codes.DONE
    without_city = False
    try:
        home = _home()
        if home is None:
            return None
        parsed = [parse(argument) for argument in arguments]
        published = open_published(home)
        if any(entry.get("max_age_s") for entry in published.current.sources):
            return None  # whether that makes it stale is not for here
        words = _network_words(published)
        for argument, (family, value) in zip(arguments, parsed, strict=True):
            found = segment_of_both(published.base, published.overlay, family, value)
            network = words(family, value) if words is not None and (found is None or shows_networks()) else ""
            if found is None:
                code = code if network else exit_codes.NOT_COVERED
                lines.append(not_covered_line(argument, network))
                continue
            reader, slot, first, last = found
            if reader.layer == "custom" and any(name.startswith(PART) for name in reader.header.sections):
                return None  # it may have the name of a site, which takes more to read
            locid, country, region, city, postalcode = reader.location(slot)[:5]
            without_city |= not city and reader.layer == "default"
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
                    layer=reader.layer,
                    pending=reader.pending(slot),
                    network=network,
                )
            )
    except (GeoLookupError, ValueError):  # a value of a record that is damaged
        return None
    note = ""
    if without_city and sys.stderr.isatty():
        from geolookup.sources.bundled import BUNDLED, MORE

        note = MORE if published.current.source == BUNDLED else ""
    return "\n".join(lines) + "\n", code, note


def _network_words(published: "Published") -> "Callable[[Family, int], str] | None":
    """What tells an address's network in words, "" if nothing is known of it; None if no source says any.

    :raises IndexFileError: if the index of networks is not what was published
    """
    if published.network is None:
        return None
    from geolookup.base.text import network_text
    from geolookup.index.reader import EMPTY, IndexReader, network_record
    from geolookup.state.base.current import require_network

    opened: list[IndexReader] = []
    path, current = published.network, published.current

    def words(family: "Family", value: int) -> str:
        from geolookup.index.mmdb import plain

        if not opened:
            opened.append(IndexReader.open(path))
            require_network(opened[0].header, path, current)
        found = network_record(opened[0], family, value)
        parts = {} if found == EMPTY else opened[0].parts(found)
        return network_text({key: plain(part) for key, part in parts.items()})

    return words


def _home() -> str | None:
    """The state directory, or None if a setting changes how lookups are answered.

    :raises SettingsError: if the settings cannot be used
    """
    from geolookup.settings.paths import plain_home

    home = plain_home()
    if home is not None:
        return home
    from geolookup.settings.load import load

    settings = load()
    return settings.state_home() if settings.has_plain_lookups else None


def _write(text: str, code: int, note: str) -> int:
    from geolookup.cli import streams

    try:
        sys.stdout.write(text)
    except OSError as error:
        return streams.failed(error)
    code = streams.finished(code)
    if note:
        streams.note(note)
    return code


if __name__ == "__main__":
    sys.exit(main())
