"""What commands read: a file or standard input, decompressed if its first bytes say so, in UTF-8."""

import codecs
import contextlib
import sys
from collections.abc import Iterator
from typing import BinaryIO

import click

from geolookup.files.content import content_of

#: No address is longer, and a line without an end must not fill the memory.
_MAX_LINE_BYTES = 4096


def shown(name: str) -> str:
    """How messages call a file that is read."""
    return "standard input" if name == "-" else name


@contextlib.contextmanager
def opened(name: str) -> Iterator[BinaryIO]:
    """The bytes of a file, decompressed; ``-`` is standard input, which stays open.

    :raises click.UsageError: if the file cannot be opened
    :raises DataFileError: if it is an archive, or UTF-16
    :raises MissingExtraError: if decompressing it needs a package that is not installed
    """
    if name == "-":
        yield content_of(shown(name), sys.stdin.buffer)
        return
    try:
        stream = open(name, "rb")  # noqa: SIM115 - closed below; the with would have the reading in the try
    except OSError as error:
        raise click.UsageError(f"{name}: cannot be read: {error.strerror}") from error
    with stream:
        yield content_of(name, stream)


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
