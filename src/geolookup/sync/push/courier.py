"""Brings every place to the service: looks at it, decides by `reconcile`, sends the next request, records the answer.

Many places go at the same time, each with one request: one durable mark before the requests of a lot, and one for their
answers. A crash leaves each of them to be reconciled by itself.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from msgspec.structs import replace

from geolookup.model.errors import (
    UpstreamAnswerError,
    UpstreamAuthError,
    UpstreamError,
    UpstreamRefusedError,
    UpstreamUnavailableError,
)
from geolookup.model.reports import Progress, unwatched
from geolookup.settings.table import Settings
from geolookup.state.base import clock
from geolookup.state.base.marks import Mark, Start
from geolookup.state.edits.outbox.kept import OPEN, Kept
from geolookup.state.edits.outbox.ledger import Ledger
from geolookup.state.edits.outbox.payload import content_of, fields_of
from geolookup.state.edits.outbox.row import OutboxRow, State
from geolookup.state.edits.places.choosing import chosen
from geolookup.state.edits.places.concluding import answered, holders, seen_already
from geolookup.state.edits.places.likeness import Forms
from geolookup.state.edits.places.looking import is_familiar, look_at
from geolookup.state.edits.places.place import Blocks, Content, Place, Request
from geolookup.state.edits.places.reconcile import Decision, Done, Hold, Look, Send, Wait, reconcile
from geolookup.state.generations.cache import digest
from geolookup.sync.push.conclude import Findings, conclude
from geolookup.sync.push.handover import Handover
from geolookup.sync.push.report import PushReport, line_of
from geolookup.sync.push.requests import Errand, LeaveError, Looking, Outcome, Patience
from geolookup.sync.push.storing import learn, words_of_forms
from geolookup.sync.push.telling import Names, why_held, why_missing
from geolookup.sync.push.view import Seen


class Asking(Protocol):
    """The connections to a service; see `connections.Connections`."""

    @property
    def width(self) -> int: ...
    def ask_all(self, requests: Sequence[Looking | Errand], longest_s: float, /) -> bool: ...
    def close(self) -> None: ...


OnConflict: TypeAlias = Literal["hold", "mine", "theirs"]

#: A counter above those of all marks: what is read now.
NEWEST = 1 << 53
_FIRST_LOT = 8
#: Of so many a kill leaves the outcome unknown.
_MOST_IN_LOT = 64
#: How long the requests of a lot may take: what is answered is not durable before the end.
_MOST_S = 0.25


@dataclass(slots=True)
class Job:
    """A place on its way: ``theirs`` is what the service has of it, as far as is known, once it was ``looked`` at.

    ``conclusive`` is true if a conclusive list said so, and nothing was sent since. ``refused`` is the request that the
    service said no to, until a look has told whether that is so. ``banned`` are blocks that it does not take back.
    ``put_off`` is true if the newest request is to be sent again as it is, at another time, ``repeated`` if it was sent
    before, and nobody knows what became of that. ``listed`` is true once a complete list was read for it alone.
    """

    kept: Kept
    theirs: Content | None = None
    looked: bool = False
    conclusive: bool = False
    over: bool = False
    listed: bool = False
    tries: int = 0
    put_off: bool = False
    repeated: bool = False
    refused: Request | None = None
    banned: dict[Any, Request] = field(default_factory=dict)


class Courier:
    """One push under way. ``ledgers`` opens edits.db, in a transaction of its own each time; ``connections`` send.

    ``read`` reads a complete list, as `view.ServiceView.read` does; ``seen`` is one that was read before.
    ``moved`` is true of a service at another address than what is published came from.
    ``unmodified`` is the start of the newest list, if it is as what is published and nothing was sent since.
    """

    def __init__(
        self,
        ledgers: Callable[[], AbstractContextManager[Ledger]],
        read: Callable[..., Seen],
        connections: Asking,
        settings: Settings,
        report: PushReport,
        *,
        on_conflict: OnConflict = "hold",
        seen: Seen | None = None,
        moved: bool = False,
    ) -> None:
        self._ledgers = ledgers
        self._read = read
        self._seen = seen
        self._moved = moved
        self.unmodified: Start | None = None
        self._connections = connections
        self._settings = settings
        self._report = report
        self._on_conflict: OnConflict = on_conflict
        self._patience = Patience(settings, report)
        self._jobs: dict[int, Job] = {}
        #: Those that are not over, in the order of their oldest edits.
        self._waiting: list[Job] = []
        self._forms = Forms()
        self._lot = _FIRST_LOT
        self._before: int | None = None
        self._head = -1
        #: What a transaction has made of edits: told once it is durable.
        self._told: list[tuple[OutboxRow, str]] = []
        #: The lot that was noted to leave, and whose answers are not noted yet.
        self._sent: list[Errand] = []
        #: The numbers that we deleted, and that may be given again.
        self._freed: set[int] = set()
        #: True if only a complete list can tell what becomes of some places.
        self._must_list = False
        self._handover = Handover()

    @contextlib.contextmanager
    def _ledger(self) -> Iterator[Ledger]:
        """The ledger in a transaction of its own; what a person changed meanwhile is read again."""
        self._told.clear()
        with self._ledgers() as ledger:
            if ledger.outbox.head != self._head:
                self._take(ledger)
            yield ledger
            self._head = ledger.outbox.head
        for row, reason in self._told:
            self._log(row, reason)

    def _take(self, ledger: Ledger) -> None:
        """Read every place of which something is open."""
        ledger.keep_forms(self._forms)
        known = ledger.read(OPEN)
        for place, kept in known.items():
            if place not in self._jobs:
                self._jobs[place] = Job(kept)
            elif (job := self._jobs[place]).kept != kept:
                # One that is held no more goes on.
                job.over = job.over and (job.kept.hold is None or kept.hold is not None)
                job.kept, job.looked = kept, False
        for place in self._jobs.keys() - known.keys():
            self._jobs[place].over = True
            self._handover.forget(place)
        self._waiting = sorted(self._jobs.values(), key=lambda job: next(iter(job.kept.rows), 0))
        self._forms = ledger.forms()
        self._names = Names(ledger)
        for place in known:
            self._note_handover(self._jobs[place])

    def _note_handover(self, job: Job) -> None:
        theirs = job.theirs if job.looked or job.theirs is not None else job.kept.place.acknowledged
        self._handover.note(job.kept.place, theirs, conclusive=job.conclusive)

    # The whole

    def run(self, progress: Progress = unwatched) -> None:
        """Bring every place as far as it goes now."""
        with self._ledgers() as ledger:
            ledger.found_interrupted()
            self._take(ledger)
            self._head = ledger.outbox.head
        try:
            self._wait_for_this_boot()
            if self._moved or any(self._is_in_doubt(job) for job in self._jobs.values()):
                self._read_list(freely=True)
            total = len(self._jobs)
            while self._round():
                progress(total - len(self._waiting), total)
            progress(total, total)
        except LeaveError as error:
            self._report.stopped = str(error)
            why = error.__cause__ or error.__context__
            self._report.service_refuses = _refuses_everything(why)
            self._report.lacks_permission = isinstance(why, UpstreamAuthError)
        finally:
            try:
                self._note(leaves=False)
            finally:
                self._report.edits.sort(key=lambda line: int(line["edit"]))  # whichever was answered first
                self._connections.close()

    def _wait_for_this_boot(self) -> None:
        """Wait if the machine has just been started: the age of an earlier boot's requests is not known.

        Else a machine that is switched on for its push alone would never learn what became of one.
        """
        boot = Mark.now(0).boot
        requests = (request for job in self._jobs.values() for request in job.kept.place.requests)
        earlier = (each for each in requests if not each.known and each.ended is not None and each.ended.boot != boot)
        if (left_s := max(map(self._left_s, earlier), default=0.0)) > 0:
            clock.sleep(left_s)

    def _left_s(self, request: Request) -> float:
        """The seconds until a request that is over has settled."""
        return 0.0 if request.ended is None else self._settings.settle_s - request.ended.age_s(Mark.now(0))

    def _unsettled_s(self, job: Job, *, known: bool = False) -> float:
        """The seconds for which the outcome of a request may still change; ``known``: for which lists may lack any."""
        requests = (request for request in job.kept.place.requests if known or request.is_unknown)
        return max(map(self._left_s, requests), default=0.0)

    def _is_in_doubt(self, job: Job) -> bool:
        """True if a list that is asked for now tells what became of a request."""
        unknown = any(request.is_unknown for request in job.kept.place.requests)
        return unknown and self._unsettled_s(job) <= 0 and not self._may_repeat(job)

    def _read_list(self, *, freely: bool) -> None:
        """Read a complete list, and hold every place against it."""
        self._report.requests += 1
        self._must_list, self.unmodified = self._must_list and not freely, None
        try:
            lost = any(
                each.creating and not each.creating.known for each in (job.kept.place for job in self._jobs.values())
            )
            listed, start, freely = self._seen = self._read(freely=freely, surely=lost)
        except UpstreamAuthError as error:
            raise LeaveError(f"the push is paused, and every edit is kept: {error}") from error
        except UpstreamAnswerError as error:  # what needs no list goes on
            self._report.stopped = str(error)
            for job in self._jobs.values():
                place = job.kept.place
                is_unknown = any(not request.known for request in place.requests)
                job.over = job.over or job.listed or place.number is None or is_unknown
            return
        except UpstreamError as error:
            raise LeaveError(str(error)) from error
        self.unmodified = None if freely else start
        with self._ledger() as ledger:
            head = ledger.outbox.head
            ledger.keep_forms(self._forms)
            found = conclude(ledger, start, listed, self._settings.settle_s, asked_freely=freely, moved=self._moved)
            if ledger.outbox.head != head:
                self._take(ledger)
            self._forms, self._before = ledger.forms(), None
        self._tell(found)
        open_ = []
        for job in self._jobs.values():
            job.over = job.over or self._is_held(job)
            if job.kept.place.id in found.undecided and not job.over:
                self._put_off(job, "its number shows another geolocation of yours: the next push tells them apart")
            if job.looked or not freely:
                continue  # this list may be older than that look; and an answer that nothing changed proves nothing
            place = job.kept.as_of(start.mark, self._settings.settle_s)
            content = None if place.number is None or place.number not in listed else content_of(listed[place.number])
            job.conclusive = all(request.settled for request in place.requests)
            job.theirs = content
            job.looked = job.conclusive or content is not None
            if content is not None and not job.conclusive and is_familiar(place, content, self._forms):
                open_.append((job, content))
        self._learn(open_)

    def _learn(self, seen: Sequence[tuple[Job, Content]]) -> None:
        """Take in how the service stores what it said yes to lately, before a conclusive list tells."""
        learned = [learn(job.kept, content, self._forms) for job, content in seen]
        self._warn(words_of_forms([each for each in learned if each is not None], self._names))

    def _tell(self, found: Findings) -> None:
        self._warn(found.warnings)
        self._report.notices += found.told
        for row, reason in found.over:
            self._log(row, reason)
        for row in found.held:
            self._log(row, row.problem or "")

    def _warn(self, words: Sequence[str]) -> None:
        """Say what a list, or a look, tells: what both tell, once."""
        self._report.warnings += [each for each in words if each not in self._report.warnings]

    def _log(self, row: OutboxRow, reason: str) -> None:
        """Add an edit's line to the report."""
        self._report.edits.append(line_of(row, reason))
        self._report.done += row.state == State.DONE

    # One lot

    def _round(self) -> bool:
        """Bring a lot of places one request further; false if none can go on."""
        self._note(leaves=not self._must_list)
        if self._sent:
            self._send()
            return True
        if self._must_list:
            self._read_list(freely=True)
            return True
        if not (ready := self._ready()):
            return self._break_circle()
        if unseen := [job for job in ready if not job.looked and job.kept.place.number is not None]:
            self._look(unseen)
        creates = [job for job in ready if job.kept.place.number is None and not job.kept.place.requests]
        if creates and self._seen is None:
            self._read_list(freely=False)
        return True

    def _send(self) -> None:
        """Send the lot that is noted, and wait as long as its answers ask for."""
        self.unmodified = None
        in_time = self._connections.ask_all(self._sent, _MOST_S)
        asked = [errand for errand in self._sent if errand.begun]
        failed = any(errand.ends_batch for errand in asked)
        lot = len(asked) if failed or not in_time else min(_MOST_IN_LOT, max(self._lot, 2 * len(asked)))
        self._lot = max(lot, self._connections.width)
        if failed:
            self._note(leaves=False)
        self._patience.after([errand.answer for errand in asked])

    def _ready(self, *, at_once: bool = False) -> list[Job]:
        """The next places, as many as a lot has; ``at_once``: of which nothing must be read before."""
        ready: list[Job] = []
        left: list[Job] = []
        jobs = iter(self._waiting)
        while len(ready) < self._lot and (job := next(jobs, None)) is not None:
            if not job.over:
                left.append(job)
                if (not at_once or self._can_be_sent(job)) and self._is_ready(job):
                    ready.append(job)
        self._waiting = [*left, *jobs]  # only some were looked at: there may be thousands
        return ready

    def _can_be_sent(self, job: Job) -> bool:
        place = job.kept.place
        return job.looked or (place.number is None and (bool(place.requests) or self._seen is not None))

    def _is_ready(self, job: Job) -> bool:
        """True unless a place has to wait; if it has to for longer than this push, it is over."""
        place = job.kept.place
        if self._is_held(job) or place.refused is not None or not job.kept.pending:
            job.over = True
            return False
        unknown = any(request.is_unknown for request in place.requests)
        if unknown and job.refused is None and not self._may_repeat(job):
            left_s = self._unsettled_s(job)
            if left_s > 0 or not job.conclusive:
                job.over = True
                for row in job.kept.pending:
                    if row.state == State.UNKNOWN or row.attempts:
                        self._log(
                            row, f"the outcome is unknown, and settles in {max(left_s, 0):.0f} s: push again then"
                        )
                return False
        return not self._waits_for_others(job)

    def _is_held(self, job: Job) -> bool:
        """True if a person must decide; who has chosen for all conflicts has decided on those."""
        hold = job.kept.hold
        return hold is not None and not (hold.reason == "conflict" and self._on_conflict != "hold")

    def _busy(self, job: Job) -> Blocks:
        """The blocks that a place cannot have yet: others of ours have them still, or it does not take them back."""
        return frozenset({*self._handover.awaited(job.kept.place), *job.banned})

    def _waits_for_others(self, job: Job) -> bool:
        return job.looked and bool(self._busy(job)) and self._decide(job)[0] == Wait("others")

    def _break_circle(self) -> bool:
        """Of places that wait for each other, leave the first for the next push; false if none waits."""
        job = next((job for job in self._waiting if not job.over), None)
        if job is None:
            return False
        if job.banned:
            with self._ledger() as ledger:
                self._refuse(ledger, job, next(iter(job.banned.values())), job.theirs)
            return True
        others = set().union(*self._handover.awaited(job.kept.place).values())
        blockers = [place for place in others if place in self._jobs and self._jobs[place].over]
        job.over = True
        for row in job.kept.pending:
            for place in blockers or others:
                kept = self._jobs[place].kept if place in self._jobs else None
                if kept is not None and kept.pending and row.intent.new is not None:
                    other = replace(kept.pending[0], number=kept.shown)
                    self._log(row, f"waits for edit {other.id}: {other.describe()}")
                    break
        return True

    # Looking

    def _look(self, jobs: list[Job]) -> None:
        """Look at places right before they are written to, by short lists, or else by a complete one."""
        looks = [Looking(job.kept.place.number or 0, list(_guesses(job.kept.place))) for job in jobs]
        self._connections.ask_all(looks, _MOST_S)
        self._report.requests += sum(look.requests for look in looks)
        missing, seen = False, []
        for job, look in zip(jobs, looks, strict=True):
            if look.found is None:
                missing = missing or look.begun
                continue
            content = content_of(look.found)
            if not (job.listed or is_familiar(job.kept.place, content, self._forms)):
                job.listed = self._must_list = True  # a complete list tells whether the service numbers anew
                continue
            seen.append((job, content))
            job.theirs, job.looked, job.conclusive = content, True, False
        self._learn(seen)
        failed = [look.answer for look in looks if look.answer is not None]
        self._patience.after(failed)
        if missing and not failed:
            self._read_list(freely=True)
            for job in jobs:
                if not job.looked and not job.over:
                    self._put_off(job, "the service does not show it: the next push looks again")

    def _put_off(self, job: Job, reason: str) -> None:
        """Leave a place for the next push."""
        job.over = True
        for row in job.kept.pending[:1]:
            self._log(row, reason)

    # Sending

    def _note(self, *, leaves: bool) -> None:
        """Note what was answered to the lot before, and that the next one leaves, if one shall."""
        if not self._sent and not (leaves and self._ready(at_once=True)):
            return
        try:
            with self._ledger() as ledger:
                again = self._record(ledger, self._sent)
                ledger.keep_forms(self._forms)
                ready = self._ready(at_once=True) if leaves else []
                next_ones = [self._next(ledger, job) for job in ready if not job.over]
        except BaseException:
            self._head = -1  # places are as they were: they are read again
            raise
        self._sent = [errand for errand in next_ones if errand is not None]
        for job in again:
            job.tries += 1
            if job.tries >= self._settings.attempts:
                self._put_off(job, f"{job.kept.pending[0].problem}: left for the next push")

    def _next(self, ledger: Ledger, job: Job) -> Errand | None:
        """The next request of a place, noted in the ledger; None if there is none now."""
        kept = job.kept
        if self._may_repeat(job):
            job.repeated, job.put_off = job.repeated or not job.put_off, False
            return self._leaves(job, ledger.begin(kept, kept.place.requests[-1]))
        decision, look = self._decide(job)
        if job.refused is not None:
            self._after_refusal(ledger, job, look)
            return None
        if isinstance(decision, Hold) and decision.reason == "conflict" and self._on_conflict != "hold":
            words = f"the service has changed it, and {self._on_conflict} was chosen"
            job.kept = ledger.rewrite(kept, chosen(self._as_looked(job), decision, self._on_conflict))
            gone = [row for row in kept.pending if row.id not in job.kept.rows]
            self._told += [(replace(row, state=State.DROPPED), words) for row in gone]
            return self._next(ledger, job)
        match decision:
            case Send(request):
                return self._begin(ledger, job, request)
            case Hold():
                self._hold(ledger, job, decision)
            case Wait("conclusive") if not job.listed and all(each.settled for each in self._as_looked(job).requests):
                job.listed, job.looked, self._must_list = True, False, True
            case Done() | Wait("shown"):
                there = look.content
                seen, counter = seen_already(kept.place, there), ledger.outbox.mark().counter
                words = "the service has these values already" if there else "it is gone already"
                self._save(ledger, job, kept, seen, words, theirs=there, counter=counter)
                job.over = True
            case Wait("others"):
                pass
            case _:
                left_s = max(self._unsettled_s(job, known=True), 0)
                self._put_off(job, f"the service may not show yet what it has: push again in {left_s:.0f} s or later")
        return None

    def _decide(self, job: Job) -> tuple[Decision, Look]:
        """Decide about a place, by all that is known of it at the service."""
        place = self._as_looked(job)
        look = look_at(place, job.theirs, self._forms, conclusive=job.conclusive)
        look = replace(look, busy=self._busy(job))
        return reconcile(place, look), look

    def _as_looked(self, job: Job) -> Place:
        """The place, with what has settled when it was looked at: of an unknown outcome, what a list has said."""
        if job.conclusive and self._seen is not None:
            return job.kept.as_of(self._seen.start.mark, self._settings.settle_s)
        return job.kept.as_of(Mark.now(NEWEST), self._settings.settle_s)

    def _begin(self, ledger: Ledger, job: Job, request: Request) -> Errand:
        before = None
        if request.what == "create":
            before = job.kept.before if job.kept.before is not None else self._list_before(ledger)
        job.repeated = False
        return self._leaves(job, ledger.begin(job.kept, request, before=before))

    @staticmethod
    def _leaves(job: Job, kept: Kept) -> Errand:
        job.kept = kept
        return Errand(kept.place.id, kept.place.requests[-1], kept.place.number)

    def _list_before(self, ledger: Ledger) -> int:
        """The kept list of what the service had when this push read it; what we add is known to be ours."""
        if self._before is None:
            assert self._seen is not None
            self._before = ledger.outbox.baselines.keep(
                {number: digest(place) for number, place in self._seen.listed.items()}
            )
        return self._before

    def _may_repeat(self, job: Job) -> bool:
        """True if the newest request may be sent again as it is.

        The service asked for it at another time, or remembers the key of a create for sure; beyond this boot, its age
        is not known.
        """
        if job.put_off:
            return True
        requests = job.kept.place.requests
        if not self._settings.idempotency_keys or not requests or requests[-1].known or requests[-1].what != "create":
            return False
        sent, now = requests[-1], Mark.now(0)
        return (
            not sent.misnamed
            and bool(sent.key)  # that of one which only a newer copy of the edits may have sent is not known
            and sent.ended is not None
            and sent.attempted is not None
            and sent.attempted.boot == now.boot != ""
            and sent.attempted.age_s(now) < self._settings.idempotency_window_s
        )

    def _hold(self, ledger: Ledger, job: Job, hold: Hold, *, refused: Request | None = None) -> None:
        place = replace(job.kept.place, refused=refused or job.kept.place.refused)
        problem = why_held(replace(job.kept, place=place), hold, self._names)
        if hold.reason in ("another", "gone", "unclear") and place.number is not None:
            place = place.unbound
        self._save(ledger, job, job.kept, place, problem, hold=hold)
        job.over = True

    def _refuse(self, ledger: Ledger, job: Job, request: Request, theirs: Content | None = None) -> None:
        """Hold a place for what the service said no to."""
        listed, own = {} if self._seen is None else self._seen.listed, job.kept.place.number
        others = (number for number, place in listed.items() if number != own and request.new in place.ipblocks)
        hold = Hold("refused", theirs, own, holders(request, {each: content_of(listed[each]) for each in others}))
        self._hold(ledger, job, hold, refused=request)

    def _save(
        self, ledger: Ledger, job: Job, kept: Kept, place: Place, reason: str,
        *, hold: Hold | None = None, theirs: Content | None = None, why: str | None = None, counter: int | None = None,
    ) -> None:  # fmt: skip
        """Write a place, and tell of each edit that has come to another station."""
        before = job.kept.rows
        problem = reason if hold is not None else None
        job.kept = ledger.save(kept, place, hold=hold, problem=problem, theirs=theirs, why=why, counter=counter)
        over = {number: replace(row, state=State.DONE, problem=None) for number, row in before.items()}
        for number, row in {**over, **job.kept.rows}.items():
            was = before[number].state
            if row.state != was and (row.state not in (State.QUEUED, State.SENDING)):
                words = reason if hold is None else row.problem or "the service has it"
                if place.deleted and row.state == State.DONE and row.intent.what != "delete":
                    words = "a later edit replaces it"
                else:
                    words = why_missing(row, theirs, max(before)) or words
                self._told.append((row, words))
                ledger.outbox.record(
                    f"push {row.operation}", str(row.state), locid=row.locid, before=row.base,
                    after={"edit": row.id, "reason": words, "locid": place.number, "payload": row.payload},
                )  # fmt: skip
        if job.kept.place.id != kept.place.id:  # it was deleted: what gets its number is another
            self._handover.forget(kept.place.id)
        self._note_handover(job)

    # Answers

    def _record(self, ledger: Ledger, errands: Sequence[Errand]) -> list[Job]:
        """Write what was answered; those that may be sent again."""
        again = []
        # Two that were under way together and were given one number: nobody can tell which of them made it.
        given = Counter(errand.answer for errand in errands if errand.request.what == "create" and errand.ended)
        twice = {number for number, times in given.items() if times > 1}
        for errand in errands:
            job = self._jobs[errand.place]
            self._report.requests += errand.begun
            match errand.outcome:
                case Outcome.KNOWN:
                    self._known(ledger, job, errand, twice)
                case Outcome.NOT_APPLIED | Outcome.PUT_OFF if job.repeated:
                    self._unknown(ledger, job, errand.answer)  # it says nothing of the time before
                case Outcome.NOT_APPLIED:
                    job.kept = self._withdrawn(ledger, job.kept, problem=errand.answer)
                    again += [job] if errand.begun else []
                case Outcome.PUT_OFF:
                    place, words = ledger.ended(job.kept.place, put_off=True), str(errand.answer)
                    self._save(ledger, job, job.kept, place, words, why=words)
                    job.put_off = place.requests[-1].is_unknown
                    again.append(job)
                case Outcome.REFUSED:
                    self._refused(ledger, job, errand)
                case Outcome.UNKNOWN:
                    self._unknown(ledger, job, errand.answer)
        return again

    def _known(self, ledger: Ledger, job: Job, errand: Errand, twice: set[int]) -> None:
        kept, number = job.kept, None
        request = kept.place.requests[-1]
        if request.what == "create":
            number = errand.answer
            is_taken = number in twice or ledger.outbox.has_number(number)
            is_taken = is_taken or number in ledger.outbox.baselines.of(kept.before)
            if is_taken and number not in self._freed:
                words = f"the service answered with locid {number}, which is another geolocation's"
                self._unknown(ledger, job, words, misnamed=True)
                return
        place = ledger.ended(answered(kept.place, number=number))
        if request.what == "delete" and kept.place.number is not None:
            self._freed.add(kept.place.number)
        if request.what == "clear":
            self._count_deleted(ledger, kept, request, errand.answer)
        # The answer to a create that was sent again may be that of then: somebody else may have its number by now.
        job.theirs, job.looked, job.conclusive = request.applied(request.before), not job.repeated, False
        job.tries = 0
        self._save(ledger, job, kept, place, "the service has it")
        job.over = not job.kept.pending

    def _count_deleted(self, ledger: Ledger, kept: Kept, request: Request, answer: Any) -> None:
        _, deleted = answer
        listed = 0 if request.before is None else len(request.before.blocks)
        if deleted > listed and (row := next(iter(kept.pending), None)) is not None:
            number = kept.shown
            words = (
                f"the service deleted {deleted} blocks of geolocation {number}, and its list had {listed}: look "
                "whether a block of somebody else's is missing there now"
            )
            self._report.notices.append(ledger.outbox.notice(row.id, row.locid, number, words))

    def _withdrawn(self, ledger: Ledger, kept: Kept, *, problem: Exception | None = None) -> Kept:
        """A place of which the newest request surely was not applied."""
        place = replace(kept.place, requests=kept.place.requests[:-1])
        return ledger.save(kept, place, why=None if problem is None else str(problem))

    def _unknown(self, ledger: Ledger, job: Job, error: object, *, misnamed: bool = False, or_else: str = "") -> None:
        place = ledger.ended(job.kept.place, misnamed=misnamed)
        words = "the push was interrupted" if error is None else str(error)
        settles = f"a push in {self._settings.settle_s:.0f} s or later looks what became of it{or_else}"
        self._save(ledger, job, job.kept, place, f"the outcome is unknown: {words}; {settles}", why=words)
        job.over = True

    def _refused(self, ledger: Ledger, job: Job, errand: Errand) -> None:
        """The service said no: to a create, something is in the way that this very request may have made, or there is
        nothing that it could lack.
        """
        error: UpstreamRefusedError = errand.answer
        request = replace(job.kept.place.requests[-1], said=str(error))
        lately = any(each.known and self._left_s(each) > 0 for each in job.kept.place.requests)
        made = request.what == "create" and (error.status in (404, 409) or job.repeated)
        if made or (error.status == 404 and lately):
            drop = f"; to give it up, `geolookup sync` then, and `geolookup outbox drop {next(iter(job.kept.rows), 0)}`"
            self._unknown(ledger, job, error, or_else=drop if made and job.kept.created_again else "")
            return
        if request.what == "create":
            job.kept = self._withdrawn(ledger, job.kept)
            self._refuse(ledger, job, request)
            return
        job.kept = ledger.save(job.kept, ledger.ended(job.kept.place))
        job.refused, job.looked, job.conclusive = request, False, False
        # Whose it is, only a complete list tells: one for all of a push.
        self._must_list = self._must_list or (error.status == 409 and bool(request.new) and self._seen is None)

    def _after_refusal(self, ledger: Ledger, job: Job, look: Look) -> None:
        """What the service has now tells whether it did what it refused."""
        request = job.refused
        assert request is not None
        theirs = None if look.another else look.content
        kept = job.kept
        job.refused = None
        if request.is_done(theirs):
            place = answered(kept.place)
            self._save(ledger, job, kept, place, "the service has it already")
            job.theirs = theirs
            job.over = not job.kept.pending
            return
        job.kept = self._withdrawn(ledger, kept)
        if request.what == "add" and request.new not in {intent.new for intent in kept.place.intents}:
            job.banned[request.new] = request  # the others that it took must come back first
            return
        self._refuse(ledger, job, request, theirs)


def _guesses(place: Place) -> Iterator[Mapping[str, Any]]:
    """Fields that a place may have at the service, the likeliest first."""
    values = [request.values for request in reversed(place.requests)]
    values += [content.values for content in (place.baseline, *(each.base for each in place.intents)) if content]
    values += [intent.values for intent in place.intents]
    yield from (fields_of(each) for each in dict.fromkeys(values) if each)


def _refuses_everything(error: BaseException | None) -> bool:
    """True if another request would fare no better now: a wrong token, no connection, or told to wait for longer."""
    if isinstance(error, UpstreamAuthError):
        return error.status == 401
    return isinstance(error, UpstreamUnavailableError) and (not error.sent or error.retry_after_s is not None)
