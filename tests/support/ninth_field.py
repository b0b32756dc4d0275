"""What `tests.model.test_fields` runs in a copy of the sources that has a ninth field, ``timezone``."""

import contextlib
import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import geolookup
from geolookup.cli.app import run
from geolookup.columns.arrow import locate
from geolookup.model.errors import RequestRefusedError
from geolookup.model.fields import FIELD_NAMES, UNKNOWN
from geolookup.service.geolocations import search
from geolookup.service.geolocations.loader import load_files
from geolookup.service.store.store import Store
from geolookup.sites.file import read_sites, write_sites
from geolookup.sites.plan import export_sites
from geolookup.state.editor import Editor
from geolookup.state.publishing.verify import verify
from geolookup.upstream.decode import RowDecoder
from geolookup.web import wire
from tests.support.data.lists import item
from tests.support.data.states import publish


def command(*arguments: str) -> Any:
    """What a command writes with --json."""
    written = io.StringIO()
    with contextlib.redirect_stdout(written):
        assert run([*arguments]) == 0
    return json.loads(written.getvalue())


def zone(address: str) -> str:
    """The time zone of an address, by the command's long way."""
    (found,) = command("lookup", "--format", "json", address)
    return str(found["timezone"])


def state(home: str) -> None:
    """A list with the field: decoded, staged, indexed, looked up, edited, exported."""
    rows = [
        item(1, ("10.0.0.0", "10.255.255.255"), country="DE", timezone="Europe/Berlin"),
        item(2, ("11.0.0.0", "11.0.0.255"), country="GB"),
        item(-1, ("10.1.0.0", "10.1.255.255"), country="FR", city="Nantes", latitude=47.2, timezone="Europe/Paris"),
    ]
    decoder = RowDecoder()
    pulled = decoder.batch(json.dumps(rows).encode())
    assert [row.timezone for row in pulled] == ["Europe/Berlin", "", "Europe/Paris"]
    assert decoder.rejected == []
    bad = decoder.batch(json.dumps([{**rows[0], "timezone": ["no text"]}]).encode())
    assert (bad, decoder.rejected[0].reason) == ([], "timezone is not text")
    publish(home, pulled)
    assert zone("10.0.0.1") == "Europe/Berlin"
    assert [place["timezone"] for place in command("list", "--json")] == ["Europe/Paris", "Europe/Berlin", ""]
    with Editor(home) as editor:
        fields = {**UNKNOWN, "latitude": 1.0, "longitude": 2.0, "timezone": "Asia/Tokyo"}
        editor.add_block(editor.create(**fields), "10.3.0.0/16")
    assert zone("10.3.0.1") == "Asia/Tokyo"
    assert command("custom", "create", "--latitude", "1", "--longitude", "2", "--timezone", "UTC", "--json")
    assert {"UTC", "Asia/Tokyo"} < {place["timezone"] for place in command("custom", "list", "--json")}
    with geolookup.open() as geo:
        column = locate(geo, pa.array(["10.0.0.1", "10.3.0.1"]), ["timezone"])
        assert column.column(0).to_pylist() == ["Europe/Berlin", "Asia/Tokyo"]
        assert geo.fingerprint()
    with Editor(home) as editor:
        editor.update(-1, city="Rennes")
        created = min(laid.place.locid for laid in editor.custom())
        editor.update(created, timezone="America/Chicago")
        editor.amend(editor.pending()[0].id, fields={"city": "Austin"})
        assert {laid.place.timezone for laid in editor.custom()} >= {"Europe/Paris", "America/Chicago", "Asia/Tokyo"}
    assert verify(home) == []


def sites(home: str, folder: Path) -> None:
    """The file of sites has it, in both forms."""
    with Editor(home) as editor:
        found = export_sites(editor)
    assert "Asia/Tokyo" in {site.fields["timezone"] for site in found}
    for form in ("toml", "csv"):
        path = folder / f"sites.{form}"
        path.write_text(write_sites(found, form), encoding="utf-8")
        assert read_sites(str(path)) == found


def service(database: str, folder: Path) -> None:
    """A service's database has a column for it, is loaded and listed; bodies must have the field."""
    path = folder / "load.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["locid", *FIELD_NAMES, "startip", "endip"])
        writer.writerow([1, "DE", "", "", "", "", "", "", "", "Europe/Berlin", "10.0.0.0", "10.0.0.255"])
    with Store.open(database) as store:
        load_files(store, [path])
        snapshot = store.snapshot()
        (found,) = json.loads(b"".join(search.encode(snapshot, search.Filter())))
        snapshot.close()
    assert found["timezone"] == "Europe/Berlin"
    body = {**UNKNOWN, "latitude": 1, "longitude": 2, "timezone": "UTC"}
    assert wire.geolocation(body)["timezone"] == "UTC"
    del body["timezone"]
    with pytest.raises(RequestRefusedError):
        wire.geolocation(body)


if __name__ == "__main__":
    home, database, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    state(home)
    sites(home, folder)
    service(database, folder)
    print(f"all the way in {Path(geolookup.__file__).parents[1]}")
