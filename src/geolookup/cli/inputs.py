"""Files and addresses that commands read, decompressed by their first bytes; and a count of what became of them."""

import codecs
import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Final

import click

from geolookup.cli import exit_codes, output
from geolookup.files.opened import content_of

#: No address is longer, and a line without an end must not fill the memory.
_MAX_LINE_BYTES = 4096


def shown(name: str) -> str:
    """The name of a file in messages."""
    return "standard input" if name == "-" else name


@contextlib.contextmanager
def opened(name: str, *, sheet: str | None = None) -> Iterator[BinaryIO]:
    """The bytes of a file, decompressed; of a workbook its ``sheet`` as CSV. ``-`` is standard input, which stays open.

    :raises click.UsageError: if the file cannot be opened
    :raises DataFileError: if it is an archive, or a workbook of several sheets
    :raises MissingExtraError: if decompressing it needs a package that is not installed
    """
    if name == "-":
        yield content_of(shown(name), sys.stdin.buffer, sheet=sheet)
        return
    try:
        stream = open(name, "rb")  # noqa: SIM115 - closed below; the with would have the reading in the try
    except OSError as error:
        raise click.UsageError(f"{name}: cannot be read: {error.strerror}") from error
    with stream:
        yield content_of(name, stream, sheet=sheet)


def read_addresses(name: str, delimiter: str | None = None) -> Iterator[tuple[str, str]]:
    """The address of every line of a file, as it stands there, with where that is; ``-`` is standard input.

    It is the first of the line's columns: ``delimiter`` stands between them, or if it is None a tab or semicolon.
    Empty text stands for a line without one.
    """
    with opened(name) as stream:
        yield from _lines(shown(name), stream, delimiter)


def _lines(name: str, stream: BinaryIO, delimiter: str | None) -> Iterator[tuple[str, str]]:
    number = 0
    while line := stream.readline(_MAX_LINE_BYTES):
        number += 1
        rest = line
        while not rest.endswith(b"\n") and len(rest) == _MAX_LINE_BYTES:
            rest = stream.readline(_MAX_LINE_BYTES)
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        text = line.decode("utf-8", "replace")
        if delimiter is not None:
            text = text.partition(delimiter)[0].strip()
        else:
            text = text.strip().partition("\t")[0].partition(";")[0].rstrip()
        yield f"{name}, line {number}: ", text


#: So many bad addresses are named; of the others only the number is said.
NAMED: Final = 20


def ok_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options for scripts that stop at any exit status but 0."""
    function = click.option("--ok-malformed", is_flag=True, help="Exit with 0 even if some are malformed.")(function)
    return click.option("--ok-uncovered", is_flag=True, help="Exit with 0 even if some are not covered.")(function)


class Tally:
    """Counts what became of addresses, and names the first malformed ones. Malformed beats not covered.

    ``found``, ``not_covered``, ``malformed`` and ``blank`` are counts. With ``ok_uncovered`` and ``ok_malformed`` the
    exit status does not tell of them.
    """

    def __init__(self, *, ok_uncovered: bool = False, ok_malformed: bool = False) -> None:
        self.found = self.not_covered = self.malformed = self.blank = 0
        self._ok_uncovered = ok_uncovered
        self._ok_malformed = ok_malformed

    @property
    def code(self) -> int:
        """The exit status."""
        if self.malformed and not self._ok_malformed:
            return exit_codes.MALFORMED
        return exit_codes.NOT_COVERED if self.not_covered and not self._ok_uncovered else exit_codes.DONE

    def bad(self, text: str) -> None:
        """Count a malformed address; ``text`` says where it stands and what is wrong."""
        self.malformed += 1
        if self.malformed <= NAMED:
            output.fail(text)

    def say_rest(self) -> None:
        """Say how many malformed addresses were not named."""
        if self.malformed > NAMED:
            output.fail(f"and {self.malformed - NAMED:,} more are malformed")

    @contextlib.contextmanager
    def sums(self) -> Iterator[None]:
        """Around a stream: say the sums at its end, and if Ctrl-C ends it before."""
        try:
            yield
        except KeyboardInterrupt:
            self.say_rest()
            self._say(exit_codes.INTERRUPTED)
            raise
        self.say_rest()
        self._say(self.code)

    def _say(self, code: int) -> None:
        # A script that went well stays silent: cron sends a mail for every line.
        if code == exit_codes.DONE and not sys.stderr.isatty():
            return
        total = self.found + self.not_covered + self.malformed
        blank = f", {self.blank:,} blank" if self.blank else ""
        output.note(
            f"geolookup: {total:,} address{'' if total == 1 else 'es'}: {self.found:,} found, "
            f"{self.not_covered:,} not covered, {self.malformed:,} malformed{blank}"
        )
