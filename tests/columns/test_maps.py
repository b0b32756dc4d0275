"""Maps: what is on them is what was counted, and whatever the places are called stays text."""

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from geolookup.columns import map_content, map_drawing, maps, outlines
from geolookup.columns.counts import count
from geolookup.columns.map_content import custom_places
from geolookup.columns.outlines import focus_of
from geolookup.lookup.engine import GeoLookup
from geolookup.model.continents import CONTINENTS, countries
from geolookup.model.errors import ColumnError, SettingsError
from tests.support.data.states import place, publish

HOSTILE = "</script></svg><script>alert(1)</script>\" onload='x' {{7*7}} datum.x \u202e\x1b\x00" + "w" * 10_000
PLACES = [
    place(1, "8.0.0.0/8", country="US", region="CA", city="Los Angeles", latitude=34.0, longitude=-118.2),
    place(2, "9.0.0.0/8", country="DE", region="BE", city="Berlin", latitude=52.5, longitude=13.4),
    place(3, "10.0.0.0/8", country="DE", city="nowhere"),
    place(4, "11.0.0.0/8", country="FR", city=HOSTILE, latitude=46.0, longitude=2.0),
    place(-1, "9.9.0.0/16", "2001:db8::/47", country="AT", city="Wien", latitude=48.2, longitude=16.4),
    place(-2, "9.9.9.0/24", country="AT", city=HOSTILE),
]
COLUMN = [*["8.8.8.8"] * 5, *["9.1.1.1"] * 3, "10.0.0.1", "11.0.0.1", "11.0.0.1", "9.9.1.1", "200.0.0.1", "x"]


@pytest.fixture(scope="module")
def geo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GeoLookup]:
    home = str(tmp_path_factory.mktemp("maps") / "state")
    publish(home, PLACES)
    with GeoLookup(home) as opened:
        yield opened


@pytest.fixture(scope="module")
def drawn(geo: GeoLookup) -> maps.Map:
    return maps.draw(COLUMN, geo=geo, title=HOSTILE)


@pytest.fixture(scope="module")
def page(drawn: maps.Map) -> str:
    return drawn.html()


def on_it(found: maps.Map) -> map_content.Content:
    return found._content


def test_the_tables_have_what_was_counted(drawn: maps.Map) -> None:
    countries_table, cities = on_it(drawn).tables
    assert [(row.label, *row.values) for row in countries_table.rows] == [
        ("United States", "5", "38.5%"), ("Germany", "4", "30.8%"), ("France", "2", "15.4%"), ("Austria", "1", "7.7%"),
    ]  # fmt: skip
    assert [row.values[0] for row in cities.rows] == ["5", "3", "2", "1", "1"]
    assert [row.bar for row in countries_table.rows] == [1.0, 0.8, 0.4, 0.2]
    assert on_it(drawn).countries == {"US": 5, "DE": 4, "FR": 2, "AT": 1}
    assert drawn.summary == "13 requests; 4 countries; 1 not covered; 1 malformed"
    assert on_it(drawn).footer[-2].endswith("data: generation 1, of unknown date.")


def test_points_are_cities_whose_place_is_known(
    drawn: maps.Map, monkeypatch: pytest.MonkeyPatch, geo: GeoLookup
) -> None:
    assert [(point.longitude, point.latitude, point.size) for point in on_it(drawn).points] == [
        (-118.2, 34.0, 1.0), (13.4, 52.5, 0.6), (2.0, 46.0, 0.4), (16.4, 48.2, 0.2),
    ]  # fmt: skip
    monkeypatch.setattr(map_content, "POINTS", 2)
    fewer = on_it(maps.draw(COLUMN, geo=geo))
    assert len(fewer.points) == 2
    assert "Points: the 2 cities with the most requests, of 4." in fewer.footer


def test_a_focus_has_its_own_tables_and_says_how_many_are_elsewhere(geo: GeoLookup) -> None:
    europe = maps.draw(COLUMN, geo=geo, focus="europe", by="addresses")
    assert europe.summary == "6 addresses; 4 in Europe, 1 elsewhere; 1 not covered; 1 malformed"
    assert [row.label for row in on_it(europe).tables[0].rows] == ["Germany", "Austria", "France"]
    germany = on_it(maps.draw(COLUMN, geo=geo, focus="de", top=1))
    assert [[row.label for row in table.rows] for table in germany.tables] == [["Berlin, BE, DE"]]
    assert germany.title == "Requests by country and city in Germany"


