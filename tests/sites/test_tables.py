"""Sites as people keep them: tables with titles, their own words for columns, and values as they write them."""

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.model.errors import DataFileError, SettingsError
from geolookup.model.written import degrees_of, pair_of
from geolookup.sites.file import read_sites
from geolookup.sites.plan import apply_sites, plan_sites
from geolookup.sites.site import Problems, Site
from geolookup.state.editor import Editor
from tests.support.data.states import place, publish

CITIES = [
    ("K\xf6ln", "NW", "50667", 50.9413, 6.9583, "Deutschland"),
    ("M\xfcnchen", "BY", "80331", 48.1372, 11.5756, "Deutschland"),
    ("Dresden", "SN", "01067", 51.0504, 13.7373, "Deutschland"),
    ("Stra\xdfburg", "", "67000", 48.5734, 7.7521, "Frankreich"),
    ("Z\xfcrich", "ZH", "8001", 47.3769, 8.5417, "Schweiz"),
]


@pytest.fixture
def editor(home: str, monkeypatch: pytest.MonkeyPatch) -> Editor:
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)
    publish(home, [place(1, "8.0.0.0/8", country="US")])
    return Editor(home)


def strangers() -> Iterator[list[str]]:
    """The workbook of a stranger with 400 sites, as rows."""
    yield ["Standortverzeichnis der Beispiel GmbH"]
    yield ["Stand: 01.11.2026; bitte nicht ver\xe4ndern!"]
    yield []
    yield [
        "Standort",
        "Stra\xdfe",
        "PLZ",
        "Ort",
        "Bundesland",
        "Land",
        "Breitengrad",
        "L\xe4ngengrad",
        "Netz 1",
        "Netz 2",
    ]
    draw = random.Random(5)
    for number in range(400):
        city, region, code, latitude, longitude, country = CITIES[number % len(CITIES)]
        degrees = [f"{value + draw.random() / 50:.4f}".replace(".", ",") for value in (latitude, longitude)]
        more = f"10.100.{number % 256}.0 - 10.100.{number % 256}.99" if number < 256 else ""
        yield [f"Filiale {city} {number:03}", "Hauptstr. 1", code, city, region, country, *degrees,
               f"10.{number // 256}.{number % 256}.0/24", more]  # fmt: skip


def written(path: Path, text: str, encoding: str = "utf-8") -> str:
    path.write_bytes(text.encode(encoding))
    return str(path)


def read(path: str, **how: Any) -> tuple[list[Site], Problems]:
    problems = Problems()
    return read_sites(path, problems=problems, **how), problems


def test_a_strangers_400_sites_are_planned_and_applied_without_a_word_about_the_file(
    tmp_path: Path, editor: Editor
) -> None:
    width = 10
    rows = [row + [""] * (width - len(row)) for row in strangers()]
    quoted = [[f'"{value}"' if ";" in value else value for value in row] for row in rows]
    path = written(tmp_path / "Standorte.csv", "\r\n".join(map(";".join, quoted)), "cp1252")
    sites, problems = read(path)
    assert len(sites) == 400
    assert problems.all == []
    assert sites[2].fields["postalcode"] == "01067"
    assert (sites[3].fields["country"], sites[3].fields["city"]) == ("FR", "Stra\xdfburg")
    assert len(sites[0].blocks) == 2
    assert [line.partition(": ")[2] for line in problems.said] == [
        (
            "line 4 names the columns; above it are titles: Standortverzeichnis der Beispiel GmbH; "
            "Stand: 01.11.2026; bitte nicht ver\xe4ndern!"
        ),
        (
            "read as name = 'Standort'; postalcode = 'PLZ'; city = 'Ort'; region = 'Bundesland'; country = 'Land'; "
            "latitude = 'Breitengrad'; longitude = 'L\xe4ngengrad'; blocks = 'Netz 1', 'Netz 2'"
        ),
        "these columns are not read: 'Stra\xdfe'",
        "is not UTF-8: 322 lines read as cp1252 (Windows): look at the names",
        f"800 coordinates with a decimal comma (line 5: {quoted[4][6]!r} is {quoted[4][6].replace(',', '.')})",
        "400 countries in words (line 5: 'Deutschland' is DE)",
    ]
    assert plan_sites(editor, sites, problems=problems).summary.new == 400
    assert len(apply_sites(editor, sites, file=path).names) == 400
    assert apply_sites(editor, read(path)[0], file=path).edits == ()


