"""Whether to colour what is printed: on a terminal, unless NO_COLOR or --color says otherwise. Light: no imports."""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

CHOICES = ("auto", "always", "never")
_CODES = {"red": "31", "green": "32", "yellow": "33", "bold": "1"}
_chosen = "auto"


def choose(choice: str) -> None:
    """Take what ``--color`` says."""
    global _chosen
    _chosen = choice


def is_wanted(stream: "TextIO | None" = None) -> bool:
    """Whether to colour what goes to a stream, standard output if none is given (see https://no-color.org)."""
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
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if text and is_wanted(stream) else text
