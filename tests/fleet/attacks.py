"""Attacks by a server, a CDN or a bucket that somebody else writes to: changes of what is served, alone or together.

``python -m tests.fleet.attacks --tries 1000`` plays so many of each kind, and prints what came of them.
"""

import argparse
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from geolookup.model.errors import GeoLookupError
from tests.fleet.served import Answer, Builder, Reader, Served, fingerprint, serving

Files = dict[str, bytes]
Change = Callable[[str, bytes | None], bytes | None]

#: So much more comes than is signed: above every bound.
_ENDLESS_BYTES = 80 << 10


@dataclass
class History:
    """What a fleet served after each of its publishes, and what another fleet serves."""

    publishes: list[Files]
    other: Files

    def alike(self, name: str) -> list[bytes]:
        """What was ever served under this name, or under one of the same kind."""
        kind = kind_of(name)
        found = [data for files in (*self.publishes, self.other) for own, data in files.items() if kind_of(own) == kind]
        return list(dict.fromkeys(found))


def kind_of(name: str) -> str:
    """The kind of a file on the server."""
    if name.startswith("blobs/"):
        return "manifest" if name.endswith(".manifest") else "blob"
    return re.sub(r"\d+\.", "", name)


def taken(www: Path) -> Files:
    """The files of a folder."""
    return {str(path.relative_to(www)): path.read_bytes() for path in www.rglob("*") if path.is_file()}


def _changed(rng: random.Random, _history: History) -> Change:
    def change(_name: str, data: bytes | None) -> bytes | None:
        if not data:
            return data
        found = bytearray(data)
        for _ in range(rng.choice((1, 1, 3, 50))):
            found[rng.randrange(len(found))] ^= 1 << rng.randrange(8)
        return bytes(found)

    return change


def _cut(rng: random.Random, _history: History) -> Change:
    return lambda _name, data: data and data[: rng.randrange(len(data))]


