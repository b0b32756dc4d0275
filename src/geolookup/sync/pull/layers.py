"""What each source of a stack answers with: its new snapshot, or the one that is served."""

from geolookup.state.base.current import Current
from geolookup.state.base.parts import BUNDLED, REGISTRY, Part, parts_of, snapshot_path
from geolookup.state.generations.assemble import Layer
from geolookup.sync.pull.run import Pull, Result


def layer_of(pull: Pull, result: Result) -> Layer | None:
    """What a source answers with now: its new snapshot, else the one that it had; None if it has none."""
    candidate = result.candidate if pull.preview else result.published
    if candidate is not None:
        record = candidate.document()["published"]
        return Layer(part=Part(result.definition.name, record["kind"], 0, record["digest"]), path=candidate.path)
    before = pull.baseline(result.definition.name)
    if before is None or (before.record["source"] == BUNDLED and result.definition.kind != REGISTRY):
        return None
    return Layer(part=before.part, path=before.path)


def part_directory(pull: Pull, part: Part) -> str:
    """Where the snapshot of a part of what is served stands."""
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


def is_changed(pull: Pull, names: list[str], layers: dict[str, Layer], served: list[str]) -> bool:
    current = pull.current
    if current is None or current.recovered is not None or pull.damaged or names != served:
        return True
    old = {part.name: part for part in parts_of(current.published)}
    return any(layers[name].part != old[name] for name in names)
