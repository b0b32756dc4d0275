"""``geolookup annotate``: any log, with the geolocation and facts after each address in it."""

import sys
from typing import Any, BinaryIO

import click

from geolookup.base.text import harmless
from geolookup.cli import inputs, interrupt, output
from geolookup.cli.inputs import Tally, ok_options
from geolookup.cli.lookup.unsaid import warn_of_unsaid
from geolookup.cli.options import vrf_option
from geolookup.columns.common import DEFAULT_FIELDS
from geolookup.columns.text import CANDIDATE, is_punctuation, pieces
from geolookup.lookup.asked import checked_fields
from geolookup.lookup.engine import GeoLookup
from geolookup.lookup.members import NAMES, Members
from geolookup.model.errors import InvalidAddressError
from geolookup.sync import opening


@click.command()
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option(
    "--fields",
    default=",".join(DEFAULT_FIELDS),
    show_default=True,
    help=f"The fields to add, separated by commas, from: {', '.join(NAMES)}. A path leads into the record: "
    "location.time_zone, subdivisions.0.names.en.",
)
@vrf_option
@ok_options
def annotate(files: tuple[str, ...], fields: str, vrf: str | None, **ok: Any) -> int:
    """Copy logs to standard output with the geolocation after each IP address, or with what else is known of it.

    \b
    Reads FILEs one after another, or standard input (also -); gzip, Zstandard, bzip2 and xz are decompressed.
    Every other byte stays as it is, and each line is written as soon as it is read. The text may
    have any encoding that contains ASCII. Nothing is added after an address of which nothing is known; versions,
    host names and other longer tokens are left alone. What is not known of an address is left out; AS
    numbers are written as AS15169, and what is true or false with its name: is_anycast=true.
    Exit status: 0 all covered, 4 some not covered, 5 more than 1 % are dotted quads that are not
    addresses (or more than --max-malformed says; named on standard error, a value once), or 0 with
    --ok-uncovered and --ok-malformed.

    \b
    Examples:
      tail -f access.log | geolookup annotate --fields country,city
      geolookup annotate --fields country,asn,as_organization,is_hosting_provider access.log
      geolookup annotate access.log.2.gz access.log.1 | less
    """
    names = checked_fields(fields, NAMES, paths=True)
    tally = Tally(of_file=True, **ok)
    reached = interrupt.Progress("line")
    with opening.open_or_build(vrf=vrf) as geo, tally.sums():
        warn_of_unsaid(geo, names)
        for file in files or ("-",):
            with inputs.opened(file) as source:
                Annotator(geo, names, tally, inputs.shown(file), reached).copy(source, sys.stdout.buffer)
    return tally.code


class Annotator:
    """Adds to lines of bytes what stands in ``fields`` of each address' answer.

    ``name`` is for messages, ``reached`` counts the lines of all files.
    """

    def __init__(
        self,
        geo: GeoLookup,
        fields: tuple[str, ...],
        tally: Tally,
        name: str = "standard input",
        reached: interrupt.Progress | None = None,
    ) -> None:
        self._reached = reached or interrupt.Progress("line")
        self._name = name
        self._members = Members(geo, fields)
        self._fields = fields
        self._tally = tally

    def copy(self, source: BinaryIO, target: BinaryIO) -> None:
        """Copy all lines, each as soon as it is there, at constant memory."""
        for data, number, searched in pieces(source):
            target.write(self.line(data, number) if searched else data)
            target.flush()
            self._reached.done += data.endswith(b"\n")

    def line(self, data: bytes, number: int) -> bytes:
        """One line, or a piece of one, with its answers; ``number`` is for messages."""
        parts = []
        copied = searched = 0
        while found := CANDIDATE.search(data, searched):
            answer = self._answer(found[0], number)
            if answer is None:
                # What looked like IPv6 can end in an IPv4 address (12:30:00:192.0.2.1): look again inside.
                searched = found.start() + 1
                continue
            searched = found.end()
            if answer:
                parts += [data[copied:searched], answer]
                copied = searched
        if not parts:
            return data
        return b"".join([*parts, data[copied:]])

    def _answer(self, token: bytes, number: int) -> bytes | None:
        """The text to write after a token; empty for an address that is not covered; None for anything else."""
        text = token.decode("ascii")
        if is_punctuation(token):
            return None
        try:
            values = self._members.of(text)
        except InvalidAddressError as error:
            if ":" in text:
                return None  # a time, a hardware address
            self._tally.bad(f"{self._name}, line {number}", str(error))
            return b""
        if values is None:
            self._tally.not_covered += 1
            return b""
        self._tally.found += 1
        shown = ", ".join(filter(None, map(_value_text, self._fields, values)))
        return f" [{shown or '-'}]".encode()


def _value_text(name: str, value: Any) -> str:
    """A value for a person who reads the line; nothing if it is not known."""
    if isinstance(value, bool):
        return f"{name}={output.value_text(value)}"
    if name == "asn" and value is not None:
        return f"AS{value}"
    return harmless(output.value_text(value))
