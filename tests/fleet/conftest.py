"""A builder, and the folder that it publishes to, served."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.served import Builder, Reader, Served, serving


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """The folder, served."""
    with serving(tmp_path / "www") as found:
        yield found


@pytest.fixture
def builder(tmp_path: Path) -> Builder:
    """A builder that has not published yet."""
    return Builder(tmp_path, tmp_path / "www")


@pytest.fixture
def joined(tmp_path: Path, builder: Builder, served: Served) -> Reader:
    """A reader of what the builder published, with one custom geolocation."""
    builder.edit()
    builder.publish()
    found = Reader(tmp_path)
    found.join(served.url, builder.root)
    return found
