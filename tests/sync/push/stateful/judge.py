"""What must hold in a play of the push machine, whatever was done and whatever went wrong."""

from typing import Any

from geolookup.lookup.engine import GeoLookup
from geolookup.model.addresses import parse
from geolookup.model.types import is_provisional
from geolookup.state.edits.outbox.row import OutboxRow, State
from geolookup.state.edits.places.reconcile import owed_blocks
from tests.oracle.outbox_model import laid_over, winner
from tests.sync.push.stateful.memory import Memory
from tests.sync.push.stateful.world import World, ends_of

PROBES = [f"10.0.0.{last}" for last in (0, 10, 40, 70, 130, 200)]


class Judge:
    """Compares what is there with a plain model; each method fails if something is not as it must be."""

    def __init__(self, world: World, memory: Memory) -> None:
        self._world, self._memory = world, memory
        service = world.service
        world.patch.setattr(service, "_request", self._with_its_mark(service._request))
        world.patch.setattr(service, "list", self._noted(service.list))

    def _noted(self, real: Any) -> Any:
        """A list, of which it is remembered what it showed: a short one shows no more than a push may write down."""

        def listing(*, etag: str | None = None, top: int | None = None, **filters: str) -> Any:
            answer = real(etag=etag, top=top, **filters)
            shown = {number: place.state() for number, place in self._world.service.places.items()}
            counter = self._world.counter()
            self._memory.listed[counter] = self._memory.listed.get(counter, shown) if filters else shown
            return answer

        return listing

    def _with_its_mark(self, real: Any) -> Any:
        """A request that edits.db durably says is under way, and the only one of its geolocation."""

        def request(what: str, locid: int, apply: Any, key: str | None = None) -> Any:
            under_way = [
                kept for kept in self._world.places() if any(sent.ended is None for sent in kept.place.requests)
            ]
            assert all(sum(sent.ended is None for sent in kept.place.requests) == 1 for kept in under_way)
            for kept in under_way:
                newest = kept.place.requests[-1]
                if newest.what == "create":
                    self._memory.created.setdefault(min(kept.rows), set()).add(newest.values)
            if key is not None:
                (kept,) = (kept for kept in under_way if key in {sent.key for sent in kept.place.requests})
                if what == "create":
                    self._memory.sent_for[key] = min(kept.rows)
            else:
                assert [kept.place.number for kept in under_way].count(locid) == 1
            return real(what, locid, apply, key)

        return request

    # After a push, and after a pull

    def nothing_of_theirs_was_destroyed(self) -> None:
        """A push that holds conflicts destroyed only what an edit here was made against, or a person let be."""
        aliases = self._world.aliases()
        for locid, ends in self._world.service.destroyed:
            rows = [row for row in self._world.rows() if aliases.get(row.locid, row.locid) == locid]
            seen = {tuple(block) for row in rows for block in (row.base or {"blocks": []})["blocks"]}
            seen |= {
                tuple(each) for row in rows for name, each in row.payload.items() if name in ("block", "new_block")
            }
            assert ends in seen, f"{ends} of {locid} was the foreign client's, and nobody here had seen it"

    def later_twins_are_reported(self, report: Any) -> None:
        """If a create arrived a second time, the report of the pull says so."""
        reported = {twin["locid"] for twin in report.twins}
        reported |= {
            number for kept in self._world.places() if kept.hold for number in kept.hold.numbers if number is not None
        }
        aliases = self._world.aliases()
        ours = self._world.numbers()  # a person who edits a second one has found it
        for row in self._world.rows():
            if row.operation != "create" or row.state != State.DONE:
                continue
            for locid, place in self._world.service.places.items():
                if (
                    self._memory.edit_of(place.key) == row.id
                    and locid not in ours
                    and not place.blocks
                    and place.fields == row.payload["fields"]
                ):
                    assert locid in reported, f"{locid} is a second {aliases.get(row.locid)}, silently"

    # After each step

    def lookups_say_what_the_model_says(self) -> None:
        """Every probe is answered from the last pull, with all edits laid over it that it may not have.

        Of what was edited here, a list that a push has read since says how it is.
        """
        world, memory = self._world, self._memory
        if world.directory.current() is None:
            return
        with world.editor.transaction():
            pass  # whoever edits next makes visible what a crash kept from it
        memory.note_what_is_known()
        aliases = world.aliases()
        rows = world.rows()
        newer = world.seen_since()
        # What a create left empty others may have filled in, as soon as a list has shown that it is there.
        there = {kept.place.id for kept in world.places() if kept.place.baseline is not None}
        # A number that a list has ended is the one by which that list speaks of what was edited under it.
        spoken = aliases | world.former()
        laid = [
            row
            for row in rows
            if row.state != State.DROPPED
            and row.id not in memory.in_list
            and not (row.operation == "create" and row.locid in there)
            and (row.concluded is None or spoken.get(row.locid, row.locid) not in newer)
        ]
        # What takes a block that is not there takes it all the same from an edit before it that still waits to give it.
        gives = {(row.locid, str(row.payload.get("new_block", row.payload.get("block")))): row.id for row in laid}
        laid += [
            row
            for row in rows
            if row.id in memory.in_list
            and row.operation in ("remove_block", "replace_block")
            and gives.get((row.locid, str(row.payload["block"])), row.id) < row.id
        ]
        laid.sort(key=lambda row: row.id)
        # What comes after a deletion is not of the number that was deleted: the service may give that to others.
        deletions = {row.locid: row.id for row in rows if row.number is not None}
        shown = {
            row.id: row.locid if row.id > deletions.get(row.locid, row.id) else aliases.get(row.locid, row.locid)
            for row in laid
        }
        layer = laid_over(self._shown_last(newer), [(r.operation, shown[r.id], r.payload, r.base) for r in laid])
        pending = {shown[row.id] for row in laid if row.state != State.DONE}
        with GeoLookup(world.home) as geo:
            for address in PROBES:
                found = geo.match(address)
                assert found is not None
                expected = winner(layer, parse(address)[1])
                numbers = {found.geolocation.locid, spoken.get(found.geolocation.locid), expected}
                if numbers & {*memory.spoilt_before_it_was_listed.values()}:
                    continue  # made unlike what we created before a list had it: ours until a conclusive list
                if found.geolocation.locid in memory.adopted_by_person - memory.pulled.keys():
                    continue  # a person says that it is what was created here: so it is shown until the next pull
                assert found.geolocation.locid == (expected or 1), address
                if expected is not None:
                    assert tuple(found.geolocation.fields().values()) == layer[expected].fields
                    assert found.pending == (expected in pending)

    def what_nobody_knows_the_outcome_of_is_pending(self) -> None:
        """An edit that was sent, and not answered, is never taken for done: a push would look no more."""
        for kept in self._world.places():
            *_, newest = [None, *kept.place.requests]
            if newest is not None and not newest.known and not newest.put_off:
                assert kept.pending, f"{newest} may have been carried out, and nothing of it is pending"

    def _shown_last(self, newer: dict[int, int]) -> dict[int, Any]:
        """What was pulled last and, of the numbers in ``newer``, what the list with that counter showed."""
        found = {number: state for number, state in self._memory.pulled.items() if number not in newer}
        places = self._world.places()
        # What has a number that was ours comes with the next pull, unless that one had it already.
        lost = {*self._world.former().values()}
        for kept in places:
            number, was = kept.place.lost, kept.place.baseline
            if kept.hold is None or kept.hold.reason != "another" or was is None or number not in lost & newer.keys():
                continue
            if (there := self._memory.pulled.get(number)) is not None:
                own = {(each.startip, each.endip) for each in was.blocks}
                country, _, city, *_ = there[0]
                if not there[1] & own and (country, city) != (was.values[0], was.values[2]):
                    found[number] = there
        # What was acknowledged and is gone stays as a list had it, until a person decides.
        stays = {kept.place.number for kept in places if kept.hold is not None and kept.hold.reason == "not shown"}
        for kept in places:  # of what was never pulled, that is the last list which was conclusive for it
            number, was = kept.place.number, kept.place.at_service
            is_gone = kept.hold is not None and kept.hold.reason == "not shown" and kept.hold.theirs is None
            if is_gone and number not in self._memory.pulled and was is not None:
                found[number] = was.values, frozenset((each.startip, each.endip) for each in was.blocks)
        bound = self._world.numbers()  # what one of ours had may be what another one has since
        for number, counter in newer.items():
            if number in lost - bound or number in found:
                continue
            if (last := self._last(number, counter, since=0 if number in stays else None)) is not None:
                found[number] = last
        for kept in places:  # so does what somebody deleted, by the number that it has here
            if kept.hold is not None and kept.hold.reason == "gone" and kept.place.lost is not None:
                found.pop(kept.place.lost, None)
                last = self._last(kept.place.lost, kept.seen, since=self._memory.known_since[kept.place.id])
                if last is not None:
                    found[kept.place.id] = last
        for kept in places:  # and what a removal took besides, until it is back
            if kept.place.number in found and (owed := owed_blocks(kept.place)):
                fields, blocks = found[kept.place.number]
                found[kept.place.number] = fields, blocks | {(each.startip, each.endip) for each in owed}
        return found

    def _last(self, number: int, counter: int, *, since: int | None) -> Any:
        """What the last list up to a counter showed under a number, None if nothing.

        With ``since`` it is the last list that has it: one after that counter, or else the one that was pulled.
        """
        lists = {at: each for at, each in sorted(self._memory.listed.items()) if at <= counter}
        if since is None:
            return [None, *(each.get(number) for each in lists.values())][-1]
        having = [each[number] for at, each in lists.items() if at > since and number in each]
        return having[-1] if having else self._memory.pulled.get(number)

    def a_create_made_at_most_one_geolocation(self) -> None:
        """However often it was sent."""
        service, memory = self._world.service, self._memory
        keys = [place.key for place in service.made.values() if place.key is not None]
        for key in set(keys) - service.too_late - memory.touched_before_it_was_known - memory.taken_by_person:
            assert keys.count(key) == 1

    def nothing_of_the_foreign_clients_is_adopted_or_deleted(self) -> None:
        """Unless a person did so, or nobody could tell that it is the foreign client's."""
        service, memory = self._world.service, self._memory
        rows, aliases, renumbered = self._world.rows(), self._world.aliases(), memory.renumbered()
        for row in rows:
            if row.operation != "create" or row.locid not in aliases:
                continue
            locid = aliases[row.locid]
            made_by = service.made[locid].key
            if row.concluded is None and any(memory.edit_of(key) == row.id for key in service.lied):
                continue  # what was made since the first attempt is no older one's for sure: the next list tells
            touched = any(memory.edit_of(key) == row.id for key in memory.touched_before_it_was_known)
            if made_by is None and (touched or row.id in renumbered) and locid not in memory.adopted_by_person:
                # Only what is equal can be taken for it.
                assert any(fields == tuple(row.payload["fields"].values()) for fields, _ in service.states[locid])
                continue
            # What creates that are equal have made is interchangeable: later edits of their fields went with them.
            asked = memory.created.get(row.id, {tuple(row.payload["fields"].values())}) | {
                tuple(each.payload["fields"].values())
                for each in rows
                if each.locid == row.locid and each.operation == "update" and each.attempts
            }
            equal = {edit for edit, sent in memory.created.items() if sent & asked}
            equal |= {each.id for each in rows if each.locid == row.locid}  # it may have been made anew under any
            if self._world.is_taken_for(asked, locid):
                continue  # of which a person was told that the service stores it so
            assert memory.edit_of(made_by) in equal or made_by in service.too_late or locid in memory.adopted_by_person
        had = {kept.place.id: kept.place.lost for kept in self._world.places()}  # what is like it may be the same
        deleted_here = {
            number
            for row in rows
            if row.operation == "delete"
            for number in (aliases.get(row.locid, row.locid), had.get(row.locid))
        }
        for locid in set(service.made) - set(service.places):
            assert locid in deleted_here | memory.foreign_deleted

    def no_acknowledged_edit_is_lost(self) -> None:
        """Every edit is still there, and what one that is done asked for was so at the service at least once.

        Except for what a later edit of the same geolocation asks otherwise: only the last is sent.
        """
        service, memory = self._world.service, self._memory
        assert len(self._world.rows()) >= memory.rows_seen
        # What was acknowledged of something that was taken for lost later was done under the number that it had.
        lost = {kept.place.id: kept.place.lost for kept in self._world.places() if kept.place.lost is not None}
        memory.numbers |= lost | self._world.aliases()
        rows, decided = self._world.rows(), memory.places_of(memory.decided)
        for row in rows:
            # What is gone, or is another's by now, is known by another number here.
            number = memory.numbers.get(row.locid, row.locid)
            memory.number_of[row.id] = memory.number_of.get(row.id, number) if is_provisional(number) else number
        for row in rows:
            if row.state != State.DONE or row.locid in decided or any(overrides(later, row) for later in rows):
                continue
            if memory.went_elsewhere(row):
                assert self._world.was_told_of(row.locid)
                continue
            locid = memory.number_of[row.id]
            states = service.states.get(locid, [])
            if row.operation == "create":
                assert states
            if row.operation == "update":  # what the service has in the other fields stays
                asked = row.intent.touched.items()
                assert any(all(fields[at] == value for at, value in asked) for fields, _ in states)
            if row.operation == "delete":  # a number may be something else's by now, that was edited here since
                others = {kept.place.number for kept in self._world.places() if kept.place.id != row.locid}
                assert locid not in service.places or locid in others
            if row.operation in ("add_block", "replace_block"):
                new = tuple(row.payload.get("new_block", row.payload["block"]))
                assert any(new in there for _, there in states)
            if row.operation == "remove_block":
                assert any(tuple(row.payload["block"]) not in there for _, there in states)

    # In the end

    def both_sides_are_equal_and_as_intended(self, troubled: set[int]) -> None:
        """The same is here and there, and what met no trouble is what was asked for; ``troubled`` by numbers here."""
        world, memory = self._world, self._memory
        there = {locid: place.state() for locid, place in world.service.places.items()}
        shown = {
            laid.place.locid: (tuple(laid.place.fields().values()), ends_of(laid)) for laid in world.editor.custom()
        }
        assert shown == there
        memory.numbers |= world.aliases()
        rows = world.rows()  # what is gone had a number, too
        aliases = {row.locid: memory.number_of.get(row.id, row.locid) for row in rows} | memory.numbers
        troubled = troubled | {row.locid for row in rows if memory.went_elsewhere(row)}
        troubled |= {
            row.locid for row in rows if row.state == State.DROPPED and not (row.problem or "").startswith("done")
        }
        troubled |= {
            row.locid
            for row in rows
            if row.operation == "create"
            and (locid := aliases.get(row.locid)) in world.service.states
            and world.is_taken_for([tuple(row.payload["fields"].values())], locid)
        }
        now = {row.id: row.locid for row in rows}
        intended = {now[edit]: wanted for edit, wanted in sorted(memory.intended.items())}
        for local in intended:
            locid = aliases.get(local, local)
            # What was edited under two numbers, before anybody knew that they are one, is in no single plan.
            if local != locid and locid in intended:
                troubled |= {local, locid}
        for local, wanted in intended.items():
            locid = aliases.get(local, local)
            if local not in troubled and locid not in world.service.disturbed:
                assert there.get(locid) == wanted
        self.lookups_say_what_the_model_says()


def overrides(later: OutboxRow, row: OutboxRow) -> bool:
    """Whether a later edit of the same geolocation asks for something else in place of what an edit did."""
    if later.locid != row.locid or later.id <= row.id or later.state == State.DROPPED:
        return False
    if later.operation == "delete":
        return True
    if row.operation == "update":
        return bool(later.intent.touched.keys() & row.intent.touched.keys())
    given, taken = {row.intent.new} - {None}, row.intent.takes
    return bool(later.intent.takes & given or {later.intent.new} & taken)
