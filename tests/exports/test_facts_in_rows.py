"""Rows with typed facts: each is what lookups say of its range, from the first to the last address."""

import csv
import io
import ipaddress
import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import geolookup
from geolookup.exports.content import LAYERS, LayerChoice
from geolookup.exports.rows import FIELDS
from geolookup.model.facts import FACT_NAMES, NETWORK_FACTS, PLACE_FACTS
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.pull import pull
from tests.oracle.plain_files import Plain, publish_all
from tests.support.data.states import place, publish


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> str:
    return publish_all(tmp_path_factory.mktemp("rows"))


def written(home: str, form: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    with geolookup.open(home) as geo:
        geolookup.export(geo, form, out, licence_allows=True, **options)
    return out.getvalue()


def table_of(home: str, **options: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = parquet.read_table(io.BytesIO(written(home, "parquet", **options))).to_pylist()
    return rows


def said_of(geo: geolookup.GeoLookup, address: str, layer: LayerChoice) -> dict[str, Any] | None:
    """What lookups say of an address in all fields; None if it gets no row."""
    match, network = geo.match(address), geo.network(address)
    if match is not None and layer in ("custom", "default") and match.layer != layer:
        match = None
    has_row = {"network": network is not None, "all": match is not None or network is not None}
    if not has_row.get(layer, match is not None):
        return None
    said: dict[str, Any] = {name: None if network is None else network.typed(name) for name in NETWORK_FACTS}
    if match is None:
        text = dict.fromkeys(("country", "region", "city", "postalcode", "dmacode", "areacode"), "")
        return {**dict.fromkeys(FIELDS), **text, **said}
    flat = match.flat()
    return {name: flat[name] if name in flat else getattr(match, name) for name in FIELDS if name not in said} | said


@pytest.mark.parametrize("layer", [each for each in LAYERS if each != "default"])
def test_each_row_is_what_lookups_say_of_its_range(layer: LayerChoice, state: str) -> None:
    rows = table_of(state, layer=layer, fields=FIELDS)
    plain = Plain()
    found = {}
    with geolookup.open(state) as geo:
        for row in rows:
            for end in ("first", "last"):
                said = said_of(geo, row[end], layer)
                assert said is not None, row
                assert {name: row[name] for name in FIELDS} == said, row
        ranges = [(ipaddress.ip_address(row["first"]), ipaddress.ip_address(row["last"])) for row in rows]
        assert ranges == sorted(ranges, key=lambda ends: (ends[0].version, int(ends[0])))
        for address in plain.boundaries():
            if address.version == 4 or address.sixtofour is None:
                found[address] = said_of(geo, str(address), layer) is not None
    at = 0
    for address, there in sorted(found.items(), key=lambda item: (item[0].version, int(item[0]))):
        while at < len(ranges) and (ranges[at][1].version, int(ranges[at][1])) < (address.version, int(address)):
            at += 1
        is_in = at < len(ranges) and ranges[at][0].version == address.version and ranges[at][0] <= address
        assert is_in is there, address
    for one, other in itertools.pairwise(rows):
        follows = int(ipaddress.ip_address(one["last"])) + 1 == int(ipaddress.ip_address(other["first"]))
        assert not follows or any(one[name] != other[name] for name in FIELDS), "neighbours of the same values are one"
    assert len(rows) > (3 if layer == "custom" else 200)


def test_ranges_are_split_only_where_what_is_asked_for_changes(state: str) -> None:
    few, more = (table_of(state, fields=fields) for fields in ("country", "country,asn"))
    assert len(few) < len(more)
    assert {name for row in table_of(state, fields="asn") for name in row} == {"first", "last", "asn"}
    assert all(row["asn"] for row in table_of(state, fields="asn"))


def test_the_columns_have_the_types_of_the_facts(state: str) -> None:
    schema = parquet.read_schema(io.BytesIO(written(state, "parquet", fields=FACT_NAMES)))
    kinds = {"text": pa.string(), "boolean": pa.bool_(), "uint16": pa.uint16(), "uint32": pa.uint32()}
    for fact in (*PLACE_FACTS.values(), *NETWORK_FACTS.values()):
        assert schema.field(fact.name).type == kinds[fact.kind]


def test_a_csv_file_with_facts_is_a_source_of_both_layers_again(state: str, tmp_path: Path) -> None:
    fields = "country,region,city,asn,as_organization,isp,is_anonymous,is_anonymous_vpn,is_tor_exit_node"
    path = tmp_path / "out.csv"
    path.write_bytes(written(state, "csv", fields=fields))
    lines = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    assert {line["is_anonymous_vpn"] for line in lines} == {"true", "false", ""}
    other = str(tmp_path / "other")
    pull(StateDirectory(other), Settings(sources=(SourceSettings(name="own", location=str(path)),)))
    asked = known = 0
    with geolookup.open(state) as geo, geolookup.open(other) as again:
        for line in lines:
            asked += 1
            one, two = geo.network(line["first"]), again.network(line["first"])
            wanted = [None if one is None else one.typed(name) for name in fields.split(",")[3:]]
            known += any(value is not None for value in wanted)
            assert [None if two is None else two.typed(name) for name in fields.split(",")[3:]] == wanted, line
            places = [
                found and (found.country, found.city)
                for found in (geo.lookup(line["first"]), again.lookup(line["first"]))
            ]
            assert places[0] == places[1] or (places[1] is None and places[0] == ("", "")), line
    assert asked > known > 100


def test_facts_are_told_no_more_precisely_than_places(state: str) -> None:
    def row(address: str, **options: Any) -> dict[str, Any]:
        rows = table_of(state, layer="default", fields=(*PLACE_FACTS, "asn"), **options)
        asked = ipaddress.IPv4Address(address)
        ranges = ((ipaddress.ip_address(row["first"]), ipaddress.ip_address(row["last"]), row) for row in rows)
        return next(row for first, last, row in ranges if first.version == 4 and first <= asked <= last)

    whole = row("216.160.83.56")
    assert (whole["region_code"], whole["time_zone"], whole["accuracy_radius"]) == ("WA", "America/Los_Angeles", 22)
    of_city = row("216.160.83.56", precision="city")
    assert of_city == {**whole, "first": of_city["first"], "last": of_city["last"], "accuracy_radius": 30}
    region, country = row("216.160.83.56", precision="region"), row("216.160.83.56", precision="country")
    assert (region["region_code"], region["region_name"]) == ("WA", "Washington")
    assert (region["time_zone"], region["accuracy_radius"], region["asn"]) == (None, None, whole["asn"])
    assert (country["country_name"], country["region_code"], country["region_name"]) == ("United States", None, None)
    assert row("2.125.160.220", precision="country")["time_zone"] == "Europe/London"


def test_a_field_that_is_unknown_is_named_with_those_that_there_are(state: str) -> None:
    with pytest.raises(geolookup.ColumnError, match=r"unknown field 'as_number': the fields are locid, .*, asn, "):
        written(state, "csv", fields="country,as_number")
    with pytest.raises(geolookup.SettingsError, match="no field of a place is asked for"):
        written(state, "csv", fields="asn", precision="city")


def test_only_the_licences_of_those_who_say_what_is_asked_for_count(tmp_path: Path) -> None:
    settings = []
    for name, column, redistribute in (
        ("numbers", "asn,as_organization\n10.0.0.0/8,1,One", True),
        ("vpns", "is_vpn\n10.0.0.0/9,yes", False),
    ):
        path = tmp_path / f"{name}.csv"
        path.write_text(f"network,{column}\n", encoding="utf-8")
        settings.append(
            SourceSettings(
                name=name, location=str(path), licence="L", attribution=f"By {name}", redistribute=redistribute
            )
        )
    home = str(tmp_path / "home")
    pull(StateDirectory(home), Settings(sources=tuple(settings)))
    with geolookup.open(home) as geo:
        for form, options in (
            ("csv", {"fields": "asn"}),
            ("mmdb", {"database_type": "GeoLite2-ASN"}),
            ("mmdb", {"layer": "network", "source": "numbers"}),
        ):
            done = geolookup.export(geo, form, io.BytesIO(), **options)  # type: ignore[arg-type]
            assert done.attributions == ("By numbers",)
        for form, options in (
            ("csv", {"fields": "asn,is_anonymous_vpn"}),
            ("mmdb", {"layer": "network"}),
            ("mmdb", {"layer": "all"}),
            ("mmdb", {"database_type": "GeoIP2-Anonymous-IP"}),
        ):
            with pytest.raises(geolookup.LicenceError, match=r"vpns \(L\) answers some of what is asked for"):
                geolookup.export(geo, form, io.BytesIO(), **options)  # type: ignore[arg-type]
            done = geolookup.export(geo, form, io.BytesIO(), licence_allows=True, **options)  # type: ignore[arg-type]
            assert "By vpns" in done.attributions


def test_facts_that_no_source_says_are_named(state: str, home: str) -> None:
    def warnings(of: str, fields: str, **options: Any) -> tuple[str, ...]:
        with geolookup.open(of) as geo:
            done = geolookup.export(geo, "csv", io.BytesIO(), fields=fields, licence_allows=True, **options)
        return done.warnings

    publish(home, [place(1, "8.0.0.0/8", country="US")])
    assert warnings(state, "country,asn,is_anonymous_vpn") == ()
    said = ("no source says isp, domain of what was asked for: they are empty",)
    assert warnings(state, "country,asn,isp,domain") == said
    said = ("no source says asn of what was asked for: it is empty",)
    assert warnings(state, "country,asn", source="city", layer="all") == said
    assert warnings(home, "country,asn") == said
    with pytest.raises(geolookup.SettingsError, match="no source of this state says who runs addresses"):
        warnings(home, "asn")
