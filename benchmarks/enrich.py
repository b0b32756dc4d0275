"""`geolookup enrich` from CSV to CSV and from NDJSON to NDJSON, beside Parquet: the same rows, and the same answers."""

import hashlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from benchmarks.common import MIB, ROOT, arguments, environment, load_average, print_table
from benchmarks.data import FULL, SMALL, DataSet
from benchmarks.figures import record
from geolookup.model.addresses import to_text

FORMS = ("parquet", "csv", "ndjson")


def _table(data: DataSet, rows: int) -> pa.Table:
    """Rows of a log: a number, the address of a visitor, a page."""
    rng = np.random.default_rng(1)
    blocks = rng.integers(0, len(data.first4), rows)
    pages = rng.integers(0, 10_000, rows)
    return pa.table(
        {
            "id": np.arange(rows),
            "ip": [to_text(4, address) for address in data.first4[blocks].tolist()],
            "path": [f"/page/{page}" for page in pages.tolist()],
        }
    )


def _write_ndjson(table: pa.Table, path: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        for batch in table.to_batches(65_536):
            lines = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            file.writelines(f'{{"id":{number},"ip":"{ip}","path":"{page}"}}\n' for number, ip, page in lines)


_WRITERS: dict[str, Callable[[pa.Table, str], object]] = {
    "parquet": parquet.write_table,
    "csv": csv.write_csv,
    "ndjson": _write_ndjson,
}


def _files(data: DataSet, rows: int) -> dict[str, str]:
    """The rows in each form."""

    def write(form: str, path: str) -> None:
        _WRITERS[form](_table(data, rows), path)

    return {form: data.made(f"rows-{rows}.{form}", lambda path, form=form: write(form, path)) for form in FORMS}  # type: ignore[misc]


def _run(source: str, target: str, home: str) -> tuple[float, float]:
    """Seconds, and seconds of the processor, of one run."""
    began = time.perf_counter()
    words = ["enrich", source, target, "--fields", "country,region,city", "--ok-uncovered"]
    process = subprocess.Popen(
        [sys.executable, "-m", "geolookup", *words], cwd=ROOT, env=environment(GEOLOOKUP_HOME=home)
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, process.returncode
    return time.perf_counter() - began, usage.ru_utime + usage.ru_stime


def _answers(form: str, path: str) -> str:
    """A digest of the answers in a file."""
    if form == "parquet":
        table = parquet.read_table(path, columns=["geo_city"])
    elif form == "csv":
        table = csv.read_csv(path, convert_options=csv.ConvertOptions(include_columns=["geo_city"]))
    else:
        from pyarrow import json

        table = json.read_json(path)
    texts = table.column("geo_city").cast(pa.string()).fill_null("").to_pylist()
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000, help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    options = parser.parse_args()
    data = DataSet(SMALL if options.small else FULL, options.data)
    home, files = data.home, _files(data, options.rows)
    outs = {form: os.path.join(data.folder, f"enriched.{form}") for form in FORMS}
    _run(files["parquet"], outs["parquet"], home)  # the fingerprint is computed once for a state
    found: dict[str, list[tuple[float, float]]] = {form: [] for form in FORMS}
    for number in range(options.rounds):
        for form in FORMS[:: -1 if number % 2 else 1]:
            found[form].append(_run(files[form], outs[form], home))
    digests = {form: _answers(form, outs[form]) for form in FORMS}
    assert len(set(digests.values())) == 1, digests
    rows = []
    for form, runs in found.items():
        wall, processor = (statistics.median(each) for each in zip(*runs, strict=True))
        ratios = [
            statistics.median(ours[what] / theirs[what] for ours, theirs in zip(runs, found["parquet"], strict=True))
            for what in (0, 1)
        ]
        record(f"enrich/{form}/s", wall)
        record(f"enrich/{form}/CPU s", processor)
        size = os.path.getsize(files[form]) / MIB
        rows.append(
            (f"{form}, {size:.0f} MiB", f"{wall:.1f}", f"{processor:.1f}", *(f"{ratio:.2f}" for ratio in ratios))
        )
        os.unlink(outs[form])
    print_table(
        f"enrich: {options.rows:,} rows to country, region and city, on {data.size.v4:,} IPv4 ranges",
        ("from and to", "s", "CPU s", "times Parquet's s", "times its CPU s"),
        rows,
        f"medians of {options.rounds} rounds, ratios of pairs; the answers are the same; load average {load_average()}",
    )


if __name__ == "__main__":
    main()
