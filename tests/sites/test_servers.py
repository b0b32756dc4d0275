"""Sites of NetBox: read whole or not at all, planned and applied by the commands, each night under the guard.

The server is one that answers in the documented shapes of 3.7, 4.0 and 4.2; a real Nautobot is played against by
`python -m tests.sites.nautobot`.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import geolookup
from geolookup.model.errors import DataFileError, SettingsError, TooMuchGoneError, UpstreamAnswerError, UpstreamError
from geolookup.settings.load import load
from geolookup.settings.sites import SitesSettings
from geolookup.settings.table import Settings
from geolookup.sites.servers.applying import apply_server, plan_server, run_server
from geolookup.sites.servers.server import read_server
from geolookup.sites.since import Keep
from geolookup.sites.site import Problems, Site
from geolookup.state.editor import Editor
from tests.cli.lookup.test_lookup import command
from tests.sites.netbox_server import TOKEN, Made, NetBoxServer
from tests.state.test_vrfs import state

RELEASES = ("3.7.8", "4.0.11", "4.2.9")


def filled(release: str = RELEASES[-1]) -> Made:
    """Two sites in Germany and one in Texas, with networks in the global table and in two VRFs."""
    made = Made(release=release)
    europe = made.region("Europe", "eu")
    germany = made.region("Deutschland", "de", europe)
    bavaria = made.region("Bayern", "by", germany)
    texas = made.region("Texas", "tx", made.region("USA", "us", made.region("North America", "na")))
    munich = made.site(
        "Munich",
        bavaria,
        latitude=48.137,
        longitude=11.575,
        physical_address="Marienplatz 1\n80331 München",
        time_zone="Europe/Berlin",
    )
    bonn = made.site("Bonn", germany, latitude=50.73, longitude=7.1, physical_address="Am Hof 1, 53113 Bonn")
    austin = made.site(
        "Austin", texas, latitude=30.27, longitude=-97.74, physical_address="1 Congress, Austin, TX 78701"
    )
    a, b = made.vrf("CUST-A", "65000:1"), made.vrf("CUST-B", "65000:2")
    made.prefix("10.0.0.0/8", status="container")
    made.prefix("10.1.0.0/16", munich)
    made.prefix("10.1.128.0/17")
    made.prefix("10.2.0.0/16", bonn, status="container")
    made.prefix("10.2.1.0/24")
    made.prefix("10.3.0.0/24", austin)
    made.prefix("10.4.0.0/24", austin, status="deprecated")
    made.prefix("10.9.0.0/24")
    made.prefix("172.16.0.0/16", munich, vrf=a)
    made.prefix("172.16.0.0/16", austin, vrf=b)
    made.prefix("172.16.1.0/24", vrf=b)
    made.range("10.2.9.10/24", "10.2.9.20/24")
    made.address("10.1.0.1/16", device=made.device("switch", munich))
    made.address("10.9.0.1/24", device=made.device("router", bonn))
    return made


@pytest.fixture(params=RELEASES)
def server(request: pytest.FixtureRequest) -> Iterator[NetBoxServer]:
    with NetBoxServer(filled(request.param)) as running:
        yield running


@pytest.fixture
def newest() -> Iterator[NetBoxServer]:
    with NetBoxServer(filled()) as running:
        yield running


def settings(server: NetBoxServer, folder: Path, **more: Any) -> Settings:
    token = folder / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    sites = SitesSettings(kind="netbox", url=server.url, token_file=str(token), **more)
    return Settings(sites=sites, attempts=3, max_wait_s=5.0)


def read(server: NetBoxServer, folder: Path, **more: Any) -> tuple[list[Site], Problems]:
    problems = Problems()
    return read_server(settings(server, folder, **more), problems).sites, problems


#: What the sites of `NetBoxServer` have, and those of its exports.
BLOCKS = {
    ("", "Munich"): "10.1.0.0-10.1.255.255 10.1.128.0-10.1.255.255",
    ("", "Bonn"): "10.2.1.0-10.2.1.255 10.2.9.10-10.2.9.20 10.9.0.1",
    ("", "Austin"): "10.3.0.0-10.3.0.255",
    ("CUST-A", "Munich"): "172.16.0.0-172.16.255.255",
    ("CUST-B", "Austin"): "172.16.0.0-172.16.255.255 172.16.1.0-172.16.1.255",
}


def blocks(sites: list[Site]) -> dict[tuple[str, str], str]:
    return {(site.vrf, site.name): " ".join(map(str, site.blocks)) for site in sites}


def test_a_site_has_what_its_prefixes_and_those_around_them_say(server: NetBoxServer, tmp_path: Path) -> None:
    sites, problems = read(server, tmp_path)
    assert blocks(sites) == BLOCKS
    assert not problems.all
    fields = {site.name: site.fields for site in sites}
    assert fields["Munich"] == {
        "country": "DE", "region": "Bayern", "city": "München", "postalcode": "80331", "latitude": 48.137,
        "longitude": 11.575, "dmacode": "", "areacode": "",
    }  # fmt: skip
    assert {name: (each["country"], each["region"], each["city"]) for name, each in fields.items()} == {
        "Munich": ("DE", "Bayern", "München"),
        "Bonn": ("DE", "", "Bonn"),
        "Austin": ("US", "Texas", "Austin"),
    }
    said = "\n".join(problems.said)
    assert f"NetBox {server.made.release}: 6 regions, 3 sites, 11 prefixes, 1 ip-ranges, 2 ip-addresses" in said
    assert "2 × prefix that is a container: not taken (10.0.0.0/8)" in said
    assert "1 × prefix that is deprecated: not taken (10.4.0.0/24)" in said
    assert "1 × prefix without a site: left out (10.9.0.0/24)" in said
    assert server.tokens == {f"Token {TOKEN}"}


def test_the_statuses_lists_and_fields_that_are_taken_are_a_setting(newest: NetBoxServer, tmp_path: Path) -> None:
    newest.made.sites[0]["custom_fields"] = {"town": "Garching", "iso": "AT"}
    newest.made.regions[1]["custom_fields"] = {"iso": "CH"}
    sites, _ = read(
        newest,
        tmp_path,
        statuses=("Deprecated",),
        lists=("prefixes",),
    )
    assert blocks(sites) == {("", "Austin"): "10.4.0.0-10.4.0.255"}
    sites, _ = read(newest, tmp_path, paths={"city": "custom_fields.town", "country": "custom_fields.iso"})
    assert {site.name: (site.fields["country"], site.fields["city"]) for site in sites if not site.vrf} == {
        "Munich": ("AT", "Garching"),
        "Bonn": ("CH", ""),
        "Austin": ("US", ""),
    }
    assert not any("/api/ipam/ip-" in path for path in newest.asked[: len(newest.asked) // 3])


def test_a_country_is_what_the_settings_a_name_or_the_only_code_says(newest: NetBoxServer, tmp_path: Path) -> None:
    made = newest.made
    dach = made.region("DACH north", "dach-north", made.region("Region 1", "emea"))
    two = made.region("ca", "ca", made.region("us", "us"))
    for number, (name, region) in enumerate({"Mapped": dach, "Unclear": two, "Nowhere": None}.items()):
        made.prefix(f"10.50.{number}.0/24", made.site(name, region, latitude=48.0, longitude=11.0))
    sites, problems = read(newest, tmp_path)
    countries = {site.name: site.fields["country"] for site in sites}
    assert [countries[name] for name in ("Mapped", "Unclear", "Nowhere")] == ["", "", ""]
    said = "\n".join(problems.said)
    assert "US and CA may be meant: say it under [sites.country] (Unclear, below us > ca)" in said
    assert "2 × site without a country: no place above it means one" in said
    sites, _ = read(newest, tmp_path, country={"dach-north": "de", "us": "US"})
    countries = {site.name: site.fields["country"] for site in sites}
    assert [countries[name] for name in ("Mapped", "Unclear")] == ["DE", "US"]


def test_a_scope_may_be_a_location_in_a_site_and_is_no_site_else(tmp_path: Path) -> None:
    with NetBoxServer(filled(RELEASES[-1])) as server:
        made = server.made
        floor = made.location("Floor 1", made.sites[1])
        made.prefix("10.60.0.0/24", scope=("dcim.location", floor))
        made.prefix("10.61.0.0/24", scope=("dcim.region", made.regions[0]))
        sites, problems = read(server, tmp_path)
    assert "10.60.0.0-10.60.0.255" in blocks(sites)["", "Bonn"]
    assert any(
        "1 × prefix without a site (it names a region): left out (10.61.0.0/24)" in told for told in problems.said
    )


def test_a_custom_field_of_a_block_names_its_site_first(newest: NetBoxServer, tmp_path: Path) -> None:
    made = newest.made
    made.prefix("10.70.0.0/24", made.sites[0], at={"id": 2, "name": "Bonn"})
    made.range("10.70.0.5/24", "10.70.0.9/24", at="austin")
    made.address("10.70.0.1/24", at="Gone")
    sites, problems = read(newest, tmp_path, block_site="at")
    assert "10.70.0.0-10.70.0.255" in blocks(sites)["", "Bonn"]
    assert "10.70.0.5-10.70.0.9" in blocks(sites)["", "Austin"]
    assert [problem.kind for problem in problems.all] == ["it names a site that is not in the list"]
    assert "address 3 (10.70.0.1) names Gone" in str(problems.all[0])


def test_vrfs_of_one_name_are_told_apart_and_one_may_be_global(newest: NetBoxServer, tmp_path: Path) -> None:
    made = newest.made
    made.prefix("192.168.0.0/16", made.sites[0], vrf=made.vrf("CUST-A", "65000:9"))
    sites, _ = read(newest, tmp_path)
    assert {site.vrf for site in sites} == {"", "CUST-A (65000:1)", "CUST-A (65000:9)", "CUST-B"}
    sites, _ = read(newest, tmp_path, vrf_global="CUST-B")
    assert "172.16.1.0-172.16.1.255" in " ".join(blocks([site for site in sites if not site.vrf]).values())


def test_a_vrf_that_becomes_global_joins_its_sites(newest: NetBoxServer, tmp_path: Path) -> None:
    sites, problems = read(newest, tmp_path, vrf_global="CUST-B")
    assert [site.name for site in sites if not site.vrf].count("Austin") == 1
    assert not problems.all


def test_one_block_of_two_sites_is_refused_with_both_rows(newest: NetBoxServer, tmp_path: Path) -> None:
    newest.made.prefix("10.3.0.0/24", newest.made.sites[0])
    newest.made.prefix("10.3.0.0/24", newest.made.sites[2])  # again, of the same site: no harm
    _, problems = read(newest, tmp_path)
    assert [str(each) for each in problems.all] == [
        f"{newest.url}: 10.3.0.0/24 is there twice: prefix 6 of Austin and prefix 12 of Munich"
    ]


# Reading all of it


def many(server: NetBoxServer, number: int) -> None:
    for at in range(number):
        server.made.prefix(f"10.{100 + at // 256}.{at % 256}.0/24", server.made.sites[at % 3])


def test_pages_are_asked_for_four_at_a_time_until_all_are_there(newest: NetBoxServer, tmp_path: Path) -> None:
    many(newest, 9000)
    sites, _ = read(newest, tmp_path)
    assert sum(len(site.blocks) for site in sites) == 9000 + 9
    pages = [path for path in newest.asked if path.startswith("/api/ipam/prefixes/")]
    assert len(pages) == 10
    assert all("limit=1000" in path and "ordering=id" in path for path in pages)
    assert 1 < newest.at_once <= 4


def test_a_server_that_allows_shorter_pages_is_read_whole(newest: NetBoxServer, tmp_path: Path) -> None:
    many(newest, 1500)

    def short(path: str, query: dict[str, str], _before: int) -> Any:
        if path != "/api/ipam/prefixes/":
            return None
        rows, offset = newest.made.prefixes, int(query["offset"])
        found = {"count": len(rows), "next": None, "previous": None, "results": rows[offset : offset + 200]}
        return 200, {}, json.dumps(found).encode(), None

    newest.fault = short
    sites, _ = read(newest, tmp_path)
    assert sum(len(site.blocks) for site in sites) == 1500 + 9


def test_a_limit_of_requests_is_waited_for(newest: NetBoxServer, tmp_path: Path) -> None:
    many(newest, 2500)
    newest.fault = lambda path, _query, before: (
        (429, {"Retry-After": "0.1"}, b"{}", None) if path.endswith("/prefixes/") and before < 8 else None
    )
    sites, _ = read(newest, tmp_path)
    assert sum(len(site.blocks) for site in sites) == 2500 + 9


@pytest.mark.parametrize("how", ["cut", "fewer", "counts", "forbidden", "gone", "html", "form"])
def test_a_pull_that_is_not_whole_is_none(newest: NetBoxServer, tmp_path: Path, how: str) -> None:
    many(newest, 2500)
    rows = newest.made.prefixes

    def fault(path: str, query: dict[str, str], _before: int) -> Any:
        offset = int(query.get("offset", 0))
        if path != "/api/ipam/prefixes/" or offset != 1000:
            return None
        found = {"count": len(rows), "next": None, "previous": None, "results": rows[offset : offset + 1000]}
        body = json.dumps(found).encode()
        if how == "fewer":
            body = json.dumps({**found, "results": rows[offset : offset + 900]}).encode()
        if how == "counts":
            body = json.dumps({**found, "count": len(rows) - 1}).encode()
        status = {"forbidden": 403, "gone": 500}.get(how, 200)
        if how == "html":
            body = b"<html>signed out</html>"
        if how == "form":
            body = json.dumps({**found, "results": [{"id": 1}]}).encode()
        return status, {}, body, 5000 if how == "cut" else None

    newest.fault = fault
    with pytest.raises(UpstreamError) as told:
        read(newest, tmp_path)
    assert "/api/ipam/prefixes/" in str(told.value)


def test_a_list_that_changes_while_it_is_read_is_read_again(newest: NetBoxServer, tmp_path: Path) -> None:
    many(newest, 2500)

    def changing(path: str, query: dict[str, str], _before: int) -> Any:
        if path == "/api/ipam/prefixes/" and query["offset"] == "2000" and not done:
            done.append(True)
            newest.made.prefixes.pop(0)
        return None

    done: list[bool] = []
    newest.fault = changing
    sites, _ = read(newest, tmp_path)
    assert sum(len(site.blocks) for site in sites) == 2500 + 9
    assert sum(path.startswith("/api/ipam/prefixes/") for path in newest.asked) == 6


def test_what_the_token_may_not_view_is_an_error_where_something_names_it(newest: NetBoxServer, tmp_path: Path) -> None:
    gone = newest.made.sites.pop(0)
    _, problems = read(newest, tmp_path)
    assert "which the list of sites lacks: may the token view all?" in str(problems.all[0])
    newest.made.sites.insert(0, gone)
    newest.made.devices.pop()
    with pytest.raises(UpstreamAnswerError, match="router, which is not in the list of devices"):
        read(newest, tmp_path)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"netbox-version": "3.6.9"}, "is NetBox 3.6.9: sites are read from 3.7 or later"),
        ({"nautobot-version": "1.6.2"}, "is Nautobot 1.6.2: sites are read from 2.0 or later"),
        ({"hello": 1}, "neither NetBox nor Nautobot answers there: it names hello"),
    ],
)
def test_another_server_or_an_older_one_is_refused(newest: NetBoxServer, tmp_path: Path, body: Any, told: str) -> None:
    newest.fault = lambda path, _query, _before: (
        (200, {}, json.dumps(body).encode(), None) if path == "/api/status/" else None
    )
    with pytest.raises(UpstreamAnswerError, match=told):
        read(newest, tmp_path)


def test_the_token_of_the_service_is_never_sent_there(
    newest: NetBoxServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEOLOOKUP_TOKEN", "of-the-service")
    bearer = tmp_path / "bearer"
    bearer.write_text("nbt_key.secret")
    bearer.chmod(0o600)
    found = settings(newest, tmp_path)
    with_bearer = Settings(sites=SitesSettings(kind="netbox", url=newest.url, token_file=str(bearer)))
    read_server(with_bearer, Problems())
    with pytest.raises(SettingsError, match="`token_file` is missing"):
        read_server(Settings(sites=SitesSettings(kind="netbox", url=newest.url)), Problems())
    read_server(found, Problems())
    assert newest.tokens == {"Bearer nbt_key.secret", f"Token {TOKEN}"}


# Applying it


@pytest.fixture
def editor(tmp_path: Path) -> Editor:
    return state(tmp_path / "state").edit()


def applied(editor: Editor, found: Settings, **more: Any) -> int:
    problems = Problems()
    return apply_server(editor, read_server(found, problems), found, problems, guarded=True, **more).number


def test_it_is_applied_once_and_answers_in_each_vrf(newest: NetBoxServer, editor: Editor, tmp_path: Path) -> None:
    found = settings(newest, tmp_path)
    assert applied(editor, found) > 0
    assert applied(editor, found) == 0
    geo = geolookup.open(tmp_path / "state", settings=Settings())
    sites = {address: getattr(geo.match(address), "site", None) for address in ("10.1.200.1", "10.2.9.15", "10.9.0.1")}
    assert sites == {"10.1.200.1": "Munich", "10.2.9.15": "Bonn", "10.9.0.1": "Bonn"}
    cities = [geo.lookup("172.16.1.1", vrf=vrf) for vrf in ("CUST-A", "CUST-B")]
    assert [place.city for place in cities if place is not None] == ["München", "Austin"]
    newest.made.prefixes[5]["prefix"] = "10.3.1.0/24"
    assert applied(editor, found) == 2


def test_a_vrf_that_is_gone_there_is_emptied_here(newest: NetBoxServer, editor: Editor, tmp_path: Path) -> None:
    found = settings(newest, tmp_path)
    applied(editor, found)
    newest.made.prefixes = [row for row in newest.made.prefixes if row["vrf"] is None or row["vrf"]["name"] != "CUST-B"]
    applied(editor, found)
    assert editor.vrf_places("CUST-B") == {}
    assert set(editor.vrf_places("CUST-A")) == {"Munich"}


def test_a_token_that_sees_less_than_the_last_time_changes_nothing(
    newest: NetBoxServer, editor: Editor, tmp_path: Path
) -> None:
    found = settings(newest, tmp_path)
    many(newest, 400)
    applied(editor, found)
    before = editor.custom()
    newest.made.ranges.clear()
    newest.made.addresses.clear()
    problems = Problems()
    seen = read_server(found, problems)
    told = plan_server(editor, seen, found, problems).held
    assert told == ("2 of 2 ip-addresses that were there the last time are not seen: may the token view all?",)
    with pytest.raises(TooMuchGoneError, match="2 of 2 ip-addresses that were there the last time are not seen"):
        apply_server(editor, seen, found, problems, guarded=True)
    assert editor.custom() == before
    apply_server(editor, seen, found, problems, guarded=False)
    assert editor.custom() != before
    assert not plan_server(editor, seen, found, problems).held


def test_a_bad_site_changes_nothing(newest: NetBoxServer, editor: Editor, tmp_path: Path) -> None:
    found = settings(newest, tmp_path, apply="apply")
    newest.made.sites[0]["latitude"] = 95.0
    with pytest.raises(DataFileError, match=r"site 'Munich': latitude"):
        run_server(editor, found)
    assert editor.custom() == []


def test_each_night_it_is_planned_or_applied_and_what_is_held_waits(
    newest: NetBoxServer, editor: Editor, tmp_path: Path
) -> None:
    geo = geolookup.open(tmp_path / "state", settings=Settings())
    planned = run_server(editor, settings(newest, tmp_path))
    assert (planned.outcome, planned.waits) == ("planned", True)
    assert editor.custom() == []
    assert "`geolookup custom apply --from netbox` makes them" in str(geo.status().sites_wait)
    found = settings(newest, tmp_path, apply="apply")
    made = run_server(editor, found)
    assert (made.outcome, made.changes) == ("applied", planned.changes)
    assert geo.status().sites_wait is None
    assert run_server(editor, found).outcome == "unchanged"
    before = editor.custom()
    newest.made.prefixes = newest.made.prefixes[:2]
    held = run_server(editor, found)
    assert held.outcome == "held"
    assert held.apply == "geolookup custom apply --from netbox --accept"
    assert editor.custom() == before
    assert "--accept` makes them" in str(geo.status().sites_wait)
    newest.made.prefixes = filled().prefixes
    assert run_server(editor, found).outcome == "unchanged"
    assert geo.status().sites_wait is None


def test_what_somebody_changed_here_waits_until_they_say_what_stays(
    newest: NetBoxServer, editor: Editor, tmp_path: Path
) -> None:
    found = settings(newest, tmp_path, apply="apply")
    run_server(editor, found)
    editor.update(editor.sites()["Bonn"], city="Bad Godesberg")
    held = run_server(editor, found)
    assert held.outcome == "held"
    assert "Bonn: " in held.reasons[0]
    assert "say what stays, with --keep" in held.reasons[0]
    problems = Problems()
    mine = Keep(sites={"Bonn": "mine"})
    apply_server(editor, read_server(found, problems), found, problems, guarded=True, keep=mine)
    assert run_server(editor, found).outcome == "unchanged"


# The commands


@pytest.fixture
def ready(newest: NetBoxServer, editor: Editor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings that name the server and a state; the result is their file."""
    settings(newest, tmp_path)
    file = tmp_path / "geolookup.toml"
    source = f'[[source]]\nname = "source"\nlocation = "{tmp_path}/source.csv"\n'
    file.write_text(f'{source}[sites]\nkind = "netbox"\nurl = "{newest.url}/api/"\ntoken_file = "token"\n')
    monkeypatch.setenv("GEOLOOKUP_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(file))
    return file


def told(*arguments: str, code: int = 0) -> str:
    found = command(*arguments)
    assert found.returncode == code, found.stderr.decode()
    return found.stdout.decode() + found.stderr.decode()


@pytest.mark.usefixtures("ready")
def test_the_commands_plan_and_apply(editor: Editor) -> None:
    said = told("custom", "plan", "--from", "netbox")
    assert "sites in the file: 3 (3 to create); to delete: 0 of 0" in said
    assert "+ create Munich of the VRF CUST-A: 172.16.0.0/16" in said
    assert "`geolookup custom apply --from netbox` makes them" in said
    assert editor.custom() == []
    found = json.loads(command("custom", "apply", "--from", "netbox", "--json").stdout)
    assert found["summary"]["new"] == 3
    assert {step["vrf"] for step in found["vrfs"]} == {"CUST-A", "CUST-B"}
    assert "nothing to change" in told("custom", "plan", "--from", "netbox")
    assert "--sheet does not go with --from" in told("custom", "plan", "--from", "netbox", "--sheet", "x", code=2)
    assert "Missing argument 'FILE', or --from netbox" in told("custom", "apply", code=2)


def test_a_refresh_reads_the_server_first(newest: NetBoxServer, ready: Path, editor: Editor) -> None:
    done = command("refresh", "--json")
    assert done.returncode == 3
    found = json.loads(done.stdout)
    assert found["sites"]["outcome"] == "planned"
    assert found["next_action"]["code"] == "decide-on-sites"
    assert "geolookup custom apply --from netbox" in found["next_action"]["words"]
    assert "sites wait:" in told("status")
    assert "sites wait:" in told("status", "--check", code=3)
    ready.write_text(ready.read_text() + 'apply = "apply"\n')
    assert "changes of sites made" in told("refresh")
    assert set(editor.sites()) == {"Munich", "Bonn", "Austin"}
    assert "sites wait:" not in told("status")
    newest.fault = lambda *_: (500, {}, b"{}", None)
    assert "sites: GET /api/status/: the service answered 500" in told("refresh", code=1)
    assert "refresh FAILED" in told("status")
    assert set(editor.sites()) == {"Munich", "Bonn", "Austin"}
    newest.fault = lambda *_: None
    told("refresh")
    assert "refresh FAILED" not in told("status")


def test_a_refresh_without_sources_only_reads_the_server(ready: Path, editor: Editor) -> None:
    ready.write_text("[sites]" + ready.read_text().partition("[sites]")[2] + 'apply = "apply"\n')
    done = command("refresh", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["failures"], found["pull"]) == (0, [], None)
    assert (found["sites"]["outcome"], found["changed"]) == ("applied", True)
    assert set(editor.sites()) == {"Munich", "Bonn", "Austin"}


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ('kind = "netbox"', "needs `url`, too"),
        ('kind = "netbox"\nurl = "https://netbox.example.com"', "needs `token_file`, too"),
        ('kind = "phpipam"', "must be one of netbox, nautobot"),
        ('token = "abc"', "`token` must not stand here"),
        ('paths = {town = "x"}', "unknown setting town"),
        ('country = {de = "Deutschland"}', "is not a code of two letters: write DE"),
        ('lists = ["vlans"]', "must be a list of prefixes, ip-ranges, ip-addresses"),
        ('url = "netbox.example.com"', "is not a web address"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str, why: str
) -> None:
    file = tmp_path / "geolookup.toml"
    file.write_text(f"[sites]\n{more}\n")
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(file))
    with pytest.raises(SettingsError) as error:
        load()
    assert why in str(error.value)
