"""The stack that a pull makes: what each source answers with, in which order, and what a person must agree to."""

import contextlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from geolookup.index.compare import NamedLayers
from geolookup.index.reader import IndexReader
from geolookup.model.errors import HeldError, IndexFileError
from geolookup.state.base.current import Current
from geolookup.state.base.parts import (
    BUNDLED,
    REGISTRY,
    Part,
    names_digest,
    part_of,
    parts_of,
    refusal_of_stack,
    snapshot_path,
    stack_digest,
)
from geolookup.state.generations.assemble import StackedSource
from geolookup.sync.pull.context import Pull, Result, older
from geolookup.sync.pull.losses import Loss, Verdict, judge
from geolookup.sync.pull.network_losses import judge_networks
from geolookup.sync.pull.rolled_back import judge_returning

_DIGEST_SHOWN = 16


def layer_of(pull: Pull, result: Result) -> StackedSource | None:
    """The layer that a source answers with now: its new snapshot, else the one that it had; None if it has none."""
    candidate = result.candidate if pull.preview else result.published
    if candidate is not None:
        return _candidate_layer(result)
    before = pull.baseline(result.definition.name)
    if before is None or (before.record["source"] == BUNDLED and result.definition.kind != REGISTRY):
        return None
    return StackedSource(part=before.part, path=before.path)


def _candidate_layer(result: Result) -> StackedSource:
    assert result.candidate is not None
    part = part_of({**result.record, "digest": result.digest}, name=result.definition.name, snapshot=0)
    return StackedSource(part=part, path=result.candidate.path)


def part_directory(pull: Pull, part: Part) -> str:
    """The directory of the snapshot of a served part."""
    before = pull.baseline(part.name)
    assert pull.current is not None
    if before is not None and before.part.snapshot == part.snapshot:
        return before.path
    return snapshot_path(pull.directory.home, part.snapshot)


def served_layers(pull: Pull) -> dict[str, StackedSource]:
    """The served stack, by name."""
    if pull.current is None:
        return {}
    parts = parts_of(pull.current.published)
    return {part.name: StackedSource(part=part, path=part_directory(pull, part)) for part in parts}


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
    """The stack to publish, ``names`` in order, and ``wanted``, the one that was asked for in its place.

    ``layers`` and ``locations`` have the layer and the file of each source by name. ``held`` says why the wanted stack
    waits for a person, and accepting it ``ends`` the roll-backs of these generations; it is ``refused`` if it was
    rolled back, and the settings still ask for it. ``given`` says that a person gave its files.
    """

    names: list[str]
    wanted: list[str]
    layers: dict[str, StackedSource]
    locations: dict[str, str]
    given: bool
    held: HeldError | None = None
    ends: tuple[int, ...] = ()
    refused: tuple[str, ...] | None = None


def decide(pull: Pull, results: Sequence[Result], *, given: bool) -> StackChange:
    """Choose the stack to publish, and hold what loses too much: single snapshots, or the change of the stack.

    The result of a snapshot that is held has its ``reasons`` in the end, and each candidate is sealed. ``given`` says
    that a person gave the files of this stack: if it is another one than the served one, they are held together.
    """
    change = _decide(pull, results, given=given)
    for result in results:
        result.seal()
    return change


def _decide(pull: Pull, results: Sequence[Result], *, given: bool) -> StackChange:
    layers = {result.definition.name: layer for result in results if (layer := layer_of(pull, result)) is not None}
    wanted = [result.definition.name for result in results if result.definition.name in layers]
    served = served_names(pull.current)
    locations = {result.definition.name: result.definition.location for result in results}
    change = StackChange(names=served or wanted, wanted=wanted, layers=layers, locations=locations, given=given)
    old = served_layers(pull) if served else {}
    for name, layer in old.items():  # one that is configured no more goes on in the old stack
        layers.setdefault(name, layer)
    if pull.current is None or not wanted:
        return change
    guard = _Guard(pull, results, layers, old, served)
    if not served:  # the embedded default is no baseline; but a person may have gone back to it
        losses = guard.losses(wanted)
        for result in results if losses else ():
            result.reasons = tuple(loss.reason for loss in losses)
            result.ends = tuple(number for loss in losses for number in loss.ends)
        return replace(change, names=[]) if losses else change
    if wanted == served or not given:
        guard.hold_snapshots()
    if wanted != served and not given and refusal_of_stack(wanted) in pull.current.refused:
        return replace(change, names=served, refused=tuple(wanted))
    losses = guard.losses(wanted) if wanted != served else ()
    against = [loss.reason for loss in losses]
    if not given:
        against += _older_than_what_leaves(pull, results, wanted, served)
    if given and wanted != served:
        against += [reason for result in results for reason in result.reasons]
        for result in results if against else ():
            result.reasons = result.reasons or (tuple(against) if result.candidate is not None else ())
    if not against:
        return replace(change, names=wanted)
    ends = tuple(number for loss in losses for number in loss.ends)
    return replace(change, names=served, held=_held(pull, change, served, against), ends=ends)


def _older_than_what_leaves(pull: Pull, results: Sequence[Result], wanted: list[str], served: list[str]) -> list[str]:
    """Say that a source comes with older data than those of the sources that leave: the same file by another name."""
    left = [found for name in served if name not in wanted and (found := pull.guarded(name)) is not None]
    reasons = []
    for result in results:
        name, before = result.definition.name, pull.baseline(result.definition.name)
        if name in wanted and name not in served:
            record = result.record if result.candidate is not None else before.record if before is not None else {}
            reasons += older(record, left)
    return reasons


