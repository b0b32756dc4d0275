"""SIGTERM as an interrupt, for commands."""

from types import FrameType
from typing import NoReturn


class Terminated(KeyboardInterrupt):
    """SIGTERM, where `terminate` handles it: what ends tidily at Ctrl-C ends so at SIGTERM."""


def terminate(_number: int, _frame: FrameType | None) -> NoReturn:
    """Handle SIGTERM as Python handles SIGINT.

    :raises Terminated: always
    """
    raise Terminated
