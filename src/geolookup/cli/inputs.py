"""Files and addresses that commands read, decompressed by their first bytes; and a count of what became of them."""

import codecs
import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
        yield f"{name}, line {number}", text


#: So many different problems are named; of others only their number is said.
NAMED: Final = 20


@dataclass(frozen=True, slots=True)
class Limit:
    """So many malformed addresses are no reason for an exit status: ``count`` of them, or this ``share`` of all."""

    count: int = 0
    share: float = 0.0

    def allows(self, malformed: int, total: int) -> bool:
        """True if so many of all are within the limit."""
        return malformed <= max(self.count, self.share * total)


class _Limit(click.ParamType[Limit]):
    name = "limit"

    def convert(self, value: str | Limit, param: click.Parameter | None, ctx: click.Context | None) -> Limit:
        if isinstance(value, Limit):
            return value
        number, percent, rest = value.strip().partition("%")
        try:
            found = Limit(share=float(number) / 100) if percent else Limit(count=int(number))
        except ValueError:
            found = Limit(count=-1)
        if rest or found.count < 0 or not 0 <= found.share <= 1:
            self.fail(f"{value!r:.40} must be a number (20), or a share from 0% to 100% (0.5%)", param, ctx)
        return found


def malformed_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say how many malformed addresses are no reason for an exit status: values of `Tally`."""
    function = click.option(
        "--max-malformed",
        type=_Limit(),
        metavar="LIMIT",
        help="Exit with 5 only if more are malformed: a number, or a share of all (0.5%). If not given, 1% of a file "
        "or stream, and 0 of arguments.",
    )(function)
    return click.option("--ok-malformed", is_flag=True, help="Exit with 0 even if all are malformed.")(function)


def ok_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options for scripts that stop at any exit status but 0."""
    function = malformed_options(function)
    return click.option("--ok-uncovered", is_flag=True, help="Exit with 0 even if some are not covered.")(function)


@dataclass(slots=True)
class _Repeated:
    """How often a problem was met, and where last."""

    count: int
    last: str


class Tally:
    """Counts what became of addresses, and names the first malformed ones, a value once. Malformed beats not covered.

    ``found``, ``not_covered``, ``malformed`` and ``blank`` are counts. With ``ok_uncovered`` and ``ok_malformed`` the
    exit status does not tell of them, nor of malformed ones within ``max_malformed``. If that is None, it is 1 % if
    ``of_file``, else nothing.
    """

    def __init__(
        self,
        *,
        ok_uncovered: bool = False,
        ok_malformed: bool = False,
        max_malformed: Limit | None = None,
        of_file: bool = False,
    ) -> None:
        self.found = self.not_covered = self.malformed = self.blank = 0
        self._ok_uncovered = ok_uncovered
        self._ok_malformed = ok_malformed
        self._limit = Limit(share=1) if ok_malformed else max_malformed or Limit(share=0.01 if of_file else 0)
        self._named: dict[str, _Repeated] = {}
        self._others = 0

    @property
    def code(self) -> int:
        """The exit status."""
        if not self._limit.allows(self.malformed, self.total):
            return exit_codes.MALFORMED
        return exit_codes.NOT_COVERED if self.not_covered and not self._ok_uncovered else exit_codes.DONE

    @property
    def total(self) -> int:
        """All addresses but the blank ones."""
        return self.found + self.not_covered + self.malformed

    def bad(self, where: str, problem: str, count: int = 1) -> None:
        """Count a malformed address, or ``count`` alike; ``where`` is the (first) place, and may be empty."""
        self.malformed += count
        if (known := self._named.get(problem)) is not None:
            known.count += count
            known.last = where
        elif len(self._named) < NAMED:
            self._named[problem] = _Repeated(1, where)
            output.fail(f"{where}: {problem}" if where else problem)
            if count > 1:
                self._named[problem] = _Repeated(count, "")
        else:
            self._others += count

    def say_rest(self, more: int = 0) -> None:
        """Say how often problems were met that were named once, and how many were not named, ``more`` among them."""
        for problem, repeated in self._named.items():
            if repeated.count > 1:
                last = f", the last in {repeated.last}" if repeated.last else ""
                output.fail(f"{problem}: {repeated.count:,} times{last}")
        if more + self._others:
            output.fail(f"and {more + self._others:,} more are malformed")

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
        is_well = code == exit_codes.DONE and (self._ok_malformed or not self.malformed)
        if is_well and not sys.stderr.isatty():
            return
        blank = f", {self.blank:,} blank" if self.blank else ""
        output.note(
            f"geolookup: {self.total:,} address{'' if self.total == 1 else 'es'}: {self.found:,} found, "
            f"{self.not_covered:,} not covered, {self.malformed:,} malformed{blank}"
        )
