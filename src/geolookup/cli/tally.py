"""What became of the addresses that a command was given: bad ones by name, sums at the end, the exit status."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

import click

from geolookup.cli import exit_codes, output

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
