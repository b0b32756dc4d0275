"""Play the push machine in many small rounds: ``python -m tests.sync.push.stateful.rounds --examples 1000``.

Each round has a seed of its own, and what is found is told at once, as it was found. A round that finds something ends
there, and the next one goes on: the sum says how many examples were played.
"""

import argparse
import sys
import time
import traceback
from collections import Counter

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.sync.push.stateful.push_machine import KINDS_OF_UPSTREAMS, STEPS, Kind, PushMachine


def play(machine: type[RuleBasedStateMachine], number: int, examples: int) -> tuple[int, bool]:
    """Play one round: how many examples it began, and whether it found something, which it prints."""
    played = Counter[str]()

    class Counted(machine):  # type: ignore[valid-type, misc]
        def __init__(self) -> None:
            played["examples"] += 1
            super().__init__()

    try:
        run_state_machine_as_test(
            seed(number)(Counted),
            settings=settings(
                max_examples=examples,
                stateful_step_count=STEPS,
                deadline=None,
                database=None,
                print_blob=True,
                phases=(Phase.generate,),
                suppress_health_check=list(HealthCheck),
            ),
        )
    except Exception:
        traceback.print_exc(file=sys.stdout)
        return played["examples"], True
    return played["examples"], False


def main(arguments: list[str] | None = None, machine: type[RuleBasedStateMachine] = PushMachine) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=1000, help="at least so many of each kind of upstream")
    parser.add_argument("--each", type=int, default=50, help="so many in a round")
    parser.add_argument("--finds", type=int, default=20, help="end after so many finds")
    parser.add_argument("--first-seed", type=int, default=0)
    given = parser.parse_args(arguments)
    played, found = Counter[str](), Counter[str]()
    number = given.first_seed
    while min(played[name] for name in KINDS_OF_UPSTREAMS) < given.examples and found.total() < given.finds:
        for name, honours_keys in KINDS_OF_UPSTREAMS.items():
            kind = type("Machine", (machine,), {"kind": Kind(honours_keys=honours_keys)})
            began_s = time.process_time()
            count, bad = play(kind, number, given.each)
            played[name] += count
            found[name] += bad
            sums = "; ".join(f"{each}: {played[each]} played, {found[each]} finds" for each in KINDS_OF_UPSTREAMS)
            print(
                f"{time.strftime('%H:%M:%S')} {name}, seed {number}: {'FOUND SOMETHING' if bad else 'nothing found'}, "
                f"{time.process_time() - began_s:.0f} s of processor time; {sums}",
                flush=True,
            )
        number += 1
    return 1 if found.total() else 0


if __name__ == "__main__":
    sys.exit(main())
