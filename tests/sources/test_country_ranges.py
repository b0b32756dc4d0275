"""Reading country ranges: rows as they stand, and errors that name the line."""

import ipaddress
from pathlib import Path

import pytest

from geolookup.model.errors import DataFileError
from geolookup.sources.bundled import bundled_ranges_path
from geolookup.sources.country_ranges import CountryRange, read_country_ranges


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_rows_come_in_the_files_order_with_text_in_one_form(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.csv", "country,startip,endip,note\nUS,2001:DB8::0,2001:db8::f,x\n\nDE,::ffff:10.0.0.1,10.0.0.2,\n"
    )
    low = 0x20010DB8 << 96
    assert list(read_country_ranges(path)) == [
        CountryRange("2001:db8::", "2001:db8::f", "US", 6, low, low + 15, 2),
        CountryRange("10.0.0.1", "10.0.0.2", "DE", 4, 0x0A000001, 0x0A000002, 4),
    ]


def test_rows_before_a_bad_one_are_handed_out(tmp_path: Path) -> None:
    rows = read_country_ranges(
        write(tmp_path / "a.csv", "startip,endip,country\n10.0.0.1,10.0.0.2,US\n10.0.0.1,x,US\n")
    )
    assert next(rows).country == "US"
    with pytest.raises(DataFileError, match=r"a\.csv, line 3: .*'x'"):
        next(rows)


@pytest.mark.parametrize(
    "row",
    ["10.0.0.2,10.0.0.1,US", "10.0.0.1,::1,US", "010.0.0.1,10.0.0.9,US", "10.0.0.1,10.0.0.2,", "10.0.0.1,10.0.0.2"],
)
def test_a_bad_row_is_refused_by_its_line(tmp_path: Path, row: str) -> None:
    path = write(tmp_path / "a.csv", f"startip,endip,country\n{row}\n")
    with pytest.raises(DataFileError, match=r"a\.csv, line 2: "):
        list(read_country_ranges(path))


def test_the_bundled_ranges_are_whole_and_canonical(whole_data: None) -> None:
    rows = list(read_country_ranges(bundled_ranges_path()))
    assert (len(rows), len({row.country for row in rows})) == (207564, 237)
    for row in rows[::997]:
        first, last = ipaddress.ip_address(row.startip), ipaddress.ip_address(row.endip)
        assert (str(first), str(last)) == (row.startip, row.endip)
        assert (row.family, row.first, row.last) == (first.version, int(first), int(last))
