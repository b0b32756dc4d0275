"""Tokens, as bearer (RFC 6750) or basic (RFC 7617) credentials.

The known ones, what each may do, and following the file of their hashes.
"""

import base64
import binascii
import contextlib
import enum
import hashlib
import logging
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from geolookup.model.errors import SettingsError

logger = logging.getLogger("geolookup.service")

#: The variable that holds token lines, used if there is no file; several are separated by ``;`` or line ends.
VARIABLE = "GEOLOOKUP_SERVE_TOKENS"

_MAX_FILE_BYTES = 1 << 20
_MAX_TOKENS = 1000
_MAX_HEADER = 512
_LOOK_EVERY_S = 1.0
_PREFIX = "glk_"
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})", re.ASCII)
_BASIC = re.compile(r"basic +([A-Za-z0-9+/]+=*) *", re.ASCII | re.IGNORECASE)
_BEARER = re.compile(r"bearer +([A-Za-z0-9._~+/-]+=*) *", re.ASCII | re.IGNORECASE)


class Scope(enum.IntEnum):
    """The rights of a token. A token that may write may also read."""

    READ = 1
    WRITE = 2

    @property
    def word(self) -> str:
        """The word for it in files and headers."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Client:
    """A client that has a token: its name is not secret, and appears in logs."""

    name: str
    scope: Scope


#: By the hashes of the tokens.
Keys = dict[bytes, Client]


def new_token() -> str:
    """A token of 256 random bits; its prefix lets scanners for leaked secrets find it."""
    return _PREFIX + secrets.token_urlsafe(32)


def line_for(name: str, scope: Scope, token: str) -> str:
    """The line that a file of tokens keeps: it identifies the token, and does not reveal it.

    :raises SettingsError: if the name is not valid
    """
    if not _NAME.fullmatch(name):
        raise SettingsError(f"{name!r:.80}: a token's name is 1 to 64 of the characters A-Z, a-z, 0-9, dot, - and _")
    return f"{name} {scope.word} sha256:{_digest(token).hex()}"


def _digest(token: str) -> bytes:
    # A fast hash without salt is right here, though not for passwords: nobody can guess 256 random bits, and with a
    # slow hash anybody could keep this process busy with wrong tokens.
    return hashlib.sha256(token.encode("ascii", "replace")).digest()


def parse(lines: Iterable[str], where: str) -> Keys:
    """Token lines: name, scope and hash, separated by blanks; ``#`` begins a comment.

    :raises SettingsError: if a line is not of this form (the message names it), or there are no tokens or too many
    """
    keys: Keys = {}
    for number, line in enumerate(lines, start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        # The line itself is not shown: someone may have put a token there.
        name, scope, digest = words if len(words) == 3 else ("", "", "")
        found = _DIGEST.fullmatch(digest)
        if not _NAME.fullmatch(name) or scope not in ("read", "write") or found is None:
            raise SettingsError(
                f"{where}, line {number}: is not `NAME read|write sha256:…`: make one with `geolookup serve-token`"
            )
        digest_bytes = bytes.fromhex(found[1])
        if digest_bytes in keys:
            raise SettingsError(f"{where}, line {number}: the same token is given twice: remove one of the lines")
        keys[digest_bytes] = Client(name, Scope[scope.upper()])
    if not keys:
        raise SettingsError(f"{where}: holds no token: make one with `geolookup serve-token`")
    if len(keys) > _MAX_TOKENS:
        raise SettingsError(f"{where}: holds more than {_MAX_TOKENS} tokens")
    return keys


class Tokens:
    """The tokens that a service knows.

    A file is looked at once a second at most, in a request; while it cannot be used, the tokens from before are good.
    ``reloaded`` is called for each change, with whether it could be used.
    """

    def __init__(
        self,
        keys: Keys,
        *,
        path: str | None = None,
        seen: object = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keys = keys
        self._path = path
        self._seen = seen
        self._clock = clock
        self._looked = clock()
        self.reloaded: Callable[[bool], None] = lambda _good: None

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str] | None,
        *,
        environ: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> "Tokens | None":
        """From the file, else from `VARIABLE`; None if neither is given.

        :raises SettingsError: if both are given, or the given one cannot be used
        """
        text = (os.environ if environ is None else environ).get(VARIABLE, "")
        if path is None:
            return cls(parse(re.split(r"[;\n]", text), VARIABLE), clock=clock) if text.strip() else None
        if text.strip():
            raise SettingsError(f"{VARIABLE} is set and a file of tokens is given: use one of the two")
        path = os.path.abspath(path)
        seen = _look(path)
        return cls(_read(path), path=path, seen=seen, clock=clock)

    def find(self, authorization: str, *, basic: bool = False) -> Client | None:
        """Whose token the header ``Authorization`` has, None if the token is not known.

        With ``basic`` it may also be the password of basic credentials, of any user.
        """
        if len(authorization) > _MAX_HEADER:
            return None
        given = _BEARER.fullmatch(authorization)
        token = given[1] if given is not None else _password(authorization) if basic else None
        return None if token is None else self.of(token)

    def keys(self) -> Keys:
        """The tokens as they are now: another object after each change."""
        self._follow()
        return self._keys

    def of(self, token: str) -> Client | None:
        """Whose token this is, None if it is not known."""
        # The time that it takes may tell something of the known hashes, from which nobody can make a token.
        return None if len(token) > _MAX_HEADER else self.keys().get(_digest(token))

    def _follow(self) -> None:
        if self._path is None or self._clock() - self._looked < _LOOK_EVERY_S:
            return
        self._looked = self._clock()
        seen = _look(self._path)
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._keys = _read(self._path)
        except SettingsError as error:
            # No stack trace: the problem is in the file, and the message names it.
            logger.error("%s; the tokens from before remain valid", error)  # noqa: TRY400
            self.reloaded(False)
        else:
            logger.warning("%s: read again, %d tokens", self._path, len(self._keys))
            self.reloaded(True)


def _password(authorization: str) -> str | None:
    """The password of basic credentials; None if the header has none."""
    given = _BASIC.fullmatch(authorization)
    if given is None:
        return None
    try:
        _user, colon, password = base64.b64decode(given[1], validate=True).decode("ascii").partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return password if colon else None


def _look(path: str) -> object:
    """The stamp of the file, with its mode and owner, since correcting them can make the file usable."""
    try:
        found = os.stat(path)
    except OSError as error:
        return error.errno
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode, found.st_uid


def _read(path: str) -> Keys:
    try:
        # Without waiting for a writer if it is a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        advice = ": `geolookup serve-token` makes one" if isinstance(error, FileNotFoundError) else ""
        raise SettingsError(f"{path}: the tokens cannot be read: {error.strerror}{advice}") from error
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, descriptor)
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise SettingsError(f"{path}: is not a file")
        if found.st_uid != os.geteuid():
            raise SettingsError(f"{path}: belongs to another user than the service: run `chown` on it")
        if stat.S_IMODE(found.st_mode) & 0o077:
            raise SettingsError(f"{path}: can be read or changed by others: run `chmod 600 {path}`")
        file = stack.enter_context(os.fdopen(descriptor, "rb", closefd=False))
        data = file.read(_MAX_FILE_BYTES + 1)
    if len(data) > _MAX_FILE_BYTES:
        raise SettingsError(f"{path}: has more than {_MAX_FILE_BYTES} bytes: this is not a file of tokens")
    try:
        return parse(data.decode("utf-8").splitlines(), path)
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: is not text in UTF-8") from error


def append(path: str, line: str) -> None:
    """Add a token line to a file, which is made if there is none: readable by its owner only.

    :raises SettingsError: if the file cannot be written, or others could read it
    """
    with contextlib.ExitStack() as stack:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
            file = stack.enter_context(os.fdopen(descriptor, "r+b"))
            if stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o077:
                raise SettingsError(f"{path}: can be read or changed by others: run `chmod 600 {path}`")
            file.seek(0)
            text = file.read(_MAX_FILE_BYTES)
            file.write((b"" if not text or text.endswith(b"\n") else b"\n") + line.encode("ascii") + b"\n")
        except OSError as error:
            raise SettingsError(f"{path}: the token cannot be kept there: {error.strerror}") from error
