"""A service with dials: it speaks HTTP, remembers every moment, and logs what it was asked to do."""

import hashlib
import json
import math
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any
from urllib.parse import parse_qs, urlsplit

from geolookup.model.types import FIELD_NAMES, IPBlock
from tests.dials.dials import Dials

Ends = tuple[str, str]

#: Who a write is from, where it came over HTTP; colleagues write by the methods of `Upstream`.
CLIENT = "client"

_DEFAULT = {
    "locid": 1,
    **dict.fromkeys(("country", "region", "city", "postalcode", "dmacode", "areacode"), ""),
    **dict.fromkeys(("latitude", "longitude")),
    "ipblocks": [{"startip": "0.0.0.0", "endip": "255.255.255.255", "startipnum": 0, "endipnum": 2**32 - 1}],
}
#: Below this are the numbers of what was gone when all others got new ones.
_GONE = -100_000
_FILTERS = ("country", "region", "city", "postalcode")


class LostError(Exception):
    """The connection broke: no answer."""


@dataclass(frozen=True, slots=True)
class Place:
    """A custom geolocation: its eight fields in their order, and its blocks."""

    fields: tuple[Any, ...]
    blocks: frozenset[Ends] = frozenset()

    def as_fields(self) -> dict[str, Any]:
        """The fields by name."""
        return dict(zip(FIELD_NAMES, self.fields, strict=True))


