"""``geolookup enrich IN OUT``: a file of rows, written again with the geolocation of each row's address."""

import contextlib
import os
import sys
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import click

from geolookup.cli import inputs, output
from geolookup.columns.fields import DEFAULT_FIELDS, FIELDS, checked_fields
from geolookup.exports.target import open_target
from geolookup.lookup import open as opening
from geolookup.sources.files.compression import compression_named

if TYPE_CHECKING:
    from geolookup.columns.readers import Form, Reader

FORMS = ("csv", "ndjson", "parquet")
_BY_END = {".csv": "csv", ".ndjson": "ndjson", ".jsonl": "ndjson", ".parquet": "parquet", ".pq": "parquet"}


@click.command()
@click.argument("source", metavar="IN")
@click.argument("target", metavar="OUT")
@click.option("--column", default="ip", show_default=True, help="The column with the addresses.")
@click.option(
    "--fields",
    default=",".join(DEFAULT_FIELDS),
    show_default=True,
    help=f"The fields to add, separated by commas, from: {', '.join(FIELDS)}.",
)
@click.option("--prefix", default="geo_", show_default=True, help="What the new columns' names begin with.")
@click.option("--in-format", type=click.Choice(FORMS), help="The format of IN, if its name does not tell.")
@click.option(
    "--out-format", type=click.Choice(FORMS), help="The format of OUT, if its name does not tell; else that of IN."
)
@click.option(
    "--threads",
    type=click.IntRange(1, 64),
    default=min(4, os.cpu_count() or 1),
    show_default=True,
    help="How many threads look up.",
)
def enrich(
    source: str,
    target: str,
    column: str,
    fields: str,
    prefix: str,
    in_format: "Form | None",
    out_format: "Form | None",
    threads: int,
) -> int:
    """Write the rows of IN to OUT with the geolocation of each row's address.

    \b
    Reads and writes CSV, NDJSON and Parquet of any length in constant memory; - is standard input
    or output. gzip, Zstandard, bzip2 and xz are decompressed; a name that ends in .gz, .zst, .bz2 or .xz
    is written compressed. From CSV to CSV, and from NDJSON to NDJSON, every byte of a row is kept and the
    answers are added at its end. OUT appears once it is complete. Needs pyarrow: pip install 'geolookup[arrow]'.
    Exit status: 0 all covered, 4 some not covered, 5 some rows malformed (named on standard error;
    their answers are empty).

    \b
    Examples:
      geolookup enrich visits.csv visits-geo.csv --column client
      geolookup enrich log.ndjson.gz log.parquet
    """
    names = checked_fields(fields)
    read_as = in_format or _form(source)
    if read_as is None:
        raise click.UsageError(f"{source}: say with --in-format which format it has: {', '.join(FORMS)}")
    write_as = out_format or _form(target) or (read_as if target == "-" else None)
    if write_as is None:
        raise click.UsageError(f"{target}: say with --out-format which format to write: {', '.join(FORMS)}")
    from geolookup.columns.writers import open_writer

    with contextlib.ExitStack() as stack:
        stream = stack.enter_context(inputs.opened(source))
        reader = _reader(source, stream, read_as, column, [prefix + name for name in names], as_is=read_as == write_as)
        out = stack.enter_context(_target(target))
        writer = open_writer(write_as, out, reader, names, prefix, terminal=target == "-" and sys.stdout.isatty())
        try:
            code = _run(inputs.shown(source), reader, writer, column, names, threads)
            writer.close()
            out.flush()
        except BaseException:
            writer.abandon()
            raise
    return code


def _run(name: str, reader: "Reader", writer: Any, column: str, names: tuple[str, ...], threads: int) -> int:
    from geolookup.columns.arrow import locate_each

    exits = output.Exits()
    waiting: deque[Any] = deque()

    def columns() -> Iterator[Any]:
        for chunk in reader.chunks():
            waiting.append(chunk)
            yield chunk.batch.column(column) if column in chunk.batch.schema.names else _nothing(chunk)

    done = 0
    with opening.open() as geo, output.progress("enriching") as progress:
        for located in locate_each(geo, columns(), names, threads=threads):
            chunk = waiting.popleft()
            problems = [(chunk.lines[row] if chunk.raw is not None else row, what) for row, what in chunk.bad]
            problems += [(chunk.lines[row], located.reason(row)) for row in located.malformed.tolist()]
            for line, what in sorted(problems):
                exits.malformed(f"{name}, {reader.word} {line}: {what}")
            if located.not_covered:
                exits.not_covered()
            writer.write(chunk, located.batch)
            done += chunk.batch.num_rows
            progress(done, reader.rows)
    return exits.code


def _nothing(chunk: Any) -> Any:
    """The column of addresses for rows without the address' member."""
    from geolookup.columns.arrowlib import pa

    return pa.nulls(chunk.batch.num_rows)


def _form(name: str) -> Any:
    """What a file's name says of its format."""
    return _BY_END.get(os.path.splitext(_plain_name(name))[1].lower())


def _plain_name(name: str) -> str:
    compression = compression_named(name)
    return name if compression is None else name[: -len(compression.end)]


def _reader(name: str, stream: BinaryIO, form: "Form", column: str, added: list[str], *, as_is: bool) -> "Reader":
    from geolookup.columns.readers import CsvReader, NdjsonReader, ParquetReader

    shown = inputs.shown(name)
    if form == "csv":
        return CsvReader(shown, stream, column=column, added=added, as_is=as_is)
    if form == "ndjson":
        return NdjsonReader(shown, stream, column=column, added=added, as_is=as_is)
    if not stream.seekable():
        raise click.UsageError(f"{shown}: Parquet is read from its end: give the name of a file that is not compressed")
    return ParquetReader(shown, stream, column=column, added=added)


@contextlib.contextmanager
def _target(name: str) -> Iterator[BinaryIO]:
    if name == "-":
        yield sys.stdout.buffer
        return
    compression = compression_named(name)
    with open_target(name) as out:
        if compression is None:
            yield out
            return
        with compression.writer(out) as compressed:
            yield cast("BinaryIO", compressed)