def test_every_country_with_an_outline_and_every_continent_can_be_shown() -> None:
    shown = 0
    for code, country in countries().items():
        box = outlines.country_box(code)
        if box is None:
            with pytest.raises(SettingsError, match="the map has no outline of it"):
                focus_of(code)
            continue
        shown += 1
        west, south, east, north = box
        assert -180 <= west < east <= 180.1
        assert -90 <= south < north <= 90
        if code != "AQ":  # a continent too
            assert focus_of(country.name).box == box
    assert shown == 236
    for name in CONTINENTS.values():
        assert focus_of(name.lower().replace(" ", "-")).name == name
    with pytest.raises(SettingsError, match="unknown focus 'Atlantis': give the code of a country"):
        focus_of("Atlantis")


@pytest.mark.parametrize(
    ("code", "inside", "outside"),
    [
        ("DE", [(13.4, 52.5)], [(2.3, 48.9)]),
        ("FR", [(2.3, 48.9), (9.1, 42.2)], [(-53.0, 4.0)]),
        ("US", [(-74.0, 40.7), (-150.0, 61.0)], [(144.8, 13.4)]),
        ("NZ", [(174.8, -36.9), (170.5, -45.9)], [(151.2, -33.9)]),
    ],
)
def test_a_country_is_shown_where_its_people_are(code: str, inside: list[Any], outside: list[Any]) -> None:
    west, south, east, north = focus_of(code).box
    for expected, points in ((True, inside), (False, outside)):
        assert [west <= x <= east and south <= y <= north for x, y in points] == [expected] * len(points)


def test_what_is_far_away_is_not_drawn() -> None:
    near = {geometry.get("id") for geometry in focus_of("DE").topology()["objects"]["countries"]["geometries"]}
    assert {"DE", "FR", "PL"} <= near
    assert not {"US", "AU", "BR"} & near
    pacific = {geometry.get("id") for geometry in focus_of("oceania").topology()["objects"]["countries"]["geometries"]}
    assert {"AU", "NZ", "WS"} <= pacific  # Samoa is beyond the 180th degree


