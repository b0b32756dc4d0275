"""Text from outside, made fit for a terminal, a log or a message: printable, on one line, of bounded length."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

#: Names of large numbers, each with the number.
_LARGE = (
    (10**18, "quintillion"),
    (10**15, "quadrillion"),
    (10**12, "trillion"),
    (10**9, "billion"),
    (10**6, "million"),
)
#: Parts of IPv6 addresses by which many of them are counted: what a network has, then what a provider has.
_PARTS_OF_V6 = ((32, 10**12 << 64), (64, 1 << 64))


def harmless(text: str, limit: int = 200) -> str:
    """The text with control, bidirectional and other unprintable characters escaped, at most ``limit`` long."""
    if len(text) <= limit and text.isprintable():
        return text
    shown = []
    length = 0
    for character in text[:limit]:
        if not character.isprintable():
            character = character.encode("unicode_escape", "backslashreplace").decode("ascii")
        length += len(character)
        if length > limit:
            break
        shown.append(character)
    return "".join(shown)


#: Letters that Unicode does not take for another one with an accent.
_LETTERS = str.maketrans(
    {"ł": "l", "Ł": "L", "ø": "o", "Ø": "O", "đ": "d", "Đ": "D", "ı": "i", "ß": "ss", "æ": "ae", "Æ": "Ae"}
)


def without_accents(text: str) -> str:
    """The text in plain letters: Lodz for Łódź, Malmo for Malmö. Other scripts stay as they are."""
    if text.isascii():
        return text
    import unicodedata  # late: one lookup from the shell needs none

    letters = unicodedata.normalize("NFKD", text.translate(_LETTERS))
    return unicodedata.normalize("NFC", "".join(each for each in letters if not unicodedata.combining(each)))


def first_line(message: str) -> str:
    """The first line of a message of several, without the sentence that leads to the lines below it."""
    line, rest, _ = message.partition("\n")
    said = line.rpartition(". ")[0]
    return f"{said}." if rest and said and line.endswith(":") else line


def harmless_below(text: str, limit: int) -> list[str]:
    """The lines of a traceback as they stand below a line of a log: indented, and none taken for a line of its own.

    Only line feeds end a line. What `str.splitlines` would also split at is escaped, as in `harmless`.
    """
    return [f"  {harmless(line, limit)}" for line in text.split("\n")]


def count(number: int, one: str, many: str | None = None) -> str:
    """A count with its noun: ``1 block``, ``2 blocks``. ``many`` is the plural if an s does not make it."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def size(count: int) -> str:
    """A number of bytes for people: never 0 of a unit that is too large."""
    if count < 10 << 10:
        return f"{count} bytes"
    return f"{count / (1 << 20):.1f} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"


def shown_degrees(value: float) -> float:
    """Degrees as they are shown: of a number that came as a float of 32 bits, the shortest that reads back as that.

    51.51430130004883 is 51.5143 then: the other digits say nothing. A number that needs 64 bits stays as it is.
    """
    import struct  # late: one lookup from the shell shows none

    try:
        octets = struct.pack("<f", value)
    except OverflowError:
        return value
    if struct.unpack("<f", octets)[0] != value:
        return value
    candidates = (float(f"{value:.{digits}g}") for digits in range(1, 10))
    return next((each for each in candidates if struct.pack("<f", each) == octets), value)


def short(number: int) -> str:
    """A count as people say it: all digits below a million, in groups, else ``3.7 billion``."""
    for size, name in _LARGE:
        if number >= size:
            tenths = (10 * number + size // 2) // size  # no float: a count from outside may be larger than any
            return f"{tenths // 10:,}{f'.{tenths % 10}' if tenths % 10 else ''} {name}"
    return f"{number:,}"


def short_v6(number: int) -> str:
    """A count of IPv6 addresses: in networks of a /64, or of a /32, if there are that many."""
    for length, size in _PARTS_OF_V6:
        if number >= size:
            return f"{short(networks := number >> (128 - length))} network{'' if networks == 1 else 's'} (/{length})"
    return short(number)


def plain(number: int) -> str:
    """A count of addresses: all digits, in groups, or from 10**15 on, which only IPv6 has, as `short_v6` says it."""
    return f"{number:,}" if number < 10**15 else short_v6(number)


def addresses(number: int) -> str:
    """A number of addresses: ``1 address``, ``65,536 addresses``, ``2 networks (/64)``."""
    text = plain(number)
    return text if text.endswith(")") else f"{text} {'address' if number == 1 else 'addresses'}"


def percent(part: int, of: int) -> str:
    """A share with three digits; one that needs more is ``less than 0.01%``."""
    return "less than 0.01%" if 0 < 10_000 * part < of else f"{100 * part / of:.3g}%"


def place_text(parts: "Iterable[str]") -> str:
    """A place as text on a line: what is known of `fields.PLACE_NAMES`, given in that order; "-" if nothing is."""
    return ", ".join([part for part in parts if part]) or "-"


def network_text(facts: "Mapping[str, Any]") -> str:
    """A network in words: its AS, else another fact of it; "" without facts."""
    number, name = facts.get("autonomous_system_number"), facts.get("autonomous_system_organization")
    if number or name:
        return harmless(" ".join(([f"AS{number}"] if number else []) + ([str(name)] if name else [])))
    for key in ("organization", "isp", "domain", "connection_type", "user_type"):
        if facts.get(key):
            return harmless(str(facts[key]))
    flags = [key.removeprefix("is_").replace("_", " ") for key in facts if facts[key] is True]
    return harmless(", ".join(flags)) or ("a network that is known" if facts else "")


def fields_text(fields: "Mapping[str, object]") -> str:
    """The fields of a geolocation as text on a line: the name and value of each that is known; "" if none is."""
    shown = {name: shown_degrees(value) if isinstance(value, float) else value for name, value in fields.items()}
    return ", ".join([f"{name} {value}" for name, value in shown.items() if value not in (None, "")])


def harmless_json(line: str) -> str:
    """A JSON text (RFC 8259) that says the same, with every unprintable character escaped as JSON does.

    JSON itself escapes only the control characters below 32: DEL, those of C1 and the bidirectional ones are left raw.
    """
    return line if line.isprintable() else "".join(map(_json_character, line))


def _json_character(character: str) -> str:
    if character.isprintable():
        return character
    # Outside strings JSON has only printable ASCII and line ends, which writers of a line do not put there.
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def unchanged(text: str) -> str:
    """The text as it is: for answers that hold no secret."""
    return text
