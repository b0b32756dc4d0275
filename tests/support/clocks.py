"""A clock that stands still until a test moves it."""


class Clock:
    """Callable as `time.monotonic` is; ``now`` is in seconds."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now
