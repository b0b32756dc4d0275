"""What must hold in a play of the push machine, whatever was done and whatever went wrong."""

from typing import Any

from geolookup.lookup.engine import GeoLookup
from geolookup.model.addresses import parse
from geolookup.state.edits.outbox.row import State
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

    def _with_its_mark(self, real: Any) -> Any:
        """A request, of an edit that is durably under way, beside none that it could be taken for."""

        def request(what: str, locid: int, apply: Any, key: str | None = None) -> Any:
            under_way = [row for row in self._world.rows() if row.state == State.SENDING]
            number = {row.locid: self._world.aliases().get(row.locid, row.locid) for row in under_way}
            if key is not None:  # that of a restored block begins with its edit's
                assert any(key.startswith(row.key) for row in under_way)
            else:
                assert locid in number.values()
            assert len(set(number.values())) == len(under_way), "two edits of one geolocation are under way"
            creates = [row.edit for row in under_way if row.operation == "create"]
            assert all(creates.count(create) == 1 for create in creates), "equal creates are under way"
            return real(what, locid, apply, key)

        return request

    # After a push, and after a pull

    def nothing_of_theirs_was_destroyed(self) -> None:
        """A push that holds conflicts destroyed only what an edit here was made against, or a person let be."""
        aliases = self._world.aliases()
        for locid, ends in self._world.service.destroyed:
            rows = [row for row in self._world.rows() if aliases.get(row.locid, row.locid) == locid]
            seen = {tuple(block) for row in rows for block in (row.base or {"blocks": []})["blocks"]}
            let_be = {tuple(block) for row in rows for block in (row.journal or {}).get("accepted", [])}
            assert ends in seen | let_be, f"{ends} of {locid} was the foreign client's, and nobody here had seen it"

    def later_twins_are_reported(self, report: Any) -> None:
        """If a create arrived a second time, the report of the pull says so."""
        reported = {twin["locid"] for twin in report.twins}
        aliases = self._world.aliases()
        ours = set(aliases.values())
        for row in self._world.rows():
            if row.operation != "create" or row.state != State.DONE:
                continue
            for locid, place in self._world.service.places.items():
                if (
                    place.key == row.key
                    and locid not in ours
                    and not place.blocks
                    and place.fields == row.payload["fields"]
                ):
                    assert locid in reported, f"{locid} is a second {aliases[row.locid]}, silently"

    # After each step

    def lookups_say_what_the_model_says(self) -> None:
        """Every probe is answered from the last list, with all edits laid over it that it may not have."""
        world, memory = self._world, self._memory
        if world.directory.current() is None:
            return
        with world.editor.transaction():
            pass  # whoever edits next makes visible what a crash kept from it
        aliases = world.aliases()
        rows = world.rows()
        laid = [row for row in rows if row.state != State.DROPPED and row.id not in memory.in_list]
        # What comes after a deletion is not of the number that was deleted: the service may give that to others.
        deletions = {row.locid: row.id for row in rows if row.number is not None}
        shown = {
            row.id: row.locid if row.id > deletions.get(row.locid, row.id) else aliases.get(row.locid, row.locid)
            for row in laid
        }
        layer = laid_over(memory.pulled, [(r.operation, shown[r.id], r.payload, r.base, r.journal) for r in laid])
        pending = {shown[row.id] for row in laid if row.state != State.DONE}
        with GeoLookup(world.home) as geo:
            for address in PROBES:
                found = geo.match(address)
                assert found is not None
                expected = winner(layer, parse(address)[1])
                assert found.geolocation.locid == (expected or 1), address
                if expected is not None:
                    assert tuple(found.geolocation.fields().values()) == layer[expected].fields
                    assert found.pending == (expected in pending)

    def a_create_made_at_most_one_geolocation(self) -> None:
        """However often it was sent."""
        service, memory = self._world.service, self._memory
        keys = [place.key for place in service.made.values() if place.key is not None]
        for row in self._world.rows():
            memory.keys.setdefault(row.id, set()).add(row.key)
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
            if row.key in service.lied and row.seen is row.concluded is None:
                continue  # what was made since the first attempt is no older one's for sure: the next list tells
            if made_by is None and row.locid in renumbered and locid not in memory.adopted_by_person:
                # Only what is equal can be taken for it.
                assert any(fields == tuple(row.payload["fields"].values()) for fields, _ in service.states[locid])
                continue
            assert made_by == row.key or made_by in service.too_late or locid in memory.adopted_by_person
        deleted_here = {aliases.get(row.locid, row.locid) for row in rows if row.operation == "delete"}
        for locid in set(service.made) - set(service.places):
            assert locid in deleted_here | memory.foreign_deleted

    def no_acknowledged_edit_is_lost(self) -> None:
        """Every edit is still there, and what one that is done asked for was so at the service at least once."""
        service, memory = self._world.service, self._memory
        assert len(self._world.rows()) >= memory.rows_seen
        # What was acknowledged of something that was taken for lost later was done under the number that it had.
        memory.numbers |= self._world.aliases()
        aliases = memory.numbers
        for row in self._world.rows():
            if row.state != State.DONE or row.locid in memory.decided:
                continue
            if memory.went_elsewhere(row):
                assert self._world.was_told_of(row.locid)
                continue
            locid = aliases.get(row.locid, row.locid)
            states = service.states.get(locid, [])
            if row.operation == "create":
                assert states
            if row.operation == "update":
                assert any(fields == tuple(row.payload["fields"].values()) for fields, _ in states)
            if row.operation == "delete":
                assert locid not in service.places
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
        aliases = world.aliases()
        rows = world.rows()
        troubled = troubled | {row.locid for row in rows if memory.went_elsewhere(row)}
        troubled |= {
            row.locid for row in rows if row.state == State.DROPPED and not (row.problem or "").startswith("done")
        }
        for local in memory.intended:
            locid = aliases.get(local, local)
            # What was edited under two numbers, before anybody knew that they are one, is in no single plan.
            if local != locid and locid in memory.intended:
                troubled |= {local, locid}
        for local, wanted in memory.intended.items():
            locid = aliases.get(local, local)
            if local not in troubled and locid not in world.service.disturbed:
                assert there.get(locid) == wanted
        self.lookups_say_what_the_model_says()
