"""The service's list as batches, and columns of blocks in an index."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from geolookup.index.builder import IndexBuilder
from geolookup.index.reader import IndexReader
from geolookup.model.errors import IndexFileError, PullError
from geolookup.sources.kinds.service import ServiceReading
from geolookup.sources.places import PlaceFields
from geolookup.upstream.decode import PulledGeolocation, RowDecoder
from geolookup.upstream.geolocations import Listing
from tests.support.data.source_files import blocks_of


class FakeListing:
    """A listing whose answer has come already."""

    def __init__(self, text: bytes) -> None:
        self._decoder = RowDecoder()
        self._text = text

    def iter_batches(self) -> Iterator[list[PulledGeolocation]]:
        yield self._decoder.batch(self._text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._decoder, name)


def test_custom_geolocations_of_a_service_come_too_and_bad_rows_are_counted() -> None:
    text = (
        b'[{"locid":7,"country":"DE","ipblocks":[{"startip":"5.1.0.0","endip":"5.1.0.9"}]},'
        b'{"locid":-2,"country":"US","ipblocks":[{"startip":"::1","endip":"::5"}]},{"locid":0}]'
    )
    reading = ServiceReading("the service", cast(Listing, FakeListing(text)))
    (batch,) = reading.batches()
    assert blocks_of(batch, reading.gathered.places) == [
        ("5.1.0.0", "5.1.0.9", PlaceFields("DE")),
        ("::1", "::5", PlaceFields("US")),
    ]
    assert list(reading.gathered.places.locids or ()) == [7, -2]
    assert (reading.gathered.rows, reading.gathered.bad) == (3, 1)
    more = b'[{"locid":7,"zone":"x"},{"locid":-2,"note":1,"ipblocks":[]},{"locid":-3,"note":2,"ipblocks":[]}]'
    reading = ServiceReading("the service", cast(Listing, FakeListing(more)))
    list(reading.batches())
    assert [(key.key, key.kept_as, key.records, key.reason) for key in reading.gathered.keys] == [
        ("note", "", 2, "the record of a custom geolocation is made of its own fields"),
        ("zone", "extra.zone", 1, ""),
    ]
    twice = ServiceReading("the service", cast(Listing, FakeListing(b'[{"locid":7},{"locid":7}]')))
    with pytest.raises(PullError, match="locid 7 comes twice in the list"):
        list(twice.batches())


def test_columns_of_blocks_are_looked_up_as_single_blocks_are(tmp_path: Path) -> None:
    builder = IndexBuilder("default")
    slots = [builder.add_location(number, "DE", "", "", "", None, None, "", "") for number in (1, 2)]
    four = [np.array(column, np.uint32) for column in ([10, 30], [19, 39], slots)]
    builder.extend_columns_v4(*four)
    high = np.array([1, 2], np.uint64)
    low, ones = np.zeros(2, np.uint64), np.full(2, 9, np.uint64)
    builder.extend_columns_v6(high, low, high, ones, four[2])
    for bad in (
        (four[1], four[0], four[2]),
        (four[0], four[1], four[2] + np.uint32(1)),
        (four[0], four[1][:1], four[2]),
    ):
        with pytest.raises(IndexFileError):
            builder.extend_columns_v4(*bad)
    with pytest.raises(IndexFileError):
        builder.extend_columns_v6(high, ones, high, low, four[2])
    builder.write(tmp_path / "index")
    with IndexReader.open(tmp_path / "index") as reader:
        assert [reader.location(reader.find4(value))[0] for value in (10, 19, 30, 39)] == [1, 1, 2, 2]
        assert [reader.location(reader.find6(value))[0] for value in (1 << 64, (2 << 64) + 9)] == [1, 2]
