"""One request as it comes: its head, read strictly, its body, and the words for a request that cannot be read.

llhttp reads it, by way of httptools: it refuses one that could end in two places. Each request gets its own parser, so
that nothing of one can bear on the next. A refusal says what to send instead, and never quotes a value: one of them may
be a secret.
"""

import re
from typing import Final
from urllib.parse import unquote

import httptools

from geolookup.base.reasons import reason
from geolookup.model.errors import RequestRefusedError

#: The minor version of httptools whose refusals were tested. pyproject.toml allows no other, and a test fails with any
#: other.
TESTED_HTTPTOOLS: Final = "0.9"

#: In a request's scope: a dictionary that the requests of a connection have in common as long as all but their method
#: and path is the same. It keeps what was read from the headers.
SAME: Final = "geolookup.same"

#: The end of a head. llhttp accepts no other end of a line, so a head cannot end before it.
END_OF_HEAD: Final = b"\r\n\r\n"

#: RFC 9112, section 3: one space between the parts. llhttp takes more of them, and versions that we do not speak.
_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([!-~]+) HTTP/(1\.[01])\r\n")
#: No method begins so.
_NOT_A_METHOD = re.compile(rb"[\x00-\x20\x7f-\xff]")
#: To tell why llhttp refused a head.
_CODING = re.compile(rb"\r\ntransfer-encoding:[ \t]*(.*?)[ \t]*(?=\r\n)", re.IGNORECASE)
_BARE_END = re.compile(rb"(?<!\r)\n")
#: A target in absolute form: its scheme, its authority, and the rest.
_ABSOLUTE = re.compile(rb"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)(.*)")

_SLASH = ord("/")
_TLS = b"\x16\x03"
_END = b"\r\n"
_VERSION = re.compile(rb" (HTTP/[0-9]+(?:\.[0-9]+)?)$", re.IGNORECASE)
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.6.2
_CONTROLS = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_FIRST_LINE = "its first line must be METHOD PATH HTTP/1.1, with one space between them"


class Request:
    """A request whose head has come as a whole; `feed` takes its body.

    :raises RequestRefusedError: ``bad-request`` or ``not-implemented``
    """

    __slots__ = (
        "_codings",
        "_ended",
        "_hosts",
        "_in_head",
        "_length",
        "_parser",
        "_rest",
        "expects_continue",
        "followed",
        "headers",
        "keep_alive",
        "method",
        "piece",
        "target",
        "version",
    )

    def __init__(self, head: bytes) -> None:
        line = _LINE.match(head)
        if line is None:
            raise RequestRefusedError(_first_line_fault(head), problem="bad-request")
        method, self.target, version = line.groups()
        self.method, self.version = method.decode("ascii"), version.decode("ascii")
        self.headers: list[tuple[bytes, bytes]] = []
        self.expects_continue = False
        #: True if something came after a body in chunks that was not asked for: where it begins is not known.
        self.followed = False
        #: The bytes of the body that came since this was emptied.
        self.piece = b""
        self._length = self._hosts = 0
        self._codings: list[bytes] = []
        self._ended = False
        self._in_head, self.keep_alive = True, False
        parser = self._parser = httptools.HttpRequestParser(self)
        try:
            # As if it were a GET: llhttp does not know all methods, and treats some in ways of their own.
            parser.feed_data(head if method == b"GET" else b"GET" + head[len(method) :])
        except httptools.HttpParserUpgrade:
            # Nothing is changed to: the request is one like any other. But llhttp has not looked for its body's end.
            if self._codings:
                raise RequestRefusedError("an upgrade with a body in chunks", problem="bad-request") from None
        except httptools.HttpParserError as error:
            _check_codings(_CODING.findall(head))
            raise RequestRefusedError(_head_fault(head, reason(error)), problem="bad-request") from error
        if self._in_head:
            raise RequestRefusedError("its head has no end", problem="bad-request")
        _check_codings(self._codings)
        if self._codings and version == b"1.0":
            raise RequestRefusedError("HTTP/1.0 has no chunks", problem="bad-request")
        if self._hosts > 1 or (not self._hosts and version == b"1.1"):
            raise RequestRefusedError(
                f"it must have one header Host, and has {self._hosts or 'none'}", problem="bad-request"
            )
        if not self._codings:
            del self._parser  # else the two would hold each other until the garbage is collected
        # What comes behind its path, if another one with the same may follow.
        is_plain = self.target[:1] == b"/" and not (self._codings or self._length or self.expects_continue)
        self._rest = head[line.end(2) :] if is_plain else None

    def became(self, head: bytes) -> bool:
        """Become the request of this head if only its method and path are other ones: what else it says was read.

        Clients send the same headers with each request of a connection. Of one with a body it is false.
        """
        line = _LINE.match(head)
        if line is None or head[line.end(2) :] != self._rest or head[line.start(2)] != _SLASH:
            return False
        self.method, self.target = line[1].decode("ascii"), line[2]
        return True

    @property
    def is_whole(self) -> bool:
        """True if all of its body has come."""
        return self._ended if self._codings else not self._length

    def feed(self, data: bytearray) -> None:
        """Move the bytes of its body from the data to `piece`. Not to be called if it `is_whole`.

        :raises RequestRefusedError: ``bad-request``
        """
        if not self._codings:
            self.piece += data[: self._length]
            taken = min(self._length, len(data))
            self._length -= taken
            del data[:taken]
            return
        came = bytes(data)
        data.clear()
        try:
            self._parser.feed_data(came)
        except httptools.HttpParserError as error:
            if not self._ended:
                raise RequestRefusedError(_body_fault(reason(error)), problem="bad-request") from error
            self.followed = True

    def in_origin_form(self, scheme: str) -> bytes:
        """The target as a path and query; one in absolute form (RFC 9112, section 3.2.2) has them behind its authority.

        The authority takes the place of ``Host``: what checks that header checks the authority.

        :raises RequestRefusedError: ``bad-request`` if the target is of another ``scheme`` than the connection
        """
        if self.target[:1] == b"/" or (found := _ABSOLUTE.fullmatch(self.target)) is None:
            return self.target
        given = found[1].decode("ascii").lower()
        if given != scheme:
            detail = f"its target begins with {given:.20}://, but here it must be {scheme}://, or the path alone"
            raise RequestRefusedError(detail, problem="bad-request")
        self.headers[:] = [(b"host", found[2]), *(header for header in self.headers if header[0] != b"host")]
        return found[3] if found[3][:1] == b"/" else b"/" + found[3]

    # Called by llhttp

    def on_message_begin(self) -> None:
        """A request begins: this one, or one after it."""
        self.followed = not self._in_head

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer, which is not read: the head must stay as it was checked."""
        if not self._in_head:
            return
        name, value = name.lower(), value.strip(b" \t")
        if name == b"host":
            self._hosts += 1
        elif name == b"content-length":
            self._length = int(value)
        elif name == b"transfer-encoding":
            self._codings.append(value)
        elif name == b"expect":
            self.expects_continue = value.lower() == b"100-continue"
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The head has ended."""
        self._in_head = False
        # Asked later, llhttp has forgotten it.
        self.keep_alive = self.version == "1.1" and self._parser.should_keep_alive()

    def on_body(self, data: bytes) -> None:
        """A piece of a body in chunks."""
        if not self.followed:
            self.piece += data

    def on_message_complete(self) -> None:
        """The body in chunks has ended."""
        self._ended = True


