"""Reading JSON without importing `json`, whose import takes as long as two bare interpreters; checksums inside JSON.

The interpreter's own C scanner does the work; if it is missing (another implementation of Python), the ordinary
module does.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CHECK_DIGITS = 16
_CHECK_MODULUS = (1 << 61) - 1


class _Context:
    """The options of the C scanner: the options that `json.loads` has by default, but strict numbers."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    memo: "dict[str, str]" = {}  # noqa: RUF012 - the scanner reads the attribute, and clears it

    @staticmethod
    def parse_constant(name: str) -> float:
        raise ValueError(f"{name} is not JSON")

    parse_float = float
    parse_int = int


def loads(data: "bytes | bytearray") -> "Any":
    """The value of a whole JSON text in UTF-8.

    :raises ValueError: if it is not JSON, or something stands after it
    """
    text = data.decode("utf-8")
    try:
        from _json import make_scanner
    except ImportError:
        import json

        return json.loads(text)
    start = len(text) - len(text.lstrip(" \t\n\r"))
    try:
        value, end = make_scanner(_Context)(text, start)  # type: ignore[arg-type] # any object with these members will do
    except StopIteration:
        raise ValueError("not JSON") from None
    except SystemError:
        # To say where the text is wrong, the scanner asks `json.decoder` for its error, and fails like this where
        # nobody has imported that yet (seen in CPython 3.11).
        import json

        return json.loads(text, parse_constant=_Context.parse_constant)
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None
    if text[end:].strip(" \t\n\r"):
        raise ValueError(f"something stands after the JSON, at character {end}")
    return value


def loads_sealed(data: bytes, mark: bytes) -> "tuple[Any, str]":
    """The value of a text that holds its own checksum after ``mark``, and what that checksum should be.

    :raises ValueError: as `loads` does
    """
    return loads(data), self_check(data, data.rfind(mark) + len(mark))


def sealed(text: bytes, mark: bytes) -> bytes:
    """The text with its checksum after ``mark``, where it has any 16 characters."""
    start = text.rfind(mark) + len(mark)
    return text[:start] + self_check(text, start).encode("ascii") + text[start + _CHECK_DIGITS :]


def self_check(text: bytes, start: int) -> str:
    """The checksum, as 16 hexadecimal digits, of a text that holds it at ``start``: there it counts as zeros.

    It is the text as one little-endian integer, modulo 2**61 - 1. CRC-32 would do as well, but costs an import on
    the way to a first answer, or a loop over each byte; this is a dozen microseconds of plain Python, and
    misses no run of changed bits shorter than 61.
    """
    blanked = text[:start] + b"0" * _CHECK_DIGITS + text[start + _CHECK_DIGITS :]
    return f"{int.from_bytes(blanked, 'little') % _CHECK_MODULUS:0{_CHECK_DIGITS}x}"
