"""What begins the commands of a page."""

import os
from collections.abc import Iterator

import pytest

from tests.pages.given import ADDRESSES
from tests.support.data.small_data import small_data
from tests.support.users.quick_commands import QuickCommands


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variable that makes a part of the bundled data the whole of it."""
    return {"PYTHONPATH": str(small_data(tmp_path_factory.mktemp("small"), ADDRESSES))}


@pytest.fixture(scope="session")
def quick(small: dict[str, str]) -> Iterator[QuickCommands]:
    """Commands whose imports are done."""
    with QuickCommands({**os.environ, **small}) as commands:
        yield commands
