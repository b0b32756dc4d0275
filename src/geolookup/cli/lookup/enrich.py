"""``geolookup enrich IN OUT``: a file of rows, written again with what is known of each row's address."""

import contextlib
import io
import os
import sys
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import click

from geolookup.cli import inputs, interrupt, output
from geolookup.cli.inputs import Tally, ok_options
from geolookup.cli.lookup.unsaid import warn_of_unsaid
from geolookup.cli.options import as_of_option, delimiter_option, sheet_option, vrf_option
from geolookup.columns.common import DEFAULT_FIELDS, FIELDS, checked_fields
from geolookup.exports.target import open_target
from geolookup.files.converted import guessed
from geolookup.files.formats import compression_named
from geolookup.files.lines import FromCp1252
from geolookup.files.opened import SheetStream, name_of_sheet
from geolookup.lookup.asked import Pick, read_field
from geolookup.model.errors import ColumnError
from geolookup.sync import opening

if TYPE_CHECKING:
    from geolookup.columns.arrow_index import ArrowIndex
    from geolookup.columns.readers import Form, Reader
    from geolookup.lookup.engine import GeoLookup

FORMS = ("csv", "ndjson", "parquet")
_BY_END = {
    ".csv": "csv",
    ".tsv": "csv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".parquet": "parquet",
    ".pq": "parquet",
}
#: The ends of the names of workbooks, which are read as CSV and not written.
_WORKBOOKS = (".xlsx", ".ods")


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
@delimiter_option("What stands between the values of CSV. In IN it is found by the header if this is not given.")
@sheet_option
@click.option(
    "--pick",
    type=click.Choice(["first", "last"]),
    default="first",
    show_default=True,
    help="Which address of a list is meant: that of X-Forwarded-For begins with the client, as it says itself.",
)
@click.option(
    "--threads",
    type=click.IntRange(1, 64),
    default=min(4, os.cpu_count() or 1),
    show_default=True,
    help="How many threads look up.",
)
@as_of_option
@vrf_option
@click.option(
    "--vrf-from",
    metavar="COLUMN",
    help="The column that names the routing domain (VRF) of each row's address; rows without one have that of --vrf.",
)
@ok_options
def enrich(
    source: str,
    target: str,
    column: str,
    fields: str,
    prefix: str,
    in_format: "Form | None",
    out_format: "Form | None",
    delimiter: str | None,
    sheet: str | None,
    pick: Pick,
    threads: int,
    as_of: str | None,
    vrf: str | None,
    vrf_from: str | None,
    **ok: Any,
) -> int:
    """Write the rows of IN to OUT with where each row's address is, and who runs it.

    \b
    Reads and writes CSV, NDJSON and Parquet of any length in constant memory; - is standard input
    or output. A workbook (.xlsx, .ods) is read, and not written.
    gzip, Zstandard, bzip2 and xz are decompressed; a name that ends in .gz, .zst, .bz2 or .xz
    is written compressed. From CSV to CSV, and from NDJSON to NDJSON, every byte of a row is kept and the
    answers are added at its end. The columns of CSV and of a sheet may stand below titles, and the one with
    the addresses is found by likeness (IP-Adresse); rows in cp1252, as Windows writes them, become UTF-8.
    Both is said. OUT appears once it is complete. Needs pyarrow: pip install 'geolookup[arrow]'.
    Ports, brackets, quotes and blanks around an address are left out. The columns have the same names and
    values as elsewhere; what no source says is empty (null). Parquet has the fingerprint of the data, and the
    sources with their dates and licences, in its metadata. Exit status: 0 all covered, 4 some not covered
    (by what the fields are about: a place, or the facts of a network such as asn), 5 more than 1 %
    of the rows malformed (or more than --max-malformed says; named on standard error, a value once, and their
    answers are empty), or 0 with --ok-uncovered and --ok-malformed.

    \b
    Examples:
      geolookup enrich visits.csv visits-geo.csv --column client
      geolookup enrich log.ndjson.gz log.parquet
      geolookup enrich visits.parquet visits-geo.parquet --as-of 2026-02-01
      geolookup enrich flows.csv flows-geo.csv --vrf-from vrf
      geolookup enrich visits.csv visits-geo.csv --max-malformed 20 --ok-uncovered
      geolookup enrich log.csv out.csv --fields country,time_zone,asn,as_organization,is_hosting_provider
    """
    names = checked_fields(fields)
    read_as = in_format or ("csv" if _plain_name(source).lower().endswith(_WORKBOOKS) else _form(source))
    if read_as is None:
        raise click.UsageError(f"{source}: say with --in-format which format it has: {', '.join(FORMS)}")
    write_as = out_format or _form(target) or (read_as if target == "-" else None)
    if write_as is None:
        raise click.UsageError(f"{target}: say with --out-format which format to write: {', '.join(FORMS)}")
    from geolookup.columns.arrow import answers_and_provenance, answers_of
    from geolookup.columns.blocks import BLOCK_BYTES
    from geolookup.columns.readers import CsvReader
    from geolookup.columns.writers import open_writer

    shown = inputs.shown(source)
    tally = Tally(of_file=True, **ok)
    interrupt.writing_to(target)
    with contextlib.ExitStack() as stack:
        stream = stack.enter_context(inputs.opened(source, sheet=sheet))
        word = "line"
        if isinstance(stream, SheetStream):
            shown, word = name_of_sheet(shown, stream.sheet), "row"
        from_cp1252 = FromCp1252(stream)
        if read_as == "csv":
            stream = io.BufferedReader(from_cp1252, BLOCK_BYTES)
        # The column of VRFs is read too, so rows are written anew.
        as_is = vrf_from is None and read_as == write_as and (target == "-" or _is_tsv(source) == _is_tsv(target))
        reader = _reader(
            shown,
            stream,
            read_as,
            column,
            [prefix + name for name in names],
            as_is=as_is,
            delimiter=delimiter or ("\t" if _is_tsv(source) else None),
            word=word,
        )
        column = reader.column
        if isinstance(reader, CsvReader):
            for told in reader.said:
                output.note(told)
        geo = stack.enter_context(opening.open_or_build(as_of=as_of, vrf=vrf))
        warn_of_unsaid(geo, names)
        answers, metadata = (
            answers_and_provenance(geo, names) if write_as == "parquet" else (answers_of(geo, names), {})
        )
        out = stack.enter_context(_target(target))
        writer = open_writer(
            write_as,
            out,
            reader,
            names,
            prefix,
            terminal=target == "-" and sys.stdout.isatty(),
            delimiter=_delimiter_of(target, reader, delimiter, as_is=as_is),
            metadata=metadata,
        )
        try:
            with tally.sums():
                _run(
                    shown,
                    reader,
                    writer,
                    answers,
                    column,
                    names,
                    pick=pick,
                    threads=threads,
                    tally=tally,
                    vrfs=None if vrf_from is None else (geo, vrf_from),
                )
            writer.close()
            out.flush()
        except BaseException:
            writer.abandon()
            raise
        if from_cp1252.guessed:
            output.note(guessed(shown, word, from_cp1252.guessed))
    return tally.code


