"""No words of a library or of Python reach a person: messages quote their exceptions by way of `base.reasons`."""

import ast
import csv
import functools
import json
import socket
import sqlite3
import ssl
import tomllib
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import msgspec
import pytest

import geolookup
from geolookup.base.reasons import reason
from geolookup.cli.app import run
from geolookup.model import errors

SOURCE = Path(geolookup.__file__).parent

#: What may be quoted as it is, by the file: why.
QUOTED = {
    "ImportError": "it names the package that is missing, and stands behind the command that installs it",
}


@functools.cache
def trees() -> dict[Path, ast.Module]:
    """All of the source, parsed."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}


@functools.cache
def own_errors() -> frozenset[str]:
    found = {name for name in dir(errors) if name.endswith("Error")}
    for tree in trees().values():
        found |= {
            node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name.endswith("Error")
        }
    return frozenset(found)


def quotes(tree: ast.Module, own: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Each place at which an exception of others is written into a text: its line, and the kinds that it may be."""
    for handler in ast.walk(tree):
        if not isinstance(handler, ast.ExceptHandler) or handler.name is None or handler.type is None:
            continue
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        foreign = {ast.unparse(kind) for kind in kinds if ast.unparse(kind).rpartition(".")[2] not in own}
        if not foreign or foreign <= set(QUOTED):
            continue
        for node in ast.walk(handler):
            name = None
            if isinstance(node, ast.FormattedValue):
                name = node.value
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("str", "repr"):
                name = node.args[0]
            if isinstance(name, ast.Name) and name.id == handler.name:
                yield node.lineno, ", ".join(sorted(foreign))


def test_no_message_quotes_an_exception_of_others() -> None:
    own = own_errors()
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {kinds}"
        for path, tree in trees().items()
        if path.name != "reasons.py"
        for line, kinds in quotes(tree, own)
    ]
    # One asks for a text that json raises, and quotes nothing.
    assert found == [f"upstream/decode.py:{line}: ValueError" for line in lines_of("integer string conversion")]


def lines_of(text: str) -> list[int]:
    lines = (SOURCE / "upstream" / "decode.py").read_text(encoding="utf-8").splitlines()
    return [number for number, line in enumerate(lines, start=1) if text in line]


def test_the_search_finds_what_is_quoted() -> None:
    one = "try:\n    f()\nexcept OSError as error:\n    raise StateError(f'{path}: {error}') from error\n"
    assert list(quotes(ast.parse(one), own_errors())) == [(4, "OSError")]
    assert list(quotes(ast.parse(one.replace("{error}", "{error.strerror}")), own_errors())) == []
    assert list(quotes(ast.parse(one.replace("OSError", "StateError")), own_errors())) == []


class _Shape(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    count: int = 0


def _sqlite(statement: str, data: bytes = b"") -> Callable[[], object]:
    def ask() -> object:
        connection = sqlite3.connect(":memory:")
        if data:
            connection.deserialize(data)
        return connection.execute(statement)

    return ask


@pytest.mark.parametrize(
    ("fails", "said"),
    [
        (lambda: msgspec.json.decode(b'{"name": "a", "nmae": 1}', type=_Shape), "unknown name nmae"),
        (lambda: msgspec.json.decode(b"{}", type=_Shape), "name is missing"),
        (lambda: msgspec.json.decode(b'{"name": 1}', type=_Shape), "name must be of type str, not int"),
        (lambda: msgspec.json.decode(b'{"name"'), "it ends too early"),
        (lambda: msgspec.json.decode(b'{"name" 1}'), "byte 8: expected ':'"),
        (lambda: json.loads('{"a" 1}'), "line 1, column 6: Expecting ':' delimiter"),
        (lambda: tomllib.loads("a = \nb"), "line 1, column 5: not a value: text needs quotes"),
        (lambda: tomllib.loads('a = "b\n'), "line 1, column 7: a quote is not closed"),
        (lambda: tomllib.loads("a = 'b"), "a quote is not closed"),
        (lambda: tomllib.loads('a = "b'), "a quote is not closed"),
        (lambda: tomllib.loads('a = "C:\\q"'), r"line 1, column 10: write \\ for \, or put the text between '"),
        (lambda: tomllib.loads("a = 1\na = 2\n"), "line 2, column 6: the name is there twice"),
        (lambda: tomllib.loads("a = 1\na = 2"), "its last name is there twice"),
        (lambda: tomllib.loads("[a]\n[a]"), "line 2, column 3: the table a is there twice"),
        (lambda: tomllib.loads("a b = 1"), "line 1, column 3: Expected '=' after a key in a key/value pair"),
        (lambda: list(csv.reader(['"a"b'], strict=True)), "something other than , follows a closing quote"),
        (_sqlite("SELECT * FROM missing"), "the table missing is missing"),
        (_sqlite("SELECT * FROM x", b"not a database" * 100), "it is not an SQLite file, or it is damaged"),
        (lambda: zlib.decompress(b"abc"), "its compressed data are damaged"),
        (lambda: Path("/nowhere/at/all").read_bytes(), "No such file or directory"),
        (lambda: b"\xff".decode(), "byte 0 is not UTF-8"),
        (lambda: int("x"), "its content cannot be used"),
        (lambda: {}["size"], "'size' is missing"),
        (lambda: len(3), "its content cannot be used"),  # type: ignore[arg-type]
    ],
)
def test_what_others_say_is_said_in_our_words(fails: Callable[[], object], said: str) -> None:
    try:
        fails()
    except Exception as error:
        assert reason(error) == said  # noqa: PT017 - of all kinds
    else:
        pytest.fail("it did not fail")


def test_errors_of_the_network_and_ours() -> None:
    assert reason(socket.gaierror(-2, "Name or service not known")) == "its name is unknown, or no name server answers"
    assert reason(ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)")) == (
        "TLS failed: no reason was given"
    )
    plain = ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)")
    plain.reason = "WRONG_VERSION_NUMBER"
    assert reason(plain) == "TLS failed: wrong version number: if it speaks plain HTTP, write http://"
    assert reason(httpx.RemoteProtocolError("Server disconnected without sending a response.")) == (
        "it was closed without an answer"
    )
    assert reason(errors.InvalidAddressError("'x' is not an IP address")) == "'x' is not an IP address"
    assert reason(ValueError("the second is before the first")) == "the second is before the first"


def test_a_person_is_told_plainly_that_a_service_cannot_be_reached(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        assert run(["doctor", "--url", address]) == 1
    out = capsys.readouterr().out
    assert "Connection refused" in out
    assert "Errno" not in out
