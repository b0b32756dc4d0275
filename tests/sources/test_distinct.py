"""Two rows of a table that give one block different places: all of them are bad, and named; the same twice is not."""

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from geolookup.sources import distinct
from tests.cli.edits.test_custom import Command
from tests.cli.edits.test_custom import command as command  # a fixture
from tests.cli.edits.test_custom import state as state  # a fixture
from tests.support.data.source_files import read_all
from tests.support.examples import examples

NETWORKS = ["10.0.0.0/24", "10.0.0.0/25", "10.0.1.0/24", "2001:db8::/32", "2001:db8::/33", "::ffff:10.0.0.0/120", "x"]
SAME = {"::ffff:10.0.0.0/120": "10.0.0.0/24"}


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(st.sampled_from(NETWORKS), st.sampled_from(["Ulm", "Bonn"])), max_size=12))
def test_what_is_left_is_what_a_plain_walk_leaves(tmp_path: Path, rows: list[tuple[str, str]]) -> None:
    path = tmp_path / "table.csv"
    path.write_text("network,city\n2001:db9::/32,Trier\n" + "".join(f"{network},{city}\n" for network, city in rows))
    cities: dict[str, set[str]] = {}
    for network, city in rows:
        cities.setdefault(SAME.get(network, network), set()).add(city)
    bad = {
        at + 3 for at, (network, _) in enumerate(rows) if network == "x" or len(cities[SAME.get(network, network)]) > 1
    }
    found, gathered = read_all(path, lenient=True)
    assert {row.line for row in gathered.bad_rows} == bad
    assert gathered.bad == len(bad)
    assert len(found) == 1 + len(rows) - len(bad)
    assert all(row.number == row.line - 1 for row in gathered.bad_rows if row.line is not None)


def test_a_sync_names_all_rows_of_the_block_and_leaves_them_out(command: Command, tmp_path: Path) -> None:
    rows = [f"10.{at >> 8}.{at & 255}.0/24,DE,Ulm" for at in range(1000)]
    rows[3] = rows[900] = rows[5].replace("Ulm", "Bonn")
    rows.append(rows[7])
    table = tmp_path / "ours.csv"
    table.write_text("\n".join(["network,country,city", *rows, ""]))
    command("check", table, exits=1)
    for line, other in ((5, 7), (7, 902), (902, 7)):
        assert f"line {line}: 10.0.5.0-10.0.5.255 is in line {other} too, with another place" in command.error
    assert "line 9:" not in command.error
    found, gathered = read_all(table)
    assert (gathered.bad, len(found)) == (3, 998)


def test_of_very_many_all_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distinct, "KEPT_BAD_ROWS", 10)
    path = tmp_path / "table.csv"
    blocks = [f"10.{at >> 8}.{at & 255}.0/24" for at in range(20_000)]
    rows = [f"{block},{city}" for city in ("Ulm", "Bonn") for block in blocks] + ["11.0.0.0/8,Ulm"] * 40_000
    random.Random(0).shuffle(rows)
    path.write_text("\n".join(["network,city", *rows, ""]))
    found, gathered = read_all(path, lenient=True)
    assert (gathered.bad, len(found)) == (40_000, 40_000)
