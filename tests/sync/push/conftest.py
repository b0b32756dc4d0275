"""A machine, its service, and somebody else who changes it."""

from collections.abc import Iterator

import httpx
import pytest

from tests.support.services.running_service import RunningService
from tests.sync.push.machine import Machine


@pytest.fixture
def machine(home: str, service: RunningService) -> Machine:
    return Machine(home, service)


@pytest.fixture
def foreign(service: RunningService) -> Iterator[httpx.Client]:
    with service.client() as client:
        yield client
