"""Text from outside, made fit for a terminal, a log or a message: printable, on one line, of bounded length."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any


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


def plain(number: int) -> str:
    """A count for people, short also if it is of the addresses of IPv6, whose counts have up to 39 digits."""
    return str(number) if number < 10**15 else f"{number:.4g}"


def addresses(number: int) -> str:
    """A number of addresses: ``1 address``, ``65536 addresses``."""
    return f"{plain(number)} {'address' if number == 1 else 'addresses'}"


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
