"""SIGKILL at every call and at many moments of whatever writes: the old state or the new one, whole."""

from pathlib import Path

import pytest

from tests.faults.raw_server import RawServer
from tests.faults.sweeps import swept
from tests.support.lists import item, listed


def stamped_list(number: int) -> bytes:
    """What the service answers as of that generation: both layers, each row stamped with the number."""
    stamp = {"city": str(number), "region": str(number), "postalcode": str(number)}
    return listed(
        [
            item(1, ("10.0.0.0", "10.255.255.255"), ("2001:db8::", "2001:db8::ffff"), **stamp),
            item(2, ("11.0.0.0", "11.255.255.255"), **stamp),
            item(-1, ("192.168.0.0", "192.168.255.255"), **stamp),
        ],
        count=3,
        etag=f'"{number}"',
    )


# What CI tries of each; the calls are spread evenly over all that the scenario makes.
@pytest.mark.parametrize(
    ("scenario", "points", "delays"),
    [
        ("publish", 30, 0),
        ("publish", 0, 15),
        ("first publish", 15, 5),
        ("pull", 12, 6),
        ("refresh", 12, 6),
        ("sync of three", 20, 6),
        ("accept", 12, 4),
        ("hold", 12, 0),
        ("edit", 12, 4),
        ("rollback", 12, 0),
        ("pin", 12, 0),
        ("prune", 12, 0),
    ],
)
def test_a_kill_anywhere_leaves_the_old_state_or_the_new_one_and_the_next_run_goes_on(
    tmp_path: Path, full_sweep: bool, scenario: str, points: int, delays: int
) -> None:
    if full_sweep:
        points, delays = (10_000 if points else 0), 10 * delays
    with RawServer(stamped_list(1), stamped_list(2)) as server:
        arguments = [scenario, str(tmp_path), server.url, str(points), str(delays)]
        found = swept("tests.faults.kills.kill_sweep", *arguments, points=points, delays=delays)
    assert found["calls"] > 20
