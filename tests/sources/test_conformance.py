"""What every kind of source does: good rows, bad rows, and whatever else a file may be."""

import gzip
import random
from functools import partial
from pathlib import Path

import pytest

from geolookup.files.streams import Limits
from geolookup.model.errors import DataFileError, GeoLookupError, PullError
from geolookup.sources.detect import KINDS, open_source
from tests.support.data.source_files import EXAMPLE_KINDS, Example, examples, in_order
from tests.support.data.source_files import read_all as read_layers

read_all = partial(read_layers, networks=True)

_TEXT_KINDS = [at for at, kind in enumerate(EXAMPLE_KINDS) if kind != "mmdb"]
_names = [f"{kind}-{at}" for at, kind in enumerate(EXAMPLE_KINDS)]


@pytest.fixture(params=range(len(EXAMPLE_KINDS)), ids=_names)
def example(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Example:
    """Each example in turn."""
    return examples(tmp_path_factory.mktemp("examples"))[request.param]


@pytest.fixture(params=_TEXT_KINDS, ids=[_names[at] for at in _TEXT_KINDS])
def text_example(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Example:
    """Each example that is text."""
    return examples(tmp_path_factory.mktemp("examples"))[request.param]


def test_every_kind_that_is_told_by_content_has_an_example() -> None:
    assert {kind.name for kind in KINDS} - {"registry"} == set(EXAMPLE_KINDS)


def test_the_kind_is_told_by_content_and_every_block_comes(example: Example, tmp_path: Path) -> None:
    path = example.write(tmp_path)
    with open_source(path) as reading:
        assert reading.kind == example.kind
    blocks, gathered = read_all(path)
    assert in_order(blocks) == in_order(example.blocks)
    assert gathered.bad == 0
    assert gathered.blocks + gathered.network_blocks == len(example.blocks)
    assert gathered.masks == sum(place is None for _, _, place in example.blocks)


def test_a_forced_kind_reads_the_same(example: Example, tmp_path: Path) -> None:
    blocks, _ = read_all(example.write(tmp_path), kind=example.kind)
    assert in_order(blocks) == in_order(example.blocks)


@pytest.mark.parametrize("form", ["gzipped", "zipped", "tarred", "zipped twice"])
def test_compressed_files_are_read_whatever_their_name(example: Example, tmp_path: Path, form: str) -> None:
    if form == "gzipped" and len(example.files) > 1:
        pytest.skip("gzip holds one file")
    path = tmp_path / "download"
    path.write_bytes(gzip.compress(example.tarred()) if form == "zipped twice" else getattr(example, form)())
    blocks, gathered = read_all(path)
    assert in_order(blocks) == in_order(example.blocks)
    assert gathered.bad == 0


def test_a_cut_archive_is_always_refused(example: Example, tmp_path: Path) -> None:
    path = tmp_path / "download"
    archives = [example.zipped(), example.tarred(), *([example.gzipped()] if len(example.files) == 1 else [])]
    for content in archives:
        for length in {*range(1, len(content), max(1, len(content) // 25)), len(content) - 1, len(content) - 9}:
            path.write_bytes(content[:length])
            with pytest.raises(GeoLookupError):
                read_all(path)


def test_a_file_that_ends_early_is_refused_or_gives_what_stands_before(text_example: Example, tmp_path: Path) -> None:
    whole = text_example.files[text_example.main]
    before = in_order(text_example.blocks)
    for length in {*range(0, len(whole), 7), *range(max(0, len(whole) - 80), len(whole))}:
        path = text_example.write(tmp_path, main=whole[:length])
        try:
            blocks, gathered = read_all(path)
        except GeoLookupError:
            continue
        # The row that was cut may be bad, or end with less text; all others are as they were.
        strange = [block for block in blocks if block not in before]
        assert len(strange) <= 1
        assert gathered.bad <= 1


def test_a_cut_mmdb_is_always_refused(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    example = examples(tmp_path_factory.mktemp("examples"))[0]
    whole = example.files[example.main]
    for length in range(0, len(whole), 17):
        path = example.write(tmp_path, main=whole[:length])
        for kind in (None, "mmdb"):
            with pytest.raises(GeoLookupError):
                read_all(path, kind=kind)


def test_the_wrong_kind_is_an_error(example: Example, tmp_path: Path) -> None:
    path = example.write(tmp_path)
    for kind in KINDS:
        if kind.name in (example.kind, "registry"):
            continue
        if (example.kind, kind.name) == ("geolite2-csv", "ranges-csv"):
            continue  # its blocks have a column `network`, and a postal code
        with pytest.raises(GeoLookupError):
            read_all(path, kind=kind.name)


def test_an_empty_file_and_random_bytes_are_errors(example: Example, tmp_path: Path) -> None:
    noise = random.Random(example.kind)
    for content in (b"", b"\n\n", b"\xef\xbb\xbf", noise.randbytes(3000), bytes(5000)):
        path = tmp_path / "input"
        path.write_bytes(content)
        for kind in (None, example.kind):
            with pytest.raises(GeoLookupError):
                read_all(path, kind=kind)


def test_a_missing_file_and_an_empty_folder_are_errors(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="nowhere: reading failed"):
        read_all(tmp_path / "nowhere")
    with pytest.raises(DataFileError, match="it holds no files"):
        read_all(tmp_path)


def test_a_bad_row_is_left_out_and_named_and_many_stop_the_pull(text_example: Example, tmp_path: Path) -> None:
    if text_example.bad_row is None:
        pytest.skip("a JSON list has no lines")
    whole = text_example.files[text_example.main]
    path = text_example.write(tmp_path, main=whole + text_example.bad_row)
    blocks, gathered = read_all(path)
    assert in_order(blocks) == in_order(text_example.blocks)
    assert gathered.bad == 1
    (bad,) = gathered.bad_rows
    assert bad.line == whole.count(b"\n") + 1
    assert bad.reason
    rows = text_example.bad_row * 11
    path = text_example.write(tmp_path, main=whole + rows)
    with pytest.raises(PullError, match=r"11 of \d+ rows are bad, more than 10; the first: .*line \d+"):
        read_all(path, kind=text_example.kind)
    blocks, gathered = read_all(path, kind=text_example.kind, lenient=True)
    assert in_order(blocks) == in_order(text_example.blocks)
    assert gathered.bad == 11


def test_a_file_of_bad_rows_only_is_refused(text_example: Example, tmp_path: Path) -> None:
    if text_example.bad_row is None or text_example.kind == "geolite2-csv":
        pytest.skip("a JSON list has no lines, and GeoLite2 has good rows in another file")
    path = text_example.write(tmp_path, main=text_example.bad_row)
    with pytest.raises(GeoLookupError):
        read_all(path, kind=text_example.kind)


def test_a_huge_field_is_a_bad_row_and_a_huge_line_an_error(text_example: Example, tmp_path: Path) -> None:
    if text_example.long_row is None:
        pytest.skip("this kind has no free text")
    whole = text_example.files[text_example.main]
    for size in (70_000, 200_000):
        path = text_example.write(tmp_path, main=whole + text_example.long_row("x" * size).encode())
        blocks, gathered = read_all(path)
        assert in_order(blocks) == in_order(text_example.blocks)
        assert gathered.bad == 1
    if text_example.kind != "list":
        path = text_example.write(tmp_path, main=whole + text_example.long_row("x" * (2 << 20)).encode())
        with pytest.raises(DataFileError, match="the line has more than"):
            read_all(path)


def test_byte_order_mark_carriage_returns_and_blank_lines_change_nothing(text_example: Example, tmp_path: Path) -> None:
    whole = text_example.files[text_example.main].replace(b"\n", b"\r\n") + b"\r\n\r\n"
    path = text_example.write(tmp_path, main=b"\xef\xbb\xbf" + whole)
    blocks, gathered = read_all(path)
    assert in_order(blocks) == in_order(text_example.blocks)
    assert gathered.bad == 0


def test_more_than_the_limits_is_refused(example: Example, tmp_path: Path) -> None:
    path = example.write(tmp_path)
    archive = tmp_path / "archive"
    archive.write_bytes(example.zipped())
    for small in (Limits(expanded_bytes=40), Limits(members=0)):
        with pytest.raises(DataFileError, match="more than"):
            read_all(archive, limits=small)
    if example.kind != "mmdb":
        with pytest.raises(DataFileError, match="more than 40 bytes"):
            read_all(path, limits=Limits(expanded_bytes=40))
    archive.write_bytes(gzip.compress(gzip.compress(gzip.compress(gzip.compress(b"192.0.2.0/24,US,,,\n")))))
    with pytest.raises(DataFileError, match="compressed more than 3 times over"):
        read_all(archive)


def test_a_file_that_expands_without_end_is_refused(example: Example, tmp_path: Path) -> None:
    path = tmp_path / "bomb"
    first = example.files[example.main]
    path.write_bytes(gzip.compress(first + b"\n" * (3 << 17)))
    with pytest.raises(GeoLookupError) as caught:
        read_all(path, kind=example.kind, limits=Limits(ratio_from_bytes=1 << 17))
    if len(example.files) == 1:
        assert "expands to more than 200 times its size" in str(caught.value)
