"""What became of a run, by what was asked for, by the service's own log, and by what people were told."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.dials.machine import NUMBER, Machine
from tests.dials.upstream import CLIENT, Place, Upstream
from tests.dials.wishes import Version, Wish


@dataclass(slots=True, kw_only=True)
class Verdict:
    """What became of one run; all but ``held``, ``most_lists`` and ``steps`` must be zero.

    ``twins`` are geolocations beyond one for a create, of which nobody was told; ``lost`` wishes that the service does
    not have in the end, or has although they were taken back; ``vanished`` answers of lookups that were not what was
    asked for, in all checks together; ``stuck`` edits that neither end nor wait for a person; ``covered`` places of
    colleagues that a push changed unasked; ``busy`` writes of a program that applies the same file for ever; ``raw``
    errors that are not the project's own. ``held`` are edits that waited for a person, ``most_lists`` the most complete
    lists that one push read.
    """

    steps: int = 0
    twins: int = 0
    lost: int = 0
    vanished: int = 0
    stuck: int = 0
    covered: int = 0
    busy: int = 0
    raw: int = 0
    held: int = 0
    most_lists: int = 0
    story: list[str] = field(default_factory=list)

    @property
    def bad(self) -> bool:
        """Whether anything happened that must not."""
        return any((self.twins, self.lost, self.vanished, self.stuck, self.covered, self.busy, self.raw))

    def say(self, words: str) -> None:
        """Add to the story."""
        self.story.append(f"          ! {words}")


def check_lookups(machines: Iterable[Machine], verdict: Verdict) -> None:
    """Hold lookups against what was asked for."""
    for machine in machines:
        expected = {probe: answers for probe, answers in machine.wishes.answers().items() if answers is not None}
        if machine.noticed:  # the person was told of places that are not as they should be
            numbers = machine.numbers()
            for wish in machine.wishes.all.values():
                if {wish.handle, numbers.get(wish.handle)} & machine.noticed:
                    wish.free = True
            expected = {probe: answers for probe, answers in machine.wishes.answers().items() if answers is not None}
        found = machine.look_up(expected)
        if found is None:
            continue  # the project said that it cannot
        for probe, answers in expected.items():
            seen = found[probe]
            looks = None if seen is None else machine.wishes.looks_of(seen)
            if looks not in answers and not _is_shared(machine, probe):
                verdict.vanished += 1
                verdict.say(f"{machine.name}: {probe} is {seen}, and not one of {answers}")


def _is_shared(machine: Machine, probe: str) -> bool:
    """True if the person was told that two geolocations have a block: a request went to a number that was a lie."""
    return any("have the same block" in words and f" {probe}:" in words for words in machine.told_all)


def judge(upstream: Upstream, machines: list[Machine], verdict: Verdict) -> None:
    """Judge a run that has come to its end."""
    check_lookups(machines, verdict)
    told = set().union(*(machine.told for machine in machines))
    for machine in machines:
        verdict.raw += len(machine.raw)
        for words in machine.raw:
            verdict.say(f"{machine.name}: {words}")
        verdict.held += len(machine.held)
        verdict.most_lists = max(verdict.most_lists, machine.most_lists)
        rows = machine.attempt(lambda machine=machine: machine.editor().pending())  # type: ignore[misc]
        waiting = {row.locid for row in rows if row.state in ("held", "rejected")} if isinstance(rows, list) else set()
        if isinstance(rows, list):
            while behind := _behind(rows, waiting) - waiting:  # which may in turn keep others waiting
                waiting |= behind
            aliases = machine.aliases()  # whoever looks at such an edit is shown the service's number
            told |= waiting | {aliases[locid] for locid in waiting if locid in aliases}
        for row in rows if isinstance(rows, list) else []:
            if row.locid not in waiting:  # an edit waits for those before it
                verdict.stuck += 1
                verdict.say(f"{machine.name}: {row.describe()} is {row.state} for ever: {row.problem}")
        _agree(upstream, machine, verdict)
    _count_twins(upstream, machines, told, verdict)
    _count_lost(upstream, machines, told, verdict)
    _count_covered(upstream, machines, told, verdict)


def _behind(rows: Iterable[Any], waiting: set[int]) -> set[int]:
    """What takes a block that an edit which waits for a person shall free."""
    freed = [row.payload["block"] for row in rows if row.locid in waiting and "block" in row.payload]
    return {row.locid for row in rows if row.payload.get("new_block", row.payload.get("block")) in freed}


def _agree(upstream: Upstream, machine: Machine, verdict: Verdict) -> None:
    """In the end lookups have what the service has, but for what waits for a person."""
    rows = machine.attempt(lambda: machine.editor().pending())
    if not isinstance(rows, list) or (machine.copied and _all_told([machine], "another machine")):
        return
    aliases = machine.aliases()
    waiting = {number for row in rows for number in (row.locid, aliases.get(row.locid))}
    waiting |= {int(number) for row in rows for number in NUMBER.findall(row.problem or "")}
    seen = machine.seen()
    places = upstream.places
    for locid in {*seen, *places} - waiting:
        ours, theirs = seen.get(locid), places.get(locid)
        if (
            ours is None
            or theirs is None
            or tuple(ours.fields().values()) != theirs.fields
            or {(block.startip, block.endip) for block in ours.ipblocks} != theirs.blocks
        ):
            verdict.vanished += 1
            verdict.say(f"{machine.name}: lookups have {ours} where the service has {locid} {theirs}")


def _count_twins(upstream: Upstream, machines: list[Machine], told: set[int], verdict: Verdict) -> None:
    if any(machine.copied for machine in machines) and _all_told(machines, "another machine"):
        return  # they were warned before either pushed
    # Whoever changes the fields of what a lost create made, before anybody knows of it, hides it.
    hidden = {write.locid for write in upstream.log if write.what == "change" and write.who != CLIENT}
    # So does a copy that is put back: nothing here knows of what was created later, and the person was told of that.
    wishes = [wish for machine in machines for wish in machine.wishes.all.values()]
    forgotten = {looks for wish in wishes if wish.is_forgotten for looks in wish.looks}
    forgotten -= {looks for wish in wishes if not wish.is_forgotten for looks in wish.looks}
    looks_of = machines[0].wishes.looks_of
    hidden |= {locid for locid, place in upstream.places.items() if looks_of(place.fields) in forgotten}
    for key, numbers in upstream.by_key().items():
        if hidden & set(numbers):
            continue
        silent = [locid for locid in numbers if locid not in told]
        if len(silent) > 1:  # one of them is the one that was meant
            verdict.twins += len(numbers) - 1
            verdict.say(f"the create {key[:8]} made {numbers}, and {silent} were never told of")


def _all_told(machines: list[Machine], words: str) -> bool:
    return any(words in line for machine in machines for line in machine.told_all)


def _count_lost(upstream: Upstream, machines: list[Machine], told: set[int], verdict: Verdict) -> None:
    """Match what was asked for with what clients made; what is left over on either side is wrong, unless told."""
    if any(machine.damaged for machine in machines):
        return
    there: dict[int, Version] = {}
    # Those that nobody was told of go first: a wish must not be met by a twin that looks the same.
    for locid, place in sorted(upstream.places.items(), key=lambda item: item[0] in told):
        if upstream.makers[locid] == CLIENT:
            there[locid] = _version(machines[0], place)
    wishes = [(machine, wish) for machine in machines for wish in machine.wishes.all.values()]
    free = [(machine, wish) for machine, wish in wishes if wish.free]
    strict = [(machine, wish) for machine, wish in wishes if not wish.free]
    missing = [(machine, wish) for machine, wish in strict if len(wish.allowed) == 1 and not _take(there, wish)]
    missing += [(machine, wish) for machine, wish in strict if len(wish.allowed) > 1 and not _take(there, wish)]
    numbers = {machine.name: machine.numbers() for machine in machines}
    for machine, wish in [*free, *missing]:
        number = numbers[machine.name].get(wish.handle)
        there.pop(number or 0, None)
        if wish.free or {wish.handle, number} & told:
            # What became of it is for whoever was told; what looks like it may be it.
            looks = {version.looks for _, version in wish.versions}
            for locid in [locid for locid, version in there.items() if version.looks in looks]:
                del there[locid]
            continue
        verdict.lost += 1
        verdict.say(f"{wish.name} ({wish.handle}, {number}) is not there as {wish.allowed}")
    # A place may have been named by the number that its person got when creating it.
    aliases = {machine.name: machine.aliases() for machine in machines}
    by_handle = {aliases[machine.name].get(wish.handle) for machine, wish in wishes if wish.handle in told}
    keys = Counter(locid for numbers in upstream.by_key().values() if len(numbers) > 1 for locid in numbers)
    # What a colleague changed looks like no wish any more: it may be that of a person who was told that theirs is gone.
    changed = {write.locid for write in upstream.log if write.what == "change" and write.who != CLIENT}
    homeless = sum(
        bool({wish.handle, numbers[machine.name].get(wish.handle)} & told)
        for machine, wish in wishes
        if wish.free and numbers[machine.name].get(wish.handle) not in upstream.places
    )
    for locid, version in there.items():
        if locid in changed and homeless > 0:
            homeless -= 1
            continue
        if locid not in told | by_handle and not keys[locid]:
            verdict.lost += 1
            verdict.say(f"{locid} is there, and should not be: {version}")


def _version(machine: Machine, place: Place) -> Version:
    return Version(machine.wishes.looks_of(place.fields), place.blocks)


def _take(there: dict[int, Version], wish: Wish) -> bool:
    """Take away what fits a wish; whether it is as it may be."""
    for version in reversed(wish.allowed):
        if version.looks is None:
            continue
        found = next((locid for locid, other in there.items() if other == version), None)
        if found is not None:
            del there[found]
            return True
    return any(version.looks is None for version in wish.allowed)


def _count_covered(upstream: Upstream, machines: list[Machine], told: set[int], verdict: Verdict) -> None:
    """No push changes what a colleague made: nobody ever asked for that here."""
    owners: dict[int, Any] = {}
    for write in upstream.log:
        if write.what == "create":
            owners[write.locid] = write.who
        elif write.who == CLIENT and owners.get(write.locid, CLIENT) != CLIENT and write.locid not in told:
            verdict.covered += 1
            verdict.say(f"a push did {write.what} on {write.locid}, which is {owners[write.locid]}'s")
