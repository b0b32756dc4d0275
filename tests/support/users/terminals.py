"""A command on a terminal of its own, answered as a person would answer."""

import fcntl
import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Sequence

from tests.support.users.quick_commands import forked

_PATIENCE_S = 60.0


def _without_size() -> dict[str, str]:
    """The environment, without a width that would go before the terminal's own (some test runners set one)."""
    return {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}


def on_terminal(
    arguments: Sequence[str],
    answers: Sequence[tuple[str, str]] = (),
    *,
    columns: int = 80,
    environment: dict[str, str] | None = None,
) -> tuple[int, str]:
    """Run geolookup with a terminal as all three streams: its exit status, and all that stood on the terminal.

    Each of ``answers`` is (text, what is typed once the text stands on the terminal).
    """
    # Ctrl-C meets a process as people start it: the terminal is its own.
    python = [sys.executable] if any("\x03" in typed for _, typed in answers) else forked()
    main, side = pty.openpty()
    termios.tcsetwinsize(side, (24, columns))
    process = subprocess.Popen(
        [*python, "-m", "geolookup", *arguments],
        stdin=side, stdout=side, stderr=side, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that Ctrl-C typed there is a signal
        env={**_without_size(), "TERM": "xterm-256color", **(environment or {})},
    )  # fmt: skip
    os.close(side)
    seen = ""
    waiting = list(answers)
    from_here, typed, quiet = 0, "", 0
    ends = time.monotonic() + _PATIENCE_S
    try:
        while time.monotonic() < ends:
            if not select.select([main], [], [], 0.1)[0]:
                quiet += 1
                # Python does not see a Ctrl-C that comes just before it waits for a line: a person types it again.
                if typed == "\x03" and quiet % 30 == 0:
                    os.write(main, typed.encode())
            else:
                quiet = 0
                try:
                    data = os.read(main, 65536)
                except OSError:  # Linux says so when the last process has closed its side
                    break
                if not data:
                    break
                seen += data.decode("utf-8", "replace")
            while waiting and (at := seen.find(waiting[0][0], from_here)) >= 0:
                from_here = at + len(waiting[0][0])
                typed, quiet = waiting.pop(0)[1], 0
                os.write(main, typed.encode())
        assert not waiting, f"never asked: {waiting[0][0]!r}; seen: {seen}"
        return process.wait(timeout=_PATIENCE_S), seen.replace("\r\n", "\n")
    finally:
        process.kill()
        process.wait()
        os.close(main)
