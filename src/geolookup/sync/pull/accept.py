"""Accept what the guard holds: a source's snapshot, or a change of the stack. Needs no network."""

import contextlib
from typing import Any

from geolookup.model.errors import StateError
from geolookup.model.fields import FIRST_OWN_LOCID
from geolookup.model.reports import unwatched
from geolookup.settings.table import Settings
from geolookup.state.base.candidate import Candidate
from geolookup.state.base.parts import SERVICE, Part, parts_of, refusal
from geolookup.state.generations.assemble import StackedSource
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.run import running
from geolookup.sync.pull.context import Pull, PullReport
from geolookup.sync.pull.publish import record_done
from geolookup.sync.pull.stack import part_directory, served_names

_DIGEST_LEAST = 8


def accept(directory: StateDirectory, digest: str) -> PullReport:
    """Publish what is held and whose digest begins with ``digest``: a source's snapshot, or a change of the stack.

    Logged in the history.

    :raises StateError: if nothing is held, or something else is
    """
    digest = digest.strip().lower()
    with running(directory) as run, contextlib.ExitStack() as owned:
        held = directory.holding.candidates()
        stack = directory.holding.stack()
        digests = {name: str(candidate.document()["published"]["digest"]) for name, candidate in held.items()}
        if not digests and stack is None:
            raise StateError(f"{directory.home}: nothing is held, so there is nothing to accept")
        meant = [name for name, known in digests.items() if len(digest) >= _DIGEST_LEAST and known.startswith(digest)]
        whole_stack = stack is not None and len(digest) >= _DIGEST_LEAST and stack["digest"].startswith(digest)
        if not meant and not whole_stack:
            known = [*digests.values(), *([stack["digest"]] if stack else [])]
            one = "digest is" if len(known) == 1 else "digests are"
            what = "the held candidate's" if len(known) == 1 else "what is held: its"
            raise StateError(f"{what} {one} {' and '.join(known)}: accept that one, or sync again")
        current = run.current
        entries = {str(each["name"]): dict(each) for each in current.sources} if current else {}
        pull = Pull(
            run=run,
            settings=Settings(),
            current=current,
            entries=entries,
            owned=owned,
            progress=unwatched,
            following=FIRST_OWN_LOCID,
        )
        if meant:
            return _accept_source(pull, meant[0], held[meant[0]])
        assert stack is not None
        return _accept_stack(pull, [str(name) for name in stack["names"]], str(stack["digest"]))


def _accept_source(pull: Pull, name: str, candidate: Candidate) -> PullReport:
    directory, current = pull.directory, pull.current
    record = candidate.document()["published"]
    candidate.verify()
    report = PullReport(url=record.get("url"), name=name, outcome="published", digest=record["digest"])
    report.rows = record["rows"]
    part = Part(name, str(record.get("kind", SERVICE)), 0, str(record["digest"]))
    new = StackedSource(part=part, path=candidate.path)
    served = served_names(current)
    layers = _served_layers(pull)
    layers[name] = new
    names = served or [name]
    refused = current.refused if current is not None else ()
    pull.entries[name] = {**pull.entries.get(name, {}), "name": name, "checked_at": record["pulled_at"]}
    for member in ("problem", "since"):
        pull.entries[name].pop(member, None)
    published = pull.run.publish_stack(
        [layers[each] for each in names],
        spare=[] if name in names else [new],
        entries=list(pull.entries.values()),
        refused=tuple(known for known in refused if known != refusal(part)),
        report=candidate.document()["report"],
    )
    directory.holding.drop(name)
    report.generation = published.generation
    record_done(directory, report, "accept", "published", {"generation": published.generation, "digest": report.digest})
    return report


def _accept_stack(pull: Pull, names: list[str], digest: str) -> PullReport:
    directory = pull.directory
    layers = _served_layers(pull)
    for name in names:
        before = pull.baseline(name)
        if before is not None:
            layers[name] = StackedSource(part=before.part, path=before.path)
    missing = [name for name in names if name not in layers]
    if missing:
        raise StateError(f"{directory.home}: {', '.join(missing)} has no snapshot yet: sync first")
    report = PullReport(url=None, outcome="published", digest=digest)
    published = pull.run.publish_stack(
        [layers[name] for name in names],
        entries=[entry for name, entry in pull.entries.items() if name in names],
    )
    directory.holding.drop_stack()
    report.url = published.published.get("url")
    report.generation, report.rows = published.generation, published.published["rows"]
    after: dict[str, Any] = {"generation": published.generation, "digest": digest, "stack": names}
    record_done(directory, report, "accept", "published", after)
    return report


def _served_layers(pull: Pull) -> dict[str, StackedSource]:
    if pull.current is None:
        return {}
    return {
        part.name: StackedSource(part=part, path=part_directory(pull, part))
        for part in parts_of(pull.current.published)
    }