def _held(pull: Pull, change: StackChange, served: list[str], reasons: list[str]) -> HeldError:
    stack = ", ".join(change.wanted)
    if change.given:
        digest = stack_digest((name, change.layers[name].part.digest) for name in change.wanted)
        said = f"{stack} is held, and what was published goes on serving ({', '.join(served)})"
        right = f"{_to_have_both(pull, change, served)}. If {stack} is right"
    else:
        digest = names_digest(change.wanted)
        said = f"the change of the stack is held, and the old one goes on ({', '.join(served)})"
        right = f". If {stack} is right, in this order"
    return HeldError(
        f"{said}: {'; '.join(reasons)}. Look at it: geolookup generations diff served held:stack{right}: geolookup "
        f"sync --accept {digest[:_DIGEST_SHOWN]}",
        digest=digest,
        reasons=tuple(reasons),
    )


def _to_have_both(pull: Pull, change: StackChange, served: list[str]) -> str:
    """The command that serves what was given in addition to what is served, as the end of a sentence."""
    new = [str(change.locations[name]) for name in change.wanted]
    old = [str(pull.entries.get(name, {}).get("location") or "") for name in served]
    if all(old):
        return f". To have both: geolookup sync {shlex.join(dict.fromkeys((*new, *old)))}"
    url = None if pull.current is None else pull.current.published.get("url")
    if url is None:
        return ""
    return (
        f". To have both: geolookup config init --url {shlex.quote(url)}; then geolookup source add {shlex.join(new)}"
    )


class _Guard:
    """The comparison of what is served with what would be."""

    def __init__(
        self,
        pull: Pull,
        results: Sequence[Result],
        layers: dict[str, StackedSource],
        old: Mapping[str, StackedSource],
        served: list[str],
    ) -> None:
        self._pull, self._layers, self._old, self._served = pull, layers, old, served
        self._results = {result.definition.name: result for result in results}
        #: What would answer.
        self._tried = dict(layers)
        new = [result for result in results if result.candidate is not None and not result.rolled_back]
        for result in new:
            self._tried[result.definition.name] = _candidate_layer(result)
        #: The sources whose new snapshot may be held by itself.
        self._moving = {result.definition.name for result in new} & {*served}

    def hold_snapshots(self) -> None:
        """Hold each new snapshot that loses too much, until the served stack with the others loses nothing.

        Snapshots that the guard by rows holds are looked at once, so that all reasons are named together.
        """
        while self._moving:
            for loss in self.losses(self._served):
                result = self._results[loss.charged or max(self._moving)]
                # What a person took back says more than any share.
                result.reasons = (loss.reason, *result.reasons) if loss.ends else (*result.reasons, loss.reason)
                result.ends += loss.ends
            held = [name for name in self._moving if self._results[name].reasons]
            for name in held:
                self._moving.discard(name)
                self._tried[name] = self._old[name]
                if not self._pull.preview:
                    self._layers[name] = self._old[name]
            if not held:
                return

    def losses(self, names: list[str]) -> tuple[Loss, ...]:
        """Reasons against a stack in which each source answers with its newest snapshot that is not held."""
        pull, found = self._pull, self._pull.run.found
        assert found is not None, "something is served"
        bundled = [layer.part.name for layer in self._old.values() if layer.part.kind == REGISTRY]
        bundled += [self._tried[name].part.name for name in names if self._tried[name].part.kind == REGISTRY]
        try:
            with contextlib.ExitStack() as opened:
                new, networks = (
                    [
                        (name, opened.enter_context(IndexReader.open(f"{self._tried[name].path}/{file}")))
                        for name in names
                        if getattr(self._tried[name].part, has)
                    ]
                    for file, has in (("index", "has_places"), ("network", "has_networks"))
                )
                undone = judge_returning(pull.directory, found, new, networks, moving=self._moving)
                if not self._served:
                    return tuple(undone)
                of_networks = self._judge_networks(networks, opened)
                verdict = judge(
                    pull.settings,
                    [(self._served[0], found.base)],
                    new,
                    left_out=frozenset(bundled),
                    moving=self._moving,
                    lenient=[name for name in self._moving if self._results[name].lenient],
                )
        except IndexFileError as error:
            # The guard by rows has the counts that CURRENT holds.
            text = f"the difference of all answers is not known: {error}"
            for result in self._results.values():
                result.report.warnings.append(text)
            return ()
        self._note(verdict)
        return (*undone, *verdict.losses, *of_networks)

    def _judge_networks(self, networks: NamedLayers, opened: contextlib.ExitStack) -> tuple[Loss, ...]:
        """What would be lost of networks."""
        found = self._pull.run.found
        assert found is not None
        if found.network is None:
            return ()

        def reader(layer: StackedSource) -> IndexReader:
            return opened.enter_context(IndexReader.open(f"{layer.path}/network"))

        losses = judge_networks(
            self._pull.settings,
            [opened.enter_context(IndexReader.open(found.network))],
            [reader for _, reader in networks],
            moving={
                name: reader(self._old[name]) for name in sorted(self._moving) if self._old[name].part.has_networks
            },
            lenient=[name for name in self._moving if self._results[name].lenient],
        )
        # A source that said nothing of networks before cannot have lost any of it.
        own = [name for name in sorted(self._moving) if self._old[name].part.has_networks]
        return tuple(Loss(loss.reason, loss.charged or max(own, default=None)) for loss in losses)

    def _note(self, verdict: Verdict) -> None:
        """Write down how many addresses change their country, if one snapshot is all that changes."""
        for name in self._moving if len(self._moving) == 1 else ():
            difference = self._results[name].report.difference
            if difference is not None and "addresses_whose_country_changed" not in difference:
                difference["addresses_whose_country_changed"] = verdict.addresses_whose_country_changed()
