"""``geolookup rate put``: rates and group rates, from a file to the service."""

import sys
from collections.abc import Iterator
from functools import partial
from typing import BinaryIO

import click

from geolookup.cli import exit_codes, inputs, output
from geolookup.cli.groups.lazy import LazyGroup
from geolookup.cli.options import format_option, load_service_settings, url_option
from geolookup.cli.service.records import exactly, records
from geolookup.errors import EditError, UpstreamError, UpstreamRefusedError
from geolookup.http.transport import Transport
from geolookup.upstream.rates import RatePlan, RatesClient

#: Of a line, and of an object that stands on several: far more than a service takes.
_MAX_BYTES = 1 << 20


@click.group(cls=LazyGroup)
def rate() -> None:
    """Send rates and group rates of hotels to the service.

    \b
    Example: geolookup rate put rates.ndjson
    """


@rate.command()
@click.argument("file")
@url_option
@format_option
def put(file: str, url: str | None, form: str) -> int:
    """Create or update the rate plans in FILE (- for standard input), one after the other.

    \b
    FILE holds one JSON object, or one on each line (NDJSON), with hotelId, ratePlanCode, type (rate
    or groupRate), name and currency; other members are kept as they are. The answer for each is
    created, updated or unchanged; putting FILE a second time changes nothing. A row that is malformed or that the
    service refuses is named on standard error, and the others are done.
    Exit status: 0 done, 5 some rows are malformed, 1 the service refused some (beats 5) or could
    not be used: putting FILE again continues.

    \b
    Example: geolookup rate put rates.ndjson
    """
    code = exit_codes.DONE
    with inputs.opened(file) as stream, Transport(load_service_settings(url)) as transport, records(form) as write:
        client = RatesClient(transport)
        name = inputs.shown(file)
        for line, text in _rows(stream):
            where = name if line is None else f"{name}, line {line}"
            try:
                plan = RatePlan.parse(text)
            except EditError as error:
                output.fail(f"{where}: {error}")
                write({"line": line, "outcome": "malformed", "error": str(error)}, _nothing)
                code = code or exit_codes.MALFORMED
                continue
            answer = {"line": line, "hotelId": plan.hotel_id, "ratePlanCode": plan.code}
            try:
                stored = client.put(plan)
            except UpstreamError as error:
                output.fail(f"{where}: {error}")
                code = exit_codes.FAILED
                if not isinstance(error, UpstreamRefusedError):
                    break  # the next would fail, too
                write({**answer, "outcome": "refused", "error": str(error)}, _nothing)
                continue
            write(
                {**answer, "outcome": stored.outcome, "ratePlan": exactly(stored.content)},
                partial(output.row, stored.outcome, plan.hotel_id, plan.code),
            )
            sys.stdout.flush()
    return code


def _nothing() -> None:
    """People read it on standard error."""


def _rows(stream: BinaryIO) -> Iterator[tuple[int | None, bytes]]:
    """The objects with their line, which is None for one that stands on several lines and is all there is."""
    lines = _lines(stream)
    held = []
    for number, line in lines:
        held.append((number, line))
        if _is_row(line):
            break
        # No row by itself: perhaps the beginning of an object that was written for people.
        held += _up_to(_MAX_BYTES - len(line), lines)
        whole = b"\n".join(line for _, line in held)
        if len(held) > 1 and _is_row(whole):
            yield None, whole
            held = []
        break
    yield from held
    yield from lines


def _is_row(text: bytes) -> bool:
    try:
        RatePlan.parse(text)
    except EditError as error:
        return not isinstance(error.__cause__, Exception)  # JSON, but not a rate plan
    return True


def _up_to(size: int, lines: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    while size >= 0 and (found := next(lines, None)) is not None:
        yield found
        size -= len(found[1]) + 1


def _lines(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers; of one that is too long, its beginning, which is not JSON."""
    number = 0
    while line := stream.readline(_MAX_BYTES):
        number += 1
        rest = line
        while not rest.endswith(b"\n") and len(rest) == _MAX_BYTES:
            rest = stream.readline(_MAX_BYTES)
            line = line[:60] + b"..." if rest else line
        if line.strip():
            yield number, line.strip().removeprefix(b"\xef\xbb\xbf")
