"""Every world of a small size, breadth first, with equal states folded; and walks through larger ones, by chance.

A violation is told as a story.
"""

import argparse
import random
import time
from collections import deque

from tests.state.edits.places.world import MISNAMED, Violated, World, check, check_rest, start, steps


def explore(first: World, *, most: int | None = None) -> int:
    """Play every world: the number of states.

    :raises AssertionError: with the shortest story in which an invariant does not hold
    """
    came: dict[World, tuple[World, str] | None] = {first: None}
    queue = deque([first])
    rested: set[World] = set()
    count = 0
    while queue and (most is None or count < most):
        world = queue.popleft()
        count += 1
        said = ""
        try:
            check(world)
            check_rest(world, rested)
            for said, after in steps(world):
                known = len(came)
                came.setdefault(after, (world, said))  # not asked for before: to hash a world takes a while
                if len(came) > known:
                    queue.append(after)
        except (Violated, ValueError, AssertionError) as error:
            raise AssertionError(f"{told(came, world)}\n  then {said}\n=> {error!r}") from error
    return count


def walk(seed: int) -> None:
    """Play one larger world, in which each step is chosen by chance.

    :raises AssertionError: with the story in which an invariant does not hold
    """
    chance = random.Random(seed)
    world = start(
        edits=chance.randint(2, 4), faults=chance.randint(0, 2), moves=chance.randint(0, 3), new=chance.random() < 0.4,
        blocks=chance.choice([[1], [1, 2]]),
    )  # fmt: skip
    story: list[str] = []
    try:
        for _ in range(60):
            check(world)
            # Of two faults in a row, a wrong number in an answer cannot be told in time.
            after = [each for each in steps(world) if MISNAMED not in each[0]]
            if not after:
                break
            said, world = chance.choice(after)
            story.append(said)
            if chance.random() < 0.15:
                check_rest(world, set())
        check_rest(world, set())
    except (Violated, ValueError, AssertionError) as error:
        lines = (f"{number}. {line}" for number, line in enumerate(story, 1))
        raise AssertionError("\n".join([f"walk {seed}", *lines, f"=> {error!r}"])) from error


def told(came: dict[World, tuple[World, str] | None], world: World) -> str:
    """The story of how it came to a state."""
    lines = []
    at: World | None = world
    while at is not None and (step := came[at]) is not None:
        at, said = step
        lines.append(said)
    return "\n".join(f"{number}. {line}" for number, line in enumerate(reversed(lines), 1))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, words in {
        "edits": "of the person",
        "faults": "of the service and the network",
        "moves": "of colleagues",
    }.items():
        parser.add_argument(name, type=int, nargs="?", default=1, help=words)
    parser.add_argument("--most", type=int, metavar="N", help="play so many states at most")
    parser.add_argument("--new", action="store_true", help="the place is still to be created")
    parser.add_argument("--blocks", type=int, nargs="*", default=[1], help="that the place has")
    parser.add_argument("--copies", type=int, default=0, help="of the edits, which may be put back")
    parser.add_argument("--brings", action="store_true", help="what a list brought is edited, too")
    parser.add_argument("--walks", type=int, metavar="N", help="walk by chance through N larger worlds instead")
    parser.add_argument("--first-seed", type=int, default=0, help="of these walks")
    given = vars(parser.parse_args())
    began = time.monotonic()
    most, walks, first = (given.pop(name) for name in ("most", "walks", "first_seed"))
    for seed in range(first, first + (walks or 0)):
        walk(seed)
    count = f"{walks} walks" if walks else f"{explore(start(**given), most=most)} states"
    print(count, f"{time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()
