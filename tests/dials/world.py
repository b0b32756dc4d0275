"""One run: persons edit, push and pull on a service whose dials are turned, and in the end somebody judges."""

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, TypeAlias

import pytest

from geolookup.model.errors import EditError
from geolookup.model.types import IPBlock
from geolookup.sites.plan import apply_sites
from geolookup.sites.site import Site
from tests.dials.dials import turned
from tests.dials.judge import Verdict, check_lookups, judge
from tests.dials.machine import SETTLE_S, Machine, Time
from tests.dials.upstream import CLIENT, Ends, Place, Upstream
from tests.dials.wishes import Looks, Wish
from tests.support.interleaved import interleave

Step: TypeAlias = Callable[[Machine], None]

#: Few, so that branches meet in one town; as people write them.
TOWNS = [
    ("DE", "Berlin", 52.520008, 13.404954),
    ("de", "Köln", 50.937531, 6.960279),
    ("DE", "Bad  Orb ", 50.227, 9.3479),
    ("US", "Oakland", 37.804363, -122.271111),
]
#: How many pushes anything may take to come to its end, with time to settle between them.
_PATIENCE = 8
#: While lists show old and new numbers, or their age is not known, nobody can tell whose a number is.
_SHOW_BOTH = {"lag", "pieces", "reboot"}
#: A sync that lacks more custom geolocations asks a person whether it is so.
_FEW = 10
_LONGEST_STORY = 200


