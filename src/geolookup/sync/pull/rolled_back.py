"""The guard of roll-backs: which of them an update would undo, though no person said so."""

import contextlib
from collections.abc import Collection, Iterator, Mapping

from geolookup.base.text import harmless, plain, short_v6
from geolookup.index.compare import NamedLayers, Return, returning
from geolookup.index.compare_facts import returning_facts
from geolookup.index.reader import IndexReader
from geolookup.model.continents import move_text
from geolookup.settings.times import shown
from geolookup.state.base.current import Published, index_path, network_path
from geolookup.state.generations.recovery import numbered
from geolookup.state.generations.rolled_back import RolledBack, in_effect
from geolookup.state.packs.reading import readable
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.losses import Family, Loss


def judge_returning(
    directory: StateDirectory, served: Published, new: NamedLayers, networks: NamedLayers, *, moving: Collection[str]
) -> list[Loss]:
    """The roll-backs most of which a stack would undo, in one walk over all files for each that is in effect.

    What a roll-back took away are the answers that differ from the generation gone back to to the one that was left,
    but those of sites. The stack undoes it if it has more than half of them again, or the countries of more than half
    of those with another country: of an update that is right but for one country, only that one must stay away. So it
    is with the facts of ``networks``. ``moving`` are the sources that have a new snapshot, which it is charged to.

    :raises IndexDamagedError: if a file's segments, locations or records cannot be followed
    """
    found: list[Loss] = []
    for each in in_effect(directory.home, served.current):
        with contextlib.ExitStack() as opened:
            kept, away, *of_networks = (
                opened.enter_context(IndexReader.open(readable(path(directory.home, number))))
                for path in (index_path, *([network_path] if each.have_networks else []))
                for number in (each.instead, each.generation)
            )
            found += _answers(directory, each, returning(kept, away, new, served.overlay), moving)
            if of_networks:
                facts = returning_facts(of_networks[0], of_networks[1], [reader for _, reader in networks])
                charged = next((name for name, _ in networks if name in moving), None)
                found += [
                    Loss(
                        _said(directory, each, "facts of the networks", family, back, taken),
                        charged,
                        (each.generation,),
                    )
                    for family, (taken, back) in facts.items()
                    if 2 * back > taken
                ]
    return found


def _answers(
    directory: StateDirectory, each: RolledBack, found: Mapping[Family, dict[Return, int]], moving: Collection[str]
) -> Iterator[Loss]:
    for family, returns in found.items():
        countries = {one: count for one, count in returns.items() if one.kept != one.away}
        for what, taken, back in (
            ("answers", returns, {one: count for one, count in returns.items() if one.same}),
            ("countries", countries, {one: count for one, count in countries.items() if one.same_country}),
        ):
            number, of = sum(back.values()), sum(taken.values())
            if 2 * number > of:
                owners: dict[str | None, int] = {}
                for one, count in back.items():
                    owners[one.source] = owners.get(one.source, 0) + count
                charged = max(owners, key=lambda name: (owners[name], name or ""))
                said = _said(directory, each, what, family, number, of) + _most(back)
                yield Loss(said, charged if charged in moving else None, (each.generation,))
                break


def _said(directory: StateDirectory, each: RolledBack, what: str, family: Family, number: int, of: int) -> str:
    some = "all" if number == of else f"{plain(number)} of the"
    counted = f"{plain(of)} IPv4 addresses" if family == 4 else f"{short_v6(of)} of IPv6"
    return f"it brings back the {what} of {some} {counted} that {_who(directory, each.generation)}"


def _most(back: dict[Return, int]) -> str:
    """The countries between which most of the answers go back and forth."""
    pairs: dict[tuple[str | None, str | None], int] = {}
    for one, count in back.items():
        pairs[one.kept, one.away] = pairs.get((one.kept, one.away), 0) + count
    most = max(pairs, key=lambda pair: pairs[pair])
    told = move_text(*most, pairs[most] / sum(pairs.values()))
    return f" ({told})" if told else ""


def _who(directory: StateDirectory, generation: int) -> str:
    who, at, why = directory.edits.rolled_back().get(generation, ("somebody", "", ""))
    return f"{who} rolled back{f' at {shown(at)}' if at else ''}{f': {harmless(why)!r}' if why else ''}"


def gone(directory: StateDirectory, before: Collection[RolledBack]) -> list[str]:
    """Which roll-backs nothing is compared with any more, since what was rolled back is not kept: a sentence each."""
    kept = numbered(directory.path("generations"))
    return [
        f"generation {each.generation}, which {_who(directory, each.generation)}, is not kept any more: from now on no "
        "update is compared with it"
        for each in before
        if each.generation not in kept
    ]


def over(directory: StateDirectory, refused: tuple[str, ...], generations: Collection[int]) -> tuple[str, ...]:
    """``refused`` as it is once a person accepted what undoes the roll-backs of these generations."""
    current = directory.require_current()
    names = {
        name for each in in_effect(directory.home, current) if each.generation in generations for name in each.names()
    }
    return tuple(each for each in refused if each not in names)