def test_no_text_of_the_data_is_an_expression(drawn: maps.Map) -> None:
    def walk(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        if isinstance(value, dict):
            for key, each in value.items():
                yield from walk(each, (*path, key))
        elif isinstance(value, list):
            for at, each in enumerate(value):
                yield from walk(each, (*path, at))
        elif isinstance(value, str) and "script" in value:
            yield path

    specification = drawn.specification()
    places = list(walk(specification, ()))
    assert {path[-1] for path in places} == {"value", "label", "description"}
    assert "signal" not in json.dumps(specification)
    tests = set(re.findall(r'"test": "([^"]*)"', json.dumps(specification)))
    assert tests == {"datum.fill", "datum.label"}


def check_svg(svg: str) -> ElementTree.Element:
    root = ElementTree.fromstring(svg)
    names = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert names <= {"svg", "g", "path", "rect", "text", "title", "defs", "clipPath"}
    for element in root.iter():
        assert not [name for name in element.attrib if name.startswith("on") or name.endswith(("href", "src"))]
    return root


def test_svg_has_hostile_names_as_text(drawn: maps.Map) -> None:
    svg = drawn.svg()
    root = check_svg(svg)
    texts = [element.text or "" for element in root.iter() if element.tag.endswith(("text", "title"))]
    assert any(text.startswith("</script></svg><script>alert(1)</script>") for text in texts)
    assert all(text.isprintable() and len(text) < 300 for text in texts)
    assert "w" * 100 not in svg
    assert {"United States: 5", "Los Angeles, CA, US: 5"} <= set(texts)
    assert len(svg) < 400_000


class Page(HTMLParser):
    """The tags of a page, with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_html_is_one_file_without_scripts_or_addresses(page: str) -> None:
    found = Page(page)
    names = {tag for tag, _ in found.tags}
    assert not names & {"script", "iframe", "img", "link", "object", "a", "form"}
    assert not [name for _, attributes in found.tags for name in attributes if name.startswith("on") or name == "src"]
    assert not [value for _, attributes in found.tags for value in attributes.values() if "//" in (value or "")
                and value != "http://www.w3.org/2000/svg"]  # fmt: skip
    policy = [attributes["content"] for tag, attributes in found.tags if attributes.get("http-equiv")]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'"]
    assert "<script>alert(1)</script>" in found.text
    assert "\u202e" not in page
    assert "\x1b" not in page
    for value in ("United States", "38.5%", "Berlin, BE, DE", "1 not covered", "Outlines: Natural Earth"):
        assert value in found.text


def test_two_maps_of_one_notebook_share_no_ids(geo: GeoLookup) -> None:
    drawn = maps.draw_custom(geo)
    bundles = [drawn._repr_mimebundle_() for _ in range(2)]
    ids = [set(re.findall(r'\bid="([^"]+)"', bundle["text/html"])) for bundle in bundles]
    assert ids[0]
    assert not ids[0] & ids[1]
    assert all(f"url(#{name})" in bundles[0]["text/html"] for name in ids[0])
    assert bundles[0]["text/plain"] == f"<Map: Custom geolocations: {drawn.summary}>"
    assert "<html" not in bundles[0]["text/html"]


def test_png_is_a_picture(drawn: maps.Map, tmp_path: Any) -> None:
    drawn.save(tmp_path / "map.PNG")
    data = (tmp_path / "map.PNG").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(data[16:20], "big") == 1984
    with pytest.raises(SettingsError, match=r"the name of a map ends in \.html, \.svg, \.png"):
        drawn.save(tmp_path / "map.gif")
    with pytest.raises(SettingsError, match="unknown format 'pdf'"):
        drawn.write("pdf")  # type: ignore[arg-type]


def test_columns_of_every_kind_are_drawn(geo: GeoLookup) -> None:
    expected = on_it(maps.draw(COLUMN, geo=geo)).countries
    for column in (
        pa.array(COLUMN), pa.chunked_array([COLUMN[:3], COLUMN[3:]]),
        pd.Series(COLUMN), pd.Series(COLUMN, dtype="category"),
        pl.Series(COLUMN), pl.Series(COLUMN, dtype=pl.Categorical), (text for text in COLUMN),
    ):  # fmt: skip
        assert on_it(maps.draw(column, geo=geo)).countries == expected
    assert on_it(maps.draw(pd.Series([8 << 24, 9 << 24]), geo=geo)).countries == {"US": 1, "DE": 1}
    for wrong in (5, [1.5], pd.Series([1.5]), [object()]):
        with pytest.raises(ColumnError, match="addresses"):
            maps.draw(wrong, geo=geo)


def test_a_file_and_a_table_are_not_taken_for_a_column(geo: GeoLookup) -> None:
    for name in ("visits.csv", b"visits.csv", Path("visits.csv")):
        with pytest.raises(ColumnError, match=r"not a column of addresses.*geolookup map FILE"):
            maps.draw(name, geo=geo)
    for table in (pd.DataFrame({"ip": COLUMN}), pl.DataFrame({"ip": COLUMN}), pa.table({"ip": COLUMN})):
        with pytest.raises(ColumnError, match=r"a table.*its column of addresses"):
            maps.draw(table, geo=geo)


def test_one_is_one(geo: GeoLookup) -> None:
    assert maps.draw(COLUMN[:1], geo=geo).summary == "1 request; 1 country; 0 not covered"
    assert maps.draw(COLUMN[:1], geo=geo, by="addresses").summary == "1 address; 1 country; 0 not covered"


def test_a_map_of_nothing_is_drawn(geo: GeoLookup) -> None:
    empty = maps.draw([], geo=geo)
    assert empty.summary == "0 requests; 0 countries; 0 not covered"
    check_svg(empty.svg())


@pytest.mark.parametrize("most", [0, 1, 2, 5, 9, 99, 100, 1000, 4711, 10**6, 10**12])
def test_shades_part_the_counts(most: int) -> None:
    begins = map_drawing.steps(most)
    assert begins == sorted(set(begins))
    assert begins[0] == 1
    assert len(begins) == len(map_drawing.labels(begins)) <= len(map_drawing.SHADES)
    assert begins[-1] <= max(most, 1) < 10 * begins[-1]
    assert [map_drawing.shade(begin, begins) for begin in begins] == list(range(len(begins)))
    assert map_drawing.shade(most, begins) == len(begins) - 1


def test_custom_geolocations_have_the_addresses_that_they_answer(geo: GeoLookup) -> None:
    expected: dict[int, list[int]] = {-1: [0, 0], -2: [0, 0]}
    for at, family in enumerate((4, 6)):
        for segment in geo.segments(family, "custom"):  # type: ignore[arg-type]
            expected[segment.geolocation.locid][at] += segment.last - segment.first + 1
    found = {each.place.locid: [each.addresses_v4, each.networks_v6 << 64] for each in custom_places(geo)}
    assert found == expected == {-1: [65536 - 256, 2 << 80], -2: [256, 0]}
    shown = on_it(maps.draw_custom(geo))
    assert (
        shown.summary
        == "2 custom geolocations; 65,536 IPv4 addresses; 131,072 IPv6 networks (/64); 1 without coordinates"
    )
    assert [row.values for row in shown.tables[0].rows] == [("65,280", "131,072"), ("256", "0")]
    assert [point.label.partition(" (")[0] for point in shown.points] == ["Wien, AT"]


def test_custom_geolocations_that_are_pending_are_on_the_map(home: str) -> None:
    publish(home, PLACES[:2])
    with GeoLookup(home) as geo, geo.edit() as editor:
        locid = editor.create(
            country="IT", region="", city="Roma", postalcode="", latitude=41.9, longitude=12.5, dmacode="", areacode=""
        )
        editor.add_block(locid, "8.8.8.8")
        shown = on_it(maps.draw_custom(geo, focus="IT"))
    assert [(row.label, row.values) for row in shown.tables[0].rows] == [(f"Roma, IT ({locid}) (pending)", ("1", "0"))]


def test_attributions_are_on_the_map(geo: GeoLookup, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = count(geo, maps._batches(COLUMN))
    monkeypatch.setattr(type(counts), "attributions", property(lambda _: ("Data by <b>Somebody</b>\u202e",)))
    assert on_it(maps.draw_counts(counts)).footer[0] == "Data by <b>Somebody</b>\\u202e"


def test_custom_geolocations_are_called_by_the_names_of_their_sites(home: str) -> None:
    publish(home, PLACES[:2])
    with GeoLookup(home) as geo, geo.edit() as editor:
        editor.create(name="Łódź office", country="PL", city="Łódź", latitude=51.8, longitude=19.5, blocks=["8.8.8.8"])
        shown = on_it(maps.draw_custom(geo))
    assert [row.label.removesuffix(" (pending)") for row in shown.tables[0].rows] == ["Łódź office, Łódź, PL"]
    assert shown.points[0].label.startswith("Łódź office, Łódź, PL")


def test_the_small_points_lie_above_the_large_and_let_their_country_be_seen(drawn: maps.Map) -> None:
    specification = map_drawing.specification(on_it(drawn), whole=True)
    values = {each["name"]: each["values"] for each in specification["data"]}
    sizes = [each["size"] for each in values["points"]]
    assert len(sizes) > 2
    assert sizes == sorted(sizes, reverse=True)
    (group,) = [mark for mark in specification["marks"] if mark["type"] == "group"]
    shapes, small, points = group["marks"]
    assert [each["from"]["data"] for each in (shapes, small, points)] == ["outlines", "small", "points"]
    assert points["encode"]["enter"]["fillOpacity"]["value"] < 0.5


def test_a_small_country_with_many_requests_is_a_disc_of_its_shade(home: str) -> None:
    publish(home, [place(1, "8.0.0.0/8", country="LU", city=""), place(2, "9.0.0.0/8", country="DE", city="")])
    with GeoLookup(home) as geo:
        for focus, there in ((None, ["Luxembourg: 3"]), ("LU", [])):
            found = on_it(maps.draw(["8.8.8.8"] * 3 + ["9.1.1.1"], geo=geo, focus=focus))
            specification = map_drawing.specification(found, whole=False)
            (small,) = [each["values"] for each in specification["data"] if each["name"] == "small"]
            assert [each["label"] for each in small] == there, focus


def test_the_legend_has_circles_of_round_counts(drawn: maps.Map) -> None:
    assert on_it(drawn).sizes == (("5", 1.0),)
    of_many = map_content._sizes_of(43_210, lambda number: number / 43_210)
    assert [text for text, _ in of_many] == ["40,000", "4,000", "400"]
    texts = re.findall(r">([^<]*)</text>", drawn.svg())
    assert "requests of a city" in texts
