"""The stack that a pull makes: what each source answers with, in which order, and whether a person must agree first."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from geolookup.index.reader import IndexReader
from geolookup.index.stack import answered_by, hidden_by_masks
from geolookup.model.errors import HeldError, IndexFileError, StateDamagedError
from geolookup.settings.table import Settings
from geolookup.state.base.current import Current
from geolookup.state.base.parts import (
    BUNDLED,
    REGISTRY,
    Part,
    names_digest,
    parts_of,
    refusal_of_stack,
    snapshot_path,
)
from geolookup.state.generations.assemble import StackedSource
from geolookup.sync.pull.context import Pull, Result

_DIGEST_SHOWN = 16

#: A source whose masks hide more than this share of a family's covered addresses is held.
_MOST_HIDDEN = 0.02


def layer_of(pull: Pull, result: Result) -> StackedSource | None:
    """The layer that a source answers with now: its new snapshot, else the one that it had; None if it has none."""
    candidate = result.candidate if pull.preview else result.published
    if candidate is not None:
        record = candidate.document()["published"]
        return StackedSource(
            part=Part(result.definition.name, record["kind"], 0, record["digest"]), path=candidate.path
        )
    before = pull.baseline(result.definition.name)
    if before is None or (before.record["source"] == BUNDLED and result.definition.kind != REGISTRY):
        return None
    return StackedSource(part=before.part, path=before.path)


def part_directory(pull: Pull, part: Part) -> str:
    """The directory of the snapshot of a served part."""
    before = pull.baseline(part.name)
    assert pull.current is not None
    if before is not None and before.part.snapshot == part.snapshot:
        return before.path
    return snapshot_path(pull.directory.home, part.snapshot)


def served_names(current: Current | None) -> list[str]:
    """The names of the served stack; nothing while only the embedded default answers, which is never a baseline."""
    if current is None:
        return []
    parts = parts_of(current.published)
    if len(parts) == 1 and parts[0].kind == REGISTRY and current.published["source"] == BUNDLED:
        return []
    return [part.name for part in parts]


def is_changed(pull: Pull, names: list[str], layers: dict[str, StackedSource], served: list[str]) -> bool:
    """True if these sources, with these layers, are another stack than the served one."""
    current = pull.current
    if current is None or current.recovered is not None or pull.damaged or names != served:
        return True
    old = {part.name: part for part in parts_of(current.published)}
    return any(layers[name].part != old[name] for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class StackChange:
    """The stack to publish, ``names`` in order, and the one that was asked for in its place.

    ``held`` says why that one waits for a person; ``refused`` is the one that was rolled back, and that the settings
    still ask for.
    """

    names: list[str]
    held: HeldError | None = None
    refused: tuple[str, ...] | None = None


def change_of(
    base: IndexReader,
    settings: Settings,
    current: Current,
    layers: Mapping[str, StackedSource],
    wanted: Sequence[str],
    served: Sequence[str],
) -> StackChange:
    """Choose the stack to publish: the wanted one, or the served one while the wanted one is held or refused.

    :raises StateDamagedError: if an index that must be looked at cannot be followed
    """
    if list(wanted) == list(served) or not wanted:
        return StackChange(names=list(served))
    if refusal_of_stack(wanted) in current.refused:
        return StackChange(names=list(served), refused=tuple(wanted))
    try:
        reasons = _reasons(base, settings, layers, wanted, served)
    except IndexFileError as error:
        raise StateDamagedError(f"deciding whether the stack may change failed: {error}") from error
    if not reasons:
        return StackChange(names=list(wanted))
    digest = names_digest(wanted)
    held = HeldError(
        f"the change of the stack is held, and the old one goes on ({', '.join(served)}): {'; '.join(reasons)}. Look "
        f"at it: geolookup generations diff served held:stack. If {', '.join(wanted)} is right, in this order: "
        f"geolookup sync --accept {digest[:_DIGEST_SHOWN]}",
        digest=digest,
        reasons=tuple(reasons),
    )
    return StackChange(names=list(served), held=held)


def _reasons(
    base: IndexReader,
    settings: Settings,
    layers: Mapping[str, StackedSource],
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


def hidden_reasons(base: IndexReader, layers: Sequence[StackedSource]) -> list[str]:
    """Reasons to hold a stack for what its masks hide of what is served.

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
        if all_of_them and count > _MOST_HIDDEN * all_of_them
    ]


def pulls_that_hide(base: IndexReader, stack: Sequence[StackedSource]) -> list[str]:
    """`hidden_reasons` of a stack in which a new snapshot stands in its source's place.

    :raises StateDamagedError: if an index cannot be followed
    """
    try:
        return hidden_reasons(base, stack)
    except IndexFileError as error:
        raise StateDamagedError(f"computing what the masks hide failed: {error}") from error
