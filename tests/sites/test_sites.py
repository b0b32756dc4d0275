"""Files of sites: both formats read back what they wrote, and say where a bad site stands."""

import csv
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from geolookup.model.addresses import is_netmask
from geolookup.model.errors import DataFileError
from geolookup.model.types import FIELD_NAMES, IPBlock
from geolookup.sites.file import form_of, read_sites, write_sites
from geolookup.sites.site import Site, block_text
from tests.support.examples import examples

ADDRESSES = {4: 32, 6: 128}

TOML = """\
# Our places
[[site]]
name = "Berlin"
country = "DE"
region = "BE"
city = "Berlin"
postalcode = "10115"
latitude = 52
longitude = -13.4
dmacode = ""
areacode = "030"
blocks = [
    "10.20.0.0/16", # the office
    "10.30.0.5-10.30.0.9",
    "2001:db8::/32",
    "::1",
]

[["site"]]
name = '''[[site]]'''
country = ""
region = "[[site]]"
city = ""
postalcode = ""
dmacode = ""
areacode = ""
blocks = []
"""
CSV = """\
name,country,region,city,postalcode,latitude,longitude,dmacode,areacode,blocks
Berlin,DE,BE,Berlin,10115,52,-13.4,,030,10.20.0.0/16 10.30.0.5-10.30.0.9 2001:db8::/32 ::1

[[site]],,[[site]],,,,,,,
"""
FILES = {"toml": TOML, "csv": CSV}


@st.composite
def blocks(draw: st.DrawFn) -> IPBlock:
    family = draw(st.sampled_from((4, 6)))
    top = (1 << ADDRESSES[family]) - 1
    first, last = sorted(
        draw(st.one_of(st.integers(0, top), st.sampled_from((0, top, 255, 256, 1 << 16)))) for _ in range(2)
    )
    if family == 6 and last >> 32 == 0xFFFF == first >> 32:
        family, first, last = 4, first & 0xFFFFFFFF, last & 0xFFFFFFFF
    if family == 4 and first != last and is_netmask(last):
        first = last  # no file can say such a range: it would be a network with its mask
    return IPBlock(family=family, first=first, last=last)


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
names = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=8)
degrees = st.none() | st.floats(-90, 90)
values = st.fixed_dictionaries({name: degrees if name in ("latitude", "longitude") else text for name in FIELD_NAMES})


@st.composite
def sites(draw: st.DrawFn) -> list[Site]:
    found, taken = [], set()
    for name in draw(st.lists(names, max_size=4, unique=True)):
        own = set(draw(st.lists(blocks(), max_size=4))) - taken
        taken |= own
        found.append(Site(name=name, fields=draw(values), blocks=tuple(sorted(own))))
    return found


@pytest.mark.parametrize("form", ["toml", "csv"])
@examples(40)
@example(
    written=[
        Site(
            name="Bonn",
            fields={name: None if name in ("latitude", "longitude") else "" for name in FIELD_NAMES},
            blocks=(IPBlock.parse("10.0.0.1", "10.0.0.1"), IPBlock.parse("255.255.255.252", "255.255.255.252")),
        )
    ]
)
@given(written=sites())
def test_what_is_written_is_read_back(tmp_path: Path, form: Any, written: list[Site]) -> None:
    path = tmp_path / f"sites.{form}"
    path.write_text(write_sites(written, form), encoding="utf-8", newline="")
    assert read_sites(str(path)) == written


@given(blocks())
def test_a_block_reads_back_as_it_was(block: IPBlock) -> None:
    first, dash, last = block_text(block).partition("-")
    assert IPBlock.parse(first, last if dash else None) == block


def test_a_block_is_written_as_a_network_where_it_is_one() -> None:
    for text in ("10.0.0.0/8", "0.0.0.0/0", "::/0", "10.0.0.2/31", "2001:db8::/127"):
        assert block_text(IPBlock.parse(text)) == text
    assert block_text(IPBlock.parse("10.0.0.1", "10.0.0.2")) == "10.0.0.1-10.0.0.2"
    assert block_text(IPBlock.parse("10.0.0.1/32")) == "10.0.0.1"


