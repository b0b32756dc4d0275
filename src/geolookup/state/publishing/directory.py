"""The state directory: what is published there and held, its locks and its edits. `run.Run` is who changes more."""

import os
from contextlib import AbstractContextManager
from typing import Any

from geolookup.state.base.candidate import Candidate, read_report
from geolookup.state.base.current import Current, Published, cache_path, generation_path
from geolookup.state.base.marks import Begun
from geolookup.state.base.parts import SERVICE
from geolookup.state.base.sqlite import RUN_WAIT_S
from geolookup.state.edits.layer import Laid
from geolookup.state.edits.local import LocalEdits
from geolookup.state.edits.outbox.outbox import UPSTREAM_URL
from geolookup.state.edits.store import Edits
from geolookup.state.generations.cache import Cache
from geolookup.state.generations.held import Held
from geolookup.state.generations.served import (
    current_or_none,
    named_current,
    open_served,
    required_current,
    served_current,
)
from geolookup.state.publishing.locks import PUBLISH_WAIT_S, Locks
from geolookup.state.publishing.publish import Publish, publishing
from geolookup.state.publishing.rollback import Keeping

#: Below this much free space a sync is not begun; above, the served generation's own size decides.
_LEAST_SPACE_BYTES = 16 << 20
#: What a block of each family takes on disk while its index is built.
_SCRATCH_BYTES = {"segments_v4": 12, "segments_v6": 36}


class StateDirectory:
    """One state directory. Opening it touches nothing; the first writer creates what is missing.

    ``locks`` are its two locks; ``edits`` is its edits.db, and ``local`` what is asked of that; ``holding`` is what
    waits for a person, and ``keeping`` decides which generation is served and which are kept. ``keep_generations`` is
    how many a publish keeps, ``run_wait_s`` how long a run waits for another one to end.
    """

    def __init__(self, home: str, *, keep_generations: int = 7, run_wait_s: float = 0.0) -> None:
        self.home = home
        self.keep_generations = keep_generations
        self.locks = Locks(home, run_wait_s=run_wait_s)
        self.edits = Edits(home)
        self.local = LocalEdits(self.edits)
        self.holding = Held(home)
        self.keeping = Keeping(home, self.locks, self.edits, self.local, keep_generations=keep_generations)

    def path(self, *parts: str) -> str:
        """A path inside the directory."""
        return os.path.join(self.home, *parts)

    def open(self) -> Published:
        """Open what is published, or the newest whole generation if CURRENT or what it names is damaged.

        :raises NoStateError: if nothing has been published
        :raises StateDamagedError: if nothing whole is left
        :raises StateTooNewError: if a newer release published it
        """
        return open_served(self.home)

    def current(self) -> Current | None:
        """The published state, or the one recovery falls back to; None if nothing was ever published.

        :raises StateTooNewError: if a newer release wrote CURRENT
        """
        return served_current(self.home)

    def current_or_none(self) -> Current | None:
        """`current` for a publish: if nothing whole is left, None, and what comes next is the first again."""
        return current_or_none(self.home)

    def require_current(self) -> Current:
        """The published state.

        :raises NoStateError: if nothing is
        """
        return required_current(self.home)

    def publishing(
        self, *, whole: Current | None = None, wait_s: float = PUBLISH_WAIT_S
    ) -> AbstractContextManager[Publish]:
        """The publish lock, and a publish under way; ``whole`` as for `publish.publishing`.

        :raises StateBusyError: if another process has been publishing for ten seconds, or ``wait_s``
        :raises StateTooNewError: if a newer release wrote CURRENT
        """
        return publishing(self.home, self.locks, self.local, whole=whole, wait_s=wait_s)

    def cache(self, generation: int) -> Cache:
        """A generation's cache.db."""
        return Cache(cache_path(self.home, generation))

    def report(self, generation: int) -> dict[str, Any]:
        """The content of a generation's report.json.

        :raises StateDamagedError: if it is not what was written
        """
        return read_report(generation_path(self.home, generation))

    def space_needed(self, current: Current | None) -> int:
        """The free bytes that a sync asks for before it begins, by the size of what is served."""
        if current is None:
            return _LEAST_SPACE_BYTES
        published = current.published
        rows = published.get("rows", {})
        # The blocks stand in temporary files, and then the index's sections, before the index itself is written.
        scratch = sum(size * int(rows.get(name, 0)) for name, size in _SCRATCH_BYTES.items())
        sizes = {name: int(record["bytes"]) for name, record in published["files"].items()}
        scratch += sizes["index"] if scratch else 0
        return max(_LEAST_SPACE_BYTES, int(1.2 * (sum(sizes.values()) + scratch)))

    def held(self) -> Candidate | None:
        """The held candidate of the service, else of another source; None if there is none that can be read.

        :raises StateTooNewError: if a newer release holds one
        """
        found = self.holding.candidates()
        return found.get(SERVICE) or next(iter(found.values()), None)

    def custom_of(self, current: Current | None) -> str | None:
        """The cache.db that the custom part of what is served comes from; None if it comes from no service."""
        if current is None or not (current.published.get("url") or current.published.get("custom")):
            return None
        return self.cache(current.generation).path

    def republish(self, **changes: Any) -> Current:
        """Publish again with a freshly compiled overlay; ``changes`` are members of `Current`.

        :raises NoStateError: if nothing has been published
        """
        with self.publishing() as publish:
            return publish.again(keep_generations=self.keep_generations, **changes)

    def check_edits(self, current: Current | None, *, sealed: bool = False) -> None:
        """Have edits.db checked against ``current``, what is served; ``sealed`` as for `Edits.check`.

        :raises EditsDamagedError: if it is damaged, gone, or lacks what was published or pushed from it
        """
        self.edits.check(current, sealed=sealed)

    def custom_layer(self, generation: int, record: dict[str, Any], *, wait_s: float = RUN_WAIT_S) -> dict[int, Laid]:
        """The custom layer over a kept generation, with the local edits laid over it, as lookups see it.

        :raises StateBusyError: if another process holds edits.db exclusively for longer than ``wait_s`` seconds
        """
        return self.local.laid_over(self.cache(generation).custom(), Begun.of(record), wait_s=wait_s)[0]

    def named_current(self) -> Current | None:
        """CURRENT, without a look at the files that it names; if it is damaged itself, `current_or_none`.

        :raises StateTooNewError: if a newer release wrote CURRENT
        """
        return named_current(self.home)

    def service_url(self) -> str | None:
        """The address of the service that what is served came from; None if there is none in it."""
        current = self.named_current()
        return None if current is None else current.published.get("url")

    def has_moved(self, url: str) -> bool:
        """True if what is served came from a service at another address than this: its numbers may be others here."""
        return self.service_url() not in (None, url)

    def upstream_url(self) -> str | None:
        """The upstream that this state belongs to: the one pushed to, else the one pulled from; None without either."""
        return self.local.setting(UPSTREAM_URL) or self.service_url()

    def remember_upstream(self, url: str) -> None:
        """Note that this state belongs to an upstream."""
        with self.edits.ledger() as ledger:
            ledger.at_service(url)
            ledger.outbox.keep_setting(UPSTREAM_URL, url)
