"""Accept what the guard holds: a source's snapshot, or a change of the stack. Needs no network.

What is accepted brings its own file, digest, ETag, date and licence: none of those of the snapshot before it stays.
"""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from geolookup.model.errors import StateError
from geolookup.model.fields import FIRST_OWN_LOCID
from geolookup.model.reports import unwatched
from geolookup.settings.table import Settings
from geolookup.state.base.candidate import Candidate
from geolookup.state.base.parts import part_of, refusal
from geolookup.state.generations.assemble import StackedSource
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.run import running
from geolookup.sync.pull.context import Pull, PullReport
from geolookup.sync.pull.file import numbers_of_ours
from geolookup.sync.pull.publish import record_done
from geolookup.sync.pull.rolled_back import over
from geolookup.sync.pull.service import believe_accepted
from geolookup.sync.pull.stack import served_layers, served_names

_DIGEST_LEAST = 8


def accept(directory: StateDirectory, digest: str, settings: Settings) -> PullReport:
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
        if stack is not None and stack["given"] and {*meant} & {*stack["names"]}:
            digest = str(stack["digest"])  # files that were given together are accepted together
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
            settings=settings,
            current=current,
            entries=entries,
            owned=owned,
            progress=unwatched,
            following=FIRST_OWN_LOCID,
        )
        if whole_stack:
            assert stack is not None
            return _accept_stack(pull, stack, held)
        return _accept_source(pull, meant[0], held[meant[0]])


def _accept_source(pull: Pull, name: str, candidate: Candidate) -> PullReport:
    """Publish a source's candidate with its own file, digest, ETag, date and licence."""
    current = pull.current
    record = candidate.document()["published"]
    new = _layer(name, candidate)
    report = PullReport(url=record.get("url"), name=name, outcome="published", digest=record["digest"])
    report.rows = record["rows"]
    if record.get("mark") is not None:  # it is a service's list
        believe_accepted(pull, candidate, report)
    layers = {**served_layers(pull), name: new}
    names = served_names(current) or [name]
    refused = current.refused if current is not None else ()
    return _publish(
        pull,
        report,
        [layers[each] for each in names],
        spare=[] if name in names else [new],
        entries=[entry for each, entry in pull.entries.items() if each != name],
        accepted={name: str(record["pulled_at"])},
        refused=tuple(known for known in refused if known != refusal(new.part)),
        ends=candidate.document()["report"].get("ends", ()),
        report_of_pull=candidate.document()["report"],
    )


def _accept_stack(pull: Pull, stack: Mapping[str, Any], held: Mapping[str, Candidate]) -> PullReport:
    """Publish a stack, with the candidates that are held of it if a person gave its files."""
    names = [str(name) for name in stack["names"]]
    layers = served_layers(pull)
    accepted = {}
    for name in names:
        if stack["given"] and name in held:
            layers[name] = _layer(name, held[name])
            accepted[name] = str(held[name].document()["published"]["pulled_at"])
        elif (before := pull.baseline(name)) is not None:
            layers[name] = StackedSource(part=before.part, path=before.path)
    missing = [name for name in names if name not in layers]
    if missing:
        raise StateError(f"{pull.directory.home}: {', '.join(missing)} has no snapshot yet: sync first")
    report = PullReport(url=None, outcome="published", digest=str(stack["digest"]))
    done = _publish(
        pull,
        report,
        [layers[name] for name in names],
        entries=[entry for name, entry in pull.entries.items() if name in names and name not in accepted],
        accepted=accepted,
        refused=() if pull.current is None else pull.current.refused,
        ends=stack.get("ends", ()),
        stack=names,
    )
    pull.directory.holding.drop_stack()
    return done


def _publish(
    pull: Pull,
    report: PullReport,
    layers: Sequence[StackedSource],
    *,
    accepted: Mapping[str, str],
    entries: Sequence[Mapping[str, Any]],
    spare: Sequence[StackedSource] = (),
    refused: tuple[str, ...],
    ends: Sequence[int],
    report_of_pull: Mapping[str, Any] | None = None,
    stack: Sequence[str] = (),
) -> PullReport:
    """Publish layers as they were accepted; ``accepted`` are the names of candidates, each with when it was pulled.

    ``ends`` are the generations whose roll-back is over then.
    """
    own = [{"name": name, "checked_at": pulled_at} for name, pulled_at in accepted.items()]
    numbers = [numbers_of_ours(f"{layer.path}/index") for layer in (*layers, *spare) if layer.part.has_places]
    given = max([FIRST_OWN_LOCID - 1, *(each for found in numbers for each in found)])
    published = pull.run.publish_stack(
        layers,
        spare=spare,
        entries=[*entries, *own],
        refused=over(pull.directory, refused, ends) if ends else refused,
        report=report_of_pull,
        next_locid=max(1 + given, 0 if pull.current is None else pull.current.next_locid),
    )
    for name in accepted:
        pull.directory.holding.drop(name)
    report.generation = published.generation
    report.custom_places = published.overlay_file["locations"]
    report.url = report.url or published.published.get("url")
    report.rows = report.rows or published.published["rows"]
    after: dict[str, Any] = {"generation": published.generation, "digest": report.digest}
    record_done(pull.directory, report, "accept", "published", {**after, **({"stack": list(stack)} if stack else {})})
    return report


def _layer(name: str, candidate: Candidate) -> StackedSource:
    candidate.verify()
    part = part_of(candidate.document()["published"], name=name, snapshot=0)
    return StackedSource(part=part, path=candidate.path)
