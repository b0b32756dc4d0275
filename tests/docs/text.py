"""Docstrings as Markdown."""

import inspect
import re

_RAISES = re.compile(r"^:raises (\w+): ", re.MULTILINE)
_ROLE = re.compile(r"(?<!`)``([^`]+)``(?!`)")


def markdown(documented: object) -> str:
    """The docstring of something: its code as Markdown has it, and what it raises as a list."""
    text = _ROLE.sub(r"`\1`", inspect.getdoc(documented) or "")
    return _RAISES.sub(r"- raises `\1`: ", text.replace(":returns: ", "- returns "))


def one_line(documented: object) -> str:
    """The docstring as one cell of a table."""
    return " ".join(markdown(documented).split()).replace("|", "\\|")
