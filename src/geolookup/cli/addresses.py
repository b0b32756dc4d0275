"""Addresses from a file or a stream of any length, one a line."""

import codecs
import sys
from collections.abc import Iterator
from typing import BinaryIO

import click

#: No address is longer, and a line without an end must not fill the memory.
_MAX_LINE_BYTES = 4096


def read_addresses(name: str) -> Iterator[tuple[str, str]]:
    """Every address of a file, one a line, with where it stands; ``-`` is standard input."""
    if name == "-":
        yield from _lines("standard input", sys.stdin.buffer)
        return
    try:
        stream = open(name, "rb")  # noqa: SIM115 - closed below; the with would have the reading in the try
    except OSError as error:
        raise click.UsageError(f"{name}: cannot be read: {error.strerror}") from error
    with stream:
        yield from _lines(name, stream)


def _lines(name: str, stream: BinaryIO) -> Iterator[tuple[str, str]]:
    number = 0
    while line := stream.readline(_MAX_LINE_BYTES):
        number += 1
        rest = line
        while not rest.endswith(b"\n") and len(rest) == _MAX_LINE_BYTES:
            rest = stream.readline(_MAX_LINE_BYTES)
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        address = line.decode("utf-8", "replace").strip()
        if address:
            yield f"{name}, line {number}: ", address
