"""What a sync does to the stack itself: which sources answer from now on, and whether a person must agree first."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from geolookup.errors import HeldError, IndexFileError, StateDamagedError
from geolookup.index.reader import IndexReader
from geolookup.index.stack import answered_by, hidden_by_masks
from geolookup.settings.table import Settings
from geolookup.state.base.current import Current
from geolookup.state.base.parts import names_digest, refusal_of_stack
from geolookup.state.generations.assemble import Layer
from geolookup.sync.pull.guard import MOST_HIDDEN

_DIGEST_SHOWN = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """``names`` is the stack to publish, in order. ``held`` says why another waits for a person; ``refused`` is the one
    that was rolled back, and that the settings still ask for.
    """

    names: list[str]
    held: HeldError | None = None
    refused: tuple[str, ...] | None = None


def change_of(
    base: IndexReader,
    settings: Settings,
    current: Current,
    layers: Mapping[str, Layer],
    wanted: Sequence[str],
    served: Sequence[str],
) -> Change:
    """Choose the stack to publish: the wanted one, or the served one while the wanted one is held or refused.

    :raises StateDamagedError: if an index that must be looked at cannot be followed
    """
    if list(wanted) == list(served) or not wanted:
        return Change(names=list(served))
    if refusal_of_stack(wanted) in current.refused:
        return Change(names=list(served), refused=tuple(wanted))
    try:
        reasons = _reasons(base, settings, layers, wanted, served)
    except IndexFileError as error:
        raise StateDamagedError(f"deciding whether the stack may change failed: {error}") from error
    if not reasons:
        return Change(names=list(wanted))
    digest = names_digest(wanted)
    held = HeldError(
        f"the change of the stack is held, and the old one goes on ({', '.join(served)}): {'; '.join(reasons)}. Look "
        f"at it: geolookup generations diff served held:stack. If {', '.join(wanted)} is right, in this order: "
        f"geolookup sync --accept {digest[:_DIGEST_SHOWN]}",
        digest=digest,
        reasons=tuple(reasons),
    )
    return Change(names=list(served), held=held)


def _reasons(
    base: IndexReader,
    settings: Settings,
    layers: Mapping[str, Layer],
    wanted: Sequence[str],
    served: Sequence[str],
) -> list[str]:
    reasons = []
    covered = base.counts["covered_v4"], base.counts["covered_v6"]
    gone = [name for name in served if name not in wanted]
    answers = answered_by(base) if gone else {}
    for name in gone:
        mine = answers.get(name, answers.get("", (0, 0)))
        for family, count, all_of_them in zip(("IPv4", "IPv6"), mine, covered, strict=True):
            if all_of_them and count > (1 - settings.guard_addresses) * all_of_them:
                reasons.append(f"{name} leaves, which answers {count / all_of_them:.1%} of the {family} addresses")
    return reasons + hidden_reasons(base, [layers[name] for name in wanted])


def hidden_reasons(base: IndexReader, layers: Sequence[Layer]) -> list[str]:
    """Why a stack must be held for what its masks hide of what is served.

    :raises IndexFileError: if an index cannot be followed
    """
    with contextlib.ExitStack() as opened:
        readers = [opened.enter_context(IndexReader.open(f"{layer.path}/index")) for layer in layers]
        if not any(reader.has_masks for reader in readers):
            return []
        hidden = hidden_by_masks(base, readers)
    covered = base.counts["covered_v4"], base.counts["covered_v6"]
    return [
        f"masks would hide {count / all_of_them:.1%} of the {family} addresses that have an answer"
        for family, count, all_of_them in zip(("IPv4", "IPv6"), hidden, covered, strict=True)
        if all_of_them and count > MOST_HIDDEN * all_of_them
    ]


def pulls_that_hide(base: IndexReader, stack: Sequence[Layer]) -> list[str]:
    """`hidden_reasons` of a stack in which a new snapshot stands in its source's place.

    :raises StateDamagedError: if an index cannot be followed
    """
    try:
        return hidden_reasons(base, stack)
    except IndexFileError as error:
        raise StateDamagedError(f"computing what the masks hide failed: {error}") from error
