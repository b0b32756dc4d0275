"""SIGKILL of `geolookup push` at every commit and request: the next push finishes it, and makes nothing twice."""

from pathlib import Path

import pytest

from tests.faults.sweeps import check, swept
from tests.support.services.running_service import RunningService
from tests.support.services.service_fixtures import DEFAULTS


# What CI tries of each; the points are spread evenly over all that a push passes.
@pytest.mark.parametrize(("keys", "points", "delays"), [("ignored", 18, 2), ("keys", 9, 0)])
def test_a_push_killed_anywhere_is_finished_by_the_next_and_makes_nothing_twice(
    tmp_path: Path, full_sweep: bool, keys: str, points: int, delays: int
) -> None:
    if full_sweep:
        points, delays = 10_000, 100
    csv = tmp_path / "defaults.csv"
    csv.write_text(DEFAULTS)
    with RunningService(tmp_path / "s.db", load=[csv], ignore_idempotency_keys=keys == "ignored") as service:
        arguments = [str(tmp_path), service.url, str(points), str(delays), keys]
        found = swept("tests.faults.push.push_sweep", *arguments)
    check(found, points=points, delays=delays)
    assert found["calls"] > 40