def changed(place: Place, *more: str, **fields: object) -> Place:
    """A place with other fields and more blocks of one address each."""
    blocks = place.blocks | {(block, block) for block in more}
    return Place(tuple((place.as_fields() | fields).values()), blocks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One application of a write: ``who`` sent it, ``what`` it was, to which number, with which key."""

    at_s: float
    who: str
    what: str
    locid: int
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """An answer before it is put on a wire."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Late:
    due_s: float
    apply: Callable[[], Any]


class Upstream:
    """The service. ``now`` is its own clock in seconds, which never jumps.

    ``faults`` say what the next writes meet, whatever the dials are: "" nothing, "before", "after" and "error" a lost
    answer, "conflict" 409 and "not found" 404 after the work, "as -7" an answer that names this number after the work,
    "busy" 429 before it, "busy after" 429 after it, "later" a yes at once and the work at `settle`, "after later" a
    lost answer and the work at `settle`, "missing" 404 of a replica that is behind, "refused" 422 before the work,
    "refused after" 422 after it.
    ``log`` has every write that was applied, ``lists`` how many complete lists were answered, ``requests`` how many
    requests came.
    `handle` is the whole of its interface for clients; colleagues act by the methods named so.
    """

    def __init__(self, dials: Dials, random: Random, now: Callable[[], float]) -> None:
        self.dials = dials
        self.faults: list[str] = []
        self.log: list[Write] = []
        self.lists = 0
        self.requests = 0
        #: If given, lists show what was there at this moment, whatever the dials are.
        self.frozen_s: float | None = None
        #: If given, the ETag of every list, whatever is there.
        self.etag: str | None = None
        #: What a list makes of each of its rows.
        self.spoil: Callable[[dict[str, Any]], dict[str, Any]] = lambda row: row
        #: For each number, who made its present geolocation.
        self.makers: dict[int, str] = {}
        self._random, self._now = random, now
        self._places: dict[int, Place] = {}
        #: (moment, what was there from then on), oldest first.
        self._moments: list[tuple[float, dict[int, Place]]] = [(-1e9, {})]
        self._keys: dict[str, int] = {}
        self._late: list[_Late] = []
        self._last = 0
        self._lock = threading.RLock()

    # What anybody may look at in a test

    @property
    def places(self) -> dict[int, Place]:
        """What is there now."""
        with self._lock:
            self._land()
            return dict(self._places)

    def by_key(self) -> dict[str, list[int]]:
        """For each key, the numbers of the geolocations that creates with it made and that are there, oldest first."""
        found: dict[str, list[int]] = {}
        alive = self.places
        made: dict[int, str | None] = {}
        for write in self.log:
            if write.what == "create":
                made[write.locid] = write.key
        for locid, key in made.items():
            if key is not None and locid in alive:
                found.setdefault(key, []).append(locid)
        return found

    def settle(self) -> None:
        """Apply everything that is still under way."""
        with self._lock:
            self._land(everything=True)

    def fail_over(self, places: dict[int, Place]) -> None:
        """Go on as another machine of the service, which has these places and knows of nothing since."""
        with self._lock:
            self._places, self._late = dict(places), []
            self._changed()

    def number_anew(self) -> dict[int, int]:
        """Go on as a machine of the service that was filled anew: the new number of each geolocation by the old.

        The log and the keys have the new numbers then, too; what is gone has numbers of its own.
        """
        with self._lock:
            self._land(everything=True)
            old = sorted(self._places)
            fresh = [self._last - 1 - at for at in range(len(old))]
            now = dict(zip(old, self._random.choice([self._random.sample(old, len(old)), fresh]), strict=True))
            self._last = min([self._last, *now.values()])
            gone = {write.locid for write in self.log if write.locid > _GONE} - {*old}
            least = min([_GONE, *(write.locid for write in self.log)])
            all_ = now | {locid: least - 1 - at for at, locid in enumerate(sorted(gone))}
            self._places = {all_[locid]: place for locid, place in self._places.items()}
            self.makers = {all_[locid]: self.makers[locid] for locid in old}
            self._keys = {key: all_.get(locid, locid) for key, locid in self._keys.items()}
            self.log = [replace(write, locid=all_.get(write.locid, write.locid)) for write in self.log]
            self._changed()
            return now

    # What colleagues do

    def colleague_creates(self, fields: Mapping[str, Any], blocks: Iterable[Ends] = (), *, who: str) -> int:
        """A colleague's geolocation; its number."""
        with self._lock:
            self._land()
            locid = self._create(fields, None, who)
            self._places[locid] = Place(self._places[locid].fields, frozenset(blocks))
            self._changed()
            return locid

    def colleague_changes(self, locid: int, place: Place | None, *, who: str) -> None:
        """A colleague changes a geolocation, or deletes it."""
        with self._lock:
            self._land()
            before = self._places[locid]
            if place is None:
                del self._places[locid]
            else:
                self._places[locid] = place
            what = "block" if place is not None and place.fields == before.fields else "change"
            self.log.append(Write(at_s=self._now(), who=who, what=what, locid=locid))
            self._changed()

    # HTTP

    def handle(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Response:
        """Answer a request.

        :raises LostError: where there is no answer
        """
        with self._lock:
            self.requests += 1
            self._land()
            parts = urlsplit(target)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            if method == "GET":
                return self._list(query, headers.get("if-none-match"))
            return self._write(method, parts.path, query, headers.get("idempotency-key"), json.loads(body or b"null"))

    def _list(self, query: Mapping[str, str], etag: str | None) -> Response:
        filters = {name: query[name].casefold() for name in _FILTERS if query.get(name)}
        rows = [_DEFAULT, *(_row(locid, place) for locid, place in self._seen().items())]
        everything = len(rows)
        rows = [row for row in rows if all(str(row[name]).casefold() == text for name, text in filters.items())]
        if not filters and "top" not in query:
            self.lists += 1
        declared = everything if self.dials.counts_all else len(rows)
        count = (("x-total-count", str(declared)),) if self.dials.cap is None else ()
        rows = [self.spoil(row) for row in rows[: self.dials.cap if "top" not in query else None]]
        found = json.dumps(rows, ensure_ascii=False).encode()
        now = f'"{hashlib.sha256(found).hexdigest()[:16]}"'
        now = self.etag or now
        if not filters and etag == now:
            return Response(status=304, body=b"", headers=(("etag", now),))
        return Response(status=200, body=found, headers=(("etag", now), *count))

    def _seen(self) -> dict[int, Place]:
        """What a list shows: a replica's, or rows of several moments."""
        if self.frozen_s is not None:
            return self._at(self.frozen_s)
        behind = self._at(self._now() - self.dials.lag_s)
        if not self.dials.pieces_s:
            return behind
        older = self._at(self._now() - self.dials.lag_s - self.dials.pieces_s)
        mixed: dict[int, Place] = {}
        for locid in sorted({*behind, *older}, reverse=True):
            place = self._random.choice((behind, older)).get(locid)
            if place is not None:
                mixed[locid] = place
        return mixed

    def _at(self, moment: float) -> dict[int, Place]:
        return next(places for at, places in reversed(self._moments) if at <= moment)

    def _write(self, method: str, path: str, query: Mapping[str, str], key: str | None, body: Any) -> Response:
        locid = int(query.get("locid", "0"))
        on_blocks = path.endswith("/ipblocks")
        what = {
            ("POST", False): "create",
            ("POST", True): "create_block",
            ("PUT", False): "update",
            ("PUT", True): "replace_block",
            ("DELETE", False): "delete",
            ("DELETE", True): "delete_blocks",
        }[method, on_blocks]

        def apply() -> Response:
            return self._apply(what, locid, key, body)

        if self.faults:
            return self._fail(self.faults.pop(0), apply)
        if self._random.random() < self.dials.lost:
            return self._lose(apply)
        if self.dials.throttled and self._random.random() < self.dials.throttled:
            if self._random.random() < 0.5:
                apply()
            return _busy(self._random.choice([1, 3600]))
        if what != "create" and self._behind(locid):
            return _problem(404, "unknown-geolocation")
        answer = apply()
        if answer.status >= 400:
            return answer
        if self.dials.refuses and self._random.random() < self.dials.refuses:
            return _problem(422, "refused")
        if what == "create" and self._random.random() < self.dials.twice:
            answer = apply()
        if what in ("create", "create_block") and self._random.random() < self.dials.conflict:
            return _problem(409, "conflict" if what == "create" else "block-exists")
        if what == "create" and self._random.random() < self.dials.lie:
            return _answer(201, {"locid": self._wrong(json.loads(answer.body)["locid"])})
        return answer

    def _behind(self, locid: int) -> bool:
        """Whether a look before the write misses a geolocation, because it asks a replica."""
        lag_s = self.dials.lag_s
        return bool(lag_s) and locid not in self._at(self._now() - lag_s) and self._random.random() < 0.3

    def _wrong(self, right: int) -> int:
        others = [locid for locid in self._places if locid != right]
        return self._random.choice([*others, min([right, *others]) - 7])

    def _fail(self, how: str, apply: Callable[[], Response]) -> Response:
        if how == "busy":
            return _busy(3600)
        if how in ("later", "after later"):
            self._late.append(_Late(due_s=math.inf, apply=apply))  # until `settle`
            if how == "after later":
                raise LostError
            return _answer(200, {"totalMatchingBlocks": 0, "customerDefinedMatchingBlocks": 0})
        if how == "refused":
            return _problem(422, "refused")
        if how == "missing":
            return _problem(404, "unknown-geolocation")
        answer = apply() if how != "before" else None
        if how == "error":
            return _problem(500, "oops")
        if how == "busy after":
            return _busy(3600)
        if how == "refused after":
            return _problem(422, "refused")
        if how == "denied after":
            return _problem(401, "unauthorized")
        if how == "conflict":
            return _problem(409, "conflict")
        if how == "not found":
            return _problem(404, "not-found")
        if how.startswith("as "):
            return _answer(201, {"locid": int(how.removeprefix("as "))})
        if answer is None or how == "after":
            raise LostError
        return answer

    def _lose(self, apply: Callable[[], Response]) -> Response:
        how = self._random.choice(["before", "after", "error", "late"])
        if how == "late" and self.dials.late_s:
            due_s = self._now() + self._random.uniform(0.1, self.dials.late_s)
            self._late.append(_Late(due_s=due_s, apply=apply))
            raise LostError
        if how == "before":
            raise LostError
        apply()
        if how == "error":
            return _problem(500, "oops")
        raise LostError

    def _land(self, *, everything: bool = False) -> None:
        due = sorted((late for late in self._late if everything or late.due_s <= self._now()), key=lambda e: e.due_s)
        self._late = [late for late in self._late if late not in due]
        for late in due:
            late.apply()

    def _apply(self, what: str, locid: int, key: str | None, body: Any) -> Response:
        if what == "create":
            if self.dials.keys and key in self._keys:
                return _answer(201, {"locid": self._keys[key]})
            locid = self._create(body, key, CLIENT)
            self._changed()
            return _answer(201, {"locid": locid})
        place = self._places.get(locid)
        if place is None:
            return _problem(404, "unknown-geolocation")
        answer: dict[str, Any] = {"locid": locid}
        if what == "update":
            self._places[locid] = Place(_tuple(self.dials.stored(body)), place.blocks)
        elif what == "delete":
            del self._places[locid]
        elif what == "delete_blocks":
            count = len(place.blocks)
            self._places[locid] = Place(place.fields)
            answer = {"totalMatchingBlocks": count, "customerDefinedMatchingBlocks": count}
        else:
            if (refusal := self._put_block(what, locid, place, body)) is not None:
                return refusal
        self.log.append(Write(at_s=self._now(), who=CLIENT, what=what, locid=locid, key=key))
        self._changed()
        return _answer(201 if what == "create_block" else 200, answer)

    def _put_block(self, what: str, locid: int, place: Place, body: Any) -> Response | None:
        old = (body["startip"], body["endip"])
        new = old if what == "create_block" else (body["newstartip"], body["newendip"])
        if what == "replace_block" and old not in place.blocks:
            return _problem(404, "unknown-block")
        if new in place.blocks and (what == "create_block" or new != old):
            return _problem(409, "block-exists")
        others = {} if self.dials.shares else {**self._places, locid: Place(())}
        if any(new in other.blocks for other in others.values()):
            return _problem(409, "block-taken")
        self._places[locid] = Place(place.fields, place.blocks - {old} | {new})
        return None

    def _create(self, fields: Mapping[str, Any], key: str | None, who: str) -> int:
        if self.dials.reuse:
            locid = next(number for number in range(-1, -10_000, -1) if number not in self._places)
        else:
            locid = self._last - 1
        self._last = min(self._last, locid)
        self._places[locid] = Place(_tuple(self.dials.stored(fields)))
        self.makers[locid] = who
        if key is not None:
            self._keys[key] = locid
        self.log.append(Write(at_s=self._now(), who=who, what="create", locid=locid, key=key))
        return locid

    def _changed(self) -> None:
        self._moments.append((self._now(), dict(self._places)))
        oldest = self._now() - 3600.0
        while len(self._moments) > 1 and self._moments[1][0] < oldest:
            del self._moments[0]


def _tuple(fields: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(fields[name] for name in FIELD_NAMES)


def _row(locid: int, place: Place) -> dict[str, Any]:
    blocks = []
    for startip, endip in sorted(place.blocks):
        block = IPBlock.from_ends(startip, endip)
        blocks.append({"startip": startip, "endip": endip, "startipnum": block.first, "endipnum": block.last})
    return {"locid": locid, **place.as_fields(), "ipblocks": blocks}


def _busy(seconds: int) -> Response:
    return Response(status=429, body=b"", headers=(("retry-after", str(seconds)),))


def _answer(status: int, body: dict[str, Any]) -> Response:
    return Response(status=status, body=json.dumps(body).encode())


def _problem(status: int, kind: str) -> Response:
    body = json.dumps({"type": f"https://example.com/problems/{kind}", "title": kind, "status": status}).encode()
    return Response(status=status, body=body, headers=(("content-type", "application/problem+json"),))
