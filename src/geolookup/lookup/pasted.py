"""Addresses, networks and ranges in what a person pastes: a list, or a mail with words between.

One reader for every field and file of that kind. What looks like an address and cannot be read is named, and a number
beside an address is never a mere word. Where a text may mean a range or two addresses, that is named too.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from geolookup.lookup.asked import read_field
from geolookup.model.addresses import is_address, is_netmask, of_mask, of_mask_after, range_ends
from geolookup.model.errors import InvalidAddressError, InvalidRangeError
from geolookup.model.public import use_of
from geolookup.model.types import IPBlock


@dataclass(frozen=True, slots=True)
class Unread:
    """A part that could not be read: ``text`` is what a person would add, with ``?`` if it is a guess.

    ``told`` says why; of a word it is empty.
    """

    text: str
    told: str
    line: int


@dataclass(slots=True)
class Pasted:
    """What a text has: ``blocks`` in their order, some perhaps twice; ``words`` are those without an address.

    ``meant`` says of each that was written in another way how it was read: ``10.0.0.1:80 as 10.0.0.1``.
    """

    blocks: list[IPBlock] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    meant: list[str] = field(default_factory=list)
    words: list[Unread] = field(default_factory=list)

    @property
    def is_plain(self) -> bool:
        """True if it is a list of blocks and nothing else."""
        return bool(self.blocks) and not self.unread and not self.words

    @property
    def left(self) -> str:
        """What a person would add by hand, with commas between."""
        return ", ".join(still_unread(dict.fromkeys(each.text for each in self.unread if each.text), self.blocks))

    @property
    def private(self) -> list[IPBlock]:
        """The private ones among others: these may be a mistake."""
        found = [block for block in self.blocks if block.family == 4 and not use_of(4, block.first)[0]]
        return list(dict.fromkeys(found)) if len(found) < len(self.blocks) else []


@dataclass(frozen=True, slots=True)
class _Part:
    """A word, a sign or a line end; ``block`` is what it means by itself."""

    kind: str
    text: str
    line: int
    block: IPBlock | None = None
    told: str = ""

    @property
    def is_one(self) -> bool:
        """True if it is a single address."""
        return self.block is not None and self.block.first == self.block.last


#: Dashes as hyphens, and nothing in place of what nobody sees.
_SEEN: Final = str.maketrans(
    {**dict.fromkeys("‐‑‒–—―−", "-"), **dict.fromkeys("\u200b\u200c\u200d\u200e\u200f\u2060\ufeff\xad", "")}
)
#: Marks of a line of a list or of a mail that is quoted.
_BULLETS: Final = re.compile(r"(?:\s*(?:[-*•·>+#]+(?:\s+|(?=\d))|\(?\d{1,3}[.)]\s+))+")
_WORDS: Final = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{1,3}){3}(?![\d.,])|[,，、]|[^\s,，、|]+")
#: Four numbers with another sign between.
_FOUR: Final = re.compile(r"\d{1,3}(?:([,-])\d{1,3})(?:\1\d{1,3}){2}")
#: Words between the ends of a range, and those that stand beside such a word.
_TO: Final = re.compile(r"to|till|until|through|thru|bis|à|a|au|jusqu['’](?:à|au)|hasta|fino|do|até|tot|t/m|ends?|last")
_BESIDE_TO: Final = re.compile(r"up|zu|zur|and|und|et|including|inclusive|incl|all|the|way")
_BETWEEN: Final = re.compile(r"between|zwischen|entre")
_ARROWS: Final = frozenset(("->", "-->", "=>", "→", "⇒", ">", "~", "..", "...", "…"))
_WAY: Final = re.compile("[>→⇒]")
_SIGNS: Final = re.compile(r"(-+>?|=>|→|⇒|~|\.{2,}|…)")
#: What people write around an address: brackets, quotes, the marks of a sentence, a scheme or a label, a path.
_AROUND: Final = "(){}<>\"'“”„‘’«»`"
_LABELLED: Final = re.compile(r"(?:([A-Za-z][\w-]*)[:=])?(?://)?(\d+(?:\.\d+){3}(?::\d+|/\d+)?)(?:/|/\D.*)?")
_NUMBER: Final = re.compile(r"[.+]?\d{1,3}")
_BITS: Final = re.compile(r"(?<=[\da-fA-F:])\s*/\s*(\d{1,3})(?![\w.])")
#: A text that was meant as an address: four numbers that are no version, three, a pattern, or IPv6.
_LIKE: Final = re.compile(
    r"""(?<![A-Za-z0-9.])(?<![A-Za-z0-9_]/) \d+ (?: \. \d+ ){3}
    | ^ \d{1,3} (?: \. (?: \d{1,3} | [*xX] ) ){2} (?: $ | [./] )
    | (?: ^ | \[ ) [0-9a-fA-F]{0,4} : [0-9a-fA-F]{0,4} :""",
    re.VERBOSE,
)
#: The time of day, and the address of a network card.
_NO_ADDRESS: Final = re.compile(r"\d\d?(?::\d\d){1,2}(?:[^\d:].*)?|[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5}")
#: Names of the columns of a table whose rows have the first and the last address of a range.
_FIRST, _LAST = (
    re.compile(rf"\b(?:{each})\b", re.IGNORECASE) for each in ("start|first|from|begin|von", "end|last|to|bis")
)
#: A line of a log has the second.
_SECOND: Final = re.compile(r"\d\d:\d\d:\d\d")


@lru_cache(maxsize=8)  # of one form it is asked several times
def read_pasted(text: str) -> Pasted:
    """Read a text. Nothing is raised: what is wrong with it is in the answer, which nobody changes."""
    return _Reader(text).read()


def is_log(text: str) -> bool:
    """True if every other line has a moment: it is a log, whose words and signs have other meanings."""
    lines = [line for line in text.splitlines() if line.strip()]
    return 2 * sum(_SECOND.search(line) is not None for line in lines) > len(lines)


def still_unread(texts: Iterable[str], blocks: Iterable[IPBlock]) -> list[str]:
    """Those texts of parts that were not read whose addresses, or networks, are not among some blocks by now."""
    blocks = list(blocks)
    return [text for text in texts if not _are_in([*filter(_LIKE.search, text.rstrip("?").split())], blocks)]


def _are_in(texts: list[str], blocks: list[IPBlock]) -> bool:
    wanted = [*map(_block_or_none, texts)]
    return bool(wanted) and all(
        each is not None
        and any(of.family == each.family and of.first <= each.first and each.last <= of.last for of in blocks)
        for each in wanted
    )


def _block_or_none(text: str) -> IPBlock | None:
    try:
        return _block(text)
    except (InvalidAddressError, InvalidRangeError):
        return None


def _block(text: str) -> IPBlock:
    """An address, network or range; an address also as it stands in a log: with a port, or in quotes."""
    try:
        return IPBlock.parse(*range_ends(text))
    except InvalidAddressError:
        found = read_field(text)
        if not found:
            raise
        return IPBlock.parse(found[0])


def _parts(text: str) -> list[_Part]:
    found: list[_Part] = []
    text = text.replace("[.]", ".").translate(_SEEN)
    for number, whole in enumerate(text.splitlines(), 1):
        for line in re.split("[;；]", whole):
            bullet = _BULLETS.match(line)
            line = _BITS.sub(r"/\1", line[bullet.end() :] if bullet else line)
            aside = False
            for word in _WORDS.findall(line):
                aside = aside or word.startswith("(")
                # Alone it is an address, in a text far more often punctuation.
                made = _of_word(word, number) if word != "::" or text == word else [_Part("comma", word, number)]
                bare = made[0].kind == "word" or (made[0].kind == "number" and not made[0].text.startswith("."))
                found += [_Part("aside", word, number)] if aside and bare else made
                aside = aside and ")" not in word
            found.append(_Part("line", "", number))
    return found


def _of_word(word: str, line: int) -> list[_Part]:
    if is_address(word):
        return [_Part("block", word, line, block=IPBlock.parse(word))]
    if word in ",，、/&+":
        return [_Part("comma", word, line)]
    if _FOUR.fullmatch(word):
        written = re.sub("[,-]", ".", word)
        return [_Part("wrong", word, line, told=f"{word!r} has no points: write {written} if that is an address")]
    if word.strip("-") == "" or word in _ARROWS:
        return [_Part("to" if word in _ARROWS else "dash", word, line)]
    ended = word.strip(_AROUND).rstrip(".,!?…")
    ended = ended if ended.endswith("::") else ended.removesuffix(":")
    lower = ended.casefold()
    for kind, known in (("to", _TO), ("beside", _BESIDE_TO), ("between", _BETWEEN)):
        if known.fullmatch(lower):
            return [_Part(kind, word, line)]
    if "mask" in lower or "masque" in lower:
        return [_Part("mask", word, line)]
    if _NUMBER.fullmatch(ended):
        return [_Part("number", ended, line)]
    labelled = _LABELLED.fullmatch(ended)
    if labelled and labelled[1] and "://" not in ended:
        return [*_of_word(labelled[1], line), *_of_word(labelled[2], line)]
    text = labelled[2] if labelled else ended
    ends = _SIGNS.split(text)
    if len(ends) > 1 and any(ends[::2]) and all(map(_is_end, ends[::2])):
        return [part for each in ends if each for part in _of_word(each, line)]
    first, _, second = text.partition("/")
    if is_address(first) and is_address(second) and of_mask(first, second) == of_mask_after(first, second):
        return [*_of_word(first, line), *_of_word(second, line)]
    try:
        return [_Part("block", text, line, block=_block(text))]
    except (InvalidAddressError, InvalidRangeError) as error:
        wrong = _LIKE.search(text) and not _NO_ADDRESS.fullmatch(text)
        told = error.told if repr(text)[1:-1] in error.told else f"{text!r}: {error.told}"
        return [_Part("wrong" if wrong else "word", text, line, told=told)]


def _is_end(text: str) -> bool:
    """True if a text may be an end of a range in one word: an address, the last number of one, or nothing."""
    return not text or is_address(text) or _NUMBER.fullmatch(text) is not None


#: What may stand between the ends of a range; with an aside, a comma or a line end it is not clear that it is one.
_LINKS: Final = frozenset(("to", "dash", "beside", "aside", "line", "comma"))


class _Reader:
    def __init__(self, text: str) -> None:
        self._all = _parts(text)
        self._at = 0
        head = next((line for line in re.split("[;\n]", text) if "\t" in line), "")
        self._has_columns = bool(_FIRST.search(head) and _LAST.search(head) and not re.search(r"\d", head))
        self._found = Pasted()

    def read(self) -> Pasted:
        near: _Part | None = None  # the address or network beside which a number or a netmask would stand
        last: _Part | None = None  # the one before, of which a number with a point is the end wherever it stands
        while self._at < len(self._all):
            part = self._all[self._at]
            kinds = [each.kind for each in self._all[self._at : self._at + 4]]
            if part.block is not None and near is not None and (network := _network_of(near, part)) is not None:
                self._found.blocks.pop()
                self._refuse(f"{network}?", [near, part], f"{near.text} has the netmask {part.text}: write {network}")
                near = None
            elif part.block is not None:
                near = self._ends()
            elif kinds == ["between", "block", "beside", "block"]:
                self._unclear(self._all[self._at : self._at + 4])
                self._at += 3
            elif part.kind == "wrong":
                self._refuse(part.text, [part], part.told)
            elif part.kind == "number" and (of := last if part.text.startswith(".") else near) is not None:
                self._number(of, part)
            elif part.kind not in ("comma", "line", "dash") and (word := part.text.strip(_AROUND)):
                self._found.words.append(Unread(word, "", part.line))
            near = part if part.kind == "wrong" else near
            near = near if part.block or part.kind in ("comma", "mask", "number", "beside", "aside", "wrong") else None
            last = near or last
            self._at += 1
        return self._found

    def _ends(self) -> _Part | None:
        """Read the address here, or the range that begins with it; what a number may stand beside then."""
        begin, ends, clear = self._at, [self._all[self._at]], True
        while True:
            at = self._at + 1
            while at < len(self._all) and self._all[at].kind in _LINKS:
                at += 1
            links = {each.kind for each in self._all[self._at + 1 : at]}
            if at == len(self._all) or self._all[at].kind not in ("block", "number"):
                break
            if not links & {"to", "dash"} and not (self._has_columns and not links):
                break
            if "comma" in links and "to" not in links:
                break
            clear = clear and not links & {"aside", "line", "comma"}
            ends.append(self._all[at])
            self._at = at
        parts = self._all[begin : self._at + 1]
        if len(ends) == 1:
            return self._one(ends[0])
        if clear and len(ends) == 2 and all(each.kind == "number" or each.is_one for each in ends):
            self._range(parts)
        else:
            self._unclear(parts)
        return None

    def _one(self, part: _Part) -> _Part:
        block = part.block
        if block is None or (part.is_one and is_netmask(block.first) and block.family == 4 and "/" not in part.text):
            self._refuse("", [part], f"{part.text} is a netmask, not an address")
            return part
        self._found.blocks.append(block)
        if part.is_one and ":" in part.text and block.family == 4:
            self._found.meant.append(f"{part.text} as {block}")
        return part

    def _range(self, parts: list[_Part]) -> None:
        first, last = parts[0].text, parts[-1].text.lstrip(".+")
        if parts[-1].kind == "number":
            last = f"{first.rpartition('.')[0]}.{last}"
        text = _text(parts)
        try:
            block = IPBlock.parse(first, last)
        except (InvalidAddressError, InvalidRangeError) as error:
            self._refuse(text, parts, error.told)
            return
        # From one network to another an arrow is a way, as firewalls write it, and "to" may be a move.
        far = 8 if _WAY.search(text) else 16 if any(part.kind == "to" for part in parts) else 128
        if (block.first ^ block.last) >> (far if block.family == 4 else far + 64):
            self._unclear(parts)
            return
        self._found.blocks.append(block)
        if parts[-1].kind == "number":
            self._found.meant.append(f"{text} as {block}")

    def _number(self, near: _Part, part: _Part) -> None:
        before, number = near.text.partition("/")[0].rpartition(".")[0], part.text.lstrip(".+")
        whole = f"{before}.{number}" if before and int(number) <= 255 else ""
        meant = f": write {whole} if that is meant" if whole else ""
        self._refuse(f"{whole}?" if whole else part.text, [part], f"{part.text} beside {near.text}{meant}")

    def _unclear(self, parts: list[_Part]) -> None:
        text = _text(parts)
        self._refuse(text, parts, f"{text!r} may be a range or single addresses: write FIRST-LAST, or commas between")

    def _refuse(self, text: str, parts: list[_Part], told: str) -> None:
        self._found.unread.append(Unread(text, told, parts[0].line))


def _text(parts: list[_Part]) -> str:
    return " ".join(part.text for part in parts if part.text)


def _network_of(near: _Part, mask: _Part) -> str | None:
    """The network of an address and the netmask beside it."""
    return of_mask_after(near.text, mask.text) if near.is_one and mask.is_one else None
