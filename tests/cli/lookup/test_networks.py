"""What commands say of networks: the line of an address, JSON, fields, exit statuses, explanations, status, check."""

import csv
import io
import json
import os
import pty
from pathlib import Path
from typing import Any

import pytest

from geolookup.cli.app import run
from geolookup.lookup.members import NAMES, Members
from geolookup.model.facts import NETWORK_FACTS
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync import opening
from geolookup.sync.pull.pull import pull
from tests.cli.lookup.test_lookup import command
from tests.support.users.quick_commands import forked

_CITY = "network,country,city\n8.8.8.0/24,US,Mountain View\n1.1.1.0/24,AU,\n"
_ASN = (
    "network,asn,as_organization,is_vpn\n8.8.0.0/16,15169,Google LLC,\n9.9.9.0/24,,,yes\n10.0.0.0/24,7,Seven\x1b[31m,\n"
)
_BELOW = "network,asn,isp\n8.8.8.0/24,1,Somebody\n11.0.0.0/24,,An ISP\n"


@pytest.fixture(autouse=True)
def state(home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = []
    for name, text in (("city", _CITY), ("asn", _ASN), ("below", _BELOW)):
        path = tmp_path / f"{name}.csv"
        path.write_text(text, encoding="utf-8")
        sources.append(SourceSettings(name=name, location=os.fspath(path)))
    pull(StateDirectory(home), Settings(sources=tuple(sources)))
    monkeypatch.setenv("GEOLOOKUP_HOME", home)


def on_a_terminal(*arguments: str) -> list[str]:
    import subprocess

    ours, theirs = pty.openpty()
    subprocess.run([*forked(), "-m", "geolookup", *arguments], stdout=theirs, check=False, timeout=60)
    os.close(theirs)
    text = os.read(ours, 1 << 16).decode()
    os.close(ours)
    return text.splitlines()


@pytest.mark.parametrize("asked", [[], ["lookup"]], ids=["at once", "by click"])
def test_on_a_terminal_the_as_stands_at_the_end_of_the_line(asked: list[str]) -> None:
    assert on_a_terminal(*asked, "8.8.8.8", "1.1.1.1") == [
        "8.8.8.8\tMountain View, US\t8.8.8.0-8.8.8.255\tAS15169 Google LLC",
        "1.1.1.1\tAU\t1.1.1.0-1.1.1.255",
    ]


@pytest.mark.parametrize("asked", [[], ["lookup"]], ids=["at once", "by click"])
def test_elsewhere_the_columns_of_a_place_stay_what_they_are(asked: list[str]) -> None:
    result = command(*asked, "8.8.8.8")
    assert result.stdout.decode() == "8.8.8.8\tMountain View, US\t8.8.8.0-8.8.8.255\tdefault 1000000000\n"


@pytest.mark.parametrize("asked", [[], ["lookup"]], ids=["at once", "by click"])
@pytest.mark.parametrize(
    ("address", "said", "code"),
    [
        ("8.8.4.4", "no place, AS15169 Google LLC", 0),
        ("9.9.9.9", "no place, anonymous vpn", 0),
        ("10.0.0.1", "no place, AS7 Seven\\x1b[31m", 0),
        ("11.0.0.1", "no place, An ISP", 0),
        ("12.0.0.1", "not covered", 4),
        ("2002:808:404::1", "no place, AS15169 Google LLC", 0),
    ],
)
def test_an_address_with_a_network_and_no_place_says_so(asked: list[str], address: str, said: str, code: int) -> None:
    result = command(*asked, address)
    assert result.stdout.decode() == f"{address}\t{said}\n"
    assert result.returncode == code


def test_one_address_of_which_nothing_is_known_is_enough_for_a_four(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("8.8.4.4", "12.0.0.1").returncode == 4
    assert run(["lookup", "8.8.4.4", "9.9.9.9"]) == 0
    assert run(["explain", "8.8.4.4"]) == 0
    assert run(["explain", "12.0.0.1"]) == 4
    capsys.readouterr()


def test_a_range_without_a_place_says_what_is_known_of_its_networks(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["8.8.4.0/24", "8.0.0.0-10.0.0.255"]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.split("\t")[1] == "no place, AS15169 Google LLC"
    assert {line.split("\t")[1] for line in rest} == {
        "Mountain View, US",
        "no place, 1 network",
        "no place, 3 networks",
    }
    assert run(["12.0.0.0/24"]) == 4
    assert "\tnot covered\t" in capsys.readouterr().out


def test_on_a_terminal_a_part_of_a_range_ends_with_its_network_or_their_number() -> None:
    assert on_a_terminal("8.8.8.0/25") == [
        "8.8.8.0/25\tMountain View, US\t8.8.8.0-8.8.8.127\t128 addresses\t100.0%\tAS15169 Google LLC"
    ]
    assert on_a_terminal("8.8.8.0/24", "1.1.1.0/24")[1].endswith("\t256 addresses\t100.0%")


def test_facts_of_a_range_are_those_of_each_of_its_parts(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--fields", "first,last,country,asn,isp", "--format", "csv")
    assert run(["8.8.7.0-8.8.9.255", *options]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "first,last,country,asn,isp,error",
        "8.8.7.0,8.8.7.255,,15169,,",
        "8.8.8.0,8.8.8.255,US,15169,Somebody,",
        "8.8.9.0,8.8.9.255,,15169,,",
    ]
    found = answers(capsys, "lookup", "9.9.8.0/23")
    assert [(each["first"], each["addresses"], each["is_anonymous_vpn"]) for each in found] == [
        ("9.9.8.0", 256, None),
        ("9.9.9.0", 256, True),
    ]
    assert run(["9.9.8.0/23"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1, "without facts there is one answer: no place"


def test_facts_are_those_of_a_kept_generation_too(
    capsys: pytest.CaptureFixture[str], home: str, tmp_path: Path
) -> None:
    path = tmp_path / "asn.csv"
    path.write_text(_ASN.replace("15169,Google LLC", "64500,Somebody else"), encoding="utf-8")
    sources = [
        SourceSettings(name=name, location=os.fspath(tmp_path / f"{name}.csv")) for name in ("city", "asn", "below")
    ]
    pull(StateDirectory(home), Settings(sources=tuple(sources)))
    fields = ("--fields", "asn,as_organization,traits.autonomous_system_number")
    for asked, number in (((), "64500\tSomebody else"), (("--as-of", "1"), "15169\tGoogle LLC")):
        assert run(["lookup", "8.8.8.8", *asked, *fields]) == 0
        assert capsys.readouterr().out == f"{number}\t{number.split(chr(9))[0]}\n"
        assert run(["lookup", "8.8.8.0/25", *asked, "--field", "asn"]) == 0
        assert capsys.readouterr().out == f"{number.split(chr(9))[0]}\n"
        (found,) = answers(capsys, "lookup", "8.8.8.8", *asked, "--record")
        assert found["record"]["traits"]["autonomous_system_number"] == found["asn"] == int(number.split("\t")[0])


def answers(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    run([*arguments, "--json"])
    return json.loads(capsys.readouterr().out)


def test_json_has_the_typed_facts(capsys: pytest.CaptureFixture[str]) -> None:
    both, alone, none = answers(capsys, "lookup", "8.8.8.8", "9.9.9.9", "12.0.0.1")
    assert (both["city"], both["asn"], both["as_organization"], both["isp"]) == (
        "Mountain View",
        15169,
        "Google LLC",
        "Somebody",
    )
    assert both["is_anonymous_vpn"] is None
    assert (alone["country"], alone["asn"], alone["is_anonymous_vpn"]) == (None, None, True)
    assert {none[name] for name in NETWORK_FACTS} == {None}


def test_fields_and_records_lead_to_facts(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lookup", "8.8.8.8", "--fields", "ip,asn,city"]) == 0
    assert capsys.readouterr().out == "8.8.8.8\t15169\tMountain View\n"
    assert run(["lookup", "8.8.4.4", "--field", "traits.autonomous_system_number"]) == 0
    assert capsys.readouterr().out == "15169\n"
    (found,) = answers(capsys, "lookup", "8.8.4.4", "--record")
    assert found["record"] == {
        "traits": {"autonomous_system_number": 15169, "autonomous_system_organization": "Google LLC"}
    }
    assert run(["lookup", "9.9.9.9", "--record"]) == 0
    assert capsys.readouterr().out == "9.9.9.9\tno place, anonymous vpn\n  traits.is_anonymous_vpn\ttrue\n"


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "8.8.4.4", "9.9.9.9", "2002:808:808::1", "12.0.0.1"])
def test_each_member_is_the_same_by_name_and_in_json(capsys: pytest.CaptureFixture[str], address: str) -> None:
    (found,) = answers(capsys, "lookup", address)
    assert tuple(found) == NAMES
    with opening.open() as geo:
        values = Members(geo, NAMES).of(address)
        assert values == (None if address == "12.0.0.1" else tuple(found.values()))
        for name in NAMES:
            assert Members(geo, [name]).of(address) == (None if values is None else (found[name],)), name
    run(["lookup", address, "--fields", ",".join(NAMES), "--format", "csv"])
    names, row = csv.reader(io.StringIO(capsys.readouterr().out))
    texts = {name: "" if value is None else str(value).lower() for name, value in found.items()}
    assert dict(zip(names, map(str.lower, row), strict=True)) == {**texts, "error": ""}


def test_facts_of_places_have_names_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lookup", "8.8.8.8", "9.9.9.9", "--fields", "ip,country_name,continent_code,asn"]) == 0
    assert capsys.readouterr().out == "8.8.8.8\tUnited States\tNA\t15169\n9.9.9.9\t\t\t\n"
    assert answers(capsys, "lookup", "8.8.8.8")[0]["is_in_european_union"] is False


def test_annotate_writes_facts_and_counts_who_has_only_a_network_as_covered(
    capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    log = tmp_path / "access.log"
    log.write_text("8.8.8.8 GET, 9.9.9.9, 8.8.4.4; 10.0.0.1, 12.0.0.1\n", encoding="ascii")
    fields = "country,asn,as_organization,is_anonymous_vpn,traits.isp,country.iso_code"
    assert run(["annotate", os.fspath(log), "--fields", fields]) == 4
    line, said = capfdbinary.readouterr()
    assert line == (
        b"8.8.8.8 [US, AS15169, Google LLC, Somebody, US] GET, 9.9.9.9 [is_anonymous_vpn=true], "
        b"8.8.4.4 [AS15169, Google LLC]; 10.0.0.1 [AS7, Seven\\x1b[31m], 12.0.0.1\n"
    )
    assert said.endswith(b"5 addresses: 4 found, 1 not covered, 0 malformed\n")
    log.write_text("9.9.9.9 and 8.8.4.4\n", encoding="ascii")
    assert run(["annotate", os.fspath(log)]) == 0, "as a lookup of them ends"
    assert capfdbinary.readouterr() == (b"9.9.9.9 [-] and 8.8.4.4 [-]\n", b"")


def listed(capsys: pytest.CaptureFixture[str], *options: str, code: int = 0) -> tuple[str, str]:
    capsys.readouterr()
    assert run(["list", *options]) == code
    out, said = capsys.readouterr()
    return out, said


@pytest.mark.parametrize("number", ["15169", "AS15169", "as15169", "0.15169"])
def test_the_networks_of_an_as_are_listed_one_a_line(capsys: pytest.CaptureFixture[str], number: str) -> None:
    assert listed(capsys, "--asn", number, "--networks") == ("8.8.0.0/16\n", "")
    assert listed(capsys, "--fact", f"asn={number}", "--networks") == ("8.8.0.0/16\n", "")


def test_ranges_are_listed_with_the_facts_that_they_are_listed_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert listed(capsys, "--asn", "15169") == ("8.8.0.0-8.8.255.255\t15169\tGoogle LLC\n", "")
    both = "9.9.9.0-9.9.9.255\ttrue\n"
    assert listed(capsys, "--fact", "is_anonymous_vpn") == (both, "")
    assert listed(capsys, "--fact", "is_anonymous_vpn=yes", "--fact", "is_anonymous_vpn=no") == (both, "")
    assert listed(capsys, "--asn", "15169", "--asn", "7", "--fields", "asn")[0].splitlines() == [
        "8.8.0.0-8.8.255.255\t15169",
        "10.0.0.0-10.0.0.255\t7",
    ]
    assert listed(capsys, "--asn", "7")[0] == "10.0.0.0-10.0.0.255\t7\tSeven\\x1b[31m\n"


def test_facts_of_places_and_of_networks_and_fields_are_combined(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--fact", "country_name=united states", "--asn", "15169", "--fields", "city,asn", "--networks")
    assert listed(capsys, *options) == ("8.8.8.0/24\tMountain View\t15169\n", "")
    assert listed(capsys, "--country", "us", "--asn", "15169", "--networks") == ("8.8.8.0/24\n", "")
    assert listed(capsys, "--custom", "--asn", "15169") == ("", "geolookup: no address fits\n")


def test_listed_ranges_are_csv_and_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    facts = ("--fact", "is_anonymous_vpn", "--fields", "is_anonymous_vpn,country,asn")
    assert listed(capsys, *facts, "--format", "csv")[0] == (
        "first,last,is_anonymous_vpn,country,asn\n9.9.9.0,9.9.9.255,true,,\n"
    )
    found = {"is_anonymous_vpn": True, "country": None, "asn": None}
    out = listed(capsys, *facts, "--json")[0]
    assert json.loads(out) == [{"first": "9.9.9.0", "last": "9.9.9.255", **found}]
    out = listed(capsys, *facts, "--networks", "--format", "ndjson")[0]
    assert json.loads(out) == {"network": "9.9.9.0/24", **found}
    assert listed(capsys, "--country", "AU", "--networks", "--format", "ndjson")[0].startswith(
        '{"network":"1.1.1.0/24","locid":'
    )


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--asn", "64512"], ""),
        (["--fact", "is_tor_exit_node"], ": no source says is_tor_exit_node"),
        (["--asn", "15169", "--country", "Germany"], ": the country 'Germany' is not a code of two letters: write DE"),
    ],
)
def test_that_nothing_fits_is_said_with_the_reason(
    capsys: pytest.CaptureFixture[str], options: list[str], why: str
) -> None:
    assert listed(capsys, *options, "--networks") == ("", f"geolookup: no address fits{why}\n")
    assert listed(capsys, *options, "--json") == ("[]\n", f"geolookup: no address fits{why}\n")


def test_without_a_source_of_networks_a_list_names_what_is_missing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "place.csv"
    path.write_text("network,country\n8.8.8.0/24,US\n", encoding="utf-8")
    monkeypatch.setenv("GEOLOOKUP_HOME", str(tmp_path / "other"))
    assert run(["sync", str(path)]) == 0
    assert (
        "no address fits: no source says who runs addresses: `geolookup source add`" in listed(capsys, "--asn", "1")[1]
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--asn", "x"], "'x' is not an AS number"),
        (["--asn", "0"], "AS 0 stands for none"),
        (["--fact", "asn=4294967296"], "the greatest is 4294967295"),
        (["--fact", "is_tor_exit_nod"], "did you mean is_tor_exit_node?"),
        (["--fact", "time_zone"], "say which: time_zone=Europe/Paris"),
        (["--fact", "is_anycast=maybe"], "'maybe' is not a valid boolean"),
        (["--fact", "accuracy_radius=65536"], "65536 is not in the range"),
        (["--asn", "7", "--top", "3"], "--top is for geolocations"),
        (["--asn", "7", "--format", "parquet"], "--format parquet is for"),
        (["--asn", "7", "--fields", "blocks"], "--fields blocks is for geolocations"),
        (["--fields", "asn"], "--fields asn is for addresses"),
        (["--asn", "7", "--json", "--format", "csv"], "exclude each other"),
    ],
)
def test_a_wrong_list_of_facts_is_told(capsys: pytest.CaptureFixture[str], options: list[str], message: str) -> None:
    assert message in " ".join(listed(capsys, *options, code=2)[1].split())


def test_the_top_networks_of_a_log_add_up(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_text("8.8.8.8 8.8.4.4 1.1.1.1 9.9.9.9 10.0.0.1 12.0.0.1 8.8.8.8\n", encoding="ascii")
    capsys.readouterr()
    assert run(["top", os.fspath(log), "--by", "asn"]) == 0
    lines = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    assert [[cell.strip() for cell in line if cell.strip()][:3] for line in lines[1:-1]] == [
        ["AS15169", "Google LLC", "3"],
        ["(no source says it)", "2", "28.6%"],
        ["AS7", "Seven\\x1b[31m", "1"],
        ["not covered", "1", "14.3%"],
    ]
    assert lines[-1] == ["7 requests; 1 not covered"]
    found = answers(capsys, "top", os.fspath(log), "--by", "asn")
    assert found["rows"][0] == {"asn": 15169, "as_organization": "Google LLC", "count": 3, "share": 0.428571}
    assert sum(row["count"] for row in found["rows"]) + found["not_covered"] == found["counted"] == 7
    assert run(["top", os.fspath(log), "--by", "country_name", "--csv"]) == 0
    assert capsys.readouterr() == (
        "country_name,requests,share\nUnited States,2,0.285714\nAustralia,1,0.142857\n",
        "7 requests; 4 not covered\n",
    )


def test_a_fact_that_no_source_says_draws_a_warning_in_each_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    log.write_text("8.8.8.8\n", encoding="ascii")
    path = os.fspath(log)

    def warned(*arguments: str) -> str:
        capsys.readouterr()
        run([*arguments])
        return capsys.readouterr().err

    for arguments in (
        ("lookup", "8.8.8.8", "--fields", "asn,is_anycast"),
        ("annotate", path, "--fields", "asn,is_anycast"),
        ("top", path, "--by", "is_anycast"),
    ):
        assert "geolookup: warning: no source says is_anycast: it will be empty" in warned(*arguments), arguments
    assert warned("lookup", "8.8.8.8", "--fields", "asn,country") == ""
    monkeypatch.setenv("GEOLOOKUP_HOME", str(tmp_path / "other"))
    assert run(["sync", os.fspath(tmp_path / "city.csv")]) == 0
    assert "who runs addresses, so asn will be empty: `geolookup source add`" in warned("8.8.8.8", "--field", "asn")
    assert "who runs addresses, so asn will be empty" in warned("annotate", path, "--fields", "country,asn")
    assert warned("annotate", path, "--fields", "country,time_zone") == ""


def test_explain_names_the_source_of_each_fact_and_who_said_something_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "8.8.8.8"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  asn 15169, says asn; below says 1" in lines
    assert "  isp Somebody, says below" in lines
    facts = {fact["name"]: fact for fact in answers(capsys, "explain", "8.8.8.8")["facts"]}
    assert facts["asn"] == {
        "name": "asn",
        "value": 15169,
        "source": "asn",
        "others": [{"source": "below", "value": 1}],
    }


def test_status_and_the_list_of_generations_say_what_each_source_knows(capsys: pytest.CaptureFixture[str]) -> None:
    city, asn, below = answers(capsys, "status")["sources"]
    assert [each["layer"] for each in (city, asn, below)] == ["place", "network", "network"]
    assert (asn["blocks"], asn["network_blocks"], asn["network_addresses_v4"]) == (0, 3, 65536 + 512)
    assert below["network_addresses_v4"] == 512, "of the first 256 its ISP"
    assert answers(capsys, "status")["network_blocks"] == 5
    run(["status"])
    out = capsys.readouterr().out
    assert "networks:     5 blocks\n" in out
    assert "3 blocks of networks; knows the network of 66,048 IPv4 addresses and 0 of IPv6" in out
    run(["generations", "show", "1"])
    assert "below (ranges-csv), snapshot 3, knows the network of 512 IPv4" in capsys.readouterr().out


def test_a_source_can_be_kept_to_one_layer(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "both.csv"
    path.write_text("network,country,asn\n8.8.8.0/24,US,7\n", encoding="utf-8")
    found = answers(capsys, "check", str(path))
    assert (found["blocks_v4"], found["network_blocks"], found["facts"]) == (1, 1, ["autonomous_system_number"])
    for layer, counts in (("place", (1, 0)), ("network", (0, 1))):
        found = answers(capsys, "check", str(path), "--layer", layer)
        assert (found["blocks_v4"], found["network_blocks"]) == counts
    monkeypatch.setenv("GEOLOOKUP_HOME", str(tmp_path / "other"))
    assert run(["sync", str(path), "--layer", "network"]) == 0
    assert "published generation 1: 1 block of networks" in capsys.readouterr().out
    assert answers(capsys, "sync")["outcome"] == "unchanged", "a bare sync reads it in the same way"
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(tmp_path / "geolookup.toml"))
    assert run(["source", "add", str(path), "--layer", "place", "--name", "mine"]) == 0
    assert 'layer = "place"' in (tmp_path / "geolookup.toml").read_text()
    capsys.readouterr()
    assert run(["source", "list"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("\tplace")


def test_a_held_source_of_networks_is_shown_and_compared(
    capsys: pytest.CaptureFixture[str], home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", str(tmp_path / "other"))
    path = tmp_path / "many.csv"
    rows = [f"10.{second}.0.0/16,{second + 1},AS {second}" for second in range(64)]
    path.write_text("network,asn,as_organization\n" + "\n".join(rows) + "\n", encoding="utf-8")
    assert run(["sync", str(path)]) == 0
    path.write_text("network,asn,as_organization\n" + "\n".join(rows[:32]) + "\n", encoding="utf-8")
    capsys.readouterr()
    assert run(["sync"]) == 3
    assert "50.0% of the IPv4 addresses whose network is known would have none" in capsys.readouterr().err
    assert run(["generations", "diff", "served", "held"]) == 0
    out = capsys.readouterr().out
    assert "ranges of networks: 0 added, 32 removed, 0 changed (2,097,152 IPv4 addresses and 0 of IPv6)" in out
    assert run(["generations", "show", "held"]) == 0
    assert "32 blocks of networks" in capsys.readouterr().out
    assert run(["verify"]) == 0


def test_csv_has_the_facts_of_networks_that_a_source_says(capsys: pytest.CaptureFixture[str]) -> None:
    """An address with a network and no place has no empty row; what no source says has no column."""
    assert run(["lookup", "9.9.9.9", "8.8.8.8", "12.0.0.1", "--format", "csv"]) == 4
    vpn, google, nothing = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert list(vpn)[-6:] == ["source", "asn", "as_organization", "isp", "is_anonymous_vpn", "error"]
    assert (vpn["is_anonymous_vpn"], vpn["asn"], vpn["country"]) == ("true", "", "")
    assert (google["asn"], google["as_organization"], google["city"]) == ("15169", "Google LLC", "Mountain View")
    assert set(nothing.values()) == {"12.0.0.1", ""}
    assert run(["lookup", "8.8.8.8-8.8.9.9", "--format", "csv"]) == 0
    assert {row["asn"] for row in csv.DictReader(io.StringIO(capsys.readouterr().out))} == {"15169"}