def test_a_workbook_of_the_same_says_the_same(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "Hinweise"
    book.active["A1"] = "Name des Bearbeiters"
    sheet = book.create_sheet("Standorte")
    for row in strangers():
        sheet.append([float(value.replace(",", ".")) if at in (6, 7) and row[2] != "PLZ" else value
                      for at, value in enumerate(row)])  # fmt: skip
    book.save(tmp_path / "Standorte.xlsx")
    sites, problems = read(str(tmp_path / "Standorte.xlsx"))
    wanted = read(
        written(tmp_path / "a.csv", "\n".join("\t".join(row + [""] * (10 - len(row))) for row in strangers()))
    )
    assert sites == wanted[0]
    assert "Standorte.xlsx, sheet 'Standorte': row 4 names the columns" in problems.said[0]
    book["Hinweise"].append(["Standort", "Netz"])
    book.save(tmp_path / "Standorte.xlsx")
    with pytest.raises(DataFileError, match=r"2 sheets hold sites: 'Hinweise', 'Standorte'. .*--sheet NAME"):
        read(str(tmp_path / "Standorte.xlsx"))
    assert read(str(tmp_path / "Standorte.xlsx"), sheet="Standorte")[0] == sites


def test_a_site_may_have_a_row_for_each_block_and_several_blocks_in_a_cell(tmp_path: Path) -> None:
    text = (
        'Site,Prefix,City\na,10.1.0.0/16,x\nb,"10.2.0.0/16\n10.3.0.1",y\na,"10.4.0.5 - 10.4.0.9, 10.5.0.0/24",\n'
        ",10.6.0.0/16,\nb,10.7.0.0/16,z\nb,10.2.0.0/16,y\n"
    )
    sites, problems = read(written(tmp_path / "a.csv", text))
    assert [(site.name, len(site.blocks)) for site in sites] == [("a", 4)]
    assert [str(problem).partition(": ")[2] for problem in problems.all] == [
        "site 'b': city is 'z' here, and 'y' in line 4: a site has one place",
        "site 'b': 10.2.0.0/16 is there twice",
    ]
    assert [problem.line for problem in problems.all] == [7, 4]


def test_columns_are_found_by_likeness_or_named_and_what_is_lacking_is_told(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "Niederlassung;IP-Netze (intern);Place\na;10.1.0.0/16;Bonn\n")
    ((site,), problems) = read(path)
    assert site.fields["city"] == ""
    assert site.unsaid == {"country", "region", "city", "postalcode", "latitude", "longitude", "dmacode", "areacode"}
    ((site,), problems) = read(path, fields={"city": "place"})
    assert site.fields["city"] == "Bonn"
    assert problems.all == []
    with pytest.raises(DataFileError, match=r"line 1: no column city=Town: there are 'Niederlassung', 'IP-Netze"):
        read(path, fields={"city": "Town"})
    with pytest.raises(SettingsError, match="unknown field 'town': a table of sites has name, country"):
        read(path, fields={"town": "Place"})
    with pytest.raises(DataFileError, match=r"line 1: no column holds the blocks of sites: .* --field blocks=COLUMN"):
        read(written(tmp_path / "b.csv", "Standort;Ort\na;b\n"))
    with pytest.raises(DataFileError, match=r'no line names the columns of sites\. The first is "1,2"\. Say which'):
        read(written(tmp_path / "c.csv", "1,2\n3,4\n"))


def test_a_first_and_a_last_address_are_a_block(tmp_path: Path) -> None:
    ((a, b), problems) = read(written(tmp_path / "a.csv", "Site\tVon\tBis\na\t10.1.0.0\t10.1.0.9\nb\t10.2.0.1\t\n"))
    assert [str(block) for site in (a, b) for block in site.blocks] == ["10.1.0.0-10.1.0.9", "10.2.0.1"]
    assert problems.all == []


def test_what_a_spreadsheet_made_of_a_value_is_a_bad_row(tmp_path: Path) -> None:
    text = "Site,Network\na,2012-05-03\nb,10.2\nc,#REF!\nd,167772160\ne,10.0.0.0/8\n"
    _, problems = read(written(tmp_path / "a.csv", text))
    assert {kind: [each.line for each in found] for kind, found in problems.kinds().items()} == {
        "a date in place of a network": [2],
        "a number in place of a network": [3, 5],
        "an error of the spreadsheet": [4],
    }
    assert all(each.write for each in problems.all)
    assert "format the column as text" in str(problems.all[0])


def test_a_formula_without_a_value_is_a_bad_row(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["Site", "Network"], ["a", '="10.1.0.0/"&16'], ["b", "10.2.0.0/16"]):
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    sites, problems = read(str(tmp_path / "a.xlsx"))
    assert [site.name for site in sites] == ["b"]
    assert [(each.kind, each.line) for each in problems.all] == [("a formula without a value", 2)]


def test_postal_codes_that_lost_a_zero_are_warned_of_and_left(tmp_path: Path) -> None:
    sites, problems = read(written(tmp_path / "a.csv", "Site,Land,PLZ,Netz\na,DE,1067,10.1.0.0/16\nb,CH,8001,\n"))
    assert sites[0].fields["postalcode"] == "1067"
    assert [note.partition(": ")[2] for note in problems.notes] == [
        "1 postal code that may have lost a zero (line 2: '1067' of DE, not '01067'?)"
    ]


def test_countries_in_words_are_read_where_they_mean_one(tmp_path: Path) -> None:
    words = ["Deutschland", "United States", "\u65e5\u672c", "Su\xefsse", "suisse", "USA", "Kongo", "Korea", "fr"]
    rows = "".join(f"s{at},{word},\n" for at, word in enumerate(words))
    sites, _ = read(written(tmp_path / "a.csv", f"Site,Country,Subnet\n{rows}"))
    assert [site.fields["country"] for site in sites] == ["DE", "US", "JP", "CH", "CH", "US", "Kongo", "Korea", "fr"]


@pytest.mark.parametrize(
    ("text", "latitude", "longitude"),
    [
        ("52,52", 52.52, 52.52),
        ("-0.12", -0.12, -0.12),
        ("50\xb043'N", 50.7166667, None),
        ("50\xb0 43\u2032 12,5\u2033 N", 50.7201389, None),
        ("7\xb06'W", None, -7.1),
        ("S 33.8", -33.8, None),
        ("52.520.008", None, None),
        ("50\xb061'N", None, None),
        ("-7\xb0 W", None, None),
        ("13 O", None, None),
    ],
)
def test_degrees_are_read_as_people_write_them(text: str, latitude: float | None, longitude: float | None) -> None:
    found = [degrees_of(text, name) for name in ("latitude", "longitude")]
    assert [None if each is None else each[0] for each in found] == [latitude, longitude]


PAIRS = [("{:.5f}, {:.5f}", "."), ("{:.5f}; {:.5f}", ","), ("({:.5f} {:.5f})", "."), ("{:.5f},{:.5f}", ".")]


@given(st.floats(-90, 90), st.floats(-180, 180), st.sampled_from(PAIRS))
def test_two_coordinates_in_one_cell_are_read(latitude: float, longitude: float, how: tuple[str, str]) -> None:
    text = how[0].format(latitude, longitude).replace(".", how[1])
    pair = pair_of(text)
    assert pair is not None
    found = [degrees_of(part, name) for part, name in zip(pair, ("latitude", "longitude"), strict=True)]
    assert [each and each[0] for each in found] == [float(f"{latitude:.5f}"), float(f"{longitude:.5f}")]


def test_one_number_with_a_comma_is_not_taken_for_two() -> None:
    assert pair_of("52,52") is None
    assert pair_of("52") is None


# Planning


def test_a_site_without_coordinates_takes_its_citys_and_keeps_them_until_the_city_changes(
    tmp_path: Path, editor: Editor, home: str
) -> None:
    def data(latitude: float) -> None:
        publish(home, [place(1, "8.0.0.0/8", country="DE", city="Bonn", latitude=latitude, longitude=7.0),
                       place(2, "9.0.0.0/8", country="DE", city="Ulm", latitude=48.0, longitude=9.0)])  # fmt: skip

    def coordinates() -> Any:
        found = editor.get(editor.sites()["a"]).place
        return found.latitude, found.longitude

    data(50.0)
    path = written(tmp_path / "a.csv", "Site,Land,Ort,Netz\na,Deutschland,Bonn,10.1.0.0/16\n")
    plan = apply_sites(editor, read_sites(path), file=path)
    assert coordinates() == (50.0, 7.0)
    assert any("coordinates of 1 site are those of their city: a (Bonn, DE, by" in note for note in plan.notes)
    data(51.0)
    assert apply_sites(editor, read_sites(path), file=path).edits == ()
    path = written(tmp_path / "a.csv", "Site,Land,Ort,Netz\na,Deutschland,Ulm,10.1.0.0/16\n")
    apply_sites(editor, read_sites(path), file=path)
    assert coordinates() == (48.0, 9.0)


def test_a_city_that_no_source_knows_is_where_another_site_of_it_is(tmp_path: Path, editor: Editor) -> None:
    editor.create(name="Old", country="PL", city="Kraków", latitude=50.06, longitude=19.94)
    path = written(tmp_path / "a.csv", "Site,Land,Ort,Netz\nNew,PL,Krakow,10.1.0.0/16\n")
    plan = apply_sites(editor, read_sites(path), file=path)
    assert editor.get(editor.sites()["New"]).place.latitude == 50.06
    assert any("New (Kraków, PL, by your own sites)" in note for note in plan.notes)


def test_fields_without_a_column_stay_as_they_are(tmp_path: Path, editor: Editor) -> None:
    whole = "Site,Land,Ort,Vorwahl,Lat,Lon,Netz\na,DE,Bonn,0228,50.7,7.1,10.1.0.0/16\n"
    apply_sites(editor, read_sites(written(tmp_path / "a.csv", whole)), file="a")
    part = "Site,Ort,Netz\na,Bonn,10.1.0.0/16\n"
    assert apply_sites(editor, read_sites(written(tmp_path / "a.csv", part)), file="a").edits == ()
    empty = "Site,Ort,Vorwahl,Netz\na,Bonn,,10.1.0.0/16\n"
    (change,) = apply_sites(editor, read_sites(written(tmp_path / "a.csv", empty)), file="a").edits
    assert change.describe().endswith("areacode '0228' -> ''")


def test_a_new_site_takes_no_other_place_of_its_city_though_the_file_says_no_more(
    tmp_path: Path, editor: Editor
) -> None:
    bonn = {"country": "DE", "city": "Bonn", "latitude": 50.7, "longitude": 7.1}
    nameless = editor.create(blocks=["10.1.0.0/24"], **bonn)
    by_hand = editor.create(name="Bonn branch", **bonn)
    bare = editor.create(**{**bonn, "city": "Ulm"})
    head, ulm = "Site,Land,Ort,Lat,Lon,Netz\n", "Ulm,DE,Ulm,50.7,7.1,10.3.0.0/24\n"
    north = "Bonn Nord,DE,Bonn,50.7,7.1,\n"
    path = written(tmp_path / "a.csv", f"{head}Bonn Port,DE,Bonn,50.7,7.1,10.2.0.0/24\n{north}{ulm}")
    plan = apply_sites(editor, read_sites(path), file=path)
    sites = editor.sites()
    assert {sites["Bonn Port"], sites["Bonn Nord"]}.isdisjoint({nameless, by_hand})
    assert sites["Bonn branch"] == by_hand
    assert sites["Ulm"] == bare
    assert [str(each) for each in editor.get(nameless).place.ipblocks] == ["10.1.0.0-10.1.0.255"]
    assert all(change.locid != nameless for change in plan.changes)
    # A site that only changes its name keeps its place, by its networks.
    path = written(tmp_path / "b.csv", f"{head}Bonn Hafen,DE,Bonn,50.7,7.1,10.2.0.0/24\n{north}{ulm}")
    apply_sites(editor, read_sites(path), file=path)
    assert editor.sites()["Bonn Hafen"] == sites["Bonn Port"]
