"""Sites of lists that NetBox and Nautobot exported as CSV, under the rules for those that are read from a server.

The exports were written by hand, in the shapes of NetBox 3.7 and 4.2 (titles of columns, labels of statuses, a VRF with
its route distinguisher: as the tables in its source render them) and of Nautobot 2.1; none is from a running program.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import geolookup
from geolookup.model.errors import DataFileError, TooMuchGoneError
from geolookup.settings.sites import SitesSettings
from geolookup.settings.table import Settings
from geolookup.sites.servers.applying import apply_server, plan_server
from geolookup.sites.servers.server import read_exports
from geolookup.sites.site import Problems, Site
from geolookup.state.editor import Editor
from tests.sites.test_servers import BLOCKS, blocks, command, told
from tests.state.test_vrfs import state

SITES = """\
ID,Name,Status,Facility,Region,Group,Tenant,ASNs,Time zone,Physical Address,Latitude,Longitude,Slug,Town
1,Munich,Active,,Bayern,,,,Europe/Berlin,"Marienplatz 1
80331 München",48.137000,11.575000,munich,
2,Bonn,Active,,Germany,,,,,"Am Hof 1, 53113 Bonn",50.730000,7.100000,bonn,Godesberg
3,Austin,Active,,USA,,,,,"1 Congress, Austin, TX 78701",30.270000,-97.740000,austin,
"""
PREFIXES = {
    "3.7": """\
ID,Prefix,Prefix (Flat),Status,Children,VRF,Utilization,Tenant,Site,VLAN,Role,Pool,Description,At
1,10.0.0.0/8,10.0.0.0/8,Container,5,Global,0,,,,,False,,
2,10.1.0.0/16,10.1.0.0/16,Active,1,Global,0,,Munich,,,False,,
3,10.1.128.0/17,10.1.128.0/17,Active,0,Global,0,,,,,False,"an ""a"", b",
4,10.2.0.0/16,10.2.0.0/16,Container,1,Global,0,,Bonn,,,False,,
5,10.2.1.0/24,10.2.1.0/24,Active,0,Global,0,,,,,False,,
6,10.3.0.0/24,10.3.0.0/24,Active,0,Global,0,,Austin,,,False,,
7,10.4.0.0/24,10.4.0.0/24,Deprecated,0,Global,0,,Austin,,,False,,
8,10.9.0.0/24,10.9.0.0/24,Active,0,Global,0,,,,,False,,Bonn
9,172.16.0.0/16,172.16.0.0/16,Active,0,CUST-A (65000:1),0,,Munich,,,False,,
10,172.16.0.0/16,172.16.0.0/16,Active,1,CUST-B (65000:2),0,,Austin,,,False,,
11,172.16.1.0/24,172.16.1.0/24,Active,0,CUST-B (65000:2),0,,,,,False,,
""",
    "4.2": """\