def _run(
    name: str,
    reader: "Reader",
    writer: Any,
    answers: "ArrowIndex",
    column: str,
    names: tuple[str, ...],
    *,
    pick: Pick,
    threads: int,
    tally: Tally,
    vrfs: "tuple[GeoLookup, str] | None",
) -> None:
    from geolookup.columns.arrow import locate_each, locate_in_vrfs
    from geolookup.columns.common import Doubt, column_named, means

    waiting: deque[Any] = deque()

    def columns() -> Iterator[Any]:
        for chunk in reader.chunks():
            waiting.append(chunk)
            yield chunk.batch.column(column) if column in chunk.batch.schema.names else _nothing(chunk)

    def reread(text: str) -> str | None:
        return next(iter(read_field(text, pick)), None)

    doubt = Doubt(column_named(column), reader.sample, means(reread))

    def ask(*, ended: bool) -> None:
        if question := doubt.question(ended=ended):
            output.warn(f"{name}: {question}")

    def located_in_vrfs(geo: "GeoLookup", of: str) -> Iterator[Any]:
        before = 0
        for addresses in columns():
            batch = waiting[-1].batch
            if of not in batch.schema.names:
                raise ColumnError(f"unknown column {of!r}: the columns are {', '.join(map(repr, batch.schema.names))}")
            yield locate_in_vrfs(geo, addresses, batch.column(of), names, reread=reread, before=before)
            before += len(addresses)

    found: Iterator[Any] = (
        locate_each(None, columns(), names, threads=threads, reread=reread, answers=answers)
        if vrfs is None
        else located_in_vrfs(*vrfs)
    )
    done = 0
    with output.progress("enriching", "row") as progress:
        for located in found:
            chunk = waiting.popleft()
            problems = chunk.problems()
            problems += [(chunk.lines[row], located.reason(row)) for row in located.malformed.tolist()]
            for line, what in sorted(problems):
                tally.bad(f"{name}, {reader.word} {line}", what)
            tally.not_covered += located.not_covered
            tally.blank += located.absent - (len(chunk.bad) if chunk.records is not None else 0)
            tally.found += len(located.column) - len(located.malformed) - located.not_covered - located.absent
            located.count_in(doubt)
            ask(ended=False)
            writer.write(chunk, located.batch)
            done += chunk.batch.num_rows
            progress(done, reader.rows)
    ask(ended=True)


def _nothing(chunk: Any) -> Any:
    """The column of addresses for rows without the address' member."""
    from geolookup.columns.arrow_addresses import pa

    return pa.nulls(chunk.batch.num_rows)


def _form(name: str) -> Any:
    """The format that a file's name tells; None if it tells none."""
    return _BY_END.get(os.path.splitext(_plain_name(name))[1].lower())


def _plain_name(name: str) -> str:
    compression = compression_named(name)
    return name if compression is None else name[: -len(compression.end)]


def _is_tsv(name: str) -> bool:
    return _plain_name(name).lower().endswith(".tsv")


def _delimiter_of(target: str, reader: "Reader", given: str | None, *, as_is: bool) -> str:
    """The delimiter of the target, if that is CSV."""
    from geolookup.columns.readers import CsvReader

    if as_is and isinstance(reader, CsvReader):
        return reader.delimiter
    return "\t" if _is_tsv(target) else given or ","


def _reader(
    shown: str,
    stream: BinaryIO,
    form: "Form",
    column: str,
    added: list[str],
    *,
    as_is: bool,
    delimiter: str | None,
    word: str,
) -> "Reader":
    from geolookup.columns.json_rows import NdjsonReader
    from geolookup.columns.readers import CsvReader, ParquetReader

    if form == "csv":
        return CsvReader(shown, stream, column=column, added=added, as_is=as_is, delimiter=delimiter, word=word)
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
