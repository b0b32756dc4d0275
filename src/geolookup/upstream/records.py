"""Records of an answer as JSON that is kept as written: every digit and member, without blanks between tokens."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from geolookup.base import plainjson
from geolookup.base.reasons import reason
from geolookup.base.text import harmless
from geolookup.http.transport import Answer
from geolookup.model.errors import UpstreamAnswerError


def records_of(what: str, answer: Answer, mark: str) -> list[tuple[bytes, dict[str, Any]]]:
    """The objects of an answer, each as its text and as a value (whose floats are Python's).

    The answer is an array of them, one bare object that has a member called ``mark``, or an object with exactly one
    array of objects in it, under any name.

    :raises UpstreamAnswerError: if it is anything else
    """
    text = _compact(what, answer)
    with _readable(what):
        if text[:1] == b"[":
            return [_object(what, item) for item in msgspec.json.decode(text, type=list[msgspec.Raw])]
        if text[:1] == b"{":
            members = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
            if mark in members:
                return [_object(what, msgspec.Raw(text))]
            arrays = [member for member in members.values() if bytes(member)[:1] == b"["]
            if len(arrays) == 1:
                return [_object(what, item) for item in msgspec.json.decode(arrays[0], type=list[msgspec.Raw])]
    raise UpstreamAnswerError(f"{what}: the service answered with JSON, but not with a record or a list of records")


def record_of(what: str, answer: Answer) -> tuple[bytes, dict[str, Any]]:
    """The object that an answer is, as its text and as a value.

    :raises UpstreamAnswerError: if it is not an object
    """
    text = _compact(what, answer)
    with _readable(what):
        return _object(what, msgspec.Raw(text))


def _compact(what: str, answer: Answer) -> bytes:
    if answer.headers.get("content-type", "").lower().startswith("application/problem+json"):
        raise UpstreamAnswerError(f"{what}: the answer is a problem report, though its status says that all is well")
    with _readable(what):
        answer.body.decode("utf-8")  # msgspec ignores bytes that are not UTF-8
        return msgspec.json.format(answer.body, indent=-1)


def _object(what: str, text: msgspec.Raw) -> tuple[bytes, dict[str, Any]]:
    value = plainjson.loads(bytes(text))
    if not isinstance(value, dict):
        raise UpstreamAnswerError(
            f"{what}: the service answered with {harmless(str(value), 60)!r} in place of a record"
        )
    return bytes(text), value


@contextmanager
def _readable(what: str) -> Iterator[None]:
    try:
        yield
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UpstreamAnswerError(f"{what}: the answer is not JSON: {harmless(reason(error))}") from error