def _endless(rng: random.Random, _history: History) -> Change:
    return lambda _name, data: (data or b"") + rng.randbytes(64) * (_ENDLESS_BYTES // 64)


def _swapped(rng: random.Random, history: History) -> Change:
    return lambda name, data: rng.choice(history.alike(name) or [data or b""])


def _missing(_rng: random.Random, _history: History) -> Change:
    return lambda _name, _data: None


def _older(rng: random.Random, history: History) -> Change:
    files = rng.choice(history.publishes[:-1])
    return lambda name, data: files.get(name, data)


def _of_another_fleet(_rng: random.Random, history: History) -> Change:
    return lambda name, data: history.other.get(name, data)


def _json_with_other_numbers(rng: random.Random, _history: History) -> Change:
    def change(_name: str, data: bytes | None) -> bytes | None:
        number = rng.choice((0, 1, 2, 99, 2**31 - 1, 2**53, -1))
        return data and re.sub(rb'("(?:version|length|threshold)": ?)\d+', rb"\g<1>%d" % number, data)

    return change


def _unsigned(_rng: random.Random, _history: History) -> Change:
    return lambda _name, data: data and re.sub(rb'("sig": ?")[0-9a-f]+', rb"\g<1>" + b"00" * 64, data)


KINDS: dict[str, Callable[[random.Random, History], Change]] = {
    "changed": _changed,
    "cut": _cut,
    "endless": _endless,
    "swapped": _swapped,
    "missing": _missing,
    "older": _older,
    "another fleet": _of_another_fleet,
    "other numbers": _json_with_other_numbers,
    "unsigned": _unsigned,
}
_TARGETS = ("timestamp.json", "snapshot.json", "targets.json", "root.json", "manifest", "blob")


def attack(kind: str, rng: random.Random, history: History) -> Answer:
    """One attack of a kind, ``combined`` for two to four of them: on all files, or on some kinds of them."""
    kinds = [rng.choice(list(KINDS)) for _ in range(rng.randint(2, 4))] if kind == "combined" else [kind]
    steps = []
    for each in kinds:
        on = None if rng.random() < 0.3 else set(rng.sample(_TARGETS, rng.randint(1, 3)))
        steps.append((on, KINDS[each](rng, history)))

    def change(name: str, data: bytes | None) -> bytes | None:
        for on, step in steps:
            if on is None or kind_of(name).removeprefix("metadata/") in on:
                data = step(name, data)
        return data

    return change


@dataclass
class Tries:
    """The outcomes of many attacks: refused, of no effect (what is right was taken), and accepted."""

    refused: int = 0
    harmless: int = 0
    accepted: list[str] = field(default_factory=list)
    rules: dict[str, int] = field(default_factory=dict)


class Battlefield:
    """A reader that stays at the third of five publishes, and a server that is attacked."""

    def __init__(self, folder: Path, served: Served, builder: Builder) -> None:
        self._served = served
        www = served.folder
        publishes, prints = [], []
        other = Builder(folder / "other", folder / "other-www")
        other.edit("10.9.0.0/24", "Falsch")
        other.publish()
        self.reader = Reader(folder, "attacked")
        for number in range(5):
            builder.night(number)
            builder.edit(f"10.2.{number}.0/24", f"Hus {number}")
            builder.publish()
            publishes.append(taken(www))
            prints.append(fingerprint(builder.home))
            if number == 0:
                self.reader.join(served.url, builder.root)
            if number == 2:
                self.reader.sync()
        self.history = History(publishes, taken(folder / "other-www"))
        self.held, self.newest = prints[2], prints[-1]
        #: What was right after what the reader has: that a newer one is kept from it can be told only by its end.
        self.right = prints[2:]
        self._kept = folder / "kept"
        shutil.copytree(self.reader.home, self._kept, symlinks=True)

    def play(self, kind: str, tries: int, seed: int) -> Tries:
        """Attack so many times, and say what came of it."""
        found = Tries()
        for number in range(tries):
            rng = random.Random(f"{kind} {seed} {number}")
            self._served.change = attack(kind, rng, self.history)
            try:
                self.reader.sync()
            except GeoLookupError as error:
                found.refused += 1
                rule = str(error).partition("127.0.0.1:")[2].partition(": ")[2].partition(": ")[0][:40]
                found.rules[rule] = found.rules.get(rule, 0) + 1
                if fingerprint(self.reader.home) != self.held:
                    found.accepted.append(f"{kind} {seed} {number}: {error}")
            else:
                found.harmless += 1
                if fingerprint(self.reader.home) not in self.right:
                    found.accepted.append(f"{kind} {seed} {number}")
            self._served.change = None
            if rng.random() < 0.7 or fingerprint(self.reader.home) != self.held:
                self.restore()
        return found

    def restore(self) -> None:
        """Put the reader back to where it was."""
        shutil.rmtree(self.reader.home)
        shutil.copytree(self._kept, self.reader.home, symlinks=True)


def main() -> int:
    """Play attacks of each kind, and print a line for each; 1 where any was accepted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=1000, help="how many of each kind (default: %(default)s)")
    parser.add_argument("--kind", choices=[*KINDS, "combined"], action="append", help="only this one (may be repeated)")
    parser.add_argument("--seed", type=int, default=1, help="other attacks (default: %(default)s)")
    options = parser.parse_args()
    accepted = 0
    with tempfile.TemporaryDirectory(prefix="fleet-attacks-") as name, serving(Path(name, "www")) as served:
        field = Battlefield(Path(name), served, Builder(Path(name), Path(name, "www")))
        for kind in options.kind or (*KINDS, "combined"):
            found = field.play(kind, options.tries, options.seed)
            accepted += len(found.accepted)
            rules = ", ".join(
                f"{rule} {count}" for rule, count in sorted(found.rules.items(), key=lambda item: -item[1])
            )
            print(
                f"{kind}: {options.tries} tries, {found.refused} refused, {found.harmless} of no effect, "
                f"{len(found.accepted)} accepted; {rules}",
                flush=True,
            )
    return 1 if accepted else 0


if __name__ == "__main__":
    sys.exit(main())
