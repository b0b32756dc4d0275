"""A share of a state of two sources with a custom block above them, which no test changes."""

from collections.abc import Iterator

import httpx
import pytest

from tests.support.data.two_sources import NAMES, state
from tests.support.services.running_share import RunningShare


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningShare]:
    folder = tmp_path_factory.mktemp("shared")
    with RunningShare(state(folder), folder / "built", editions=NAMES) as running:
        yield running


@pytest.fixture(scope="module")
def client(shared: RunningShare) -> Iterator[httpx.Client]:
    with shared.client() as client:
        yield client