ID,Prefix,Prefix (Flat),Status,Children,VRF,Utilization,Tenant,Scope,Scope Type,VLAN,Role,Pool,Description,At
1,10.0.0.0/8,10.0.0.0/8,Container,5,Global,0,,,,,,False,,
2,10.1.0.0/16,10.1.0.0/16,Active,1,Global,0,,Munich,dcim.site,,,False,,
3,10.1.128.0/17,10.1.128.0/17,Active,0,Global,0,,,,,,False,"an ""a"", b",
4,10.2.0.0/16,10.2.0.0/16,Container,1,Global,0,,Bonn,dcim.site,,,False,,
5,10.2.1.0/24,10.2.1.0/24,Active,0,Global,0,,,,,,False,,
6,10.3.0.0/24,10.3.0.0/24,Active,0,Global,0,,Austin,dcim.site,,,False,,
7,10.4.0.0/24,10.4.0.0/24,Deprecated,0,Global,0,,Austin,dcim.site,,,False,,
8,10.9.0.0/24,10.9.0.0/24,Active,0,Global,0,,,,,,False,,Bonn
9,172.16.0.0/16,172.16.0.0/16,Active,0,CUST-A (65000:1),0,,Munich,dcim.site,,,False,,
10,172.16.0.0/16,172.16.0.0/16,Active,1,CUST-B (65000:2),0,,Austin,dcim.site,,,False,,
11,172.16.1.0/24,172.16.1.0/24,Active,0,CUST-B (65000:2),0,,,,,,False,,
""",
}
RANGES = """\
ID,Start address,End address,Size,VRF,Status,Role,Tenant,Marked Utilized,Description
1,10.2.9.10/24,10.2.9.20/24,11,Global,Active,,,False,
"""
ADDRESSES = """\
ID,IP Address,VRF,Status,Role,Tenant,Assigned,DNS Name,Parent,Interface
1,10.1.0.1/16,Global,Active,,,True,,switch,lo0
2,10.9.0.1/24,Global,Active,,,True,,router,lo0
"""
DEVICES = """\
Name,Status,Tenant,Site,Location,Rack,Role,Manufacturer,Type,IP Address
switch,Active,,Munich,,,,,,
router,Active,,Bonn,,,,,,
"""
FILES = {
    "sites.csv": SITES,
    "prefixes.csv": PREFIXES["4.2"],
    "ranges.csv": RANGES,
    "addresses.csv": ADDRESSES,
    "devices.csv": DEVICES,
}


def folder(at: Path, **more: str | None) -> Path:
    """A folder of exports; ``more`` are by the name without its end, None for one that is not there."""
    made = at / "exports"
    made.mkdir(exist_ok=True)
    for name, text in {**FILES, **{f"{name}.csv": text for name, text in more.items()}}.items():
        if text is None:
            (made / name).unlink(missing_ok=True)
        else:
            (made / name).write_text(text)
    return made


def read(made: Path, **more: Any) -> tuple[list[Site], Problems]:
    problems = Problems()
    return read_exports([str(made)], Settings(sites=SitesSettings(**more)), problems).sites, problems


@pytest.mark.parametrize("release", PREFIXES)
def test_exports_mean_what_the_server_says(tmp_path: Path, release: str) -> None:
    sites, problems = read(folder(tmp_path, prefixes=PREFIXES[release]), country={"Bayern": "DE"})
    assert blocks(sites) == BLOCKS
    assert not problems.all
    fields = {site.name: site.fields for site in sites}
    assert fields["Munich"] == {
        "country": "DE", "region": "", "city": "München", "postalcode": "80331", "latitude": 48.137,
        "longitude": 11.575, "dmacode": "", "areacode": "",
    }  # fmt: skip
    assert (fields["Bonn"]["country"], fields["Austin"]["country"]) == ("DE", "US")
    said = "\n".join(problems.said)
    assert "netbox-csv: exports: 3 sites, 11 prefixes, 1 ip-ranges, 2 ip-addresses" in said
    assert "prefixes.csv: read as the export of prefixes" in said
    assert "2 × prefix that is a container: not taken (10.0.0.0/8)" in said
    assert "1 × prefix that is Deprecated: not taken (10.4.0.0/24)" in said
    assert "1 × prefix without a site: left out (10.9.0.0/24)" in said


def test_the_settings_of_sites_count(tmp_path: Path) -> None:
    made = folder(tmp_path)
    sites, _ = read(made, statuses=("deprecated",), lists=("prefixes",), vrf_global="CUST-B")
    assert blocks(sites) == {("", "Austin"): "10.4.0.0-10.4.0.255"}
    sites, problems = read(made, lists=("prefixes",))
    assert blocks(sites)["", "Bonn"] == "10.2.1.0-10.2.1.255"
    assert "netbox-csv: exports: 3 sites, 11 prefixes" in problems.said
    sites, _ = read(made, paths={"city": "custom_fields.town"}, block_site="at")
    assert {site.fields["city"] for site in sites if site.name == "Bonn"} == {"Godesberg"}
    assert "10.9.0.0-10.9.0.255" in blocks(sites)["", "Bonn"]
    sites, _ = read(made, vrf_global="CUST-B")
    assert "172.16.1.0-172.16.1.255" in blocks(sites)["", "Austin"]


def test_vrfs_of_one_name_keep_their_route_distinguishers(tmp_path: Path) -> None:
    again = PREFIXES["4.2"].replace("CUST-B (65000:2)", "CUST-A (65000:2)")
    sites, _ = read(folder(tmp_path, prefixes=again))
    assert {site.vrf for site in sites} == {"", "CUST-A (65000:1)", "CUST-A (65000:2)"}


def test_a_vrf_is_named_as_people_wrote_it(tmp_path: Path) -> None:
    sites, _ = read(folder(tmp_path, prefixes=PREFIXES["4.2"].replace("CUST-B (65000:2)", "R&amp;D (old)")))
    assert {site.vrf for site in sites} == {"", "CUST-A", "R&D (old)"}


def test_a_device_that_no_export_names_is_said(tmp_path: Path) -> None:
    sites, problems = read(folder(tmp_path, devices=None))
    assert "10.9.0.1" not in blocks(sites)["", "Bonn"]
    assert "addresses of 2 devices of which no export says the one site" in "\n".join(problems.said)


def scoped(scope: str, kind: str) -> str:
    return f"{PREFIXES['4.2']}12,10.60.0.0/24,,Active,0,Global,0,,{scope},{kind},,,False,,\n"


def test_a_scope_may_be_a_location_in_a_site_and_is_no_site_else(tmp_path: Path) -> None:
    locations = "Name,Site,Status,Racks,Devices,Slug\nFloor 1,Bonn,Active,0,0,f1\nFloor 2,Bonn,Active,0,0,f2\n"
    made = folder(tmp_path, prefixes=scoped("Floor 1", "dcim.location"), locations=locations)
    sites, problems = read(made)
    assert "10.60.0.0-10.60.0.255" in blocks(sites)["", "Bonn"]
    assert not problems.all
    folder(tmp_path, prefixes=scoped("Floor 1", "dcim.location"), locations=f"{locations}Floor 1,Munich,,0,0,f1\n")
    assert "12 (" not in str(read(made)[1].all)
    assert "line 13: is of location 'Floor 1': several sites have one of this name" in str(read(made)[1].all[0])
    (made / "locations.csv").unlink()
    assert "'Floor 1': it is not in the export of locations" in str(read(made)[1].all[0])
    sites, problems = read(folder(tmp_path, prefixes=scoped("Germany", "dcim.region")))
    assert "prefix without a site (it names a region): left out (10.60.0.0/24)" in "\n".join(problems.said)


def test_a_scope_by_number_or_without_its_type_is_known(tmp_path: Path) -> None:
    numbers = "id,prefix,status,vrf,scope_type,scope_id\n1,10.60.0.0/24,active,,dcim.site,2\n"
    assert blocks(read(folder(tmp_path, prefixes=numbers, ranges=None, addresses=None))[0]) == {
        ("", "Bonn"): "10.60.0.0-10.60.0.255"
    }
    view = "Prefix,Status,Children,VRF,Tenant,Scope\n10.60.0.0/24,Active,0,Global,,Austin\n"
    assert blocks(read(folder(tmp_path, prefixes=view, ranges=None, addresses=None))[0]) == {
        ("", "Austin"): "10.60.0.0-10.60.0.255"
    }


def test_a_site_that_is_not_there_and_a_bad_row_are_named(tmp_path: Path) -> None:
    _, problems = read(folder(tmp_path, prefixes=scoped("Gone", "dcim.site") + "13,10.61.0.0/33\n"))
    assert [each.kind for each in problems.all] == [
        "is not a row of the table",
        "it names a site that is not in the list",
    ]
    found = "\n".join(map(str, problems.all))
    assert "prefixes.csv, line 14: has 2 values, and 15 are needed" in found
    assert "prefixes.csv, line 13 (10.60.0.0/24) names Gone, which the list of sites lacks" in found
    _, problems = read(folder(tmp_path, prefixes=scoped("", "").replace("10.60.0.0/24", "10.60.0.0/33")))
    assert "prefixes.csv, line 13: " in str(problems.all[0])


def test_a_block_of_two_sites_is_refused_with_both_rows(tmp_path: Path) -> None:
    _, problems = read(folder(tmp_path, prefixes=scoped("Munich", "dcim.site").replace("10.60.0.0/24", "10.3.0.0/24")))
    assert "line 7 of Austin" in str(problems.all[0])
    assert "line 13 of Munich" in str(problems.all[0])


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"sites": None}, "the export of sites is missing"),
        ({"prefixes": None}, "the export of prefixes is missing"),
        ({"sites": None, "prefixes": None}, "the export of sites and that of prefixes is missing"),
        ({"older": SITES}, r"older.csv and .*sites.csv: are both exports of sites"),
        ({"prefixes": "Prefix,Status,VRF\n10.0.0.0/8,Active,Global\n"}, "no column names the site of a prefix"),
    ],
)
def test_exports_that_are_not_whole_are_refused(tmp_path: Path, changed: dict[str, str | None], why: str) -> None:
    with pytest.raises(DataFileError, match=why):
        read(folder(tmp_path, **changed))


def test_exports_may_be_in_a_zip(tmp_path: Path) -> None:
    made = folder(tmp_path)
    archive = shutil.make_archive(str(tmp_path / "exports"), "zip", made)
    assert blocks(read(Path(archive))[0]) == blocks(read(made)[0])


def test_another_file_is_passed_over_in_a_folder_and_refused_alone(tmp_path: Path) -> None:
    made = folder(tmp_path, vrfs="ID,Name,RD,Tenant\n1,CUST-A,65000:1,\n")
    assert "vrfs.csv: is no export of" in "\n".join(read(made)[1].said)
    with pytest.raises(DataFileError, match=r'its first line is "ID,Name,RD,Tenant"'):
        read(made / "vrfs.csv")
    with pytest.raises(DataFileError, match="no such file"):
        read(made / "gone.csv")


def test_exports_of_nautobot_name_locations_by_those_above_them(tmp_path: Path) -> None:
    made = tmp_path / "nautobot"
    made.mkdir()
    (made / "locations.csv").write_text(
        "name,parent__name,parent__parent__name,location_type__name,status__name,physical_address,latitude,longitude\n"
        "Germany,NoObject,NoObject,Country,Active,,,\n"
        'Bonn,Germany,NoObject,Site,Active,"Am Hof 1, 53113 Bonn",50.73,7.1\n'
        "Munich,Germany,NoObject,Site,Active,,48.137,11.575\n"
        "Floor 1,Bonn,Germany,Floor,Active,,,\n"
        "Floor 1,Munich,Germany,Floor,Active,,,\n"
    )
    (made / "prefixes.csv").write_text(
        "prefix,namespace__name,type,status__name,location__name,location__parent__name,location__parent__parent__name\n"
        "10.0.0.0/8,Global,container,Active,NoObject,NoObject,NoObject\n"
        "10.1.0.0/24,Global,network,Active,Floor 1,Bonn,Germany\n"
        "10.1.1.0/24,Global,network,Active,Bonn,Germany,NoObject\n"
        "10.2.0.0/24,Lab,network,Active,Floor 1,Munich,Germany\n"
    )
    sites, problems = read(made, location_type="Site")
    assert blocks(sites) == {
        ("", "Bonn"): "10.1.0.0-10.1.0.255 10.1.1.0-10.1.1.255",
        ("Lab", "Munich"): "10.2.0.0-10.2.0.255",
    }
    assert not problems.all
    assert {site.fields["country"] for site in sites} == {"DE"}
    assert {site.name for site in read(made)[0]} == {"Bonn", "Bonn / Floor 1", "Floor 1", "Munich / Floor 1"} - {
        "Floor 1"
    }


# Applying them


@pytest.fixture
def editor(tmp_path: Path) -> Editor:
    return state(tmp_path / "state").edit()


def test_they_are_applied_once_under_the_guards_of_a_server(editor: Editor, tmp_path: Path) -> None:
    settings, problems = Settings(), Problems()
    made = folder(tmp_path)
    there = read_exports([str(made)], settings, problems)
    assert apply_server(editor, there, settings, problems, guarded=True).number > 0
    assert plan_server(editor, there, settings, problems).number == 0
    geo = geolookup.open(tmp_path / "state", settings=Settings())
    place = geo.lookup("172.16.1.1", vrf="CUST-B")
    assert place is not None
    assert (getattr(geo.match("10.2.9.15"), "site", None), place.city) == ("Bonn", "Austin")
    before = editor.custom()
    fewer = read_exports([str(folder(tmp_path, addresses=None))], settings, problems)
    with pytest.raises(TooMuchGoneError, match=r"2 of 2 ip-addresses .* not seen: are the exports whole"):
        apply_server(editor, fewer, settings, problems, guarded=True)
    assert editor.custom() == before
    apply_server(editor, fewer, settings, problems, guarded=False)
    assert editor.custom() != before


def test_the_commands_plan_and_apply(editor: Editor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", str(tmp_path / "state"))
    made = folder(tmp_path)
    files, preset = [str(made / "sites.csv"), str(made / "prefixes.csv")], ("--preset", "netbox-csv")
    said = told("custom", "plan", *files, *preset)
    assert "+ create Munich of the VRF CUST-A: 172.16.0.0/16" in said
    assert f"`geolookup custom apply {' '.join(files)} --preset netbox-csv` makes them" in said
    assert editor.custom() == []
    found = json.loads(command("custom", "apply", *files, *preset, "--json").stdout)
    assert found["summary"]["new"] == 3
    assert {step["vrf"] for step in found["vrfs"]} == {"CUST-A", "CUST-B"}
    assert "nothing to change" in told("custom", "plan", *files, *preset)
    assert "the export of sites is missing" in told("custom", "plan", files[1], *preset, code=1)
    failed = json.loads(command("custom", "apply", files[1], *preset, "--json").stdout)
    assert "the export of sites is missing" in failed["error"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("a.csv", "b.csv"), "several are read with --preset netbox-csv only"),
        (("--preset", "netbox-csv"), "--preset needs FILE"),
        (("-", "--preset", "netbox-csv"), "--preset needs FILE"),
        (("a.csv", "--preset", "netbox-csv", "--from", "netbox"), "--preset does not go with --from"),
        (("a.csv", "--from", "netbox"), "FILE does not go with --from"),
        (("a.csv", "--preset", "netbox-csv", "--field", "city=Ort"), "--field does not go with --preset netbox-csv"),
        (("a.csv", "--preset", "netbox-csv", "--vrf", "X"), "--vrf does not go with --preset netbox-csv"),
    ],
)
@pytest.mark.parametrize("verb", ["plan", "apply"])
def test_what_cannot_be_together_is_refused(verb: str, arguments: tuple[str, ...], why: str) -> None:
    assert why in told("custom", verb, *arguments, code=2)
