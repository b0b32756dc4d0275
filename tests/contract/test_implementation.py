"""The contract tests find out whether another service keeps the interface: docs/interface.md says how."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.implementation import Implementation

ROOT = Path(__file__).parents[2]
OURS = f"{shlex.quote(sys.executable)} -m geolookup serve --port {{port}} --load {{defaults}} --load-hotels {{hotels}}"
#: It has the list and nothing else; each geolocation has lost its blocks.
WRONG = """
import csv, http.server, json, sys
with open(sys.argv[2], newline="") as file:
    places = {int(row["locid"]): {**row, "locid": int(row["locid"]), "ipblocks": []} for row in csv.DictReader(file)}
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(list(places.values())).encode())
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def check(command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--implementation", command, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )


def test_ours_started_by_a_command_keeps_it() -> None:
    done = check(
        OURS,
        "tests/contract",
        "-k",
        "the_list_is_an_array or create_block_answers or details_and_list_answer or every_operation_that or scope",
    )
    assert done.returncode == 0, done.stdout
    assert "4 passed, " in done.stdout.splitlines()[-1], done.stdout  # tokens are ours alone


def test_one_that_does_not_is_found(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(WRONG)
    command = f"exec {shlex.quote(sys.executable)} {shlex.quote(str(tmp_path / 'wrong.py'))} {{port}} {{defaults}}"
    done = check(command, "tests/contract/test_geolocations.py", "-k", "the_list_is_an_array")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "1 failed" in done.stdout


def test_one_that_does_not_start_is_told() -> None:
    with pytest.raises(AssertionError, match="exit 3: it ended"):
        Implementation("exit 3", {})