def _check_codings(codings: list[bytes]) -> None:
    """:raises RequestRefusedError: ``not-implemented`` if a body is not in chunks, but in another coding"""
    if codings and [one.lower() for one in codings] != [b"chunked"]:
        raise RequestRefusedError("Transfer-Encoding can only be chunked", problem="not-implemented")


def cannot_become_a_head(beginning: bytearray, looked: int) -> bool:
    """True if no head begins like this, so that waiting for its end is useless; ``looked`` bytes were searched."""
    return _NOT_A_METHOD.match(beginning) is not None or _BARE_END.search(beginning, looked) is not None


def path_in(head: bytes) -> str:
    """The path in the beginning of a request's head; nothing if it is not there."""
    words = head.partition(b"\n")[0].split(b" ", 2)
    if len(words) != 3:
        return ""
    found = _ABSOLUTE.fullmatch(words[1])
    return unquote((found[3] if found else words[1]).partition(b"?")[0].decode("latin-1"))


def accepted_in(head: bytes) -> str:
    """The ``Accept`` in the beginning of a request's head."""
    lines = head.split(b"\n")[1:]
    return ", ".join(line.decode("latin-1").strip() for line in lines if line[:7].lower() == b"accept:")


def beginning_fault(begun: bytes) -> str:
    """The fault of bytes that came in the place of a head."""
    if begun.startswith(_TLS):
        return "this is TLS, and plain HTTP is spoken here: write http:// in place of https://"
    if begun.startswith(_END):
        return "it begins with an empty line: send nothing before its first line"
    if begun[:1].isspace():
        return "it begins with a blank: send nothing before its first line"
    if b"\n" in begun.replace(_END, b""):
        return "a line of its head ends with LF alone: end each with CR LF"
    return "this is not HTTP/1.1"


def _first_line_fault(head: bytes) -> str:
    """The fault of the first line of a head."""
    line = head.partition(_END)[0]
    if not line or line[:1].isspace() or line.startswith(_TLS) or b"\n" in line:
        return beginning_fault(head)
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


def _head_fault(head: bytes, said: str) -> str:
    """The fault of the headers of a head; if none is found, the words of the parser, which ``said`` why."""
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


def _body_fault(said: str) -> str:
    """The fault of a body in chunks, with the words that the parser ``said``."""
    return f"its body in chunks cannot be read: {said}. Each is its length in hexadecimal, CR LF, its bytes and CR LF"
