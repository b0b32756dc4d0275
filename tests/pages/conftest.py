"""What begins the commands of a page."""

import pytest

from tests.support.users.quick_commands import QuickCommands, shared


@pytest.fixture(scope="session")
def quick() -> QuickCommands:
    """Commands whose imports are done."""
    return shared()
