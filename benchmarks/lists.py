"""Whole lists as a service sends them, each in a file, and a server that does nothing but send one."""

import contextlib
import json
import os
import socket
import threading
from collections.abc import Iterator

import numpy as np

from benchmarks.data import DataSet
from benchmarks.generator import Array
from geolookup.model import addresses
from geolookup.model.types import FIELD_NAMES
from geolookup.sources.blocks import MASKED
from geolookup.sources.detect import open_source
from geolookup.sources.places import Places

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"


def write_generated(path: str, data: DataSet) -> None:
    """The list of a generated data set."""
    _write(
        path,
        (
            (
                place.locid,
                [getattr(place, name) for name in FIELD_NAMES],
                [(family, first, last) for family, first, last, _, _ in place.blocks],
            )
            for place in data.places()
        ),
    )


def write_of_source(path: str, source: str) -> None:
    """What is in a file or folder of another kind, as a list: places are numbered from 1 in the order of the file."""
    parts: dict[int, list[tuple[Array, ...]]] = {4: [], 6: []}
    with open_source(source) as reading:
        for batch in reading.batches():
            parts[4].append(tuple(column.copy() for column in batch.v4))
            parts[6].append(tuple(column.copy() for column in batch.v6))
    places = reading.gathered.places
    grouped = {family: _by_place(found, len(places)) for family, found in parts.items()}
    _write(path, _elements(places, grouped))


def _by_place(parts: list[tuple[Array, ...]], places: int) -> tuple[list[Array], list[int]]:
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    columns = [column[columns[-1] != MASKED] for column in columns]
    order = np.argsort(columns[-1], kind="stable")
    columns = [column[order] for column in columns]
    return columns, np.searchsorted(columns[-1], np.arange(places + 1)).tolist()


def _elements(
    places: Places, grouped: dict[int, tuple[list[Array], list[int]]]
) -> Iterator[tuple[int, list[object], list[tuple[int, int, int]]]]:
    for number in range(len(places)):
        blocks = []
        for family, (columns, bounds) in grouped.items():
            ends = [column[bounds[number] : bounds[number + 1]].tolist() for column in columns[:-1]]
            if family == 4:
                blocks += [(4, first, last) for first, last in zip(*ends, strict=True)]
            else:
                blocks += [(6, a << 64 | b, c << 64 | d) for a, b, c, d in zip(*ends, strict=True)]
        yield number + 1, list(places[number]), blocks


def _write(path: str, elements: Iterator[tuple[int, list[object], list[tuple[int, int, int]]]]) -> None:
    with open(path, "w", encoding="utf-8", buffering=1 << 20) as file:
        before = "["
        for locid, values, blocks in elements:
            head = json.dumps({"locid": locid, **dict(zip(FIELD_NAMES, values, strict=True))}, ensure_ascii=False)
            texts = ",".join([_block(*block) for block in blocks])
            file.write(f'{before}{head[:-1]}, "ipblocks": [{texts}]}}')
            before = ",\n"
        file.write("]\n")


def _block(family: int, first: int, last: int) -> str:
    low, high = (addresses.to_text(4 if family == 4 else 6, end) for end in (first, last))
    return f'{{"startip":"{low}","endip":"{high}","startipnum":{first},"endipnum":{last}}}'


@contextlib.contextmanager
def sent(path: str) -> Iterator[str]:
    """The address of a service whose list is this file. It costs next to nothing beside what is measured."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_send, args=(server, path), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def _send(server: socket.socket, path: str) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:  # shut down
            return
        with connection, open(path, "rb") as file, contextlib.suppress(OSError):
            asked = b""
            while b"\r\n\r\n" not in asked:
                asked += connection.recv(1 << 16)
            connection.sendall(_HEAD % os.path.getsize(path))
            connection.sendfile(file)
