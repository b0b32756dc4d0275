"""Why the system or a library failed, in plain words: theirs speak of their functions, and not of what a person gave.

A message says what was wrong, where, and what to do. What a library says of it stands as ``__cause__``, for whoever
debugs.
"""

_UNKNOWN = "its content cannot be used"

#: What Python itself says of values, in a ValueError as ours are: readers of a message know nothing of functions.
_PYTHON = (
    r"invalid literal for |could not convert |Exceeds the limit|not enough values|too many values|.*argument must be|"
    r".*positional argument|"
    r".*'\w+' object (is|has|cannot|does)\b|embedded null|Invalid isoformat|.*\bis not in list|unknown format code"
)

#: OpenSSL's numbers for a certificate whose issuer nobody vouches for, and what to do if it is one's own.
_UNKNOWN_ISSUER = (2, 18, 19, 20, 21)
_AUTHORITY = (
    ": if an authority of your own issued it, name that one's file in SSL_CERT_FILE, and set `trust_env = true`"
)
#: What OpenSSL says if the answer is not TLS.
_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE")

#: Where tomllib says that something is.
_AT = r" \(at line (\d+), column (\d+)\)"

#: What libraries say, by the module of the error's class (its first part), and what we say. ``\1`` is what they named.
_WORDS: dict[str, tuple[tuple[str, str], ...]] = {
    "msgspec": (
        (r"Input data was truncated", "it ends too early"),
        (r"JSON is malformed: (.+) \(byte (\d+)\)", r"byte \2: \1"),
        (r"Invalid UTF-8 encoding.*", "it is not UTF-8"),
        (r"Object contains unknown field `([^`]*)`.*", r"unknown name \1"),
        (r"Object missing required field `([^`]*)`.*", r"\1 is missing"),
        (r"Expected `([^`]*)`, got `([^`]*)` - at `\$\.?([^`]+)`", r"\3 must be of type \1, not \2"),
        (r"Expected `([^`]*)`, got `([^`]*)`.*", r"it must be of type \1, not \2"),
        (r"Expected `(\w+)` ([<>]=? \S+)(?: - at .*)?", r"it must be \2"),
    ),
    "json": ((r"(.+): line (\d+) column (\d+) .*", r"line \2, column \3: \1"),),
    "tomllib": (
        (rf"Illegal character '\\n'{_AT}", r"line \1, column \2: a quote is not closed"),
        (rf"Unescaped '\\' in a string{_AT}", r"line \1, column \2: write \\\\ for \\, or put the text between '"),
        (rf"Cannot overwrite a value{_AT}", r"line \1, column \2: the name is there twice"),
        (r"Cannot overwrite a value \(at end of document\)", "its last name is there twice"),
        (rf"Cannot declare \('(.+)',\) twice{_AT}", r"line \2, column \3: the table \1 is there twice"),
        (rf"Invalid value{_AT}", r"line \1, column \2: not a value: text needs quotes"),
        (r"(?:Unterminated string|Expected \"'\") \(at end of document\)", "a quote is not closed"),
        (rf"(.+){_AT}", r"line \2, column \3: \1"),
        (r"(.+) \(at end of document\)", r"at its end: \1"),
    ),
    "_csv": (
        (r"field larger than field limit \((\d+)\)", r"a cell has more than \1 characters: is a quote not closed?"),
        (r"unexpected end of data", "a quote is not closed"),
        (r"line contains NUL", "it contains a zero byte"),
        (r"new-line character seen.*", "a carriage return stands alone"),
        (r"'(.)' expected after '\"'", r"something other than \1 follows a closing quote"),
    ),
    "sqlite3": (
        (r"database disk image is malformed", "the file is damaged"),
        (r"file is not a database", "it is not an SQLite file, or it is damaged"),
        (r"unable to open database file", "opening it failed"),
        (r"attempt to write a readonly database", "it is read-only"),
        (r"database or disk is full", "the disk is full"),
        (r"disk I/O error", "the disk failed"),
        (r"no such (table|column): (.+)", r"the \1 \2 is missing"),
        (r"no more rows available", "the file is damaged"),
    ),
    "zlib": ((r".*incomplete or truncated.*", "it ends too early"), (r".*", "its compressed data are damaged")),
    "_lzma": ((r".*", "its compressed data are damaged"),),
    "lzma": ((r".*", "its compressed data are damaged"),),
    "zipfile": ((r"Bad CRC-32.*", "its checksum is wrong"), (r".*", "it is not a ZIP archive, or it is damaged")),
    "tarfile": ((r"unexpected end of data", "it ends too early"), (r".*", "it is not a tar archive, or it is damaged")),
    "gzip": (
        (r"CRC check failed.*", "its checksum is wrong"),
        (r"Incorrect length.*", "its length is not the one at its end"),
        (r".*", "it is not gzip, or it is damaged"),
    ),
    "httpx": (
        (r"Server disconnected without sending a response\.", "it was closed without an answer"),
        (r"peer closed connection without sending complete message body \(incomplete chunked read\)",
         "the connection ended before its last chunk"),
        (r"peer closed connection without sending complete message body \(received (\d+) bytes, expected (\d+)\)",
         r"\1 of \2 bytes came"),
        (r"illegal status line.*", "its first line is not one of HTTP"),
        (r"timed out", "it was silent for too long"),
        (r"([^`]*[a-z][^`]*)", r"\1"),  # what the protocol asks for, in the words of its standard
    ),
}  # fmt: skip
_WORDS["httpcore"] = _WORDS["h11"] = _WORDS["httptools"] = _WORDS["httpx"]


def reason(error: BaseException) -> str:
    """Why something failed, on one line, in words of ours and of the system's (``No such file or directory``)."""
    kind = type(error)
    if kind.__module__.startswith("geolookup."):
        return str(error)
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is not {error.encoding.upper()}"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, TimeoutError):
        return "it was silent for too long"
    if isinstance(error, EOFError):
        return "it ends too early"
    if isinstance(error, KeyError):
        return f"{error.args[0]!r:.60} is missing" if error.args else _UNKNOWN
    if _is(error, "ssl", "SSLCertVerificationError"):
        said = f"its certificate is not trusted: {getattr(error, 'verify_message', 'no reason was given')}"
        return f"{said}{_AUTHORITY}" if getattr(error, "verify_code", None) in _UNKNOWN_ISSUER else said
    if _is(error, "ssl", "SSLError"):
        name = getattr(error, "reason", None) or "no reason was given"
        plain = ": if it speaks plain HTTP, write http://" if name in _NO_TLS else ""
        return f"TLS failed: {name.replace('_', ' ').lower()}{plain}"
    if _is(error, "socket", "gaierror"):
        return "its name is unknown, or no name server answers"
    import re  # late, as the others are asked for by name: a lookup passes here, and nothing fails

    text = " ".join(str(error).split())
    for form, words in _WORDS.get(kind.__module__.partition(".")[0], ()):
        if (found := re.fullmatch(form, text)) is not None:
            return found.expand(words)
    if isinstance(error, OSError):
        return error.strerror or _UNKNOWN
    if kind is ValueError and text and not re.match(_PYTHON, text):
        return text
    return _UNKNOWN


def _is(error: BaseException, module: str, name: str) -> bool:
    return any((kind.__module__, kind.__name__) == (module, name) for kind in type(error).__mro__)