@pytest.mark.parametrize("form", ["toml", "csv"])
def test_a_file_by_hand_is_read(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"sites.{form.upper()}"
    path.write_text("\ufeff" + FILES[form])
    first, second = read_sites(str(path))
    assert first == Site(
        name="Berlin",
        fields={
            "country": "DE",
            "region": "BE",
            "city": "Berlin",
            "postalcode": "10115",
            "latitude": 52.0,
            "longitude": -13.4,
            "dmacode": "",
            "areacode": "030",
        },
        blocks=tuple(
            IPBlock.parse(*block)
            for block in (("10.20.0.0/16",), ("10.30.0.5", "10.30.0.9"), ("::1",), ("2001:db8::/32",))
        ),
    )
    assert (second.name, second.fields["latitude"], second.blocks) == ("[[site]]", None, ())
    assert [site.where.line() for site in (first, second)] == ([2, 19] if form == "toml" else [2, 4])


# (format, what to replace, by what, the line, the reason)
MISTAKES = [
    ("toml", 'name = "Berlin"\n', "", 2, "a site needs a name"),
    ("toml", '"Berlin"\ncountry', '" Berlin"\ncountry', 3, "no blanks around it"),
    ("toml", '"Berlin"\ncountry', '"a\\nb"\ncountry', 3, "one line"),
    ("toml", "'''[[site]]'''", '"Berlin"', 20, r"site 'Berlin': another site has this name \(line 2\)"),
    ("toml", 'city = "Berlin"\n', "", 2, "site 'Berlin': city is missing"),
    ("toml", "blocks = []\n", "", 19, "blocks is missing"),
    ("toml", 'areacode = "030"', "areacode = 30", 11, "areacode is text: put 30 in quotation marks"),
    ("toml", "latitude = 52", "latitude = nan", 8, "latitude is a number of degrees, not nan"),
    ("toml", "latitude = 52", "latitude = true", 8, "latitude is a number of degrees"),
    ("toml", "latitude = 52", "latitude = 1" + "0" * 400, 8, "latitude is a number of degrees"),
    ("toml", "latitude = 52", 'latitude = "north"', 8, "latitude is a number of degrees, not 'north'"),
    ("toml", 'dmacode = ""\nareacode = "030"', 'dmacode = ""\n"area" = "030"', 11, "unknown key 'area'"),
    ("toml", "blocks = []", "blocks = 7", 27, "blocks is a list of texts"),
    ("toml", "10.20.0.0/16", "10.20.0.0/33", 13, r"'10.20.0.0/33' is not a network"),
    ("toml", "10.30.0.5-10.30.0.9", "10.30.0.5/24", 14, r"host bits set: did you mean 10.30.0.0/24"),
    ("toml", "10.30.0.5-10.30.0.9", "10.30.0.9-10.30.0.5", 14, "comes after"),
    ("toml", "10.30.0.5-10.30.0.9", "10.30.0.5-10.30.0.9-", 14, "is not an IP address"),
    ("toml", "10.30.0.5-10.30.0.9", "-", 14, "an address is missing"),
    ("toml", '"::1"', '"10.20.0.0-10.20.255.255"', 16, r"is there twice \(also written 10.20.0.0/16\)"),
    ("toml", "blocks = []", 'blocks = [\n"::1"]', 28, r"::1 belongs to site 'Berlin' \(line 2\) too"),
    ("toml", "# Our places", "places = 1", 1, "unknown key 'places'"),
    ("toml", "# Our places", "[other]\n", 1, "unknown key 'other'"),
    ("toml", 'country = "DE"', "country = DE", 4, "is not TOML: not a value: text needs quotes"),
    ("toml", 'country = "DE"', 'name = "twice"', 4, "is not TOML: the name is there twice"),
    ("csv", "name,", "title,", 1, "no column holds the name of sites"),
    ("csv", "blocks\n", "blocks,note\n", 2, "has 10 values, and 11 are needed"),
    ("csv", ",city,", ",region,", 1, "named twice"),
    ("csv", "Berlin,DE", ",DE", 2, "one line of at most"),
    ("csv", "[[site]],,", "Berlin,,", 4, r"region is .* here, and 'BE' in line 2: a site has one place"),
    ("csv", ",52,", ",5_2,", 2, "site 'Berlin': latitude is a number of degrees, not '5_2'"),
    ("csv", ",52,", ",1e999,", 2, "latitude is a number of degrees"),
    ("csv", "10.20.0.0/16", "10.20.0.1/16", 2, "host bits set"),
    ("csv", "::1", "10.20.0.0/16", 2, r"10.20.0.0/16 is there twice\n"),
    ("csv", ",,,,,,,\n", ",,,,,,,::1\n", 4, r"::1 belongs to site 'Berlin' \(line 2\) too"),
    ("csv", "Berlin,DE,", "Berlin,", 2, "has 9 values, and 10 are needed"),
    ("csv", "Berlin,DE,", '"Berlin"x,DE,', 2, "is not CSV"),
]


@pytest.mark.parametrize(("form", "old", "new", "line", "reason"), MISTAKES)
def test_a_mistake_is_named_with_file_line_and_reason(
    tmp_path: Path, form: str, old: str, new: str, line: int, reason: str
) -> None:
    assert FILES[form].count(old) >= 1
    path = tmp_path / f"sites.{form}"
    path.write_text(FILES[form].replace(old, new, 1))
    with pytest.raises(DataFileError, match=reason) as caught:
        read_sites(str(path))
    assert str(caught.value).startswith(f"{path}, line {line}: ")


HEADER = "name;country;region;city;postalcode;latitude;longitude;dmacode;areacode;blocks"


def test_rows_that_only_look_empty_may_stand_above_the_columns_and_below_the_sites(tmp_path: Path) -> None:
    path = tmp_path / "sites.csv"
    path.write_bytes(f";;;;;;;;;\r\n{HEADER}\r\na;DE;;;;1;2;;;2001:DB8::/48\r\n;;;;;;;;;\r\n".encode())
    assert [site.name for site in read_sites(str(path))] == ["a"]


def test_blanks_around_a_name_in_a_cell_are_not_part_of_it(tmp_path: Path) -> None:
    path = tmp_path / "sites.csv"
    path.write_text(f"{HEADER}\n Berlin ;DE;;;;1;2;;;\n")
    assert [site.name for site in read_sites(str(path))] == ["Berlin"]


@pytest.mark.parametrize("quotes", ['"""', "'''"])
def test_what_looks_like_a_site_inside_a_text_is_not_counted(tmp_path: Path, quotes: str) -> None:
    path = tmp_path / "sites.toml"
    path.write_text(f"# [[site]]\n[[site]]\nname = 'x'\nregion = {quotes}\n[[site]]\n{quotes}\ncountry = 1\n")
    with pytest.raises(DataFileError, match=r"sites\.toml, line 2: site 'x': city is missing"):
        read_sites(str(path))


def test_without_a_line_to_be_sure_of_none_is_guessed(tmp_path: Path) -> None:
    path = tmp_path / "sites.toml"
    path.write_text('site = [ { name = "inline" } ]')
    with pytest.raises(DataFileError, match=r"sites\.toml: site 'inline': country is missing"):
        read_sites(str(path))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xff", "not UTF-8"),
        (b"", r"has no \[\[site\]\]"),
        (b"[site]\nname = 'x'\n", r"has no \[\[site\]\]"),
        (b"x = " + b"[" * 100_000, "not TOML"),
        (b"site = 1" + b"0" * 9999, "not TOML"),
    ],
)
def test_what_is_no_file_of_sites_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "sites.toml"
    path.write_bytes(content)
    with pytest.raises(DataFileError, match=reason):
        read_sites(str(path))


