"""Attacks by a server, a CDN or a bucket that somebody else writes to, alone or together,
by those who stole the publish key, too.

``python -m tests.fleet.attacks --tries 1000`` plays so many of each kind, and prints what came of them.
"""

import argparse
import contextlib
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
from securesystemslib.signer import CryptoSigner
from tuf.api.metadata import Metadata, MetaFile, Snapshot, Timestamp

from geolookup.fleet import keys, manifest
from geolookup.model.errors import GeoLookupError
from geolookup.settings.table import Settings
from geolookup.state.base.clock import wall
from geolookup.state.base.current import read_current
from geolookup.state.publishing.checks import checks, wrong
from tests.fleet.served import SETTINGS, Answer, Builder, Manner, Reader, Served, fingerprint, serving

Files = dict[str, bytes]

#: So much more comes than is signed: above every bound.
_ENDLESS_BYTES = 80 << 10
#: Those of a reader that does not wait long, and how long (s) it may take all the same: other work goes on here.
_IMPATIENT = Settings(attempts=1, max_wait_s=0.0, read_timeout_s=0.2, total_timeout_s=0.6)
_LONGEST_S = 60.0
_TIMESTAMP = "metadata/timestamp.json"


@dataclass
class History:
    """What a fleet served after each of its publishes, and what another fleet serves."""

    publishes: list[Files]
    other: Files
    #: What it serves after its publish key was revoked, and that key.
    with_new_keys: Files
    stolen: CryptoSigner

    def alike(self, name: str) -> list[bytes]:
        """What was ever served under this name, or under one of the same kind."""
        kind = kind_of(name)
        found = [data for files in (*self.publishes, self.other) for own, data in files.items() if kind_of(own) == kind]
        return list(dict.fromkeys(found))

    def signed(self, content: Any) -> bytes:
        """Metadata, signed by the stolen key."""
        return keys.text_of(keys.signed(content, self.stolen))

    def signed_files(self, text: bytes, version: int) -> Files:
        """A manifest, signed by the stolen key with this version."""
        targets = keys.targets_of(version, text)
        snapshot = Snapshot(version=version, expires=targets.expires)
        snapshot.meta["targets.json"] = MetaFile(version=version)
        timestamp = Timestamp(version=version, expires=keys.ends_in(keys.TIMESTAMP_DAYS))
        timestamp.snapshot_meta = MetaFile(version=version)
        return {
            _TIMESTAMP: self.signed(timestamp),
            f"metadata/{version}.snapshot.json": self.signed(snapshot),
            f"metadata/{version}.targets.json": self.signed(targets),
            f"blobs/{targets.targets[manifest.NAME].hashes['sha256']}.{manifest.NAME}": text,
        }

    def manifests(self, files: Files) -> bytes:
        """The manifest that some files sign."""
        targets = max((name for name in files if kind_of(name) == "metadata/targets.json"), key=_version_in)
        signed = Metadata[Any].from_bytes(files[targets]).signed
        return files[f"blobs/{signed.targets[manifest.NAME].hashes['sha256']}.{manifest.NAME}"]


@dataclass(frozen=True)
class Step:
    """One thing that is done to what is served. ``everywhere``: it knows by itself to which files.

    ``with_key``: it needs the publish key, so that the fleet comes back by other keys alone.
    """

    change: Answer = lambda _name, data: data
    manner: Manner | None = None
    everywhere: bool = False
    with_key: bool = False


def kind_of(name: str) -> str:
    """The kind of a file on the server."""
    if name.startswith("blobs/"):
        return "manifest" if name.endswith(".manifest") else "blob"
    return re.sub(r"\d+\.", "", name)


def _version_in(name: str) -> int:
    return int(re.findall(r"\d+", name)[0])


def taken(www: Path) -> Files:
    """The files of a folder."""
    return {str(path.relative_to(www)): path.read_bytes() for path in www.rglob("*") if path.is_file()}


def put_back(www: Path, files: Files) -> None:
    """Have a folder serve these files and no others."""
    shutil.rmtree(www)
    for name, data in files.items():
        (www / name).parent.mkdir(parents=True, exist_ok=True)
        (www / name).write_bytes(data)


def _changed(rng: random.Random, _history: History) -> Step:
    def change(_name: str, data: bytes | None) -> bytes | None:
        if not data:
            return data
        found = bytearray(data)
        for _ in range(rng.choice((1, 1, 3, 50))):
            found[rng.randrange(len(found))] ^= 1 << rng.randrange(8)
        return bytes(found)

    return Step(change)


def _cut(rng: random.Random, _history: History) -> Step:
    return Step(lambda _name, data: data and data[: rng.randrange(len(data))])


