"""Marks: what happened before what, and how long ago, even if the wall clock jumps or files go back.

A mark is a counter that only rises, which orders everything, and a moment of the clock that counts from the machine's
start and never jumps, which says how much time has passed within one boot. `machine_id` tells a state directory that
was copied from another machine.
"""

import functools
import hashlib
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from geolookup.state.base import clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A moment: its number, the boot in which it was, and the seconds since that boot began."""

    counter: int
    boot: str
    boot_s: float

    @classmethod
    def now(cls, counter: int) -> Self:
        """This moment."""
        return cls(counter=counter, boot=clock.boot_id(), boot_s=round(clock.boot_s(), 3))

    @classmethod
    def of(cls, found: Any) -> Self:
        """The mark that `as_json` gave.

        :raises ValueError: if it is not what was given
        """
        match found:
            case [int(counter), str(boot), int() | float() as boot_s] if not isinstance(counter, bool) and counter >= 0:
                return cls(counter=counter, boot=boot, boot_s=float(boot_s))
        raise ValueError("a mark is not what was written")

    def as_json(self) -> list[Any]:
        """The mark as an object for JSON."""
        return [self.counter, self.boot, self.boot_s]

    def age_s(self, now: "Mark") -> float:
        """The seconds from this mark to ``now``, at the least: in another boot, the age of that boot."""
        # A boot without a name may be the same or another: in the latter case the difference is too small, at worst.
        same = now.boot == self.boot and now.boot_s >= self.boot_s
        return now.boot_s - self.boot_s if same else now.boot_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """When a complete list was asked for: its mark, committed before, and the moment as `clock.now_text` writes it."""

    mark: Mark
    at: str

    @property
    def begun(self) -> "Begun":
        """The same as a generation's record has it."""
        return Begun(counter=self.mark.counter, at=self.at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """When the complete list of a generation began: the counter of its mark, and the moment by the wall clock.

    The latter alone is known of a generation from before there were marks, and counter 0 of the embedded default.
    """

    counter: int
    at: str

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """When the list of a generation began, by its record."""
        found = record.get("mark")
        return cls(counter=0 if found is None else Mark.of(found).counter, at=str(record.get("began_at", "")))


@functools.lru_cache(maxsize=1024)
def is_conclusive(listed: Mark, written: Mark, settle_s: float) -> bool:
    """True if a complete list says for sure what became of a write.

    :param listed: the mark committed before the list's first byte
    :param written: the mark committed at the end of the write's attempt
    :param settle_s: how long the service may still be at work, or its replicas behind
    """
    return listed.counter > written.counter and written.age_s(listed) >= settle_s


def machine_id() -> str:
    """A text that is the same after each start of this machine, and another one elsewhere; a container's may change."""
    found = ""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            with open(path, encoding="ascii") as file:
                found = file.read(256).strip()
        except (OSError, UnicodeDecodeError):
            continue
        if found:
            break
    # The name too: images of machines are copied with their identifier. A digest, since neither is anybody's business.
    return hashlib.sha256(f"{found} {platform.node()}".encode()).hexdigest()[:16]
