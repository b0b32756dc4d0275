"""Records of the service as commands write them: text for people, JSON with every digit as the service sent it."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from geolookup.cli import output


@contextlib.contextmanager
def records(form: str) -> Iterator[Callable[[Any, Callable[[], None]], None]]:
    """A writer for one record after another: (the record for programs, what writes it for people).

    A JSON array is closed also if an error ends the command: what was done by then can be read.
    """
    count = 0

    def write(value: Any, as_text: Callable[[], None]) -> None:
        nonlocal count
        if form == "text":
            as_text()
        elif form == "ndjson":
            json_row(value)
        else:
            sys.stdout.write(f"{',' if count else '['}\n{output.json_line(value)}")
        count += 1

    try:
        yield write
    finally:
        if form == "json":
            sys.stdout.write("\n]\n" if count else "[]\n")


def json_row(value: Any) -> None:
    """A record for programs, on a line of its own, whatever its length."""
    sys.stdout.write(f"{output.json_line(value)}\n")


def exactly(content: bytes) -> msgspec.Raw:
    """JSON text to be written as part of a record, as it is."""
    return msgspec.Raw(content)


def members(content: bytes) -> dict[str, str]:
    """The members of an object's JSON text, each as JSON text."""
    found = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    return {name: bytes(member).decode("utf-8", "replace") for name, member in found.items()}
