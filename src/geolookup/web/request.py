"""One request as it comes: its head, read strictly, and its body.

llhttp reads it, by way of httptools: it refuses whatever could end in two places. Each request gets its own parser, so
that nothing of one can bear on the next.
"""

import re
from typing import Final
from urllib.parse import unquote

import httptools

from geolookup.base.reasons import reason
from geolookup.errors import RequestRefusedError
from geolookup.web import unreadable

#: The minor version of httptools whose refusals were tested. pyproject.toml allows no other, and a test fails with any
#: other.
TESTED_HTTPTOOLS: Final = "0.9"

#: The end of a head. llhttp accepts no other end of a line, so a head cannot end before it.
END_OF_HEAD: Final = b"\r\n\r\n"

#: RFC 9112, section 3: one space between the parts. llhttp takes more of them, and versions that we do not speak.
_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([!-~]+) HTTP/(1\.[01])\r\n")
#: No method begins so.
_CONTROLS = re.compile(rb"[\x00-\x20\x7f-\xff]")
#: What is to be said of a head that llhttp refused.
_CODING = re.compile(rb"\r\ntransfer-encoding:[ \t]*(.*?)[ \t]*(?=\r\n)", re.IGNORECASE)
_BARE_END = re.compile(rb"(?<!\r)\n")
#: A target in absolute form: its scheme, its authority, and the rest.
_ABSOLUTE = re.compile(rb"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)(.*)")


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
            raise RequestRefusedError(unreadable.first_line(head), problem="bad-request")
        method, self.target, version = line.groups()
        self.method, self.version = method.decode("ascii"), version.decode("ascii")
        self.headers: list[tuple[bytes, bytes]] = []
        self.expects_continue = False
        #: Whether something came after a body in chunks that was not asked for: where it begins is not known.
        self.followed = False
        #: What came of the body since this was emptied.
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
            raise RequestRefusedError(unreadable.header(head, reason(error)), problem="bad-request") from error
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

    @property
    def is_whole(self) -> bool:
        """Whether all of its body has come."""
        return self._ended if self._codings else not self._length

    def feed(self, data: bytearray) -> None:
        """Move what is its body from the data to `piece`. Not to be called if it `is_whole`.

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
                raise RequestRefusedError(unreadable.body(reason(error)), problem="bad-request") from error
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

    # What llhttp calls

    def on_message_begin(self) -> None:
        """A request begins: this one, or one after it."""
        self.followed = not self._in_head

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer, which nobody reads: what was checked of the head must stay as it was."""
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
    """Whether no head begins like this, whatever follows: waiting for its end would be in vain.

    So many bytes were ``looked`` at before.
    """
    return _CONTROLS.match(beginning) is not None or _BARE_END.search(beginning, looked) is not None


def path_in(head: bytes) -> str:
    """The path in the beginning of a request's head; nothing if it is not there."""
    words = head.partition(b"\n")[0].split(b" ", 2)
    if len(words) != 3:
        return ""
    found = _ABSOLUTE.fullmatch(words[1])
    return unquote((found[3] if found else words[1]).partition(b"?")[0].decode("latin-1"))


def accepted_in(head: bytes) -> str:
    """What the beginning of a request's head says that the client accepts."""
    lines = head.split(b"\n")[1:]
    return ", ".join(line.decode("latin-1").strip() for line in lines if line[:7].lower() == b"accept:")
