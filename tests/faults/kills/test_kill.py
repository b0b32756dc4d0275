"""SIGKILL at every call and at many moments of whatever writes: the old state or the new one, whole."""

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults.raw_server import RawServer
from tests.faults.sweeps import check, swept
from tests.support.data.lists import item, listed


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


# What CI tries of each: kills at so many of its calls, some of each kind, and after so many delays. Those of a row are
# tried by one process; whatever strace can stop as well (pull, refresh, edit, rollback) is tried by its sweep, too.
GROUPS: dict[str, list[tuple[str, int, int]]] = {
    "publishing": [("publish", 18, 0), ("publish", 0, 8), ("first publish", 10, 2), ("edit", 9, 1)],
    "pulling": [("pull", 9, 2), ("refresh", 9, 2), ("sync of three", 12, 2)],
    "packing": [("pack", 24, 4), ("unpack", 18, 2)],
    "keeping": [("accept", 9, 2), ("hold", 9, 0), ("rollback", 9, 0), ("pin", 9, 0), ("prune", 9, 0)],
}


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("group", GROUPS)
def test_a_kill_anywhere_leaves_the_old_state_or_the_new_one_and_the_next_run_goes_on(
    tmp_path: Path, full_sweep: bool, group: str
) -> None:
    wanted = GROUPS[group]
    if full_sweep:
        wanted = [(name, 10_000 if points else 0, 10 * delays) for name, points, delays in wanted]
    with ExitStack() as servers:
        arguments = []
        for number, (name, points, delays) in enumerate(wanted):
            server = servers.enter_context(RawServer(stamped_list(1), stamped_list(2)))
            work = tmp_path / str(number)
            work.mkdir()
            arguments.append([name, str(work), server.url, points, delays])
        found = swept("tests.faults.kills.kill_sweep", json.dumps(arguments))
    for (_, points, delays), one in zip(wanted, found, strict=True):
        check(one, points=points, delays=delays)
        assert one["calls"] > 20
