"""The files in which clouds publish their addresses: samples of all, what lookups make of them, and odd ones."""

import csv
import ipaddress
import json
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import geolookup
from geolookup.model.countries import is_code
from geolookup.model.errors import DataFileError, PullError
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.sources.cloud_regions import place_of_region
from geolookup.sources.definition import define
from geolookup.sources.places import PlaceFields
from geolookup.sources.providers import preset, recognised
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.pull import pull
from tests.support.data.source_files import read_all

DATA = Path(__file__).parent.parent / "data" / "clouds"
TABLE = Path(__file__).parents[2] / "src" / "geolookup_data" / "cloud-regions.csv"


def aws(*rows: tuple[str, str, str]) -> str:
    """A file of AWS of (prefix, region, border group)."""
    names = ("ip_prefix", "region", "network_border_group")
    return json.dumps({"prefixes": [{**dict(zip(names, row, strict=True)), "service": "EC2"} for row in rows]})


def read(tmp_path: Path, text: str, **options: Any) -> Any:
    path = tmp_path / "input"
    path.write_text(text, encoding="utf-8")
    return read_all(path, networks=True, **options)


@pytest.fixture(scope="module")
def geo(tmp_path_factory: pytest.TempPathFactory) -> geolookup.GeoLookup:
    """A state with all samples as its sources."""
    home = str(tmp_path_factory.mktemp("clouds"))
    names = sorted(path.stem for path in DATA.glob("*.json"))
    sources = [SourceSettings(name=name, location=str(DATA / f"{name}.json")) for name in names]
    assert pull(StateDirectory(home), Settings(sources=tuple(sources))).outcome == "published"
    return geolookup.GeoLookup(home)


@pytest.mark.parametrize(
    ("address", "place", "facts"),
    [
        ("1.178.10.9", ("DE", "Frankfurt"), ("aws", "eu-central-1", "EC2, S3")),
        ("54.228.16.1", ("IE", ""), ("aws", "eu-west-1", "ROUTE53_HEALTHCHECKS")),
        ("54.228.17.1", ("IE", ""), ("aws", "eu-west-1", "EC2")),
        ("15.181.232.1", ("US", "Houston"), ("aws", "us-east-1", "AMAZON")),
        ("96.0.80.1", ("NZ", "Auckland"), ("aws", "ap-southeast-2", "AMAZON")),
        ("15.177.0.1", None, ("aws", "GLOBAL", "EC2")),
        ("15.177.108.1", ("US", ""), ("aws", "us-south-1", "EC2")),
        ("2600:1f70:6000::1", ("US", ""), ("aws", "us-east-2", "AMAZON")),
        ("13.69.109.133", ("NL", ""), ("azure", "westeurope", "ActionGroup")),
        ("51.144.56.97", ("NL", ""), ("azure", "westeurope", "ApplicationInsightsAvailability")),
        ("51.145.0.1", None, ("azure", None, "AzureCloud")),
        ("20.38.149.133", ("CA", "Toronto"), ("azure", "canadacentral", "ActionGroup")),
        ("13.104.173.145", ("IL", ""), ("azure", "israelnorthwest", "AzureCloud")),
        ("34.80.1.1", ("TW", "Changhua County"), ("google", "asia-east1", "Google Cloud")),
        ("107.178.240.1", None, ("google", "global", "Google Cloud")),
        ("8.8.8.8", None, ("google", None, None)),
        ("134.70.104.1", ("NL", "Amsterdam"), ("oracle", "eu-amsterdam-1", "OBJECT_STORAGE")),
        ("134.70.222.1", ("US", ""), ("oracle", "us-abilene-1", "OBJECT_STORAGE")),
        ("134.70.218.1", None, ("oracle", "eu-dublin-3", "OBJECT_STORAGE")),
        ("104.16.0.1", None, ("cloudflare", None, None)),
        ("151.101.1.1", None, ("fastly", None, None)),
        ("192.30.252.1", None, ("github", None, "hooks, web")),
        ("140.82.121.33", None, ("github", None, "packages")),
    ],
)
def test_an_address_of_a_cloud_has_its_region_and_the_place_of_that(
    geo: geolookup.GeoLookup, address: str, place: tuple[str, str] | None, facts: tuple[str | None, ...]
) -> None:
    found, network = geo.lookup(address), geo.network(address)
    assert (None if found is None else (found.country, found.city)) == place
    assert network is not None
    assert (network.cloud, network.cloud_region, network.cloud_service) == facts
    assert network.is_hosting_provider is True
    assert geo.record(address)["traits"]["cloud"] == facts[0]  # type: ignore[index]


def _said(document: Mapping[str, Any]) -> set[str]:
    """All texts of a document that are networks."""
    found: set[str] = set()
    waiting: list[Any] = [document]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str) and "/" in each and each[0] in "0123456789abcdef":
            found.add(each)
        waiting += each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
    return found


@pytest.mark.parametrize("name", sorted(path.stem for path in DATA.glob("*.json")))
def test_every_prefix_of_a_sample_is_a_network(name: str) -> None:
    path = DATA / f"{name}.json"
    blocks, gathered = read_all(path, networks=True)
    networks = {(first, last) for first, last, said in blocks if isinstance(said, dict)}
    prefixes = [ipaddress.ip_network(each) for each in _said(json.loads(path.read_text(encoding="utf-8")))]
    assert networks == {(str(each[0]), str(each[-1])) for each in prefixes}
    assert gathered.bad == 0
    terms = recognised("cloud-ranges", gathered.about)
    assert terms is not None
    assert (
        terms.attribution
        == preset("google-cloud" if name == "google" else name.replace("oracle", "oracle-cloud")).attribution
    )


