"""The table of `kinds_table`, on few rows: every kind is in it, and no answer is wrong."""

from pathlib import Path

import pytest

from geolookup.settings.source import KIND_NAMES, SourceSettings
from geolookup.settings.table import Settings
from tests.sources.kinds_table import OF_NETWORKS, expected, table, tried
from tests.support.data import kind_files
from tests.support.data.kind_files import Known, Place

MMDB = Path(__file__).parents[1] / "data" / "mmdb"


def test_every_kind_answers_for_its_file_as_what_it_was_made_of() -> None:
    files = [str(MMDB / name) for name in ("GeoLite2-City-Test.mmdb", "GeoIP2-Country-Test.mmdb")]
    found = list(table(150, files))
    assert {kind for kind, *_ in found} == set(KIND_NAMES) - OF_NETWORKS
    assert [(kind, file, wrong) for kind, file, _, _, wrong in found if wrong] == []
    assert all(rows > 100 and asked > 400 for _, _, rows, asked, _ in found)


def test_a_wrong_answer_is_counted(tmp_path: Path) -> None:
    rows = [Known(4, 10 << 24, (10 << 24) + 9, Place("DE")), Known(4, 11 << 24, (11 << 24) + 9, Place("FR"))]
    kind_files.ranges_csv([rows[0], rows[1]._replace(place=Place("GB"))], tmp_path / "x.csv")
    settings = Settings(sources=(SourceSettings(name="a", location=str(tmp_path / "x.csv")),))
    assert tried(rows, settings) == (8, 2)


@pytest.mark.parametrize(
    ("address", "code"), [(0, None), (1, "A"), (4, "C"), (5, "D"), (7, None), (9, "A"), (10, None)]
)
def test_the_narrowest_row_wins_and_of_equal_ones_the_later(address: int, code: str | None) -> None:
    rows = [
        Known(4, 1, 9, Place("A")),
        Known(4, 4, 5, Place("B")),
        Known(4, 4, 5, Place("C")),
        Known(4, 5, 5, Place("D")),
        Known(4, 7, 7, None, mask=True),
        Known(4, 9, 9, None),
    ]
    ((_, _, place),) = expected(rows, [(4, address)])
    assert (place and place.country) == code
