"""One shape of an answer: the library's, the command's and the services', as docs/answers.md says."""

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import geolookup
from geolookup.cli import exit_codes
from geolookup.cli.app import run
from geolookup.columns.arrow import locate
from geolookup.columns.common import FIELDS, json_of
from geolookup.lookup.members import NAMES
from geolookup.model.types import FLAT_NAMES, flat_not_covered
from tests.support.data.two_sources import state
from tests.support.services.running_share import RunningShare

PAGE = (Path(__file__).parents[2] / "docs" / "answers.md").read_text(encoding="utf-8")
ADDRESSES = ("10.20.0.1", "::ffff:10.20.0.1", "9.0.0.7", "9.1.2.3", "8.8.8.8", "44.10.20.1", "2a00::1", "203.0.113.9")


def members(page: str) -> list[str]:
    """The members that the page's first table names, in its order."""
    table = page.partition("| member |")[2].partition("\n\n")[0]
    return re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)


def test_the_page_names_every_member_in_its_order() -> None:
    assert members(PAGE) == [*NAMES]
    assert ("ip", *FIELDS) == NAMES


def test_library_command_and_http_have_one_shape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = state(tmp_path)
    monkeypatch.setenv("GEOLOOKUP_HOME", home)

    def command(form: str) -> str:
        capsys.readouterr()
        assert run(["lookup", *ADDRESSES, "--format", form]) == exit_codes.NOT_COVERED
        return capsys.readouterr().out

    with geolookup.open(home) as geo, RunningShare(home, tmp_path / "built") as share, share.client() as client:
        matches = [geo.match(address) for address in ADDRESSES]
        assert None in matches
        assert {match.layer for match in matches if match} == {"custom", "default"}
        expected = [
            flat_not_covered(address) if match is None else match.flat()
            for address, match in zip(ADDRESSES, matches, strict=True)
        ]
        for match in matches:
            if match is not None:
                assert {name: getattr(match, name) for name in FLAT_NAMES} == match.flat()
        same: dict[str, Callable[[], Any]] = {
            "ndjson": lambda: [json.loads(line) for line in command("ndjson").splitlines()],
            "json": lambda: json.loads(command("json")),
            "GET": lambda: [client.get(f"/lookup/{address}").json() for address in ADDRESSES],
            "POST": lambda: client.post("/lookup", json=ADDRESSES).json(),
        }
        for name, ask in same.items():
            found = ask()
            assert all(tuple(one) == NAMES for one in found), name
            found = [{name: one[name] for name in FLAT_NAMES} for one in found]
            assert [list(one.items()) for one in found] == [list(one.items()) for one in expected], name
        answers = {name: ask() for name, ask in same.items()}
        assert answers["GET"] == answers["POST"] == answers["json"] == answers["ndjson"]
        sql = [json_of(geo, address) for address in ADDRESSES]
        said = [
            {name: value for name, value in one.items() if name in FLAT_NAMES or value is not None}
            for one in answers["json"]
        ]
        for one in said:
            one.pop("network", None)  # it is in the range
        assert [text and list(json.loads(text).items()) for text in sql] == [
            match and list(one.items()) for match, one in zip(matches, said, strict=True)
        ]
        columns = locate(geo, pa.array(ADDRESSES), FLAT_NAMES[1:]).to_pylist()
        assert columns == [{name: one[name] for name in FLAT_NAMES[1:]} for one in expected]
        rows = list(csv.DictReader(io.StringIO(command("csv"))))
        assert list(rows[0]) == [*FLAT_NAMES, "error"]
        assert [row["city"] for row in rows] == [one["city"] or "" for one in expected]


def test_what_is_malformed_is_told_by_each_in_its_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = state(tmp_path)
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    with geolookup.open(home) as geo:
        with pytest.raises(geolookup.InvalidAddressError):
            geo.match("localhost")
        assert geo.lookup_many(["localhost"], errors="none") == [None]
    assert run(["lookup", "localhost", "--format", "ndjson"]) == exit_codes.MALFORMED
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["ip", "locid", "error"]
    assert found["locid"] is None