def test_regions_that_are_not_known_are_warned_of() -> None:
    _, gathered = read_all(DATA / "oracle.json")
    assert gathered.warnings == [
        "regions of oracle that are not known yet: us-abilene-1: their names say the country alone",
        "regions of oracle that are not known yet: eu-dublin-3: their addresses have no place",
    ]
    _, gathered = read_all(DATA / "google-cloud.json")
    assert gathered.warnings == []


def test_a_zone_that_is_not_known_has_no_place_and_is_cut_out_of_its_region(tmp_path: Path) -> None:
    text = aws(
        ("3.0.0.0/24", "ap-southeast-2", "ap-southeast-2"),
        ("3.0.0.64/26", "ap-southeast-2", "ap-southeast-2-xyz-1"),
        ("3.0.1.0/26", "ap-southeast-2", "ap-southeast-2-xyz-1"),
    )
    blocks, gathered = read(tmp_path, text)
    sydney = PlaceFields("AU", "", "Sydney")
    assert [block for block in blocks if not isinstance(block[2], dict)] == [
        ("3.0.0.0", "3.0.0.63", sydney),
        ("3.0.0.128", "3.0.0.255", sydney),
    ]
    assert gathered.warnings == [
        "regions of aws that are not known yet: ap-southeast-2-xyz-1: their addresses have no place"
    ]


@pytest.mark.parametrize(
    ("cloud", "region", "place", "in_table"),
    [
        ("aws", "eu-central-1", PlaceFields("DE", "", "Frankfurt"), True),
        ("aws", "us-east-1-wl1-bos-wlz-1", PlaceFields("US", "MA", "Boston"), True),
        ("aws", "us-west-2-lax-1", PlaceFields("US", "CA", "Los Angeles"), True),
        ("aws", "ca-east-9", PlaceFields("CA"), False),
        ("aws", "sa-west-1", None, False),
        ("aws", "me-west-1", None, False),
        ("azure", "germanywc", PlaceFields("DE", "", "Frankfurt"), True),
        ("azure", "australiacentral9", PlaceFields("AU"), False),
        ("azure", "southeastus5", PlaceFields("US"), False),
        ("azure", "brazilne", PlaceFields("BR"), False),
        ("azure", "northeurope2", None, False),
        ("google", "us-west8", PlaceFields("US"), False),
        ("google", "australia-southeast9", PlaceFields("AU"), False),
        ("google", "europe-west15", None, False),
        ("oracle", "uk-cardiff-9", PlaceFields("GB"), False),
        ("oracle", "ap-kulai-1", None, False),
    ],
)
def test_a_region_has_the_place_of_the_table_or_the_country_that_its_name_says(
    cloud: str, region: str, place: PlaceFields | None, in_table: bool
) -> None:
    assert place_of_region(cloud, region) == (place, in_table)


def test_each_entry_of_the_table_says_where_it_is_documented() -> None:
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 200
    assert len({(row["cloud"], row["region"]) for row in rows}) == len(rows)
    assert all(is_code(row["country"]) and row["documented"].startswith("https://") for row in rows)


def test_two_regions_for_one_prefix_are_a_bad_row(tmp_path: Path) -> None:
    text = aws(("3.0.0.0/24", "eu-west-1", "eu-west-1"), ("3.0.0.0/24", "eu-west-2", "eu-west-2"))
    _, gathered = read(tmp_path, text)
    assert [str(row) for row in gathered.bad_rows] == [
        "row 2: its region is 'eu-west-2', and in a row before it 'eu-west-1'"
    ]


def test_a_prefix_that_is_none_is_a_bad_row_and_many_stop_the_pull(tmp_path: Path) -> None:
    _, gathered = read(tmp_path, '{"ipv4_cidrs": ["173.245.48.0/20", "173.245.48.1/20", 7, "x"]}')
    assert gathered.bad == 3
    bad = ", ".join(f'"x{at}"' for at in range(11))
    with pytest.raises(PullError, match="11 of 12 rows are bad"):
        read(tmp_path, '{"ipv4_cidrs": ["173.245.48.0/20", ' + bad + "]}")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"ipv4_cidrs": ["173.245.48.0/20"]', "is not JSON, or was cut short"),
        ('{"ipv4_cidrs": []}', "there is not one good row"),
        ('{"ipv4_cidrs": {"a": 1}}', "there is not one good row"),
        ('{"ipv4_cidrs": ' + "[" * 100_000, "is not JSON, or was cut short"),
    ],
)
def test_a_file_that_is_cut_or_says_nothing_is_refused(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises((DataFileError, PullError), match=why):
        read(tmp_path, text)


def test_azures_preset_looks_for_the_mondays_before() -> None:
    found = define(SourceSettings(name="azure", preset="azure"))
    days = [address[-13:-5] for address in found.addresses(date(2026, 11, 25), None)]
    assert days == ["20261123", "20261116", "20261109"]
    own = define(SourceSettings(name="azure", preset="azure", location="https://example.org/{DD}.json"))
    assert own.addresses(date(2026, 11, 25), None) == ["https://example.org/25.json"]