class World:
    """Plays one run. ``names`` are the dials that are turned; the same seed plays the same run.

    Pushes use one connection in half of the runs, and several in the others; or as many ``connections`` as are given.
    """

    def __init__(
        self,
        seed: int,
        names: frozenset[str],
        *,
        sites: int | None = None,
        steps: int | None = None,
        connections: int | None = None,
    ) -> None:
        self.names = names
        self._order = Random(f"{seed} {' '.join(sorted(names))} connections")
        chosen = self._order.choice([1, 1, 2, 4])
        self._connections = chosen if connections is None else connections
        self.random = Random(f"{seed} {' '.join(sorted(names))}")
        self.time = Time()
        self.dials = turned(names, self.random)
        self.upstream = Upstream(self.dials, Random(self.random.random()), self.time)
        self.verdict = Verdict()
        self._count = sites if sites is not None else self.random.randint(2, 6)
        self._steps = steps if steps is not None else self.random.randint(8, 20)
        self._folder = tempfile.mkdtemp(prefix="dials-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.machines: list[Machine] = []
        for _ in range(2 if "machines" in names else 1):
            self._add_machine()
        self._number = 0

    def _add_machine(self) -> Machine:
        name = f"m{len(self.machines)}"
        self.machines.append(Machine(name, os.path.join(self._folder, name), self.time, self.upstream))
        return self.machines[-1]

    def play(self) -> Verdict:
        """Play it to its end, and judge."""
        with pytest.MonkeyPatch.context() as patch:
            interleave(patch, self._order, self._connections)
            return self._play()

    def _play(self) -> Verdict:
        try:
            for machine in self.machines:
                machine.pull()
                self._begin(machine)
            for _ in range(self._steps):
                step = self._choose()
                machine = self.random.choice(self.machines)
                self._tell(f"{machine.name} {step.__name__.strip('_')}")
                step(machine)
                self.verdict.steps += 1
                self._free_what_two_asked_for()
                check_lookups(self.machines, self.verdict)
            self._come_to_rest()
            self._tell("rest")
            judge(self.upstream, self.machines, self.verdict)
            for machine in self.machines:
                self._apply_a_file(machine)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
        return self.verdict

    def _tell(self, words: str) -> None:
        if len(self.verdict.story) < _LONGEST_STORY:
            self.verdict.story.append(f"{self.time.now_s:9.1f} {words}")

    def _choose(self) -> Step:
        steps: list[tuple[Step, int]] = [
            (self._create, 3),
            (self._update, 3),
            (self._change_blocks, 6),
            (self._delete, 1),
            (self._create_several, 1),
            (self._push, 7),
            (self._pull, 5),
            (self._refresh, 3),
            (self._wait, 5),
            (self._colleague_creates, 2),
            (self._decide, 1),
        ]
        more: dict[str, list[tuple[Step, int]]] = {
            "lost": [(self._push_and_die, 2)],
            "colleagues": [(self._colleague_changes, 4)],
            "clock": [(self._clock_jumps, 4)],
            "reboot": [(self._push_and_die, 2), (self._reboot, 3)],
            "restore": [(self._copy_edits, 3), (self._restore, 2)],
            "empty": [(self._empty_edits, 1)],
            "row": [(self._damage_a_row, 2)],
            "copied": [(self._copy_state, 2)],
            "reuse": [(self._delete, 3)],
            "renumbers": [(self._service_moves, 2)],
        }
        for name in sorted(self.names & set(more)):
            steps += more[name]
        return self.random.choices([step for step, _ in steps], [weight for _, weight in steps])[0]

    # What a person does

    def _fields(self) -> dict[str, Any]:
        country, city, latitude, longitude = self.random.choice(TOWNS)
        self._number += 1
        return {
            "country": country,
            "region": "",
            "city": city,
            "postalcode": self.random.choice(["", f"{10000 + self._number}", "10115"]),
            "latitude": round(latitude + self.random.choice([0.0, 0.0, 0.001, 0.05]), 6),
            "longitude": longitude,
            "dmacode": self.random.choice(["", "807"]),
            "areacode": self.random.choice(["", f"0{self._number}", "030"]),
        }

    def _block(self, machine: Machine) -> Ends:
        self._number += 1
        address = f"10.{self.machines.index(machine)}.{self._number % 250}.{self._number // 250}"
        return address, address

    def _pick(self, machine: Machine) -> Wish | None:
        wishes = list(machine.wishes.standing())
        return self.random.choice(wishes) if wishes else None

    def _create(self, machine: Machine) -> None:
        """Create a place; now and then one equal to another."""
        fields, other = self._fields(), self._pick(machine)
        if other is not None and self.random.random() < 0.15:
            fields = dict(other.asked)
        self._make(machine, [(fields, [self._block(machine) for _ in range(self.random.randint(0, 2))])])

    def _begin(self, machine: Machine) -> None:
        """Create the first places: by a file of sites, or by a program."""
        if self.random.random() < 0.5:
            self._bulk(machine, self._count)
            return
        planned = [(self._fields(), [self._block(machine)]) for _ in range(self._count)]
        sites = [
            Site(name=f"{machine.name} first {number}", fields=dict(fields), blocks=_parsed(blocks))
            for number, (fields, blocks) in enumerate(planned)
        ]
        applied = machine.attempt(lambda: apply_sites(machine.editor(), sites, file="sites.toml"))
        for site, (fields, blocks) in zip(sites, planned, strict=True):
            machine.wishes.create(site.name, self.time.now_s, applied.names[site.name], fields, blocks)

    def _create_several(self, machine: Machine) -> None:
        self._bulk(machine, self.random.randint(2, 4))

    def _bulk(self, machine: Machine, count: int) -> None:
        self._make(machine, [(self._fields(), [self._block(machine)]) for _ in range(count)])

    def _make(self, machine: Machine, planned: list[tuple[dict[str, Any], list[Ends]]]) -> None:
        def create() -> list[int]:
            handles = []
            with machine.editor().transaction() as editor:
                for fields, blocks in planned:
                    handles.append(editor.create(**fields))
                    for ends in blocks:
                        editor.add_block(handles[-1], *ends)
            return handles

        handles = machine.attempt(create)
        for handle, (fields, blocks) in zip(handles if isinstance(handles, list) else [], planned, strict=False):
            self._number += 1
            machine.wishes.create(f"{machine.name} site {self._number}", self.time.now_s, handle, fields, blocks)

    def _update(self, machine: Machine) -> None:
        wish = self._pick(machine)
        if wish is None:
            return
        fields = self._fields()
        name = self.random.choice(["postalcode", "areacode", "dmacode", "latitude", "city"])
        changes = {name: fields[name]}
        if self._done(machine, lambda: machine.editor().update(wish.handle, **changes)):
            machine.wishes.update(wish.name, self.time.now_s, **changes)

    def _delete(self, machine: Machine) -> None:
        wish = self._pick(machine)
        if wish is not None and self._done(machine, lambda: machine.editor().delete(wish.handle)):
            machine.wishes.delete(wish.name, self.time.now_s)

    def _done(self, machine: Machine, action: Callable[[], Any]) -> bool:
        return not isinstance(machine.attempt(action), Exception)

    def _change_blocks(self, machine: Machine) -> None:
        wish = self._pick(machine)
        if wish is None:
            return
        blocks = sorted(wish.now.blocks)
        how = self.random.choice(["add", "add", "remove", "remove", "replace", "move", "clear"] if blocks else ["add"])
        new = self._block(machine)
        old = self.random.choice(blocks) if blocks else new
        editor, handle = machine.editor(), wish.handle
        if how == "move":
            self._move(machine, wish, old)
            return
        action, after = {
            "add": (lambda: editor.add_block(handle, *new), {*blocks, new}),
            "remove": (lambda: editor.remove_block(handle, *old), {*blocks} - {old}),
            "replace": (lambda: editor.replace_block(handle, *old, *new), {*blocks, new} - {old}),
            "clear": (lambda: editor.clear_blocks(handle), set()),
        }[how]
        if self._done(machine, action):
            machine.wishes.give_blocks(wish.name, self.time.now_s, after)

    def _move(self, machine: Machine, wish: Wish, block: Ends) -> None:
        """Take a block from one place and give it to another, in one transaction."""
        other = self._pick(machine)
        if other is None or other is wish:
            return

        def move() -> None:
            with machine.editor().transaction() as editor:
                editor.remove_block(wish.handle, *block)
                editor.add_block(other.handle, *block)

        if self._done(machine, move):
            machine.wishes.give_blocks(wish.name, self.time.now_s, wish.now.blocks - {block})
            machine.wishes.give_blocks(other.name, self.time.now_s, other.now.blocks | {block})

    def _push(self, machine: Machine) -> None:
        machine.push()

    def _pull(self, machine: Machine) -> None:
        machine.pull()

    def _refresh(self, machine: Machine) -> None:
        machine.refresh()

    def _push_and_die(self, machine: Machine) -> None:
        machine.push(crash_in=self.random.randint(0, 20))

    def _wait(self, _machine: Machine) -> None:
        self.time.sleep(self.random.choice([1.0, 3.0, 10.0, SETTLE_S + 1, SETTLE_S + 1, 3600.0]))

    def _decide(self, machine: Machine) -> None:
        """The person decides about an edit that waits for a person."""
        rows = machine.attempt(lambda: [row for row in machine.editor().pending() if row.state in ("held", "rejected")])
        if not isinstance(rows, list) or not rows:
            return
        row = self.random.choice(rows)
        # Whoever drops an edit takes what comes; whoever retries wants what was asked for.
        if self.random.random() < 0.6:
            machine.attempt(lambda: machine.editor().retry(row.id))
            return
        numbers = machine.numbers()
        for wish in machine.wishes.all.values():
            if row.locid in (wish.handle, numbers.get(wish.handle)):
                wish.free = True
        machine.attempt(lambda: machine.editor().drop(row.id))

    # What colleagues do

    def _colleague_creates(self, _machine: Machine) -> None:
        self._number += 1
        address = f"172.16.{self._number % 250}.{self._number // 250}"
        fields = {**self._fields(), "areacode": f"c{self._number}"}  # a branch in the same town, never equal in all
        self.upstream.colleague_creates(fields, [(address, address)], who="colleague")

    def _service_moves(self, _machine: Machine) -> None:
        """The service moves once nothing is under way, and numbers anew; persons know what they were told of."""
        if len(self.upstream.places) > _FEW or self.names & _SHOW_BOTH:
            return
        self.time.sleep(SETTLE_S + 1)
        now = self.upstream.number_anew()
        for machine in self.machines:
            machine.told |= {now[number] for number in machine.told & now.keys()}

    def _colleague_changes(self, _machine: Machine) -> None:
        """A colleague changes, deletes, or gives a block to a place of ours."""
        places = self.upstream.places  # first: what is late lands when somebody looks
        ours = [locid for locid, who in self.upstream.makers.items() if who == CLIENT and locid in places]
        if not ours:
            return
        locid = self.random.choice(sorted(ours))
        place = self.upstream.places[locid]
        self._free(locid, place)
        how = self.random.choice(["delete", "fields", "block"])
        if how == "delete":
            self.upstream.colleague_changes(locid, None, who="colleague")
        elif how == "fields":
            fields = place.as_fields() | {"region": "XX", "areacode": f"c{self._number}"}
            self.upstream.colleague_changes(locid, Place(tuple(fields.values()), place.blocks), who="colleague")
        else:
            self._number += 1
            address = f"172.17.{self._number % 250}.{self._number // 250}"
            after = Place(place.fields, place.blocks | {(address, address)})
            self.upstream.colleague_changes(locid, after, who="colleague")

    def _free(self, locid: int, place: Place) -> None:
        """A colleague has a hand in one of our places: it is known by its number, or by what it looks like alone."""
        for machine in self.machines:
            numbers = machine.numbers()
            for wish in machine.wishes.all.values():
                wish.free = wish.free or numbers.get(wish.handle) == locid
        self._free_all_that_look(self.machines[0].wishes.looks(place.as_fields()))

    def _free_what_two_asked_for(self) -> None:
        """Two persons asked for equal geolocations: while an outcome is unknown, nobody can tell which is whose."""
        asked: dict[Looks, str] = {}
        for machine in self.machines:
            for wish in machine.wishes.all.values():
                for looks in [version.looks for _, version in wish.versions if version.looks is not None]:
                    if asked.setdefault(looks, machine.name) != machine.name:
                        self._free_all_that_look(looks)

    def _free_all_that_look(self, looks: Looks) -> None:
        for machine in self.machines:
            for wish in machine.wishes.all.values():
                wish.free = wish.free or any(version.looks == looks for _, version in wish.versions)

    # Clocks and files

    def _clock_jumps(self, machine: Machine) -> None:
        size_s = self.random.choice([1.0, 20.0, 60.0, 3600.0, 2 * 365 * 86400.0])
        machine.wall_s += size_s * self.random.choice([1, -1])

    def _reboot(self, machine: Machine) -> None:
        machine.reboot()

    def _copy_edits(self, machine: Machine) -> None:
        machine.keep_a_copy()

    def _restore(self, machine: Machine) -> None:
        """Put a backup back, by hand: one that a push made, or a copy of the person's own."""
        found = [*machine.backups(), *machine.copies]
        if found:
            moment_s, content = self.random.choice(found)
            machine.wishes.put_back(moment_s)
            machine.put_back_by_hand(content)

    def _empty_edits(self, machine: Machine) -> None:
        """The file of edits is cut to nothing, or goes."""
        if not os.path.exists(machine.edits_path):
            return
        machine.wishes.put_back(0.0)
        if self.random.random() < 0.5:
            machine.put_back_by_hand(b"")
        else:
            os.remove(machine.edits_path)

    def _damage_a_row(self, machine: Machine) -> None:
        """One value of one row becomes something else."""
        if not os.path.exists(machine.edits_path):
            return
        table, column = self.random.choice(
            [
                *(("outbox", name) for name in ("intent", "state", "locid", "concluded", "stored")),
                *(("outbox", name) for name in ("attempts", "created_at", "acknowledged_at")),
                *(("places", name) for name in ("number", "lost", "baseline", "hold", "refused", "before", "seen")),
                *(("requests", name) for name in ("place", "request", "over")),
                ("baselines", "locids"),
                ("settings", "value"),
                ("counters", "value"),
                ("history", "after"),
            ]
        )
        value = self.random.choice(["", "{", "null", "[]", "{}", '{"fields": 3}', "nonsense", -1, 2**40, 1.5, b"\xff"])
        with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(machine.edits_path)) as database:
            rows = [row[0] for row in database.execute(f"SELECT rowid FROM {table}")]
            if rows:
                database.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (value, self.random.choice(rows)))
                database.commit()
                machine.damaged = True
                for wish in machine.wishes.all.values():
                    wish.free = True

    def _copy_state(self, machine: Machine) -> None:
        """The whole state directory is copied to another machine, where another person goes on."""
        if len(self.machines) > 1 or not os.path.exists(machine.edits_path):
            return
        other = self._add_machine()
        other.take_copy_of(machine)
        other.copied = machine.copied = True
        for wish in machine.wishes.all.values():
            wish.free = True

    # The end

    def _come_to_rest(self) -> None:
        """Nothing goes wrong any more: whatever can end does, and what cannot waits for a person."""
        self.upstream.dials = self.dials.quiet()
        self.time.sleep(2 * SETTLE_S)
        self.upstream.settle()
        self.time.sleep(2 * SETTLE_S)
        for _ in range(_PATIENCE):
            waiting = False
            for machine in self.machines:
                report = machine.push()
                if report is None or isinstance(report, Exception):
                    machine.follow_the_advice()
                    waiting = True
                else:
                    waiting = waiting or bool(report.queued or report.unknown)
            self.time.sleep(SETTLE_S + 31)
            if not waiting:
                break
        for _ in range(2):
            for machine in self.machines:
                machine.pull()
                machine.push()
            self.time.sleep(SETTLE_S + 31)
        for machine in self.machines:
            machine.pull()

    def _apply_a_file(self, machine: Machine) -> None:
        """A program that applies the same file every night comes to an end of its writes."""
        if machine.damaged or machine.copied:
            return
        seen, numbers = machine.seen(), machine.numbers()
        sites = []
        for wish in machine.wishes.standing():
            place = seen.get(numbers.get(wish.handle, 0))
            if not wish.free and len(wish.allowed) == 1 and place is not None:
                sites.append(Site(name=wish.name, fields=dict(wish.asked), blocks=_parsed(wish.now.blocks)))
        for night in range(3):
            before = len(self.upstream.log)
            applied = machine.attempt(lambda: apply_sites(machine.editor(), sites, file="sites.toml"))
            if isinstance(applied, EditError | Exception):
                return
            machine.push()
            self.time.sleep(SETTLE_S + 31)
            machine.pull()
            if night == 2:
                self.verdict.busy += len(self.upstream.log) - before


def _parsed(blocks: Iterable[Ends]) -> tuple[IPBlock, ...]:
    return tuple(sorted(IPBlock.from_ends(*ends) for ends in blocks))