def _endless(rng: random.Random, _history: History) -> Step:
    return Step(lambda _name, data: (data or b"") + rng.randbytes(64) * (_ENDLESS_BYTES // 64))


def _swapped(rng: random.Random, history: History) -> Step:
    return Step(lambda name, data: rng.choice(history.alike(name) or [data or b""]))


def _missing(_rng: random.Random, _history: History) -> Step:
    return Step(lambda _name, _data: None)


def _older(rng: random.Random, history: History) -> Step:
    files = rng.choice(history.publishes[:-1])
    return Step(lambda name, data: files.get(name, data))


def _of_another_fleet(_rng: random.Random, history: History) -> Step:
    return Step(lambda name, data: history.other.get(name, data))


def _json_with_other_numbers(rng: random.Random, _history: History) -> Step:
    def change(_name: str, data: bytes | None) -> bytes | None:
        number = rng.choice((0, 1, 2, 99, 2**31 - 1, 2**53, -1))
        return data and re.sub(rb'("(?:version|length|threshold)": ?)\d+', rb"\g<1>%d" % number, data)

    return Step(change)


def _unsigned(_rng: random.Random, _history: History) -> Step:
    return Step(lambda _name, data: data and re.sub(rb'("sig": ?")[0-9a-f]+', rb"\g<1>" + b"00" * 64, data))


def _slow(rng: random.Random, _history: History) -> Step:
    """Nothing comes for too long, or so little each time that all of it would take too long."""
    return Step(manner=Manner(piece_bytes=rng.choice((1, 7, 40)), pause_s=rng.choice((0.02, 0.05, 0.3))))


def _never_ending(rng: random.Random, _history: History) -> Step:
    return Step(manner=Manner(piece_bytes=rng.choice((1 << 10, 1 << 16)), is_endless=True))


def _frozen(rng: random.Random, history: History) -> Step:
    """What was served once, and what is served now, after its signature has ended."""
    files = dict(rng.choice(history.publishes))
    name = rng.choice([_TIMESTAMP] * 3 + [max((n for n in files if n.endswith("snapshot.json")), key=_version_in)])
    content = Metadata[Any].from_bytes(files[name]).signed
    ago = timedelta(seconds=rng.choice((1, 3_600, 86_400, 86_400 * 400)))
    content.expires = datetime.now(UTC).replace(microsecond=0) - ago
    files[name] = history.signed(content)
    return Step(lambda name, data: files.get(name, data), everywhere=True)


def _fast_forward(rng: random.Random, history: History) -> Step:
    """Versions as high as they go, signed by the stolen key: nothing that the builder signs is newer."""
    version = rng.choice((99, 2**31 - 1, 2**31, 2**53 - 1, 2**63 - 1))
    files = history.signed_files(history.manifests(rng.choice(history.publishes[2:])), version)
    return Step(lambda name, data: files.get(name, data), everywhere=True, with_key=True)


def _another_base(rng: random.Random, history: History) -> Step:
    """Steps that lead from another file, or to another one, than the manifest says, signed by the stolen key."""
    found = manifest.decoded(history.manifests(history.publishes[-1]), "here")
    held = manifest.decoded(history.manifests(history.publishes[2]), "here")
    blobs = [blob for each in (*found.files.values(), *held.files.values()) for blob in each.blobs()]
    files = {}
    for name, file in found.files.items():
        steps = list(file.steps) or [manifest.Step(held.files[name].sha256, rng.choice(blobs), 2**20, 0)]
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(steps))
            other = rng.choice(
                (
                    {"base": held.files[name].sha256},
                    {"base": rng.choice(steps).base},
                    {"blob": rng.choice(blobs)},
                    {"blob": rng.choice(steps).blob},
                    {"unpacked": rng.choice((0, 1, 2**20, 2**62))},
                )
            )
            steps[at] = msgspec.structs.replace(steps[at], **other)
        rng.shuffle(steps)
        whole = rng.choice((file.whole, file.whole, rng.choice(blobs)))
        files[name] = msgspec.structs.replace(file, steps=tuple(steps), whole=whole)
    text = manifest.encoded(msgspec.structs.replace(found, files=files))
    signed = history.signed_files(text, 100)
    return Step(lambda name, data: signed.get(name, data), everywhere=True, with_key=True)


KINDS: dict[str, Callable[[random.Random, History], Step]] = {
    "changed": _changed,
    "cut": _cut,
    "endless": _endless,
    "swapped": _swapped,
    "missing": _missing,
    "older": _older,
    "another fleet": _of_another_fleet,
    "other numbers": _json_with_other_numbers,
    "unsigned": _unsigned,
    "slow": _slow,
    "never ending": _never_ending,
    "frozen": _frozen,
    "fast forward": _fast_forward,
    "another base": _another_base,
}
_TARGETS = ("timestamp.json", "snapshot.json", "targets.json", "root.json", "manifest", "blob")


@dataclass(frozen=True)
class Attack:
    """Steps, and the kinds of files that each is done to; None for all."""

    steps: list[tuple[set[str] | None, Step]]

    def change(self, name: str, data: bytes | None) -> bytes | None:
        """See `Served.change`."""
        for step in self._on(name):
            data = step.change(name, data)
        return data

    def manner(self, name: str) -> Manner | None:
        """See `Served.manner`."""
        return next((step.manner for step in self._on(name) if step.manner is not None), None)

    def _on(self, name: str) -> list[Step]:
        kind = kind_of(name).removeprefix("metadata/")
        return [step for on, step in self.steps if on is None or kind in on]

    @property
    def with_key(self) -> bool:
        """True if the publish key was stolen for it."""
        return any(step.with_key for _, step in self.steps)

    @property
    def is_slow(self) -> bool:
        """True if some answer comes slowly."""
        return any(step.manner is not None and step.manner.pause_s for _, step in self.steps)


def attack(kind: str, rng: random.Random, history: History) -> Attack:
    """One attack of a kind, ``combined`` for two to four of them: on all files, or on some kinds of them."""
    kinds = [rng.choice(list(KINDS)) for _ in range(rng.randint(2, 4))] if kind == "combined" else [kind]
    steps = []
    for each in kinds:
        step = KINDS[each](rng, history)
        everywhere = step.everywhere or rng.random() < 0.3
        steps.append((None if everywhere else set(rng.sample(_TARGETS, rng.randint(1, 3))), step))
    return Attack(steps)


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
        stolen = keys.publish_key(builder.keys)
        keys.rotate(builder.keys, new_publish=True)
        builder.edit("10.2.9.0/24", "Hus 9")
        builder.publish()
        self.history = History(publishes, taken(folder / "other-www"), taken(www), stolen)
        put_back(www, publishes[-1])
        self.held, self.newest, self.recovered = prints[2], prints[-1], fingerprint(builder.home)
        #: What was right after what the reader has: that a newer one is kept from it can be told only by its end.
        self.right = prints[2:]
        self._kept = folder / "kept"
        shutil.copytree(self.reader.home, self._kept, symlinks=True)

    def play(self, kind: str, tries: int, seed: int) -> Tries:
        """Attack so many times, and say what came of it."""
        found = Tries()
        for number in range(tries):
            rng = random.Random(f"{kind} {seed} {number}")
            tried = attack(kind, rng, self.history)
            self._served.change, self._served.manner = tried.change, tried.manner
            wrongs = self._try(found, tried, right=[self.held] if kind == "frozen" else self.right)
            if tried.with_key:
                wrongs += self._comes_back(self.history.with_new_keys, self.recovered, tried)
            elif rng.random() < 0.1:
                wrongs += self._comes_back({}, self.newest, None)
            found.accepted += [f"{kind} {seed} {number}: {each}" for each in wrongs]
            self._served.change, self._served.manner = None, lambda _name: None
            # Frozen ones each begin anew: a timestamp that was read in the try before, and has not ended, is believed.
            if tried.with_key or kind == "frozen" or rng.random() < 0.7 or fingerprint(self.reader.home) != self.held:
                self.restore()
        return found

    def _try(self, found: Tries, tried: Attack, *, right: list[str]) -> list[str]:
        """What a sync did that it must not do while it was attacked."""
        before, began = read_current(self.reader.home).confirmed, time.monotonic()
        wrongs = []
        try:
            self.reader.sync(_IMPATIENT if tried.is_slow else SETTINGS)
        except GeoLookupError as error:
            found.refused += 1
            rule = str(error).partition("127.0.0.1:")[2].partition(": ")[2].partition(": ")[0][:40]
            found.rules[rule] = found.rules.get(rule, 0) + 1
            if fingerprint(self.reader.home) != self.held:
                wrongs.append(f"refused, and another answer: {error}")
            if read_current(self.reader.home).confirmed != before:
                wrongs.append("refused, and max_age counts from now")
            with mock.patch("geolookup.state.publishing.checks.wall", return_value=wall() + timedelta(days=8)):
                state = self.reader.directory
                if not any("freeze" in text for text in wrong(checks(state, state.current()))):
                    wrongs.append("refused for a week, and `status --check` is content")
        else:
            found.harmless += 1
            if fingerprint(self.reader.home) not in right:
                wrongs.append("accepted")
        if time.monotonic() - began > _LONGEST_S:
            wrongs.append("took too long")
        if self._served.read_to_the_end:
            wrongs.append("read an answer without an end until the server gave up")
            self._served.read_to_the_end = 0
        return wrongs

    def _comes_back(self, files: Files, expected: str, thief: Attack | None) -> list[str]:
        """What is wrong after the right files were served again; those who had the key try once more then."""
        self._served.change, self._served.manner = lambda name, data: files.get(name, data), lambda _name: None
        try:
            self.reader.sync()
        except GeoLookupError as error:
            return [f"does not come back: {error}"]
        if fingerprint(self.reader.home) != expected:
            return ["comes back to another answer"]
        if thief is not None:
            self._served.change, self._served.manner = thief.change, thief.manner
            with contextlib.suppress(GeoLookupError):
                self.reader.sync(_IMPATIENT if thief.is_slow else SETTINGS)
            if fingerprint(self.reader.home) != expected:
                return ["a revoked key is believed"]
        return []

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
                *found.accepted,
                sep="\n  ",
                flush=True,
            )
    return 1 if accepted else 0


if __name__ == "__main__":
    sys.exit(main())