def test_a_file_that_cannot_be_read_is_an_error_of_ours(tmp_path: Path) -> None:
    for name in ("none.toml", "none.csv"):
        with pytest.raises(DataFileError, match=rf"{name}: cannot be read"):
            read_sites(str(tmp_path / name))


def test_the_format_is_told_by_the_name_unless_given() -> None:
    assert [form_of(path) for path in ("a.toml", "b/C.CSV")] == ["toml", "csv"]
    assert form_of("a.dat", "csv") == "csv"
    with pytest.raises(DataFileError, match="--format"):
        form_of("a.dat")


def test_no_site_at_all_is_said_and_not_left_out(tmp_path: Path) -> None:
    for form in ("toml", "csv"):
        path = tmp_path / f"sites.{form}"
        path.write_text(write_sites([], form))  # type: ignore[arg-type]
        assert read_sites(str(path)) == []


def test_thousands_of_blocks_in_one_csv_value_are_read_and_the_limit_is_put_back(tmp_path: Path) -> None:
    limit = csv.field_size_limit()
    many = tuple(IPBlock(family=4, first=number * 2, last=number * 2) for number in range(20_000))
    path = tmp_path / "sites.csv"
    path.write_text(write_sites([Site(name="x", fields=dict.fromkeys(FIELD_NAMES, ""), blocks=many)], "csv"))
    assert path.stat().st_size > limit
    assert read_sites(str(path))[0].blocks == many
    assert csv.field_size_limit() == limit
