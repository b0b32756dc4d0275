"""What holds after each attack."""

from collections.abc import Iterator

import pytest

from tests.support.users.running_console import RunningConsole, Visitor


@pytest.fixture
def unharmed(console: RunningConsole, mine: Visitor) -> Iterator[None]:
    """Everything is as it was, and the pages answer."""
    before = console.content()
    yield
    assert console.content() == before
    assert "Berlin, DE" in mine.get("/?q=10.20.0.1").text
