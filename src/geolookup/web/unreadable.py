"""What is wrong with a request that cannot be read, and what to send instead: in words for whoever wrote its client.

The parser has refused it by then. Values are never quoted: one of them may be a secret.
"""

import re

_TLS = b"\x16\x03"
_END = b"\r\n"
_VERSION = re.compile(rb" (HTTP/[0-9]+(?:\.[0-9]+)?)$", re.IGNORECASE)
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.6.2
_CONTROLS = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_FIRST_LINE = "its first line must be METHOD PATH HTTP/1.1, with one space between them"


def beginning(begun: bytes) -> str:
    """What is wrong with what came in the place of a head."""
    if begun.startswith(_TLS):
        return "this is TLS, and plain HTTP is spoken here: write http:// in place of https://"
    if begun.startswith(_END):
        return "it begins with an empty line: send nothing before its first line"
    if begun[:1].isspace():
        return "it begins with a blank: send nothing before its first line"
    if b"\n" in begun.replace(_END, b""):
        return "a line of its head ends with LF alone: end each with CR LF"
    return "this is not HTTP/1.1"


def first_line(head: bytes) -> str:
    """What is wrong with the first line of a head."""
    line = head.partition(_END)[0]
    if not line or line[:1].isspace() or line.startswith(_TLS) or b"\n" in line:
        return beginning(head)
    version = _VERSION.search(line)
    if version is None:
        return _FIRST_LINE
    if version[1] not in (b"HTTP/1.0", b"HTTP/1.1"):
        return f"it is of {version[1].decode('ascii')}: send HTTP/1.1"
    if _CONTROLS.search(line):
        return "its first line holds a control character: percent-encode it"
    if not line.isascii() or line.count(b" ") > 2:
        return f"{_FIRST_LINE}, and the path's own blanks and letters beyond ASCII percent-encoded"
    return _FIRST_LINE


def header(head: bytes, said: str) -> str:
    """What is wrong with the headers of a head; if nothing is found, what the parser ``said``."""
    lengths = 0
    codings = False
    for number, line in enumerate(head.removesuffix(_END + _END).split(_END)[1:], 1):
        name, colon, value = line.partition(b":")
        if line[:1] in (b" ", b"\t"):
            return f"header {number} begins with a blank: a header takes one line, and may not go on in the next"
        if b"\n" in line:
            return f"header {number} ends with LF alone: end each line with CR LF"
        if not colon:
            return f"header {number} has no colon: a header is NAME: VALUE"
        if not _NAME.fullmatch(name):
            blank = name.rstrip(b" \t") != name and _NAME.fullmatch(name.rstrip(b" \t"))
            what = "a blank before its colon: leave it out" if blank else "a name that HTTP does not allow"
            return f"header {number} has {what}"
        if _CONTROLS.search(value):
            return f"header {number} ({name.decode('ascii')}) has a control character in its value"
        if name.lower() == b"content-length":
            lengths += 1
            if not value.strip(b" \t").isdigit():
                return "its Content-Length is not one whole number of bytes"
        codings = codings or name.lower() == b"transfer-encoding"
    if lengths > 1:
        return "it has several Content-Length: send one"
    if lengths and codings:
        return "it has Content-Length and Transfer-Encoding: send one of the two"
    return f"its head cannot be read: {said}"


def body(said: str) -> str:
    """What is wrong with a body in chunks of which the parser ``said`` something."""
    return f"its body in chunks cannot be read: {said}. Each is its length in hexadecimal, CR LF, its bytes and CR LF"
