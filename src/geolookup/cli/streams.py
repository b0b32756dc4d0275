"""Standard output and error: prepared, coloured on terminals, what follows if writing fails; the line for an address.

Light, since ``geolookup 8.8.8.8`` needs this module and little else.
"""

import codecs
import errno
import os
import sys

from geolookup.base.text import harmless, place_text
from geolookup.cli import exit_codes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO

COLOURS = ("auto", "always", "never")
_CODES = {"red": "31", "green": "32", "yellow": "33", "bold": "1"}
_chosen = "auto"
_MAX_LENGTH = 10_000
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


def show_usage_error(error: "Any") -> None:
    """An error of click, with its usage and its hint: it may name what was given, and that is made harmless.

    If writing it fails, nobody can be told: what is left of it must not be written, and fail, once more as Python ends.
    """
    text = harmless(error.format_message(), _MAX_LENGTH)
    error.format_message = lambda: text
    try:
        error.show()
        sys.stderr.flush()
    except OSError:
        _discard(sys.stderr)


def note(text: str, before: str = "", style: str = "bold") -> None:
    """Anything that is not a result, on one line of standard error. If writing it fails, nobody can be told.

    Names of files may be in the text: a line feed in one must not begin a line that seems to be ours. ``before`` is
    written before it, in a style if that is a terminal.
    """
    try:
        sys.stderr.write(painted(before, style, sys.stderr) + harmless(text, _MAX_LENGTH) + "\n")
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


# Colours


def choose_colour(choice: str) -> None:
    """Colour from now on as ``--color`` says: always, never, or (auto) on terminals."""
    global _chosen
    _chosen = choice


def colour_is_wanted(stream: "TextIO | None" = None) -> bool:
    """True if a stream is to be coloured, standard output if none is given (see https://no-color.org)."""
    if _chosen != "auto":
        return _chosen == "always"
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return _is_terminal(sys.stdout if stream is None else stream)


def _is_terminal(stream: "TextIO") -> bool:
    try:
        return stream.isatty()
    except (AttributeError, ValueError):  # a test's stand-in, or closed
        return False


def painted(text: str, style: str, stream: "TextIO | None" = None) -> str:
    """Text in a style (red, green, yellow, bold) if colours are wanted; it must be harmless already."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if text and colour_is_wanted(stream) else text


# The line for an address


def match_line(
    address: str,
    *,
    locid: int,
    country: str,
    region: str,
    city: str,
    postalcode: str,
    first: str,
    last: str,
    layer: str,
    pending: bool,
    more: "tuple[str, ...]" = (),
    network: str = "",
    site: str = "",
    vrf: str = "",
) -> str:
    """Address, place (behind the name of its ``site``), range, origin (with its ``vrf``) and ``more``, between tabs.

    On a terminal the origin stands last, and only if it is custom or pending: `explain` tells the number. ``network``,
    the words of `network_text`, is at the end there, and nowhere else.
    """
    place = place_text(map(harmless, (city, region, postalcode, country)))
    place = f"{harmless(site)}: {place}" if site else place
    waits = (f", VRF {harmless(vrf)}" if vrf else "") + (", pending" if pending else "")
    cells = [harmless(address), place, f"{first}-{last}"]
    if not _is_terminal(sys.stdout):
        cells += [f"{layer} {locid}{waits}", *more]
    elif layer == "custom" or pending:
        cells += [*more, f"{layer}{waits}"]
    else:
        cells += more
    if network and shows_networks():
        cells.append(network)
    return "\t".join(cells)


def harmless_lines(text: str) -> str:
    """The text of a file, made harmless for a terminal line by line: its line feeds stay."""
    return "\n".join([harmless(line, _MAX_LENGTH) for line in text.split("\n")])


def not_covered_line(address: str, network: str = "") -> str:
    """The line for an address that no block covers; ``network`` is what is known of it all the same."""
    return f"{harmless(address)}\t{f'no place, {network}' if network else 'not covered'}"


def shows_networks() -> bool:
    """True if the line for a place has the words for its network too: on a terminal."""
    return _is_terminal(sys.stdout)


def malformed_line(address: str) -> str:
    """The line for text that is not an address."""
    return f"{harmless(address)}\tmalformed"
