"""Which generation was served since when: CURRENT's member ``served``, and what follows from it."""

from collections.abc import Collection, Iterable

#: One step: the generation (`GONE` if it is no longer kept), and the moment since which it was served.
Step = tuple[int, str]

#: Stands for generations that retention removed: that something was served then must stay known, not what.
GONE = 0

# CURRENT is read before each answer from the shell, so it must stay small however often somebody goes back and forth.
_MOST_STEPS = 200


def advanced(served: Iterable[Step], generation: int, moment: str, kept: Collection[int]) -> tuple[Step, ...]:
    """The steps once ``generation`` is served from ``moment`` on; generations no longer ``kept`` are merged."""
    steps = list(served)
    if not steps or steps[-1][0] != generation:
        steps.append((generation, moment))
    merged: list[Step] = []
    for number, since in steps:
        known = number if number in kept or number == generation else GONE
        if not merged or merged[-1][0] != known:
            merged.append((known, since))
    return tuple(merged[-_MOST_STEPS:])


def by_recency(served: Iterable[Step]) -> list[int]:
    """The generations, the one served last first."""
    return list(dict.fromkeys(number for number, _ in reversed(list(served)) if number != GONE))


def served_at(served: Iterable[Step], moment: str) -> int | None:
    """The generation that was served at a moment of `clock.now_text`, maybe `GONE`; None before the first step."""
    return next((number for number, since in reversed(list(served)) if since <= moment), None)


def since(served: Iterable[Step], generation: int) -> str | None:
    """The moment since which a generation was served last; None if that is not known."""
    return next((moment for number, moment in reversed(list(served)) if number == generation), None)
