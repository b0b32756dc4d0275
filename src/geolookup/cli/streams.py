"""Standard output and error: made ready before anything is written, and what happens if writing fails.

Light, since ``geolookup 8.8.8.8`` passes here too.
"""

import codecs
import errno
import os
import sys

from geolookup.cli import colour, exit_codes
from geolookup.cli.plain import harmless_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO

_ESCAPES = "geolookup-escapes"


def prepare() -> None:
    r"""Make the standard streams fit for any text, whether or not they are open.

    A character that a stream's encoding does not have is written as ``\uXXXX``: legible in text, and still the same
    character in JSON.
    """
    codecs.register_error(_ESCAPES, _escaped)
    # A stream that is closed is None, and its number would go to the next file that is opened: a write to standard
    # output could end in a database. This one refuses what is written to it, so that the loss is noticed.
    if sys.stdin is None:
        sys.stdin = _stand_in(0, os.O_RDONLY, "r")
    if sys.stdout is None:
        sys.stdout = _stand_in(1, os.O_RDONLY, "w")
    if sys.stderr is None:
        sys.stderr = _stand_in(2, os.O_WRONLY, "w")  # nobody could be told of the loss
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)  # a test's stand-in has none
        if reconfigure is not None:
            reconfigure(errors=_ESCAPES)


def _stand_in(number: int, flags: int, mode: str) -> "Any":
    descriptor = os.open(os.devnull, flags)
    if descriptor != number:
        os.dup2(descriptor, number)
        os.close(descriptor)
    return open(number, mode, encoding="utf-8", closefd=False)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join([f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2)]), error.end


def fail(text: str) -> None:
    """An error, on standard error."""
    note(text, "geolookup: ", "red")


def note(text: str, before: str = "", style: str = "bold") -> None:
    """Anything that is not a result, on standard error. If writing it fails, nobody can be told.

    ``before`` is written before it, in a style if that is a terminal.
    """
    try:
        sys.stderr.write(colour.painted(before, style, sys.stderr) + harmless_lines(text) + "\n")
        sys.stderr.flush()
    except OSError:
        _discard(sys.stderr)


def finished(code: int) -> int:
    """Write what is still in memory, and return the exit status: ``code``, or 1 if writing fails."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return failed(error)
    return code


def failed(error: OSError) -> int:
    """The exit status after standard output could not be written: 0 for a closed pipe, whose reader had enough."""
    # Else Python would try once more at its end, and complain in its own words.
    _discard(sys.stdout)
    if isinstance(error, BrokenPipeError):
        return exit_codes.DONE
    reason = "standard output is closed" if error.errno == errno.EBADF else error.strerror or str(error)
    fail(f"writing the result failed: {reason}")
    return exit_codes.FAILED


def _discard(stream: "TextIO") -> None:
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        pass  # a test's stand-in is not a file
